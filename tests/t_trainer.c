// The engine thread on a tiny byte model: learning, stopping and going on with the same bits,
// commands, and every way a run is refused or fails.
#include "tests/t.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/ckpt.h"
#include "engine/eval.h"
#include "engine/file.h"
#include "engine/rng.h"
#include "engine/safetensors.h"
#include "engine/trainer.h"
#include "tests/tiny.h"
#include "tests/training.h"

// ---- tests --------------------------------------------------------------------------------------

static void training_lowers_the_loss(void **state)
{
    struct spec s = training_spec();
    struct training r;
    int64_t tokens = 100 * 8 * 32;

    (void)state;
    s.train.max_steps = 100;
    training_start(&r, "learn", &s);
    training_end(&r);
    assert_int_equal(r.st.state, RUN_DONE);
    assert_int_equal(r.st.step, 100);
    assert_int_equal(r.st.tokens, tokens);
    assert_int_equal(r.st.checkpoint_step, 100);
    assert_near(training_metric(&r, 0, "val/loss"), log(257), 0.3); // knows nothing yet
    assert_true(training_metric(&r, 100, "val/loss") < 2);
    assert_true(training_metric(&r, 100, "train/loss") < 2);
    assert_true(training_metric(&r, 40, "val/loss") < training_metric(&r, 20, "val/loss"));
    assert_near(training_metric(&r, 100, "val/ppl"), exp(training_metric(&r, 100, "val/loss")),
                1e-12);
    assert_near(training_metric(&r, 100, "lr"), s.optim.min_lr, 1e-12);
    assert_true(training_metric(&r, 100, "grad_norm") > 0 &&
                training_metric(&r, 100, "tokens_per_s") > 0);
    assert_true(training_metric(&r, 100, "mfu") > 0 && training_metric(&r, 100, "mfu") < 1.5);
    assert_near(training_metric(&r, 50, "flops") * 2, training_metric(&r, 100, "flops"), 1e-12);
    assert_near(r.st.val_loss, training_metric(&r, 100, "val/loss"), 0);
    assert_near(r.st.best_val_loss, r.st.val_loss, 0.05);
    assert_true(isnan(training_metric(&r, 10, "val/loss")));
    assert_non_null(training_event(&r, "start"));
    assert_non_null(training_event(&r, "done"));
    training_release(&r);
}

static void read_tensors(struct safetensors *f, const struct training *r, const char *file)
{
    struct err err = ERR_INIT;
    char dir[400], path[500];

    assert_int_equal(ckpt_latest(r->dir, dir, sizeof dir, NULL, 0), 30);
    snprintf(path, sizeof path, "%s/%s", dir, file);
    assert_int_equal(safetensors_open(f, path, &err), 0);
}

static void assert_same_file(const struct training *a, const struct training *b, const char *file)
{
    struct safetensors x, y;

    read_tensors(&x, a, file);
    read_tensors(&y, b, file);
    assert_int_equal(x.n, y.n);
    for (int i = 0; i < x.n; i++) {
        assert_string_equal(x.t[i].name, y.t[i].name);
        assert_memory_equal(x.t[i].data, y.t[i].data, (size_t)x.t[i].size * sizeof(float));
    }
    safetensors_close(&x);
    safetensors_close(&y);
}

static void check_resume(struct spec s, const char *whole, const char *parts)
{
    struct training a, b;

    s.train.max_steps = 30;
    s.log.interval = 4; // a stop falls between two records
    training_start(&a, whole, &s);
    training_end(&a);
    training_start(&b, parts, &s);
    t_wait(training_status(&b)->step >= 6, 60);
    trainer_send(b.t, TRAINER_STOP);
    training_end(&b);
    assert_int_equal(b.st.state, RUN_STOPPED);
    assert_true(b.st.step >= 6 && b.st.step < 30);
    assert_int_equal(b.st.checkpoint_step, b.st.step);
    training_release(&b);
    training_start(&b, parts, &s);
    training_end(&b);
    assert_int_equal(b.st.state, RUN_DONE);
    assert_non_null(training_event(&b, "resume"));
    assert_same_file(&a, &b, "model.safetensors");
    assert_same_file(&a, &b, "train_state.safetensors");
    for (int step = 4; step <= 28; step += 4) {
        assert_true(training_metric(&a, step, "train/loss") ==
                    training_metric(&b, step, "train/loss"));
        assert_true(training_metric(&a, step, "grad_norm") ==
                    training_metric(&b, step, "grad_norm"));
    }
    assert_true(training_metric(&a, 30, "val/loss") == training_metric(&b, 30, "val/loss"));
    training_release(&a);
    training_release(&b);
}

static void resumed_run_has_the_same_bits(void **state)
{
    struct spec s = training_spec();

    (void)state;
    check_resume(s, "whole", "parts");
    // a layer without an FFN, and one without attention
    s.model.lane[LANE_FFN][0] = s.model.lane[LANE_HEADS][1] = s.model.lane[LANE_KV][1] = 0;
    check_resume(s, "whole_absent", "parts_absent");
}

// Goes on where `name` stopped, with train data at `file`; the final state.
static enum run_state resumed_with(const char *name, struct spec *s, const char *file, char *reason,
                                   size_t size)
{
    struct training r;
    enum run_state got;

    snprintf(s->data.train, sizeof s->data.train, "%s", t_path(file));
    training_start(&r, name, s);
    training_end(&r);
    got = r.st.state;
    snprintf(reason, size, "%s", r.st.reason);
    training_release(&r);
    return got;
}

static void resume_with_other_data_is_refused(void **state)
{
    struct spec s = training_spec();
    char reason[512], copy[512];
    struct training r;

    (void)state;
    s.train.max_steps = 200;
    s.eval.interval = 1000;
    training_start(&r, "data", &s);
    t_wait(training_status(&r)->step >= 2, 60);
    trainer_send(r.t, TRAINER_STOP);
    training_end(&r);
    training_release(&r);
    training_write_shard(t_path("other.bin"), 3, 400);
    assert_int_equal(resumed_with("data", &s, "other.bin", reason, sizeof reason), RUN_FAILED);
    training_assert_contains(reason, "does not hold the tokens this run began with");
    snprintf(copy, sizeof copy, "%s", t_path("moved.bin")); // the same tokens elsewhere are fine
    training_write_shard(copy, 1, 400);
    assert_int_equal(resumed_with("data", &s, "moved.bin", reason, sizeof reason), RUN_DONE);
}

static void paused_run_waits_and_can_be_saved(void **state)
{
    struct spec s = training_spec();
    struct training r;
    char dir[400];
    int64_t at;

    (void)state;
    training_start(&r, "pause", &s);
    t_wait(training_status(&r)->step >= 3, 60);
    trainer_send(r.t, TRAINER_PAUSE);
    t_wait(training_status(&r)->state == RUN_PAUSED, 10);
    at = training_status(&r)->step;
    trainer_send(r.t, TRAINER_CHECKPOINT);
    t_wait(training_status(&r)->checkpoint_step == at, 10);
    t_wait(training_status(&r)->state == RUN_PAUSED, 10);
    assert_int_equal(training_status(&r)->step, at);
    assert_int_equal(ckpt_latest(r.dir, dir, sizeof dir, NULL, 0), at);
    trainer_send(r.t, TRAINER_RESUME);
    training_end(&r);
    assert_int_equal(r.st.state, RUN_DONE);
    assert_int_equal(r.st.step, 60);
    assert_non_null(training_event(&r, "pause"));
    training_release(&r);
}

static void diverging_run_fails_and_names_the_tensor(void **state)
{
    struct spec s = training_spec();
    struct training r;
    char dir[400];
    int64_t good;

    (void)state;
    training_start(&r, "nan", &s);
    t_wait(training_status(&r)->step >= 5, 60);
    trainer_send(r.t, TRAINER_STOP);
    training_end(&r);
    good = r.st.step;
    training_release(&r);
    s.optim.lr = s.optim.min_lr = 1e30;
    s.eval.interval = s.save.interval = 1000;
    training_start(&r, "nan", &s);
    training_end(&r);
    assert_int_equal(r.st.state, RUN_FAILED);
    snprintf(dir, sizeof dir, "at step %d", (int)good + 2); // the first update is still finite
    training_assert_contains(r.st.reason, dir);
    training_assert_contains(r.st.reason, " is nan at step");
    training_assert_contains(r.st.reason,
                             "first bad tensor: grad of model.layers.1."); // norms tame weights
    snprintf(dir, sizeof dir, "last good checkpoint: step %d", (int)good);
    training_assert_contains(r.st.reason, dir);
    training_assert_contains(training_event(&r, "failed"), "first bad tensor");
    assert_int_equal(r.st.step, good + 1);
    assert_int_equal(ckpt_latest(r.dir, dir, sizeof dir, NULL, 0), good);
    training_release(&r);
}

static void weights_that_overflow_are_not_saved(void **state)
{
    struct spec s = training_spec();
    struct training r;
    char dir[400];

    (void)state;
    s.optim.lr = s.optim.min_lr = 1e30;
    s.data.val[0] = 0; // no evaluation
    s.save.interval = 1;
    training_start(&r, "overflow", &s);
    training_end(&r);
    assert_int_equal(r.st.state, RUN_FAILED);
    training_assert_contains(r.st.reason, "norm of the weights");
    training_assert_contains(r.st.reason, "there is no checkpoint");
    assert_int_equal(ckpt_latest(r.dir, dir, sizeof dir, NULL, 0), -1);
    training_release(&r);
}

static void refused(const char *name, const struct spec *s, const char *part)
{
    struct training r;

    training_start(&r, name, s);
    training_end(&r);
    assert_int_equal(r.st.state, RUN_FAILED);
    assert_string_equal(r.st.phase, "refused");
    training_assert_contains(r.st.reason, part);
    assert_int_equal(r.st.step, 0);
    training_release(&r);
}

static void bad_data_is_refused(void **state)
{
    struct spec s = training_spec();
    FILE *f = fopen(t_path("wide.bin"), "wb");

    (void)state;
    assert_non_null(f);
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t id = (uint32_t)(rng_u64(9, i) % 250);

        assert_int_equal(fwrite(&id, sizeof id, 1, f), 1);
    }
    assert_int_equal(fclose(f), 0);
    snprintf(s.data.train, sizeof s.data.train, "%s/wide.bin", t_dir());
    s.data.dtype = TOKENS_U16;
    refused("wide", &s, "32-bit");
    s = training_spec();
    s.model.vocab = 100;
    refused("vocab", &s, "vocab");
    s = training_spec();
    snprintf(s.data.train, sizeof s.data.train, "%s/none.bin", t_dir());
    refused("missing", &s, "none.bin");
}

static void too_large_model_is_refused(void **state)
{
    struct spec s = training_spec();

    (void)state;
    s.train.micro_batch_size = 1 << 24;
    s.train.global_batch_size = 1 << 24;
    refused("memory", &s, "lower train.micro_batch_size (now 16777216)");
}

static void failed_checkpoint_holds_the_run(void **state)
{
    struct spec s = training_spec();
    struct training r;
    char path[300];

    (void)state;
    s.save.interval = 10;
    snprintf(path, sizeof path, "%s/full", t_dir());
    assert_int_equal(file_mkdirs(path, 0700, NULL), 0);
    snprintf(path, sizeof path, "%s/full/ckpt", t_dir());
    t_write(path, "in the way");
    training_start(&r, "full", &s);
    t_wait(training_status(&r)->state == RUN_PAUSED, 60);
    assert_int_equal(r.st.step, 10);
    assert_true(r.st.reason[0]);
    trainer_send(r.t, TRAINER_RESUME); // still in the way
    t_wait(training_status(&r)->state == RUN_PAUSED, 10);
    assert_int_equal(unlink(path), 0);
    trainer_send(r.t, TRAINER_RESUME);
    training_end(&r);
    assert_int_equal(r.st.state, RUN_DONE);
    assert_non_null(training_event(&r, "hold"));
    training_release(&r);
}

static void stop_gives_up_a_checkpoint_that_cannot_be_written(void **state)
{
    struct spec s = training_spec();
    struct training r;
    char path[300];

    (void)state;
    s.save.interval = 10;
    snprintf(path, sizeof path, "%s/stuck", t_dir());
    assert_int_equal(file_mkdirs(path, 0700, NULL), 0);
    snprintf(path, sizeof path, "%s/stuck/ckpt", t_dir());
    t_write(path, "in the way");
    training_start(&r, "stuck", &s);
    t_wait(training_status(&r)->state == RUN_PAUSED, 60);
    trainer_send(r.t, TRAINER_STOP);
    training_end(&r);
    assert_int_equal(r.st.state, RUN_FAILED);
    training_assert_contains(r.st.reason, "stopped without a checkpoint of step 10");
    training_release(&r);
}

static bool stop_after_three(void *user)
{
    return ++*(int *)user > 3;
}

static void evaluation_covers_the_whole_set_once(void **state)
{
    struct spec s = training_spec();
    struct backend *be = tiny_backend("cpu", 1);
    struct eval_result a, b;
    struct err err = ERR_INIT;
    struct shard shard;
    struct loader l;
    struct model *m;
    int64_t bytes = 0;
    int polls = 0;

    (void)state;
    assert_int_equal(shard_open(&shard, s.data.val, TOKENS_AUTO, &err), 0);
    assert_int_equal(loader_init(&l, &shard, s.train.seq_len, 1, &err), 0);
    m = model_new(be, &s, &err);
    model_init_weights(m, 1);
    assert_int_equal(eval_run(m, &l, 0, &a, &err), 0);
    assert_int_equal(a.tokens, shard.n - 1);
    for (int64_t i = 1; i < shard.n; i++)
        bytes += shard_token(&shard, i) < 256;
    assert_near(a.bpb, a.loss * (double)a.tokens / log(2) / (double)bytes, 1e-12);
    assert_near(a.ppl, exp(a.loss), 1e-12);
    assert_int_equal(eval_run(m, &l, 100, &b, &err), 0);
    assert_int_equal(b.tokens, 100);
    model_set_poll(m, stop_after_three, &polls);
    assert_int_equal(eval_run(m, &l, 0, &b, &err), 1);
    assert_int_equal(polls, 4); // not asked again
    model_free(m);
    s.train.micro_batch_size = 3; // windows fall into other batches
    m = model_new(be, &s, &err);
    model_init_weights(m, 1);
    assert_int_equal(eval_run(m, &l, 0, &b, &err), 0);
    assert_int_equal(b.tokens, a.tokens);
    assert_near(b.loss, a.loss, 1e-6);
    model_free(m);
    shard_close(&shard);
    backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluation_covers_the_whole_set_once),
        cmocka_unit_test(training_lowers_the_loss),
        cmocka_unit_test(resumed_run_has_the_same_bits),
        cmocka_unit_test(resume_with_other_data_is_refused),
        cmocka_unit_test(paused_run_waits_and_can_be_saved),
        cmocka_unit_test(diverging_run_fails_and_names_the_tensor),
        cmocka_unit_test(weights_that_overflow_are_not_saved),
        cmocka_unit_test(bad_data_is_refused),
        cmocka_unit_test(too_large_model_is_refused),
        cmocka_unit_test(failed_checkpoint_holds_the_run),
        cmocka_unit_test(stop_gives_up_a_checkpoint_that_cannot_be_written),
    };

    return cmocka_run_group_tests(tests, training_write_data, NULL);
}
