#include "tests/hosted.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/control.h"
#include "engine/file.h"
#include "engine/follow.h"
#include "engine/profile.h"
#include "engine/shard.h"
#include "tests/t.h"

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

static void load_profile(struct spec *spec, int steps, const char *key_value)
{
    char train[600], val[600], max[64];
    const char *const set[] = {train, val, max, key_value};
    struct problems p = {0};

    snprintf(train, sizeof train, "data.train=%s", t_path("train.bin"));
    snprintf(val, sizeof val, "data.val=%s", t_path("val.bin"));
    snprintf(max, sizeof max, "train.max_steps=%d", steps);
    if (profile_parse("tiny", profile, strlen(profile), set, key_value ? 4 : 3, spec, &p) < 0) {
        problems_print(&p, stderr);
        fail_msg("the profile is not valid");
    }
    problems_release(&p);
}

const char *hosted_create(const char *id, int steps)
{
    return hosted_create_with(id, steps, NULL);
}

const char *hosted_create_with(const char *id, int steps, const char *key_value)
{
    static char dir[8][600];
    static int at;
    struct spec *spec = calloc(1, sizeof *spec);
    struct err err = ERR_INIT;

    at = (at + 1) % 8;
    load_profile(spec, steps, key_value);
    if (run_create(spec, id, dir[at], sizeof dir[at], &err) < 0)
        fail_msg("%s", err.text);
    free(spec);
    return dir[at];
}

// ---- processes ----------------------------------------------------------------------------------

void (*hosted_before_exec)(void);

pid_t hosted_launch(const char *out, const char *const *words)
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
        if (hosted_before_exec)
            hosted_before_exec();
        execv("/proc/self/exe", argv);
        _exit(99);
    }
    return pid;
}

int hosted_wait_exit(pid_t pid)
{
    int status = 0, done = 0;

    t_wait((done = waitpid(pid, &status, WNOHANG)) == pid, 30);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int hosted_lathe(const char *a, const char *b, const char *c)
{
    const char *const words[] = {a, b, c, NULL};

    return hosted_wait_exit(hosted_launch(t_path("out.txt"), words));
}

pid_t hosted_start(const char *dir)
{
    const char *const words[] = {"train", "--resume", dir, NULL};

    return hosted_launch(t_path("train.txt"), words);
}

bool hosted_file_has(const char *path, const char *text)
{
    struct buf b = {0};
    bool found = file_read(path, 1 << 20, &b, NULL) == 0 && strstr(b.data, text);

    buf_release(&b);
    return found;
}

bool hosted_output_has(const char *name, const char *text)
{
    return hosted_file_has(t_path(name), text);
}

struct run_status hosted_status_of(const char *dir)
{
    struct run_status st;

    run_read_status(dir, &st, NULL);
    return st;
}

bool hosted_command(const char *dir, const char *cmd)
{
    json_t *j = control_send(dir, cmd, 5000, NULL);
    bool ok = json_is_true(json_object_get(j, "ok"));

    json_decref(j);
    return ok;
}

// ---- comparing runs -----------------------------------------------------------------------------

void hosted_same_file(const char *a, const char *b, const char *rest)
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

void hosted_same_series(const char *a, const char *b, int steps)
{
    static const int train[] = {TRAIN_STEP, TRAIN_TOKENS, TRAIN_LOSS, TRAIN_LR, TRAIN_GRAD_NORM};
    static const int eval[] = {EVAL_STEP, EVAL_LOSS, EVAL_PPL, EVAL_BPB, EVAL_VAL_TOKENS};
    struct follow x, y;

    follow_init(&x, a);
    follow_init(&y, b);
    follow_poll(&x);
    follow_poll(&y);
    assert_int_equal(x.train.n, steps);
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

// ---- starting a group ---------------------------------------------------------------------------

void hosted_set_up(void)
{
    setenv("LATHE_RUNS", t_path("runs"), 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    write_shard(t_path("train.bin"), 60, 1);
    write_shard(t_path("val.bin"), 5, 2);
}

pid_t hosted_start_paused(const char *dir)
{
    pid_t pid = hosted_start(dir);

    // the socket is there while the data are read
    t_wait(hosted_command(dir, "pause"), 30);
    t_wait(hosted_status_of(dir).state == RUN_PAUSED, 30);
    return pid;
}
