// End to end: the real program on a pty. A person opens a profile, draws, takes an edit back, saves,
// trains, sees a curve, leaves, comes back, stops and continues the run. And: what happens to the
// terminal never harms the run.
#include "tests/t.h"

#include <signal.h>
#include <unistd.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/profile.h"
#include "engine/run.h"
#include "tests/pty.h"
#include "tests/tokens.h"

static const char profile[] = "name: tiny\n"
                              "model:\n"
                              "  d_model: 32\n"
                              "  n_layers: 4\n"
                              "  head_dim: 16\n"
                              "  ffn_width: [64, 64, 64, 64]  # drawn in a test\n"
                              "  n_heads: 2\n"
                              "  n_kv_heads: 2\n"
                              "  ffn_step: 16\n"
                              "  head_step: 1\n"
                              "  vocab: 257\n"
                              "data:\n"
                              "  train: train.bin\n"
                              "  val: val.bin\n"
                              "train:\n"
                              "  seq_len: 32\n"
                              "  micro_batch_size: 4\n"
                              "  global_batch_size: 4\n"
                              "  max_steps: 4000000\n" // far longer than the test
                              "  threads: 1\n"
                              "optim:\n"
                              "  lr: 1e-3\n"
                              "  warmup_steps: 10\n"
                              "eval:\n"
                              "  interval: 50\n"
                              "save:\n"
                              "  interval: 100000\n";

static void write_tokens(const char *name, int documents)
{
    struct err err = ERR_INIT;
    struct shard_writer *w = shard_create(t_path(name), &tokens_byte_meta, &err);

    assert_non_null(w);
    for (int d = 0; d < documents; d++) {
        uint16_t ids[100];

        for (int i = 0; i < 100; i++)
            ids[i] = (uint16_t)('a' + tokens_word(1, d * 100 + i, 26));
        assert_int_equal(shard_add(w, ids, 100, 100, &err), 0);
    }
    if (shard_commit(w, &err) < 0)
        fail_msg("%s", err.text);
}

static int setup(void **state)
{
    (void)state;
    write_tokens("train.bin", 500);
    write_tokens("val.bin", 20);
    setenv("LATHE_DATA", t_dir(), 1);
    setenv("LATHE_RUNS", t_path("runs"), 1);
    runs_set_dir(NULL);
    return 0;
}

static const char *program(void)
{
    const char *path = getenv("LATHE");

    return path ? path : "./lathe";
}

// ---- runs ---------------------------------------------------------------------------------------

static struct run_status status_of(const char *id)
{
    struct err err = ERR_INIT;
    struct run_status st;
    char dir[512];

    run_status_init(&st);
    if (run_find(id, dir, sizeof(dir), &err) == 0)
        run_read_status(dir, &st, &err);
    return st;
}

static bool is_state(const char *id, enum run_state s)
{
    return status_of(id).state == s;
}

static void assert_goes_on(const char *id)
{
    int64_t step = status_of(id).step;

    t_wait(status_of(id).step > step, 20);
    assert_true(is_state(id, RUN_RUNNING));
}

// Whatever a test left running ends here.
static int stop_all(void **state)
{
    struct run_status *list = NULL;
    struct err err = ERR_INIT;
    int n = 0;

    (void)state;
    runs_list(&list, &n, &err);
    for (int i = 0; i < n; i++)
        if (run_state_is_live(list[i].state) && list[i].pid > 1)
            kill(list[i].pid, SIGKILL);
    free(list);
    return 0;
}

// ---- a person at a terminal ---------------------------------------------------------------------

static struct pty *open_workbench(void)
{
    const char *argv[] = {program(), t_path("tiny.yaml"), NULL};
    struct pty *p = pty_start(argv, (const char *const[]){NULL}, 30, 100);

    pty_wait(p, "Design");
    return p;
}

// Braille cells between the axis and the numbers: a curve is there.
static bool shows_curve(struct pty *p)
{
    const char *text = pty_text(p);
    int dots = 0;

    // U+2801 .. U+28FF are E2 A0 81 .. E2 A3 BF
    for (const char *s = text; (s = strchr(s, '\xe2')) != NULL; s++)
        dots += (unsigned char)s[1] >= 0xa0 && (unsigned char)s[1] <= 0xa3;
    return dots > 10;
}

static bool saved_widths_are(const int want[4])
{
    struct spec *spec = calloc(1, sizeof(*spec));
    struct problems problems = {.n = 0};
    bool same = profile_load(t_path("tiny.yaml"), NULL, 0, spec, &problems) == 0;

    for (int i = 0; i < 4; i++)
        same = same && spec->model.lane[LANE_FFN][i] == want[i];
    problems_release(&problems);
    free(spec);
    return same;
}

static void draw_undo_save(struct pty *p)
{
    static const int want[4] = {80, 64, 96, 64};
    struct buf text = {.len = 0};

    pty_send(p, "k");    // layer 0: 64 -> 80
    pty_send(p, "llkk"); // layer 2: 64 -> 96
    pty_send(p, "lkk");  // layer 3: 64 -> 96
    pty_send(p, "uu");   // and back
    pty_send(p, "w");
    t_wait(saved_widths_are(want), 10);
    assert_int_equal(file_read(t_path("tiny.yaml"), 1 << 16, &text, NULL), 0);
    assert_non_null(strstr(text.data, "# drawn in a test")); // comments stay
    buf_release(&text);
}

static void whole_session_from_drawing_to_stopping(void **state)
{
    struct pty *p;

    (void)state;
    t_write(t_path("tiny.yaml"), profile);
    p = open_workbench();
    draw_undo_save(p);
    pty_send(p, "\r"); // Enter: what will be run
    pty_wait(p, "tiny-1");
    pty_send(p, "y");
    pty_wait(p, "RUNNING");
    t_wait((pty_pump(p, 10), shows_curve(p)), 30);
    pty_send(p, "q");
    assert_int_equal(pty_wait_exit(p), 0);
    pty_free(p);
    assert_goes_on("tiny-1");

    p = open_workbench();
    pty_send(p, "2");
    pty_wait(p, "RUNNING");
    pty_wait(p, "tiny-1");
    t_wait((pty_pump(p, 10), shows_curve(p)), 10);
    pty_send(p, "P");
    pty_wait(p, "PAUSED");
    assert_true(is_state("tiny-1", RUN_PAUSED));
    pty_send(p, "P");
    pty_wait(p, "RUNNING");
    pty_send(p, "S");
    pty_wait(p, "Stop this run?");
    pty_send(p, "y");
    pty_wait(p, "STOPPED");
    pty_send(p, "3");
    pty_wait(p, "- stopped  tiny-1");
    assert_true(is_state("tiny-1", RUN_STOPPED));

    pty_send(p, "R");
    pty_wait(p, "* running  tiny-1");
    assert_goes_on("tiny-1");
    pty_send(p, "\r");
    pty_wait(p, "RUNNING");
    pty_send(p, "S");
    pty_wait(p, "Stop this run?");
    pty_send(p, "y");
    pty_wait(p, "STOPPED");
    pty_send(p, "R"); // in Monitor too
    pty_wait(p, "RUNNING");
    assert_goes_on("tiny-1");
    pty_send(p, "q");
    assert_int_equal(pty_wait_exit(p), 0);
    pty_free(p);
}

static void lost_terminal_leaves_the_run_going(void **state)
{
    static const int signals[] = {SIGKILL, SIGHUP, SIGTERM};

    (void)state;
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        struct pty *p = open_workbench();

        pty_send(p, "2");
        pty_wait(p, "RUNNING");
        kill(pty_pid(p), signals[i]);
        pty_wait_exit(p);
        pty_free(p);
        assert_goes_on("tiny-1");
    }
}

static void narrow_terminals_and_resizes_show_the_run(void **state)
{
    struct pty *p = open_workbench();

    (void)state;
    pty_send(p, "2");
    pty_wait(p, "RUNNING");
    pty_resize(p, 10, 40);
    pty_wait(p, "tok/s");
    pty_resize(p, 60, 200);
    pty_wait(p, "gradient norm");
    pty_resize(p, 24, 80);
    pty_wait_gone(p, "gradient norm");
    pty_wait(p, "RUNNING");
    pty_send(p, "q");
    assert_int_equal(pty_wait_exit(p), 0);
    pty_free(p);
}

static int first(void **state)
{
    t_write(t_path("tiny.yaml"), profile);
    return setup(state);
}

int main(void)
{
    // in this order: the later ones look at the run of the first
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_session_from_drawing_to_stopping),
        cmocka_unit_test(lost_terminal_leaves_the_run_going),
        cmocka_unit_test(narrow_terminals_and_resizes_show_the_run),
    };

    return cmocka_run_group_tests(tests, first, stop_all);
}
