// Predicted cost of training: what must hold whatever the machine is doing.
#include "tests/t.h"

#include <math.h>
#include <pthread.h>

#include "engine/cost.h"
#include "engine/model.h"
#include "engine/profile.h"
#include "engine/trainer.h"
#include "tests/training.h"

static void load(const char *file, const char *const *set, int n, struct spec *s)
{
    struct problems p = {0};

    if (profile_load(file, set, n, s, &p) < 0) {
        problems_print(&p, stderr);
        fail_msg("%s", file);
    }
    problems_release(&p);
}

static void predict(const struct spec *s, struct cost *c)
{
    struct err err = ERR_INIT;

    if (cost_predict(s, "cpu", c, &err) < 0)
        fail_msg("%s", err.text);
    if (!c->fits)
        fail_msg("%s", c->why);
}

// Six layers of which no two have the same widths, the middle ones repeated.
static struct spec varied(void)
{
    static const int ffn[] = {64, 96, 160, 256, 128, 32}, heads[] = {2, 4, 6, 8, 4, 4};
    struct spec s = training_spec();

    s.model.n_layers = 6;
    s.model.d_model = 64;
    for (int i = 0; i < 6; i++) {
        s.model.lane[LANE_FFN][i] = ffn[i];
        s.model.lane[LANE_HEADS][i] = heads[i];
        s.model.lane[LANE_KV][i] = heads[i] / 2;
        s.model.lane[LANE_REUSE][i] = 1;
    }
    s.data.val[0] = 0;
    return s;
}

// ---- the prediction -----------------------------------------------------------------------------

static void parts_are_positive_and_add_up(void **state)
{
    struct spec s = varied();
    struct cost c;
    double sum = 0;

    (void)state;
    s.model.lane[LANE_REUSE][2] = 2;
    predict(&s, &c);
    assert_int_equal(c.n_layers, 6);
    for (int i = 0; i < 6; i++) {
        assert_true(c.layer_s[i] > 0);
        sum += c.layer_s[i];
    }
    assert_near(sum, c.layers_s, 1e-9);
    assert_true(c.head_s > 0 && c.optim_s > 0 && c.embed_s >= 0);
    assert_near(c.embed_s + c.layers_s + c.head_s + c.optim_s, c.seconds_per_step, 1e-9);
    assert_near(c.tokens_per_s * c.seconds_per_step, spec_tokens_per_step(&s), 1e-6);
    assert_true(c.passes >= 3 && c.threads == 1 && c.calibration_s > 0);
    assert_true(isnan(c.seconds_per_eval) && c.evaluations == 0);
}

// More attention and more FFN never cost less, whatever noise there was.
static void wider_layers_cost_at_least_as_much(void **state)
{
    struct spec s = varied();
    struct cost c;

    (void)state;
    predict(&s, &c);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            if (s.model.lane[LANE_FFN][i] >= s.model.lane[LANE_FFN][k] &&
                s.model.lane[LANE_HEADS][i] >= s.model.lane[LANE_HEADS][k])
                assert_true(c.layer_s[i] >= c.layer_s[k]);
}

static void repetitions_and_passes_multiply(void **state)
{
    struct spec s = varied();
    struct cost c;

    (void)state;
    for (int i = 0; i < 6; i++) {
        s.model.lane[LANE_FFN][i] = 64;
        s.model.lane[LANE_HEADS][i] = s.model.lane[LANE_KV][i] = 4;
    }
    s.model.lane[LANE_REUSE][1] = 3;
    s.model.block_loops = 2;
    predict(&s, &c);
    assert_near(c.layer_s[1] / c.layer_s[0], 3, 1e-9);
    assert_near(c.layers_s / c.layer_s[0], 8, 1e-9);
    assert_true(c.slice_layers <= 16 && c.slice_layers >= 2);
}

static void length_and_evaluations_make_the_total(void **state)
{
    struct spec s = varied();
    struct cost c, twice;

    (void)state;
    s.train.max_steps = 0;
    s.train.max_tokens = 100 * spec_tokens_per_step(&s);
    predict(&s, &c);
    assert_int_equal(c.steps, 100);
    assert_near(c.seconds_total, 100 * c.seconds_per_step, 1e-9);
    twice = c;
    s.train.max_tokens *= 2;
    cost_plan(&twice, &s);
    assert_near(twice.seconds_total, 2 * c.seconds_total, 1e-9);
    assert_int_equal(twice.tokens, 2 * c.tokens);

    snprintf(s.data.val, sizeof s.data.val, "%s/val.bin", t_dir());
    s.eval.interval = 90;
    cost_plan(&twice, &s);
    assert_int_equal(twice.evaluations, 3); // at 90, 180 and the end
    assert_true(twice.seconds_per_eval > 0);
    assert_true(twice.seconds_total > 2 * c.seconds_total + 3 * twice.seconds_per_eval);
    snprintf(s.data.val, sizeof s.data.val, "%s/nowhere.bin", t_dir());
    cost_plan(&twice, &s);
    assert_true(isnan(twice.seconds_per_eval)); // nobody knows how long it is
    s.eval.max_tokens = 1024;
    cost_plan(&twice, &s);
    assert_true(twice.seconds_per_eval > 0);
}

// Twice the sequences in a step are twice the micro-batches, and still one update.
static void accumulation_adds_micro_batches(void **state)
{
    struct spec s = varied();
    struct cost c;

    (void)state;
    s.train.global_batch_size = 4 * s.train.micro_batch_size;
    predict(&s, &c);
    assert_int_equal(c.slice_rows, s.train.micro_batch_size * s.train.seq_len);
    assert_near(c.tokens_per_s * c.seconds_per_step, 4. * (double)c.slice_rows, 1e-6);
}

static void gates_and_recomputation_are_calibrated(void **state)
{
    struct spec s = varied();
    struct cost c;

    (void)state;
    s.gate.enabled = true;
    s.gate.eps = 1e-6;
    s.train.recompute = RECOMPUTE_LAYER;
    predict(&s, &c);
    assert_int_equal(c.slice_layers % 2, 0);
    assert_true(c.tokens_per_s > 0);
}

// ---- what a calibration takes -------------------------------------------------------------------

// Opens the job and says what it would time, without timing it.
static struct cost opened(const struct spec *s)
{
    struct cost_job *j = cost_new(s, "cpu");
    struct err err = ERR_INIT;
    struct cost c;

    assert_int_equal(cost_step(j, &err), 1);
    c = *cost_result(j);
    cost_cancel(j);
    assert_int_equal(cost_step(j, &err), -1);
    cost_free(j);
    return c;
}

static void a_slice_of_a_large_model_is_enough(void **state)
{
    static const char *const gpt2[] = {"train.seq_len=64", "train.micro_batch_size=4",
                                       "train.global_batch_size=4"};
    struct model_plan whole;
    struct spec s;
    struct cost c;

    (void)state;
    load("profiles/gpt2/124M.yaml", gpt2, 3, &s);
    model_plan(&s, model_sizes_cpu, &whole);
    if (trainer_memory_available() >= 0 && trainer_memory_available() < 4e9)
        skip();
    c = opened(&s);
    assert_true(c.slice_bytes > 0 && c.slice_bytes <= 1 << 30 && c.slice_bytes < whole.total);
    assert_true(c.slice_layers < 12);
    assert_true(c.memory_step_bytes > whole.total && c.memory_bytes > c.memory_step_bytes);
}

static void what_does_not_fit_is_said_and_not_built(void **state)
{
    static const char *const huge[] = {"train.micro_batch_size=4096",
                                       "train.global_batch_size=4096"};
    struct cost_job *j;
    struct err err = ERR_INIT;
    const struct cost *c;
    struct spec s;

    (void)state;
    load("profiles/openelm/3B.yaml", huge, 2, &s);
    j = cost_new(&s, "cpu");
    assert_int_equal(cost_step(j, &err), 0);
    c = cost_result(j);
    assert_false(c->fits);
    training_assert_contains(c->why, "does not fit: the model needs");
    training_assert_contains(c->why, "is available");
    assert_true(isnan(c->tokens_per_s));
    assert_int_equal(c->slice_bytes, 0);
    assert_int_equal(cost_step(j, &err), 0); // and stays so
    cost_free(j);
}

static void a_backend_that_is_not_there_is_said(void **state)
{
    struct spec s = varied();
    struct err err = ERR_INIT;
    struct cost c;

    (void)state;
    assert_int_equal(cost_predict(&s, "abacus", &c, &err), -1);
    training_assert_contains(err.text, "backend 'abacus' is not available");
}

// ---- on a thread of its own ---------------------------------------------------------------------

static void *run(void *arg)
{
    struct err err = ERR_INIT;
    static int rc;

    while ((rc = cost_step(arg, &err)) > 0)
        ;
    if (rc < 0)
        training_assert_contains(err.text, "cancelled");
    return &rc;
}

static void another_thread_watches_and_cancels(void **state)
{
    struct spec s = varied();
    struct cost_job *j = cost_new(&s, NULL);
    double last = 0;
    pthread_t thread;
    void *rc;

    (void)state;
    assert_near(cost_progress(j), 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, run, j), 0);
    while (cost_progress(j) < 0.2) {
        assert_true(cost_progress(j) >= last);
        last = cost_progress(j);
        t_sleep_ms(1);
    }
    cost_cancel(j);
    pthread_join(thread, &rc);
    assert_int_equal(*(int *)rc, -1);
    cost_free(j);
}

static void a_trial_trains_the_whole_model(void **state)
{
    struct spec s = varied();
    struct cost_measured m;
    struct err err = ERR_INIT;
    struct cost_trial *t;

    (void)state;
    s.train.global_batch_size = 2 * s.train.micro_batch_size;
    t = cost_trial_new(&s, "cpu", &err);
    assert_non_null(t);
    for (int i = 0; i < 3; i++)
        assert_int_equal(cost_trial_step(t, &err), 0);
    cost_trial_result(t, &m);
    assert_int_equal(m.passes, 3);
    assert_near(m.tokens_per_s * m.seconds_per_step, spec_tokens_per_step(&s), 1e-6);
    cost_trial_free(t);
    assert_null(cost_trial_new(&s, "abacus", &err));
}

static void json_has_what_the_text_has(void **state)
{
    struct spec s = varied();
    struct cost c;
    json_t *j;

    (void)state;
    predict(&s, &c);
    j = cost_to_json(&c);
    assert_near(json_number_value(json_object_get(j, "tokens_per_s")), c.tokens_per_s, 1e-9);
    assert_int_equal(json_array_size(json_object_get(j, "layer_s")), 6);
    assert_true(json_is_null(json_object_get(j, "seconds_per_eval")));
    assert_near(json_number_value(json_object_get(json_object_get(j, "memory"), "bytes")),
                (double)c.memory_bytes, 0);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(j, "calibration"), "layers")),
        c.slice_layers);
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_positive_and_add_up),
        cmocka_unit_test(wider_layers_cost_at_least_as_much),
        cmocka_unit_test(repetitions_and_passes_multiply),
        cmocka_unit_test(length_and_evaluations_make_the_total),
        cmocka_unit_test(accumulation_adds_micro_batches),
        cmocka_unit_test(gates_and_recomputation_are_calibrated),
        cmocka_unit_test(a_slice_of_a_large_model_is_enough),
        cmocka_unit_test(what_does_not_fit_is_said_and_not_built),
        cmocka_unit_test(a_backend_that_is_not_there_is_said),
        cmocka_unit_test(another_thread_watches_and_cancels),
        cmocka_unit_test(a_trial_trains_the_whole_model),
        cmocka_unit_test(json_has_what_the_text_has),
    };

    return cmocka_run_group_tests_name("cost", tests, training_write_data, NULL);
}
