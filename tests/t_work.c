// What a key takes, counted: frames and bytes that the real program sends for it in every view, and how
// often an edit counts the model. Times are in bench_keys.
#include "tests/t.h"

#include <stdlib.h>

#include "engine/file.h"
#include "engine/run.h"
#include "tests/desk.h"
#include "tests/fake_run.h"
#include "tests/key_views.h"
#include "tui/design.h"

enum { ROUNDS = 3, QUIET_MS = 30, MOST_COUNTS = 3 };

static int frames_in(const struct buf *raw)
{
    static const char end[] = "\033[?2026l";
    int n = 0;

    for (const char *at = raw->data;
         raw->len && (at = memmem(at, (size_t)(raw->data + raw->len - at), end, sizeof end - 1)); at++)
        n++;
    return n;
}

// Until nothing has come for a while.
static void settle(struct pty *p)
{
    size_t before;

    do {
        before = pty_raw(p)->len;
        pty_pump(p, QUIET_MS);
    } while (pty_raw(p)->len != before);
}

static void expect_one_frame(struct pty *p, const struct key_view *v, const char *key,
                             size_t whole)
{
    buf_reset(pty_raw(p));
    pty_send(p, key);
    settle(p);
    // one more where a tick of the clock falls in between
    if (frames_in(pty_raw(p)) > (v->on_run ? 2 : 1))
        fail_msg("%s: %d frames for one key", v->name, frames_in(pty_raw(p)));
    if (pty_raw(p)->len > whole)
        fail_msg("%s: %zu bytes for one key, the whole screen has %zu", v->name, pty_raw(p)->len,
                 whole);
}

static void try_view(const struct key_view *v, const char *profile, const char *run, int rows,
                     int cols)
{
    const char *program = getenv("LATHE") ? getenv("LATHE") : "./lathe";
    const char *const on_profile[] = {program, profile, NULL};
    const char *const on_run[] = {program, "--run", run, NULL};
    struct pty *p = pty_start(v->on_run ? on_run : on_profile, NULL, rows, cols);
    size_t whole;

    key_view_open(p, v);
    settle(p);
    buf_reset(pty_raw(p));
    pty_send(p, "\f"); // Ctrl-L paints all of it
    settle(p);
    whole = pty_raw(p)->len;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; v->keys[i]; i++)
            expect_one_frame(p, v, v->keys[i], whole);
    pty_free(p);
}

static void a_key_is_one_frame_in_every_view(void **state)
{
    static const int sizes[][2] = {{24, 80}, {60, 200}};

    (void)state;
    key_views_profile(t_path("deep.yaml"), 126);
    key_views_runs(t_path("deep.yaml"), 126);
    for (int s = 0; s < 2; s++)
        for (int v = 0; v < key_view_count; v++)
            try_view(&key_views[v], t_path("deep.yaml"), "bench126-1", sizes[s][0], sizes[s][1]);
}

// ---- bytes of a watched run ---------------------------------------------------------------------

static struct pty *watch(const char *run, int rows, int cols)
{
    const char *program = getenv("LATHE") ? getenv("LATHE") : "./lathe";
    const char *const argv[] = {program, "--run", run, NULL};
    struct pty *p = pty_start(argv, NULL, rows, cols);

    pty_wait(p, run);
    settle(p);
    return p;
}

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

// Bytes of the pictures of a run that logs five steps between them.
static void expect_frames(int rows, int cols, int most_median, int most)
{
    enum { FRAMES = 20 };
    char dir[512], id[32];
    struct pty *p;
    int bytes[FRAMES], step = 433;

    snprintf(id, sizeof id, "live-%d", cols);
    fake_run_make(id, RUN_RUNNING, step, dir);
    p = watch(id, rows, cols);
    for (int i = 0; i < FRAMES; i++) {
        buf_reset(pty_raw(p));
        fake_run_grow(dir, RUN_RUNNING, step, step + 5);
        step += 5;
        t_wait((pty_pump(p, 20), frames_in(pty_raw(p)) > 0), 10);
        settle(p);
        bytes[i] = (int)pty_raw(p)->len / frames_in(pty_raw(p));
    }
    pty_free(p);
    fake_run_unlock();
    qsort(bytes, FRAMES, sizeof *bytes, by_value);
    printf("# %dx%d: median %d, most %d bytes a picture\n", cols, rows, bytes[FRAMES / 2],
           bytes[FRAMES - 1]);
    assert_in_range(bytes[FRAMES / 2], 1, most_median);
    assert_in_range(bytes[FRAMES - 1], 1, most);
}

static void watching_a_run_takes_few_bytes(void **state)
{
    (void)state;
    expect_frames(30, 100, 500, 1200);
    expect_frames(60, 200, 750, 1800);
}

static void a_whole_screen_is_small(void **state)
{
    static const struct {
        int rows, cols;
        size_t most;
    } sizes[] = {{30, 100, 8192}, {60, 200, 30720}};
    char dir[512];

    (void)state;
    fake_run_make("whole-1", RUN_DONE, 1099, dir);
    for (int i = 0; i < 2; i++) {
        struct pty *p = watch("whole-1", sizes[i].rows, sizes[i].cols);

        buf_reset(pty_raw(p));
        pty_send(p, "\f");
        settle(p);
        assert_in_range(pty_raw(p)->len, 1, sizes[i].most);
        pty_free(p);
    }
}

// ---- nothing to do ------------------------------------------------------------------------------

static long wake_ups(int pid)
{
    char path[64];
    struct buf text = {0};
    const char *at;
    long n;

    snprintf(path, sizeof path, "/proc/%d/status", pid);
    assert_int_equal(file_read(path, 1 << 16, &text, NULL), 0);
    at = strstr(text.data, "\nvoluntary_ctxt_switches:");
    assert_non_null(at);
    n = strtol(strchr(at, ':') + 1, NULL, 10);
    buf_release(&text);
    return n;
}

// Until a stretch of WATCH_MS passes without a byte and without a wake-up: what an action set in
// motion has ended then. Something that wakes for ever never lets it pass.
static void expect_rest(struct pty *p, const char *what)
{
    enum { WATCH_MS = 700, ROUNDS_MOST = 12 };

    for (int round = 0; round < ROUNDS_MOST; round++) {
        long before = wake_ups(pty_pid(p));

        buf_reset(pty_raw(p));
        pty_pump(p, WATCH_MS);
        if (pty_raw(p)->len == 0 && wake_ups(pty_pid(p)) == before)
            return;
    }
    fail_msg("%s never rests", what);
}

static void where_nothing_moves_nothing_wakes(void **state)
{
    char dir[512];
    struct pty *p;

    (void)state;
    fake_run_make("rest-1", RUN_DONE, 1099, dir);
    p = watch("rest-1", 30, 100);
    expect_rest(p, "a run that is done");
    pty_send(p, "1");
    pty_wait(p, "[1 Design]");
    expect_rest(p, "Design");
    pty_send(p, "k");
    pty_wait(p, "[+]");
    expect_rest(p, "Design after an edit");
    pty_free(p);
}

static void an_edit_counts_the_model_a_few_times(void **state)
{
    static const char *const edits[] = {"k", "j", "r", "~", "u", "l", "\t", "v", "L", "K", "y"};
    char why[DESIGN_WHY];

    (void)state;
    for (int held = 0; held < 2; held++) {
        key_views_profile(t_path("deep.yaml"), 126);
        desk_open(t_path("deep.yaml"));
        if (held) {
            assert_true(design_set_budget(desk_app.design, "params reference", why));
            desk_keys("B");
        }
        for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
            long before = desk_app.design->counts;

            desk_keys(edits[i]);
            if (desk_app.design->counts - before > MOST_COUNTS)
                fail_msg("'%s' counts the model %ld times", edits[i],
                         desk_app.design->counts - before);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_one_frame_in_every_view),
        cmocka_unit_test(watching_a_run_takes_few_bytes),
        cmocka_unit_test(a_whole_screen_is_small),
        cmocka_unit_test(where_nothing_moves_nothing_wakes),
        cmocka_unit_test(an_edit_counts_the_model_a_few_times),
    };

    desk_setup();
    setenv("LATHE_RUNS", t_path("runs"), 1);
    return cmocka_run_group_tests(tests, NULL, desk_release);
}
