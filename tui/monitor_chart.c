// Charts of the Monitor screen: which columns of a run are drawn against which axis.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/monitor_state.h"
#include "tui/plot.h"
#include "tui/run_words.h"

enum { SMOOTH_POINTS = 1024 };

static const char *const axis_names[] = {"tokens", "steps", "time", "train FLOPs"};
static const int train_x[] = {TRAIN_TOKENS, TRAIN_STEP, TRAIN_TIME, TRAIN_FLOPS};
static const int eval_x[] = {EVAL_TOKENS, EVAL_STEP, EVAL_TIME, EVAL_FLOPS};

static const char *const zoom_words[] = {"", " fits last 1/2", " fits last 1/10"};

struct chart_row {
    const char *title;
    int train; // column of the training table, -1 = none
    int eval;  // column of the evaluation table, -1 = none
    enum plot_scale train_scale;
};

// Of the metric the person chose, and of the fixed charts.
static const struct chart_row metric_rows[METRIC_COUNT] = {
    [METRIC_LOSS] = {"loss", TRAIN_LOSS, EVAL_LOSS, PLOT_AS_IS},
    [METRIC_PPL] = {"perplexity", TRAIN_LOSS, EVAL_PPL, PLOT_EXP},
    [METRIC_BPB] = {"bits per byte", TRAIN_LOSS, EVAL_BPB, PLOT_AS_IS},
};
static const struct chart_row chart_rows[] = {
    [CHART_GRAD_NORM] = {"gradient norm", TRAIN_GRAD_NORM, -1, PLOT_AS_IS},
    [CHART_SPEED] = {"tokens/s", TRAIN_TOKENS_PER_S, -1, PLOT_AS_IS},
    [CHART_LR] = {"learning rate", TRAIN_LR, -1, PLOT_AS_IS},
};

double monitor_bpb_factor(const struct follow *f)
{
    for (int i = f->eval.n - 1; i >= 0; i--) {
        double factor = f->eval.col[EVAL_BPB][i] / f->eval.col[EVAL_LOSS][i];

        if (isfinite(factor) && factor > 0)
            return factor;
    }
    return NAN;
}

static double first_time(const struct follow *f)
{
    double t = f->train.n > 0 ? f->train.col[TRAIN_TIME][0] : NAN;

    if (f->eval.n > 0)
        t = fmin(t, f->eval.col[EVAL_TIME][0]);
    return isfinite(t) ? t : 0;
}

// The end by the clock moves with the speed: rounded up, so that the picture stands still.
static double time_end(const struct follow *f, double now)
{
    const struct run_status *st = &f->status;
    double last = f->train.n > 0 ? f->train.col[TRAIN_TIME][f->train.n - 1] : NAN;
    double lo = 0, hi = last - first_time(f);

    if (run_state_is_live(st->state) && isfinite(st->eta_s))
        hi = fmax(hi, now + st->eta_s - first_time(f));
    if (!(hi > 0))
        return 1;
    ticks_snap(TICKS_LINEAR, &lo, &hi);
    return hi;
}

static double planned(const struct run_status *st, enum x_axis axis)
{
    if (axis == AXIS_TOKENS)
        return (double)st->total_tokens;
    if (axis == AXIS_STEPS)
        return (double)st->total_steps;
    return st->step > 0 ? st->flops / (double)st->step * (double)st->total_steps : 0;
}

double monitor_train_x(const struct monitor *m, int64_t i)
{
    return m->follow.train.col[train_x[m->axis]][i] -
           (m->axis == AXIS_TIME ? first_time(&m->follow) : 0);
}

double monitor_plan_end(const struct follow *f, enum x_axis axis, double now)
{
    const struct follow_table *t = &f->train;
    double plan, last = 0;

    if (axis == AXIS_TIME)
        return time_end(f, now);
    plan = planned(&f->status, axis);
    if (t->n > 0)
        last = t->col[train_x[axis]][t->n - 1];
    if (f->eval.n > 0)
        last = fmax(last, f->eval.col[eval_x[axis]][f->eval.n - 1]);
    return fmax(fmax(plan, last), 1);
}

void monitor_sync(struct monitor *m)
{
    static const int train[] = {TRAIN_LOSS, TRAIN_LR, TRAIN_GRAD_NORM, TRAIN_TOKENS_PER_S};
    static const int eval[] = {EVAL_LOSS, EVAL_PPL, EVAL_BPB};
    struct follow *f = &m->follow;

    for (size_t i = 0; i < sizeof(train) / sizeof(train[0]); i++)
        pyramid_sync(&m->train[train[i]], f->train.col[train[i]], f->train.n, f->train.dirty);
    for (size_t i = 0; i < sizeof(eval) / sizeof(eval[0]); i++)
        pyramid_sync(&m->eval[eval[i]], f->eval.col[eval[i]], f->eval.n, f->eval.dirty);
    f->train.dirty = f->train.n;
    f->eval.dirty = f->eval.n;
}

static const struct chart_row *row_of_chart(const struct monitor *m, enum chart which)
{
    if (which == CHART_METRIC)
        return &metric_rows[m->metric];
    if (which == CHART_LOSS)
        return &metric_rows[METRIC_LOSS];
    if (which == CHART_PPL)
        return &metric_rows[METRIC_PPL];
    return &chart_rows[which];
}

static bool is_log(const struct monitor *m, const struct chart_row *row)
{
    for (int i = 0; i < METRIC_COUNT; i++)
        if (row == &metric_rows[i])
            return m->log_y[i];
    return row == &chart_rows[CHART_GRAD_NORM];
}

// Fills the series of a chart; the evaluations come last and so stand on top.
static int series_of(struct monitor *m, const struct chart_row *row, struct plot_series *s)
{
    struct follow *f = &m->follow;
    double bpb = monitor_bpb_factor(f);
    int n = 0;

    if (!(row == &metric_rows[METRIC_BPB] && isnan(bpb)))
        s[n++] = (struct plot_series){.x = f->train.col[train_x[m->axis]],
                                      .y = f->train.col[row->train],
                                      .n = f->train.n,
                                      .pyramid = &m->train[row->train],
                                      .scale = row->train_scale,
                                      .factor = row == &metric_rows[METRIC_BPB] ? bpb : 1,
                                      .letter = row->eval >= 0 ? 't' : 0,
                                      .role = ROLE_CURVE_A};
    if (row->eval >= 0)
        s[n++] = (struct plot_series){.x = f->eval.col[eval_x[m->axis]],
                                      .y = f->eval.col[row->eval],
                                      .n = f->eval.n,
                                      .pyramid = &m->eval[row->eval],
                                      .style = PLOT_MARKS,
                                      .letter = 'o',
                                      .role = ROLE_CURVE_B};
    return n;
}

// Where the newest half or tenth of what is there begins.
static double fit_from(const struct monitor *m, const struct plot *p)
{
    static const double share[ZOOM_COUNT] = {0, 0.5, 0.9};
    const struct follow_table *t = &m->follow.train;

    if (t->n == 0)
        return 0;
    return (t->col[train_x[m->axis]][t->n - 1] - p->x_origin) * share[m->zoom];
}

// The cursor's values take the place of the axes' names.
static bool draw_values(const struct monitor *m, struct canvas *c, const struct rect *r, int col,
                        const struct plot *p)
{
    char text[200];
    double at = m->view.cursor * p->whole + p->x_origin;
    struct rect line = {r->row, r->col, 1, r->cols};

    if (!isfinite(m->view.cursor))
        return false;
    monitor_cursor_words(m, p->series, p->n_raw, at, text, sizeof text);
    canvas_cut(c, &line, 0, col + 2, ROLE_CURSOR, text);
    return true;
}

static void draw_legend(const struct monitor *m, struct canvas *c, const struct rect *r, int col)
{
    char mean[32];

    if (r->cols - col < 16)
        return;
    col += 2 + canvas_text(c, r, 0, col + 2, m->smooth ? ROLE_DIM : ROLE_CURVE_A, "t train");
    snprintf(mean, sizeof mean, "s mean of %d", monitor_smooth_window(m));
    if (r->cols - col < (int)strlen(mean) + 2 + 7)
        mean[1] = 0; // just its letter
    if (m->smooth)
        col += 2 + canvas_text(c, r, 0, col + 2, ROLE_CURVE_A, mean);
    canvas_text(c, r, 0, col + 2, ROLE_CURVE_B, "o val");
}

static void draw_title(const struct monitor *m, struct canvas *c, const struct rect *r,
                       const struct chart_row *row, const struct plot *p,
                       const struct plot_info *info, double bpb)
{
    int col = 1;

    if (info->area.rows == r->rows)
        return; // no axes: no room for words either
    col += canvas_fmt(c, r, 0, col, ROLE_TITLE, "%s", row->title);
    if (draw_values(m, c, r, col, p))
        return;
    col += canvas_fmt(c, r, 0, col, ROLE_DIM, "  %s y%s  x %s%s", info->log_y ? "log" : "linear",
                      zoom_words[m->zoom], axis_names[m->axis],
                      monitor_view_is_whole(m) ? "" : " (part)");
    if (row == &metric_rows[METRIC_BPB] && isnan(bpb)) {
        canvas_text(c, r, 0, col + 2, ROLE_WARN, "not known: the data does not say its bytes");
        return;
    }
    if (row->eval >= 0)
        draw_legend(m, c, r, col);
}

static void draw_empty(const struct monitor *m, struct canvas *c, const struct rect *area)
{
    const struct run_status *st = &m->follow.status;
    const char *text = m->follow.behind               ? "reading the log"
                       : run_state_is_live(st->state) ? "waiting for the first step"
                       : st->state == RUN_NEW         ? "not started"
                                                      : "no numbers were logged";
    int col = (area->cols - text_width(text)) / 2;

    canvas_text(c, area, area->rows / 2, col > 0 ? col : 0, ROLE_DIM, text);
}

// ---- a chart ------------------------------------------------------------------------------------

// What a chart is drawn from: the series as logged, the smoothed one after them.
struct chart_data {
    struct plot_series series[3];
    double x[SMOOTH_POINTS], y[SMOOTH_POINTS];
};

static void add_smooth(const struct monitor *m, struct plot *p, struct chart_data *d)
{
    struct plot_series *raw = &d->series[0], *s = &d->series[p->n_series];
    int n;

    if (m->smooth == SMOOTH_OFF || p->n_series == 0 || raw->style != PLOT_LINE)
        return;
    n = monitor_smooth(raw, monitor_smooth_window(m), p->x_min + p->x_origin, p->x_max + p->x_origin,
                       d->x, d->y, SMOOTH_POINTS);
    *s = *raw;
    s->x = d->x;
    s->y = d->y;
    s->n = n;
    s->pyramid = NULL;
    s->letter = raw->letter ? 's' : 0;
    raw->role = ROLE_DIM;
    p->n_series++;
}

static void set_x(struct monitor *m, struct plot *p, double now)
{
    p->whole = monitor_plan_end(&m->follow, m->axis, now);
    p->x_min = m->view.from * p->whole;
    p->x_max = m->view.to * p->whole;
    if (m->axis == AXIS_TIME) {
        p->x_origin = first_time(&m->follow);
        p->x_kind = TICKS_TIME;
    }
}

static void draw_cursor(struct monitor *m, struct canvas *c, const struct plot_info *info)
{
    const struct monitor_view *v = &m->view;
    int col = (int)((v->cursor - v->from) / (v->to - v->from) * info->area.cols);

    if (!isfinite(v->cursor) || v->cursor < v->from || v->cursor > v->to)
        return;
    col = col < info->area.cols ? col : info->area.cols - 1;
    for (int row = 0; row < info->area.rows; row++) {
        struct rect cell = {info->area.row + row, info->area.col + col, 1, 1};

        if (canvas_is_blank(c, &cell))
            canvas_put(c, &cell, 0, 0, ROLE_DIM, 0x2502);
        else
            canvas_role(c, &cell, ROLE_CURSOR);
    }
}

void monitor_chart(struct monitor *m, struct canvas *c, const struct rect *r, enum chart which,
                   double now)
{
    const struct chart_row *row = row_of_chart(m, which);
    static struct chart_data d;
    struct plot p = {.series = d.series, .log_y = is_log(m, row), .from_zero = which == CHART_SPEED};
    struct plot_info info = {.empty = true};
    struct rect curve = *r;
    bool titled = r->rows >= 5 && r->cols >= 20;

    if (r->rows < 1 || r->cols < 1)
        return;
    if (titled) {
        curve.row++;
        curve.rows--;
    }
    p.n_series = p.n_raw = series_of(m, row, d.series);
    set_x(m, &p, now);
    p.fit_from = fit_from(m, &p);
    add_smooth(m, &p, &d);
    plot_draw(&p, c, &curve, &info);
    if (which == CHART_METRIC)
        m->view.cols = info.area.cols;
    draw_cursor(m, c, &info);
    if (titled)
        draw_title(m, c, r, row, &p, &info, monitor_bpb_factor(&m->follow));
    if (info.empty && info.area.cols > 10)
        draw_empty(m, c, &info.area);
}
