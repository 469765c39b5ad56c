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
    snprintf(s->what, sizeof s->what, "%s", what);
    d->undo = xrealloc(d->undo, (size_t)d->n_undo + 1, sizeof *d->undo);
    d->undo[d->n_undo] = s;
    d->at = d->n_undo++;
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

// ---- opening and saving -------------------------------------------------------------------------

void design_set_spec(struct design *d, const struct spec *spec, const char *path)
{
    forget_from(d, 0);
    d->spec = *spec;
    snprintf(d->path, sizeof d->path, "%s", path);
    d->warnings = 0;
    d->lane = LANE_FFN;
    d->cursor = d->anchor = 0;
    d->selecting = d->previewing = false;
    d->at = -1;
    memset(d->locked, 0, sizeof d->locked);
    d->hold = false;
    design_push(d, "as opened");
    d->saved = d->spec;
    design_recount(d);
    design_pin(d);
    snprintf(d->reference_name, sizeof d->reference_name, "%s as opened", spec->name);
}

static int load(const char *path, struct spec *spec, int *warnings, struct err *err)
{
    struct problems problems = {0};
    int rc = path ? profile_load(path, NULL, 0, spec, &problems)
                  : profile_parse("default", profile_default_yaml, strlen(profile_default_yaml),
                                  NULL, 0, spec, &problems);

    *warnings = 0;
    for (int i = 0; i < problems.n; i++)
        *warnings += problems.v[i].severity == SEV_WARNING;
    for (int i = 0; i < problems.n && rc < 0; i++)
        if (problems.v[i].severity == SEV_ERROR) {
            const struct problem *p = &problems.v[i];

            *err = p->err;
            if (p->path[0])
                snprintf(err->text, sizeof err->text, "%s: %.800s", p->path, p->err.text);
            break;
        }
    problems_release(&problems);
    return rc;
}

struct design *design_new(void)
{
    struct design *d = xcalloc(1, sizeof *d);
    struct err err = ERR_INIT;
    struct spec *spec = xcalloc(1, sizeof *spec);
    char text[512];
    int warnings;

    if (load(NULL, spec, &warnings, &err) < 0)
        BUG("the embedded profile: %s", err_format(&err, text, sizeof text));
    d->budget.kind = BUDGET_KINDS;
    design_set_spec(d, spec, "");
    free(spec);
    return d;
}

void design_free(struct design *d)
{
    if (!d)
        return;
    forget_from(d, 0);
    free(d->undo);
    free(d);
}

int design_open(struct design *d, const char *path, struct err *err)
{
    struct spec *spec = xcalloc(1, sizeof *spec);
    int warnings, rc = load(path, spec, &warnings, err);

    if (rc == 0) {
        design_set_spec(d, spec, path);
        d->warnings = warnings;
    }
    free(spec);
    return rc;
}

bool design_dirty(const struct design *d)
{
    return !spec_equal(&d->undo[d->at]->spec, &d->saved);
}

// Whether the name is only that of the file: nobody chose another.
static bool name_follows_file(const struct design *d)
{
    enum origin_kind kind = d->spec.origin[spec_key_find("name") - spec_keys].kind;
    char file[SPEC_NAME_SIZE];

    if (kind == ORIGIN_DERIVED)
        return true;
    if (!d->path[0])
        return kind != ORIGIN_NONE;
    return !strcmp(d->spec.name, profile_file_name(d->path, file));
}

// In all states: an undo after saving under a new name does not bring the old one back.
static void rename_profile(struct design *d, const char *name)
{
    char old[SPEC_NAME_SIZE];

    snprintf(old, sizeof old, "%s", d->spec.name);
    snprintf(d->spec.name, sizeof d->spec.name, "%s", name);
    for (int i = 0; i < d->n_undo; i++)
        if (!strcmp(d->undo[i]->spec.name, old))
            snprintf(d->undo[i]->spec.name, sizeof d->undo[i]->spec.name, "%s", name);
}

// What is written to path: a name that followed the file follows it there.
static struct spec *spec_for_file(const struct design *d, const char *path)
{
    struct spec *spec = xmalloc(sizeof *spec);

    *spec = d->spec;
    if (strcmp(path, d->path) && name_follows_file(d))
        profile_file_name(path, spec->name);
    return spec;
}

int design_save_changes(const struct design *d, const char *path, bool *keeps_text)
{
    struct spec *spec = spec_for_file(d, path);
    int changes = profile_save_changes(path, spec, keeps_text);

    free(spec);
    return changes;
}

int design_save(struct design *d, const char *path, struct err *err)
{
    struct spec *spec = spec_for_file(d, path);
    int rc;

    rc = profile_save(path, spec, err);
    if (rc == 0) {
        rename_profile(d, spec->name);
        if (path != d->path)
            snprintf(d->path, sizeof d->path, "%s", path);
        d->saved = d->spec;
    }
    free(spec);
    return rc;
}

bool design_key_differs(const struct spec_key *key, const struct spec *a, const struct spec *b)
{
    int lane = key->type == KEY_LANE ? (int)key->size : 0;
    const struct lane_source *x = &a->model.source[lane], *y = &b->model.source[lane];

    if (spec_key_equal(key, a, b))
        return false;
    if (key->type != KEY_LANE || x->shape != SHAPE_NUMBER || y->shape != SHAPE_NUMBER)
        return true;
    return a->model.lane[lane][0] != b->model.lane[lane][0];
}

bool design_sets(const struct design *d, struct buf *out)
{
    const char *space = "";

    for (int i = 0; i < spec_key_count; i++) {
        const struct spec_key *k = &spec_keys[i];
        struct buf text = {0};
        bool is_plain, has_quote;

        if (spec_key_equal(k, &d->saved, &d->spec))
            continue;
        profile_value_text(k, &d->spec, &text);
        is_plain = !strpbrk(text.data, " \t'\"\\$`!*?[]{}()<>|&;#~");
        has_quote = strchr(text.data, '\'') != NULL;
        buf_fmt(out, is_plain ? "%s--set %s=%s" : "%s--set '%s=%s'", space, k->path, text.data);
        buf_release(&text);
        if (has_quote)
            return false;
        space = " ";
    }
    return true;
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

static bool go_to(struct design *d, int at)
{
    design_preview_end(d);
    if (at < 0 || at >= d->n_undo)
        return false;
    d->at = at;
    design_back(d);
    design_hold_here(d);
    return true;
}

bool design_undo(struct design *d)
{
    return go_to(d, d->at - 1);
}

bool design_redo(struct design *d)
{
    return go_to(d, d->at + 1);
}

void design_pin(struct design *d)
{
    d->reference = d->spec;
    d->reference_count = d->count;
    snprintf(d->reference_name, sizeof d->reference_name, "%s, edit %d", d->spec.name, d->at);
}
