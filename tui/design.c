#include "tui/design.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "tui/design_state.h"

const char *lane_name(enum lane lane)
{
    static const char *const names[LANE_COUNT] = {"ffn width", "heads", "kv heads", "reuse"};

    return names[lane];
}

// ---- states -------------------------------------------------------------------------------------

void design_recount(struct design *d)
{
    count_model(&d->spec, &d->count);
    d->counts++;
}

void design_keep_cursor(struct design *d)
{
    int last = d->spec.model.n_layers - 1;

    d->cursor = d->cursor > last ? last : d->cursor;
    d->anchor = d->anchor > last ? last : d->anchor;
}

void design_back(struct design *d)
{
    const struct design_state *now = d->undo[d->at];

    d->spec = now->spec;
    memcpy(d->locked, now->locked, sizeof d->locked);
    design_keep_cursor(d);
    design_recount(d);
}

static void forget_from(struct design *d, int from)
{
    for (int i = from; i < d->n_undo; i++)
        free(d->undo[i]);
    d->n_undo = from;
}

void design_push(struct design *d, const char *what)
{
    struct design_state *s = xcalloc(1, sizeof *s);

    forget_from(d, d->at + 1);
    s->spec = d->spec;
    memcpy(s->locked, d->locked, sizeof s->locked);
    s->hold = d->hold;
    snprintf(s->what, sizeof s->what, "%s", what);
    d->undo = xrealloc(d->undo, (size_t)d->n_undo + 1, sizeof *d->undo);
    d->undo[d->n_undo] = s;
    d->at = d->n_undo++;
    d->changes++;
}

// Lanes that were drawn no longer come from where the profile says.
static void forget_origins(struct design *d)
{
    for (int i = 0; i < spec_key_count; i++)
        if (!spec_key_equal(&spec_keys[i], &d->spec, &d->undo[d->at]->spec))
            d->spec.origin[i] = (struct spec_origin){.kind = ORIGIN_NONE};
}

void design_commit(struct design *d, const char *what)
{
    forget_origins(d);
    design_recount(d);
    design_push(d, what);
}

void design_finish_edit(struct design *d, const char *what)
{
    if (spec_equal(&d->spec, &d->undo[d->at]->spec))
        design_back(d); // sources too: a step up and down again is no edit
    else
        design_commit(d, what);
}

// ---- another profile ----------------------------------------------------------------------------

void design_set_spec(struct design *d, const struct spec *spec, const char *path)
{
    forget_from(d, 0);
    design_forget_texts(d);
    d->spec = *spec;
    snprintf(d->path, sizeof d->path, "%s", path);
    d->warnings = d->notes = 0;
    d->lane = LANE_FFN;
    d->cursor = d->anchor = 0;
    d->selecting = d->previewing = false;
    d->at = -1;
    memset(d->locked, 0, sizeof d->locked);
    d->hold = d->pen.down = d->unsaved = false;
    design_push(d, "as opened");
    d->saved = d->spec;
    design_recount(d);
    design_pin(d);
    snprintf(d->reference_name, sizeof d->reference_name, "%s as opened", spec->name);
}

void design_free(struct design *d)
{
    if (!d)
        return;
    forget_from(d, 0);
    design_forget_texts(d);
    free(d->undo);
    free(d->texts);
    free(d);
}

// ---- cursor and selection -----------------------------------------------------------------------

void design_range(const struct design *d, int *first, int *last)
{
    int other = d->selecting ? d->anchor : d->cursor;

    *first = d->cursor < other ? d->cursor : other;
    *last = d->cursor < other ? other : d->cursor;
}

void design_range_words(const struct design *d, char *out, size_t size)
{
    int first, last;

    design_range(d, &first, &last);
    if (first == last)
        snprintf(out, size, "layer %d", first);
    else
        snprintf(out, size, "layers %d-%d", first, last);
}

void design_move(struct design *d, int layer)
{
    int last = d->spec.model.n_layers - 1;

    d->cursor = layer < 0 ? 0 : layer > last ? last : layer;
}

// ---- undo and reference -------------------------------------------------------------------------

bool design_go(struct design *d, int at)
{
    design_preview_end(d);
    design_pen_cancel(d);
    if (at < 0 || at >= d->n_undo)
        return false;
    d->at = at;
    d->changes++;
    d->hold = d->undo[at]->hold && d->budget.kind != BUDGET_KINDS;
    design_back(d);
    design_hold_here(d);
    return true;
}

bool design_undo(struct design *d)
{
    return design_go(d, d->at - 1);
}

bool design_redo(struct design *d)
{
    return design_go(d, d->at + 1);
}

void design_set_reference(struct design *d, const struct spec *spec, const char *name)
{
    d->reference = *spec;
    count_model(spec, &d->reference_count);
    snprintf(d->reference_name, sizeof d->reference_name, "%s", name);
}

void design_pin(struct design *d)
{
    d->reference = d->spec;
    d->reference_count = d->count;
    snprintf(d->reference_name, sizeof d->reference_name, "%s, edit %d", d->spec.name, d->at);
}
