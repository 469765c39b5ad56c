// The metrics log: members, torn tails, full disks, kill -9, and its readers.
#include "tests/t.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/follow.h"
#include "engine/runlog.h"

// ---- helpers ------------------------------------------------------------------------------------

static void add(struct runlog *log, int step)
{
    runlog_add(log, json_pack("{s:i, s:i, s:f}", "step", step, "tokens", step * 64, "train/loss",
                              5.0 - 0.001 * step));
}

struct seen {
    int n, last, out_of_order;
};

static void count_line(void *user, const json_t *line)
{
    struct seen *s = user;
    int step = (int)json_integer_value(json_object_get(line, "step"));

    s->out_of_order += step != s->last + 1;
    s->last = step;
    s->n++;
}

static struct seen read_all(const char *path, int *bad)
{
    struct runlog_reader r;
    struct seen s = {0};

    runlog_reader_init(&r, path);
    assert_true(runlog_poll(&r, count_line, &s, bad, NULL) >= 0);
    runlog_reader_release(&r);
    return s;
}

static off_t size_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_size : -1;
}

// What any other program sees: zlib's own reader of the whole file, -1 when it finds an error.
static int gunzip_lines(const char *path)
{
    gzFile f = gzopen(path, "rb");
    char line[4096];
    int n = 0, code;

    assert_non_null(f);
    while (gzgets(f, line, sizeof line))
        n++;
    gzerror(f, &code);
    gzclose(f);
    return code == Z_OK || code == Z_STREAM_END ? n : -1;
}

static const char *fresh_log(const char *name, int members, int lines_each)
{
    const char *path = t_path(name);
    struct runlog *log;
    int step = 0;

    unlink(path);
    log = runlog_open(path, NULL);
    assert_non_null(log);
    for (int m = 0; m < members; m++) {
        for (int i = 0; i < lines_each; i++)
            add(log, ++step);
        assert_int_equal(runlog_flush(log, NULL), 0);
    }
    assert_int_equal(runlog_close(log, NULL), 0);
    return path;
}

// ---- writer -------------------------------------------------------------------------------------

static void other_programs_can_read_it_after_each_flush(void **state)
{
    const char *path = t_path("plain.gz");
    struct runlog *log = runlog_open(path, NULL);

    (void)state;
    assert_non_null(log);
    for (int i = 1; i <= 20; i++) {
        add(log, i);
        assert_int_equal(runlog_flush(log, NULL), 0);
        assert_int_equal(gunzip_lines(path), i);
    }
    assert_int_equal(runlog_flush(log, NULL), 0); // nothing new writes nothing
    assert_int_equal(gunzip_lines(path), 20);
    add(log, 21);
    assert_int_equal(runlog_close(log, NULL), 0);
    assert_int_equal(gunzip_lines(path), 21);
}

static void torn_tail_is_cut_on_open_at_every_length(void **state)
{
    const char *path = fresh_log("torn.gz", 3, 5);
    struct buf whole = {0};
    off_t two;

    (void)state;
    fresh_log("torn2.gz", 2, 5);
    two = size_of(t_path("torn2.gz"));
    assert_int_equal(file_read(path, 1 << 20, &whole, NULL), 0);
    for (off_t cut = two + 1; cut < (off_t)whole.len; cut++) {
        struct runlog *log;

        assert_int_equal(file_write_atomic(path, whole.data, (size_t)cut, NULL), 0);
        log = runlog_open(path, NULL);
        assert_non_null(log);
        assert_int_equal(size_of(path), two);
        add(log, 11);
        assert_int_equal(runlog_close(log, NULL), 0);
        assert_int_equal(gunzip_lines(path), 11);
    }
    buf_release(&whole);
}

static void zeros_after_a_power_cut_are_a_torn_tail(void **state)
{
    const char *path = fresh_log("zeros.gz", 2, 3);
    off_t good = size_of(path);
    struct runlog *log;

    (void)state;
    assert_int_equal(truncate(path, good + 4096), 0);
    log = runlog_open(path, NULL);
    assert_non_null(log);
    assert_int_equal(size_of(path), good);
    runlog_close(log, NULL);
}

static void a_file_that_is_no_log_is_left_alone(void **state)
{
    const char *path = t_path("letter.gz");
    struct err err = ERR_INIT;

    (void)state;
    t_write(path, "dear diary, this took months to write\n");
    assert_null(runlog_open(path, &err));
    assert_non_null(strstr(err.text, "no gzip file"));
    assert_int_equal(size_of(path), 38);
    assert_null(runlog_open(t_dir(), &err));
    assert_null(runlog_open(t_path("no/such/dir.gz"), &err));
}

static void full_disk_keeps_lines_and_a_valid_file(void **state)
{
    const char *path = fresh_log("full.gz", 1, 3);
    struct rlimit limit, tight;
    struct err err = ERR_INIT;
    struct runlog *log = runlog_open(path, NULL);
    off_t good = size_of(path);
    struct seen s;
    int failed = 0;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    tight = limit;
    tight.rlim_cur = (rlim_t)good + 30; // less than one member
    setrlimit(RLIMIT_FSIZE, &tight);
    for (int i = 4; i <= 50; i++) {
        add(log, i);
        failed += runlog_flush(log, &err) < 0;
    }
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_int_equal(failed, 47);
    assert_non_null(strstr(err.text, "full.gz"));
    assert_int_equal(size_of(path), good);
    assert_int_equal(gunzip_lines(path), 3);
    assert_int_equal(runlog_flush(log, NULL), 0); // room again: nothing was lost
    s = read_all(path, NULL);
    assert_int_equal(s.n, 50);
    assert_int_equal(s.out_of_order, 0);
    assert_int_equal(runlog_close(log, NULL), 0);
}

// In a child with a mount name space of its own: a real file system of 64 KiB. 0 good, 77 not
// possible here, else the line that failed.
#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond))                                                                               \
            return __LINE__ % 200 + 1;                                                             \
    } while (0)

static int fill_a_small_disk(const char *mount_point)
{
    char path[600], fill[600], block[4096];
    struct runlog *log;
    int fd, written = 0;

    if ((unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", mount_point, "tmpfs", 0, "size=64k") < 0)
        return 77;
    snprintf(path, sizeof path, "%s/metrics.jsonl.gz", mount_point);
    snprintf(fill, sizeof fill, "%s/fill", mount_point);
    CHECK((log = runlog_open(path, NULL)));
    for (int i = 1; i <= 10; i++)
        add(log, i);
    CHECK(runlog_flush(log, NULL) == 0);
    memset(block, 1, sizeof block);
    CHECK((fd = open(fill, O_WRONLY | O_CREAT, 0600)) >= 0);
    while (write(fd, block, sizeof block) > 0)
        written++;
    CHECK(written > 5 && errno == ENOSPC);
    for (int i = 11; i <= 2000; i++) // more than the rest of the file's page takes
        add(log, i);
    CHECK(runlog_flush(log, NULL) < 0);
    CHECK(gunzip_lines(path) == 10);
    close(fd);
    CHECK(runlog_flush(log, NULL) < 0 && gunzip_lines(path) == 10);
    unlink(fill);
    CHECK(runlog_close(log, NULL) == 0);
    CHECK(gunzip_lines(path) == 2000);
    return 0;
}

static void a_full_file_system_keeps_the_log_valid(void **state)
{
    const char *dir = t_path("disk");
    int status;
    pid_t pid;

    (void)state;
    assert_int_equal(mkdir(dir, 0700), 0);
    pid = fork();
    if (pid == 0)
        _exit(fill_a_small_disk(dir));
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

// The child writes the number of the last flushed line to the pipe after each flush.
static void write_until_killed(const char *path, int first, int fd)
{
    struct runlog *log = runlog_open(path, NULL);

    for (int step = first;; step++) {
        add(log, step);
        if (step % 3 == 0 && runlog_flush(log, NULL) == 0 &&
            write(fd, &step, sizeof step) != sizeof step)
            _exit(1);
    }
}

static void kill_9_loses_no_flushed_line(void **state)
{
    const char *path = t_path("killed.gz");
    int flushed = 0, first = 1;

    (void)state;
    srand(7);
    for (int round = 0; round < 15; round++) {
        int fds[2], step;
        struct seen s;
        pid_t pid;

        assert_int_equal(pipe(fds), 0);
        pid = fork();
        if (pid == 0) {
            close(fds[0]);
            write_until_killed(path, first, fds[1]);
        }
        close(fds[1]);
        for (int i = rand() % 40; i >= 0; i--)
            if (read(fds[0], &step, sizeof step) == sizeof step)
                flushed = step;
        usleep((useconds_t)(rand() % 3000)); // any moment, not only between two flushes
        kill(pid, SIGKILL);
        while (read(fds[0], &step, sizeof step) == sizeof step)
            flushed = step;
        close(fds[0]);
        waitpid(pid, NULL, 0);
        runlog_close(runlog_open(path, NULL), NULL); // cuts a torn tail
        s = read_all(path, NULL);
        assert_true(s.n >= flushed);
        assert_int_equal(s.out_of_order, 0);
        assert_int_equal(gunzip_lines(path), s.n);
        first = s.n + 1;
    }
}

// ---- reader -------------------------------------------------------------------------------------

static void reader_gets_each_line_once_as_the_file_grows(void **state)
{
    const char *path = fresh_log("grow.gz", 40, 3), *part = t_path("part.gz");
    struct runlog_reader r;
    struct buf whole = {0};
    struct seen s = {0};
    int fd = open(part, O_WRONLY | O_CREAT, 0600), bad = 0;

    (void)state;
    assert_int_equal(file_read(path, 1 << 20, &whole, NULL), 0);
    runlog_reader_init(&r, t_path("missing.gz"));
    assert_int_equal(runlog_poll(&r, count_line, &s, &bad, NULL), 0);
    runlog_reader_init(&r, part);
    for (size_t i = 0; i < whole.len; i += 7) {
        size_t n = whole.len - i < 7 ? whole.len - i : 7;

        assert_int_equal(write_all(fd, whole.data + i, n), 0);
        assert_true(runlog_poll(&r, count_line, &s, &bad, NULL) >= 0);
    }
    assert_int_equal(s.n, 120);
    assert_int_equal(s.out_of_order, 0);
    assert_int_equal(bad, 0);
    assert_int_equal(runlog_poll(&r, count_line, &s, &bad, NULL), 0);
    close(fd);
    buf_release(&whole);
    runlog_reader_release(&r);
}

static void reader_survives_a_tail_that_was_cut(void **state)
{
    const char *path = fresh_log("cut.gz", 4, 2);
    off_t good = size_of(path);
    struct runlog_reader r;
    struct seen s = {0};
    struct runlog *log;
    int fd = open(path, O_WRONLY | O_APPEND);

    (void)state;
    assert_int_equal(write_all(fd, "\x1f\x8b\x08\0\0\0\0\0\0\x03torn", 14), 0);
    close(fd);
    runlog_reader_init(&r, path);
    assert_int_equal(runlog_poll(&r, count_line, &s, NULL, NULL), 8);
    log = runlog_open(path, NULL); // a new writer cuts it and goes on
    assert_int_equal(size_of(path), good);
    for (int i = 9; i <= 60; i++)
        add(log, i);
    assert_int_equal(runlog_close(log, NULL), 0);
    assert_int_equal(runlog_poll(&r, count_line, &s, NULL, NULL), 52);
    assert_int_equal(s.out_of_order, 0);
    runlog_reader_release(&r);
}

static void reader_goes_on_after_garbage(void **state)
{
    const char *path = fresh_log("garbage.gz", 30, 2);
    struct buf whole = {0}, hurt = {0};

    (void)state;
    assert_int_equal(file_read(path, 1 << 20, &whole, NULL), 0);
    srand(11);
    for (int round = 0; round < 150; round++) {
        int bad = 0, n = 1 + rand() % 4;
        struct seen s;

        buf_reset(&hurt);
        buf_add(&hurt, whole.data, whole.len);
        for (int i = 0; i < n; i++) // each changed byte can cost one member of two lines
            hurt.data[(size_t)rand() % hurt.len] ^= (char)(1 + rand() % 255);
        assert_int_equal(file_write_atomic(path, hurt.data, hurt.len, NULL), 0);
        s = read_all(path, &bad);
        assert_true(s.n >= 60 - 2 * n);
        assert_true(s.n == 60 || bad > 0 || s.last != 60);
        // a writer keeps everything that is good
        runlog_close(runlog_open(path, NULL), NULL);
        assert_int_equal(read_all(path, NULL).n, s.n);
    }
    buf_release(&whole);
    buf_release(&hurt);
}

static void reader_counts_lines_that_are_no_objects(void **state)
{
    const char *path = t_path("lines.gz");
    gzFile f = gzopen(path, "wb");
    struct seen s;
    int bad = 0;

    (void)state;
    gzputs(f, "{\"step\":1}\n[1,2]\nnot json\n\n{\"step\":2}\n{\"step\":3}"); // no last newline
    gzclose(f);
    s = read_all(path, &bad);
    assert_int_equal(s.n, 3);
    assert_int_equal(bad, 2);
}

// ---- follow -------------------------------------------------------------------------------------

static void write_status(const char *dir, int64_t step)
{
    struct run_status st;

    run_status_init(&st);
    st.state = RUN_STOPPED;
    st.step = step;
    assert_int_equal(run_write_status(dir, &st, NULL), 0);
}

static void follow_lets_later_lines_of_a_step_win(void **state)
{
    const char *dir = t_path("run-1");
    struct follow f;
    struct runlog *log;
    char path[600];

    (void)state;
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(path, sizeof path, "%s/metrics.jsonl.gz", dir);
    follow_init(&f, dir);
    assert_false(f.has_status);
    assert_true(follow_poll(&f)); // nothing there: it says why
    assert_true(f.problem[0] != '\0');
    assert_false(follow_poll(&f));
    write_status(dir, 9);
    log = runlog_open(path, NULL);
    for (int i = 1; i <= 9; i++)
        add(log, i);
    runlog_add(log, json_pack("{s:i, s:i, s:f, s:f, s:i}", "step", 5, "tokens", 320, "val/loss",
                              4.5, "val/ppl", 90.0171, "val/tokens", 777));
    runlog_flush(log, NULL);
    assert_true(follow_poll(&f));
    assert_string_equal(f.problem, "");
    assert_int_equal(f.status.step, 9);
    assert_int_equal(f.train.n, 9);
    assert_int_equal(f.eval.n, 1);
    assert_near(f.eval.col[EVAL_PPL][0], 90.0171, 0);
    assert_near(f.eval.col[EVAL_VAL_TOKENS][0], 777, 0);
    assert_true(isnan(f.eval.col[EVAL_BPB][0]));
    assert_false(follow_poll(&f));
    // resumed from 6: step 7 again, then on
    runlog_add(log, json_pack("{s:i, s:i, s:s, s:s}", "step", 6, "tokens", 384, "event", "resume",
                              "text", "from checkpoint 6"));
    runlog_add(log, json_pack("{s:i, s:i, s:f}", "step", 7, "tokens", 448, "train/loss", 1.25));
    runlog_flush(log, NULL);
    assert_true(follow_poll(&f));
    assert_int_equal(f.train.n, 9);
    assert_near(f.train.col[TRAIN_LOSS][6], 1.25, 0);
    assert_int_equal(f.n_events, 1);
    assert_string_equal(f.event[0].kind, "resume");
    assert_int_equal(f.event[0].step, 6);
    add(log, 10);
    runlog_close(log, NULL);
    assert_true(follow_poll(&f));
    assert_int_equal(f.train.n, 10);
    assert_int_equal(follow_find(&f.train, 0), -1);
    assert_int_equal(follow_find(&f.train, 4.5), 3);
    assert_int_equal(follow_find(&f.train, 99), 9);
    // replaced by a shorter log: no trace of the old one stays
    unlink(path);
    log = runlog_open(path, NULL);
    add(log, 1);
    runlog_close(log, NULL);
    assert_true(follow_poll(&f));
    assert_int_equal(f.train.n, 1);
    assert_int_equal(f.n_events, 0);
    follow_release(&f);
}

static void follow_reads_long_logs_in_portions(void **state)
{
    const char *dir = t_path("run-2");
    struct follow f;
    struct runlog *log;
    char path[600];
    int polls = 0, total = 100000;
    double start;

    (void)state;
    assert_int_equal(mkdir(dir, 0700), 0);
    write_status(dir, total);
    snprintf(path, sizeof path, "%s/metrics.jsonl.gz", dir);
    log = runlog_open(path, NULL);
    for (int i = 1; i <= total; i++) {
        add(log, i);
        if (i % 5000 == 0)
            runlog_flush(log, NULL);
    }
    follow_init(&f, dir);
    start = t_now();
    do {
        follow_poll(&f);
        polls++;
    } while (f.behind);
    print_message("# %d records in %d polls, %.3f s\n", f.train.n, polls, t_now() - start);
    assert_int_equal(f.train.n, total);
    assert_true(polls >= 4 && polls <= 7);
    add(log, total + 1);
    runlog_close(log, NULL);
    assert_true(follow_poll(&f));
    assert_int_equal(f.train.n, total + 1);
    follow_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_programs_can_read_it_after_each_flush),
        cmocka_unit_test(torn_tail_is_cut_on_open_at_every_length),
        cmocka_unit_test(zeros_after_a_power_cut_are_a_torn_tail),
        cmocka_unit_test(a_file_that_is_no_log_is_left_alone),
        cmocka_unit_test(full_disk_keeps_lines_and_a_valid_file),
        cmocka_unit_test(a_full_file_system_keeps_the_log_valid),
        cmocka_unit_test(kill_9_loses_no_flushed_line),
        cmocka_unit_test(reader_gets_each_line_once_as_the_file_grows),
        cmocka_unit_test(reader_survives_a_tail_that_was_cut),
        cmocka_unit_test(reader_goes_on_after_garbage),
        cmocka_unit_test(reader_counts_lines_that_are_no_objects),
        cmocka_unit_test(follow_lets_later_lines_of_a_step_win),
        cmocka_unit_test(follow_reads_long_logs_in_portions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
