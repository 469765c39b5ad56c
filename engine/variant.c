#include "engine/variant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/gen.h"
#include "engine/profile.h"
#include "engine/rng.h"

const char *const variant_names[] = {"reverse", "permute", "average", NULL};

// ---- the same layers otherwise -----------------------------------------------------------------

static bool same_lanes(const struct model_spec *a, const struct model_spec *b)
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (memcmp(a->lane[lane], b->lane[lane], sizeof(int) * (size_t)a->n_layers))
            return false;
    return true;
}

static void reorder(const struct model_spec *from, enum variant v, uint64_t seed,
                    struct model_spec *m)
{
    uint64_t key = rng_key(seed, "layers"), n = (uint64_t)from->n_layers;

    for (int i = 0; i < from->n_layers; i++) {
        int k =
            v == VARIANT_REVERSE ? from->n_layers - 1 - i : (int)rng_permute(key, (uint64_t)i, n);

        for (int lane = 0; lane < LANE_COUNT; lane++)
            m->lane[lane][i] = from->lane[lane][k];
    }
}

// Of the layers that have what it is about.
static double mean(const int *v, int n)
{
    double sum = 0;
    int present = 0;

    for (int i = 0; i < n; i++) {
        sum += v[i];
        present += v[i] > 0;
    }
    return present ? sum / present : 0;
}

// Heads before kv heads: these must divide them.
static int average(const struct model_spec *from, struct model_spec *m, struct err *err)
{
    static const enum lane order[] = {LANE_FFN, LANE_HEADS, LANE_KV, LANE_REUSE};
    char why[160];

    for (size_t k = 0; k < sizeof order / sizeof order[0]; k++) {
        double want = mean(from->lane[order[k]], from->n_layers);

        if (order[k] == LANE_KV && spec_kv_ratio(from))
            continue; // they went along
        for (int i = 0; i < m->n_layers; i++)
            if (from->lane[order[k]][i] > 0 && !gen_set(m, order[k], i, want, why, sizeof why))
                return err_set(err, "layer %d: %s", i, why);
    }
    return 0;
}

static void rename_to(struct spec *s, const char *ending)
{
    snprintf(s->name + strnlen(s->name, SPEC_NAME_SIZE - 1 - strlen(ending)), strlen(ending) + 1,
             "%s", ending);
}

// What is drawn by hand no longer comes from where it was read.
static void own_lists(const struct spec *from, struct spec *s)
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (memcmp(from->model.lane[lane], s->model.lane[lane], sizeof s->model.lane[lane]))
            s->model.source[lane].shape = SHAPE_LIST;
    for (int i = 0; i < spec_key_count; i++)
        if (!spec_key_equal(&spec_keys[i], from, s))
            s->origin[i] = (struct spec_origin){.kind = ORIGIN_NONE};
}

int variant_make(const struct spec *from, enum variant v, uint64_t seed, struct spec *out,
                 struct err *err)
{
    char ending[32];

    *out = *from;
    if (v == VARIANT_AVERAGE) {
        if (average(&from->model, &out->model, err) < 0)
            return -1;
    } else {
        reorder(&from->model, v, seed, &out->model);
    }
    if (same_lanes(&from->model, &out->model))
        return err_set(err, "%s is its own %s", from->name,
                       v == VARIANT_AVERAGE   ? "average: all layers are alike"
                       : v == VARIANT_REVERSE ? "reverse: it is symmetric"
                                              : "permutation by this seed");
    snprintf(ending, sizeof ending, v == VARIANT_PERMUTE ? "-%s%llu" : "-%s", variant_names[v],
             (unsigned long long)seed);
    rename_to(out, ending);
    own_lists(from, out);
    return 0;
}

// ---- uniform designs of a budget ---------------------------------------------------------------

static int set(struct spec *s, const char *key, int v, struct err *err)
{
    struct problems p = {0};
    char text[16];
    int rc;

    snprintf(text, sizeof text, "%d", v);
    rc = profile_set(s, key, text, &p);
    for (int i = 0; rc < 0 && i < p.n; i++)
        if (p.v[i].severity == SEV_ERROR) {
            err_set(err, "%s: %s", p.v[i].path, p.v[i].err.text);
            break;
        }
    problems_release(&p);
    return rc;
}

static void fill(struct spec *s, enum lane lane, int v)
{
    s->model.source[lane] =
        (struct lane_source){.shape = SHAPE_NUMBER, .kv_ratio = s->model.source[lane].kv_ratio};
    for (int i = 0; i < s->model.n_layers; i++)
        s->model.lane[lane][i] = v;
}

static double with_ffn(struct spec *s, double steps, enum budget b)
{
    struct count c;

    fill(s, LANE_FFN, (int)steps * s->model.ffn_step);
    count_model(s, &c);
    return budget_value(b, s, &c);
}

// Every quantity but memory is linear in the width; memory nearly, so neighbours are looked at too.
static int fit_ffn(struct spec *s, enum budget b, double target, struct err *err)
{
    double one = with_ffn(s, 1, b), slope = with_ffn(s, 2, b) - one, best = 1;
    double most = floor(1048576. / s->model.ffn_step), guess;

    if (slope <= 0)
        return err_set(err, "ffn_width does not change %s", budget_rows[b].name);
    guess = fmin(fmax(rint(1 + (target - one) / slope), 1), most);
    for (double k = fmax(1, guess - 1); k <= fmin(most, guess + 1); k++)
        if (fabs(with_ffn(s, k, b) - target) < fabs(with_ffn(s, best, b) - target))
            best = k;
    with_ffn(s, best, b);
    return 0;
}

int variant_uniform(const struct spec *from, int n_layers, int n_heads, enum budget b,
                    double target, struct spec *out, struct err *err)
{
    int ratio = spec_kv_ratio(&from->model), step = from->model.head_step;
    char ending[48];

    *out = *from;
    out->model.frame.mode = FRAME_NONE;
    if (n_heads < 1 || n_heads % step || (ratio && n_heads % ratio))
        return err_set(err, "%d heads are no multiple of head_step %d and ratio %d", n_heads, step,
                       ratio ? ratio : 1);
    if (set(out, "model.n_layers", n_layers, err) < 0)
        return -1;
    fill(out, LANE_HEADS, n_heads);
    fill(out, LANE_KV, n_heads / (ratio ? ratio : 1));
    if (out->model.source[LANE_KV].kv_ratio == 0 && ratio > 1)
        out->model.source[LANE_KV].kv_ratio = ratio;
    fill(out, LANE_REUSE, 1);
    if (fit_ffn(out, b, target, err) < 0)
        return -1;
    snprintf(ending, sizeof ending, "-u%dx%d-h%d", n_layers, out->model.lane[LANE_FFN][0], n_heads);
    rename_to(out, ending);
    for (int i = 0; i < spec_key_count; i++)
        if (!spec_key_equal(&spec_keys[i], from, out))
            out->origin[i] = (struct spec_origin){.kind = ORIGIN_NONE};
    return 0;
}

static int add_new(int *out, int n, int v)
{
    if (v < 1 || (n && out[n - 1] == v))
        return n;
    out[n] = v;
    return n + 1;
}

int variant_usual_depths(const struct spec *s, int *out, int max)
{
    static const int ninths[] = {6, 7, 8, 9, 10, 12};
    int n = 0, even = s->gate.enabled ? 2 : 1;

    for (size_t i = 0; i < sizeof ninths / sizeof ninths[0] && n < max; i++) {
        int depth = (int)rint(s->model.n_layers * ninths[i] / 9. / even) * even;

        n = add_new(out, n, depth > SPEC_MAX_LAYERS ? SPEC_MAX_LAYERS : depth);
    }
    return n;
}

int variant_usual_heads(const struct spec *s, int *out, int max)
{
    int ratio = spec_kv_ratio(&s->model), full = s->model.d_model / s->model.head_dim, n = 0;

    for (int quarters = 2; quarters <= 4 && n < max; quarters++) {
        int heads = full * quarters / 4;

        if (full * quarters % 4 == 0 && heads % s->model.head_step == 0 &&
            heads % (ratio ? ratio : 1) == 0)
            n = add_new(out, n, heads);
    }
    return n;
}
