#include "tui/design_draw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "tui/columns.h"
#include "tui/design_panel.h"
#include "tui/wrap.h"

enum {
    GUTTER = 7, // columns left of the first layer
    PANEL_COLS = 21,
    TABLE_COLS = 56,
    PANEL_FROM = 100, // columns of the terminal
    TABLE_FROM = 160,
};

// ---- layout -------------------------------------------------------------------------------------

static void fit_sides(struct design_layout *l, int rows, int cols)
{
    if (cols >= TABLE_FROM) {
        l->table = (struct rect){0, cols - TABLE_COLS, rows, TABLE_COLS};
        cols -= TABLE_COLS;
    }
    if (cols >= PANEL_FROM)
        l->panel =
            (struct rect){l->totals_rows, cols - PANEL_COLS, rows - l->totals_rows, PANEL_COLS};
}

// Takes rows from the bottom up; what is left over belongs to the bars.
static void fit_rows(struct design_layout *l, int rows)
{
    int bottom = rows, top = l->totals_rows;

    if (rows >= 3 && !l->panel.cols)
        l->detail = --bottom;
    if (rows >= 19)
        l->bracket = --bottom;
    if (rows >= 20)
        l->gate = --bottom;
    for (int lane = LANE_REUSE; rows >= 12 && lane >= LANE_HEADS; lane--)
        l->value[lane] = --bottom;
    if (rows >= 4)
        l->axis = --bottom;
    if (rows >= 18)
        l->budget = top++;
    if (rows >= 24)
        l->here = top++;
    if (rows >= 9)
        l->note = top++;
    if (rows >= 15) {
        l->heads.rows = (bottom - top) / 3;
        l->heads.row = bottom - l->heads.rows;
        bottom = l->heads.row - 1; // a blank row, so that the two do not grow together
    }
    l->ffn.row = top;
    l->ffn.rows = bottom - top > 0 ? bottom - top : 0;
}

struct design_layout design_layout(int rows, int cols, int n_layers)
{
    struct design_layout l = {.totals = 0, .budget = -1, .here = -1, .note = -1, .axis = -1,
                              .gate = -1, .bracket = -1, .detail = -1};
    struct columns cols_of_layers;
    int right;

    for (int lane = 0; lane < LANE_COUNT; lane++)
        l.value[lane] = -1;
    l.totals_rows = rows < 2 ? 0 : rows >= 14 ? 2 : 1;
    fit_sides(&l, rows, cols);
    fit_rows(&l, rows);
    right = l.panel.cols ? l.panel.col : l.table.cols ? l.table.col : cols;
    cols_of_layers = columns_fit(right - GUTTER, n_layers);
    l.layer_cols = cols_of_layers.bar;
    l.gap = cols_of_layers.gap;
    l.visible = cols_of_layers.visible;
    l.ffn.col = l.heads.col = GUTTER;
    l.ffn.cols = l.heads.cols = right - GUTTER > 0 ? right - GUTTER : 0;
    return l;
}

// ---- drawing ------------------------------------------------------------------------------------

struct view {
    const struct design *d;
    const struct design_layout *l;
    struct canvas *c;
    const struct rect *body;
    int first;    // leftmost layer shown
    int from, to; // selection
};

static int column_of(const struct view *v, int layer)
{
    return GUTTER + (layer - v->first) * (v->l->layer_cols + v->l->gap);
}

static bool shown(const struct view *v, int layer)
{
    return layer >= v->first && layer < v->first + v->l->visible;
}

static bool marked(const struct view *v, int layer)
{
    return v->d->selecting && layer >= v->from && layer <= v->to;
}

// What was committed: the preview of a generator is drawn over it.
static int value_of(const struct view *v, enum lane lane, int layer)
{
    const struct design *d = v->d;

    return d->previewing ? d->undo[d->at]->spec.model.lane[lane][layer]
                         : d->spec.model.lane[lane][layer];
}

static int lane_top(const struct view *v, enum lane lane)
{
    const struct design *d = v->d;
    int most = 1, n = d->spec.model.n_layers;

    if (d->pen.down && lane == d->lane)
        return d->pen.top;

    for (int i = 0; i < n; i++) {
        int now = d->spec.model.lane[lane][i], committed = value_of(v, lane, i);

        most = now > most ? now : most;
        most = committed > most ? committed : most;
        if (d->reference.model.n_layers == n && d->reference.model.lane[lane][i] > most)
            most = d->reference.model.lane[lane][i];
    }
    return columns_top(most);
}

int design_scale(const struct design *d, enum lane lane)
{
    return lane_top(&(struct view){.d = d}, lane);
}

// Rows of r counted from below in which a value's top stands, 0 = the lowest.
static int row_of(int value, int top, int rows)
{
    int eighths = (int)lround((double)value * rows * 8 / top);

    return eighths > 0 ? (eighths - 1) / 8 : 0;
}

static void mark_height(struct view *v, const struct rect *r, enum lane lane, int layer, int value,
                        int top, uint32_t ch)
{
    int row = r->rows - 1 - row_of(value, top, r->rows);

    for (int i = 0; i < v->l->layer_cols; i++) {
        int col = column_of(v, layer) - GUTTER + i;
        // a mark inside the bar would hide the bar
        if (ch == 'o' || row_of(value_of(v, lane, layer), top, r->rows) < r->rows - 1 - row)
            canvas_put(v->c, r, row, col, ROLE_BAR_GHOST, ch);
    }
}

static void draw_bar(struct view *v, const struct rect *r, enum lane lane, int layer, int top)
{
    const struct design *d = v->d;
    int value = value_of(v, lane, layer);
    bool in_hand = lane == d->lane;
    enum role role = layer == d->cursor            ? ROLE_BAR_CURSOR
                     : in_hand && marked(v, layer) ? ROLE_BAR_MARKED
                                                   : ROLE_BAR;

    canvas_bar(v->c, r, column_of(v, layer) - GUTTER, v->l->layer_cols,
               (int)lround((double)value * r->rows * 8 / top), role);
    if (d->reference.model.n_layers == d->spec.model.n_layers)
        mark_height(v, r, lane, layer, d->reference.model.lane[lane][layer], top, 0xb7);
    if (d->previewing && in_hand)
        mark_height(v, r, lane, layer, d->spec.model.lane[lane][layer], top, 'o');
}

// The lower part of a bar of query heads: those with keys and values of their own.
static void shade_kv(struct view *v, const struct rect *r, int layer, int top)
{
    int kv = (int)lround((double)value_of(v, LANE_KV, layer) * r->rows / top);
    int q = (int)lround((double)value_of(v, LANE_HEADS, layer) * r->rows * 8 / top); // eighths
    enum role role = layer == v->d->cursor ? ROLE_BAR_CURSOR : ROLE_BAR;

    if (kv == 0 && q > 8)
        kv = 1; // whole cells only, but never none
    if (kv > q / 8)
        kv = q / 8;
    for (int row = 0; row < kv; row++)
        for (int i = 0; i < v->l->layer_cols; i++)
            canvas_put(v->c, r, r->rows - 1 - row, column_of(v, layer) - GUTTER + i, role, 0x2592);
}

static void draw_scale(struct view *v, const struct rect *r, enum lane lane, int top)
{
    bool in_hand = lane == v->d->lane;
    struct rect left = {r->row, v->body->col, r->rows, GUTTER - 1};
    static const char *const names[LANE_COUNT] = {"ffn", "heads", "kv", "reuse"};
    char text[16];

    columns_scale(top, text);
    canvas_text(v->c, &left, 0, 0, ROLE_DIM, text);
    if (r->rows >= 6 && r->rows % 2 == 0 && top % 2 == 0) {
        columns_scale(top / 2, text);
        canvas_text(v->c, &left, r->rows / 2, 0, ROLE_DIM, text);
    }
    if (r->rows >= 2)
        canvas_fmt(v->c, &left, 1, 0, in_hand ? ROLE_TITLE : ROLE_DIM, "%s%s", in_hand ? ">" : " ",
                   names[lane]);
}

static void draw_pane(struct view *v, const struct rect *pane, enum lane lane)
{
    struct rect r = {v->body->row + pane->row, v->body->col + pane->col, pane->rows, pane->cols};
    int top = lane_top(v, lane);

    if (r.rows < 1)
        return;
    draw_scale(v, &r, lane, top);
    for (int layer = v->first; layer < v->first + v->l->visible; layer++) {
        draw_bar(v, &r, lane, layer, top);
        if (lane == LANE_HEADS)
            shade_kv(v, &r, layer, top);
    }
    if (lane == LANE_HEADS && r.rows >= 3) {
        struct rect left = {r.row, v->body->col, r.rows, GUTTER - 1};

        canvas_put(v->c, &left, r.rows - 1, 1, ROLE_BAR, 0x2592);
        canvas_text(v->c, &left, r.rows - 1, 3, ROLE_DIM, "kv");
    }
}

static int digits(int v)
{
    return v >= 10000 ? 5 : v >= 1000 ? 4 : v >= 100 ? 3 : v >= 10 ? 2 : 1;
}

// The column below a bar in which its numbers end: centred under wide bars.
static int number_column(const struct view *v, int layer)
{
    int cols = v->l->layer_cols;

    return column_of(v, layer) + cols - 1 - (cols >= 5 ? (cols - 2) / 2 : 0);
}

// Numbers are right-aligned under their bars. Where they do not fit each, every second, fifth, …
static int label_step(const struct view *v, int widest)
{
    static const int steps[] = {1, 2, 5, 10, 20, 50};
    int width = v->l->layer_cols + v->l->gap;
    size_t i = 0;

    // a gap is wanted between neighbours, except where the bars themselves have one
    while (i + 1 < sizeof steps / sizeof *steps && steps[i] * width < widest + 1)
        i++;
    return steps[i];
}

static void draw_axis(struct view *v)
{
    const struct design *d = v->d;
    int row = v->l->axis, n = d->spec.model.n_layers, step = label_step(v, digits(n - 1));
    char text[16];

    if (row < 0)
        return;
    canvas_text(v->c, v->body, row, 1, ROLE_DIM, "layer");
    for (int i = v->first; i < v->first + v->l->visible; i++) {
        int right = number_column(v, i);
        int away = abs(i - d->cursor);

        // the cursor's number is always there; a neighbour that would touch it is not
        if (i != d->cursor &&
            (i % step != 0 || away * (v->l->layer_cols + v->l->gap) < digits(n - 1) + 1))
            continue;
        snprintf(text, sizeof text, "%d", i);
        if (right - GUTTER + 1 < (int)strlen(text))
            right = GUTTER + (int)strlen(text) - 1;
        canvas_right(v->c, v->body, row, right,
                     i == d->cursor ? ROLE_CURSOR
                     : marked(v, i) ? ROLE_SELECTED
                                    : ROLE_DIM,
                     text);
    }
}

// One row of numbers; where they do not fit beside each other, one eighth block per layer.
static void draw_values(struct view *v, enum lane lane)
{
    static const char *const names[LANE_COUNT] = {"ffn", "q", "kv", "reuse"};
    const struct design *d = v->d;
    bool in_hand = lane == d->lane;
    int row = v->l->value[lane], widest = 1, top = lane_top(v, lane);

    if (row < 0)
        return;
    for (int i = 0; i < d->spec.model.n_layers; i++)
        if (digits(value_of(v, lane, i)) > widest)
            widest = digits(value_of(v, lane, i));
    canvas_fmt(v->c, v->body, row, 0, in_hand ? ROLE_TITLE : ROLE_DIM, "%s%s", in_hand ? ">" : " ",
               names[lane]);
    for (int i = v->first; i < v->first + v->l->visible; i++) {
        int value = value_of(v, lane, i), right = number_column(v, i);
        enum role role = !in_hand         ? ROLE_TEXT
                         : i == d->cursor ? ROLE_CURSOR
                         : marked(v, i)   ? ROLE_SELECTED
                                          : ROLE_TEXT;
        struct rect cell = {v->body->row + row, v->body->col + column_of(v, i), 1,
                            v->l->layer_cols};
        char text[16];

        snprintf(text, sizeof text, "%d", value);
        if (label_step(v, widest) == 1)
            canvas_right(v->c, v->body, row, right, role, text);
        else
            canvas_bar(v->c, &cell, 0, v->l->layer_cols, (value * 8 + top - 1) / top, role);
    }
}

// Mirrored layers share the gate of the earlier one.
static void draw_gates(struct view *v)
{
    const struct design *d = v->d;
    int n = d->spec.model.n_layers;

    if (v->l->gate < 0)
        return;
    canvas_text(v->c, v->body, v->l->gate, 0, ROLE_DIM, " gate");
    for (int i = v->first; i < v->first + v->l->visible; i++) {
        uint32_t ch = !d->spec.gate.enabled ? '.' : i < n / 2 ? 'g' : '"';

        canvas_put(v->c, v->body, v->l->gate, number_column(v, i),
                   ch == '.' ? ROLE_DIM : ROLE_TEXT, ch);
    }
}

static void draw_locks(struct view *v)
{
    bool any = false;

    for (int i = 0; i < v->d->spec.model.n_layers; i++) {
        any = any || v->d->locked[i];
        if (v->d->locked[i] && shown(v, i))
            canvas_put(v->c, v->body, v->l->bracket, number_column(v, i), ROLE_WARN, '*');
    }
    if (any)
        canvas_text(v->c, v->body, v->l->bracket, 1, ROLE_DIM, "lock");
}

static void draw_bracket(struct view *v)
{
    int from = v->from < v->first ? v->first : v->from;
    int to = v->to, last = v->first + v->l->visible - 1, left, right;

    if (v->l->bracket < 0)
        return;
    draw_locks(v);
    if (!v->d->selecting)
        return;
    to = to > last ? last : to;
    left = column_of(v, from);
    right = column_of(v, to) + v->l->layer_cols - 1;
    for (int col = left; col <= right; col++)
        canvas_put(v->c, v->body, v->l->bracket, col, ROLE_SELECTED, '=');
    if (right > left) {
        canvas_put(v->c, v->body, v->l->bracket, left, ROLE_SELECTED, '[');
        canvas_put(v->c, v->body, v->l->bracket, right, ROLE_SELECTED, ']');
    }
    draw_locks(v); // over the bracket
}

// What does not fit the row goes on over the bars.
static void draw_hint(struct view *v, const char *hint)
{
    struct rect r = {v->body->row + v->l->note, v->body->col, 1, v->l->ffn.cols + GUTTER};
    struct rect text = {r.row, r.col + 1, 1, r.cols - 2};

    r.rows = wrap_lines(hint, text.cols);
    if (r.rows > v->l->ffn.rows)
        r.rows = 1;
    text.rows = r.rows;
    canvas_fill(v->c, &r, ROLE_TEXT, ' ');
    wrap_text(v->c, &text, 0, text.rows, ROLE_WARN, hint);
}

static void draw_note(struct view *v, const char *hint)
{
    const struct design *d = v->d;
    const struct model_spec *m = &d->spec.model;
    char shape[96];
    int col = 1, row = v->l->note, cols = v->l->ffn.cols + GUTTER;
    struct rect r = {v->body->row + row, v->body->col, 1, cols};

    if (row < 0)
        return;
    if (hint) {
        draw_hint(v, hint);
        return;
    }
    col += canvas_text(v->c, &r, 0, col, ROLE_TITLE, lane_name(d->lane));
    if (d->lane == LANE_FFN)
        col += canvas_fmt(v->c, &r, 0, col, ROLE_DIM, "  step %d", m->ffn_step);
    else if (d->lane == LANE_HEADS)
        col += canvas_fmt(v->c, &r, 0, col, ROLE_DIM, "  step %d", m->head_step);
    col += canvas_fmt(v->c, &r, 0, col, ROLE_DIM, "  %s",
                      shape_format(&m->source[d->lane], shape, sizeof shape));
    if (d->selecting)
        col += 2 + canvas_fmt(v->c, &r, 0, col + 2, ROLE_SELECTED, "layers %d-%d", v->from, v->to);
    if (col + 6 + (int)strlen(d->reference_name) + 1 < cols)
        canvas_fmt(v->c, &r, 0, cols - 6 - text_width(d->reference_name), ROLE_DIM,
                   "\u00b7\u00b7\u00b7 %s", d->reference_name);
}

static void rest_cursor(struct view *v)
{
    const struct design_layout *l = v->l;
    int row = l->value[v->d->lane] >= 0 ? l->value[v->d->lane] : l->axis;

    if (row < 0 || !shown(v, v->d->cursor))
        return;
    v->c->cursor_row = v->body->row + row;
    v->c->cursor_col = v->body->col + number_column(v, v->d->cursor);
}

static int first_layer(const struct design *d, const struct design_layout *l)
{
    int most = d->spec.model.n_layers - l->visible;
    int first = d->cursor - l->visible / 2; // beyond the width, the cursor stays in the middle

    return first < 0 ? 0 : first > most ? most : first;
}

// ---- what lies where ----------------------------------------------------------------------------

static int layer_at(const struct view *v, int col)
{
    int layer = v->first + (col - GUTTER) / (v->l->layer_cols + v->l->gap);
    int last = v->first + v->l->visible - 1;

    return col < GUTTER ? v->first : layer > last ? last : layer;
}

static bool in_rect(const struct rect *r, int row, int col)
{
    return row >= r->row && row < r->row + r->rows && col >= r->col && col < r->col + r->cols;
}

// The lane whose bars stand in a pane.
static enum lane pane_lane(const struct view *v, const struct rect *pane)
{
    return pane == &v->l->heads ? LANE_HEADS : v->l->heads.rows > 0 ? LANE_FFN : v->d->lane;
}

static void spot_in_pane(const struct view *v, const struct rect *pane, int row,
                         struct design_spot *spot)
{
    int height = pane->row + pane->rows - row;

    spot->kind = SPOT_PANE;
    spot->lane = pane_lane(v, pane);
    spot->top = lane_top(v, spot->lane);
    // never 0, which would take the layer's part away
    spot->value = height > 0 ? (double)spot->top * height / pane->rows : 1;
}

struct design_spot design_spot_at(const struct design *d, const struct rect *body, int row, int col)
{
    struct design_layout l = design_layout(body->rows, body->cols, d->spec.model.n_layers);
    struct view v = {.d = d, .l = &l, .body = body, .first = first_layer(d, &l)};
    struct design_spot spot = {.layer = layer_at(&v, col),
                               .scrolls = l.visible < d->spec.model.n_layers};
    bool pen_in_heads = d->pen.down && d->lane == LANE_HEADS && l.heads.rows > 0;

    if (d->pen.down)
        spot_in_pane(&v, pen_in_heads ? &l.heads : &l.ffn, row, &spot);
    else if (in_rect(&l.ffn, row, col))
        spot_in_pane(&v, &l.ffn, row, &spot);
    else if (in_rect(&l.heads, row, col))
        spot_in_pane(&v, &l.heads, row, &spot);
    else if (row == l.axis && row >= 0)
        spot.kind = SPOT_AXIS;
    for (int lane = LANE_HEADS; lane < LANE_COUNT && !d->pen.down; lane++)
        if (row == l.value[lane] && row >= 0 && col < l.ffn.col + l.ffn.cols) {
            spot.kind = SPOT_VALUE;
            spot.lane = (enum lane)lane;
        }
    return spot;
}

// ---- the whole ----------------------------------------------------------------------------------

static void mark_more(struct view *v)
{
    int row = v->l->axis, last = v->first + v->l->visible;

    if (row < 0)
        return;
    if (v->first > 0)
        canvas_put(v->c, v->body, row, GUTTER - 1, ROLE_WARN, '<');
    if (last < v->d->spec.model.n_layers)
        canvas_put(v->c, v->body, row, column_of(v, last) - 1, ROLE_WARN, '>');
}

void design_draw(const struct design *d, const char *hint, const char *here, struct canvas *c,
                 const struct rect *body)
{
    struct design_layout l = design_layout(body->rows, body->cols, d->spec.model.n_layers);
    struct view v = {.d = d, .l = &l, .c = c, .body = body, .first = first_layer(d, &l)};
    struct rect totals = {body->row + l.totals, body->col, l.totals_rows, body->cols};

    design_range(d, &v.from, &v.to);
    if (l.table.cols)
        totals.cols = l.table.col;
    panel_totals(d, c, &totals);
    if (l.budget >= 0) {
        struct rect r = {body->row + l.budget, body->col, 1, totals.cols};

        panel_budget(d, c, &r);
    }
    if (l.here >= 0 && here) {
        struct rect r = {body->row + l.here, body->col, 1, l.ffn.cols + GUTTER};

        canvas_text(c, &r, 0, 1, ROLE_DIM, "here");
        canvas_cut(c, &r, 0, 10, ROLE_TEXT, here);
    }
    draw_pane(&v, &l.ffn, pane_lane(&v, &l.ffn));
    if (l.heads.rows > 0)
        draw_pane(&v, &l.heads, LANE_HEADS);
    draw_axis(&v);
    for (int lane = LANE_HEADS; lane < LANE_COUNT; lane++)
        draw_values(&v, (enum lane)lane);
    draw_gates(&v);
    draw_bracket(&v);
    mark_more(&v);
    draw_note(&v, hint);
    rest_cursor(&v);
    if (l.detail >= 0) {
        struct rect r = {body->row + l.detail, body->col, 1, body->cols};

        panel_line(d, c, &r);
    }
    if (l.panel.cols) {
        struct rect r = {body->row + l.panel.row, body->col + l.panel.col, l.panel.rows,
                         l.panel.cols};

        panel_layer(d, c, &r);
    }
    if (l.table.cols) {
        struct rect r = {body->row + l.table.row, body->col + l.table.col, l.table.rows,
                         l.table.cols};

        panel_table(d, c, &r);
    }
}
