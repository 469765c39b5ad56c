// One key of a spec in memory, through the reader: the spec is written as a profile, the key is set
// like a --set, and the whole is read and checked again. What must follow the key is done to the
// written form first.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/gen.h"
#include "engine/profile_read.h"

// Derived values and the keys they are derived from (profile_bind.c).
static const struct {
    const char *derived, *from[6];
} derivations[] = {
    {"model.head_step", {"model.n_kv_heads"}},
    {"train.global_batch_size", {"train.micro_batch_size"}},
    {"train.max_steps", {"train.max_tokens"}},
    {"optim.min_lr", {"optim.lr"}},
    {"optim.warmup_steps",
     {"train.seq_len", "train.micro_batch_size", "train.global_batch_size", "train.max_tokens",
      "train.max_steps"}},
};

// Derived keys that are to be derived again once key is set.
static void find_followers(const struct spec *spec, const char *key, bool *left_out)
{
    for (size_t i = 0; i < sizeof derivations / sizeof *derivations; i++) {
        int k = (int)(spec_key_find(derivations[i].derived) - spec_keys);

        for (int j = 0; j < 6 && derivations[i].from[j]; j++)
            if (spec->origin[k].kind == ORIGIN_DERIVED && !strcmp(derivations[i].from[j], key))
                left_out[k] = true;
    }
}

// ---- lanes --------------------------------------------------------------------------------------

static bool moves_lanes(const char *key)
{
    static const char *const keys[] = {"model.n_layers", "model.d_model",   "model.head_dim",
                                       "model.ffn_step", "model.head_step", "model.frame",
                                       "model.n_heads"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(keys[i], key))
            return true;
    return false;
}

static int gcd(int a, int b)
{
    while (b) {
        int rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

// What head counts must be multiples of, so that their kv heads stay whole.
static int head_unit(const struct model_spec *m, int ratio)
{
    const struct lane_source *kv = &m->source[LANE_KV];
    int by = kv->kv_ratio ? kv->kv_ratio : kv->shape == SHAPE_NUMBER ? m->lane[LANE_KV][0] : ratio;
    int64_t unit;

    if (by < 1)
        return m->head_step;
    unit = (int64_t)m->head_step / gcd(m->head_step, by) * by;
    return unit > INT32_MAX ? INT32_MAX : (int)unit;
}

static int nearest_multiple(double v, int unit, double max)
{
    double most = floor(max / unit), n = ceil(v / unit - 0.5); // the smaller one of two

    n = n > most ? most : n;
    return n >= 1 ? (int)(n * unit) : unit;
}

static int nearest_divisor(double v, int of)
{
    int best = 1;

    for (int i = 2; i <= of; i++)
        if (of % i == 0 && fabs(i - v) < fabs(best - v))
            best = i;
    return best;
}

// Linear between the old layers. What the nearest of them lacks stays away, and the others are no
// mean with it.
static double resampled(const int *values, int n, int layer, int new_n)
{
    double x = new_n > 1 ? (double)layer * (n - 1) / (new_n - 1) : (n - 1) / 2.;
    int below = (int)x, nearest = (int)(x + 0.5);

    if (below + 1 >= n)
        return values[n - 1];
    if (values[below] == 0 || values[below + 1] == 0)
        return values[nearest];
    return values[below] + (x - below) * (values[below + 1] - values[below]);
}

static int legal(const struct model_spec *m, enum lane lane, int layer, int ratio, double v)
{
    static const char *const keys[LANE_COUNT] = {"model.ffn_width", "model.n_heads",
                                                 "model.n_kv_heads", "model.reuse"};
    int heads = m->lane[LANE_HEADS][layer];

    if (lane == LANE_KV ? heads == 0 : v == 0)
        return 0;
    if (lane == LANE_KV)
        return ratio && heads % ratio == 0 ? heads / ratio : nearest_divisor(v, heads);
    return nearest_multiple(v,
                            lane == LANE_FFN     ? m->ffn_step
                            : lane == LANE_HEADS ? head_unit(m, ratio)
                                                 : 1,
                            spec_key_find(keys[lane])->max);
}

// A lane with values of its own follows into m, which has the new scalars. A kv number stays:
// heads are moved onto its multiples.
static void follow_by_value(struct model_spec *m, const struct model_spec *old, enum lane lane,
                            int ratio)
{
    if (m->source[lane].shape == SHAPE_NUMBER) {
        int v = old->lane[lane][0];

        if (lane != LANE_KV)
            v = legal(m, lane, 0, ratio, v);
        for (int i = 0; i < m->n_layers; i++)
            m->lane[lane][i] = v;
        return;
    }
    for (int i = 0; i < m->n_layers; i++)
        m->lane[lane][i] =
            legal(m, lane, i, ratio, resampled(old->lane[lane], old->n_layers, i, m->n_layers));
}

// Lanes of `next`, in which the key has its new value already. Generators that fail are left for
// the reader to complain about.
static void follow_lanes(struct spec *next, const struct spec *old, const struct spec_key *set)
{
    struct model_spec *m = &next->model;
    int ratio = spec_kv_ratio(&old->model);

    for (int lane = 0; lane < LANE_COUNT; lane++) {
        const struct lane_source *src = &m->source[lane];

        if (set->type == KEY_LANE && set->size == (size_t)lane)
            continue;
        if (lane_source_holds(src, &old->model, (enum lane)lane))
            gen_apply(m, (enum lane)lane, NULL);
        else
            follow_by_value(m, &old->model, (enum lane)lane, ratio);
    }
}

// A number that is repeated in more or fewer layers is the same number.
static bool same_lane(const struct spec_key *k, const struct spec *a, const struct spec *b)
{
    const struct model_spec *x = &a->model, *y = &b->model;
    enum lane lane = (enum lane)k->size;

    return spec_key_equal(k, a, b) ||
           (x->source[lane].shape == SHAPE_NUMBER && y->source[lane].shape == SHAPE_NUMBER &&
            !x->source[lane].kv_ratio && !y->source[lane].kv_ratio &&
            x->lane[lane][0] == y->lane[lane][0]);
}

static void note_lanes(const struct spec *old, const struct spec *next, const struct spec_key *set,
                       struct problems *p)
{
    for (int i = 0; i < spec_key_count; i++) {
        const struct spec_key *k = &spec_keys[i];
        enum lane lane = (enum lane)k->size;

        if (k->type != KEY_LANE || k == set || same_lane(k, old, next))
            continue;
        if (lane_source_holds(&next->model.source[lane], &next->model, lane))
            problem_add(p, SEV_NOTE, NULL, 0, 0, k->path, "follows its %s",
                        next->model.source[lane].kv_ratio ? "ratio" : "generator");
        else if (next->model.source[lane].shape == SHAPE_NUMBER)
            problem_add(p, SEV_NOTE, NULL, 0, 0, k->path, "%d in all %d layers",
                        next->model.lane[lane][0], next->model.n_layers);
        else if (old->model.n_layers != next->model.n_layers)
            problem_add(p, SEV_NOTE, NULL, 0, 0, k->path, "list of %d resampled to %d layers",
                        old->model.n_layers, next->model.n_layers);
        else
            problem_add(p, SEV_NOTE, NULL, 0, 0, k->path, "list moved to the nearest legal values");
    }
}

// ---- setting ------------------------------------------------------------------------------------

// Reads spec with the key set. False when the key itself has no good value; otherwise *out holds
// at least that.
static bool read_with(const struct spec *spec, const bool *left_out, const char *set,
                      const struct spec_key *k, struct spec *out, struct problems *p, int *rc)
{
    struct reading *r = xmalloc(sizeof *r);
    struct buf text = {0};
    bool good;

    spec_to_sources(spec, left_out, &text);
    *rc = reading_run(r, "design", text.data, text.len, &set, 1, out, p);
    good = k && !r->is_broken && r->slots[k - spec_keys].value && !r->slots[k - spec_keys].is_bad;
    reading_release(r);
    free(r);
    buf_release(&text);
    return good;
}

// `base` becomes what the key is to be set in.
static void adapt(struct spec *base, const struct spec *old, const struct spec_key *k,
                  const bool *left_out, const char *set)
{
    struct problems ignored = {0};
    struct spec *first = xmalloc(sizeof *first);
    int rc;

    if (read_with(old, left_out, set, k, first, &ignored, &rc)) {
        size_t size = k->type == KEY_LANE ? sizeof base->model.lane[0] : k->size;

        memcpy((char *)base + k->offset, (const char *)first + k->offset, size);
        if (k->type == KEY_LANE)
            base->model.source[k->size] = first->model.source[k->size];
        follow_lanes(base, old, k);
    }
    problems_release(&ignored);
    free(first);
}

static bool same_source(const struct lane_source *a, const struct lane_source *b)
{
    if (a->shape != b->shape || a->kv_ratio != b->kv_ratio)
        return false;
    return gen_points(a->shape) == 0 ||
           !memcmp(a->points, b->points, (size_t)gen_points(a->shape) * sizeof a->points[0]);
}

static bool same_value(const struct spec_key *k, const struct spec *a, const struct spec *b)
{
    if (k->type != KEY_LANE)
        return spec_key_equal(k, a, b);
    return same_lane(k, a, b) && same_source(&a->model.source[k->size], &b->model.source[k->size]);
}

static void take(struct spec *spec, const struct spec *next)
{
    struct spec old = *spec;

    *spec = *next;
    memcpy(spec->origin, old.origin, sizeof spec->origin);
    memcpy(spec->origin_file, old.origin_file, sizeof spec->origin_file);
    for (int i = 0; i < spec_key_count; i++) {
        const struct spec_key *k = &spec_keys[i];

        if (k->type == KEY_LANE &&
            lane_source_holds(&old.model.source[k->size], &spec->model, (enum lane)k->size))
            continue; // what the file says gives these values too
        if (!same_value(k, spec, &old) && next->origin[i].kind != ORIGIN_DERIVED)
            spec->origin[i] = (struct spec_origin){.kind = ORIGIN_NONE};
    }
}

int profile_set(struct spec *spec, const char *key, const char *text, struct problems *p)
{
    const struct spec_key *k = spec_key_find(key);
    struct spec *base = xmalloc(sizeof *base), *next = xmalloc(sizeof *next);
    bool left_out[SPEC_MAX_KEYS] = {false};
    char *set = xasprintf("%s=%s", key, text);
    int rc;

    *base = *spec;
    find_followers(spec, key, left_out);
    if (k && moves_lanes(key))
        adapt(base, spec, k, left_out, set);
    read_with(base, left_out, set, k, next, p, &rc);
    if (rc == 0 && k && !same_value(k, spec, next)) {
        note_lanes(spec, next, k, p);
        take(spec, next);
    }
    free(set);
    free(next);
    free(base);
    return rc;
}
