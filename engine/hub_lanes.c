// Sizes and per-layer values of a hub configuration: one number for all layers, OpenELM's lists and
// factors, DeciLM's block_configs.
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/hub_internal.h"

bool hub_whole(struct hub_file *f, enum hub_fact fact, const char *part, const json_t *v,
               int64_t *out)
{
    double n = json_number_value(v); // 0 for what is no number; some files write 2048.0
    char q[HUB_QUOTE];

    if (n >= 1 && n <= INT_MAX && n == floor(n)) {
        *out = (int64_t)n;
        return true;
    }
    hub_say_fact(f, HUB_ERROR, fact, part, "expected a whole number from 1, got %s",
                 hub_quote(q, v));
    return false;
}

static bool number(struct hub_file *f, enum hub_fact fact, const char *part, const json_t *v,
                   double *out)
{
    char q[HUB_QUOTE];

    if (json_is_number(v) && json_number_value(v) > 0 && json_number_value(v) < 1e6) {
        *out = json_number_value(v);
        return true;
    }
    hub_say_fact(f, HUB_ERROR, fact, part, "expected a number above 0, got %s", hub_quote(q, v));
    return false;
}

// Item i of a list with one value for each layer, or the one value for all.
static const json_t *item(const json_t *v, int i, char part[32])
{
    part[0] = '\0';
    if (!json_is_array(v))
        return v;
    snprintf(part, 32, "[%d]", i);
    return json_array_get(v, (size_t)i);
}

static bool has_layers(struct hub_file *f, enum hub_fact fact, const struct hub_shape *s)
{
    size_t n = json_array_size(f->fact[fact]);

    if (!json_is_array(f->fact[fact]) || n == (size_t)s->n_layers)
        return true;
    hub_say_fact(f, HUB_ERROR, fact, "", "has %zu values, expected one for each of %lld layers", n,
                 (long long)s->n_layers);
    return false;
}

static bool read_lane(struct hub_file *f, enum hub_fact fact, const struct hub_shape *s,
                      struct hub_lane *lane)
{
    const json_t *v = f->fact[fact];
    char part[32];

    lane->from = fact;
    lane->is_list = json_is_array(v);
    if (!has_layers(f, fact, s))
        return false;
    for (int i = 0; i < s->n_layers; i++) {
        const json_t *one = item(v, i, part);

        if (!hub_whole(f, fact, part, one, &lane->v[i]))
            return false;
    }
    return true;
}

static void fill(struct hub_lane *lane, const struct hub_shape *s, int64_t value,
                 enum hub_fact from)
{
    *lane = (struct hub_lane){.from = from};
    for (int i = 0; i < s->n_layers; i++)
        lane->v[i] = value;
}

// ---- FFN ----------------------------------------------------------------------------------------

// OpenELM's rounding: to the nearest multiple, and one more where that lost a tenth.
static int64_t divisible(double v, int64_t by)
{
    int64_t n = (int64_t)floor((v + (double)by / 2) / (double)by) * by;

    n = n < by ? by : n;
    return (double)n < 0.9 * v ? n + by : n;
}

static bool read_factors(struct hub_file *f, struct hub_shape *s)
{
    const json_t *v = f->fact[FACT_FFN_FACTORS];
    int64_t by;
    double factor;
    char part[32];

    s->ffn.from = FACT_FFN_FACTORS;
    s->ffn.is_list = json_is_array(v);
    if (!hub_whole(f, FACT_FFN_DIVISOR, "", f->fact[FACT_FFN_DIVISOR], &by) ||
        !has_layers(f, FACT_FFN_FACTORS, s))
        return false;
    for (int i = 0; i < s->n_layers; i++) {
        const json_t *one = item(v, i, part);

        if (!number(f, FACT_FFN_FACTORS, part, one, &factor))
            return false;
        s->ffn.v[i] = divisible(factor * (double)s->d_model, by);
    }
    return true;
}

static bool read_ffn(struct hub_file *f, struct hub_shape *s)
{
    if (f->fact[FACT_FFN_FACTORS])
        return read_factors(f, s);
    if (f->fact[FACT_FFN])
        return read_lane(f, FACT_FFN, s, &s->ffn);
    fill(&s->ffn, s, 4 * s->d_model, FACT_D_MODEL); // GPT-2
    return true;
}

// ---- heads --------------------------------------------------------------------------------------

static bool read_heads(struct hub_file *f, struct hub_shape *s)
{
    int64_t heads;

    if (!read_lane(f, FACT_HEADS, s, &s->heads))
        return false;
    if (f->fact[FACT_HEAD_DIM])
        return hub_whole(f, FACT_HEAD_DIM, "", f->fact[FACT_HEAD_DIM], &s->head_dim);
    heads = s->heads.v[0];
    for (int i = 1; i < s->n_layers; i++)
        if (s->heads.v[i] != heads) {
            hub_say_fact(f, HUB_ERROR, FACT_HEADS, "",
                         "heads differ by layer and head_dim is missing: their width is unknown");
            return false;
        }
    s->head_dim = s->d_model / heads;
    if (s->d_model % heads == 0)
        return true;
    hub_say_fact(f, HUB_ERROR, FACT_HEADS, "", "%lld heads do not divide %s %lld", (long long)heads,
                 f->name[FACT_D_MODEL], (long long)s->d_model);
    return false;
}

static bool read_kv(struct hub_file *f, struct hub_shape *s)
{
    if (f->fact[FACT_KV])
        return read_lane(f, FACT_KV, s, &s->kv);
    s->kv = s->heads;
    return true;
}

// ---- block_configs ------------------------------------------------------------------------------

// DeciLM: a third of two multiples, rounded up.
static int64_t deci_width(double factor, int64_t d)
{
    int64_t n = (int64_t)(2 * factor * (double)d / 3);

    return (n + 255) / 256 * 256;
}

// A flag of a part; missing and null are false. False when anything else was reported.
static bool part_flag(struct hub_file *f, int layer, const char *part, const char *name,
                      const json_t *block, bool *on)
{
    const json_t *v = json_object_get(block, name);
    char where[64], q[HUB_QUOTE];

    *on = json_is_true(v);
    if (!v || json_is_boolean(v) || json_is_null(v))
        return true;
    snprintf(where, sizeof where, "[%d].%s.%s", layer, part, name);
    hub_say_fact(f, HUB_ERROR, FACT_BLOCKS, where, "expected true or false, got %s",
                 hub_quote(q, v));
    return false;
}

// Whether a layer has the part (no_op: it has none). False when that was reported, as a linear layer
// in its place is.
static bool part_is_there(struct hub_file *f, int layer, const char *part, const json_t *block,
                          bool *there)
{
    bool is_linear, is_absent;
    char where[64];

    if (!part_flag(f, layer, part, "replace_with_linear", block, &is_linear) ||
        !part_flag(f, layer, part, "no_op", block, &is_absent))
        return false;
    *there = !is_absent;
    if (!is_linear || is_absent)
        return true;
    snprintf(where, sizeof where, "[%d].%s.replace_with_linear", layer, part);
    hub_say_fact(f, HUB_ERROR, FACT_BLOCKS, where,
                 "layer %d has one matrix in place of its %s, which a profile cannot say", layer,
                 part);
    return false;
}

static void list_unknown(struct hub_file *f, int layer, const char *part, const json_t *block)
{
    static const char known[] = " no_op replace_with_linear sparsify n_heads_in_group ffn_mult "
                                "intermediate_size ";
    static const char windows[] = " window_length num_sink_tokens unshifted_sink "
                                  "use_prefill_window_in_sink_attention ";
    char where[96], word[64];
    const char *name;
    json_t *v;

    json_object_foreach((json_t *)block, name, v)
    {
        snprintf(word, sizeof word, " %.60s ", name);
        snprintf(where, sizeof where, "[%d].%s.%.40s", layer, part, name);
        if (strstr(windows, word) && !json_is_null(v) && !json_is_false(v))
            hub_say_fact(f, HUB_WARNING, FACT_BLOCKS, where,
                         "limits how far attention reaches; here it reaches to the start");
        else if (!strstr(windows, word) && !strstr(known, word))
            hub_say_fact(f, HUB_NOTE, FACT_BLOCKS, where, "unknown field, not taken into account");
    }
}

static const json_t *object_in(struct hub_file *f, const char *where, const json_t *v)
{
    char q[HUB_QUOTE];

    if (json_is_object(v))
        return v;
    hub_say_fact(f, HUB_ERROR, FACT_BLOCKS, where, "expected an object, got %s", hub_quote(q, v));
    return NULL;
}

// The part of a layer's block and whether the layer has it; NULL when something was reported.
static const json_t *block_part(struct hub_file *f, int layer, const char *part, bool *there)
{
    const json_t *block = json_array_get(f->fact[FACT_BLOCKS], (size_t)layer), *v;
    char where[48];

    snprintf(where, sizeof where, "[%d].%s", layer, part);
    v = object_in(f, where, json_object_get(block, part));
    if (!v)
        return NULL;
    list_unknown(f, layer, part, v);
    return part_is_there(f, layer, part, v, there) ? v : NULL;
}

static bool read_group(struct hub_file *f, struct hub_shape *s, int layer)
{
    bool there;
    const json_t *part = block_part(f, layer, "attention", &there);
    char where[64];
    int64_t group;

    if (part && !there) {
        s->heads.v[layer] = s->kv.v[layer] = 0;
        s->heads.from = FACT_BLOCKS;
        return true;
    }
    snprintf(where, sizeof where, "[%d].attention.n_heads_in_group", layer);
    if (!part ||
        !hub_whole(f, FACT_BLOCKS, where, json_object_get(part, "n_heads_in_group"), &group))
        return false;
    if (s->heads.v[layer] % group) {
        hub_say_fact(f, HUB_ERROR, FACT_BLOCKS, where, "%lld does not divide %s %lld",
                     (long long)group, f->name[FACT_HEADS], (long long)s->heads.v[layer]);
        return false;
    }
    s->kv.v[layer] = s->heads.v[layer] / group;
    return true;
}

static bool read_width(struct hub_file *f, struct hub_shape *s, int layer)
{
    bool there;
    const json_t *part = block_part(f, layer, "ffn", &there);
    const json_t *width = json_object_get(part, "intermediate_size");
    char where[64];
    double factor;

    if (!part)
        return false;
    s->ffn.v[layer] = 0;
    if (!there)
        return true;
    if (width && !json_is_null(width)) {
        snprintf(where, sizeof where, "[%d].ffn.intermediate_size", layer);
        return hub_whole(f, FACT_BLOCKS, where, width, &s->ffn.v[layer]);
    }
    snprintf(where, sizeof where, "[%d].ffn.ffn_mult", layer);
    if (!number(f, FACT_BLOCKS, where, json_object_get(part, "ffn_mult"), &factor))
        return false;
    s->ffn.v[layer] = deci_width(factor, s->d_model);
    return true;
}

static bool read_block(struct hub_file *f, struct hub_shape *s, int layer)
{
    char where[32];
    bool is_good;

    snprintf(where, sizeof where, "[%d]", layer);
    if (!object_in(f, where, json_array_get(f->fact[FACT_BLOCKS], (size_t)layer)))
        return false;
    is_good = read_group(f, s, layer);
    is_good &= read_width(f, s, layer);
    if (!is_good || s->heads.v[layer] || s->ffn.v[layer])
        return is_good;
    hub_say_fact(f, HUB_ERROR, FACT_BLOCKS, where,
                 "layer %d has neither attention nor an ffn; in a profile a layer has one of them",
                 layer);
    return false;
}

// All layers, so that everything that cannot be said is named.
static bool read_blocks(struct hub_file *f, struct hub_shape *s)
{
    bool is_good = true;
    char q[HUB_QUOTE];

    s->ffn = s->kv = (struct hub_lane){.is_list = true, .from = FACT_BLOCKS};
    if (!json_is_array(f->fact[FACT_BLOCKS])) {
        hub_say_fact(f, HUB_ERROR, FACT_BLOCKS, "", "expected a list, got %s",
                     hub_quote(q, f->fact[FACT_BLOCKS]));
        return false;
    }
    if (!has_layers(f, FACT_BLOCKS, s))
        return false;
    for (int i = 0; i < s->n_layers; i++)
        is_good &= read_block(f, s, i);
    return is_good;
}

// ---- all ----------------------------------------------------------------------------------------

static bool read_depth(struct hub_file *f, struct hub_shape *s)
{
    if (!hub_whole(f, FACT_LAYERS, "", f->fact[FACT_LAYERS], &s->n_layers))
        return false;
    if (s->n_layers <= SPEC_MAX_LAYERS)
        return true;
    hub_say_fact(f, HUB_ERROR, FACT_LAYERS, "", "%lld layers, at most %d", (long long)s->n_layers,
                 SPEC_MAX_LAYERS);
    return false;
}

bool hub_shape_read(struct hub_file *f, struct hub_shape *s)
{
    bool is_good = hub_whole(f, FACT_D_MODEL, "", f->fact[FACT_D_MODEL], &s->d_model);

    is_good &= read_depth(f, s);
    if (!is_good || !read_heads(f, s))
        return false;
    if (f->fact[FACT_BLOCKS])
        return read_blocks(f, s);
    is_good = read_ffn(f, s);
    return read_kv(f, s) && is_good;
}
