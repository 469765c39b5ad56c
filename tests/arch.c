#include "tests/arch.h"

#include <math.h>
#include <string.h>

#include "engine/gate.h"
#include "tests/t.h"
#include "tests/tiny.h"

void arch_lane(struct spec *s, enum lane lane, const int *v)
{
    memcpy(s->model.lane[lane], v, (size_t)s->model.n_layers * sizeof *v);
}

static void four_layers(struct spec *s)
{
    s->model.n_layers = 4;
    arch_lane(s, LANE_FFN, (int[]){5, 8, 12, 7});
    arch_lane(s, LANE_HEADS, (int[]){2, 4, 3, 6});
    arch_lane(s, LANE_KV, (int[]){1, 2, 3, 2});
    arch_lane(s, LANE_REUSE, (int[]){1, 1, 1, 1});
}

// Gates with a regulariser whose weights differ by layer.
static void gates(struct spec *s, enum gate_attn attn)
{
    four_layers(s);
    s->gate = (struct gate_spec){.enabled = true,
                                 .attn = attn,
                                 .eps = 1e-6,
                                 .mu_start = 1,
                                 .mu_end = 0.5,
                                 .alpha = {0.3, -0.2, -0.2, 0.3},
                                 .beta = {-0.7, 0.9, 0.9, -0.7}};
}

static void sandwich(struct spec *s)
{
    s->model.norm_place = PLACE_SANDWICH;
    s->model.tie_embeddings = false;
}
static void sandwich_layernorm(struct spec *s)
{
    s->model.norm_place = PLACE_SANDWICH;
    s->model.norm = NORM_LAYER;
    s->model.bias = s->model.input_norm = true;
    s->model.act = ACT_GELU;
    s->model.pos = POS_LEARNED;
}
static void input_norm(struct spec *s)
{
    s->model.input_norm = true;
}
static void alibi(struct spec *s)
{
    s->model.pos = POS_ALIBI;
    arch_lane(s, LANE_HEADS, (int[]){2, 6, 3});
}
static void blocks(struct spec *s)
{
    s->model.block_loops = 3;
    s->model.block_inject = INJECT_ADD;
}
static void blocks_none(struct spec *s)
{
    s->model.block_loops = 2;
    s->model.block_inject = INJECT_NONE;
    s->model.pos = POS_ALIBI;
}
static void reuse_inject(struct spec *s)
{
    arch_lane(s, LANE_REUSE, (int[]){3, 1, 2});
    s->model.reuse_inject = INJECT_ADD;
}
static void all_injections(struct spec *s)
{
    arch_lane(s, LANE_REUSE, (int[]){2, 1, 1});
    s->model.reuse_inject = s->model.block_inject = INJECT_ADD;
    s->model.block_loops = 2;
    s->model.input_norm = true;
    s->model.pos = POS_LEARNED;
    s->model.norm_place = PLACE_REORDERED;
}
static void paper_b(struct spec *s)
{
    gates(s, GATE_ATTN_KEY);
    s->model.norm_place = PLACE_SANDWICH;
    s->model.input_norm = true;
    s->model.rope_layout = ROPE_INTERLEAVED;
    s->model.tie_embeddings = false;
}
static void paper_b_noop(struct spec *s)
{
    paper_b(s);
    s->gate.attn = GATE_ATTN_QUERY_NOOP;
    s->gate.reduce = REDUCE_SUM;
}
static void gates_off_pre(struct spec *s)
{
    gates(s, GATE_ATTN_OFF);
}
static void gates_key_pre(struct spec *s)
{
    gates(s, GATE_ATTN_KEY);
    s->model.pos = POS_ALIBI;
    s->gate.controller = CTRL_FIXED_L2;
    for (int i = 0; i < 4; i++)
        s->gate.alpha[i] = 0.5, s->gate.beta[i] = 0.8;
}
static void gates_reordered(struct spec *s)
{
    gates(s, GATE_ATTN_KEY);
    s->model.norm_place = PLACE_REORDERED;
    s->model.qk_norm = QK_FULL;
    s->model.norm = NORM_LAYER;
    s->model.bias = true;
}
static void mixture(struct spec *s)
{
    paper_b(s);
    arch_lane(s, LANE_REUSE, (int[]){2, 1, 3, 1});
    s->model.qk_norm = QK_HEAD;
}
static void mixture_half_split(struct spec *s)
{
    mixture(s);
    s->model.rope_layout = ROPE_HALF;
    s->model.block_loops = 2;
}
static void mixture_alibi(struct spec *s)
{
    mixture(s);
    s->model.pos = POS_ALIBI;
    s->model.reuse_inject = INJECT_ADD;
}
static void mixture_learned(struct spec *s)
{
    mixture(s);
    s->model.pos = POS_LEARNED;
    s->model.block_loops = 2;
    s->model.block_inject = INJECT_ADD;
    s->model.act = ACT_GELU_TANH;
}
static void mixture_nope(struct spec *s)
{
    mixture(s);
    s->model.pos = POS_NONE;
    s->model.norm_place = PLACE_PRE;
    s->model.tie_embeddings = true;
}

// Layers without attention or without an FFN, the first and the last among them.
static void absent(struct spec *s)
{
    four_layers(s);
    arch_lane(s, LANE_HEADS, (int[]){2, 0, 3, 6});
    arch_lane(s, LANE_KV, (int[]){1, 0, 3, 2});
    arch_lane(s, LANE_FFN, (int[]){5, 8, 0, 7});
}
static void absent_at_the_ends(struct spec *s)
{
    four_layers(s);
    arch_lane(s, LANE_HEADS, (int[]){0, 4, 3, 6});
    arch_lane(s, LANE_KV, (int[]){0, 2, 3, 2});
    arch_lane(s, LANE_FFN, (int[]){5, 8, 0, 0});
    s->model.pos = POS_ALIBI;
    s->model.qk_norm = QK_HEAD;
}
static void absent_reordered(struct spec *s)
{
    absent_at_the_ends(s);
    arch_lane(s, LANE_REUSE, (int[]){2, 1, 3, 2});
    s->model.norm_place = PLACE_REORDERED;
    s->model.norm = NORM_LAYER;
    s->model.bias = true;
    s->model.act = ACT_GELU;
    s->model.pos = POS_LEARNED;
    s->model.qk_norm = QK_FULL;
}
static void absent_injections(struct spec *s)
{
    absent(s);
    arch_lane(s, LANE_REUSE, (int[]){1, 3, 2, 1});
    s->model.reuse_inject = s->model.block_inject = INJECT_ADD;
    s->model.block_loops = 2;
}
static void absent_sandwich_gates(struct spec *s)
{
    paper_b(s);
    arch_lane(s, LANE_HEADS, (int[]){2, 4, 0, 6});
    arch_lane(s, LANE_KV, (int[]){1, 2, 0, 2});
    arch_lane(s, LANE_FFN, (int[]){0, 8, 12, 7});
    arch_lane(s, LANE_REUSE, (int[]){2, 1, 2, 1});
}
static void absent_gates_off(struct spec *s)
{
    gates(s, GATE_ATTN_OFF);
    arch_lane(s, LANE_HEADS, (int[]){2, 0, 3, 0});
    arch_lane(s, LANE_KV, (int[]){1, 0, 3, 0});
    arch_lane(s, LANE_FFN, (int[]){0, 8, 0, 7});
}
static void no_attention_at_all(struct spec *s)
{
    arch_lane(s, LANE_HEADS, (int[]){0, 0, 0});
    arch_lane(s, LANE_KV, (int[]){0, 0, 0});
    s->model.qk_norm = QK_HEAD;
    s->model.pos = POS_ALIBI;
}
static void no_ffn_at_all(struct spec *s)
{
    arch_lane(s, LANE_FFN, (int[]){0, 0, 0});
    s->model.norm_place = PLACE_SANDWICH;
}

#define VARIANT(f)                                                                                 \
    {                                                                                              \
#f, f                                                                                      \
    }
const struct arch_variant arch_variants[] = {
    VARIANT(sandwich),
    VARIANT(sandwich_layernorm),
    VARIANT(input_norm),
    VARIANT(alibi),
    VARIANT(blocks),
    VARIANT(blocks_none),
    VARIANT(reuse_inject),
    VARIANT(all_injections),
    VARIANT(paper_b),
    VARIANT(paper_b_noop),
    VARIANT(gates_off_pre),
    VARIANT(gates_key_pre),
    VARIANT(gates_reordered),
    VARIANT(mixture),
    VARIANT(mixture_half_split),
    VARIANT(mixture_alibi),
    VARIANT(mixture_learned),
    VARIANT(mixture_nope),
    VARIANT(absent),
    VARIANT(absent_at_the_ends),
    VARIANT(absent_reordered),
    VARIANT(absent_injections),
    VARIANT(absent_sandwich_gates),
    VARIANT(absent_gates_off),
    VARIANT(no_attention_at_all),
    VARIANT(no_ffn_at_all),
};
const int arch_count = sizeof arch_variants / sizeof arch_variants[0];

struct spec arch_spec(const struct arch_variant *v)
{
    struct spec s = tiny_spec();

    v->set(&s);
    return s;
}

struct spec arch_named(const char *name)
{
    for (int v = 0; v < arch_count; v++)
        if (!strcmp(arch_variants[v].name, name))
            return arch_spec(&arch_variants[v]);
    fail_msg("no architecture '%s'", name);
    return tiny_spec();
}

// Gates of all kinds: the stream grows from layer to layer, so their weights get smaller, and some
// tokens are skipped.
static void fill_some_gates(struct model *m, int n)
{
    for (int i = 0; i < n; i++) {
        float w[12], b = i ? 0.1f : 0.2f;

        for (int j = 0; j < 12; j++)
            w[j] = (float)((i ? 0.3 : 0.22) * cos(1.3 * j + i));
        model_set_weight(m, param_find(model_params(m), PARAM_SKIP, i), w);
        model_set_weight(m, param_find(model_params(m), PARAM_SKIP_BIAS, i), &b);
    }
}

struct model *arch_model(struct backend *be, const struct spec *s, enum model_use use)
{
    struct err err = ERR_INIT;
    struct model *m = model_new_for(be, s, use, &err);

    if (!m)
        fail_msg("model_new: %s", err.text);
    tiny_fill(m, 7);
    fill_some_gates(m, spec_gate_count(s));
    return m;
}

double arch_loss(struct model *m, const struct spec *s, const struct arch_batch *b)
{
    double sum = NAN, slopes[2][SPEC_MAX_LAYERS];

    assert_int_equal(model_loss(m, b->tokens, b->targets, &sum, NULL), 0);
    if (s->gate.enabled)
        sum += (double)model_rows(m) * gate_penalty(s, s->gate.alpha, s->gate.beta,
                                                    model_gate_stats(m), model_rows(m), slopes[0],
                                                    slopes[1]);
    return sum;
}

double arch_gradients(struct model *m, const struct arch_batch *b, double scale)
{
    double sum = NAN;

    model_zero_gradients(m);
    assert_int_equal(model_forward_backward(m, b->tokens, b->targets, scale, &sum, NULL), 0);
    return sum;
}

double arch_read(struct model *m, const struct f32 *block, int64_t at)
{
    struct backend *be = model_backend(m);
    double v;

    be->op->download_f64(be, &v, f32_at(be, block, at), 1);
    return v;
}

double arch_difference(struct model *a, struct model *b)
{
    const struct param_list *list = model_params(b);
    double result = 0;

    for (int i = 0; i < list->n; i++) {
        const struct param *p = &list->v[i];
        double largest = 0.1, worst = 0;

        for (int64_t j = 0; j < p->size; j++) {
            double x = arch_read(a, model_gradients(a), p->offset + j);
            double y = arch_read(b, model_gradients(b), p->offset + j);

            largest = fmax(largest, fabs(y));
            worst = fmax(worst, isfinite(x) ? fabs(x - y) : INFINITY);
        }
        result = fmax(result, worst / largest);
    }
    return result;
}
