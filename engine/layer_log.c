#include "engine/layer_log.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/spec.h"

enum { FIRST_ROWS = 64 };

static const char *const names[LAYER_ARRAYS] = {
    [LAYER_MEAN] = "gate/mean",     [LAYER_VAR] = "gate/var",    [LAYER_SPARSITY] = "gate/sparsity",
    [LAYER_CLOSED] = "gate/closed", [LAYER_OVER] = "gate/over",  [LAYER_ALPHA] = "reg/alpha",
    [LAYER_BETA] = "reg/beta",      [LAYER_NORM] = "resid/norm",
};

static float *row_of(const struct layer_log *l, int which, int row)
{
    return l->value[which] + (size_t)row * (size_t)l->layers;
}

static size_t row_bytes(const struct layer_log *l)
{
    return (size_t)l->layers * sizeof(float);
}

// ---- rows ---------------------------------------------------------------------------------------

static void copy_row(struct layer_log *l, int to, int from)
{
    l->step[to] = l->step[from];
    for (int a = 0; a < LAYER_ARRAYS; a++)
        if (l->value[a])
            memcpy(row_of(l, a, to), row_of(l, a, from), row_bytes(l));
}

// Every second row goes; the newest stays until the next record takes its place.
static void thin_out(struct layer_log *l)
{
    int kept = LAYER_LOG_ROWS / 2;

    for (int i = 1; i < kept; i++)
        copy_row(l, i, 2 * i);
    copy_row(l, kept, LAYER_LOG_ROWS - 1);
    l->n = kept + 1;
    l->since = l->every;
    l->every *= 2;
}

static void grow(struct layer_log *l)
{
    l->cap = l->cap ? l->cap * 2 : FIRST_ROWS;
    l->step = xrealloc(l->step, (size_t)l->cap, sizeof *l->step);
    for (int a = 0; a < LAYER_ARRAYS; a++)
        if (l->value[a])
            l->value[a] = xrealloc(l->value[a], (size_t)l->cap, row_bytes(l));
}

// Later lines win: a resumed run went another way from there.
static void forget_from(struct layer_log *l, double step)
{
    while (l->n > 0 && l->step[l->n - 1] >= step) {
        l->n--;
        l->since = 0;
    }
}

// The row for a new record: one at the end, or the last one when that need not stay.
static int next_row(struct layer_log *l, double step)
{
    forget_from(l, step);
    if (l->n == 0)
        l->every = 1;
    if (l->n == LAYER_LOG_ROWS && l->since == 0)
        thin_out(l);
    l->n += l->since == 0;
    if (l->n > l->cap)
        grow(l);
    l->since = l->n > 1 ? (l->since + 1) % l->every : 0;
    l->step[l->n - 1] = step;
    return l->n - 1;
}

// ---- records ------------------------------------------------------------------------------------

// An array's values may come later than the first rows of others.
static void first_seen(struct layer_log *l, int which)
{
    size_t filled = (size_t)l->n * (size_t)l->layers;

    l->value[which] = xmalloc((size_t)l->cap * row_bytes(l));
    for (size_t i = 0; i < filled; i++)
        l->value[which][i] = NAN;
}

static void set_row(struct layer_log *l, int which, int row, const json_t *array)
{
    if (array && !l->value[which])
        first_seen(l, which);
    for (int i = 0; l->value[which] && i < l->layers; i++) {
        const json_t *v = json_array_get(array, (size_t)i);

        row_of(l, which, row)[i] = json_is_number(v) ? (float)json_number_value(v) : NAN;
    }
}

// The arrays of a line that can be used; returns how many can not.
static int pick(struct layer_log *l, const json_t *line, const json_t **array, bool *any)
{
    int bad = 0;

    *any = false;
    for (int a = 0; a < LAYER_ARRAYS; a++) {
        const json_t *v = json_object_get(line, names[a]);
        size_t n = json_array_size(v); // 0 of anything else

        array[a] = NULL;
        if (!v || json_is_null(v))
            continue;
        if (l->layers == 0 && n > 0 && n <= SPEC_MAX_LAYERS)
            l->layers = (int)n;
        if (n == 0 || n != (size_t)l->layers) {
            bad++;
            continue;
        }
        array[a] = v;
        *any = true;
    }
    return bad;
}

int layer_log_add(struct layer_log *l, double step, const json_t *line)
{
    const json_t *array[LAYER_ARRAYS];
    bool any;
    int bad = pick(l, line, array, &any), row;

    if (!any)
        return bad;
    row = next_row(l, step);
    for (int a = 0; a < LAYER_ARRAYS; a++)
        set_row(l, a, row, array[a]);
    return bad;
}

void layer_log_release(struct layer_log *l)
{
    free(l->step);
    for (int a = 0; a < LAYER_ARRAYS; a++)
        free(l->value[a]);
    *l = (struct layer_log){0};
}

double layer_log_value(const struct layer_log *l, enum layer_array which, int row, int layer)
{
    if (!l->value[which] || row < 0 || row >= l->n || layer < 0 || layer >= l->layers)
        return NAN;
    return row_of(l, which, row)[layer];
}

double layer_log_mean(const struct layer_log *l, enum layer_array which, int row)
{
    double sum = 0;
    int n = 0;

    for (int i = 0; i < l->layers; i++) {
        double v = layer_log_value(l, which, row, i);

        if (!isnan(v)) {
            sum += v;
            n++;
        }
    }
    return n > 0 ? sum / n : NAN;
}
