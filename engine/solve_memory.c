// Memory is no sum over the layers: some buffers are shared and as wide as the widest layer's FFN, its
// queries, its queries, keys and values. With recomputation a layer's whole memory is shared. What one
// layer adds is still its own affair while another one is at least as wide.
#include "engine/solve_impl.h"

#include <math.h>

#include "engine/model.h"

enum shared { SHARED_FFN, SHARED_Q, SHARED_QKV, SHARED_KINDS };

static int shared_width(const struct spec *s, int layer, enum shared kind)
{
    const struct model_spec *m = &s->model;
    int heads = m->lane[LANE_HEADS][layer];

    if (kind == SHARED_FFN)
        return m->lane[LANE_FFN][layer];
    return kind == SHARED_Q ? heads : heads + 2 * m->lane[LANE_KV][layer];
}

static bool is_as_wide(const struct spec *s, int layer, const int *width, enum shared kind)
{
    if (s->train.recompute != RECOMPUTE_LAYER)
        return shared_width(s, layer, kind) >= width[kind];
    for (int k = 0; k < SHARED_KINDS; k++)
        if (shared_width(s, layer, (enum shared)k) < width[k])
            return false;
    return true;
}

// Another layer that is as wide; -1 = none.
static int find_other(const struct spec *s, int layer, const int *width, enum shared kind)
{
    for (int i = 0; i < s->model.n_layers; i++)
        if (i != layer && is_as_wide(s, i, width, kind))
            return i;
    return -1;
}

static void set_layer(struct spec *few, int at, const struct spec *all, int layer)
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        few->model.lane[lane][at] = all->model.lane[lane][layer];
}

static bool set_others(struct spec *few, const struct spec *before, const struct spec *after,
                       int layer)
{
    int width[SHARED_KINDS];

    for (int k = 0; k < SHARED_KINDS; k++) {
        int x = shared_width(before, layer, (enum shared)k);
        int y = shared_width(after, layer, (enum shared)k);

        width[k] = x > y ? x : y;
    }
    for (int k = 0; k < SHARED_KINDS; k++) {
        int other = find_other(before, layer, width, (enum shared)k);

        if (other < 0)
            return false;
        set_layer(few, k + 1, before, other);
    }
    return true;
}

static double memory_with(struct spec *few, const struct spec *s, int layer)
{
    struct model_plan plan;

    set_layer(few, 0, s, layer);
    model_plan(few, model_sizes_cpu, &plan); // as count_model does
    return (double)plan.total;
}

bool solve_step_alone(const struct spec *before, const struct spec *after, int layer,
                      struct spec *few, double *change)
{
    few->model.n_layers = SHARED_KINDS + 1; // even, as gates want it
    if (!set_others(few, before, after, layer))
        return false;
    if (isnan(*change))
        *change = memory_with(few, after, layer) - memory_with(few, before, layer);
    return true;
}
