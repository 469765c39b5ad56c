// What a key takes, counted: frames and bytes that the real program sends for it in every view, and how
// often an edit counts the model. Times are in bench_keys.
#include "tests/t.h"

#include <stdlib.h>

#include "engine/run.h"
#include "tests/desk.h"
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
        cmocka_unit_test(an_edit_counts_the_model_a_few_times),
    };

    desk_setup();
    setenv("LATHE_RUNS", t_path("runs"), 1);
    return cmocka_run_group_tests(tests, NULL, desk_release);
}
