// Which part of a run the charts show, the cursor on them, and the smoothed line.
#include <math.h>
#include <stdio.h>

#include "engine/buf.h"
#include "tui/monitor_state.h"
#include "tui/plot.h"

static const double narrowest = 1.0 / 4096; // of the whole axis
static const int windows[SMOOTH_COUNT] = {1, 10, 100, 1000};

// ---- the part that is shown ---------------------------------------------------------------------

static double clamp01(double v)
{
    return v < 0 ? 0 : v > 1 ? 1 : v;
}

void monitor_view_whole(struct monitor *m)
{
    m->view = (struct monitor_view){.to = 1, .cursor = NAN};
}

bool monitor_view_is_whole(const struct monitor *m)
{
    return m->view.from <= 0 && m->view.to >= 1;
}

// What is there at all: up to here the axis has points.
static double newest(const struct monitor *m, double now)
{
    const struct follow *f = &m->follow;
    double end = monitor_plan_end(f, m->axis, now), last = 0;

    if (f->train.n > 0)
        last = monitor_train_x(m, f->train.n - 1);
    return clamp01(last / end);
}

void monitor_view_zoom(struct monitor *m, double factor, double now)
{
    struct monitor_view *v = &m->view;
    double width = (v->to - v->from) * factor, at;

    width = width > 1 ? 1 : width < narrowest ? narrowest : width;
    // around the cursor, else the newest point where it is shown, else the middle
    at = isfinite(v->cursor) ? v->cursor : newest(m, now);
    if (at < v->from || at > v->to)
        at = (v->from + v->to) / 2;
    v->from = clamp01(at - width * (at - v->from) / (v->to - v->from));
    if (v->from + width > 1)
        v->from = 1 - width;
    v->to = v->from + width;
}

void monitor_view_pan(struct monitor *m, double screens)
{
    struct monitor_view *v = &m->view;
    double width = v->to - v->from;

    v->from += screens * width;
    v->from = v->from < 0 ? 0 : v->from > 1 - width ? 1 - width : v->from;
    v->to = v->from + width;
}

void monitor_view_cursor(struct monitor *m, int columns, double now)
{
    struct monitor_view *v = &m->view;
    int cols = v->cols > 1 ? v->cols : 60;

    if (!isfinite(v->cursor))
        v->cursor = newest(m, now); // the first press only shows it
    else
        v->cursor = clamp01(v->cursor + columns * (v->to - v->from) / cols);
    if (v->cursor < v->from)
        monitor_view_pan(m, (v->cursor - v->from) / (v->to - v->from) - 0.25);
    else if (v->cursor > v->to)
        monitor_view_pan(m, (v->cursor - v->to) / (v->to - v->from) + 0.25);
}

void monitor_view_ends(struct monitor *m, bool last, double now)
{
    m->view.cursor = last ? newest(m, now) : 0;
    monitor_view_cursor(m, 0, now);
}

// ---- the smoothed line --------------------------------------------------------------------------

int monitor_smooth_window(const struct monitor *m)
{
    return windows[m->smooth];
}

static int64_t first_from(const double *x, int64_t n, double least)
{
    int64_t lo = 0, hi = n;

    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;

        if (x[mid] < least)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int monitor_smooth(const struct plot_series *raw, int window, double lo, double hi, double *x,
                   double *y, int most)
{
    int64_t i = first_from(raw->x, raw->n, lo), end = first_from(raw->x, raw->n, hi);
    int n = 0;

    // a point for each stretch of the picture: the mean of the records that end there
    while (i < raw->n && i <= end && n < most) {
        int64_t from = i + 1 > window ? i + 1 - window : 0, next;
        struct span s = pyramid_span(raw->pyramid, raw->y, from, i + 1);

        if (s.n > 0) {
            x[n] = raw->x[i];
            y[n++] = s.sum / (double)s.n;
        }
        next = first_from(raw->x, raw->n, raw->x[i] + (hi - lo) / (most - 1));
        i = next > i ? next : i + 1;
    }
    return n;
}

// ---- the cursor ---------------------------------------------------------------------------------

// The last point at or before x; -1 = none.
static int64_t point_at(const double *x, int64_t n, double at)
{
    int64_t i = first_from(x, n, at);

    return i < n && x[i] == at ? i : i - 1;
}

static int add_value(char *out, size_t size, const struct plot_series *s, double at, int window)
{
    int64_t i = point_at(s->x, s->n, at), from;
    char name[4] = "";
    struct span span;

    if (i < 0)
        return 0;
    if (s->letter)
        snprintf(name, sizeof name, "%c ", s->letter);
    if (window <= 1)
        return snprintf(out, size, "  %s%.4g", name, plot_value(s, s->y[i]));
    from = i + 1 > window ? i + 1 - window : 0;
    span = pyramid_span(s->pyramid, s->y, from, i + 1);
    return snprintf(out, size, "  %s%.4g  s %.4g", name, plot_value(s, s->y[i]),
                    span.n ? plot_value(s, span.sum / (double)span.n) : NAN);
}

void monitor_cursor_words(const struct monitor *m, const struct plot_series *series, int n,
                          double at, char *out, size_t size)
{
    const struct follow_table *t = &m->follow.train;
    int64_t i = point_at(series[0].x, series[0].n, at);
    char step[UNIT_SIZE];
    size_t used;

    out[0] = 0;
    if (i < 0 || series[0].n != t->n) {
        snprintf(out, size, "nothing here yet");
        return;
    }
    used = (size_t)snprintf(out, size, "step %s", unit_thousands(step, (int64_t)t->col[TRAIN_STEP][i]));
    for (int k = 0; k < n && used < size; k++)
        used += (size_t)add_value(out + used, size - used, &series[k], at,
                                  k == 0 ? monitor_smooth_window(m) : 1);
}
