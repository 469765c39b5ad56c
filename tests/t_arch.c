// The architectures of the three papers and their mixtures: gradients by finite differences in
// double, cpu against the reference, recompute, repetitions.
#include "tests/t.h"

#include <math.h>
#include <string.h>

#include "engine/trainer.h"
#include "tests/arch.h"
#include "tests/tiny.h"
static double loss_with(struct model *m, const struct spec *s, const struct arch_batch *b,
                        int64_t at, double w)
{
    struct backend *be = model_backend(m);

    be->op->upload_f64(be, f32_at(be, model_weights(m), at), &w, 1);
    model_weights_changed(m);
    return arch_loss(m, s, b);
}

// Up to 12 elements spread over the tensor; returns the largest gradient met.
static double check_tensor(struct model *m, const struct spec *s, const struct arch_batch *b,
                           const struct param *p, const char *variant)
{
    const double h = 2e-5;
    int64_t step = p->size > 12 ? p->size / 12 : 1;
    double largest = 0;

    for (int64_t i = 0; i < p->size; i += step) {
        int64_t at = p->offset + i;
        double w = arch_read(m, model_weights(m), at), g = arch_read(m, model_gradients(m), at);
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
    const struct arch_variant *v = *state;
    struct backend *be = tiny_backend("ref", 2);
    struct spec s = arch_spec(v);
    struct model *m = arch_model(be, &s, MODEL_TRAIN);
    struct arch_batch b;

    tiny_batch(m, 11, 3, b.tokens, b.targets);
    arch_gradients(m, &b, 0.7);
    for (int i = 0; i < model_params(m)->n; i++) {
        const struct param *p = &model_params(m)->v[i];

        // a gradient that is 0 checks nothing; that of a key's bias cancels in the softmax
        if (!(check_tensor(m, &s, &b, p, v->name) > 1e-6) && p->role != PARAM_K_BIAS)
            fail_msg("%s: %s has no gradient", v->name, p->name);
    }
    model_free(m);
    backend_close(be);
}

static void cpu_agrees_with_the_reference(void **state)
{
    struct backend *ref = tiny_backend("ref", 2), *cpu = tiny_backend("cpu", 2);

    (void)state;
    for (int v = 0; v < arch_count; v++) {
        struct spec s = arch_spec(&arch_variants[v]);
        struct model *a = arch_model(cpu, &s, MODEL_TRAIN), *b = arch_model(ref, &s, MODEL_TRAIN);
        struct arch_batch x;
        double worst;

        tiny_batch(a, 11, 3, x.tokens, x.targets);
        assert_near(arch_gradients(a, &x, 1), arch_gradients(b, &x, 1), 3e-6);
        assert_near(model_penalty(a), model_penalty(b), 1e-6);
        worst = arch_difference(a, b);
        if (!(worst < 1e-4))
            fail_msg("%s: gradients differ by %g", arch_variants[v].name, worst);
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
    for (int v = 0; v < arch_count; v++) {
        struct spec s = arch_spec(&arch_variants[v]);
        struct model *kept = arch_model(be, &s, MODEL_TRAIN), *again;
        struct model_plan plan[2];
        struct arch_batch x;

        model_plan(&s, model_sizes_cpu, &plan[0]);
        s.train.recompute = RECOMPUTE_LAYER;
        model_plan(&s, model_sizes_cpu, &plan[1]);
        assert_true(plan[1].activations < plan[0].activations);
        assert_int_equal(plan[1].total - plan[1].activations, plan[0].total - plan[0].activations);
        again = arch_model(be, &s, MODEL_TRAIN);
        tiny_batch(kept, 11, 3, x.tokens, x.targets);
        assert_true(arch_gradients(kept, &x, 1) == arch_gradients(again, &x, 1));
        if (arch_difference(kept, again) != 0)
            fail_msg("%s: recompute gives other gradients", arch_variants[v].name);
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
    for (int v = 0; v < arch_count; v++) {
        struct spec s = arch_spec(&arch_variants[v]);
        struct model *a = arch_model(be, &s, MODEL_TRAIN), *b = arch_model(be, &s, MODEL_EVAL);
        struct arch_batch x;

        tiny_batch(a, 11, 3, x.tokens, x.targets);
        assert_true(arch_loss(a, &s, &x) == arch_loss(b, &s, &x));
        model_free(a);
        model_free(b);
    }
    backend_close(be);
}

// ---- absent parts -------------------------------------------------------------------------------

static void zero_param(struct model *m, enum param_role role, int layer)
{
    const struct param *p = param_find(model_params(m), role, layer);
    float *x = calloc((size_t)p->size, sizeof *x);

    model_set_weight(m, p, x);
    free(x);
}

// What adds nothing to the stream could as well not be there: the same loss, and the same gradients
// of all that both have.
static void check_absent_is_zero(struct backend *be, const struct spec *s)
{
    static const int heads[] = {2, 4, 3, 6}, kv[] = {1, 2, 3, 2};
    struct spec full_spec = *s;
    struct model *part = arch_model(be, s, MODEL_TRAIN), *full;
    struct arch_batch x;

    for (int i = 0; i < 4; i++) {
        if (!spec_has_ffn(&s->model, i))
            full_spec.model.lane[LANE_FFN][i] = 9;
        if (!spec_has_attention(&s->model, i))
            full_spec.model.lane[LANE_HEADS][i] = heads[i],
            full_spec.model.lane[LANE_KV][i] = kv[i];
    }
    full = arch_model(be, &full_spec, MODEL_TRAIN);
    for (int i = 0; i < 4; i++) {
        if (!spec_has_ffn(&s->model, i))
            zero_param(full, PARAM_DOWN, i);
        if (!spec_has_attention(&s->model, i))
            zero_param(full, PARAM_O, i);
    }
    tiny_batch(part, 11, 3, x.tokens, x.targets);
    assert_near(arch_gradients(part, &x, 1), arch_gradients(full, &x, 1), 1e-12);
    for (int i = 0; i < model_params(part)->n; i++) {
        const struct param *p = &model_params(part)->v[i];
        const struct param *q = param_find(model_params(full), p->role, p->layer);

        for (int64_t j = 0; j < p->size; j++)
            assert_near(arch_read(part, model_gradients(part), p->offset + j),
                        arch_read(full, model_gradients(full), q->offset + j), 1e-11);
    }
    model_free(part);
    model_free(full);
}

static void absent_parts_are_parts_that_add_nothing(void **state)
{
    static const char *const names[] = {"absent", "absent_at_the_ends", "absent_injections",
                                        "absent_gates_off"};
    struct backend *be = tiny_backend("ref", 2);

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct spec s = arch_named(names[i]);

        check_absent_is_zero(be, &s);
        s.train.recompute = RECOMPUTE_LAYER;
        check_absent_is_zero(be, &s);
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
    struct arch_batch x;

    (void)state;
    arch_lane(&s, LANE_REUSE, (int[]){1, 1, 1});
    deep = s;
    s.model.block_loops = 2;
    deep.model.n_layers = 6;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        memcpy(deep.model.lane[lane] + 3, s.model.lane[lane], 3 * sizeof(int));
    looped = arch_model(be, &s, MODEL_TRAIN);
    unrolled = arch_model(be, &deep, MODEL_TRAIN);
    copy_layers(unrolled, looped, 3);
    tiny_batch(looped, 11, 3, x.tokens, x.targets);
    assert_near(arch_gradients(looped, &x, 1), arch_gradients(unrolled, &x, 1), 1e-12);
    for (int i = 0; i < model_params(looped)->n; i++) {
        const struct param *p = &model_params(looped)->v[i];
        const struct param *lo = param_find(model_params(unrolled), p->role, p->layer), *hi = lo;

        if (p->layer >= 0)
            hi = param_find(model_params(unrolled), p->role, p->layer + 3);
        for (int64_t j = 0; j < p->size; j++) {
            double want = arch_read(unrolled, model_gradients(unrolled), lo->offset + j);

            if (hi != lo)
                want += arch_read(unrolled, model_gradients(unrolled), hi->offset + j);
            assert_near(arch_read(looped, model_gradients(looped), p->offset + j), want, 1e-11);
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
    arch_lane(&s, LANE_REUSE, (int[]){1, 1, 1});
    model_plan(&s, model_sizes_cpu, &once);
    arch_lane(&s, LANE_REUSE, (int[]){1, 3, 1});
    model_plan(&s, model_sizes_cpu, &thrice);
    arch_lane(&s, LANE_REUSE, (int[]){1, 5, 1});
    model_plan(&s, model_sizes_cpu, &five);
    assert_int_equal(once.moments, five.moments);
    assert_true(thrice.activations > once.activations);
    assert_int_equal(five.activations - thrice.activations, thrice.activations - once.activations);
}

int main(void)
{
    struct CMUnitTest tests[64];
    int n = 0;

    for (; n < arch_count; n++)
        tests[n] = (struct CMUnitTest){arch_variants[n].name, gradients_match_finite_differences,
                                       NULL, NULL, (void *)(uintptr_t)&arch_variants[n]};
    const struct CMUnitTest more[] = {
        cmocka_unit_test(cpu_agrees_with_the_reference),
        cmocka_unit_test(recompute_changes_nothing_but_memory),
        cmocka_unit_test(auto_recomputes_what_does_not_fit),
        cmocka_unit_test(evaluation_model_gives_the_same_loss),
        cmocka_unit_test(absent_parts_are_parts_that_add_nothing),
        cmocka_unit_test(block_recurrence_is_the_unrolled_model),
        cmocka_unit_test(activations_grow_with_repetitions_and_moments_do_not),
    };
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        tests[n++] = more[i];
    return _cmocka_run_group_tests("tests", tests, (size_t)n, NULL, NULL);
}
