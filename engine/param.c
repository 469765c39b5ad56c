#include "engine/param.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/rng.h"
#include "kernels/bug.h"

enum { ALIGN = 16 }; // elements: 64 bytes of f32

// One row per role: where its name stands and which tensor it follows without a gap.
struct role {
    const char *name; // after "model.layers.i." where in_layer, else the whole name
    bool in_layer;
    bool joined;
};

static const struct role roles[PARAM_ROLE_COUNT] = {
    [PARAM_EMBED] = {"model.embed_tokens.weight", false, false},
    [PARAM_POSITION] = {"model.embed_positions.weight", false, false},
    [PARAM_Q] = {"self_attn.q_proj.weight", true, false},
    [PARAM_K] = {"self_attn.k_proj.weight", true, true},
    [PARAM_V] = {"self_attn.v_proj.weight", true, true},
    [PARAM_O] = {"self_attn.o_proj.weight", true, false},
    [PARAM_Q_BIAS] = {"self_attn.q_proj.bias", true, false},
    [PARAM_K_BIAS] = {"self_attn.k_proj.bias", true, true},
    [PARAM_V_BIAS] = {"self_attn.v_proj.bias", true, true},
    [PARAM_O_BIAS] = {"self_attn.o_proj.bias", true, false},
    [PARAM_Q_NORM] = {"self_attn.q_norm.weight", true, false},
    [PARAM_K_NORM] = {"self_attn.k_norm.weight", true, false},
    [PARAM_GATE] = {"mlp.gate_proj.weight", true, false},
    [PARAM_UP] = {"mlp.up_proj.weight", true, true},
    [PARAM_DOWN] = {"mlp.down_proj.weight", true, false},
    [PARAM_GATE_BIAS] = {"mlp.gate_proj.bias", true, false},
    [PARAM_UP_BIAS] = {"mlp.up_proj.bias", true, true},
    [PARAM_DOWN_BIAS] = {"mlp.down_proj.bias", true, false},
    [PARAM_ATTN_IN_NORM] = {"input_layernorm.weight", true, false},
    [PARAM_ATTN_OUT_NORM] = {"post_attention_layernorm.weight", true, false},
    [PARAM_FFN_IN_NORM] = {"pre_feedforward_layernorm.weight", true, false},
    [PARAM_FFN_OUT_NORM] = {"post_feedforward_layernorm.weight", true, false},
    [PARAM_ATTN_IN_NORM_BIAS] = {"input_layernorm.bias", true, false},
    [PARAM_ATTN_OUT_NORM_BIAS] = {"post_attention_layernorm.bias", true, false},
    [PARAM_FFN_IN_NORM_BIAS] = {"pre_feedforward_layernorm.bias", true, false},
    [PARAM_FFN_OUT_NORM_BIAS] = {"post_feedforward_layernorm.bias", true, false},
    [PARAM_SKIP] = {"gate.weight", true, false},
    [PARAM_SKIP_BIAS] = {"gate.bias", true, false},
    [PARAM_EMBED_NORM] = {"model.embed_norm.weight", false, false},
    [PARAM_EMBED_NORM_BIAS] = {"model.embed_norm.bias", false, false},
    [PARAM_FINAL_NORM] = {"model.norm.weight", false, false},
    [PARAM_FINAL_NORM_BIAS] = {"model.norm.bias", false, false},
    [PARAM_HEAD] = {"lm_head.weight", false, false},
};

static const char *name_of(enum param_role role, enum norm_place place)
{
    if (place == PLACE_PRE && role == PARAM_FFN_IN_NORM)
        role = PARAM_ATTN_OUT_NORM; // their names are the same
    if (place == PLACE_PRE && role == PARAM_FFN_IN_NORM_BIAS)
        role = PARAM_ATTN_OUT_NORM_BIAS;
    return roles[role].name;
}

static bool decays(enum decay_scope scope, enum param_role role, int n_dims)
{
    switch (scope) {
    case DECAY_MATRICES:
        return n_dims == 2;
    case DECAY_NOT_EMBEDDING:
        return role != PARAM_EMBED && role != PARAM_POSITION;
    case DECAY_ALL:
        return true;
    }
    BUG("decay scope %d", (int)scope);
}

static double init_std(const struct model_spec *m, enum param_role role, int fan_in)
{
    bool is_output = role == PARAM_O || role == PARAM_DOWN;
    double depth = sqrt(2.0 * m->n_layers);

    if (m->init != INIT_OPENELM)
        return is_output && m->depth_scale ? m->init_std / depth : m->init_std;
    if (role == PARAM_EMBED || role == PARAM_POSITION)
        return 1 / sqrt(m->d_model);
    return is_output ? 1 / (depth * sqrt(m->d_model)) : 1 / sqrt(fan_in);
}

// Counting does this a thousand times a key: printf takes most of its time.
static void write_name(char *out, bool in_layer, int layer, const char *name)
{
    char digits[12];
    int n = 0;

    if (in_layer) {
        out = stpcpy(out, "model.layers.");
        do
            digits[n++] = (char)('0' + layer % 10);
        while (layer /= 10);
        while (n)
            *out++ = digits[--n];
        *out++ = '.';
    }
    strcpy(out, name);
}

static struct param *add(struct param_list *list, const struct spec *spec, enum param_role role,
                         int layer, int rows, int cols)
{
    const struct model_spec *m = &spec->model;
    const char *name = name_of(role, m->norm_place);
    struct param *p = &list->v[list->n++];

    *p = (struct param){.role = role, .layer = layer, .rows = rows, .cols = cols};
    write_name(p->name, roles[role].in_layer, layer, name);
    p->size = (int64_t)rows * cols;
    // up has nothing to follow where there is no gate
    p->offset = roles[role].joined && p[-1].role == role - 1
                    ? list->block_size
                    : (list->block_size + ALIGN - 1) / ALIGN * ALIGN;
    list->block_size = p->offset + p->size;
    list->total += p->size;
    return p;
}

static void add_matrix(struct param_list *list, const struct spec *spec, enum param_role role,
                       int layer, int rows, int cols)
{
    const struct model_spec *m = &spec->model;
    struct param *p = add(list, spec, role, layer, rows, cols);

    p->n_dims = 2;
    p->init_std = (float)init_std(m, role, cols);
    p->init_limit = m->init == INIT_TRUNCATED ? 3 : 0;
    p->decay = decays(spec->optim.decay_scope, role, 2);
}

static void add_vector(struct param_list *list, const struct spec *spec, enum param_role role,
                       int layer, int size, float value)
{
    struct param *p = add(list, spec, role, layer, 1, size);

    p->n_dims = 1;
    p->init_value = value;
    p->decay = decays(spec->optim.decay_scope, role, 1);
}

static void add_norm(struct param_list *list, const struct spec *spec, enum param_role gain,
                     enum param_role bias, int layer)
{
    const struct model_spec *m = &spec->model;

    add_vector(list, spec, gain, layer, m->d_model, 1);
    if (m->norm == NORM_LAYER && m->bias)
        add_vector(list, spec, bias, layer, m->d_model, 0);
}

static void add_gate(struct param_list *list, const struct spec *spec, int layer)
{
    const struct model_spec *m = &spec->model;
    struct param *p;

    add_vector(list, spec, PARAM_SKIP, layer, m->d_model, 0);
    p = &list->v[list->n - 1];
    if (spec->gate.init == GATE_INIT_NORMAL) {
        p->init_std = (float)init_std(m, PARAM_SKIP, m->d_model);
        p->init_limit = m->init == INIT_TRUNCATED ? 3 : 0;
    }
    add_vector(list, spec, PARAM_SKIP_BIAS, layer, 1, 0);
}

static void add_attention(struct param_list *list, const struct spec *spec, int layer)
{
    const struct model_spec *m = &spec->model;
    int d = m->d_model, h = m->head_dim;
    int q = m->lane[LANE_HEADS][layer] * h, k = m->lane[LANE_KV][layer] * h;

    add_matrix(list, spec, PARAM_Q, layer, q, d);
    add_matrix(list, spec, PARAM_K, layer, k, d);
    add_matrix(list, spec, PARAM_V, layer, k, d);
    if (m->bias) {
        add_vector(list, spec, PARAM_Q_BIAS, layer, q, 0);
        add_vector(list, spec, PARAM_K_BIAS, layer, k, 0);
        add_vector(list, spec, PARAM_V_BIAS, layer, k, 0);
    }
    if (m->qk_norm != QK_NONE) {
        add_vector(list, spec, PARAM_Q_NORM, layer, m->qk_norm == QK_HEAD ? h : q, 1);
        add_vector(list, spec, PARAM_K_NORM, layer, m->qk_norm == QK_HEAD ? h : k, 1);
    }
    add_matrix(list, spec, PARAM_O, layer, d, q);
    if (m->bias)
        add_vector(list, spec, PARAM_O_BIAS, layer, d, 0);
}

static void add_ffn(struct param_list *list, const struct spec *spec, int layer)
{
    const struct model_spec *m = &spec->model;
    int d = m->d_model, f = m->lane[LANE_FFN][layer];
    bool gated = m->act == ACT_SWIGLU;

    if (gated)
        add_matrix(list, spec, PARAM_GATE, layer, f, d);
    add_matrix(list, spec, PARAM_UP, layer, f, d);
    if (m->bias && gated)
        add_vector(list, spec, PARAM_GATE_BIAS, layer, f, 0);
    if (m->bias)
        add_vector(list, spec, PARAM_UP_BIAS, layer, f, 0);
    add_matrix(list, spec, PARAM_DOWN, layer, d, f);
    if (m->bias)
        add_vector(list, spec, PARAM_DOWN_BIAS, layer, d, 0);
}

static void add_layer(struct param_list *list, const struct spec *spec, int i)
{
    const struct model_spec *m = &spec->model;
    bool before = spec_norm_before(m), after = spec_norm_after(m);
    bool attention = spec_has_attention(m, i), ffn = spec_has_ffn(m, i);

    if (i < spec_gate_count(spec))
        add_gate(list, spec, i);
    if (attention && before)
        add_norm(list, spec, PARAM_ATTN_IN_NORM, PARAM_ATTN_IN_NORM_BIAS, i);
    if (attention)
        add_attention(list, spec, i);
    if (attention && after)
        add_norm(list, spec, PARAM_ATTN_OUT_NORM, PARAM_ATTN_OUT_NORM_BIAS, i);
    if (ffn && before)
        add_norm(list, spec, PARAM_FFN_IN_NORM, PARAM_FFN_IN_NORM_BIAS, i);
    if (ffn)
        add_ffn(list, spec, i);
    if (ffn && after)
        add_norm(list, spec, PARAM_FFN_OUT_NORM, PARAM_FFN_OUT_NORM_BIAS, i);
}

void param_list_build(struct param_list *list, const struct spec *spec)
{
    const struct model_spec *m = &spec->model;
    int vocab = spec_padded_vocab(m);
    size_t most = (size_t)PARAM_ROLE_COUNT * (size_t)(m->n_layers + 1); // a role per layer

    *list = (struct param_list){.v = xmalloc(most * sizeof *list->v)};
    add_matrix(list, spec, PARAM_EMBED, -1, vocab, m->d_model);
    if (m->pos == POS_LEARNED)
        add_matrix(list, spec, PARAM_POSITION, -1, spec->train.seq_len, m->d_model);
    if (m->input_norm)
        add_norm(list, spec, PARAM_EMBED_NORM, PARAM_EMBED_NORM_BIAS, -1);
    for (int i = 0; i < m->n_layers; i++)
        add_layer(list, spec, i);
    add_norm(list, spec, PARAM_FINAL_NORM, PARAM_FINAL_NORM_BIAS, -1);
    if (!m->tie_embeddings)
        add_matrix(list, spec, PARAM_HEAD, -1, vocab, m->d_model);
}

void param_list_release(struct param_list *list)
{
    free(list->v);
    *list = (struct param_list){0};
}

const struct param *param_find(const struct param_list *list, enum param_role role, int layer)
{
    for (int i = 0; i < list->n; i++)
        if (list->v[i].role == role && list->v[i].layer == layer)
            return &list->v[i];
    return NULL;
}

void param_init(const struct param *p, uint64_t seed, float *out)
{
    uint64_t key = rng_key(seed, p->name);

#pragma omp parallel for schedule(static) if (p->size > 65536)
    for (int64_t i = 0; i < p->size; i++) {
        double x = 0;

        if (p->init_std > 0 && p->init_limit > 0)
            x = rng_truncated_normal(key, (uint64_t)i, p->init_limit);
        else if (p->init_std > 0)
            x = rng_normal(key, (uint64_t)i);
        out[i] = p->init_std > 0 ? (float)(x * p->init_std) : p->init_value;
    }
}
