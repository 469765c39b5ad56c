// Sparsity control in a run: what is logged, that each step's update follows from what is logged,
// that a resumed run has the same bits, and what evaluation measures.
#include "tests/t.h"

#include <math.h>

#include "engine/ckpt.h"
#include "engine/count_active.h"
#include "engine/file.h"
#include "engine/safetensors.h"
#include "tests/training.h"

enum { L = 4 };

static struct spec gated_spec(enum gate_controller controller)
{
    struct spec s = training_spec();

    s.model.n_layers = L;
    for (int i = 0; i < L; i++) {
        s.model.lane[LANE_FFN][i] = 48;
        s.model.lane[LANE_HEADS][i] = 4;
        s.model.lane[LANE_KV][i] = 2;
        s.model.lane[LANE_REUSE][i] = 1;
    }
    s.model.norm_place = PLACE_SANDWICH;
    s.model.input_norm = true;
    s.gate = (struct gate_spec){.enabled = true,
                                .eps = 1e-6,
                                .controller = controller,
                                .gamma = 0.5,
                                .delta = 0.05,
                                .mu_start = 0.9,
                                .mu_end = 0.5};
    s.log.interval = 1;
    return s;
}

enum kind { TRAIN, EVAL };

static double element(const struct training *r, enum kind kind, int64_t step, const char *name,
                      int i)
{
    const json_t *line = training_record(r, step, kind == TRAIN ? "train/loss" : "val/loss");
    const json_t *a = json_object_get(line, name);
    const json_t *v = json_array_get(a, (size_t)i);

    if (json_array_size(a) != L || !json_is_number(v))
        fail_msg("step %lld: '%s' is no array of %d numbers", (long long)step, name, L);
    return json_number_value(v);
}

static void assert_mirrored(const struct training *r, enum kind kind, int64_t step,
                            const char *name)
{
    for (int i = 0; i < L / 2; i++)
        assert_true(element(r, kind, step, name, i) == element(r, kind, step, name, L - 1 - i));
}

// The proportional rule from the log alone.
static double after(double before, double deviation)
{
    return before + (fabs(deviation) > 0.05 ? 0.5 * deviation : 0);
}

static int assert_step_follows(const struct training *r, int64_t n)
{
    static const double mu[] = {0.9, 0.5, 0.5, 0.9}, sigma[] = {0.09, 0.25, 0.25, 0.09};
    int moved = 0;

    for (int i = 0; i < L; i++) {
        double alpha = n > 1 ? element(r, TRAIN, n - 1, "reg/alpha", i) : 0;
        double beta = n > 1 ? element(r, TRAIN, n - 1, "reg/beta", i) : 0;
        double mean = element(r, TRAIN, n, "gate/mean", i),
               var = element(r, TRAIN, n, "gate/var", i);

        assert_true(mean >= 0 && mean <= 1 && var >= 0 && var <= 0.25);
        assert_near(element(r, TRAIN, n, "reg/alpha", i), after(alpha, mean - mu[i]), 1e-12);
        assert_near(element(r, TRAIN, n, "reg/beta", i), after(beta, var - sigma[i]), 1e-12);
        moved += element(r, TRAIN, n, "reg/alpha", i) != alpha;
    }
    return moved;
}

static double active_of_step(const struct spec *s, const struct training *r, int64_t n)
{
    double sparsity[L];

    for (int i = 0; i < L; i++)
        sparsity[i] = element(r, TRAIN, n, "gate/sparsity", i);
    return (double)spec_tokens_per_step(s) * count_active_train_flops(s, sparsity);
}

static void each_step_of_control_follows_from_the_log(void **state)
{
    static const char *const names[] = {"gate/mean", "gate/var", "gate/sparsity", "reg/alpha",
                                        "reg/beta"};
    struct spec s = gated_spec(CTRL_PROPORTIONAL);
    double flops = 0;
    struct training r;
    int moved = 0;

    (void)state;
    s.train.max_steps = 40;
    training_start(&r, "control", &s);
    training_end(&r);
    assert_int_equal(r.st.state, RUN_DONE);
    for (int n = 1; n <= 40; n++) {
        for (int k = 0; k < 5; k++)
            assert_mirrored(&r, TRAIN, n, names[k]);
        moved += assert_step_follows(&r, n);
        flops += active_of_step(&s, &r, n);
        assert_near(training_metric(&r, n, "flops_active") / flops, 1, 1e-12);
    }
    assert_true(moved > 40);
    assert_near(training_metric(&r, 1, "reg/loss"), 0, 0); // the coefficients began at 0
    assert_true(fabs(training_metric(&r, 2, "reg/loss")) > 1e-4);
    assert_near(training_metric(&r, 1, "train/loss"), log(257), 0.3);
    assert_true(training_metric(&r, 40, "val/loss") < 4);
    training_release(&r);
}

static void evaluations_tell_what_the_layers_do(void **state)
{
    static const char *const names[] = {"gate/mean", "gate/var", "gate/sparsity", "gate/closed",
                                        "gate/over"};
    struct spec s = gated_spec(CTRL_SIGN);
    struct training r;

    (void)state;
    s.train.max_steps = 20;
    s.eval.interval = 10;
    s.log.interval = 100; // the records with arrays are evaluations
    training_start(&r, "evals", &s);
    training_end(&r);
    for (int n = 0; n <= 10; n += 10) {
        double sparsity = 0;

        for (int k = 0; k < 5; k++)
            assert_mirrored(&r, EVAL, n, names[k]);
        for (int i = 0; i < L; i++) {
            sparsity += element(&r, EVAL, n, "gate/sparsity", i) / L;
            assert_true(
                element(&r, EVAL, n, "gate/closed", i) + element(&r, EVAL, n, "gate/over", i) > 0);
            assert_true(element(&r, EVAL, n, "resid/norm", i) > 0);
        }
        assert_near(training_metric(&r, n, "val/sparsity"), sparsity, 1e-15);
        assert_true(training_metric(&r, n, "flops_active") >= 0);
        assert_null(training_record(&r, n, "reg/alpha"));
    }
    training_release(&r);
}

static void runs_without_gates_log_norms_only(void **state)
{
    struct spec s = gated_spec(CTRL_PROPORTIONAL);
    struct training r;

    (void)state;
    s.gate.enabled = false;
    s.train.max_steps = 2;
    training_start(&r, "dense", &s);
    training_end(&r);
    for (int i = 0; i < L; i++)
        assert_true(element(&r, EVAL, 2, "resid/norm", i) > 0);
    assert_null(training_record(&r, 2, "gate/mean"));
    assert_null(training_record(&r, 2, "reg/alpha"));
    assert_null(training_record(&r, 2, "reg/loss"));
    assert_null(training_record(&r, 2, "flops_active"));
    training_release(&r);
}

// Constant coefficients: the regulariser is linear in what is logged, and no part of the loss.
static void regulariser_is_logged_beside_the_loss(void **state)
{
    struct spec s = gated_spec(CTRL_FIXED_MEAN);
    struct training r;
    double mean = 0;

    (void)state;
    s.train.max_steps = 8;
    s.train.global_batch_size = 12; // three micro-batches
    for (int i = 0; i < L; i++)
        s.gate.alpha[i] = 50;
    training_start(&r, "fixed", &s);
    training_end(&r);
    for (int n = 1; n <= 8; n++) {
        mean = 0;
        for (int i = 0; i < L; i++) {
            mean += element(&r, TRAIN, n, "gate/mean", i) / L;
            assert_true(element(&r, TRAIN, n, "reg/alpha", i) == 50);
            assert_true(element(&r, TRAIN, n, "reg/beta", i) == 0);
        }
        assert_near(training_metric(&r, n, "reg/loss"), 50 * mean, 1e-12);
    }
    assert_true(training_metric(&r, 1, "reg/loss") > 10);
    assert_near(training_metric(&r, 1, "train/loss"), log(257), 0.3);
    training_release(&r);
}

// Alpha at one sign for a while closes or opens the gates.
static double mean_gate_after_training(const char *name, double alpha)
{
    struct spec s = gated_spec(CTRL_FIXED_MEAN);
    struct training r;
    double mean = 0;

    s.train.max_steps = 60;
    for (int i = 0; i < L; i++)
        s.gate.alpha[i] = alpha;
    training_start(&r, name, &s);
    training_end(&r);
    for (int i = 0; i < L; i++)
        mean += element(&r, TRAIN, 60, "gate/mean", i) / L;
    training_release(&r);
    return mean;
}

static void alpha_pushes_gates_down_or_up(void **state)
{
    double closed = mean_gate_after_training("down", 20),
           open = mean_gate_after_training("up", -20);

    (void)state;
    if (closed > 0.3 || open < 0.9)
        fail_msg("mean gates %g and %g", closed, open);
}

// ---- going on -----------------------------------------------------------------------------------

static void open_state(struct safetensors *f, const struct training *r, const char *file)
{
    struct err err = ERR_INIT;
    char dir[400], path[500];

    assert_int_equal(ckpt_latest(r->dir, dir, sizeof dir, NULL, 0), 30);
    snprintf(path, sizeof path, "%s/%s", dir, file);
    assert_int_equal(safetensors_open(f, path, &err), 0);
}

static void assert_same_tensors(const struct training *a, const struct training *b,
                                const char *file)
{
    struct safetensors x, y;

    open_state(&x, a, file);
    open_state(&y, b, file);
    assert_int_equal(x.n, y.n);
    for (int i = 0; i < x.n; i++)
        assert_memory_equal(x.t[i].data, y.t[i].data, (size_t)x.t[i].size * sizeof(float));
    safetensors_close(&x);
    safetensors_close(&y);
}

static void assert_same_control(const struct training *a, const struct training *b)
{
    static const char *const keys[] = {"reg.alpha",       "reg.beta",    "reg.mean_average",
                                       "reg.var_average", "reg.updates", "flops_active"};
    struct safetensors x, y;

    open_state(&x, a, "train_state.safetensors");
    open_state(&y, b, "train_state.safetensors");
    for (int k = 0; k < 6; k++)
        assert_string_equal(json_string_value(json_object_get(x.metadata, keys[k])),
                            json_string_value(json_object_get(y.metadata, keys[k])));
    assert_string_equal(json_string_value(json_object_get(x.metadata, "reg.updates")), "30");
    safetensors_close(&x);
    safetensors_close(&y);
}

static void assert_same_records(const struct training *a, const struct training *b)
{
    static const char *const names[] = {"gate/mean", "gate/var", "gate/sparsity", "reg/alpha",
                                        "reg/beta",  "reg/loss", "flops_active"};

    for (int n = 1; n <= 30; n++)
        for (int k = 0; k < 7; k++) {
            const json_t *x = json_object_get(training_record(a, n, "train/loss"), names[k]);
            const json_t *y = json_object_get(training_record(b, n, "train/loss"), names[k]);

            assert_non_null(x);
            assert_true(json_equal(x, y));
        }
}

// Stops at a step where no checkpoint was due, and then loses that checkpoint: what a killed process
// leaves are records of steps behind its newest checkpoint.
static void stop_and_lose_steps(struct training *r, const struct spec *s, const char *name)
{
    char path[400];

    training_start(r, name, s);
    t_wait(training_status(r)->step >= 14, 60);
    trainer_send(r->t, TRAINER_STOP);
    training_end(r);
    assert_int_equal(r->st.state, RUN_STOPPED);
    assert_true(r->st.step >= 14 && r->st.step < 30);
    snprintf(path, sizeof path, "%s/ckpt/%lld", r->dir, (long long)r->st.step);
    if (r->st.step % 7) // on a slow day it stopped where a checkpoint was due anyway
        assert_int_equal(file_remove_tree(path, NULL), 0);
    training_release(r);
}

static void resumed_control_has_the_same_bits(void **state)
{
    struct spec s = gated_spec(CTRL_PD);
    struct training a, b;

    (void)state;
    s.train.max_steps = 30;
    s.save.interval = 7;
    s.gate.delta = 0.001;
    training_start(&a, "pd", &s);
    training_end(&a);
    stop_and_lose_steps(&b, &s, "pd-parts");
    training_start(&b, "pd-parts", &s);
    training_end(&b);
    assert_int_equal(b.st.state, RUN_DONE);
    assert_non_null(training_event(&b, "resume"));
    assert_same_tensors(&a, &b, "model.safetensors");
    assert_same_tensors(&a, &b, "train_state.safetensors");
    assert_same_control(&a, &b);
    assert_same_records(&a, &b);
    assert_true(element(&a, TRAIN, 30, "reg/alpha", 0) != element(&a, TRAIN, 10, "reg/alpha", 0));
    training_release(&a);
    training_release(&b);
}

static void hard_gates_are_refused_before_anything_is_read(void **state)
{
    struct spec s = gated_spec(CTRL_PROPORTIONAL);
    struct err err = ERR_INIT;
    struct training r;

    (void)state;
    assert_int_equal(trainer_check(&s, &err), 0);
    s.gate.attn = GATE_ATTN_HARD;
    assert_int_equal(trainer_check(&s, &err), -1);
    snprintf(s.data.train, sizeof s.data.train, "%s/none.bin", t_dir());
    training_start(&r, "hard", &s);
    training_end(&r);
    assert_int_equal(r.st.state, RUN_FAILED);
    assert_string_equal(r.st.phase, "refused");
    assert_string_equal(r.st.reason, "gate.attn hard drops keys and has no gradient: train with "
                                     "key and evaluate with --set gate.attn=hard");
    training_release(&r);
    s.gate.enabled = false; // without gates the key says nothing
    assert_int_equal(trainer_check(&s, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_step_of_control_follows_from_the_log),
        cmocka_unit_test(evaluations_tell_what_the_layers_do),
        cmocka_unit_test(runs_without_gates_log_norms_only),
        cmocka_unit_test(regulariser_is_logged_beside_the_loss),
        cmocka_unit_test(alpha_pushes_gates_down_or_up),
        cmocka_unit_test(resumed_control_has_the_same_bits),
        cmocka_unit_test(hard_gates_are_refused_before_anything_is_read),
    };

    return cmocka_run_group_tests(tests, training_write_data, NULL);
}
