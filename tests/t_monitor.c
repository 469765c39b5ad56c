// The Monitor screen drawn from run directories: every size, with and without UTF-8, and what its
// keys do.
#include "tests/t.h"

#include <math.h>
#include <sys/time.h>

#include "engine/control.h"
#include "engine/runlog.h"
#include "tests/fake_run.h"
#include "tests/screens.h"
#include "tui/app.h"
#include "tui/launch.h"
#include "tui/monitor.h"
#include "tui/monitor_state.h"
#include "tui/run_words.h"

static int teardown(void **state)
{
    struct app *app = *state;

    monitor_free(app->monitor);
    launch_free(app->launch);
    free(app);
    fake_run_unlock();
    runs_set_dir(NULL);
    return 0;
}

static void expect_at_all_sizes(struct app *app, const char *want)
{
    for (size_t i = 0; i < SCREEN_SIZES; i++) {
        screen_expect(&screen_monitor, app, screen_sizes[i].rows, screen_sizes[i].cols, true, want,
                      true);
        screen_expect(&screen_monitor, app, screen_sizes[i].rows, screen_sizes[i].cols, false, want,
                      true);
    }
}

// ---- what is shown ------------------------------------------------------------------------------

static void running_run_is_shown_at_every_size(void **state)
{
    struct app *app = *state;
    char dir[512], want[16];

    fake_run_make("crown-3", RUN_RUNNING, 433, dir);
    monitor_watch(app, dir);
    assert_string_equal(monitor_run_dir(app), dir);
    expect_at_all_sizes(app, "crown-3");
    expect_at_all_sizes(app, "RUNNING");
    expect_at_all_sizes(app, "39 %");
    expect_at_all_sizes(app, "ETA 2m46s");
    expect_at_all_sizes(app, "val ppl");
    snprintf(want, sizeof(want), "%.2f", exp(fake_run_loss(400) + 0.05));
    expect_at_all_sizes(app, want);
    for (size_t i = 1; i < SCREEN_SIZES; i++) {
        int rows = screen_sizes[i].rows, cols = screen_sizes[i].cols;

        screen_expect(&screen_monitor, app, rows, cols, true, "step 433 / 1,099", true);
        screen_expect(&screen_monitor, app, rows, cols, true, "over 262,144 tokens", true);
        screen_expect(&screen_monitor, app, rows, cols, true, "of the sgemm ceiling", true);
        screen_expect(&screen_monitor, app, rows, cols, true, "live", true);
        screen_expect(&screen_monitor, app, rows, cols, true, "step 400  checkpoint", true);
    }
}

static void ascii_screens_hold_ascii_only(void **state)
{
    struct app *app = *state;
    char dir[512];

    fake_run_make("a", RUN_RUNNING, 433, dir);
    monitor_watch(app, dir);
    for (size_t i = 0; i < SCREEN_SIZES; i++) {
        char *text =
            screen_text(&screen_monitor, app, screen_sizes[i].rows, screen_sizes[i].cols, false);

        for (const char *s = text; *s; s++)
            assert_in_range((unsigned char)*s, '\n', '~');
        free(text);
    }
}

static void large_screens_show_four_charts(void **state)
{
    struct app *app = *state;
    char dir[512];

    fake_run_make("a", RUN_DONE, 1099, dir);
    monitor_watch(app, dir);
    screen_expect(&screen_monitor, app, 56, 200, true, "perplexity", true);
    screen_expect(&screen_monitor, app, 56, 200, true, "loss  linear y", true);
    screen_expect(&screen_monitor, app, 56, 200, true, "gradient norm", true);
    screen_expect(&screen_monitor, app, 56, 200, true, "tokens/s  linear y", true);
    screen_expect(&screen_monitor, app, 20, 80, true, "gradient norm", false);
}

static void unknown_values_are_a_dash(void **state)
{
    struct app *app = *state;
    char dir[512];

    fake_run_make("a", RUN_STARTING, 0, dir);
    monitor_watch(app, dir);
    screen_expect(&screen_monitor, app, 20, 80, true, "val ppl           —", true);
    screen_expect(&screen_monitor, app, 20, 80, true, "grad norm         —", true);
    screen_expect(&screen_monitor, app, 20, 80, false, "grad norm         -", true);
    screen_expect(&screen_monitor, app, 20, 80, true, "no checkpoint yet", true);
    screen_expect(&screen_monitor, app, 20, 80, true, "waiting for the first step", true);
    screen_expect(&screen_monitor, app, 20, 80, true, "over", false);
    screen_expect(&screen_monitor, app, 20, 80, true, "nan", false);
    screen_expect(&screen_monitor, app, 7, 40, true, "val ppl —  — tok/s", true);
}

static void every_size_down_to_one_cell_draws(void **state)
{
    struct app *app = *state;
    char dir[512];

    fake_run_make("a", RUN_FAILED, 150, dir);
    monitor_watch(app, dir);
    for (int rows = 1; rows < 45; rows += rows < 8 ? 1 : 5)
        for (int cols = 1; cols < 170; cols += cols < 12 ? 1 : 13)
            free(screen_text(&screen_monitor, app, rows, cols, (rows + cols) % 2));
}

static void failure_is_told_in_full(void **state)
{
    struct app *app = *state;
    char dir[512];

    fake_run_make("a", RUN_FAILED, 433, dir);
    monitor_watch(app, dir);
    screen_expect(&screen_monitor, app, 20, 80, true, "FAILED", true);
    screen_expect(&screen_monitor, app, 20, 80, true, "loss is not a number at step 433", true);
    screen_expect(&screen_monitor, app, 20, 80, true, "checkpoint: step 400",
                  true); // on a second line
    screen_expect(&screen_monitor, app, 20, 80, true, "ETA", false);
}

static void silence_is_said_and_then_lost(void **state)
{
    struct app *app = *state;
    struct err err = ERR_INIT;
    struct run_status st;
    time_t old = (time_t)run_now() - 260;
    char dir[512], lock[600];

    fake_run_make("a", RUN_RUNNING, 300, dir);
    assert_int_equal(run_read_status(dir, &st, &err), 0);
    st.heartbeat_period = 100;
    st.heartbeat = (double)old;
    assert_int_equal(run_write_status(dir, &st, &err), 0);
    // the lock file's time counts as a sign of life too
    snprintf(lock, sizeof(lock), "%s/lock", dir);
    assert_int_equal(utimes(lock, (struct timeval[2]){{old, 0}, {old, 0}}), 0);
    monitor_watch(app, dir);
    screen_expect(&screen_monitor, app, 20, 80, true, "no news for 4m2",
                  true); // 260 s, or a little more
    screen_expect(&screen_monitor, app, 20, 80, true, "(expected every 100 s)", true);
    fake_run_unlock(); // its process is gone
    screen_monitor.tick(app);
    screen_expect(&screen_monitor, app, 20, 80, true, "LOST", true);
    screen_expect(&screen_monitor, app, 20, 80, true, "ended without a word", true);
    screen_expect(&screen_monitor, app, 7, 40, true, "LOST", true);
}

static void no_run_says_how_to_start_one(void **state)
{
    struct app *app = *state;

    screen_monitor.enter(app);
    expect_at_all_sizes(app, "lathe train");
    assert_false(screen_monitor.tick(app));
    assert_true(screen_monitor.command(app, CMD_STOP));
    assert_string_equal(app->message, "no run is watched");
}

static void enter_takes_the_newest_live_run(void **state)
{
    struct app *app = *state;
    char dir[512];

    fake_run_make("live-1", RUN_RUNNING, 100, dir);
    fake_run_make("done-1", RUN_DONE, 1099, dir);
    screen_monitor.enter(app);
    screen_expect(&screen_monitor, app, 20, 80, true, "live-1", true);
}

// ---- keys ---------------------------------------------------------------------------------------

static void metric_axis_and_scale_switch(void **state)
{
    struct app *app = *state;
    char dir[512];

    fake_run_make("a", RUN_DONE, 1099, dir);
    monitor_watch(app, dir);
    screen_expect(&screen_monitor, app, 26, 100, true, "perplexity  log y  x tokens", true);
    screen_monitor.command(app, CMD_LOG_Y);
    screen_expect(&screen_monitor, app, 26, 100, true, "perplexity  linear y  x tokens", true);
    screen_monitor.command(app, CMD_METRIC);
    screen_expect(&screen_monitor, app, 26, 100, true, "bits per byte  linear y  x tokens", true);
    screen_monitor.command(app, CMD_AXIS);
    screen_expect(&screen_monitor, app, 26, 100, true, "bits per byte  linear y  x steps", true);
    screen_expect(&screen_monitor, app, 26, 100, true, "1k", true);
    screen_monitor.command(app, CMD_AXIS);
    screen_monitor.command(app, CMD_METRIC);
    screen_expect(&screen_monitor, app, 26, 100, true, "loss  linear y  x time", true);
    screen_expect(&screen_monitor, app, 26, 100, true, "3m", true);
    screen_monitor.command(app, CMD_AXIS);
    screen_expect(&screen_monitor, app, 26, 100, true, "x train FLOPs", true);
    screen_expect(&screen_monitor, app, 26, 100, true, "10T", true); // of 1,099 steps x 1e10
}

static void zoom_fits_the_newest_part(void **state)
{
    struct app *app = *state;
    char dir[512];

    fake_run_make("a", RUN_DONE, 1099, dir);
    monitor_watch(app, dir);
    screen_expect(&screen_monitor, app, 26, 100, true, "100┤", true);
    screen_monitor.command(app, CMD_ZOOM);
    screen_expect(&screen_monitor, app, 26, 100, true, "fits last 1/2", true);
    screen_expect(&screen_monitor, app, 26, 100, true, "100┤",
                  false); // perplexity 200 of the beginning is out of sight
    screen_monitor.command(app, CMD_ZOOM);
    screen_monitor.command(app, CMD_ZOOM);
    screen_expect(&screen_monitor, app, 26, 100, true, "100┤", true);
}

static void frozen_picture_stands_still(void **state)
{
    struct app *app = *state;
    char dir[512], *before, *after;

    fake_run_make("a", RUN_RUNNING, 433, dir);
    monitor_watch(app, dir);
    screen_monitor.command(app, CMD_FREEZE);
    screen_expect(&screen_monitor, app, 20, 80, true, "FROZEN, 0 s behind", true);
    screen_expect(&screen_monitor, app, 7, 40, true, "FROZEN", true);
    before = screen_text(&screen_monitor, app, 20, 80, true);
    fake_run_grow(dir, RUN_RUNNING, 433, 500);
    screen_monitor.tick(app);
    screen_expect(&screen_monitor, app, 20, 80, true, "step 433", true);
    after = screen_text(&screen_monitor, app, 20, 80, true);
    // only the ages in the second line may differ
    assert_string_equal(strchr(strchr(before, '\n') + 1, '\n'),
                        strchr(strchr(after, '\n') + 1, '\n'));
    free(before);
    free(after);
    screen_monitor.command(app, CMD_FREEZE);
    assert_true(screen_monitor.tick(app));
    screen_expect(&screen_monitor, app, 20, 80, true, "step 500", true);
    screen_expect(&screen_monitor, app, 20, 80, true, "FROZEN", false);
}

static void brackets_walk_through_the_runs(void **state)
{
    struct app *app = *state;
    char dir[512];

    fake_run_make("old-1", RUN_DONE, 1099, dir);
    fake_run_make("mid-1", RUN_STOPPED, 300, dir);
    fake_run_make("new-1", RUN_DONE, 1099, dir);
    screen_monitor.enter(app);
    screen_expect(&screen_monitor, app, 20, 80, true, "new-1", true);
    screen_expect(&screen_monitor, app, 20, 80, true, "run 1 of 3", true);
    screen_monitor.command(app, CMD_PREV_RUN);
    screen_expect(&screen_monitor, app, 20, 80, true, "mid-1", true);
    screen_monitor.command(app, CMD_PREV_RUN);
    screen_expect(&screen_monitor, app, 20, 80, true, "old-1", true);
    screen_expect(&screen_monitor, app, 20, 80, true, "run 3 of 3", true);
    screen_monitor.command(app, CMD_PREV_RUN);
    assert_string_equal(app->message, "this is the oldest run");
    screen_monitor.command(app, CMD_NEXT_RUN);
    screen_expect(&screen_monitor, app, 20, 80, true, "mid-1", true);
}

static void log_tail_is_shown_and_scrolled(void **state)
{
    struct app *app = *state;
    char dir[512], path[600], text[4000] = "";

    fake_run_make("a", RUN_DONE, 100, dir);
    snprintf(path, sizeof(path), "%s/log.txt", dir);
    for (int i = 0; i < 100; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "line %03d\033[31m\n", i);
    t_write(path, text);
    monitor_watch(app, dir);
    screen_monitor.command(app, CMD_LOG);
    screen_expect(&screen_monitor, app, 20, 80, true, "line 099?[31m",
                  true); // no escape reaches the terminal
    screen_expect(&screen_monitor, app, 20, 80, true, "line 000", false);
    screen_monitor.command(app, CMD_FIRST);
    screen_expect(&screen_monitor, app, 20, 80, true, "line 000", true);
    screen_monitor.command(app, CMD_CANCEL);
    screen_expect(&screen_monitor, app, 20, 80, true, "line", false);
}

static void quiet_run_needs_no_redraw(void **state)
{
    struct app *app = *state;
    char dir[512];

    fake_run_make("a", RUN_DONE, 1099, dir);
    monitor_watch(app, dir);
    screen_monitor.tick(app);
    for (int i = 0; i < 3; i++)
        assert_false(screen_monitor.tick(app));
}

static void resumed_run_redraws_its_rewritten_part(void **state)
{
    struct app *app = *state;
    struct span s;
    char dir[512];

    fake_run_make("a", RUN_RUNNING, 433, dir);
    monitor_watch(app, dir);
    free(screen_text(&screen_monitor, app, 20, 80, true));
    fake_run_grow(dir, RUN_RUNNING, 400, 420);
    screen_monitor.tick(app);
    free(screen_text(&screen_monitor, app, 20, 80, true));
    s = pyramid_span(&app->monitor->train[TRAIN_LOSS], app->monitor->follow.train.col[TRAIN_LOSS],
                     0, app->monitor->follow.train.n);
    assert_int_equal(s.n, app->monitor->follow.train.n);
}

// ---- orders -------------------------------------------------------------------------------------

struct host {
    char got[32];
    bool refuse;
};

static json_t *answer(void *user, const char *cmd, const json_t *request)
{
    struct host *h = user;

    (void)request;
    snprintf(h->got, sizeof(h->got), "%s", cmd);
    if (h->refuse)
        return json_pack("{s:b s:s}", "ok", 0, "error", "the disk is full");
    return json_pack("{s:b s:s}", "ok", 1, "state", "paused");
}

static bool step(struct app *app, struct control_server *s)
{
    control_step(s);
    return screen_monitor.tick(app) && !app->monitor->action.busy;
}

static void orders_reach_the_host_and_refusals_are_told(void **state)
{
    struct app *app = *state;
    struct err err = ERR_INIT;
    struct host host = {.refuse = false};
    struct control_server *server;
    char dir[512];

    fake_run_make("a", RUN_RUNNING, 433, dir);
    server = control_listen(dir, answer, &host, &err);
    assert_non_null(server);
    monitor_watch(app, dir);
    screen_monitor.command(app, CMD_PAUSE);
    t_wait(step(app, server), 5);
    assert_string_equal(host.got, "pause");
    assert_string_equal(app->message, "a: pause taken, now paused");
    host.refuse = true;
    screen_monitor.command(app, CMD_CHECKPOINT);
    t_wait(step(app, server), 5);
    assert_string_equal(host.got, "checkpoint");
    assert_non_null(strstr(app->message, "the disk is full"));
    control_close(server);
}

static void the_speed_of_an_ended_run_is_its_mean(void **state)
{
    struct app *app = *state;
    char dir[512], mean[WORD_SIZE], want[2 * WORD_SIZE];

    fake_run_make("a", RUN_RUNNING, 433, dir);
    monitor_watch(app, dir);
    screen_expect(&screen_monitor, app, 20, 80, true, " mean", false);
    fake_run_unlock();
    fake_run_make("b", RUN_DONE, 1099, dir);
    monitor_watch(app, dir);
    word_count(mean, FAKE_TOKENS_PER_STEP / 0.25); // as fake_run.c counts its time
    snprintf(want, sizeof(want), "%s tok/s mean", mean);
    screen_expect(&screen_monitor, app, 20, 80, true, want, true);
    snprintf(want, sizeof(want), "%s mean", mean);
    screen_expect(&screen_monitor, app, 26, 100, true, want, true);
}

static void only_evaluations_over_the_same_tokens_are_compared(void **state)
{
    struct app *app = *state;
    struct err err = ERR_INIT;
    struct runlog *log;
    char dir[512], path[600], word[WORD_SIZE];

    fake_run_make("a", RUN_RUNNING, 250, dir);
    snprintf(path, sizeof(path), "%s/metrics.jsonl.gz", dir);
    log = runlog_open(path, &err);
    assert_non_null(log);
    runlog_add(log, json_pack("{s:i s:i s:f s:f s:f s:f s:i s:f}", "step", 250, "tokens", 1024000,
                              "time", run_now() + 1, "val/loss", 1.5, "val/ppl", exp(1.5),
                              "val/bpb", 2.0, "val/tokens", 16384, "flops", 1e12));
    assert_int_equal(runlog_close(log, &err), 0);
    monitor_watch(app, dir);
    screen_expect(&screen_monitor, app, 26, 100, true, "val ppl 4.48 over 16,384 tokens", true);
    screen_expect(&screen_monitor, app, 56, 200, true, "(-", true); // step 200 with step 100
    assert_string_equal(word_percent(word, 0.0499), "4 %");
    assert_string_equal(word_percent(word, 1), "100 %");
}

static void ended_run_refuses_orders_in_words(void **state)
{
    struct app *app = *state;
    char dir[512];

    fake_run_make("a", RUN_DONE, 1099, dir);
    monitor_watch(app, dir);
    assert_true(screen_monitor.command(app, CMD_PAUSE));
    assert_string_equal(app->message, "cannot pause a: it is done");
    assert_int_equal(keys_find(CTX_MONITOR, 'R'), CMD_RESUME_RUN);
    assert_true(screen_monitor.command(app, CMD_RESUME_RUN));
    assert_non_null(strstr(app->message, "reached its end"));
    fake_run_make("b", RUN_STOPPED, 433, dir);
    monitor_watch(app, dir);
    assert_true(screen_monitor.command(app, CMD_PAUSE));
    assert_string_equal(app->message, "cannot pause b: it is stopped; R continues it");
    fake_run_make("c", RUN_RUNNING, 433, dir);
    monitor_watch(app, dir);
    assert_true(screen_monitor.command(app, CMD_RESUME_RUN));
    assert_string_equal(app->message, "c is running already");
}

static void a_run_lost_elsewhere_is_continued_only_after_a_question(void **state)
{
    struct app *app = *state;
    struct run_status st;

    run_status_init(&st);
    snprintf(st.id, sizeof(st.id), "far");
    snprintf(st.host, sizeof(st.host), "not-%.50s", run_host_name());
    st.state = RUN_LOST;
    launch_resume(app, t_path("far"), &st);
    assert_int_equal(app->dialog.kind, DIALOG_CONFIRM);
    assert_non_null(strstr(app->dialog.text, "not-"));
    assert_false(launch_busy(app));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, screen_setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(running_run_is_shown_at_every_size),
        TEST(ascii_screens_hold_ascii_only),
        TEST(large_screens_show_four_charts),
        TEST(unknown_values_are_a_dash),
        TEST(every_size_down_to_one_cell_draws),
        TEST(failure_is_told_in_full),
        TEST(silence_is_said_and_then_lost),
        TEST(no_run_says_how_to_start_one),
        TEST(enter_takes_the_newest_live_run),
        TEST(metric_axis_and_scale_switch),
        TEST(zoom_fits_the_newest_part),
        TEST(frozen_picture_stands_still),
        TEST(brackets_walk_through_the_runs),
        TEST(log_tail_is_shown_and_scrolled),
        TEST(quiet_run_needs_no_redraw),
        TEST(resumed_run_redraws_its_rewritten_part),
        TEST(orders_reach_the_host_and_refusals_are_told),
        TEST(the_speed_of_an_ended_run_is_its_mean),
        TEST(only_evaluations_over_the_same_tokens_are_compared),
        TEST(ended_run_refuses_orders_in_words),
        TEST(a_run_lost_elsewhere_is_continued_only_after_a_question),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
