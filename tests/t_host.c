// Whole runs in processes of their own: pause, checkpoint, kill -9, resume, signals, starting.
// Called with arguments this program is lathe itself: that is what host_spawn() starts.
#include "tests/t.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/ckpt.h"
#include "engine/cli.h"
#include "engine/control.h"
#include "engine/file.h"
#include "engine/host.h"
#include "tests/hosted.h"

static char whole[600]; // a run that was never interrupted

// ---- tests --------------------------------------------------------------------------------------

static void a_run_trains_to_its_end(void **state)
{
    struct run_status st;
    char path[700];

    (void)state;
    snprintf(whole, sizeof whole, "%s", hosted_create("whole", HOSTED_STEPS));
    assert_int_equal(hosted_wait_exit(hosted_start(whole)), CLI_OK);
    st = hosted_status_of(whole);
    assert_int_equal(st.state, RUN_DONE);
    assert_int_equal(st.step, HOSTED_STEPS);
    assert_int_equal(st.checkpoint_step, HOSTED_STEPS);
    assert_true(st.val_loss < 5.0 && st.val_tokens == 400);
    assert_near(st.val_ppl, exp(st.val_loss), 1e-9);
    assert_true(hosted_output_has("train.txt", "validation: loss "));
    assert_true(hosted_output_has("train.txt", "over 400 tokens"));
    assert_true(hosted_output_has("train.txt", "bits per byte"));
    assert_false(hosted_output_has("train.txt", "\033"));
    snprintf(path, sizeof path, "%s/control.sock", whole);
    assert_false(file_exists(path));
    assert_int_equal(hosted_wait_exit(hosted_start(whole)), CLI_INPUT); // nothing left to do
    assert_true(hosted_output_has("train.txt", "is done"));
}

static void pause_checkpoint_kill_resume_gives_the_same_bits(void **state)
{
    const char *dir = hosted_create("killed", HOSTED_STEPS);
    int64_t step;
    pid_t pid;

    (void)state;
    pid = hosted_start(dir);
    t_wait(hosted_status_of(dir).step >= 3 || hosted_status_of(dir).state == RUN_DONE, 20);
    assert_true(hosted_command(dir, "pause"));
    t_wait(hosted_status_of(dir).state == RUN_PAUSED, 20);
    step = hosted_status_of(dir).step;
    assert_true(step > 0 && step < HOSTED_STEPS);
    assert_true(hosted_command(dir, "checkpoint"));
    t_wait(hosted_status_of(dir).checkpoint_step == step, 20);
    assert_int_equal(hosted_status_of(dir).step, step); // paused means paused
    kill(pid, SIGKILL);
    assert_int_equal(hosted_wait_exit(pid), -SIGKILL);
    assert_int_equal(hosted_status_of(dir).state, RUN_LOST);
    // again, this time in the middle of a step, with work since the checkpoint lost
    pid = hosted_start(dir);
    t_wait(hosted_status_of(dir).step >= step + 2 || hosted_status_of(dir).state == RUN_DONE, 20);
    kill(pid, SIGKILL);
    hosted_wait_exit(pid);
    if (hosted_status_of(dir).state != RUN_DONE) // a machine that was held up for long
        assert_int_equal(hosted_wait_exit(hosted_start(dir)), CLI_OK);
    hosted_same_file(whole, dir, "ckpt/800/model.safetensors");
    hosted_same_series(whole, dir, HOSTED_STEPS);
}

static void term_stops_with_a_checkpoint_and_143(void **state)
{
    const char *dir = hosted_create("term", 100000);
    char skipped[200], ckpt[700];
    struct run_status st;
    pid_t pid = hosted_start(dir);

    (void)state;
    t_wait(hosted_status_of(dir).step >= 1, 20);
    kill(pid, SIGHUP); // the terminal goes away: nothing happens
    kill(pid, SIGTERM);
    kill(pid, SIGTERM); // impatient
    kill(pid, SIGINT);
    assert_int_equal(hosted_wait_exit(pid), CLI_STOPPED);
    st = hosted_status_of(dir);
    assert_int_equal(st.state, RUN_STOPPED);
    assert_int_equal(st.checkpoint_step, st.step);
    assert_int_equal(ckpt_latest(dir, ckpt, sizeof ckpt, skipped, sizeof skipped), st.step);
    assert_string_equal(skipped, "");
    assert_true(hosted_output_has("train.txt", "stopped: step"));
}

static void a_second_host_is_refused_and_harms_nothing(void **state)
{
    const char *dir = hosted_create("twice", 100000);
    pid_t pid = hosted_start(dir);
    const char *const words[] = {"train", "--resume", dir, NULL};
    char who[64];

    (void)state;
    t_wait(hosted_status_of(dir).state == RUN_RUNNING, 20);
    assert_int_equal(hosted_wait_exit(hosted_launch(t_path("second.txt"), words)), CLI_INPUT);
    snprintf(who, sizeof who, "hosted by process %d on ", (int)pid);
    assert_true(hosted_output_has("second.txt", who));
    assert_int_equal(hosted_status_of(dir).pid, (int)pid);
    assert_true(hosted_command(dir, "stop"));
    assert_int_equal(hosted_wait_exit(pid), CLI_STOPPED);
}

static void damaged_checkpoint_falls_back_to_the_older(void **state)
{
    const char *dir = hosted_create("fallback", HOSTED_STEPS);
    char path[700];

    (void)state;
    assert_int_equal(hosted_wait_exit(hosted_start(dir)), CLI_OK); // checkpoints 750 and 800
    snprintf(path, sizeof path, "%s/ckpt/800/train_state.safetensors", dir);
    assert_int_equal(truncate(path, 1000), 0);
    snprintf(path, sizeof path, "%s/status.json", dir);
    assert_int_equal(unlink(path), 0); // and the status was lost in the same power cut
    assert_int_equal(hosted_wait_exit(hosted_start(dir)), CLI_OK);
    snprintf(path, sizeof path, "%s/log.txt", dir);
    assert_true(hosted_file_has(path, "checkpoint 800: train_state.safetensors has 1000 bytes"));
    hosted_same_file(whole, dir, "ckpt/800/model.safetensors");
    hosted_same_series(whole, dir, HOSTED_STEPS);
}

static void a_detached_run_is_started_controlled_and_stopped(void **state)
{
    const char *dir = hosted_create("away", 100000);
    struct err err = ERR_INIT;
    struct run_status st;
    char link_to[64] = "", path[64];
    int leak = fcntl(1, F_DUPFD, 100); // one that is not closed on exec

    (void)state;
    if (host_spawn(dir, NULL, 20000, &err) < 0)
        fail_msg("%s", err.text);
    st = hosted_status_of(dir);
    assert_true(run_state_is_live(st.state));
    assert_int_not_equal(st.pid, getpid());
    assert_int_not_equal(getsid(st.pid), getsid(0));
    snprintf(path, sizeof path, "/proc/%d/fd/0", st.pid);
    assert_true(readlink(path, link_to, sizeof link_to - 1) > 0);
    assert_string_equal(link_to, "/dev/null");
    snprintf(path, sizeof path, "/proc/%d/fd/%d", st.pid, leak);
    assert_false(file_exists(path));
    close(leak);
    assert_int_equal(hosted_lathe("pause", "away", NULL), CLI_OK);
    assert_true(hosted_output_has("out.txt", "run away is paused, step "));
    assert_int_equal(hosted_lathe("checkpoint", "away", NULL), CLI_OK);
    assert_int_equal(hosted_lathe("resume", "away", NULL), CLI_OK);
    assert_true(hosted_output_has("out.txt", "is running"));
    assert_int_equal(hosted_lathe("delete", "away", "--yes"), CLI_INPUT);
    assert_int_equal(hosted_lathe("stop", "away", NULL), CLI_OK);
    assert_int_equal(hosted_lathe("pause", "away", NULL), CLI_INPUT);
    assert_true(hosted_output_has("out.txt", "run 'away' is not running, it is stopped"));
    assert_int_equal(hosted_lathe("resume", "away", NULL), CLI_OK); // starts a process again
    assert_true(run_state_is_live(hosted_status_of(dir).state));
    assert_int_equal(hosted_lathe("stop", "away", NULL), CLI_OK);
    assert_int_equal(hosted_lathe("watch", "away", NULL), CLI_OK);
    assert_true(hosted_output_has("out.txt", "away: stopped"));
    assert_int_equal(hosted_lathe("runs", "--json", NULL), CLI_OK);
    assert_true(hosted_output_has("out.txt", "\"val/ppl\""));
    assert_int_equal(hosted_lathe("delete", "away", NULL), CLI_USAGE);
    assert_int_equal(hosted_lathe("delete", "away", "--yes"), CLI_OK);
}

static void a_start_that_fails_says_why(void **state)
{
    const char *dir = hosted_create("nodata", 60);
    struct err err = ERR_INIT;
    const char *const words[] = {"train", "--resume", dir, NULL};
    char train[600];

    (void)state;
    snprintf(train, sizeof train, "%s", t_path("train.bin"));
    assert_int_equal(rename(train, t_path("away.bin")), 0);
    assert_int_equal(host_spawn(dir, NULL, 20000, &err), -1);
    assert_non_null(strstr(err.text, "train.bin"));
    assert_int_equal(hosted_status_of(dir).state, RUN_FAILED);
    assert_int_equal(hosted_wait_exit(hosted_launch(t_path("out.txt"), words)), CLI_INPUT);
    assert_true(hosted_output_has("out.txt", "train.bin"));
    assert_int_equal(rename(t_path("away.bin"), train), 0);
    assert_int_equal(host_spawn(whole, NULL, 20000, &err), -1); // done already
    assert_non_null(strstr(err.text, "is done"));
    assert_int_equal(host_spawn(t_path("nothing"), NULL, 1000, &err), -1);
}

static int set_up(void **state)
{
    (void)state;
    hosted_set_up();
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_trains_to_its_end),
        cmocka_unit_test(pause_checkpoint_kill_resume_gives_the_same_bits),
        cmocka_unit_test(term_stops_with_a_checkpoint_and_143),
        cmocka_unit_test(a_second_host_is_refused_and_harms_nothing),
        cmocka_unit_test(damaged_checkpoint_falls_back_to_the_older),
        cmocka_unit_test(a_detached_run_is_started_controlled_and_stopped),
        cmocka_unit_test(a_start_that_fails_says_why),
    };

    host_set_program("/proc/self/exe");
    if (argc > 1)
        return cli_main(argc, argv);
    return cmocka_run_group_tests(tests, set_up, NULL);
}
