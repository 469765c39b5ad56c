#include "tui/ticks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"

// Offsets of the marks within one decade of a logarithmic axis, densest first; a stride above one
// takes every stride-th decade.
struct log_scheme {
    int n, stride;
    double at[9];
};
static const struct log_scheme log_schemes[] = {
    {9, 1, {1, 2, 3, 4, 5, 6, 7, 8, 9}},
    {3, 1, {1, 2, 5}},
    {2, 1, {1, 3}},
    {1, 1, {1}},
    {1, 2, {1}},
    {1, 3, {1}},
    {1, 5, {1}},
    {1, 10, {1}},
};

static const double time_steps[] = {1,     2,     5,      10,     15,     30,      60,     120,
                                    300,   600,   900,    1800,   3600,   7200,    10800,  21600,
                                    43200, 86400, 172800, 432000, 864000, 1728000, 4320000};

enum {
    N_LOG = sizeof(log_schemes) / sizeof(log_schemes[0]),
    N_TIME = sizeof(time_steps) / sizeof(time_steps[0])
};

double tick_fraction(enum tick_kind kind, double lo, double hi, double v)
{
    if (kind == TICKS_LOG)
        return (log(v) - log(lo)) / (log(hi) - log(lo));
    return (v - lo) / (hi - lo);
}

static int decimals_of(double step)
{
    int d = (int)ceil(-log10(step) - 1e-9);

    return d < 0 ? 0 : d > 9 ? 9 : d;
}

// "1e-05" -> "1e-5", with as many digits as fit.
static void scientific(char *out, int width, double v)
{
    for (int digits = 2; digits >= 0; digits--) {
        char text[40];
        char *e;

        snprintf(text, sizeof(text), "%.*e", digits, v);
        e = strchr(text, 'e');
        if (e)
            snprintf(out, TICK_TEXT, "%.*s%d", (int)(e - text + 1), text, atoi(e + 1));
        else
            snprintf(out, TICK_TEXT, "%.8s", text);
        if ((int)strlen(out) <= width)
            return;
    }
}

// "1.50M" -> "1.5M", "1.0M" -> "1M"
static void strip_zeros(char *text)
{
    char unit = text[strlen(text) - 1];
    char *end = text + strlen(text) - 2;

    if (!strchr(text, '.'))
        return;
    while (*end == '0')
        end--;
    if (*end == '.')
        end--;
    end[1] = unit;
    end[2] = '\0';
}

void tick_number(char *out, int width, double v, double step)
{
    static const char suffix[] = " kMGTPE";
    double size = fabs(v), scale = 1;
    int unit = 0;
    char text[64];

    if (!(step > 0))
        step = size > 0 ? size / 1000 : 1;
    if (size > 0 && size < 1e-3 && step < 1e-3) {
        scientific(out, width, v);
        return;
    }
    while (size / scale >= 1000 && unit < 6) {
        scale *= 1000;
        unit++;
    }
    snprintf(text, sizeof(text), "%.*f", decimals_of(step), v);
    for (int d = decimals_of(step / scale); unit > 0 && d >= 0; d--) {
        snprintf(text, sizeof(text), "%.*f%c", d, v / scale, suffix[unit]);
        strip_zeros(text);
        if ((int)strlen(text) <= width)
            break;
    }
    for (int d = decimals_of(step); unit == 0 && (int)strlen(text) > width && d >= 0; d--)
        snprintf(text, sizeof(text), "%.*f", d, v);
    if ((int)strlen(text) <= width)
        snprintf(out, TICK_TEXT, "%s", text);
    else
        scientific(out, width, v);
}

static void time_text(char *out, double v, double step)
{
    if (v == 0)
        snprintf(out, TICK_TEXT, "0");
    else if (step < 60 && v < 60)
        snprintf(out, TICK_TEXT, "%.0fs", v);
    else if (step < 60 && fmod(v, 60) != 0)
        snprintf(out, TICK_TEXT, "%dm%02d", (int)(v / 60), (int)fmod(v, 60));
    else if (v < 3600)
        snprintf(out, TICK_TEXT, "%.0fm", v / 60);
    else if (step < 3600 && fmod(v, 3600) != 0)
        snprintf(out, TICK_TEXT, "%dh%02d", (int)(v / 3600), (int)fmod(v / 60, 60));
    else if (step < 86400)
        snprintf(out, TICK_TEXT, "%.0fh", v / 3600);
    else
        snprintf(out, TICK_TEXT, "%.0fd", v / 86400);
}

// ---- one candidate set --------------------------------------------------------------------------

struct axis {
    enum tick_kind kind;
    double lo, hi;
    int cells, gap, width;
    bool horizontal;
    struct tick *out;
    int n;
    bool fits; // no two labels too close so far
};

static void add(struct axis *a, double v, double step)
{
    double f = tick_fraction(a->kind, a->lo, a->hi, v);
    struct tick *t;

    if (!a->fits || f < -1e-9 || f > 1 + 1e-9)
        return;
    if (a->n == TICKS_MAX) {
        a->fits = false;
        return;
    }
    t = &a->out[a->n];
    t->value = v;
    t->at = (int)lround(f * (a->cells - 1));
    if (a->kind == TICKS_TIME)
        time_text(t->text, v, step);
    else
        tick_number(t->text, a->width, v, step);
    if (a->horizontal && t->at + (int)strlen(t->text) > a->cells)
        return; // no room for the last one
    if (a->n > 0) {
        const struct tick *p = t - 1;
        int used = a->horizontal ? (int)strlen(p->text) : 0;

        if (t->at - p->at < used + a->gap || !strcmp(t->text, p->text))
            a->fits = false;
    }
    a->n++;
}

static void even(struct axis *a, double step)
{
    double first = ceil(a->lo / step - 1e-9), last = floor(a->hi / step + 1e-9);

    if (last - first >= TICKS_MAX) {
        a->fits = false;
        return;
    }
    for (double k = first; k <= last; k++)
        add(a, k * step == 0 ? 0 : k * step, step);
}

static void decades(struct axis *a, const struct log_scheme *s)
{
    int e0 = (int)floor(log10(a->lo)) - 1, e1 = (int)ceil(log10(a->hi)) + 1;

    if (e1 - e0 > 640)
        a->fits = false;
    for (int e = e0; e <= e1 && a->fits; e++)
        for (int i = 0; i < s->n && e % s->stride == 0; i++) {
            double unit = pow(10, e);

            add(a, s->at[i] * unit, unit);
        }
}

// Nice steps 1, 2, 5 x 10^k in ascending order from below range/TICKS_MAX.
static double nice_step(double range, int i)
{
    static const double mantissa[] = {1, 2, 5};
    int k0 = (int)floor(log10(range / TICKS_MAX)) - 1;

    return mantissa[i % 3] * pow(10, k0 + i / 3);
}

static void candidate(struct axis *a, int i)
{
    a->n = 0;
    a->fits = true;
    if (a->kind == TICKS_TIME)
        even(a, i < N_TIME ? time_steps[i] : time_steps[N_TIME - 1] * (2 << (i - N_TIME)));
    else if (a->kind == TICKS_LINEAR)
        even(a, nice_step(a->hi - a->lo, i));
    else if (i < N_LOG)
        decades(a, &log_schemes[i]);
    else // less than a decade: even steps, placed where the logarithm puts them
        even(a, nice_step(a->hi - a->lo, i - N_LOG));
}

int ticks_make(enum tick_kind kind, double lo, double hi, int cells, bool horizontal, int gap,
               int width, struct tick *out)
{
    struct tick trial[TICKS_MAX + 1];
    struct axis a = {.kind = kind,
                     .lo = lo,
                     .hi = hi,
                     .cells = cells,
                     .gap = gap,
                     .width = width,
                     .horizontal = horizontal,
                     .out = trial};
    int best = 0;

    if (!isfinite(lo) || !isfinite(hi) || !(hi > lo) || cells < 1 || width < 1 ||
        (kind == TICKS_LOG && !(lo > 0)))
        return 0;
    for (int i = 0; i < 40; i++) {
        candidate(&a, i);
        if (a.fits && a.n > best) {
            best = a.n;
            memcpy(out, trial, (size_t)a.n * sizeof(*out));
        }
    }
    return best;
}

void ticks_snap(enum tick_kind kind, double *lo, double *hi)
{
    double a = kind == TICKS_LOG ? log10(*lo) : *lo, b = kind == TICKS_LOG ? log10(*hi) : *hi;
    double range = b - a, step;
    int i = 0;

    if (!(range > 1e-9 * fmax(fabs(a), fabs(b)))) {
        double pad = kind == TICKS_LOG ? 0.05 : a != 0 ? fabs(a) * 0.1 : 1;

        a -= pad;
        b += pad;
        range = b - a;
    }
    while ((step = nice_step(range, i)) < range / 15)
        i++;
    a = floor(a / step + 1e-9) * step;
    b = ceil(b / step - 1e-9) * step;
    *lo = kind == TICKS_LOG ? pow(10, a) : a;
    *hi = kind == TICKS_LOG ? pow(10, b) : b;
}
