// Per-layer arrays of a log: what is kept, what is survived, and the verdict on a run's control.
#include "tests/t.h"

#include <math.h>
#include <sys/stat.h>

#include "engine/follow.h"
#include "engine/verdict.h"

// {"step": step, "gate/mean": [..]} with values from a text, as the log holds it.
static json_t *line(const char *text)
{
    json_error_t e;
    json_t *j = json_loads(text, 0, &e);

    if (!j)
        fail_msg("%s: %s", text, e.text);
    return j;
}

static int add(struct layer_log *l, double step, const char *text)
{
    json_t *j = line(text);
    int bad = layer_log_add(l, step, j);

    json_decref(j);
    return bad;
}

static void each_array_keeps_its_values_in_their_layers(void **state)
{
    static const char *const names[LAYER_ARRAYS] = {"gate/mean",   "gate/var",  "gate/sparsity",
                                                    "gate/closed", "gate/over", "reg/alpha",
                                                    "reg/beta",    "resid/norm"};
    struct layer_log l = {0};

    (void)state;
    for (int row = 0; row < 3; row++) {
        json_t *j = json_object();

        for (int a = 0; a < LAYER_ARRAYS; a++)
            json_object_set_new(j, names[a],
                                json_pack("[f,f,f,f]", 100. * a + row, 100. * a + 10 + row,
                                          100. * a + 20 + row, 100. * a + 30 + row));
        assert_int_equal(layer_log_add(&l, row * 50, j), 0);
        json_decref(j);
    }
    assert_int_equal(l.layers, 4);
    assert_int_equal(l.n, 3);
    for (int a = 0; a < LAYER_ARRAYS; a++)
        for (int row = 0; row < 3; row++)
            for (int i = 0; i < 4; i++)
                assert_near(layer_log_value(&l, a, row, i), 100 * a + 10 * i + row, 0);
    assert_near(layer_log_mean(&l, LAYER_VAR, 2), 117, 0);
    assert_true(isnan(layer_log_value(&l, LAYER_VAR, 3, 0)));
    assert_true(isnan(layer_log_value(&l, LAYER_VAR, 0, 4)));
    layer_log_release(&l);
}

static void nulls_wrong_lengths_and_wrong_types_are_survived(void **state)
{
    struct layer_log l = {0};

    (void)state;
    assert_int_equal(add(&l, 1, "{\"train/loss\": 3}"), 0); // an old log
    assert_int_equal(l.n, 0);
    assert_int_equal(add(&l, 2, "{\"gate/mean\": null, \"gate/var\": []}"), 1);
    assert_int_equal(add(&l, 3, "{\"gate/mean\": 0.5, \"gate/var\": {\"a\": 1}}"), 2);
    assert_int_equal(l.layers, 0);
    assert_int_equal(add(&l, 4, "{\"gate/mean\": [0.1, null, \"x\"]}"), 0);
    assert_int_equal(l.layers, 3);
    assert_near(layer_log_value(&l, LAYER_MEAN, 0, 0), 0.1f, 0);
    assert_true(isnan(layer_log_value(&l, LAYER_MEAN, 0, 1)));
    assert_true(isnan(layer_log_value(&l, LAYER_MEAN, 0, 2)));
    assert_near(layer_log_mean(&l, LAYER_MEAN, 0), 0.1f, 0);
    assert_int_equal(add(&l, 5, "{\"gate/mean\": [1, 2], \"gate/var\": [1, 2, 3, 4]}"), 2);
    assert_int_equal(l.n, 1);
    // an array that comes late is unknown before, and one that stays away is unknown after
    assert_int_equal(add(&l, 6, "{\"reg/alpha\": [7, 8, 9]}"), 0);
    assert_int_equal(l.n, 2);
    assert_true(isnan(layer_log_value(&l, LAYER_ALPHA, 0, 1)));
    assert_near(layer_log_value(&l, LAYER_ALPHA, 1, 1), 8, 0);
    assert_true(isnan(layer_log_value(&l, LAYER_MEAN, 1, 0)));
    assert_true(isnan(layer_log_mean(&l, LAYER_MEAN, 1)));
    layer_log_release(&l);
}

static void an_array_of_more_layers_than_a_model_can_have_is_refused(void **state)
{
    struct layer_log l = {0};
    json_t *j = json_pack("{s:[]}", "gate/mean");

    (void)state;
    for (int i = 0; i <= SPEC_MAX_LAYERS; i++)
        json_array_append_new(json_object_get(j, "gate/mean"), json_real(i));
    assert_int_equal(layer_log_add(&l, 1, j), 1);
    assert_int_equal(l.layers, 0);
    json_array_remove(json_object_get(j, "gate/mean"), 0);
    assert_int_equal(layer_log_add(&l, 1, j), 0);
    assert_int_equal(l.layers, SPEC_MAX_LAYERS);
    layer_log_release(&l);
    json_decref(j);
}

// Rows lie evenly, the first and the newest record are always there, and every value is that of
// its own step.
static void check_thinned(const struct layer_log *l, int newest)
{
    double gap = l->n > 1 ? l->step[1] - l->step[0] : 1;

    assert_true(l->n <= LAYER_LOG_ROWS && l->cap <= LAYER_LOG_ROWS);
    assert_near(l->step[0], 0, 0);
    assert_near(l->step[l->n - 1], newest, 0);
    for (int i = 0; i < l->n; i++) {
        if (i < l->n - 1)
            assert_near(l->step[i], i * gap, 0);
        assert_near(layer_log_value(l, LAYER_MEAN, i, 0), l->step[i], 0);
        assert_near(layer_log_value(l, LAYER_MEAN, i, 1), -l->step[i], 0);
    }
}

static void many_records_are_thinned_out_evenly(void **state)
{
    struct layer_log l = {0};
    json_t *j = json_pack("{s:[f,f]}", "gate/mean", 0., 0.), *a = json_object_get(j, "gate/mean");
    int total = 100000;

    (void)state;
    for (int step = 0; step < total; step++) {
        json_array_set_new(a, 0, json_real(step));
        json_array_set_new(a, 1, json_real(-step));
        layer_log_add(&l, step, j);
        if (step < 5000 || step % 977 == 0)
            check_thinned(&l, step);
    }
    assert_int_equal(l.every, 64); // 100,000 / 2,048 rounded up to a power of two
    assert_true(l.n > LAYER_LOG_ROWS / 2);
    // a resume from far back
    json_array_set_new(a, 0, json_real(70001));
    json_array_set_new(a, 1, json_real(-70001));
    layer_log_add(&l, 70001, j);
    assert_near(l.step[l.n - 1], 70001, 0);
    assert_near(l.step[l.n - 2], 70001 / 64 * 64, 0);
    layer_log_release(&l);
    json_decref(j);
}

// ---- in a followed run --------------------------------------------------------------------------

static void write_log(const char *path, const char *const *lines, int n)
{
    struct runlog *log = runlog_open(path, NULL);

    assert_non_null(log);
    for (int i = 0; i < n; i++)
        runlog_add(log, line(lines[i]));
    assert_int_equal(runlog_close(log, NULL), 0);
}

static void follow_keeps_training_and_evaluation_apart(void **state)
{
    static const char *const lines[] = {
        "{\"step\":10,\"train/loss\":3,\"gate/mean\":[0.9,0.4,0.4,0.9],\"reg/alpha\":[1,2,2,1]}",
        "{\"step\":20,\"train/loss\":2.9,\"gate/mean\":[0.8,0.3,0.3,0.8],\"reg/alpha\":[3,4,4,3]}",
        ("{\"step\":20,\"val/loss\":2.8,\"gate/mean\":[0.7,0.2,0.2,0.7],\"val/sparsity\":0.41,"
         "\"reg/loss\":-0.25,\"resid/norm\":[1,2,3,4],\"gate/closed\":[0.5,0.6,0.6,0.5]}"),
        "{\"step\":30,\"event\":\"checkpoint\",\"gate/mean\":[1,1,1,1]}",
    };
    const char *dir = t_path("run");
    struct follow f;
    char path[600];

    (void)state;
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(path, sizeof path, "%s/metrics.jsonl.gz", dir);
    write_log(path, lines, 4);
    follow_init(&f, dir);
    follow_poll(&f);
    assert_int_equal(f.bad, 0);
    assert_int_equal(f.train_layers.n, 2);
    assert_int_equal(f.eval_layers.n, 1);
    assert_near(layer_log_value(&f.train_layers, LAYER_ALPHA, 1, 2), 4, 0);
    assert_near(layer_log_value(&f.eval_layers, LAYER_NORM, 0, 2), 3, 0);
    assert_near(layer_log_value(&f.eval_layers, LAYER_MEAN, 0, 1), 0.2f, 0);
    assert_near(f.eval.col[EVAL_SPARSITY][0], 0.41, 0);
    assert_near(f.eval.col[EVAL_REG][0], -0.25, 0);
    // a resume from 10 forgets what came after it there
    write_log(path, (const char *const[]){"{\"step\":15,\"train/loss\":1,\"gate/mean\":[1,1,1,1]}"},
              1);
    follow_poll(&f);
    assert_int_equal(f.train_layers.n, 2);
    assert_near(f.train_layers.step[1], 15, 0);
    // another log takes its place
    remove(path);
    write_log(path, (const char *const[]){"{\"step\":1,\"train/loss\":1,\"gate/mean\":[1,1]}"}, 1);
    follow_poll(&f);
    assert_int_equal(f.train_layers.layers, 2);
    assert_int_equal(f.eval_layers.n, 0);
    follow_release(&f);
}

// ---- verdict ------------------------------------------------------------------------------------

// Six layers: targets 1, 0.75, 0.5 | 0.5, 0.75, 1 and variances 0, 0.1875, 0.25.
static struct spec *gated(void)
{
    struct spec *s = calloc(1, sizeof *s);

    s->model.n_layers = 6;
    s->gate = (struct gate_spec){.enabled = true,
                                 .controller = CTRL_PROPORTIONAL,
                                 .delta = 0.01,
                                 .mu_start = 1,
                                 .mu_end = 0.5};
    return s;
}

// One evaluation, and the training record before it with alpha as given in all layers, beta 0.
static void evaluate(struct follow *f, double step, const double *mean, double var1, double alpha)
{
    json_t *j =
        json_pack("{s:[f,f,f,f,f,f], s:[f,f,f,f,f,f]}", "gate/mean", mean[0], mean[1], mean[2],
                  mean[2], mean[1], mean[0], "gate/var", 0.005, var1, 0.25, 0.25, var1, 0.005);
    json_t *t = json_pack("{s:[f,f,f,f,f,f], s:[i,i,i,i,i,i]}", "reg/alpha", alpha, alpha, alpha,
                          alpha, alpha, alpha, "reg/beta", 0, 0, 0, 0, 0, 0);

    assert_non_null(j);
    assert_non_null(t);
    layer_log_add(&f->train_layers, step - 1, t);
    layer_log_add(&f->eval_layers, step, j);
    json_decref(j);
    json_decref(t);
}

static const double on_target[] = {0.995, 0.745, 0.505};

static void expect(const struct spec *s, const struct follow *f, enum verdict_kind kind,
                   const char *text)
{
    struct verdict v;
    char out[200];

    verdict_of(s, f, &v);
    assert_int_equal(v.kind, kind);
    assert_string_equal(verdict_text(s, &v, out, sizeof out), text);
}

static void release(struct follow *f)
{
    layer_log_release(&f->eval_layers);
    layer_log_release(&f->train_layers);
}

static void control_has_converged_after_ten_evaluations_at_rest(void **state)
{
    struct follow f = {0};
    struct spec *s = gated();

    (void)state;
    s->gate.gamma = 1e-3; // drift up to 1000 * 1e-3 * 0.01 = 0.01 per 1,000 steps
    expect(s, &f, VERDICT_UNKNOWN, "not known yet");
    for (int i = 1; i <= 9; i++)
        evaluate(&f, 100 * i, on_target, 0.19, -0.5);
    expect(s, &f, VERDICT_TOO_FEW, "on target so far, 9 of 10 evaluations seen");
    evaluate(&f, 1000, on_target, 0.19, -0.5);
    expect(s, &f, VERDICT_CONVERGED, "converged");
    // 0.008 in 900 steps are 0.0089 per 1,000, 0.0095 are 0.0106
    evaluate(&f, 1100, on_target, 0.19, -0.508);
    expect(s, &f, VERDICT_CONVERGED, "converged");
    evaluate(&f, 1200, on_target, 0.19, -0.5095);
    expect(s, &f, VERDICT_OFF, "not converged: layer 0 coefficients still drift, and 2 more");
    release(&f);
    free(s);
}

static void what_is_off_is_named(void **state)
{
    static const double off[] = {0.9, 0.745, 0.62};
    struct follow f = {0};
    struct spec *s = gated();
    struct verdict v;

    (void)state;
    s->gate.gamma = 1e-3;
    evaluate(&f, 100, off, 0.19, 0);
    expect(s, &f, VERDICT_OFF, "not converged: layer 0 mean 0.100 below its target, and 1 more");
    verdict_of(s, &f, &v);
    assert_near(v.mu[1], 0.75, 1e-12);
    assert_near(v.sigma[1], 0.1875, 1e-12);
    assert_near(v.d[2], 0.12, 1e-6);
    assert_int_equal(v.why[0], GATE_MEAN_OFF);
    assert_int_equal(v.why[1], 0);
    assert_int_equal(v.seen, 1);
    evaluate(&f, 200, on_target, 0.3, 0); // variance 0.3 against 0.1875
    expect(s, &f, VERDICT_OFF, "not converged: layer 0 mean was off lately, and 2 more");
    verdict_of(s, &f, &v);
    assert_int_equal(v.why[1], GATE_VAR_OFF);
    assert_near(v.dv[1], 0.1125, 1e-6);
    for (int i = 3; i < 12; i++)
        evaluate(&f, 100 * i, on_target, 0.3, 0);
    expect(s, &f, VERDICT_OFF, "not converged: layer 1 variance 0.113 above its target");
    add(&f.eval_layers, 1200, "{\"gate/mean\": [null, 0.745, 0.505, 0.505, 0.745, null]}");
    expect(s, &f, VERDICT_OFF, "not converged: layer 0 mean unknown, and 2 more");
    release(&f);
    free(s);
}

static void controllers_without_targets_are_not_judged(void **state)
{
    static const double open[] = {1, 1, 1};
    struct follow f = {0};
    struct spec *s = gated();

    (void)state;
    evaluate(&f, 100, open, 0, 0);
    s->gate.controller = CTRL_NONE;
    expect(s, &f, VERDICT_NO_TARGETS, "none");
    s->gate.controller = CTRL_FIXED_MEAN_VAR;
    expect(s, &f, VERDICT_NO_TARGETS, "fixed coefficients, no targets");
    s->gate.controller = CTRL_FIXED_L2;
    expect(s, &f, VERDICT_OFF, "not converged: layer 1 mean 0.250 above its target, and 1 more");
    s->model.n_layers = 8; // the log is of another model
    expect(s, &f, VERDICT_UNKNOWN, "not known yet");
    s->gate.enabled = false;
    expect(s, &f, VERDICT_NO_TARGETS, "");
    release(&f);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_array_keeps_its_values_in_their_layers),
        cmocka_unit_test(nulls_wrong_lengths_and_wrong_types_are_survived),
        cmocka_unit_test(an_array_of_more_layers_than_a_model_can_have_is_refused),
        cmocka_unit_test(many_records_are_thinned_out_evenly),
        cmocka_unit_test(follow_keeps_training_and_evaluation_apart),
        cmocka_unit_test(control_has_converged_after_ten_evaluations_at_rest),
        cmocka_unit_test(what_is_off_is_named),
        cmocka_unit_test(controllers_without_targets_are_not_judged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
