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
#include "engine/follow.h"
#include "engine/host.h"
#include "engine/profile.h"
#include "engine/shard.h"

// ---- a tiny model on made-up words --------------------------------------------------------------

static const char profile[] =
    "name: tiny\n"
    "model: {d_model: 16, n_layers: 2, head_dim: 8, ffn_width: [16, 32],\n"
    "  n_heads: 2, ffn_step: 16, vocab: 257, tie_embeddings: true}\n"
    "train: {seq_len: 16, micro_batch_size: 2, max_steps: 800,\n"
    "  global_batch_size: 4, threads: 1}\n"
    "optim: {lr: 3e-3, warmup_steps: 5}\n"
    "eval: {interval: 100, max_tokens: 400}\n"
    "save: {interval: 150, keep: 2}\n";

static void write_shard(const char *path, int documents, int seed)
{
    static const char *const words[] = {"the ", "layer ", "grows ", "and ", "falls ", "again "};
    struct shard_meta meta = {.vocab = 257,
                              .eot = 256,
                              .tokenizer = "bytes",
                              .source = "words",
                              .license = "none",
                              .split = "test",
                              .seed = seed};
    struct shard_writer *w = shard_create(path, &meta, NULL);
    uint16_t ids[400];

    assert_non_null(w);
    srand((unsigned)seed);
    for (int d = 0; d < documents; d++) {
        int n = 0;

        while (n < 300)
            for (const char *s = words[rand() % 6]; *s; s++)
                ids[n++] = (unsigned char)*s;
        assert_int_equal(shard_add(w, ids, n, n, NULL), 0);
    }
    assert_int_equal(shard_commit(w, NULL), 0);
}

static void load_profile(struct spec *spec, int steps)
{
    char train[600], val[600], max[64];
    const char *const set[] = {train, val, max};
    struct problems p = {0};

    snprintf(train, sizeof train, "data.train=%s", t_path("train.bin"));
    snprintf(val, sizeof val, "data.val=%s", t_path("val.bin"));
    snprintf(max, sizeof max, "train.max_steps=%d", steps);
    if (profile_parse("tiny", profile, strlen(profile), set, 3, spec, &p) < 0) {
        problems_print(&p, stderr);
        fail_msg("the profile is not valid");
    }
    problems_release(&p);
}

static const char *create(const char *id, int steps)
{
    static char dir[8][600];
    static int at;
    struct spec *spec = calloc(1, sizeof *spec);
    struct err err = ERR_INIT;

    at = (at + 1) % 8;
    load_profile(spec, steps);
    if (run_create(spec, id, dir[at], sizeof dir[at], &err) < 0)
        fail_msg("%s", err.text);
    free(spec);
    return dir[at];
}

enum { STEPS = 800 };

// ---- processes ----------------------------------------------------------------------------------

// This program as `lathe WORD…` with output to a file; the words end with NULL.
static pid_t launch(const char *out, const char *const *words)
{
    char *argv[12] = {(char *)(uintptr_t) "lathe"};
    pid_t pid;

    for (int i = 0; i < 10 && words[i]; i++)
        argv[i + 1] = (char *)(uintptr_t)words[i];
    pid = fork();
    if (pid == 0) {
        int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);

        dup2(fd, 1);
        dup2(fd, 2);
        execv("/proc/self/exe", argv);
        _exit(99);
    }
    return pid;
}

static int wait_exit(pid_t pid)
{
    int status = 0, done = 0;

    t_wait((done = waitpid(pid, &status, WNOHANG)) == pid, 30);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int lathe(const char *a, const char *b, const char *c)
{
    const char *const words[] = {a, b, c, NULL};

    return wait_exit(launch(t_path("out.txt"), words));
}

static pid_t start(const char *dir)
{
    const char *const words[] = {"train", "--resume", dir, NULL};

    return launch(t_path("train.txt"), words);
}

static bool file_has(const char *path, const char *text)
{
    struct buf b = {0};
    bool found = file_read(path, 1 << 20, &b, NULL) == 0 && strstr(b.data, text);

    buf_release(&b);
    return found;
}

static bool output_has(const char *name, const char *text)
{
    return file_has(t_path(name), text);
}

static struct run_status status_of(const char *dir)
{
    struct run_status st;

    run_read_status(dir, &st, NULL);
    return st;
}

static bool command(const char *dir, const char *cmd)
{
    json_t *j = control_send(dir, cmd, 5000, NULL);
    bool ok = json_is_true(json_object_get(j, "ok"));

    json_decref(j);
    return ok;
}

// ---- comparing runs -----------------------------------------------------------------------------

static void assert_same_file(const char *a, const char *b, const char *rest)
{
    struct buf x = {0}, y = {0};
    char path[700];

    snprintf(path, sizeof path, "%s/%s", a, rest);
    assert_int_equal(file_read(path, 1 << 26, &x, NULL), 0);
    snprintf(path, sizeof path, "%s/%s", b, rest);
    assert_int_equal(file_read(path, 1 << 26, &y, NULL), 0);
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    buf_release(&x);
    buf_release(&y);
}

static void assert_same_series(const char *a, const char *b)
{
    static const int train[] = {TRAIN_STEP, TRAIN_TOKENS, TRAIN_LOSS, TRAIN_LR, TRAIN_GRAD_NORM};
    static const int eval[] = {EVAL_STEP, EVAL_LOSS, EVAL_PPL, EVAL_BPB, EVAL_VAL_TOKENS};
    struct follow x, y;

    follow_init(&x, a);
    follow_init(&y, b);
    follow_poll(&x);
    follow_poll(&y);
    assert_true(x.train.n == STEPS);
    assert_int_equal(x.train.n, y.train.n);
    assert_int_equal(x.eval.n, y.eval.n);
    for (int c = 0; c < 5; c++) {
        assert_memory_equal(x.train.col[train[c]], y.train.col[train[c]],
                            (size_t)x.train.n * sizeof(double));
        assert_memory_equal(x.eval.col[eval[c]], y.eval.col[eval[c]],
                            (size_t)x.eval.n * sizeof(double));
    }
    follow_release(&x);
    follow_release(&y);
}

static char whole[600]; // a run that was never interrupted

// ---- tests --------------------------------------------------------------------------------------

static void a_run_trains_to_its_end(void **state)
{
    struct run_status st;
    char path[700];

    (void)state;
    snprintf(whole, sizeof whole, "%s", create("whole", STEPS));
    assert_int_equal(wait_exit(start(whole)), CLI_OK);
    st = status_of(whole);
    assert_int_equal(st.state, RUN_DONE);
    assert_int_equal(st.step, STEPS);
    assert_int_equal(st.checkpoint_step, STEPS);
    assert_true(st.val_loss < 5.0 && st.val_tokens == 400);
    assert_near(st.val_ppl, exp(st.val_loss), 1e-9);
    assert_true(output_has("train.txt", "validation: loss "));
    assert_true(output_has("train.txt", "over 400 tokens"));
    assert_true(output_has("train.txt", "bits per byte"));
    assert_false(output_has("train.txt", "\033"));
    snprintf(path, sizeof path, "%s/control.sock", whole);
    assert_false(file_exists(path));
    assert_int_equal(wait_exit(start(whole)), CLI_INPUT); // nothing left to do
    assert_true(output_has("train.txt", "is done"));
}

static void pause_checkpoint_kill_resume_gives_the_same_bits(void **state)
{
    const char *dir = create("killed", STEPS);
    int64_t step;
    pid_t pid;

    (void)state;
    pid = start(dir);
    t_wait(status_of(dir).step >= 3 || status_of(dir).state == RUN_DONE, 20);
    assert_true(command(dir, "pause"));
    t_wait(status_of(dir).state == RUN_PAUSED, 20);
    step = status_of(dir).step;
    assert_true(step > 0 && step < STEPS);
    assert_true(command(dir, "checkpoint"));
    t_wait(status_of(dir).checkpoint_step == step, 20);
    assert_int_equal(status_of(dir).step, step); // paused means paused
    kill(pid, SIGKILL);
    assert_int_equal(wait_exit(pid), -SIGKILL);
    assert_int_equal(status_of(dir).state, RUN_LOST);
    // again, this time in the middle of a step, with work since the checkpoint lost
    pid = start(dir);
    t_wait(status_of(dir).step >= step + 2 || status_of(dir).state == RUN_DONE, 20);
    kill(pid, SIGKILL);
    wait_exit(pid);
    if (status_of(dir).state != RUN_DONE) // a machine that was held up for long
        assert_int_equal(wait_exit(start(dir)), CLI_OK);
    assert_same_file(whole, dir, "ckpt/800/model.safetensors");
    assert_same_series(whole, dir);
}

static void term_stops_with_a_checkpoint_and_143(void **state)
{
    const char *dir = create("term", 100000);
    char skipped[200], ckpt[700];
    struct run_status st;
    pid_t pid = start(dir);

    (void)state;
    t_wait(status_of(dir).step >= 1, 20);
    kill(pid, SIGHUP); // the terminal goes away: nothing happens
    kill(pid, SIGTERM);
    kill(pid, SIGTERM); // impatient
    kill(pid, SIGINT);
    assert_int_equal(wait_exit(pid), CLI_STOPPED);
    st = status_of(dir);
    assert_int_equal(st.state, RUN_STOPPED);
    assert_int_equal(st.checkpoint_step, st.step);
    assert_int_equal(ckpt_latest(dir, ckpt, sizeof ckpt, skipped, sizeof skipped), st.step);
    assert_string_equal(skipped, "");
    assert_true(output_has("train.txt", "stopped: step"));
}

static void a_second_host_is_refused_and_harms_nothing(void **state)
{
    const char *dir = create("twice", 100000);
    pid_t pid = start(dir);
    const char *const words[] = {"train", "--resume", dir, NULL};
    char who[64];

    (void)state;
    t_wait(status_of(dir).state == RUN_RUNNING, 20);
    assert_int_equal(wait_exit(launch(t_path("second.txt"), words)), CLI_INPUT);
    snprintf(who, sizeof who, "hosted by process %d on ", (int)pid);
    assert_true(output_has("second.txt", who));
    assert_int_equal(status_of(dir).pid, (int)pid);
    assert_true(command(dir, "stop"));
    assert_int_equal(wait_exit(pid), CLI_STOPPED);
}

static void damaged_checkpoint_falls_back_to_the_older(void **state)
{
    const char *dir = create("fallback", STEPS);
    char path[700];

    (void)state;
    assert_int_equal(wait_exit(start(dir)), CLI_OK); // checkpoints 750 and 800
    snprintf(path, sizeof path, "%s/ckpt/800/train_state.safetensors", dir);
    assert_int_equal(truncate(path, 1000), 0);
    snprintf(path, sizeof path, "%s/status.json", dir);
    assert_int_equal(unlink(path), 0); // and the status was lost in the same power cut
    assert_int_equal(wait_exit(start(dir)), CLI_OK);
    snprintf(path, sizeof path, "%s/log.txt", dir);
    assert_true(file_has(path, "checkpoint 800: train_state.safetensors has 1000 bytes"));
    assert_same_file(whole, dir, "ckpt/800/model.safetensors");
    assert_same_series(whole, dir);
}

static void a_detached_run_is_started_controlled_and_stopped(void **state)
{
    const char *dir = create("away", 100000);
    struct err err = ERR_INIT;
    struct run_status st;
    char link_to[64] = "", path[64];
    int leak = fcntl(1, F_DUPFD, 100); // one that is not closed on exec

    (void)state;
    if (host_spawn(dir, NULL, 20000, &err) < 0)
        fail_msg("%s", err.text);
    st = status_of(dir);
    assert_true(run_state_is_live(st.state));
    assert_int_not_equal(st.pid, getpid());
    assert_int_not_equal(getsid(st.pid), getsid(0));
    snprintf(path, sizeof path, "/proc/%d/fd/0", st.pid);
    assert_true(readlink(path, link_to, sizeof link_to - 1) > 0);
    assert_string_equal(link_to, "/dev/null");
    snprintf(path, sizeof path, "/proc/%d/fd/%d", st.pid, leak);
    assert_false(file_exists(path));
    close(leak);
    assert_int_equal(lathe("pause", "away", NULL), CLI_OK);
    assert_true(output_has("out.txt", "run away is paused, step "));
    assert_int_equal(lathe("checkpoint", "away", NULL), CLI_OK);
    assert_int_equal(lathe("resume", "away", NULL), CLI_OK);
    assert_true(output_has("out.txt", "is running"));
    assert_int_equal(lathe("delete", "away", "--yes"), CLI_INPUT);
    assert_int_equal(lathe("stop", "away", NULL), CLI_OK);
    assert_int_equal(lathe("pause", "away", NULL), CLI_INPUT);
    assert_true(output_has("out.txt", "run 'away' is not running, it is stopped"));
    assert_int_equal(lathe("resume", "away", NULL), CLI_OK); // starts a process again
    assert_true(run_state_is_live(status_of(dir).state));
    assert_int_equal(lathe("stop", "away", NULL), CLI_OK);
    assert_int_equal(lathe("watch", "away", NULL), CLI_OK);
    assert_true(output_has("out.txt", "away: stopped"));
    assert_int_equal(lathe("runs", "--json", NULL), CLI_OK);
    assert_true(output_has("out.txt", "\"val/ppl\""));
    assert_int_equal(lathe("delete", "away", NULL), CLI_USAGE);
    assert_int_equal(lathe("delete", "away", "--yes"), CLI_OK);
}

static void a_start_that_fails_says_why(void **state)
{
    const char *dir = create("nodata", 60);
    struct err err = ERR_INIT;
    const char *const words[] = {"train", "--resume", dir, NULL};
    char train[600];

    (void)state;
    snprintf(train, sizeof train, "%s", t_path("train.bin"));
    assert_int_equal(rename(train, t_path("away.bin")), 0);
    assert_int_equal(host_spawn(dir, NULL, 20000, &err), -1);
    assert_non_null(strstr(err.text, "train.bin"));
    assert_int_equal(status_of(dir).state, RUN_FAILED);
    assert_int_equal(wait_exit(launch(t_path("out.txt"), words)), CLI_INPUT);
    assert_true(output_has("out.txt", "train.bin"));
    assert_int_equal(rename(t_path("away.bin"), train), 0);
    assert_int_equal(host_spawn(whole, NULL, 20000, &err), -1); // done already
    assert_non_null(strstr(err.text, "is done"));
    assert_int_equal(host_spawn(t_path("nothing"), NULL, 1000, &err), -1);
}

static int set_up(void **state)
{
    (void)state;
    setenv("LATHE_RUNS", t_path("runs"), 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    write_shard(t_path("train.bin"), 60, 1);
    write_shard(t_path("val.bin"), 5, 2);
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
