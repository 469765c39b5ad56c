// What may be changed in a run that trains: the schedule that follows from it, refusals, the file,
// and the same bits after any interruption.
#include "tests/t.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/changes.h"
#include "engine/ckpt.h"
#include "engine/file.h"
#include "engine/optim.h"
#include "engine/safetensors.h"
#include "tests/training.h"

// ---- the schedule -------------------------------------------------------------------------------

static const struct optim_spec plan = {
    .lr = 3e-3, .min_lr = 3e-4, .warmup_steps = 10, .schedule = SCHED_COSINE};
enum { END = 100 };

static void add(struct changes *c, enum change_key key, double value, int64_t at)
{
    changes_add(c, &(struct change){.key = key, .value = value, .end = (int64_t)value, .at = at,
                                    .who = "ada@lab3"});
}

static void without_changes_it_is_the_planned_schedule(void **state)
{
    struct optim_spec s = plan;
    struct changes none = {0};

    (void)state;
    for (int warmup = 0; warmup <= 120; warmup += 10)
        for (int n = 1; n <= 120; n++) {
            s.warmup_steps = warmup;
            assert_true(changes_lr(&none, &s, END, n) == optim_lr(&s, n, END));
        }
    assert_int_equal(changes_end(&none, END), END);
}

static void a_new_peak_scales_the_schedule_from_its_step_on(void **state)
{
    struct changes c = {0};

    (void)state;
    add(&c, CHANGE_LR, 6e-3, 50);
    add(&c, CHANGE_LR, 1e-3, 5); // asked later, for an earlier step: the one at 50 still comes
    for (int n = 1; n <= END; n++) {
        double factor = n < 5 ? 1 : n < 50 ? 1.0 / 3 : 2;

        assert_near(changes_lr(&c, &plan, END, n) / optim_lr(&plan, n, END), factor, 1e-12);
    }
    add(&c, CHANGE_LR, 3e-3, 50); // the same step again: the later one counts
    assert_near(changes_lr(&c, &plan, END, 60), optim_lr(&plan, 60, END), 1e-15);
    changes_release(&c);
}

static void a_new_end_is_reached_without_a_jump(void **state)
{
    struct changes c = {0};
    double before;

    (void)state;
    add(&c, CHANGE_MAX_STEPS, 200, 56);
    before = changes_lr(&c, &plan, END, 55);
    assert_true(before == optim_lr(&plan, 55, END));
    for (int n = 56; n <= 200; n++) {
        double lr = changes_lr(&c, &plan, END, n);

        assert_true(lr < before && before - lr < 5e-5);
        before = lr;
    }
    assert_near(before, plan.min_lr, 1e-15);
    assert_int_equal(changes_end(&c, END), 200);
    add(&c, CHANGE_MAX_STEPS, 120, 101); // and sooner again
    before = changes_lr(&c, &plan, END, 100);
    assert_true(changes_lr(&c, &plan, END, 101) < before);
    assert_near(changes_lr(&c, &plan, END, 120), plan.min_lr, 1e-15);
    assert_int_equal(changes_end(&c, END), 120);
    changes_release(&c);
}

static void a_new_end_during_the_warm_up_plans_the_decay_anew(void **state)
{
    struct changes c = {0};

    (void)state;
    add(&c, CHANGE_MAX_STEPS, 400, 3);
    for (int n = 1; n <= 400; n++)
        assert_true(changes_lr(&c, &plan, END, n) == optim_lr(&plan, n, 400));
    changes_release(&c);
    add(&c, CHANGE_MAX_STEPS, 300, 101); // when all of the decay is over, the least stays
    assert_near(changes_lr(&c, &plan, END, 250), plan.min_lr, 1e-15);
    changes_release(&c);
}

// ---- the file -----------------------------------------------------------------------------------

static void the_file_gives_back_every_bit(void **state)
{
    struct changes c = {0}, back = {0};
    struct err err = ERR_INIT;
    struct stat st;
    char text[160];

    (void)state;
    assert_int_equal(file_mkdirs(t_path("file"), 0700, NULL), 0);
    assert_int_equal(changes_read(t_path("file"), &back, &err), 1);
    add(&c, CHANGE_LR, 0.1 + 0.2, 7);
    add(&c, CHANGE_MAX_TOKENS, 9007199254740991, 9);
    c.v[0].old = 1.0 / 3;
    c.v[0].time = 1790000000.123456;
    assert_int_equal(changes_write(t_path("file"), &c, &err), 0);
    assert_int_equal(stat(t_path("file/changes.json"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(changes_read(t_path("file"), &back, &err), 0);
    assert_int_equal(back.n, 2);
    for (int i = 0; i < 2; i++) {
        assert_true(back.v[i].value == c.v[i].value && back.v[i].old == c.v[i].old);
        assert_true(back.v[i].at == c.v[i].at && back.v[i].time == c.v[i].time);
        assert_string_equal(back.v[i].who, "ada@lab3");
    }
    assert_string_equal(change_to_text(&c.v[0], text, sizeof text),
                        "lr 0.333333 -> 0.3 from step 7 on");
    changes_release(&c);
    changes_release(&back);
}

static void damaged_files_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "{\"v\":1}",
        "{\"v\":1,\"changes\":{}}",
        "{\"v\":1,\"changes\":[7]}",
        "{\"v\":1,\"changes\":[{\"key\":\"seed\",\"new\":1,\"at\":1}]}",
        "{\"v\":1,\"changes\":[{\"key\":\"lr\",\"new\":-1,\"at\":1}]}",
        "{\"v\":1,\"changes\":[{\"key\":\"lr\",\"new\":1,\"at\":0}]}",
        "{\"v\":1,\"changes\":[{\"key\":\"max_steps\",\"new\":5,\"at\":1}]}",
    };
    struct changes c = {0};

    (void)state;
    assert_int_equal(file_mkdirs(t_path("bad"), 0700, NULL), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = ERR_INIT;

        t_write(t_path("bad/changes.json"), bad[i]);
        if (changes_read(t_path("bad"), &c, &err) != -1)
            fail_msg("accepted: %s", bad[i]);
        training_assert_contains(err.text, "changes.json' is damaged");
    }
    changes_release(&c);
}

// ---- runs ---------------------------------------------------------------------------------------

static void ask(struct training *r, enum change_key key, double value, int64_t at)
{
    struct change c = {.key = key, .value = value, .at = at, .who = "ada@lab3"};
    struct err err = ERR_INIT;

    if (trainer_change(r->t, &c, &err) < 0)
        fail_msg("%s", err.text);
}

static void refused(struct training *r, enum change_key key, double value, int64_t at,
                    const char *part)
{
    struct change c = {.key = key, .value = value, .at = at, .who = "ada@lab3"};
    struct err err = ERR_INIT;

    assert_int_equal(trainer_change(r->t, &c, &err), -1);
    training_assert_contains(err.text, part);
}

// Runs until `step` is reached, then pauses: somewhere at or after it.
static int64_t pause_after(struct training *r, int64_t step)
{
    t_wait(training_status(r)->step >= step, 60);
    trainer_send(r->t, TRAINER_PAUSE);
    t_wait(training_status(r)->state == RUN_PAUSED, 10);
    return r->st.step;
}

// Paused before the first step, so that both runs of a comparison ask at the same one.
static void start_paused(struct training *r, const char *name, const struct spec *s)
{
    training_start(r, name, s);
    trainer_send(r->t, TRAINER_PAUSE);
    t_wait(training_status(r)->state == RUN_PAUSED, 60);
}

static void read_tensors(struct safetensors *f, const struct training *r, const char *file)
{
    char dir[400], path[500];

    assert_int_equal(ckpt_latest(r->dir, dir, sizeof dir, NULL, 0), r->st.step);
    snprintf(path, sizeof path, "%s/%s", dir, file);
    assert_int_equal(safetensors_open(f, path, NULL), 0);
}

static void same_tensors(const struct training *a, const struct training *b, const char *file)
{
    struct safetensors x, y;

    assert_int_equal(a->st.step, b->st.step);
    read_tensors(&x, a, file);
    read_tensors(&y, b, file);
    assert_int_equal(x.n, y.n);
    for (int i = 0; i < x.n; i++)
        assert_memory_equal(x.t[i].data, y.t[i].data, (size_t)x.t[i].size * sizeof(float));
    safetensors_close(&x);
    safetensors_close(&y);
}

static void same_records(const struct training *a, const struct training *b)
{
    static const char *const names[] = {"train/loss", "lr", "grad_norm", "val/loss"};

    for (int64_t step = 1; step <= a->st.step; step++)
        for (int i = 0; i < 4; i++) {
            double x = training_metric(a, step, names[i]), y = training_metric(b, step, names[i]);

            assert_true(x == y || (isnan(x) && isnan(y)));
        }
}

static void ask_for_all(struct training *r)
{
    ask(r, CHANGE_LR, 2e-3, 20);
    ask(r, CHANGE_LR, 5e-4, 35);
    ask(r, CHANGE_MAX_STEPS, 50, 0);
    trainer_send(r->t, TRAINER_RESUME);
}

static void a_changed_run_that_is_interrupted_has_the_same_bits(void **state)
{
    struct spec s = training_spec();
    struct training a, b;
    char path[400];

    (void)state;
    s.save.interval = 10;
    start_paused(&a, "whole", &s);
    ask_for_all(&a);
    training_end(&a);
    assert_int_equal(a.st.state, RUN_DONE);
    assert_int_equal(a.st.step, 50);
    assert_int_equal(a.st.total_steps, 50);
    training_assert_contains(training_event(&a, "set"), "asked by ada@lab3");
    training_assert_contains(training_event(&a, "change"), "-> 0.0005 from step 35 on");
    assert_true(training_metric(&a, 34, "lr") > 2 * training_metric(&a, 35, "lr"));
    start_paused(&b, "parts", &s);
    ask_for_all(&b);
    for (int64_t at = 8; at <= 40; at += 8) { // across every change
        pause_after(&b, at);
        trainer_send(b.t, TRAINER_STOP);
        training_end(&b);
        assert_int_equal(b.st.state, RUN_STOPPED);
        training_release(&b);
        if (at == 16) { // a directory that lost the file: the checkpoint knows
            snprintf(path, sizeof path, "%s/changes.json", b.dir);
            assert_int_equal(unlink(path), 0);
        }
        training_start(&b, "parts", &s);
    }
    training_end(&b);
    same_tensors(&a, &b, "model.safetensors");
    same_tensors(&a, &b, "train_state.safetensors");
    same_records(&a, &b);
    training_release(&a);
    training_release(&b);
}

static void what_makes_no_sense_is_refused(void **state)
{
    struct spec s = training_spec();
    struct training r;
    int64_t at;

    (void)state;
    training_start(&r, "refuse", &s);
    refused(&r, CHANGE_LR, 1e-3, 0, "still starting");
    at = pause_after(&r, 5);
    refused(&r, CHANGE_LR, 0, 0, "above 0");
    refused(&r, CHANGE_LR, NAN, 0, "above 0");
    refused(&r, CHANGE_LR, 1e9, 0, "at most 100");
    refused(&r, CHANGE_LR, 1e-3, at, "is over: the next to be decided is");
    refused(&r, CHANGE_LR, 1e-3, 61, "the run ends at step 60, before step 61");
    refused(&r, CHANGE_MAX_STEPS, (double)at - 1, 0, "is before step");
    refused(&r, CHANGE_MAX_STEPS, 0, 0, "whole number");
    refused(&r, CHANGE_MAX_STEPS, 50.5, 0, "whole number");
    refused(&r, CHANGE_MAX_STEPS, 1e300, 0, "whole number");
    refused(&r, CHANGE_MAX_STEPS, 50, 55, "'at' goes with lr only");
    refused(&r, CHANGE_MAX_TOKENS, 256, 0, "is before step");
    assert_false(file_exists(t_path("refuse/changes.json")));
    // a directory that cannot take the file: nothing is changed that is not on the disk
    assert_int_equal(mkdir(t_path("refuse/changes.json"), 0700), 0);
    refused(&r, CHANGE_MAX_STEPS, 50, 0, "changes.json");
    assert_int_equal(training_status(&r)->total_steps, 60);
    assert_int_equal(rmdir(t_path("refuse/changes.json")), 0);
    ask(&r, CHANGE_MAX_TOKENS, 256 * 40 - 3, 0); // rounded up to whole steps
    assert_int_equal(training_status(&r)->total_steps, 40);
    trainer_send(r.t, TRAINER_RESUME);
    t_wait(trainer_ended(r.t), 60);
    refused(&r, CHANGE_MAX_STEPS, 80, 0, "has reached its end");
    training_end(&r);
    assert_int_equal(r.st.step, 40);
    training_release(&r);
}

static void the_end_may_be_here_and_now(void **state)
{
    struct spec s = training_spec();
    struct training r;
    int64_t at;

    (void)state;
    s.log.interval = 7; // the steps since the last record are recorded too
    training_start(&r, "now", &s);
    at = pause_after(&r, 15) + 1; // one may be under way
    ask(&r, CHANGE_MAX_STEPS, (double)at, 0);
    trainer_send(r.t, TRAINER_RESUME);
    training_end(&r);
    assert_int_equal(r.st.state, RUN_DONE);
    assert_int_equal(r.st.step, at);
    assert_int_equal(r.st.checkpoint_step, at);
    assert_true(isfinite(training_metric(&r, at, "train/loss")));
    assert_true(isfinite(training_metric(&r, at, "val/loss")));
    training_release(&r);
}

static void a_damaged_or_older_file_is_not_trained_by(void **state)
{
    struct spec s = training_spec();
    struct training r;

    (void)state;
    start_paused(&r, "older", &s);
    ask(&r, CHANGE_MAX_STEPS, 50, 0);
    trainer_send(r.t, TRAINER_RESUME);
    pause_after(&r, 3);
    trainer_send(r.t, TRAINER_STOP);
    training_end(&r);
    training_release(&r);
    t_write(t_path("older/changes.json"), "{\"v\":1,");
    training_start(&r, "older", &s);
    training_end(&r);
    assert_int_equal(r.st.state, RUN_FAILED);
    training_assert_contains(r.st.reason, "changes.json' is damaged: put it back");
    training_release(&r);
    assert_int_equal(unlink(t_path("older/changes.json")), 0);
    training_start(&r, "older", &s);
    training_end(&r);
    assert_int_equal(r.st.state, RUN_DONE);
    assert_int_equal(r.st.step, 50);
    training_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_changes_it_is_the_planned_schedule),
        cmocka_unit_test(a_new_peak_scales_the_schedule_from_its_step_on),
        cmocka_unit_test(a_new_end_is_reached_without_a_jump),
        cmocka_unit_test(a_new_end_during_the_warm_up_plans_the_decay_anew),
        cmocka_unit_test(the_file_gives_back_every_bit),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(a_changed_run_that_is_interrupted_has_the_same_bits),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(the_end_may_be_here_and_now),
        cmocka_unit_test(a_damaged_or_older_file_is_not_trained_by),
    };

    return cmocka_run_group_tests(tests, training_write_data, NULL);
}
