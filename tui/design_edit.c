// Edits of a design: single layers, typed values, generators, keys.
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/gen.h"
#include "tui/design_state.h"

// ---- edits --------------------------------------------------------------------------------------

// One layer's part of an edit; false with the reason.
typedef bool edit_layer(struct design *d, int layer, double amount, char *why);

static bool edit_range(struct design *d, edit_layer *edit, double amount, char *why)
{
    char reason[DESIGN_WHY], where[32], what[DESIGN_WHAT];
    bool mine[SPEC_MAX_LAYERS] = {false};
    int first, last, moved = 0;

    why[0] = 0;
    design_range(d, &first, &last);
    for (int i = first; i <= last; i++) {
        mine[i] = true;
        reason[0] = 0;
        if (d->locked[i])
            snprintf(reason, sizeof reason, "layer %d is locked (L unlocks)", i);
        else if (edit(d, i, amount, reason))
            moved++;
        if (!reason[0])
            continue;
        if (!why[0] && (first == last || d->locked[i]))
            snprintf(why, DESIGN_WHY, "%s", reason);
        else if (!why[0])
            snprintf(why, DESIGN_WHY, "layer %d: %.200s", i, reason);
    }
    if (moved == 0)
        return false;
    if (!design_make_up(d, mine, why)) {
        design_back(d);
        return false;
    }
    design_range_words(d, where, sizeof where);
    snprintf(what, sizeof what, "%s of %s", lane_name(d->lane), where);
    design_finish_edit(d, what);
    return true;
}

static bool step_layer(struct design *d, int layer, double steps, char *why)
{
    return gen_step(&d->spec.model, d->lane, layer, (int)steps, why, DESIGN_WHY);
}

static bool set_layer(struct design *d, int layer, double v, char *why)
{
    return gen_set(&d->spec.model, d->lane, layer, v, why, DESIGN_WHY);
}

static bool scale_layer(struct design *d, int layer, double factor, char *why)
{
    return set_layer(d, layer, d->spec.model.lane[d->lane][layer] * factor, why);
}

static bool add_layer(struct design *d, int layer, double sum, char *why)
{
    return set_layer(d, layer, d->spec.model.lane[d->lane][layer] + sum, why);
}

bool design_step(struct design *d, int steps, char *why)
{
    return edit_range(d, step_layer, steps, why);
}

// A typed number that no layer can have: which one they got instead.
static void say_nearest(const struct design *d, double v, char *why)
{
    int first, last;

    design_range(d, &first, &last);
    for (int i = first; i <= last && !why[0]; i++)
        if (!d->locked[i] && d->spec.model.lane[d->lane][i] != v)
            snprintf(why, DESIGN_WHY, "%d is the nearest legal value to %g",
                     d->spec.model.lane[d->lane][i], v);
}

bool design_type(struct design *d, const char *text, char *why)
{
    edit_layer *edit = set_layer;
    double v, sign = 1;

    while (isspace((unsigned char)*text))
        text++;
    if (*text == '*' || *text == '+' || *text == '-') {
        edit = *text == '*' ? scale_layer : add_layer;
        sign = *text == '-' ? -1 : 1;
        text++;
    }
    if (!unit_parse_float(text, &v) || v < 0) {
        snprintf(why, DESIGN_WHY, "'%.100s' is no value, expected a number, *factor, +sum or -sum",
                 text);
        return false;
    }
    if (!edit_range(d, edit, sign * v, why))
        return false;
    if (edit == set_layer)
        say_nearest(d, v, why);
    return true;
}

// kv heads that stay while query heads change must still divide them.
static bool kv_heads_divide(const struct model_spec *m, char *why)
{
    for (int i = 0; i < m->n_layers; i++) {
        int heads = m->lane[LANE_HEADS][i], kv = m->lane[LANE_KV][i];

        if (kv > 0 ? heads % kv == 0 : heads == 0)
            continue;
        snprintf(why, DESIGN_WHY,
                 "layer %d would have %d heads, which its %d kv heads do not divide", i, heads, kv);
        return false;
    }
    return true;
}

// With the budget held a generated FFN lane keeps its shape and is scaled as a whole.
static bool make_up_lane(struct design *d, char *why)
{
    if (d->hold && d->lane == LANE_FFN)
        memcpy(d->held, d->spec.model.lane[LANE_FFN], sizeof d->held);
    return design_make_up(d, NULL, why);
}

static bool generate(struct design *d, const struct lane_source *source, char *why)
{
    struct err err = ERR_INIT;
    int kv_ratio = d->spec.model.source[d->lane].kv_ratio;
    int shared = spec_kv_ratio(&d->spec.model);

    why[0] = 0;
    design_back(d);
    d->spec.model.source[d->lane] = *source;
    d->spec.model.source[d->lane].kv_ratio = kv_ratio;
    // query heads carry their kv heads along, as single steps do
    if (d->lane == LANE_HEADS && shared > 0)
        d->spec.model.source[LANE_KV].kv_ratio = shared;
    if (gen_apply(&d->spec.model, d->lane, &err) < 0) {
        snprintf(why, DESIGN_WHY, "%.250s", err.text);
    } else {
        design_keep_locked(d);
        if (kv_heads_divide(&d->spec.model, why) && make_up_lane(d, why)) {
            design_recount(d);
            return true;
        }
    }
    design_back(d);
    return false;
}

bool design_preview(struct design *d, const struct lane_source *source, char *why)
{
    d->previewing = generate(d, source, why);
    return d->previewing;
}

void design_preview_end(struct design *d)
{
    if (d->previewing)
        design_back(d);
    d->previewing = false;
}

bool design_generate(struct design *d, const struct lane_source *source, char *why)
{
    d->previewing = false;
    if (!generate(d, source, why))
        return false;
    char text[DESIGN_WHAT - 16], what[DESIGN_WHAT];

    shape_format(source, text, sizeof text);
    snprintf(what, sizeof what, "%s: %s", lane_name(d->lane), text);
    design_commit(d, what); // even when no value changed: the lane has a generator now
    design_hold_here(d);
    return true;
}

// ---- keys ---------------------------------------------------------------------------------------

static void add_reason(char *why, const struct spec_key *key, const struct problem *p)
{
    size_t n = strlen(why);
    const char *gap = n ? "; " : "";

    if (!p->path[0] || !strcmp(p->path, key->path))
        snprintf(why + n, DESIGN_WHY - n, "%s%s", gap, p->err.text);
    else
        snprintf(why + n, DESIGN_WHY - n, "%s%s: %s", gap, p->path, p->err.text);
}

// Of errors the one about the key itself, else the first; without errors all that is said.
static void reasons(char *why, const struct spec_key *key, const struct problems *problems)
{
    const struct problem *error = NULL;

    why[0] = 0;
    for (int i = 0; i < problems->n; i++) {
        const struct problem *p = &problems->v[i];

        if (p->severity != SEV_ERROR)
            continue;
        if (!error || (!strncmp(p->path, key->path, strlen(key->path)) &&
                       strncmp(error->path, key->path, strlen(key->path))))
            error = p;
    }
    for (int i = 0; i < problems->n && !error; i++)
        add_reason(why, key, &problems->v[i]);
    if (error)
        add_reason(why, key, error);
}

static bool moves_locked(const struct design *d, char *why)
{
    const struct spec *was = &d->undo[d->at]->spec;

    for (int i = 0; i < d->spec.model.n_layers; i++)
        for (int lane = 0; lane < LANE_COUNT; lane++)
            if (d->locked[i] && d->spec.model.lane[lane][i] != was->model.lane[lane][i]) {
                snprintf(why, DESIGN_WHY, "layer %d is locked, and its %s would become %d", i,
                         lane_name((enum lane)lane), d->spec.model.lane[lane][i]);
                return true;
            }
    return false;
}

// A key that changes what is held, such as d_model: the FFN widths it leaves make up for it.
static bool make_up_key(struct design *d, char *why)
{
    double before = budget_value(d->budget.kind, &d->undo[d->at]->spec, &d->count);

    design_recount(d);
    return budget_value(d->budget.kind, &d->spec, &d->count) == before ||
           design_make_up_anew(d, why);
}

bool design_preview_key(struct design *d, const struct spec_key *key, const char *text, char *why)
{
    struct problems problems = {0};
    bool done;

    design_back(d);
    done = profile_set(&d->spec, key->path, text, &problems) == 0;
    reasons(why, key, &problems);
    problems_release(&problems);
    if (done && d->spec.model.n_layers != d->undo[d->at]->spec.model.n_layers)
        memset(d->locked, 0, sizeof d->locked); // they were about other layers
    else if (done && moves_locked(d, why))
        done = false;
    if (done && d->hold)
        done = make_up_key(d, why);
    if (!done)
        design_back(d);
    d->previewing = done;
    design_keep_cursor(d);
    design_recount(d);
    return done;
}

bool design_set_key(struct design *d, const struct spec_key *key, const char *text, char *why)
{
    bool done = design_preview_key(d, key, text, why);

    d->previewing = false;
    if (done && memcmp(&d->spec, &d->undo[d->at]->spec, sizeof d->spec) != 0) {
        design_push(d, key->path);
        design_hold_here(d);
    }
    return done;
}
