#include "tui/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"

// One series as dots: which are set in each cell, and whether a mean or only a stroke set them.
struct layer {
    uint8_t *dots; // cells; braille bits, or 1 = stroke and 2 = line in ASCII
    uint8_t *mean; // cells; 1 = the line passes here
};

struct picture {
    const struct plot *plot;
    struct canvas *canvas;
    struct rect area;       // cells of the curve
    int dot_cols, dot_rows; // dots per cell
    int width, height;      // in dots
    double y_min, y_max;
    enum tick_kind y_kind;
    bool any;
};

double plot_value(const struct plot_series *s, double y)
{
    double v = s->factor != 0 ? y * s->factor : y;

    return s->scale == PLOT_EXP ? exp(v) : v;
}

// ---- columns ------------------------------------------------------------------------------------

static int column_of(const struct picture *p, double x)
{
    const struct plot *plot = p->plot;
    double f = (x - plot->x_origin - plot->x_min) / (plot->x_max - plot->x_min) * p->width;

    if (!(f > 0))
        return 0;
    return f >= p->width ? p->width - 1 : (int)f;
}

// First point at or after `from` whose column is at least `column`.
static int64_t first_in(const struct picture *p, const struct plot_series *s, int64_t from,
                        int column)
{
    int64_t lo = from, hi = s->n;

    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;

        if (column_of(p, s->x[mid]) < column)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static int row_of(const struct picture *p, double v)
{
    double f = tick_fraction(p->y_kind, p->y_min, p->y_max, v);
    double row = (1 - f) * (p->height - 1);

    if (!(row > 0))
        return 0;
    return row >= p->height - 1 ? p->height - 1 : (int)lround(row);
}

// The points within the x axis: from *at on, before *end.
static void shown_points(const struct plot *plot, const struct plot_series *s, int64_t *at,
                         int64_t *end)
{
    int64_t lo = 0, hi = s->n;

    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;

        if (s->x[mid] - plot->x_origin < plot->x_min)
            lo = mid + 1;
        else
            hi = mid;
    }
    *at = lo;
    hi = s->n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;

        if (s->x[mid] - plot->x_origin > plot->x_max)
            hi = mid;
        else
            lo = mid + 1;
    }
    *end = hi;
}

// ---- range of the y axis ------------------------------------------------------------------------

// First point at or after fit_from, but always the last one.
static int64_t first_after(const struct plot_series *s, const struct plot *plot)
{
    int64_t lo = 0, hi = s->n - 1;

    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;

        if (s->x[mid] - plot->x_origin < plot->fit_from)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void fit_range(struct picture *p)
{
    double lo = INFINITY, hi = -INFINITY;

    for (int i = 0; i < p->plot->n_series; i++) {
        const struct plot_series *s = &p->plot->series[i];
        int64_t from, end, fit = p->plot->fit_from > 0 ? first_after(s, p->plot) : 0;
        struct span all;

        shown_points(p->plot, s, &from, &end);
        all = pyramid_span(s->pyramid, s->y, fit > from && fit < end ? fit : from, end);
        if (all.n == 0)
            continue;
        lo = fmin(lo, plot_value(s, all.min));
        hi = fmax(hi, plot_value(s, all.max));
    }
    // a perplexity of a wild loss overflows: what is drawn stays finite
    hi = fmin(hi, 1e300);
    p->any = lo <= hi;
    p->y_min = p->any ? lo : 0;
    p->y_max = p->any ? hi : 1;
    if (p->plot->from_zero && p->y_min > 0 && !p->plot->log_y)
        p->y_min = 0;
    p->y_kind = p->plot->log_y && p->any && lo > 0 ? TICKS_LOG : TICKS_LINEAR;
    if (p->any)
        ticks_snap(p->y_kind, &p->y_min, &p->y_max);
}

// ---- dots ---------------------------------------------------------------------------------------

static void dot(const struct picture *p, struct layer *l, int x, int y, bool mean)
{
    static const uint8_t braille[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    int cell;

    if (x < 0 || x >= p->width || y < 0 || y >= p->height)
        return;
    cell = y / p->dot_rows * p->area.cols + x / p->dot_cols;
    l->dots[cell] |= p->dot_cols == 2 ? braille[y % 4][x % 2] : (mean ? 2 : 1);
    l->mean[cell] |= mean;
}

static void stroke(const struct picture *p, struct layer *l, int x, int y0, int y1)
{
    for (int y = y0; y <= y1; y++)
        dot(p, l, x, y, false);
}

// Joins two means: each column between them takes its share of the way, without gaps.
static void join(const struct picture *p, struct layer *l, int x0, int y0, int x1, int y1)
{
    int prev = y0;

    for (int x = x0 + 1; x <= x1; x++) {
        int y = y0 + (int)lround((double)(y1 - y0) * (x - x0) / (x1 - x0));
        int step = y > prev ? 1 : -1;

        // half of the jump belongs to the column on the left
        for (int k = prev; k != y; k += step)
            dot(p, l, abs(k - prev) * 2 <= abs(y - prev) ? x - 1 : x, k, true);
        dot(p, l, x, y, true);
        prev = y;
    }
}

static void mark_bad(const struct picture *p, int x)
{
    canvas_put(p->canvas, &p->area, 0, x / p->dot_cols, ROLE_ERROR, '!');
}

static void mark(const struct picture *p, const struct plot_series *s, int x, double v)
{
    canvas_put(p->canvas, &p->area, row_of(p, v) / p->dot_rows, x / p->dot_cols, s->role,
               (unsigned char)s->letter);
}

static void draw_column(const struct picture *p, const struct plot_series *s, struct layer *l,
                        int x, const struct span *sp, int *last_x, int *last_y)
{
    double mean = plot_value(s, sp->sum / (double)sp->n);
    int y = row_of(p, mean);

    if (plot_value(s, sp->min) > p->y_max || plot_value(s, sp->max) < p->y_min) {
        *last_x = -1; // outside of a zoomed picture
        return;
    }
    if (s->style == PLOT_MARKS) {
        mark(p, s, x, plot_value(s, sp->min));
        mark(p, s, x, plot_value(s, sp->max));
        mark(p, s, x, mean);
        return;
    }
    stroke(p, l, x, row_of(p, plot_value(s, sp->max)), row_of(p, plot_value(s, sp->min)));
    dot(p, l, x, y, true);
    if (*last_x >= 0)
        join(p, l, *last_x, *last_y, x, y);
    *last_x = x;
    *last_y = y;
}

static uint32_t glyph(const struct picture *p, const struct layer *l, int cell)
{
    if (p->dot_cols == 2)
        return 0x2800u + l->dots[cell];
    return l->dots[cell] & 2 ? '*' : ':';
}

static void paint_layer(const struct picture *p, const struct plot_series *s, const struct layer *l)
{
    for (int cell = 0; cell < p->area.rows * p->area.cols; cell++)
        if (l->dots[cell])
            canvas_put(p->canvas, &p->area, cell / p->area.cols, cell % p->area.cols,
                       l->mean[cell] ? s->role : ROLE_DIM, glyph(p, l, cell));
}

static uint32_t canvas_at(const struct picture *p, int row, int col)
{
    const struct canvas *c = p->canvas;

    row += p->area.row;
    col += p->area.col;
    return row >= 0 && row < c->rows && col >= 0 && col < c->cols ? c->cell[row * c->cols + col].ch
                                                                  : ' ';
}

// The letter right of the last point and of the letters of other series there, or on the point at
// the edge.
static void letter_at_end(const struct picture *p, const struct plot_series *s, int x, int y)
{
    int row = y / p->dot_rows, col = x / p->dot_cols + 1;

    if (!s->letter || x < 0)
        return;
    for (int k = 0; k < p->plot->n_series && col < p->area.cols; k++, col++) {
        uint32_t ch = canvas_at(p, row, col);

        if (ch == ' ' || ch >= 0x80)
            break;
    }
    canvas_put(p->canvas, &p->area, row, col < p->area.cols ? col : p->area.cols - 1, s->role,
               (unsigned char)s->letter);
}

// Do the points fill more than a third of the cells across?
static bool is_dense(const struct picture *p, const struct plot_series *s)
{
    int64_t at, end;
    int cells = 0;

    for (shown_points(p->plot, s, &at, &end); at < end; cells++) {
        int cell = column_of(p, s->x[at]) / p->dot_cols;

        at = first_in(p, s, at + 1, (cell + 1) * p->dot_cols);
    }
    return cells * 3 > p->area.cols;
}

static void draw_series(const struct picture *p, const struct plot_series *series)
{
    struct plot_series copy = *series, *s = &copy;
    size_t cells = (size_t)p->area.rows * (size_t)p->area.cols;
    struct layer l = {xcalloc(cells, 1), xcalloc(cells, 1)};
    int last_x = -1, last_y = 0;
    int64_t at, last;

    shown_points(p->plot, s, &at, &last);
    if (s->style == PLOT_MARKS && p->canvas->utf8 && is_dense(p, s))
        s->style = PLOT_LINE;
    while (at < last) {
        int x = column_of(p, s->x[at]);
        int64_t next = first_in(p, s, at + 1, x + 1), end = next < last ? next : last;
        struct span sp = pyramid_span(s->pyramid, s->y, at, end);

        if (sp.n > 0)
            draw_column(p, s, &l, x, &sp, &last_x, &last_y);
        if (sp.bad > 0)
            mark_bad(p, x);
        at = end;
    }
    if (s->style == PLOT_LINE) {
        paint_layer(p, s, &l);
        letter_at_end(p, s, last_x, last_y);
    }
    free(l.dots);
    free(l.mean);
}

// ---- axes ---------------------------------------------------------------------------------------

static void draw_y_axis(const struct picture *p, const struct rect *r, int label_width)
{
    struct tick t[TICKS_MAX];
    int gap = p->area.rows >= 10 ? 3 : 2;
    int axis = p->area.col - 1 - r->col;
    int n = ticks_make(p->y_kind, p->y_min, p->y_max, p->area.rows, false, gap, label_width, t);

    for (int i = 0; i < p->area.rows; i++)
        canvas_put(p->canvas, r, i, axis, ROLE_DIM, 0x2502);
    for (int i = 0; i < n; i++) {
        int row = row_of(p, t[i].value) / p->dot_rows;

        canvas_right(p->canvas, r, row, axis - 1, ROLE_DIM, t[i].text);
        canvas_put(p->canvas, r, row, axis, ROLE_DIM, 0x2524);
    }
}

static void draw_x_axis(const struct picture *p, const struct rect *r)
{
    struct tick t[TICKS_MAX];
    int row = p->area.rows, axis = p->area.col - 1 - r->col;
    int n =
        ticks_make(p->plot->x_kind, p->plot->x_min, p->plot->x_max, p->area.cols, true, 4, 8, t);

    canvas_put(p->canvas, r, row, axis, ROLE_DIM, 0x2514);
    for (int i = 0; i < p->area.cols; i++)
        canvas_put(p->canvas, r, row, axis + 1 + i, ROLE_DIM, 0x2500);
    for (int i = 0; i < n; i++)
        canvas_text(p->canvas, r, row, axis + 1 + t[i].at, ROLE_DIM, t[i].text);
}

static int default_label_width(int cols)
{
    return cols >= 60 ? 6 : cols >= 20 ? 5 : 4;
}

// Splits r into label column, axis and curve; false when there is no room for axes.
static bool lay_out(struct picture *p, const struct rect *r, int *label_width)
{
    int labels = p->plot->label_width > 0 ? p->plot->label_width : default_label_width(r->cols);

    *label_width = labels;
    p->area = *r;
    if (p->plot->no_axes || r->rows < 3 || r->cols < labels + 5)
        return false;
    p->area.col += labels + 1;
    p->area.cols -= labels + 1;
    p->area.rows -= 1;
    return true;
}

void plot_draw(const struct plot *plot, struct canvas *c, const struct rect *r,
               struct plot_info *info)
{
    struct picture p = {
        .plot = plot, .canvas = c, .dot_cols = c->utf8 ? 2 : 1, .dot_rows = c->utf8 ? 4 : 1};
    int label_width = 0;
    bool axes = lay_out(&p, r, &label_width);

    if (r->rows < 1 || r->cols < 1)
        return;
    p.width = p.area.cols * p.dot_cols;
    p.height = p.area.rows * p.dot_rows;
    fit_range(&p);
    if (axes) {
        if (p.any)
            draw_y_axis(&p, r, label_width);
        if (plot->x_max > plot->x_min)
            draw_x_axis(&p, r);
    }
    if (plot->x_max > plot->x_min)
        for (int i = 0; i < plot->n_series; i++)
            draw_series(&p, &plot->series[i]);
    if (info)
        *info = (struct plot_info){p.y_min, p.y_max, p.y_kind == TICKS_LOG, !p.any, p.area};
}
