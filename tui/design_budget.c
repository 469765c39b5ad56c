// A design and its budget: the target, matching, holding, locks.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "tui/design_state.h"

// ---- locks --------------------------------------------------------------------------------------

void design_lock(struct design *d)
{
    char where[32], what[DESIGN_WHAT];
    bool all = true;
    int first, last;

    design_range(d, &first, &last);
    for (int i = first; i <= last; i++)
        all = all && d->locked[i];
    for (int i = first; i <= last; i++)
        d->locked[i] = !all;
    design_range_words(d, where, sizeof where);
    snprintf(what, sizeof what, "%s %s", all ? "unlock" : "lock", where);
    design_push(d, what);
}

void design_keep_locked(struct design *d)
{
    const struct model_spec *was = &d->undo[d->at]->spec.model;
    struct model_spec *m = &d->spec.model;

    for (int lane = 0; lane < LANE_COUNT; lane++)
        for (int i = 0; i < m->n_layers; i++) {
            if (!d->locked[i] || m->lane[lane][i] == was->lane[lane][i])
                continue;
            m->lane[lane][i] = was->lane[lane][i];
            m->source[lane].shape = SHAPE_LIST;
        }
}

// ---- the target ---------------------------------------------------------------------------------

// The next word of *text; "" at the end.
static const char *next_word(const char **text, char *out, size_t size)
{
    size_t len;

    *text += strspn(*text, " \t");
    len = strcspn(*text, " \t");
    snprintf(out, size, "%.*s", (int)(len < size ? len : size - 1), *text);
    *text += len;
    return out;
}

static bool parse_target(const struct design *d, const char *word, struct design_budget *b,
                         char *why)
{
    struct err err = ERR_INIT;

    b->follows_reference = word[0] && !strncmp("reference", word, strlen(word));
    if (b->follows_reference) {
        b->target = budget_value(b->kind, &d->reference, &d->reference_count);
        return true;
    }
    if (budget_parse(b->kind, word, &b->target, &err) == 0)
        return true;
    snprintf(why, DESIGN_WHY, "%.200s, or 'reference'", err.text);
    return false;
}

// What stands in for the parts of a text that were left out.
static struct design_budget usual_budget(const struct design *d)
{
    struct design_budget b = d->budget;

    if (b.kind == BUDGET_KINDS)
        b = (struct design_budget){.kind = BUDGET_PARAMS, .follows_reference = true};
    if (b.follows_reference)
        b.target = budget_value(b.kind, &d->reference, &d->reference_count);
    return b;
}

double design_budget_target(const struct design *d)
{
    return usual_budget(d).target;
}

static bool parse_budget(const struct design *d, const char *text, struct design_budget *b,
                         char *why)
{
    char word[64];
    enum budget kind;

    *b = usual_budget(d);
    next_word(&text, word, sizeof word);
    kind = budget_find(word);
    if (kind != BUDGET_KINDS) {
        if (kind != b->kind) // another quantity's target means nothing here
            *b = (struct design_budget){
                kind, budget_value(kind, &d->reference, &d->reference_count), true};
        next_word(&text, word, sizeof word);
    }
    if (word[0] && !parse_target(d, word, b, why))
        return false;
    if (!next_word(&text, word, sizeof word)[0])
        return true;
    snprintf(why, DESIGN_WHY, "'%s' is one word too many", word);
    return false;
}

static void forget_hold(struct design *d)
{
    d->hold = false;
    for (int i = 0; i < d->n_undo; i++)
        d->undo[i]->hold = false;
}

bool design_set_budget(struct design *d, const char *text, char *why)
{
    struct design_budget b;

    why[0] = 0;
    if (!strcmp(text, "none") || !text[0]) {
        d->budget.kind = BUDGET_KINDS;
        forget_hold(d);
        return true;
    }
    if (!parse_budget(d, text, &b, why))
        return false;
    d->budget = b;
    forget_hold(d); // it held another target
    return true;
}

// ---- matching -----------------------------------------------------------------------------------

static enum solve_by parse_way(const struct design *d, const char **text)
{
    const char *rest = *text;
    char word[64];

    next_word(&rest, word, sizeof word);
    for (int i = 0; i < SOLVE_WAYS; i++)
        if (!strcmp(word, solve_names[i])) {
            *text = rest;
            return (enum solve_by)i;
        }
    return d->lane == LANE_HEADS ? SOLVE_HEADS : SOLVE_FFN;
}

static void residual_words(const struct design_budget *b, const struct solved *s, char *why)
{
    char value[UNIT_SIZE], gap[UNIT_SIZE];

    if (s->residual == 0)
        snprintf(why, DESIGN_WHY, "%s %s: exact", budget_rows[b->kind].name,
                 budget_text(b->kind, s->value, value));
    else
        snprintf(why, DESIGN_WHY, "%s %s: %s%s, %+.4f%%; %s", budget_rows[b->kind].name,
                 budget_text(b->kind, s->value, value), s->residual < 0 ? "-" : "+",
                 budget_text(b->kind, fabs(s->residual), gap), 100 * s->residual / b->target,
                 s->why);
}

// While a budget is held there is no other to match.
static bool is_held(const struct design *d, const struct design_budget *b, char *why)
{
    if (!d->hold || (b->kind == d->budget.kind && b->target == design_budget_target(d)))
        return true;
    snprintf(why, DESIGN_WHY, "another budget is held: B lets it go");
    return false;
}

static bool match(struct design *d, const char *text, char *why)
{
    struct solve_request r = {.locked = d->locked};
    struct solved *s = xcalloc(1, sizeof *s);
    struct err err = ERR_INIT;
    struct design_budget b;
    bool done = false;

    why[0] = 0;
    design_back(d);
    r.by = parse_way(d, &text);
    if (parse_budget(d, text, &b, why) && is_held(d, &b, why)) {
        r.budget = b.kind;
        r.target = b.target;
        done = solve(&d->spec, &r, s, &err) == 0;
        if (done) {
            d->spec = s->spec;
            residual_words(&b, s, why);
            done = !d->hold || design_make_up_anew(d, why);
        } else {
            snprintf(why, DESIGN_WHY, "%.250s", err.text);
        }
    }
    if (done && d->spec.model.n_layers != d->undo[d->at]->spec.model.n_layers)
        memset(d->locked, 0, sizeof d->locked); // they were about other layers
    design_keep_cursor(d);
    design_recount(d);
    free(s);
    return done;
}

bool design_preview_match(struct design *d, const char *text, char *why)
{
    d->previewing = match(d, text, why);
    return d->previewing;
}

bool design_match(struct design *d, const char *text, char *why)
{
    char what[DESIGN_WHAT];

    d->previewing = false;
    if (!match(d, text, why))
        return false;
    snprintf(what, sizeof what, "match %.50s", text);
    design_finish_edit(d, what);
    design_hold_here(d);
    return true;
}

// ---- holding ------------------------------------------------------------------------------------

void design_hold_here(struct design *d)
{
    memcpy(d->held, d->spec.model.lane[LANE_FFN], sizeof d->held);
}

// The widths of all layers that may give or take start from the held shape, so that many edits in
// a row do not round it away.
static void start_from_held(struct design *d, const bool *still)
{
    for (int i = 0; i < d->spec.model.n_layers; i++) {
        if (still[i])
            d->held[i] = d->spec.model.lane[LANE_FFN][i];
        else
            d->spec.model.lane[LANE_FFN][i] = d->held[i];
    }
    d->spec.model.source[LANE_FFN].shape = SHAPE_LIST; // what it says no longer holds
}

static bool any_free(const bool *still, int n)
{
    for (int i = 0; i < n; i++)
        if (!still[i])
            return true;
    return false;
}

bool design_make_up(struct design *d, const bool *mine, char *why)
{
    struct solve_request r = {.budget = d->budget.kind, .by = SOLVE_FFN};
    struct err err = ERR_INIT;
    struct solved *s;
    bool still[SPEC_MAX_LAYERS], met;

    if (!d->hold)
        return true;
    for (int i = 0; i < d->spec.model.n_layers; i++)
        still[i] = d->locked[i] || (mine && mine[i]);
    if (!any_free(still, d->spec.model.n_layers)) {
        snprintf(why, DESIGN_WHY, "no layer is left to make up: all are selected or locked");
        return false;
    }
    start_from_held(d, still);
    r.target = design_budget_target(d);
    r.locked = still;
    s = xcalloc(1, sizeof *s);
    if (solve(&d->spec, &r, s, &err) < 0)
        snprintf(why, DESIGN_WHY, "%.200s", err.text);
    met = !err.text[0] && (s->residual == 0 || !isnan(s->other));
    if (met)
        d->spec = s->spec;
    else if (!err.text[0])
        snprintf(why, DESIGN_WHY, "the other layers cannot make up: %.150s",
                 s->why);
    free(s);
    return met;
}

bool design_make_up_anew(struct design *d, char *why)
{
    int held[SPEC_MAX_LAYERS];
    char reason[DESIGN_WHY] = "";
    bool met;

    memcpy(held, d->held, sizeof held);
    design_hold_here(d);
    met = design_make_up(d, NULL, reason);
    memcpy(d->held, held, sizeof held); // until it is an edit
    if (!met)
        snprintf(why, DESIGN_WHY, "%s", reason);
    return met;
}

bool design_hold(struct design *d, char *why)
{
    why[0] = 0;
    if (d->hold) {
        d->hold = d->undo[d->at]->hold = false;
        return true;
    }
    if (d->budget.kind == BUDGET_KINDS) {
        snprintf(why, DESIGN_WHY, "there is no budget to hold; b sets one");
        return false;
    }
    d->hold = true;
    design_hold_here(d);
    if (!design_make_up(d, NULL, why)) {
        char reason[DESIGN_WHY];

        snprintf(reason, sizeof reason, "%s", why);
        snprintf(why, DESIGN_WHY, "this budget cannot be held: %.200s", reason);
        d->hold = false;
        design_back(d);
        return false;
    }
    design_finish_edit(d, "hold the budget");
    d->undo[d->at]->hold = true;
    design_hold_here(d);
    return true;
}
