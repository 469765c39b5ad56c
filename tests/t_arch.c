// The architectures of the three papers and their mixtures: gradients by finite differences in
// double, cpu against the reference, recompute, dense equivalence, the key axis of the gate bias,
// decoding against the whole forward pass.
#include "tests/t.h"

#include <math.h>
#include <string.h>

#include "engine/gate.h"
#include "engine/model.h"
#include "engine/trainer.h"
#include "tests/tiny.h"

enum { MAX_N = 64 };

struct batch {
    int32_t tokens[MAX_N], targets[MAX_N];
};

static void set_lane(struct spec *s, enum lane lane, const int *v)
{
    memcpy(s->model.lane[lane], v, (size_t)s->model.n_layers * sizeof *v);
}

static void four_layers(struct spec *s)
{
    s->model.n_layers = 4;
    set_lane(s, LANE_FFN, (int[]){5, 8, 12, 7});
    set_lane(s, LANE_HEADS, (int[]){2, 4, 3, 6});
    set_lane(s, LANE_KV, (int[]){1, 2, 3, 2});
    set_lane(s, LANE_REUSE, (int[]){1, 1, 1, 1});
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
    set_lane(s, LANE_HEADS, (int[]){2, 6, 3});
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
    set_lane(s, LANE_REUSE, (int[]){3, 1, 2});
    s->model.reuse_inject = INJECT_ADD;
}
static void all_injections(struct spec *s)
{
    set_lane(s, LANE_REUSE, (int[]){2, 1, 1});
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
    set_lane(s, LANE_REUSE, (int[]){2, 1, 3, 1});
    s->model.qk_norm = QK_HEAD;
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

#define VARIANT(f)                                                                                 \
    {                                                                                              \
#f, f                                                                                      \
    }
static const struct variant {
    const char *name;
    void (*set)(struct spec *s);
} variants[] = {
    VARIANT(sandwich),        VARIANT(sandwich_layernorm),
    VARIANT(input_norm),      VARIANT(alibi),
    VARIANT(blocks),          VARIANT(blocks_none),
    VARIANT(reuse_inject),    VARIANT(all_injections),
    VARIANT(paper_b),         VARIANT(paper_b_noop),
    VARIANT(gates_off_pre),   VARIANT(gates_key_pre),
    VARIANT(gates_reordered), VARIANT(mixture),
    VARIANT(mixture_alibi),   VARIANT(mixture_learned),
    VARIANT(mixture_nope),
};
enum { N_VARIANTS = sizeof variants / sizeof variants[0] };

static struct spec spec_of(const struct variant *v)
{
    struct spec s = tiny_spec();

    v->set(&s);
    return s;
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

static struct model *new_model(struct backend *be, const struct spec *s, enum model_use use)
{
    struct err err = ERR_INIT;
    struct model *m = model_new_for(be, s, use, &err);

    if (!m)
        fail_msg("model_new: %s", err.text);
    tiny_fill(m, 7);
    fill_some_gates(m, spec_gate_count(s));
    return m;
}

// What the gradients are of: cross-entropy, and the regulariser as part of the mean.
static double total_loss(struct model *m, const struct spec *s, const struct batch *b)
{
    double sum = NAN, slopes[2][SPEC_MAX_LAYERS];

    assert_int_equal(model_loss(m, b->tokens, b->targets, &sum, NULL), 0);
    if (s->gate.enabled)
        sum += (double)model_rows(m) * gate_penalty(s, s->gate.alpha, s->gate.beta,
                                                    model_gate_stats(m), model_rows(m), slopes[0],
                                                    slopes[1]);
    return sum;
}

static double gradients_of(struct model *m, const struct batch *b, double scale)
{
    double sum = NAN;

    model_zero_gradients(m);
    assert_int_equal(model_forward_backward(m, b->tokens, b->targets, scale, &sum, NULL), 0);
    return sum;
}

static double read_one(struct model *m, const struct f32 *block, int64_t at)
{
    struct backend *be = model_backend(m);
    double v;

    be->op->download_f64(be, &v, f32_at(be, block, at), 1);
    return v;
}

static double loss_with(struct model *m, const struct spec *s, const struct batch *b, int64_t at,
                        double w)
{
    struct backend *be = model_backend(m);

    be->op->upload_f64(be, f32_at(be, model_weights(m), at), &w, 1);
    model_weights_changed(m);
    return total_loss(m, s, b);
}

// Up to 12 elements spread over the tensor; returns the largest gradient met.
static double check_tensor(struct model *m, const struct spec *s, const struct batch *b,
                           const struct param *p, const char *variant)
{
    const double h = 2e-5;
    int64_t step = p->size > 12 ? p->size / 12 : 1;
    double largest = 0;

    for (int64_t i = 0; i < p->size; i += step) {
        int64_t at = p->offset + i;
        double w = read_one(m, model_weights(m), at), g = read_one(m, model_gradients(m), at);
        double near = loss_with(m, s, b, at, w + h) - loss_with(m, s, b, at, w - h);
        double far = loss_with(m, s, b, at, w + 2 * h) - loss_with(m, s, b, at, w - 2 * h);
        double expected = 0.7 * (8 * near - far) / (12 * h); // error of order h^4: deep models bend

        loss_with(m, s, b, at, w);
        largest = fmax(largest, fabs(g));
        if (!(fabs(g - expected) <= 3e-7 * fmax(1, fabs(expected))))
            fail_msg("%s: gradient of %s[%lld] is %.12g, finite differences give %.12g", variant,
                     p->name, (long long)i, g, expected);
    }
    return largest;
}

static void gradients_match_finite_differences(void **state)
{
    const struct variant *v = *state;
    struct backend *be = tiny_backend("ref", 2);
    struct spec s = spec_of(v);
    struct model *m = new_model(be, &s, MODEL_TRAIN);
    struct batch b;

    tiny_batch(m, 11, 3, b.tokens, b.targets);
    gradients_of(m, &b, 0.7);
    for (int i = 0; i < model_params(m)->n; i++) {
        const struct param *p = &model_params(m)->v[i];

        // a gradient that is 0 checks nothing; that of a key's bias cancels in the softmax
        if (!(check_tensor(m, &s, &b, p, v->name) > 1e-6) && p->role != PARAM_K_BIAS)
            fail_msg("%s: %s has no gradient", v->name, p->name);
    }
    model_free(m);
    backend_close(be);
}

// Tokens on both sides of each kink, or the gates' backward pass would be checked in part only.
static void gated_variants_meet_open_and_closed_gates(void **state)
{
    struct backend *be = tiny_backend("ref", 2);
    int some_zero = 0, some_closed = 0;

    (void)state;
    for (int v = 0; v < N_VARIANTS; v++) {
        struct spec s = spec_of(&variants[v]);
        struct model *m = new_model(be, &s, MODEL_TRAIN);
        struct batch b;

        tiny_batch(m, 11, 3, b.tokens, b.targets);
        total_loss(m, &s, &b);
        for (int i = 0; i < spec_gate_count(&s); i++) {
            const struct gate_stat *g = &model_gate_stats(m)[i];

            assert_true(g->mean > 0.01 && g->mean < 0.99 && g->var > 1e-4);
            some_zero += g->zero > 0 && g->zero < 1;
            some_closed += g->closed > 0 && g->closed < 1;
        }
        model_free(m);
    }
    assert_true(some_zero > 2 && some_closed > 2);
    backend_close(be);
}

// Largest difference of two models' gradients, relative to each tensor's largest.
static double gradient_difference(struct model *a, struct model *b)
{
    const struct param_list *list = model_params(b);
    double result = 0;

    for (int i = 0; i < list->n; i++) {
        const struct param *p = &list->v[i];
        double largest = 0.1, worst = 0;

        for (int64_t j = 0; j < p->size; j++) {
            double x = read_one(a, model_gradients(a), p->offset + j);
            double y = read_one(b, model_gradients(b), p->offset + j);

            largest = fmax(largest, fabs(y));
            worst = fmax(worst, isfinite(x) ? fabs(x - y) : INFINITY);
        }
        result = fmax(result, worst / largest);
    }
    return result;
}

static void cpu_agrees_with_the_reference(void **state)
{
    struct backend *ref = tiny_backend("ref", 2), *cpu = tiny_backend("cpu", 2);

    (void)state;
    for (int v = 0; v < N_VARIANTS; v++) {
        struct spec s = spec_of(&variants[v]);
        struct model *a = new_model(cpu, &s, MODEL_TRAIN), *b = new_model(ref, &s, MODEL_TRAIN);
        struct batch x;
        double worst;

        tiny_batch(a, 11, 3, x.tokens, x.targets);
        assert_near(gradients_of(a, &x, 1), gradients_of(b, &x, 1), 3e-6);
        assert_near(model_penalty(a), model_penalty(b), 1e-6);
        worst = gradient_difference(a, b);
        if (!(worst < 1e-4))
            fail_msg("%s: gradients differ by %g", variants[v].name, worst);
        model_free(a);
        model_free(b);
    }
    backend_close(cpu);
    backend_close(ref);
}

// The same bits, in less memory where layers repeat.
static void recompute_changes_nothing_but_memory(void **state)
{
    struct backend *be = tiny_backend("cpu", 2);

    (void)state;
    for (int v = 0; v < N_VARIANTS; v++) {
        struct spec s = spec_of(&variants[v]);
        struct model *kept = new_model(be, &s, MODEL_TRAIN), *again;
        struct model_plan plan[2];
        struct batch x;

        model_plan(&s, model_sizes_cpu, &plan[0]);
        s.train.recompute = RECOMPUTE_LAYER;
        model_plan(&s, model_sizes_cpu, &plan[1]);
        assert_true(plan[1].activations < plan[0].activations);
        assert_int_equal(plan[1].total - plan[1].activations, plan[0].total - plan[0].activations);
        again = new_model(be, &s, MODEL_TRAIN);
        tiny_batch(kept, 11, 3, x.tokens, x.targets);
        assert_true(gradients_of(kept, &x, 1) == gradients_of(again, &x, 1));
        if (gradient_difference(kept, again) != 0)
            fail_msg("%s: recompute gives other gradients", variants[v].name);
        model_free(kept);
        model_free(again);
    }
    backend_close(be);
}

static void auto_recomputes_what_does_not_fit(void **state)
{
    struct spec s = tiny_spec();

    (void)state;
    s.train.recompute = RECOMPUTE_AUTO;
    assert_int_equal(trainer_recompute(&s, model_sizes_cpu), RECOMPUTE_NONE);
    s.train.micro_batch_size = 1 << 26; // a thousand GB
    assert_int_equal(trainer_recompute(&s, model_sizes_cpu), RECOMPUTE_LAYER);
    s.train.recompute = RECOMPUTE_NONE; // what is asked for is done, or refused
    assert_int_equal(trainer_recompute(&s, model_sizes_cpu), RECOMPUTE_NONE);
}

static void evaluation_model_gives_the_same_loss(void **state)
{
    struct backend *be = tiny_backend("cpu", 2);

    (void)state;
    for (int v = 0; v < N_VARIANTS; v++) {
        struct spec s = spec_of(&variants[v]);
        struct model *a = new_model(be, &s, MODEL_TRAIN), *b = new_model(be, &s, MODEL_EVAL);
        struct batch x;

        tiny_batch(a, 11, 3, x.tokens, x.targets);
        assert_true(total_loss(a, &s, &x) == total_loss(b, &s, &x));
        model_free(a);
        model_free(b);
    }
    backend_close(be);
}

// ---- repetitions --------------------------------------------------------------------------------

static void copy_layers(struct model *to, struct model *from, int layers)
{
    for (int i = 0; i < model_params(to)->n; i++) {
        const struct param *p = &model_params(to)->v[i];
        const struct param *q =
            param_find(model_params(from), p->role, p->layer < 0 ? -1 : p->layer % layers);
        float *x = malloc((size_t)p->size * sizeof *x);

        model_get_weight(from, q, x);
        model_set_weight(to, p, x);
        free(x);
    }
}

// Without injection two passes through 3 layers are 6 layers with the same weights.
static void block_recurrence_is_the_unrolled_model(void **state)
{
    struct backend *be = tiny_backend("ref", 1);
    struct spec s = tiny_spec(), deep;
    struct model *looped, *unrolled;
    struct batch x;

    (void)state;
    set_lane(&s, LANE_REUSE, (int[]){1, 1, 1});
    deep = s;
    s.model.block_loops = 2;
    deep.model.n_layers = 6;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        memcpy(deep.model.lane[lane] + 3, s.model.lane[lane], 3 * sizeof(int));
    looped = new_model(be, &s, MODEL_TRAIN);
    unrolled = new_model(be, &deep, MODEL_TRAIN);
    copy_layers(unrolled, looped, 3);
    tiny_batch(looped, 11, 3, x.tokens, x.targets);
    assert_near(gradients_of(looped, &x, 1), gradients_of(unrolled, &x, 1), 1e-12);
    for (int i = 0; i < model_params(looped)->n; i++) {
        const struct param *p = &model_params(looped)->v[i];
        const struct param *lo = param_find(model_params(unrolled), p->role, p->layer), *hi = lo;

        if (p->layer >= 0)
            hi = param_find(model_params(unrolled), p->role, p->layer + 3);
        for (int64_t j = 0; j < p->size; j++) {
            double want = read_one(unrolled, model_gradients(unrolled), lo->offset + j);

            if (hi != lo)
                want += read_one(unrolled, model_gradients(unrolled), hi->offset + j);
            assert_near(read_one(looped, model_gradients(looped), p->offset + j), want, 1e-11);
        }
    }
    model_free(looped);
    model_free(unrolled);
    backend_close(be);
}

static void activations_grow_with_repetitions_and_moments_do_not(void **state)
{
    struct spec s = tiny_spec();
    struct model_plan once, thrice, five;

    (void)state;
    set_lane(&s, LANE_REUSE, (int[]){1, 1, 1});
    model_plan(&s, model_sizes_cpu, &once);
    set_lane(&s, LANE_REUSE, (int[]){1, 3, 1});
    model_plan(&s, model_sizes_cpu, &thrice);
    set_lane(&s, LANE_REUSE, (int[]){1, 5, 1});
    model_plan(&s, model_sizes_cpu, &five);
    assert_int_equal(once.moments, five.moments);
    assert_true(thrice.activations > once.activations);
    assert_int_equal(five.activations - thrice.activations, thrice.activations - once.activations);
}

// ---- gates --------------------------------------------------------------------------------------

static void fill_gates(struct model *m, int n, float weight, float bias)
{
    for (int i = 0; i < n; i++) {
        float w[64];

        for (int j = 0; j < 64; j++)
            w[j] = weight;
        model_set_weight(m, param_find(model_params(m), PARAM_SKIP, i), w);
        model_set_weight(m, param_find(model_params(m), PARAM_SKIP_BIAS, i), &bias);
    }
}

// B10: open gates leave the dense model, bit for bit, in every attention mode.
static void open_gates_are_the_dense_model(void **state)
{
    struct backend *be = tiny_backend("cpu", 2);

    (void)state;
    for (int attn = GATE_ATTN_KEY; attn <= GATE_ATTN_HARD; attn++) {
        struct spec s = spec_of(&variants[8]), d; // paper_b
        struct model *gated, *dense;
        struct batch x;

        s.gate.attn = (enum gate_attn)attn;
        d = s;
        d.gate.enabled = false;
        gated = new_model(be, &s, MODEL_TRAIN);
        dense = new_model(be, &d, MODEL_TRAIN);
        fill_gates(gated, 2, 0, 0);
        tiny_batch(gated, 11, 3, x.tokens, x.targets);
        assert_true(total_loss(gated, &d, &x) == total_loss(dense, &d, &x));
        assert_true(model_gate_stats(gated)[1].mean == 1 && model_gate_stats(gated)[1].closed == 1);
        model_free(gated);
        model_free(dense);
    }
    backend_close(be);
}

// Gates that start at zero never get a gradient: relu'(0) = 0, the dense baselines of paper B.
static void zero_gates_stay_shut(void **state)
{
    struct backend *be = tiny_backend("ref", 2);
    struct spec s = spec_of(&variants[8]);
    struct model *m = new_model(be, &s, MODEL_TRAIN);
    struct batch x;

    (void)state;
    fill_gates(m, 2, 0, 0);
    tiny_batch(m, 11, 3, x.tokens, x.targets);
    gradients_of(m, &x, 1);
    for (int i = 0; i < 2; i++) {
        const struct param *p = param_find(model_params(m), PARAM_SKIP, i);

        for (int64_t j = 0; j < p->size; j++)
            assert_true(read_one(m, model_gradients(m), p->offset + j) == 0);
    }
    model_free(m);
    backend_close(be);
}

// A closed gate takes its two layers out of the model whatever their weights are.
static void closed_gates_skip_their_layers(void **state)
{
    struct backend *be = tiny_backend("ref", 2);
    struct spec s = spec_of(&variants[8]);
    struct model *m = new_model(be, &s, MODEL_TRAIN);
    struct batch x;
    double before;
    float w[12 * 12] = {0}, one = 1;

    (void)state;
    tiny_batch(m, 11, 3, x.tokens, x.targets);
    model_set_weight(m, param_find(model_params(m), PARAM_SKIP, 1), w);
    model_set_weight(m, param_find(model_params(m), PARAM_SKIP_BIAS, 1), &one);
    before = total_loss(m, &s, &x);
    assert_true(model_gate_stats(m)[1].zero == 1);
    model_set_weight(m, param_find(model_params(m), PARAM_Q, 1), w);
    model_set_weight(m, param_find(model_params(m), PARAM_DOWN, 2), w);
    assert_true(total_loss(m, &s, &x) == before);
    model_set_weight(m, param_find(model_params(m), PARAM_DOWN, 3), w);
    assert_true(total_loss(m, &s, &x) != before);
    model_free(m);
    backend_close(be);
}

// ---- the axis of the gate bias ------------------------------------------------------------------

enum { T = 7, D = 3 };
struct toy {
    double q[T * D], k[T * D], v[T * D], g[T], y[T * D];
};

static void fill_toy(struct toy *t)
{
    for (int i = 0; i < T * D; i++) {
        t->q[i] = sin(1.7 * i + 0.3);
        t->k[i] = cos(2.3 * i - 1);
        t->v[i] = sin(0.9 * i * i);
    }
    for (int i = 0; i < T; i++)
        t->g[i] = 0.05 + 0.13 * i;
}

// Paper B's two readings written out: weights exp(score) times g of the key, or of the query.
static void naive_attention(struct toy *t, const double *key_gate, const double *query_gate)
{
    for (int i = 0; i < T; i++) {
        double sum = 0, y[D] = {0};

        for (int j = 0; j <= i; j++) {
            double score = 0, w;

            for (int d = 0; d < D; d++)
                score += t->q[i * D + d] * t->k[j * D + d] / sqrt(D);
            if (query_gate)
                score += log(query_gate[i]);
            w = exp(score) * (key_gate ? key_gate[j] : 1);
            sum += w;
            for (int d = 0; d < D; d++)
                y[d] += w * t->v[j * D + d];
        }
        for (int d = 0; d < D; d++)
            t->y[i * D + d] = y[d] / sum;
    }
}

static void *to_device(struct backend *be, const double *x, int n)
{
    void *p = be->op->alloc(be, (size_t)n * be->f32_size);

    if (x)
        be->op->upload_f64(be, p, x, n);
    return p;
}

// The op on the ref backend, where act and f32 are both doubles.
static void attention_op(const struct toy *t, const double *kbias, double *y)
{
    struct backend *be = tiny_backend("ref", 1);
    struct attn_dims d = {1, T, T, 1, 1, D, D, D, D, D, (float)(1 / sqrt(D))};
    void *q = to_device(be, t->q, T * D), *k = to_device(be, t->k, T * D);
    void *v = to_device(be, t->v, T * D), *out = to_device(be, NULL, T * D);
    void *lse = to_device(be, NULL, T), *bias = kbias ? to_device(be, kbias, T) : NULL;

    be->op->attention_forward(be, out, lse, q, k, v, bias, NULL, d);
    be->op->download_f64(be, y, out, T * D);
    for (void **p = (void *[]){q, k, v, out, lse, bias, NULL}; *p; p++)
        be->op->release(be, *p);
    backend_close(be);
}

static double largest_difference(const double *a, const double *b, int n)
{
    double worst = 0;

    for (int i = 0; i < n; i++)
        worst = fmax(worst, fabs(a[i] - b[i]));
    return worst;
}

static void bias_by_key_scales_its_weight(void **state)
{
    struct toy t;
    double y[T * D], bias[T], one[T];

    (void)state;
    fill_toy(&t);
    for (int i = 0; i < T; i++) {
        bias[i] = log(t.g[i]);
        one[i] = 1;
    }
    attention_op(&t, bias, y);
    naive_attention(&t, t.g, NULL);
    assert_true(largest_difference(y, t.y, T * D) < 2e-8); // the scale is a float
    for (int i = 0; i < T; i++)
        bias[i] = i == 2 ? log(0.25) : 0;
    one[2] = 0.25;
    attention_op(&t, bias, y);
    naive_attention(&t, one, NULL);
    assert_true(largest_difference(y, t.y, T * D) < 2e-8);
    naive_attention(&t, NULL, one); // the same numbers on the other axis are another function
    assert_true(largest_difference(y, t.y, T * D) > 1e-2);
}

static void bias_constant_over_keys_changes_nothing(void **state)
{
    struct toy t;
    double y[T * D], plain[T * D], bias[T], query[T * D];

    (void)state;
    fill_toy(&t);
    for (int i = 0; i < T; i++)
        bias[i] = -1.37;
    attention_op(&t, NULL, plain);
    attention_op(&t, bias, y);
    assert_true(largest_difference(y, plain, T * D) < 1e-12);
    naive_attention(&t, NULL, NULL);
    memcpy(query, t.y, sizeof query);
    naive_attention(&t, NULL, t.g); // along queries: what paper B's code did
    assert_true(largest_difference(t.y, query, T * D) < 1e-12);
}

// The released code's bias cancels, so query_noop is off; key is not.
static void query_noop_equals_off(void **state)
{
    struct backend *be = tiny_backend("ref", 2);
    double loss[3], sum;
    struct model *m[3];
    struct batch x;

    (void)state;
    for (int attn = GATE_ATTN_KEY; attn <= GATE_ATTN_OFF; attn++) {
        struct spec s = spec_of(&variants[8]);

        s.gate.attn = (enum gate_attn)attn;
        m[attn] = new_model(be, &s, MODEL_TRAIN);
        tiny_batch(m[attn], 11, 3, x.tokens, x.targets);
        loss[attn] = gradients_of(m[attn], &x, 1);
    }
    sum = gradient_difference(m[GATE_ATTN_QUERY_NOOP], m[GATE_ATTN_OFF]);
    assert_near(loss[GATE_ATTN_QUERY_NOOP], loss[GATE_ATTN_OFF], 1e-12);
    assert_true(sum < 1e-12);
    assert_true(fabs(loss[GATE_ATTN_KEY] - loss[GATE_ATTN_OFF]) > 1e-3);
    for (int i = 0; i < 3; i++)
        model_free(m[i]);
    backend_close(be);
}

// hard differs from key only by the weight eps of skipped keys.
static void hard_is_key_without_the_skipped(void **state)
{
    struct backend *be = tiny_backend("ref", 2);
    struct spec s = spec_of(&variants[8]);
    double loss[3], sum;
    struct err err = ERR_INIT;
    struct batch x;

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct model *m;

        s.gate.attn = i < 2 ? GATE_ATTN_KEY : GATE_ATTN_HARD;
        s.gate.eps = i == 0 ? 1e-2 : 1e-13;
        m = new_model(be, &s, MODEL_TRAIN);
        tiny_batch(m, 11, 3, x.tokens, x.targets);
        loss[i] = total_loss(m, &s, &x);
        assert_true(model_gate_stats(m)[1].zero > 0 && model_gate_stats(m)[1].zero < 1);
        if (i == 2)
            assert_int_equal(model_forward_backward(m, x.tokens, x.targets, 1, &sum, &err), -1);
        model_free(m);
    }
    assert_non_null(strstr(err.text, "hard"));
    assert_near(loss[2], loss[1], 1e-9);
    assert_true(fabs(loss[2] - loss[0]) > 1e-4);
    backend_close(be);
}

// ---- decoding -----------------------------------------------------------------------------------

// Logits of one sequence, prompt of `first` tokens at once and the rest one by one.
static double decoding_error(struct backend *be, struct spec s, int first)
{
    struct model *whole, *parts;
    float all[5 * 16], one[16];
    struct batch x;
    double sum, worst = 0, largest = 0;

    s.train.micro_batch_size = 1;
    whole = new_model(be, &s, MODEL_EVAL);
    parts = new_model(be, &s, MODEL_DECODE);
    tiny_batch(whole, 11, 3, x.tokens, x.targets);
    assert_int_equal(model_logits(whole, x.tokens, x.targets, all, &sum, NULL), 0);
    for (int t = 0; t < 5; t += t ? 1 : first) {
        int n = t ? 1 : first;

        assert_int_equal(model_decoded(parts), t);
        assert_int_equal(model_decode(parts, x.tokens + t, n, one, NULL), 0);
        for (int v = 0; v < 16; v++) {
            worst = fmax(worst, fabs(one[v] - all[(t + n - 1) * 16 + v]));
            largest = fmax(largest, fabs(one[v]));
        }
    }
    model_free(whole);
    model_free(parts);
    return worst / largest;
}

static void decoding_equals_the_whole_forward(void **state)
{
    struct backend *ref = tiny_backend("ref", 2), *cpu = tiny_backend("cpu", 2);

    (void)state;
    for (int v = 0; v < N_VARIANTS; v++)
        for (int first = 1; first <= 5; first += 2) {
            double exact = decoding_error(ref, spec_of(&variants[v]), first);
            double fast = decoding_error(cpu, spec_of(&variants[v]), first);

            if (!(exact < 1e-7 && fast < 1e-5)) // logits pass through float
                fail_msg("%s: decoding differs by %g (ref), %g (cpu)", variants[v].name, exact,
                         fast);
        }
    backend_close(cpu);
    backend_close(ref);
}

static void decoding_can_go_back(void **state)
{
    struct backend *be = tiny_backend("cpu", 2);
    struct spec s = spec_of(&variants[13]); // mixture
    float a[16], b[16];
    struct model *m;

    (void)state;
    s.train.micro_batch_size = 1;
    m = new_model(be, &s, MODEL_DECODE);
    assert_int_equal(model_decode(m, (int32_t[]){3, 1, 4}, 3, a, NULL), 0);
    model_decode_from(m, 1);
    assert_int_equal(model_decode(m, (int32_t[]){5, 9}, 2, b, NULL), 0);
    assert_true(memcmp(a, b, sizeof a) != 0);
    model_decode_from(m, 1);
    assert_int_equal(model_decode(m, (int32_t[]){1, 4}, 2, b, NULL), 0);
    for (int v = 0; v < 16; v++)
        assert_near(a[v], b[v], 1e-5);
    model_free(m);
    backend_close(be);
}

int main(void)
{
    struct CMUnitTest tests[N_VARIANTS + 16];
    int n = 0;

    for (; n < N_VARIANTS; n++)
        tests[n] = (struct CMUnitTest){variants[n].name, gradients_match_finite_differences, NULL,
                                       NULL, (void *)(uintptr_t)&variants[n]};
    const struct CMUnitTest more[] = {
        cmocka_unit_test(gated_variants_meet_open_and_closed_gates),
        cmocka_unit_test(cpu_agrees_with_the_reference),
        cmocka_unit_test(recompute_changes_nothing_but_memory),
        cmocka_unit_test(auto_recomputes_what_does_not_fit),
        cmocka_unit_test(evaluation_model_gives_the_same_loss),
        cmocka_unit_test(block_recurrence_is_the_unrolled_model),
        cmocka_unit_test(activations_grow_with_repetitions_and_moments_do_not),
        cmocka_unit_test(open_gates_are_the_dense_model),
        cmocka_unit_test(zero_gates_stay_shut),
        cmocka_unit_test(closed_gates_skip_their_layers),
        cmocka_unit_test(bias_by_key_scales_its_weight),
        cmocka_unit_test(bias_constant_over_keys_changes_nothing),
        cmocka_unit_test(query_noop_equals_off),
        cmocka_unit_test(hard_is_key_without_the_skipped),
        cmocka_unit_test(decoding_equals_the_whole_forward),
        cmocka_unit_test(decoding_can_go_back),
    };
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        tests[n++] = more[i];
    return _cmocka_run_group_tests("tests", tests, (size_t)n, NULL, NULL);
}
