// Run directories: creating, finding, listing, locking and deleting; status.json.
#include "tests/t.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "engine/file.h"
#include "engine/profile.h"
#include "engine/run.h"

static struct spec spec;

// A directory of runs of its own for each test.
static const char *new_runs(const char *name)
{
    const char *path = t_path(name);

    runs_set_dir(path);
    return path;
}

static const char *create(const char *id)
{
    static char dir[4][600];
    static int at;
    struct err err = ERR_INIT;

    at = (at + 1) % 4;
    if (run_create(&spec, id, dir[at], sizeof dir[at], &err) < 0)
        fail_msg("%s", err.text);
    return dir[at];
}

static const char *last(const char *path)
{
    return strrchr(path, '/') + 1;
}

// A child that holds the lock until it is killed.
static pid_t hold_lock(const char *dir)
{
    int fds[2];
    char c = 0;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        if (run_lock(dir, NULL) < 0 || write(fds[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &c, 1), 1);
    close(fds[0]);
    return pid;
}

static void kill_and_wait(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

// ---- creating -----------------------------------------------------------------------------------

static void ids_are_numbered_and_never_used_again(void **state)
{
    const char *a, *b;
    char next[RUN_ID_SIZE];
    struct run_status st;
    struct spec read;
    struct stat sb;

    (void)state;
    new_runs("numbered");
    a = create(NULL);
    assert_string_equal(last(a), "demo-crown-1");
    assert_int_equal(stat(a, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0700);
    assert_int_equal(run_read_status(a, &st, NULL), 0);
    assert_int_equal(st.state, RUN_NEW);
    assert_string_equal(st.name, "demo-crown");
    assert_int_equal(st.total_steps, spec_total_steps(&spec));
    assert_int_equal(st.checkpoint_step, -1);
    assert_true(isnan(st.val_ppl));
    assert_int_equal(run_load_profile(a, &read, NULL), 0);
    assert_true(spec_equal(&read, &spec));
    b = create(NULL);
    assert_string_equal(last(b), "demo-crown-2");
    assert_int_equal(run_delete(b, NULL), 0);
    run_next_id(&spec, next); // what is announced is what comes
    assert_string_equal(next, "demo-crown-3");
    assert_string_equal(last(create(NULL)), "demo-crown-3");
}

static void two_processes_get_different_ids(void **state)
{
    enum { N = 8 };
    struct run_status *list;
    int n, bad = 0;

    (void)state;
    new_runs("race");
    for (int i = 0; i < N; i++)
        if (fork() == 0) {
            char dir[600];

            for (int k = 0; k < 5; k++)
                if (run_create(&spec, NULL, dir, sizeof dir, NULL) < 0)
                    _exit(1);
            _exit(0);
        }
    for (int i = 0, rc; i < N; i++) {
        wait(&rc);
        bad += rc != 0;
    }
    assert_int_equal(bad, 0);
    assert_int_equal(runs_list(&list, &n, NULL), 0);
    assert_int_equal(n, 5 * N);
    free(list);
}

static void ids_are_checked(void **state)
{
    static const char *const bad[] = {"", ".", "..", ".trash", "a/b", "../x", "a b", "-x", "ä"};
    char dir[600], too_long[80];
    struct err err = ERR_INIT;

    (void)state;
    new_runs("checked");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(run_create(&spec, bad[i], dir, sizeof dir, &err), -1);
    memset(too_long, 'a', 64);
    too_long[64] = '\0';
    assert_int_equal(run_create(&spec, too_long, dir, sizeof dir, &err), -1);
    create("mine");
    assert_int_equal(run_create(&spec, "mine", dir, sizeof dir, &err), -1);
    assert_non_null(strstr(err.text, "exists already"));
}

static void a_name_with_odd_characters_makes_a_plain_id(void **state)
{
    struct spec odd = spec;
    char dir[600];

    (void)state;
    new_runs("odd");
    snprintf(odd.name, sizeof odd.name, "../my run/x");
    assert_int_equal(run_create(&odd, NULL, dir, sizeof dir, NULL), 0);
    assert_string_equal(last(dir), "_.-my-run-x-1");
}

// ---- finding ------------------------------------------------------------------------------------

static void runs_are_found_by_id_prefix_and_path(void **state)
{
    const char *runs = new_runs("find");
    struct err err = ERR_INIT;
    char dir[600], want[600];

    (void)state;
    create("crown-1");
    create("crown-10");
    create("base-1");
    assert_int_equal(run_find("crown-1", dir, sizeof dir, &err), 0);
    snprintf(want, sizeof want, "%s/crown-1", runs);
    assert_string_equal(dir, want);
    assert_int_equal(run_find("b", dir, sizeof dir, &err), 0);
    assert_string_equal(last(dir), "base-1");
    assert_int_equal(run_find("cro", dir, sizeof dir, &err), -1);
    assert_non_null(strstr(err.text, "fits several runs: "));
    assert_int_equal(run_find("corwn-1", dir, sizeof dir, &err), -1);
    assert_non_null(strstr(err.text, "did you mean 'crown-1'?"));
    assert_int_equal(run_find("qqqqqqqqqq", dir, sizeof dir, &err), -1);
    assert_null(strstr(err.text, "did you mean"));
    assert_int_equal(run_find("", dir, sizeof dir, &err), -1);
    snprintf(want, sizeof want, "%s/base-1", runs);
    runs_set_dir(t_path("elsewhere"));
    assert_int_equal(run_find(want, dir, sizeof dir, &err), 0);
    assert_int_equal(run_find(runs, dir, sizeof dir, &err), -1); // a directory, but no run
    assert_int_equal(run_find("base-1", dir, sizeof dir, &err), -1);
    assert_int_equal(run_find(want, dir, 5, &err), -1);
}

static void the_list_survives_junk(void **state)
{
    const char *runs = new_runs("junk");
    struct run_status *list = NULL;
    char path[700], link_to[700];
    int n = -1, failed = 0;

    (void)state;
    assert_int_equal(runs_list(&list, &n, NULL), 0); // no directory yet
    assert_int_equal(n, 0);
    free(list);
    create("good-1");
    snprintf(link_to, sizeof link_to, "%s", create("good-2"));
    snprintf(path, sizeof path, "%s/README.md", runs);
    t_write(path, "text");
    snprintf(path, sizeof path, "%s/empty", runs);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/pipe", runs);
    mkdir(path, 0700);
    strcat(path, "/status.json");
    assert_int_equal(mkfifo(path, 0600), 0); // would block a careless reader
    snprintf(path, sizeof path, "%s/text", runs);
    mkdir(path, 0700);
    strcat(path, "/status.json");
    t_write(path, "{\"state\": \"runn");
    snprintf(path, sizeof path, "%s/loop", runs);
    assert_int_equal(symlink("loop", path), 0);
    snprintf(path, sizeof path, "%s/dangling", runs);
    assert_int_equal(symlink("nowhere", path), 0);
    snprintf(path, sizeof path, "%s/linked", runs);
    assert_int_equal(symlink(link_to, path), 0);
    assert_int_equal(runs_list(&list, &n, NULL), 0);
    for (int i = 0; i < n; i++)
        failed += list[i].state == RUN_FAILED && list[i].reason[0];
    assert_int_equal(n, 6); // good-1, good-2, linked, empty, pipe, text
    assert_int_equal(failed, 3);
    free(list);
}

static void thousands_of_runs_are_listed_fast(void **state)
{
    const char *runs = new_runs("many");
    struct run_status st, *list = NULL;
    double start;
    int n = 0;

    (void)state;
    run_status_init(&st);
    st.state = RUN_RUNNING; // written without syncing
    mkdir(runs, 0700);
    for (int i = 0; i < 3000; i++) {
        char dir[700];

        snprintf(dir, sizeof dir, "%s/r%d", runs, i);
        assert_int_equal(mkdir(dir, 0700), 0);
        st.started = 1000 + i;
        assert_int_equal(run_write_status(dir, &st, NULL), 0);
    }
    start = t_now();
    assert_int_equal(runs_list(&list, &n, NULL), 0);
    print_message("# 3000 runs listed in %.3f s\n", t_now() - start);
    assert_int_equal(n, 3000);
    assert_string_equal(list[0].id, "r2999"); // newest first
    assert_string_equal(list[2999].id, "r0");
    free(list);
}

// ---- status -------------------------------------------------------------------------------------

static void status_keeps_every_member(void **state)
{
    const char *dir = (new_runs("status"), create("s-1"));
    struct run_status a, b;

    (void)state;
    run_status_init(&a);
    snprintf(a.phase, sizeof a.phase, "evaluating");
    snprintf(a.reason, sizeof a.reason, "said \"no\"\n\tand \xff more");
    a.state = RUN_STOPPED;
    a.step = 12;
    a.total_steps = 34;
    a.tokens = 1LL << 40;
    a.flops = 1.25e21;
    a.val_ppl = 24.61;
    a.val_tokens = 777;
    a.pid = 99;
    a.checkpoint_step = 10;
    assert_int_equal(run_write_status(dir, &a, NULL), 0);
    assert_int_equal(run_read_status(dir, &b, NULL), 0);
    assert_int_equal(b.state, RUN_STOPPED);
    assert_string_equal(b.id, "s-1"); // the directory's name
    assert_string_equal(b.phase, "evaluating");
    assert_string_equal(b.reason, "said \"no\"\n\tand ? more");
    assert_int_equal(b.step, 12);
    assert_int_equal(b.total_steps, 34);
    assert_true(b.tokens == 1LL << 40 && b.flops == 1.25e21 && b.val_ppl == 24.61);
    assert_true(isnan(b.val_loss) && isnan(b.eta_s) && isnan(b.best_val_loss));
    assert_int_equal(b.val_tokens, 777);
    assert_int_equal(b.pid, 99);
    assert_int_equal(b.checkpoint_step, 10);
}

static void unknown_numbers_are_null(void **state)
{
    struct run_status st;
    json_t *j;

    (void)state;
    run_status_init(&st);
    st.train_loss = INFINITY;
    j = run_status_to_json(&st);
    assert_true(json_is_null(json_object_get(j, "val/ppl")));
    assert_true(json_is_null(json_object_get(j, "train/loss")));
    assert_true(json_is_null(json_object_get(j, "checkpoint_step")));
    assert_true(json_is_null(json_object_get(j, "val/tokens")));
    assert_true(json_is_null(json_object_get(j, "started")));
    json_decref(j);
}

static void status_of_other_versions_is_read_as_far_as_it_goes(void **state)
{
    static const struct {
        const char *text;
        int rc;
    } rows[] = {
        {"{\"state\":\"done\"}", 0},
        {"{\"state\":\"done\",\"step\":\"x\",\"val/ppl\":[],\"reason\":3,\"pid\":1e99}", 0},
        {"{\"state\":\"done\",\"new member\":{\"a\":1}}", 0},
        {"{\"state\":\"dancing\"}", -1},
        {"{\"state\":4}", -1},
        {"{}", -1},
        {"[]", -1},
        {"", -1},
        {"{\"state\":\"done\"", -1},
    };
    const char *dir = (new_runs("tolerant"), create("t-1"));
    char path[700];

    (void)state;
    snprintf(path, sizeof path, "%s/status.json", dir);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct run_status st;

        t_write(path, rows[i].text);
        if (run_read_status(dir, &st, NULL) != rows[i].rc)
            fail_msg("%s: not %d", rows[i].text, rows[i].rc);
        assert_string_equal(st.id, "t-1");
        assert_int_equal(st.step, 0);
    }
}

static void write_live(const char *dir, const char *host, double heartbeat)
{
    struct run_status st;

    run_status_init(&st);
    st.state = RUN_RUNNING;
    st.heartbeat = heartbeat;
    st.heartbeat_period = 2;
    st.pid = 4242;
    snprintf(st.host, sizeof st.host, "%s", host);
    assert_int_equal(run_write_status(dir, &st, NULL), 0);
}

static enum run_state state_of(const char *dir)
{
    struct run_status st;

    assert_int_equal(run_read_status(dir, &st, NULL), 0);
    return st.state;
}

static void set_lock_age(const char *dir, int seconds)
{
    struct timespec t[2] = {{time(NULL) - seconds, 0}, {time(NULL) - seconds, 0}};
    char path[700];

    snprintf(path, sizeof path, "%s/lock", dir);
    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static void a_run_without_lock_or_heartbeat_is_lost(void **state)
{
    const char *dir = (new_runs("lost"), create("l-1"));
    struct run_status st;
    pid_t pid;

    (void)state;
    write_live(dir, run_host_name(), run_now());
    assert_int_equal(state_of(dir), RUN_LOST);
    pid = hold_lock(dir);
    assert_int_equal(state_of(dir), RUN_RUNNING);
    // a full disk may keep the status from being written; the lock is still touched
    write_live(dir, run_host_name(), run_now() - 7);
    assert_int_equal(state_of(dir), RUN_RUNNING);
    set_lock_age(dir, 7);
    assert_int_equal(state_of(dir), RUN_LOST);
    set_lock_age(dir, 4);
    assert_int_equal(state_of(dir), RUN_RUNNING);
    kill_and_wait(pid);
    assert_int_equal(state_of(dir), RUN_LOST);
    assert_int_equal(run_read_status(dir, &st, NULL), 0);
    assert_non_null(strstr(st.reason, "process 4242 ended without a word"));
    // on another machine only the heartbeat tells
    write_live(dir, "elsewhere", run_now() - 4);
    assert_int_equal(state_of(dir), RUN_RUNNING);
    write_live(dir, "elsewhere", run_now() - 7);
    assert_int_equal(state_of(dir), RUN_LOST);
    write_live(dir, "elsewhere", run_now() + 60); // its clock is ahead
    assert_int_equal(state_of(dir), RUN_RUNNING);
    write_live(dir, "elsewhere", 1e308);
    assert_int_equal(state_of(dir), RUN_LOST);
    write_live(dir, "elsewhere", NAN);
    assert_int_equal(state_of(dir), RUN_LOST);
}

// ---- lock and delete ----------------------------------------------------------------------------

static void the_second_host_is_refused_with_the_first_pid(void **state)
{
    const char *dir = (new_runs("lock"), create("k-1"));
    pid_t pid = hold_lock(dir);
    struct err err = ERR_INIT;
    char want[64];
    int fd;

    (void)state;
    assert_int_equal(run_lock(dir, &err), -2);
    snprintf(want, sizeof want, "process %d on ", (int)pid);
    assert_non_null(strstr(err.text, want));
    kill_and_wait(pid);
    fd = run_lock(dir, &err);
    assert_true(fd >= 0);
    close(fd);
}

static void readers_never_keep_a_host_from_starting(void **state)
{
    const char *dir = (new_runs("probe"), create("p-1"));
    pid_t pid;

    (void)state;
    write_live(dir, run_host_name(), run_now());
    pid = fork();
    if (pid == 0)
        for (;;) { // probes the lock without a pause
            struct run_status st;

            run_read_status(dir, &st, NULL);
        }
    for (int i = 0; i < 200; i++) {
        struct err err = ERR_INIT;
        int fd = run_lock(dir, &err);

        if (fd < 0)
            fail_msg("%s", err.text);
        close(fd);
    }
    kill_and_wait(pid);
}

static void delete_moves_to_the_trash_and_refuses_a_live_run(void **state)
{
    const char *runs = new_runs("delete"), *dir = create("d-1");
    struct err err = ERR_INIT;
    char path[700];
    pid_t pid = hold_lock(dir);

    (void)state;
    assert_int_equal(run_delete(dir, &err), -1);
    assert_non_null(strstr(err.text, "is hosted by process"));
    assert_true(file_exists(dir));
    kill_and_wait(pid);
    write_live(dir, "elsewhere", run_now());
    assert_int_equal(run_delete(dir, &err), -1);
    assert_non_null(strstr(err.text, "in process 4242 on elsewhere"));
    write_live(dir, "elsewhere", run_now() - 60);
    assert_int_equal(run_delete(dir, &err), 0);
    assert_false(file_exists(dir));
    snprintf(path, sizeof path, "%s/.trash/d-1/profile.yaml", runs);
    assert_true(file_exists(path));
    assert_int_equal(run_delete(create("d-1"), &err), 0); // a second of that name
    snprintf(path, sizeof path, "%s/.trash/d-1.1/profile.yaml", runs);
    assert_true(file_exists(path));
    assert_int_equal(run_delete(dir, &err), -1);
    snprintf(path, sizeof path, "%s//", create("d-2"));
    assert_int_equal(run_delete(path, &err), 0);
}

static int load_spec(void **state)
{
    struct problems p = {0};
    int rc = profile_parse("default", profile_default_yaml, strlen(profile_default_yaml), NULL, 0,
                           &spec, &p);

    (void)state;
    problems_release(&p);
    return rc;
}

static int forget_dir(void **state)
{
    (void)state;
    runs_set_dir(NULL);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_numbered_and_never_used_again),
        cmocka_unit_test(two_processes_get_different_ids),
        cmocka_unit_test(ids_are_checked),
        cmocka_unit_test(a_name_with_odd_characters_makes_a_plain_id),
        cmocka_unit_test(runs_are_found_by_id_prefix_and_path),
        cmocka_unit_test(the_list_survives_junk),
        cmocka_unit_test(thousands_of_runs_are_listed_fast),
        cmocka_unit_test(status_keeps_every_member),
        cmocka_unit_test(unknown_numbers_are_null),
        cmocka_unit_test(status_of_other_versions_is_read_as_far_as_it_goes),
        cmocka_unit_test(a_run_without_lock_or_heartbeat_is_lost),
        cmocka_unit_test(the_second_host_is_refused_with_the_first_pid),
        cmocka_unit_test(readers_never_keep_a_host_from_starting),
        cmocka_unit_test(delete_moves_to_the_trash_and_refuses_a_live_run),
    };

    return cmocka_run_group_tests(tests, load_spec, forget_dir);
}
