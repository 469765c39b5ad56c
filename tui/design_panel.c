#include "tui/design_panel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/gen.h"

// ---- totals -------------------------------------------------------------------------------------

struct total {
    const char *name;
    double now, before;
    const char *unit; // after the count; NULL = bytes
};

// A budget is met to the parameter: exact where there is room, else to the thousand.
static void parameters(char *out, double n, bool has_room)
{
    if (has_room || n < 1e6)
        unit_thousands(out, (int64_t)n);
    else
        snprintf(out, UNIT_SIZE, n < 1e9 ? "%.3fM" : "%.4fG", n / (n < 1e9 ? 1e6 : 1e9));
}

static void draw_total(struct canvas *c, const struct rect *r, int row, int col, int width,
                       const struct total *t)
{
    char value[UNIT_SIZE + 16], delta[32];
    struct rect slot = {r->row + row, r->col + col, 1, width};
    int used = canvas_text(c, &slot, 0, 1, ROLE_DIM, t->name);
    bool has_delta = width >= 26, is_wide = width >= 32;
    int end = is_wide ? 22 : 19, delta_end = is_wide ? 30 : 27;

    if (t->unit && !*t->unit) {
        parameters(value, t->now, is_wide);
    } else if (t->unit) {
        unit_count(value, t->now);
        strcat(value, t->unit);
    } else {
        unit_bytes(value, t->now);
    }
    // fixed columns: nothing jumps when a number gets a digit more
    used = used + 2 > end - text_width(value) ? used + 2 : end - text_width(value);
    canvas_text(c, &slot, 0, used, ROLE_TEXT, value);
    change_text(delta, t->now, t->before);
    if (has_delta)
        canvas_right(c, &slot, 0, delta_end < width - 1 ? delta_end : width - 1, ROLE_TITLE, delta);
}

void panel_totals(const struct design *d, struct canvas *c, const struct rect *r)
{
    const struct count *a = &d->count, *b = &d->reference_count;
    const struct total totals[] = {
        {"total", (double)a->total, (double)b->total, ""},
        {"non-emb", (double)a->non_embedding, (double)b->non_embedding, ""},
        {"fwd/tok", a->forward_per_token, b->forward_per_token, "F"},
        {"kv/tok", (double)a->kv_bytes_per_token, (double)b->kv_bytes_per_token, NULL},
        {"train run", budget_value(BUDGET_TRAIN_FLOPS, &d->spec, a),
         budget_value(BUDGET_TRAIN_FLOPS, &d->reference, b), "F"},
        {"memory", budget_value(BUDGET_MEMORY, &d->spec, a),
         budget_value(BUDGET_MEMORY, &d->reference, b), NULL},
    };
    int n = (int)(sizeof totals / sizeof *totals);
    int per_row = r->cols >= 6 * 26 ? 6 : r->cols >= 3 * 26 ? 3 : r->cols >= 2 * 20 ? 2 : 1;

    for (int i = 0; i < n && i < per_row * r->rows; i++)
        draw_total(c, r, i / per_row, i % per_row * (r->cols / per_row), r->cols / per_row,
                   &totals[i]);
}

// ---- budget -------------------------------------------------------------------------------------

// Left end of the bar is half the target, the right end one and a half: the middle is "met".
static void draw_gauge(struct canvas *c, const struct rect *r, int col, int cols, double share)
{
    int at = (int)lround((share - 0.5) * (cols - 1));

    at = at < 0 ? 0 : at > cols - 1 ? cols - 1 : at;
    for (int i = 0; i < cols; i++)
        canvas_put(c, r, 0, col + i, ROLE_DIM, i == cols / 2 ? '|' : '-');
    canvas_put(c, r, 0, col + at, ROLE_CURSOR, 'o');
}

// Exact as far as the line has room for it.
static char *short_budget(enum budget b, double v, char *out)
{
    enum { MOST = 13 };

    budget_text(b, v, out);
    return strlen(out) <= MOST ? out : unit_count(out, v);
}

void panel_budget(const struct design *d, struct canvas *c, const struct rect *r)
{
    enum { NAME = 1, GAUGE = 60, GAUGE_COLS = 17 };
    char now_text[UNIT_SIZE], target_text[UNIT_SIZE];
    double now, target, change;

    if (d->budget.kind == BUDGET_KINDS) {
        canvas_text(c, r, 0, NAME, ROLE_DIM, "budget   none: b sets one, m matches the reference");
        return;
    }
    now = budget_value(d->budget.kind, &d->spec, &d->count);
    target = design_budget_target(d);
    change = 100 * (now - target) / target;
    canvas_fmt(c, r, 0, NAME, d->hold ? ROLE_TITLE : ROLE_DIM, "%s %s", d->hold ? "held" : "budget",
               budget_rows[d->budget.kind].name);
    canvas_fmt(c, r, 0, NAME + 21, ROLE_TEXT, "%s of %s",
               short_budget(d->budget.kind, now, now_text),
               short_budget(d->budget.kind, target, target_text));
    if (now == target)
        canvas_right(c, r, 0, GAUGE - 2, ROLE_TITLE, "exact");
    else
        canvas_fmt(c, r, 0, GAUGE - 9, fabs(change) > 0.05 ? ROLE_WARN : ROLE_TITLE, "%+8.*f%%",
                   fabs(change) < 10 ? 3 : 1, change);
    draw_gauge(c, r, GAUGE + 1, GAUGE_COLS, now / target);
}

// ---- the cursor's layer -------------------------------------------------------------------------

struct layer_facts {
    int ffn, q, kv, reuse;
    double beta, alpha, params, flops;
    double step_params, step_flops; // of one step up in the lane in hand, NaN = none
};

static void one_step(const struct design *d, struct layer_facts *f)
{
    struct spec *next = xmalloc(sizeof *next);
    struct count *count = xmalloc(sizeof *count);
    char why[DESIGN_WHY];

    f->step_params = f->step_flops = NAN;
    *next = d->spec;
    if (gen_step(&next->model, d->lane, d->cursor, 1, why, sizeof why)) {
        count_model(next, count);
        f->step_params = (double)(count->total - d->count.total);
        f->step_flops = count->forward_per_token - d->count.forward_per_token;
    }
    free(count);
    free(next);
}

static struct layer_facts facts_of(const struct design *d)
{
    const struct model_spec *m = &d->spec.model;
    const struct count_layer *l = &d->count.layer[d->cursor];
    struct layer_facts f = {
        .ffn = m->lane[LANE_FFN][d->cursor],
        .q = m->lane[LANE_HEADS][d->cursor],
        .kv = m->lane[LANE_KV][d->cursor],
        .reuse = m->lane[LANE_REUSE][d->cursor],
        .params = (double)l->params,
        .flops = l->forward_flops,
    };

    f.beta = (double)f.ffn / m->d_model;
    f.alpha = (double)f.q * m->head_dim / m->d_model;
    one_step(d, &f);
    return f;
}

static char *signed_count(char *out, size_t size, double v, const char *unit)
{
    char number[UNIT_SIZE];

    if (isnan(v))
        snprintf(out, size, "-");
    else
        snprintf(out, size, "%s%s%s", v < 0 ? "-" : "+", unit_count(number, fabs(v)), unit);
    return out;
}

// A part of the line, when it fits whole; returns the column after it.
static int add_part(struct canvas *c, const struct rect *r, int col, enum role role,
                    const char *text)
{
    if (col + text_width(text) > r->cols)
        return r->cols; // and nothing after it
    return col + canvas_text(c, r, 0, col, role, text);
}

void panel_line(const struct design *d, struct canvas *c, const struct rect *r)
{
    struct layer_facts f = facts_of(d);
    char number[UNIT_SIZE], text[96];
    int col;

    snprintf(text, sizeof text, "L%d", d->cursor);
    col = add_part(c, r, r->cols > 24, ROLE_TITLE, text);
    snprintf(text, sizeof text, " ffn %d q%d/kv%d x%d", f.ffn, f.q, f.kv, f.reuse);
    col = add_part(c, r, col, ROLE_TEXT, text);
    snprintf(text, sizeof text, "  %s", unit_count(number, f.params));
    col = add_part(c, r, col, ROLE_TEXT, text);
    snprintf(text, sizeof text, "  %sF/tok", unit_count(number, f.flops));
    col = add_part(c, r, col, ROLE_TEXT, text);
    signed_count(number, sizeof number, f.step_params, "");
    snprintf(text, sizeof text, "  step %s", number);
    col = add_part(c, r, col, ROLE_DIM, text);
    snprintf(text, sizeof text, "  beta %.2f alpha %.2f", f.beta, f.alpha);
    add_part(c, r, col, ROLE_DIM, text);
}

static void draw_fact(struct canvas *c, const struct rect *r, int row, const char *name,
                      const char *value)
{
    canvas_text(c, r, row, 2, ROLE_DIM, name);
    canvas_right(c, r, row, r->cols - 2, ROLE_TEXT, value);
}

static void draw_shape_facts(const struct design *d, struct canvas *c, const struct rect *r,
                             const struct layer_facts *f)
{
    char text[64];

    canvas_fmt(c, r, 0, 2, ROLE_TITLE, "layer %d", d->cursor);
    snprintf(text, sizeof text, "%d", f->ffn);
    draw_fact(c, r, 2, "ffn", text);
    snprintf(text, sizeof text, "%.2f", f->beta);
    draw_fact(c, r, 3, "beta", text);
    snprintf(text, sizeof text, "%d / %d", f->q, f->kv);
    draw_fact(c, r, 4, "q / kv", text);
    snprintf(text, sizeof text, "%.2f", f->alpha);
    draw_fact(c, r, 5, "alpha", text);
    snprintf(text, sizeof text, "x%d", f->reuse);
    draw_fact(c, r, 6, "reuse", text);
}

static void draw_cost_facts(const struct design *d, struct canvas *c, const struct rect *r,
                            const struct layer_facts *f)
{
    char text[64], number[UNIT_SIZE];

    draw_fact(c, r, 8, "params", unit_count(number, f->params));
    snprintf(text, sizeof text, "%.1f%% of non-emb",
             100 * f->params / (double)d->count.non_embedding);
    canvas_right(c, r, 9, r->cols - 2, ROLE_DIM, text);
    snprintf(text, sizeof text, "%sF", unit_count(number, f->flops));
    draw_fact(c, r, 10, "fwd/tok", text);
    canvas_text(c, r, 12, 2, ROLE_DIM, "one step up here");
    draw_fact(c, r, 13, "", signed_count(text, sizeof text, f->step_params, ""));
    draw_fact(c, r, 14, "", signed_count(text, sizeof text, f->step_flops, "F"));
    snprintf(text, sizeof text, "%d", spec_step_count(&d->spec.model));
    draw_fact(c, r, 16, "depth unrolled", text);
}

static void draw_rule(struct canvas *c, const struct rect *r)
{
    for (int row = 0; row < r->rows; row++)
        canvas_put(c, r, row, 0, ROLE_DIM, 0x2502);
}

void panel_layer(const struct design *d, struct canvas *c, const struct rect *r)
{
    struct layer_facts f = facts_of(d);

    draw_rule(c, r);
    draw_shape_facts(d, c, r, &f);
    draw_cost_facts(d, c, r, &f);
}

// ---- all layers ---------------------------------------------------------------------------------

static void draw_row(const struct design *d, struct canvas *c, const struct rect *r, int row,
                     int layer)
{
    const struct model_spec *m = &d->spec.model;
    const struct count_layer *l = &d->count.layer[layer];
    enum role role = layer == d->cursor ? ROLE_CURSOR : ROLE_TEXT;
    char params[UNIT_SIZE], flops[UNIT_SIZE], text[128];

    snprintf(text, sizeof text, "%5d %6d %4d %3d %3d %9s %5.1f%% %9s", layer,
             m->lane[LANE_FFN][layer], m->lane[LANE_HEADS][layer], m->lane[LANE_KV][layer],
             m->lane[LANE_REUSE][layer], unit_count(params, (double)l->params),
             100 * (double)l->params / (double)d->count.non_embedding,
             unit_count(flops, l->forward_flops));
    canvas_text(c, r, row, 2, role, text);
}

void panel_table(const struct design *d, struct canvas *c, const struct rect *r)
{
    int n = d->spec.model.n_layers, rows = r->rows - 1, first = 0;

    draw_rule(c, r);
    canvas_fmt(c, r, 0, 2, ROLE_DIM, "%5s %6s %4s %3s %3s %9s %6s %9s", "layer", "ffn", "q", "kv",
               "x", "params", "share", "fwd F");
    if (n > rows)
        first = d->cursor - rows / 2;
    first = first > n - rows ? n - rows : first;
    first = first < 0 ? 0 : first;
    for (int i = 0; i < rows && first + i < n; i++)
        draw_row(d, c, r, i + 1, first + i);
}
