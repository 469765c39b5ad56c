// Faults on the real program: kill -9 at random moments, full disks, read-only directories, damaged
// files, clocks that jump, several hosts (t_command: a socket under fire). The run's bits are those of a run that
// met none of it, and nothing that was flushed is lost.
// LATHE_TEST_KILLS is the number of kills and damages (make test: 8, make test-long: 50).
#include "tests/t.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/capability.h>

#include "engine/cli.h"
#include "engine/control.h"
#include "engine/file.h"
#include "engine/host.h"
#include "engine/runlog.h"
#include "tests/hosted.h"

static char whole[600], changed[600]; // never interrupted: as planned, and with ask_for_all()
enum { CHANGED_STEPS = 600 };

static int rounds(void)
{
    const char *n = getenv("LATHE_TEST_KILLS");

    return n ? atoi(n) : 8;
}

// ---- a clock that jumps -------------------------------------------------------------------------

// Seconds by which the wall clock is wrong, for this program and all it starts: they share a file.
static volatile double *clock_error;

static void share_clock(void)
{
    const char *path = getenv("T_CLOCK");
    int fd = open(path ? path : "/nowhere", O_RDWR | O_CLOEXEC);
    void *p = fd < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (p != MAP_FAILED)
        clock_error = p;
    if (fd >= 0)
        close(fd);
}

// Takes the place of the C library's for everything that is linked into this program.
int clock_gettime(clockid_t which, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, which, t);

    if (which == CLOCK_REALTIME && clock_error)
        t->tv_sec += (time_t)*clock_error;
    return rc;
}

time_t time(time_t *out)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    if (out)
        *out = t.tv_sec;
    return t.tv_sec;
}

// ---- helpers ------------------------------------------------------------------------------------

static json_t *ask(const char *dir, const char *cmd, json_t *members)
{
    json_t *j = control_request(dir, cmd, members, 5000, NULL);

    json_decref(members);
    return j;
}

static void set(const char *dir, json_t *members)
{
    json_t *j = ask(dir, "set", members);

    if (!json_is_true(json_object_get(j, "ok")))
        fail_msg("%s", json_string_value(json_object_get(j, "error")));
    json_decref(j);
}

// The status by the socket: newer than the file, and there when the file cannot be written.
static bool live_state_is(const char *dir, const char *state)
{
    json_t *j = ask(dir, "status", NULL), *status = json_object_get(j, "status");
    const char *got = json_string_value(json_object_get(status, "state"));
    bool is = got && !strcmp(got, state);

    json_decref(j);
    return is;
}

static char *path_in(const char *dir, const char *rest)
{
    static char path[4][800];
    static int at;

    at = (at + 1) % 4;
    snprintf(path[at], sizeof path[at], "%s/%s", dir, rest);
    return path[at];
}

static void end_well(pid_t pid, const char *dir)
{
    assert_int_equal(hosted_wait_exit(pid), CLI_OK);
    hosted_same_file(whole, dir, "ckpt/800/model.safetensors");
    hosted_same_series(whole, dir, HOSTED_STEPS);
}

static void keep_line(void *user, const json_t *line)
{
    json_array_append_new(user, json_deep_copy(line));
}

// All lines of a run's log; bad counts what could not be read.
static json_t *log_lines(const char *dir, int *bad)
{
    struct runlog_reader r;
    json_t *lines = json_array();

    runlog_reader_init(&r, path_in(dir, "metrics.jsonl.gz"));
    runlog_poll(&r, keep_line, lines, bad, NULL);
    runlog_reader_release(&r);
    return lines;
}

static bool starts_with(const json_t *all, const json_t *first)
{
    size_t n = json_array_size(first);

    for (size_t i = 0; i < n; i++)
        if (!json_equal(json_array_get(all, i), json_array_get(first, i)))
            return false;
    return true;
}

// ---- kill -9 ------------------------------------------------------------------------------------

static void ask_for_all(const char *dir)
{
    set(dir, json_pack("{s:s, s:f, s:i}", "key", "lr", "value", 6e-3, "at", 200));
    set(dir, json_pack("{s:s, s:f, s:i}", "key", "lr", "value", 1e-3, "at", 400));
    set(dir, json_pack("{s:s, s:i}", "key", "max_steps", "value", CHANGED_STEPS));
    assert_true(hosted_command(dir, "resume"));
}

static void runs_without_faults(void **state)
{
    pid_t pid;

    (void)state;
    snprintf(whole, sizeof whole, "%s", hosted_create("whole", HOSTED_STEPS));
    assert_int_equal(hosted_wait_exit(hosted_start(whole)), CLI_OK);
    snprintf(changed, sizeof changed, "%s", hosted_create("changed", HOSTED_STEPS));
    pid = hosted_start_paused(changed);
    ask_for_all(changed);
    assert_int_equal(hosted_wait_exit(pid), CLI_OK);
    assert_int_equal(hosted_status_of(changed).step, CHANGED_STEPS);
    assert_int_equal(hosted_status_of(changed).total_steps, CHANGED_STEPS);
    assert_true(hosted_file_has(path_in(changed, "log.txt"), "max_steps 800 -> 600"));
    assert_true(hosted_file_has(path_in(changed, "changes.json"), "\"who\": "));
}

// A random moment: right after the start, or within what a run takes, or while a checkpoint is
// written.
static void wait_for_a_moment(pid_t pid, const char *dir)
{
    double end = t_now() + (rand() % 3 ? 1e-3 * (rand() % 900) : 1e-3 * (rand() % 300));
    int64_t saved = hosted_status_of(dir).checkpoint_step;
    bool at_save = rand() % 4 == 0;

    while (t_now() < end && kill(pid, 0) == 0) {
        if (at_save && hosted_status_of(dir).checkpoint_step != saved)
            break;
        usleep((useconds_t)(rand() % 2000));
    }
}

static void a_run_that_is_killed_at_random_moments_has_the_same_bits(void **state)
{
    int kills = 0;

    (void)state;
    srand(11);
    for (int run = 0; kills < rounds(); run++) {
        json_t *before = json_array(), *after;
        char id[32], dir[600];
        bool over = false;
        pid_t pid;

        snprintf(id, sizeof id, "killed-%d", run);
        snprintf(dir, sizeof dir, "%s", hosted_create_with(id, HOSTED_STEPS, "save.interval=20"));
        pid = hosted_start_paused(dir);
        ask_for_all(dir);
        while (!over) {
            int rc;

            wait_for_a_moment(pid, dir);
            json_decref(before);
            before = log_lines(dir, NULL);
            if (kills < rounds())
                kill(pid, SIGKILL);
            rc = hosted_wait_exit(pid);
            over = rc == CLI_OK;
            assert_true(over || rc == -SIGKILL);
            kills += !over;
            after = log_lines(dir, NULL); // what was flushed is there, also after a resume
            assert_true(starts_with(after, before));
            json_decref(after);
            if (!over)
                pid = hosted_start(dir);
        }
        json_decref(before);
        hosted_same_file(changed, dir, "ckpt/600/model.safetensors");
        hosted_same_series(changed, dir, CHANGED_STEPS);
    }
}

// ---- damaged files ------------------------------------------------------------------------------

// One random bit of the file, or all after a random place.
static void damage(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    char c;
    off_t at;

    assert_int_equal(fstat(fd, &st), 0);
    at = rand() % st.st_size;
    if (rand() % 2) {
        assert_int_equal(ftruncate(fd, at), 0);
    } else {
        assert_int_equal(pread(fd, &c, 1, at), 1);
        c = (char)(c ^ (1 << rand() % 8));
        assert_int_equal(pwrite(fd, &c, 1, at), 1);
    }
    close(fd);
}

static void a_damaged_checkpoint_is_named_and_the_newest_good_one_used(void **state)
{
    static const char *const files[] = {"model.safetensors", "train_state.safetensors",
                                        "config.json", "profile.yaml"};
    const char *dir = hosted_create("hurt", HOSTED_STEPS);
    char file[64], says[128];

    (void)state;
    srand(12);
    assert_int_equal(hosted_wait_exit(hosted_start(dir)), CLI_OK); // checkpoints 750 and 800
    for (int i = 0; i < rounds() / 2; i++) {
        const char *name = files[i < 4 ? i : rand() % 4];

        snprintf(file, sizeof file, "ckpt/800/%s", name);
        damage(path_in(dir, file));
        snprintf(says, sizeof says, "checkpoint 800: %s has ", name);
        assert_int_equal(unlink(path_in(dir, "status.json")), 0); // "done" would be the end of it
        assert_int_equal(unlink(path_in(dir, "log.txt")), 0);
        end_well(hosted_start(dir), dir);
        assert_true(hosted_file_has(path_in(dir, "log.txt"), says));
    }
}

// Every line that is read stood in the log, in this order.
static void assert_only_known_lines(const json_t *known, const json_t *lines)
{
    size_t k = 0, n = json_array_size(known);

    for (size_t i = 0; i < json_array_size(lines); i++, k++) {
        while (k < n && !json_equal(json_array_get(known, k), json_array_get(lines, i)))
            k++;
        assert_true(k < n);
    }
}

static void copy_file(const char *from, const char *to)
{
    struct buf b = {0};

    assert_int_equal(file_read(from, 1 << 26, &b, NULL), 0);
    assert_int_equal(file_write_atomic(to, b.data, b.len, NULL), 0);
    buf_release(&b);
}

static void a_damaged_log_loses_what_was_hurt_and_nothing_else(void **state)
{
    const char *dir = hosted_create_with("torn", HOSTED_STEPS, "save.interval=20");
    pid_t pid = hosted_start(dir);
    json_t *known, *lines;

    (void)state;
    srand(13);
    t_wait(hosted_status_of(dir).checkpoint_step >= 40, 30);
    kill(pid, SIGTERM);
    hosted_wait_exit(pid);
    copy_file(path_in(dir, "metrics.jsonl.gz"), t_path("good.gz"));
    known = log_lines(dir, NULL);
    for (int i = 0; i < 20 * rounds(); i++) {
        int bad = 0;

        copy_file(t_path("good.gz"), path_in(dir, "metrics.jsonl.gz"));
        damage(path_in(dir, "metrics.jsonl.gz"));
        lines = log_lines(dir, &bad);
        assert_only_known_lines(known, lines);
        json_decref(lines);
    }
    lines = log_lines(dir, NULL);
    if (hosted_status_of(dir).state != RUN_DONE) { // the run goes on behind it, on the same way
        json_t *after;

        assert_int_equal(hosted_wait_exit(hosted_start(dir)), CLI_OK);
        after = log_lines(dir, NULL);
        assert_true(starts_with(after, lines));
        json_decref(after);
    }
    hosted_same_file(whole, dir, "ckpt/800/model.safetensors");
    json_decref(lines);
    json_decref(known);
}

// ---- disks --------------------------------------------------------------------------------------

// The limit is of the run directory's files: what is printed goes elsewhere.
static void print_nowhere(void)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    dup2(fd, 1);
    dup2(fd, 2);
}

static pid_t start_on_small_disk(const char *dir)
{
    pid_t pid;

    hosted_before_exec = print_nowhere;
    pid = hosted_start_paused(dir);
    hosted_before_exec = NULL;
    return pid;
}

static void limit_file_size(pid_t pid, rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(prlimit(pid, RLIMIT_FSIZE, NULL, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(prlimit(pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

// Not a byte more of log, status or checkpoint can be written; then there is room again.
static void a_full_disk_holds_the_run_and_loses_nothing(void **state)
{
    const char *dir = hosted_create("full", HOSTED_STEPS);
    pid_t pid = start_on_small_disk(dir);
    json_t *j, *before = log_lines(dir, NULL), *after;

    (void)state;
    limit_file_size(pid, 1);
    // what cannot be written down is not done
    j = ask(dir, "set", json_pack("{s:s, s:f}", "key", "lr", "value", 1.0));
    assert_true(json_is_false(json_object_get(j, "ok")));
    assert_non_null(strstr(json_string_value(json_object_get(j, "error")), "changes.json"));
    json_decref(j);
    assert_true(hosted_command(dir, "resume"));
    t_wait(!live_state_is(dir, "paused"), 30);
    t_wait(live_state_is(dir, "paused"), 30); // it holds at its first checkpoint
    j = ask(dir, "status", NULL);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(j, "status"), "step")), 150);
    assert_non_null(strstr(
        json_string_value(json_object_get(json_object_get(j, "status"), "reason")), "too large"));
    json_decref(j);
    assert_true(run_state_is_live(hosted_status_of(dir).state)); // the lock says so
    after = log_lines(dir, NULL);
    assert_true(json_equal(before, after));
    json_decref(before);
    json_decref(after);
    limit_file_size(pid, RLIM_INFINITY);
    assert_true(hosted_command(dir, "resume"));
    end_well(pid, dir);
    assert_false(file_exists(path_in(dir, "changes.json")));
}

static void stopping_on_a_full_disk_keeps_the_last_good_checkpoint(void **state)
{
    const char *dir = hosted_create("stuck", HOSTED_STEPS);
    pid_t pid = start_on_small_disk(dir);

    (void)state;
    assert_true(hosted_command(dir, "checkpoint"));
    t_wait(hosted_status_of(dir).checkpoint_step == 0, 30);
    limit_file_size(pid, 1);
    assert_true(hosted_command(dir, "resume"));
    t_wait(!live_state_is(dir, "paused"), 30);
    t_wait(live_state_is(dir, "paused"), 30);
    kill(pid, SIGTERM);
    assert_int_equal(hosted_wait_exit(pid), CLI_RUN_FAILED);
    end_well(hosted_start(dir), dir);
}

// Root may write anywhere until it lets go of that.
static void obey_modes(void)
{
    prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0);
    prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH, 0, 0, 0);
}

static bool modes_hold(const char *dir)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        char *argv[] = {(char *)(uintptr_t) "touch", path_in(dir, "touched"), NULL};

        obey_modes();
        execvp("touch", argv);
        _exit(99);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

static void set_mode(const char *dir, mode_t mode)
{
    assert_int_equal(chmod(dir, mode), 0);
    if (file_exists(path_in(dir, "ckpt")))
        assert_int_equal(chmod(path_in(dir, "ckpt"), mode), 0);
}

static void a_read_only_directory_holds_the_run_and_refuses_a_start(void **state)
{
    const char *dir = hosted_create("frozen", HOSTED_STEPS);
    pid_t pid;

    (void)state;
    set_mode(dir, 0500);
    if (!modes_hold(dir)) {
        set_mode(dir, 0700);
        skip();
    }
    hosted_before_exec = obey_modes;
    pid = hosted_start(dir);
    assert_int_equal(hosted_wait_exit(pid), CLI_INPUT);
    assert_true(hosted_output_has("train.txt", "Permission denied"));
    set_mode(dir, 0700);
    pid = hosted_start_paused(dir);
    set_mode(dir, 0500); // while it runs
    assert_true(hosted_command(dir, "resume"));
    t_wait(!live_state_is(dir, "paused"), 30);
    t_wait(live_state_is(dir, "paused"), 30);
    assert_true(hosted_file_has(path_in(dir, "log.txt"), "Permission denied"));
    set_mode(dir, 0700);
    assert_true(hosted_command(dir, "resume"));
    end_well(pid, dir);
    hosted_before_exec = NULL;
}

// ---- clocks and hosts ---------------------------------------------------------------------------

static void a_clock_that_jumps_back_changes_nothing(void **state)
{
    const char *dir = hosted_create("clock", HOSTED_STEPS);
    pid_t pid = hosted_start_paused(dir);

    (void)state;
    *clock_error = -7200; // two hours: heartbeat and lock are from the future now
    assert_int_equal(hosted_status_of(dir).state, RUN_PAUSED);
    assert_true(hosted_command(dir, "resume"));
    t_wait(hosted_status_of(dir).step >= 1, 30);
    *clock_error = -86400;
    assert_true(run_state_is_live(hosted_status_of(dir).state) ||
                hosted_status_of(dir).state == RUN_DONE);
    end_well(pid, dir);
    *clock_error = 0;
    assert_true(hosted_status_of(dir).elapsed_s < 600);
}

static void of_hosts_started_at_once_one_runs(void **state)
{
    const char *dir = hosted_create("many", HOSTED_STEPS);
    int ran = 0, refused = 0;
    pid_t pid[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        const char *const words[] = {"train", "--resume", dir, NULL};

        pid[i] = hosted_launch(t_path("many.txt"), words);
    }
    for (int i = 0; i < 4; i++) {
        int rc = hosted_wait_exit(pid[i]);

        ran += rc == CLI_OK;
        refused += rc == CLI_INPUT;
    }
    assert_int_equal(ran, 1);
    assert_int_equal(refused, 3);
    hosted_same_file(whole, dir, "ckpt/800/model.safetensors");
    hosted_same_series(whole, dir, HOSTED_STEPS);
}

static int set_up(void **state)
{
    (void)state;
    hosted_set_up();
    t_write(t_path("clock"), "\1\1\1\1\1\1\1\1");
    setenv("T_CLOCK", t_path("clock"), 1);
    share_clock();
    *clock_error = 0;
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_without_faults),
        cmocka_unit_test(a_run_that_is_killed_at_random_moments_has_the_same_bits),
        cmocka_unit_test(a_damaged_checkpoint_is_named_and_the_newest_good_one_used),
        cmocka_unit_test(a_damaged_log_loses_what_was_hurt_and_nothing_else),
        cmocka_unit_test(a_full_disk_holds_the_run_and_loses_nothing),
        cmocka_unit_test(stopping_on_a_full_disk_keeps_the_last_good_checkpoint),
        cmocka_unit_test(a_read_only_directory_holds_the_run_and_refuses_a_start),
        cmocka_unit_test(a_clock_that_jumps_back_changes_nothing),
        cmocka_unit_test(of_hosts_started_at_once_one_runs),
    };

    share_clock();
    host_set_program("/proc/self/exe");
    if (argc > 1)
        return cli_main(argc, argv);
    return cmocka_run_group_tests(tests, set_up, NULL);
}
