#include "tui/compare_draw.h"

#include <math.h>
#include <stdio.h>

#include "engine/buf.h"
#include "tui/columns.h"

enum { GUTTER = 7 };

struct view {
    const struct tabs *t;
    struct canvas *c;
    enum lane lane;
    int top, cursor, n_layers;
    int first; // leftmost layer shown
    struct columns cols;
};

int compare_layers(const struct tabs *t)
{
    int most = 1;

    for (int i = 0; i < t->n; i++)
        if (t->v[i]->spec.model.n_layers > most)
            most = t->v[i]->spec.model.n_layers;
    return most;
}

int compare_top(const struct tabs *t, enum lane lane)
{
    int most = 1;

    for (int i = 0; i < t->n; i++) {
        const struct model_spec *m = &t->v[i]->spec.model;

        for (int k = 0; k < m->n_layers; k++)
            most = m->lane[lane][k] > most ? m->lane[lane][k] : most;
    }
    return columns_top(most);
}

static int value(const struct view *v, int tab, int layer)
{
    return v->t->v[tab]->spec.model.lane[v->lane][layer];
}

static bool has_layer(const struct view *v, int tab, int layer)
{
    return layer < v->t->v[tab]->spec.model.n_layers;
}

static struct view make_view(const struct tabs *t, enum lane lane, int cursor, struct canvas *c,
                             int available)
{
    struct view v = {.t = t, .c = c, .lane = lane, .cursor = cursor};
    int last;

    v.n_layers = compare_layers(t);
    v.top = compare_top(t, lane);
    v.cols = columns_fit(available, v.n_layers);
    last = v.n_layers - v.cols.visible;
    v.first = cursor - v.cols.visible / 2;
    v.first = v.first < 0 ? 0 : v.first > last ? last : v.first;
    return v;
}

static int column_of(const struct view *v, int layer)
{
    return (layer - v->first) * (v->cols.bar + v->cols.gap);
}

static int eighths_of(const struct view *v, int tab, int layer, int rows)
{
    return (int)lround((double)value(v, tab, layer) * rows * 8 / v->top);
}

// The row, counted from below, in which a bar's top stands.
static int row_of(const struct view *v, int tab, int layer, int rows)
{
    int eighths = eighths_of(v, tab, layer, rows);

    return eighths > 0 ? (eighths - 1) / 8 : 0;
}

static void draw_bars(const struct view *v, int tab, const struct rect *r)
{
    for (int i = v->first; i < v->first + v->cols.visible; i++)
        if (has_layer(v, tab, i))
            canvas_bar(v->c, r, column_of(v, i), v->cols.bar, eighths_of(v, tab, i, r->rows),
                       i == v->cursor ? ROLE_BAR_CURSOR : ROLE_BAR);
}

// Letters of designs whose bars end in the same row stand beside each other as far as the layer is
// wide.
static void draw_letters(const struct view *v, int layer, const struct rect *r)
{
    for (int tab = 0; tab < v->t->n; tab++) {
        int row, before = 0;

        if (tab == v->t->at || !has_layer(v, tab, layer))
            continue;
        row = row_of(v, tab, layer, r->rows);
        for (int other = 0; other < tab; other++)
            before += other != v->t->at && has_layer(v, other, layer) &&
                      row_of(v, other, layer, r->rows) == row;
        if (before < v->cols.bar)
            canvas_put(v->c, r, r->rows - 1 - row, column_of(v, layer) + before, ROLE_TITLE,
                       (uint32_t)('a' + tab));
    }
}

static void draw_scale(const struct view *v, const struct rect *r)
{
    char text[16];

    columns_scale(v->top, text);
    canvas_text(v->c, r, 0, 0, ROLE_DIM, text);
    if (r->rows >= 6 && r->rows % 2 == 0 && v->top % 2 == 0) {
        columns_scale(v->top / 2, text);
        canvas_text(v->c, r, r->rows / 2, 0, ROLE_DIM, text);
    }
}

// Every layer's number where there is room, else every fifth; the cursor's always.
static void draw_axis(const struct view *v, const struct rect *r, int row)
{
    int width = v->cols.bar + v->cols.gap, step = width >= 3 ? 1 : 5;
    char text[16];

    for (int i = v->first; i < v->first + v->cols.visible; i++) {
        int away = i > v->cursor ? i - v->cursor : v->cursor - i;
        int right = column_of(v, i) + v->cols.bar - 1 - (v->cols.bar >= 5 ? (v->cols.bar - 2) / 2 : 0);

        if (i != v->cursor && (i % step != 0 || away * width < 3))
            continue;
        snprintf(text, sizeof text, "%d", i);
        right = right < text_width(text) - 1 ? text_width(text) - 1 : right;
        canvas_right(v->c, r, row, right, i == v->cursor ? ROLE_CURSOR : ROLE_DIM, text);
    }
}

void compare_overlay(const struct tabs *t, enum lane lane, int cursor, struct canvas *c,
                     const struct rect *r)
{
    struct view v = make_view(t, lane, cursor, c, r->cols - GUTTER);
    struct rect left = {r->row, r->col, r->rows - 1, GUTTER};
    struct rect bars = {r->row, r->col + GUTTER, r->rows - 1, r->cols - GUTTER};
    struct rect axis = {r->row + r->rows - 1, r->col + GUTTER, 1, r->cols - GUTTER};

    if (bars.rows < 1)
        return;
    draw_scale(&v, &left);
    draw_bars(&v, t->at, &bars);
    for (int i = v.first; i < v.first + v.cols.visible; i++)
        draw_letters(&v, i, &bars);
    canvas_text(c, r, r->rows - 1, 1, ROLE_DIM, "layer");
    draw_axis(&v, &axis, 0);
}

// As few columns of panes as leave each at least six rows.
static int pane_columns(int n, const struct rect *r)
{
    int columns = 1;

    while (columns < n && (r->rows / ((n + columns - 1) / columns) < 6 || columns < 2))
        columns++;
    return columns;
}

static void draw_pane(const struct tabs *t, int tab, enum lane lane, int cursor, struct canvas *c,
                      const struct rect *r)
{
    struct view v = make_view(t, lane, cursor, c, r->cols - 1);
    struct rect bars = {r->row + 1, r->col, r->rows - 2, r->cols};
    struct rect axis = {r->row + r->rows - 1, r->col, 1, r->cols};
    const struct design *d = t->v[tab];
    char total[UNIT_SIZE], title[SPEC_NAME_SIZE + UNIT_SIZE + 8];

    if (bars.rows < 1)
        return;
    snprintf(title, sizeof title, "%c %s  %s", 'a' + tab, d->spec.name,
             unit_count(total, (double)d->count.total));
    canvas_cut(c, &(struct rect){r->row, r->col, 1, r->cols - 1}, 0, 0,
               tab == t->at ? ROLE_TITLE : ROLE_DIM, title);
    draw_bars(&v, tab, &bars);
    draw_axis(&v, &axis, 0);
}

void compare_beside(const struct tabs *t, enum lane lane, int cursor, struct canvas *c,
                    const struct rect *r)
{
    int columns = pane_columns(t->n, r), rows = (t->n + columns - 1) / columns;
    int width = r->cols / columns, height = r->rows / rows;

    for (int i = 0; i < t->n; i++) {
        struct rect pane = {r->row + i / columns * height, r->col + 1 + i % columns * width, height,
                            width - 1};

        draw_pane(t, i, lane, cursor, c, &pane);
    }
}
