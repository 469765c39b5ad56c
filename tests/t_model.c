// Whole tiny models: gradients by finite differences in double, cpu against the reference, memory
// plan, naming of bad tensors, optimizer.
#include "tests/t.h"

#include <math.h>

#include "engine/model.h"
#include "engine/optim.h"
#include "tests/tiny.h"

enum { MAX_N = 64 };

struct batch {
    int32_t tokens[MAX_N], targets[MAX_N];
};

// What a row does to the tiny spec.
struct variant {
    const char *name;
    enum norm_place place;
    enum norm norm;
    enum qk_norm qk_norm;
    enum act_fn act;
    bool bias, untied;
    enum pos pos;
    enum rope_layout rope_layout;
};

static const struct variant variants[] = {
    {.name = "pre, RMSNorm, RoPE, tied"},
    {.name = "pre, full QK-norm, untied", .qk_norm = QK_FULL, .untied = true},
    {.name = "pre, QK-norm per head, interleaved",
     .qk_norm = QK_HEAD,
     .rope_layout = ROPE_INTERLEAVED},
    {.name = "reordered, full QK-norm, untied",
     .place = PLACE_REORDERED,
     .qk_norm = QK_FULL,
     .untied = true},
    {.name = "reordered, QK-norm per head, no positions",
     .place = PLACE_REORDERED,
     .qk_norm = QK_HEAD,
     .pos = POS_NONE},
    {.name = "GPT-2: LayerNorm, biases, tanh GELU, learned positions",
     .norm = NORM_LAYER,
     .act = ACT_GELU_TANH,
     .bias = true,
     .pos = POS_LEARNED},
    {.name = "reordered, LayerNorm, biases, GELU, untied",
     .place = PLACE_REORDERED,
     .norm = NORM_LAYER,
     .act = ACT_GELU,
     .bias = true,
     .untied = true},
    {.name = "SwiGLU with biases, LayerNorm, per-head QK-norm",
     .norm = NORM_LAYER,
     .qk_norm = QK_HEAD,
     .bias = true},
};
enum { N_VARIANTS = sizeof variants / sizeof variants[0] };

static struct spec spec_of(const struct variant *v)
{
    struct spec s = tiny_spec();

    s.model.norm_place = v->place;
    s.model.norm = v->norm;
    s.model.qk_norm = v->qk_norm;
    s.model.act = v->act;
    s.model.bias = v->bias;
    s.model.tie_embeddings = !v->untied;
    s.model.pos = v->pos;
    s.model.rope_layout = v->rope_layout;
    return s;
}

static struct model *new_model(struct backend *be, const struct spec *s)
{
    struct err err = ERR_INIT;
    struct model *m = model_new(be, s, &err);

    if (!m)
        fail_msg("model_new: %s", err.text);
    tiny_fill(m, 7);
    return m;
}

static double loss_of(struct model *m, const struct batch *b)
{
    double sum = NAN;

    assert_int_equal(model_loss(m, b->tokens, b->targets, &sum, NULL), 0);
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
    double v;

    model_backend(m)->op->download_f64(model_backend(m), &v, f32_at(model_backend(m), block, at),
                                       1);
    return v;
}

static double loss_with(struct model *m, const struct batch *b, int64_t at, double w)
{
    struct backend *be = model_backend(m);

    be->op->upload_f64(be, f32_at(be, model_weights(m), at), &w, 1);
    model_weights_changed(m);
    return loss_of(m, b);
}

// Up to 16 elements spread over the tensor. Central differences in double with h = 1e-5 are good
// to about 1e-9 here.
static void check_tensor(struct model *m, const struct batch *b, const struct param *p,
                         double scale, const char *variant)
{
    const double h = 1e-5;
    int64_t step = p->size > 16 ? p->size / 16 : 1;

    for (int64_t i = 0; i < p->size; i += step) {
        int64_t at = p->offset + i;
        double w = read_one(m, model_weights(m), at), g = read_one(m, model_gradients(m), at);
        double up = loss_with(m, b, at, w + h), down = loss_with(m, b, at, w - h);
        double expected = scale * (up - down) / (2 * h);

        loss_with(m, b, at, w);
        if (!(fabs(g - expected) <= 2e-7 * fmax(1, fabs(expected))))
            fail_msg("%s: gradient of %s[%lld] is %.12g, finite differences give %.12g", variant,
                     p->name, (long long)i, g, expected);
    }
}

static void gradients_match_finite_differences(void **state)
{
    struct backend *be = tiny_backend("ref", 2);

    (void)state;
    for (int v = 0; v < N_VARIANTS; v++) {
        struct spec s = spec_of(&variants[v]);
        struct model *m = new_model(be, &s);
        struct batch b;

        tiny_batch(m, 11, 3, b.tokens, b.targets);
        gradients_of(m, &b, 0.7);
        for (int i = 0; i < model_params(m)->n; i++)
            check_tensor(m, &b, &model_params(m)->v[i], 0.7, variants[v].name);
        model_free(m);
    }
    backend_close(be);
}

static void compare_blocks(struct model *a, struct model *b, double tol, const char *what)
{
    const struct param_list *list = model_params(b);

    for (int i = 0; i < list->n; i++) {
        const struct param *p = &list->v[i];
        double largest = 0, worst = 0;

        for (int64_t j = 0; j < p->size; j++) {
            double x = read_one(a, model_gradients(a), p->offset + j);
            double y = read_one(b, model_gradients(b), p->offset + j);

            largest = fmax(largest, fabs(y));
            worst = fmax(worst, isfinite(x) ? fabs(x - y) : INFINITY);
        }
        if (!(worst <= tol * fmax(largest, 0.1)))
            fail_msg("%s: gradient of %s differs by %g of at most %g", what, p->name, worst,
                     largest);
    }
}

static void cpu_agrees_with_the_reference(void **state)
{
    struct backend *ref = tiny_backend("ref", 2), *cpu = tiny_backend("cpu", 2);

    (void)state;
    for (int v = 0; v < N_VARIANTS; v++) {
        struct spec s = spec_of(&variants[v]);
        struct model *a = new_model(cpu, &s), *b = new_model(ref, &s);
        struct batch x;

        tiny_batch(a, 11, 3, x.tokens, x.targets);
        assert_near(loss_of(a, &x), loss_of(b, &x), 2e-6);
        assert_near(gradients_of(a, &x, 1), gradients_of(b, &x, 1), 2e-6);
        compare_blocks(a, b, 2e-5, variants[v].name);
        model_free(a);
        model_free(b);
    }
    backend_close(cpu);
    backend_close(ref);
}

static void chunked_head_equals_whole_head(void **state)
{
    struct backend *be = tiny_backend("ref", 2);
    struct spec s = tiny_spec();
    struct model *a = new_model(be, &s), *b = new_model(be, &s);
    struct batch x;

    (void)state;
    tiny_batch(a, 11, 3, x.tokens, x.targets);
    model_set_head_rows(a, 3); // 3 + 3 + 3 + 1 rows
    assert_near(gradients_of(a, &x, 1), gradients_of(b, &x, 1), 1e-13);
    compare_blocks(a, b, 1e-13, "chunked head");
    model_free(a);
    model_free(b);
    backend_close(be);
}

static void accumulated_micro_batches_equal_one_batch(void **state)
{
    struct backend *be = tiny_backend("ref", 2);
    struct spec s = tiny_spec();
    struct model *whole = new_model(be, &s), *parts;
    struct batch x;
    double sum, first, second;

    (void)state;
    tiny_batch(whole, 11, 3, x.tokens, x.targets);
    sum = gradients_of(whole, &x, 0.1);
    s.train.micro_batch_size = 1;
    parts = new_model(be, &s);
    first = gradients_of(parts, &x, 0.1);
    assert_int_equal(model_forward_backward(parts, x.tokens + 5, x.targets + 5, 0.1, &second, NULL),
                     0);
    assert_near(first + second, sum, 1e-13);
    compare_blocks(parts, whole, 1e-12, "accumulation");
    model_free(whole);
    model_free(parts);
    backend_close(be);
}

static void copy_weight(struct model *to, enum param_role to_role, struct model *from,
                        enum param_role from_role)
{
    const struct param *p = param_find(model_params(from), from_role, -1);
    float *x = malloc((size_t)p->size * sizeof *x);

    model_get_weight(from, p, x);
    model_set_weight(to, param_find(model_params(to), to_role, -1), x);
    free(x);
}

static void tied_embeddings_get_both_gradients(void **state)
{
    struct backend *be = tiny_backend("ref", 2);
    struct spec s = tiny_spec();
    struct model *tied = new_model(be, &s), *untied;
    const struct param *p, *e, *h;
    struct batch x;

    (void)state;
    s.model.tie_embeddings = false;
    untied = new_model(be, &s); // the other weights depend on seed and name only
    copy_weight(untied, PARAM_HEAD, tied, PARAM_EMBED);
    tiny_batch(tied, 11, 3, x.tokens, x.targets);
    assert_near(gradients_of(tied, &x, 1), gradients_of(untied, &x, 1), 1e-13);
    p = param_find(model_params(tied), PARAM_EMBED, -1);
    e = param_find(model_params(untied), PARAM_EMBED, -1);
    h = param_find(model_params(untied), PARAM_HEAD, -1);
    for (int64_t i = 0; i < p->size; i++)
        assert_near(read_one(tied, model_gradients(tied), p->offset + i),
                    read_one(untied, model_gradients(untied), e->offset + i) +
                        read_one(untied, model_gradients(untied), h->offset + i),
                    1e-12);
    model_free(tied);
    model_free(untied);
    backend_close(be);
}

static void causal_loss_ignores_later_tokens(void **state)
{
    struct backend *be = tiny_backend("cpu", 2);
    struct spec s = tiny_spec();
    struct model *m = new_model(be, &s);
    struct batch x;
    double before;

    (void)state;
    tiny_batch(m, 11, 3, x.tokens, x.targets);
    for (int i = 0; i < 10; i++)
        x.targets[i] = i == 2 || i == 7 ? 4 : -1;
    before = loss_of(m, &x);
    x.tokens[3] = x.tokens[4] = x.tokens[8] = (x.tokens[8] + 1) % 11;
    assert_true(loss_of(m, &x) == before);
    x.tokens[2] = (x.tokens[2] + 1) % 11;
    assert_true(loss_of(m, &x) != before);
    model_free(m);
    backend_close(be);
}

static bool until_asked_five_times(void *user)
{
    return ++*(int *)user >= 5;
}

static void abandoned_pass_says_so_and_leaves_no_trace(void **state)
{
    struct backend *be = tiny_backend("cpu", 2);
    struct spec s = tiny_spec();
    struct model *m = new_model(be, &s);
    struct batch x;
    double before, sum = -1;
    int asked = 0;

    (void)state;
    tiny_batch(m, 11, 3, x.tokens, x.targets);
    before = gradients_of(m, &x, 1);
    model_set_poll(m, until_asked_five_times, &asked);
    assert_int_equal(model_forward_backward(m, x.tokens, x.targets, 1, &sum, NULL), 1);
    assert_int_equal(asked, 5);
    assert_true(sum == -1);
    model_set_poll(m, NULL, NULL);
    assert_true(gradients_of(m, &x, 1) == before);
    model_free(m);
    backend_close(be);
}

// ---- memory -------------------------------------------------------------------------------------

static size_t allocated, refuse_above;
static const struct ops *inner;

static void *counting_alloc(struct backend *be, size_t bytes)
{
    if (bytes > refuse_above)
        return NULL;
    allocated += bytes;
    return inner->alloc(be, bytes);
}

static void plan_is_what_is_allocated(void **state)
{
    struct backend *be = tiny_backend("cpu", 2);
    struct ops ops = *be->op;
    struct spec s = tiny_spec();
    struct model_plan plan;
    struct err err = ERR_INIT;
    struct model *m;
    struct optim *o;

    (void)state;
    inner = be->op;
    ops.alloc = counting_alloc;
    be->op = &ops;
    refuse_above = SIZE_MAX;
    model_plan(&s, model_sizes_of(be), &plan);
    m = new_model(be, &s);
    assert_int_equal(allocated, plan.weights + plan.compute + plan.gradients + plan.activations);
    o = optim_new(m, &s.optim, &err);
    assert_non_null(o);
    assert_int_equal(allocated, plan.total + (int64_t)sizeof(float)); // and the norm
    optim_free(o);
    model_free(m);
    refuse_above = (size_t)plan.activations - 1;
    assert_null(model_new(be, &s, &err));
    assert_non_null(strstr(err.text, "activations"));
    assert_non_null(strstr(err.text, "bytes) asked"));
    be->op = inner;
    backend_close(be);
}

static void plan_of_a_large_model_needs_no_memory(void **state)
{
    struct spec s = tiny_spec();
    struct model_plan small, large;

    (void)state;
    s.train.micro_batch_size = 1;
    model_plan(&s, model_sizes_cpu, &small);
    s.train.micro_batch_size = 1 << 20;
    s.train.seq_len = 1 << 10;
    model_plan(&s, model_sizes_cpu, &large);
    assert_true(large.activations > (int64_t)1 << 40);
    assert_int_equal(large.weights, small.weights);
    assert_int_equal(large.moments, 2 * large.weights);
}

// ---- bad values ---------------------------------------------------------------------------------

static void poison(struct model *m, enum param_role role, int layer, float value)
{
    const struct param *p = param_find(model_params(m), role, layer);
    float *x = malloc((size_t)p->size * sizeof *x);

    model_get_weight(m, p, x);
    x[p->size / 2] = value;
    model_set_weight(m, p, x);
    free(x);
}

static void first_bad_tensor_is_named(void **state)
{
    struct backend *be = tiny_backend("cpu", 2);
    struct spec s = tiny_spec();
    struct model *m = new_model(be, &s);
    struct batch x;
    char name[160];

    (void)state;
    tiny_batch(m, 11, 3, x.tokens, x.targets);
    assert_true(isfinite(gradients_of(m, &x, 1)));
    assert_false(model_first_nonfinite(m, name, sizeof name));
    assert_string_equal(name, "");

    gradients_of(m, &x, 1e39); // beyond f32: the loss is fine, gradients are not
    assert_true(model_first_nonfinite(m, name, sizeof name));
    assert_string_equal(name, "grad of model.norm.weight");
    model_zero_gradients(m);

    poison(m, PARAM_UP, 1, 3e38f); // finite itself; its product with the input may not be
    poison(m, PARAM_FFN_IN_NORM, 1, 3e38f);
    assert_false(isfinite(gradients_of(m, &x, 1)));
    assert_true(model_first_nonfinite(m, name, sizeof name));
    assert_non_null(strstr(name, "layer 1 (repetition 1) mlp"));

    poison(m, PARAM_O, 0, INFINITY);
    assert_false(isfinite(gradients_of(m, &x, 1)));
    assert_true(model_first_nonfinite(m, name, sizeof name));
    assert_string_equal(name, "weight model.layers.0.self_attn.o_proj.weight");
    model_free(m);
    backend_close(be);
}

// ---- optimizer ----------------------------------------------------------------------------------

static void schedules_follow_their_formulas(void **state)
{
    struct optim_spec s = {.lr = 1, .min_lr = 0.1, .warmup_steps = 10};

    (void)state;
    assert_near(optim_lr(&s, 1, 110), 0.1, 1e-15);
    assert_near(optim_lr(&s, 10, 110), 1, 1e-15);
    assert_near(optim_lr(&s, 60, 110), 0.55, 1e-15); // half way down
    assert_near(optim_lr(&s, 110, 110), 0.1, 1e-15);
    assert_near(optim_lr(&s, 500, 110), 0.1, 1e-15);
    s.schedule = SCHED_CONSTANT;
    assert_near(optim_lr(&s, 110, 110), 1, 1e-15);
    assert_near(optim_lr(&s, 5, 110), 0.5, 1e-15);
    s.warmup_start = 0.1; // of lr, not of the way
    s.lr = 2;
    assert_near(optim_lr(&s, 1, 110), 0.38, 1e-15);
    assert_near(optim_lr(&s, 5, 110), 1.1, 1e-15);
    assert_near(optim_lr(&s, 10, 110), 2, 1e-15);
    assert_near(optim_lr(&s, 11, 110), 2, 1e-15);
    s.warmup_start = 1;
    assert_near(optim_lr(&s, 1, 110), 2, 1e-15);
    s.lr = 1;
    s.warmup_steps = 0;
    assert_near(optim_lr(&s, 1, 110), 1, 1e-15);
}

struct scalar_adamw {
    double w, m, v;
};

// The update written out once more, for one element.
static void scalar_step(struct scalar_adamw *a, double g, int n, double lr, double decay)
{
    a->m = 0.9 * a->m + 0.1 * g;
    a->v = 0.95 * a->v + 0.05 * g * g;
    a->w -=
        lr * (decay * a->w + a->m / (1 - pow(0.9, n)) / (sqrt(a->v / (1 - pow(0.95, n))) + 1e-8));
}

static void adamw_clips_and_decays_by_group(void **state)
{
    struct backend *be = tiny_backend("ref", 2);
    struct spec s = tiny_spec();
    struct model *m;
    struct optim *o;
    const struct param *matrix, *gain;
    struct scalar_adamw a = {0}, b = {0};
    struct batch x;

    (void)state;
    s.optim.decay_scope = DECAY_MATRICES;
    s.optim.max_norm = 0.01;
    m = new_model(be, &s);
    o = optim_new(m, &s.optim, NULL);
    matrix = param_find(model_params(m), PARAM_DOWN, 2);
    gain = param_find(model_params(m), PARAM_FFN_IN_NORM, 1);
    a.w = read_one(m, model_weights(m), matrix->offset + 5);
    b.w = read_one(m, model_weights(m), gain->offset + 5);
    for (int n = 1; n <= 3; n++) {
        double norm, clip;

        tiny_batch(m, 11, (uint64_t)n, x.tokens, x.targets);
        gradients_of(m, &x, 1);
        norm = optim_grad_norm(o);
        assert_true(norm > 0.01);
        clip = 0.01 / norm;
        scalar_step(&a, clip * read_one(m, model_gradients(m), matrix->offset + 5), n, 0.02, 0.1);
        scalar_step(&b, clip * read_one(m, model_gradients(m), gain->offset + 5), n, 0.02, 0);
        optim_step(o, n, 0.02, norm);
        assert_near(read_one(m, model_weights(m), matrix->offset + 5), a.w, 1e-12);
        assert_near(read_one(m, model_weights(m), gain->offset + 5), b.w, 1e-12);
    }
    optim_free(o);
    model_free(m);
    backend_close(be);
}

static void gradient_norm_is_the_global_one(void **state)
{
    struct backend *be = tiny_backend("ref", 2);
    struct spec s = tiny_spec();
    struct model *m = new_model(be, &s);
    struct optim *o = optim_new(m, &s.optim, NULL);
    const struct param_list *list = model_params(m);
    struct batch x;
    double sum = 0;

    (void)state;
    tiny_batch(m, 11, 3, x.tokens, x.targets);
    gradients_of(m, &x, 1);
    for (int i = 0; i < list->n; i++)
        for (int64_t j = 0; j < list->v[i].size; j++)
            sum += pow(read_one(m, model_gradients(m), list->v[i].offset + j), 2);
    assert_near(optim_grad_norm(o), sqrt(sum), 1e-12);
    optim_free(o);
    model_free(m);
    backend_close(be);
}

static void gemm_ceiling_is_measured(void **state)
{
    struct backend *be = tiny_backend("cpu", 2);

    (void)state;
    assert_true(model_gemm_gflops(be, 512, 0.02) > 0.1);
    backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_finite_differences),
        cmocka_unit_test(cpu_agrees_with_the_reference),
        cmocka_unit_test(chunked_head_equals_whole_head),
        cmocka_unit_test(accumulated_micro_batches_equal_one_batch),
        cmocka_unit_test(tied_embeddings_get_both_gradients),
        cmocka_unit_test(causal_loss_ignores_later_tokens),
        cmocka_unit_test(abandoned_pass_says_so_and_leaves_no_trace),
        cmocka_unit_test(plan_is_what_is_allocated),
        cmocka_unit_test(plan_of_a_large_model_needs_no_memory),
        cmocka_unit_test(first_bad_tensor_is_named),
        cmocka_unit_test(schedules_follow_their_formulas),
        cmocka_unit_test(adamw_clips_and_decays_by_group),
        cmocka_unit_test(gradient_norm_is_the_global_one),
        cmocka_unit_test(gemm_ceiling_is_measured),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
