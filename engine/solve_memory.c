// Memory is no sum over the layers: some buffers are shared, as wide as the widest FFN, the most queries,
// the most queries, keys and values of any layer; with recomputation a layer's whole memory is shared. A
// model of one layer and of those that are the widest beside it shares the same, and all else is a sum.
#include "engine/solve_impl.h"

#include <string.h>

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

// Of the other layers; -1 where there is none.
static int find_widest(const struct spec *s, int layer, enum shared kind)
{
    int widest = -1;

    for (int i = 0; i < s->model.n_layers; i++)
        if (i != layer && (widest < 0 || shared_width(s, i, kind) > shared_width(s, widest, kind)))
            widest = i;
    return widest;
}

// Another layer that is the widest in everything; -1 where there is none.
static int find_widest_in_all(const struct spec *s, int layer, const int *widest)
{
    for (int i = 0; i < s->model.n_layers; i++) {
        bool all = i != layer;

        for (int k = 0; all && k < SHARED_KINDS; k++)
            all = shared_width(s, i, (enum shared)k) == shared_width(s, widest[k], (enum shared)k);
        if (all)
            return i;
    }
    return -1;
}

// The layers that stand for all others. False where there are none.
static bool find_others(const struct spec *s, int layer, int *others)
{
    for (int k = 0; k < SHARED_KINDS; k++)
        others[k] = find_widest(s, layer, (enum shared)k);
    if (others[0] >= 0 && s->train.recompute == RECOMPUTE_LAYER) {
        int one = find_widest_in_all(s, layer, others);

        for (int k = 0; k < SHARED_KINDS; k++)
            others[k] = one;
    }
    return others[0] >= 0;
}

static void set_layer(struct spec *few, int at, const struct spec *all, int layer)
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        few->model.lane[lane][at] = all->model.lane[lane][layer];
}

static double memory_with(struct spec *few, const struct spec *s, int layer)
{
    struct model_plan plan;

    set_layer(few, 0, s, layer);
    model_plan(few, model_sizes_cpu, &plan); // as count_model does
    return (double)plan.total;
}

// What the change depends on.
static struct solve_step step_key(const struct spec *before, const struct spec *after, int layer,
                                  const int *others)
{
    struct solve_step key = {{0}, 0};

    for (int k = 0; k < SHARED_KINDS; k++) {
        key.widths[3 * k] = shared_width(before, layer, (enum shared)k);
        key.widths[3 * k + 1] = shared_width(after, layer, (enum shared)k);
        key.widths[3 * k + 2] = shared_width(before, others[k], (enum shared)k);
    }
    return key;
}

// ALiBi's table has a row for every layer, as long as the most heads.
static bool changes_table(const struct spec *s, const struct solve_step *step)
{
    const int *q = step->widths + 3 * SHARED_Q;

    return s->model.pos == POS_ALIBI && q[0] != q[1] && (q[0] > q[2] || q[1] > q[2]);
}

bool solve_step_alone(const struct spec *before, const struct spec *after, int layer,
                      struct spec *few, struct solve_step *known)
{
    int others[SHARED_KINDS];
    struct solve_step key;

    if (!find_others(before, layer, others))
        return false;
    key = step_key(before, after, layer, others);
    if (!memcmp(known->widths, key.widths, sizeof key.widths))
        return true;
    if (changes_table(before, &key))
        return false;
    few->model.n_layers = 1 + SHARED_KINDS; // even, as gates want it
    for (int k = 0; k < SHARED_KINDS; k++)
        set_layer(few, 1 + k, before, others[k]);
    key.change = memory_with(few, after, layer) - memory_with(few, before, layer);
    *known = key;
    return true;
}
