// Gates in the model: dense equivalence, skipping, and the key axis of the bias.
#include "tests/t.h"

#include <math.h>
#include <string.h>

#include "tests/arch.h"
#include "tests/tiny.h"
// Tokens on both sides of each kink, or the gates' backward pass would be checked in part only.
static void gated_variants_meet_open_and_closed_gates(void **state)
{
    struct backend *be = tiny_backend("ref", 2);
    int some_zero = 0, some_closed = 0;

    (void)state;
    for (int v = 0; v < arch_count; v++) {
        struct spec s = arch_spec(&arch_variants[v]);
        struct model *m = arch_model(be, &s, MODEL_TRAIN);
        struct arch_batch b;

        tiny_batch(m, 11, 3, b.tokens, b.targets);
        arch_loss(m, &s, &b);
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
        struct spec s = arch_named("paper_b"), d; // paper_b
        struct model *gated, *dense;
        struct arch_batch x;

        s.gate.attn = (enum gate_attn)attn;
        d = s;
        d.gate.enabled = false;
        gated = arch_model(be, &s, MODEL_TRAIN);
        dense = arch_model(be, &d, MODEL_TRAIN);
        fill_gates(gated, 2, 0, 0);
        tiny_batch(gated, 11, 3, x.tokens, x.targets);
        assert_true(arch_loss(gated, &d, &x) == arch_loss(dense, &d, &x));
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
    struct spec s = arch_named("paper_b");
    struct model *m = arch_model(be, &s, MODEL_TRAIN);
    struct arch_batch x;

    (void)state;
    fill_gates(m, 2, 0, 0);
    tiny_batch(m, 11, 3, x.tokens, x.targets);
    arch_gradients(m, &x, 1);
    for (int i = 0; i < 2; i++) {
        const struct param *p = param_find(model_params(m), PARAM_SKIP, i);

        for (int64_t j = 0; j < p->size; j++)
            assert_true(arch_read(m, model_gradients(m), p->offset + j) == 0);
    }
    model_free(m);
    backend_close(be);
}

// A closed gate takes its two layers out of the model whatever their weights are.
static void closed_gates_skip_their_layers(void **state)
{
    struct backend *be = tiny_backend("ref", 2);
    struct spec s = arch_named("paper_b");
    struct model *m = arch_model(be, &s, MODEL_TRAIN);
    struct arch_batch x;
    double before;
    float w[12 * 12] = {0}, one = 1;

    (void)state;
    tiny_batch(m, 11, 3, x.tokens, x.targets);
    model_set_weight(m, param_find(model_params(m), PARAM_SKIP, 1), w);
    model_set_weight(m, param_find(model_params(m), PARAM_SKIP_BIAS, 1), &one);
    before = arch_loss(m, &s, &x);
    assert_true(model_gate_stats(m)[1].zero == 1);
    model_set_weight(m, param_find(model_params(m), PARAM_Q, 1), w);
    model_set_weight(m, param_find(model_params(m), PARAM_DOWN, 2), w);
    assert_true(arch_loss(m, &s, &x) == before);
    model_set_weight(m, param_find(model_params(m), PARAM_DOWN, 3), w);
    assert_true(arch_loss(m, &s, &x) != before);
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
    struct arch_batch x;

    (void)state;
    for (int attn = GATE_ATTN_KEY; attn <= GATE_ATTN_OFF; attn++) {
        struct spec s = arch_named("paper_b");

        s.gate.attn = (enum gate_attn)attn;
        m[attn] = arch_model(be, &s, MODEL_TRAIN);
        tiny_batch(m[attn], 11, 3, x.tokens, x.targets);
        loss[attn] = arch_gradients(m[attn], &x, 1);
    }
    sum = arch_difference(m[GATE_ATTN_QUERY_NOOP], m[GATE_ATTN_OFF]);
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
    struct spec s = arch_named("paper_b");
    double loss[3], sum;
    struct err err = ERR_INIT;
    struct arch_batch x;

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct model *m;

        s.gate.attn = i < 2 ? GATE_ATTN_KEY : GATE_ATTN_HARD;
        s.gate.eps = i == 0 ? 1e-2 : 1e-13;
        m = arch_model(be, &s, MODEL_TRAIN);
        tiny_batch(m, 11, 3, x.tokens, x.targets);
        loss[i] = arch_loss(m, &s, &x);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gated_variants_meet_open_and_closed_gates),
        cmocka_unit_test(open_gates_are_the_dense_model),
        cmocka_unit_test(zero_gates_stay_shut),
        cmocka_unit_test(closed_gates_skip_their_layers),
        cmocka_unit_test(bias_by_key_scales_its_weight),
        cmocka_unit_test(bias_constant_over_keys_changes_nothing),
        cmocka_unit_test(query_noop_equals_off),
        cmocka_unit_test(hard_is_key_without_the_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
