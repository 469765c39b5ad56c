// The Runs screen drawn from run directories, what its keys do, and a thousand runs.
#include "tests/t.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/file.h"
#include "tests/fake_run.h"
#include "tests/screens.h"
#include "tui/app.h"
#include "tui/runs_state.h"
#include "tui/runs_view.h"

static int teardown(void **state)
{
    struct app *app = *state;

    runs_view_free(app->runs);
    free(app);
    fake_run_unlock();
    runs_set_dir(NULL);
    return 0;
}

static void make_one_of_each(void)
{
    char dir[512];

    fake_run_make("done-1", RUN_DONE, 1099, dir);
    fake_run_make("failed-1", RUN_FAILED, 433, dir);
    fake_run_make("stopped-1", RUN_STOPPED, 500, dir);
    fake_run_make("lost-1", RUN_RUNNING, 250, dir);
    fake_run_unlock(); // nobody holds its lock
    fake_run_make("live-1", RUN_RUNNING, 300, dir);
    fake_run_make("paused-1", RUN_PAUSED, 350, dir);
    fake_run_make("new-1", RUN_NEW, 0, dir);
}

static const char *under_cursor(struct app *app)
{
    return runs_selected(app->runs)->status.id;
}

static void move_to(struct app *app, const char *id)
{
    screen_runs.command(app, CMD_FIRST);
    for (int i = 0; i < app->runs->index.n && strcmp(under_cursor(app), id); i++)
        screen_runs.command(app, CMD_DOWN);
    assert_string_equal(under_cursor(app), id);
    screen_runs.tick(app);
}

// ---- what is shown ------------------------------------------------------------------------------

static void states_differ_without_colour(void **state)
{
    struct app *app = *state;
    static const char *const want[] = {
        "+ done     done-1", "! failed   failed-1", "- stopped  stopped-1", "? lost     lost-1",
        "* running  live-1", "= paused   paused-1", ". new      new-1"};

    make_one_of_each();
    screen_runs.enter(app);
    for (size_t k = 1; k < SCREEN_SIZES; k++)
        for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
            screen_expect(&screen_runs, app, screen_sizes[k].rows, screen_sizes[k].cols, k % 2,
                          want[i], true);
    screen_expect(&screen_runs, app, 7, 40, false, "* running", true);
    screen_expect(&screen_runs, app, 26, 100, true, "1 running  1 paused  1 failed  1 lost", true);
}

static void row_shows_shape_progress_and_results(void **state)
{
    struct app *app = *state;
    char dir[512], want[64];

    fake_run_make("a", RUN_STOPPED, 550, dir);
    screen_runs.enter(app);
    snprintf(want, sizeof(want), "%.2f", exp(fake_run_loss(500) + 0.05));
    for (size_t k = 0; k < SCREEN_SIZES; k++) {
        screen_expect(&screen_runs, app, screen_sizes[k].rows, screen_sizes[k].cols, true, want,
                      true);
        screen_expect(&screen_runs, app, screen_sizes[k].rows, screen_sizes[k].cols, true, "50 %",
                      true);
    }
    snprintf(want, sizeof(want), "%.3f", (fake_run_loss(500) + 0.05) / M_LN2);
    screen_expect(&screen_runs, app, 20, 80, true, want, true);
    screen_expect(&screen_runs, app, 20, 80, true, "1.387M", true);
    screen_expect(&screen_runs, app, 20, 80, true, "over 262,144 tokens", true);
    // the demo profile: FFN widths 384 224 320 448 512 320 ... as tiny bars, widest 512 wide ends
    screen_expect(&screen_runs, app, 20, 80, false, "#", true);
}

static void shape_text_is_relative_to_the_widest(void **state)
{
    int widths[] = {512, 256, 64, 512};
    char out[128];

    (void)state;
    runs_shape_text(widths, 4, 10, false, out, sizeof(out));
    assert_string_equal(out, "#=.#");
    runs_shape_text(widths, 4, 10, true, out, sizeof(out));
    assert_string_equal(out, "▇▄▁▇");
    runs_shape_text(widths, 4, 2, false, out, sizeof(out)); // the larger of each pair
    assert_string_equal(out, "##");
    runs_shape_text(widths, 0, 5, false, out, sizeof(out));
    assert_string_equal(out, "");
}

static void empty_list_says_how_to_start(void **state)
{
    struct app *app = *state;

    screen_runs.enter(app);
    for (size_t k = 0; k < SCREEN_SIZES; k++)
        screen_expect(&screen_runs, app, screen_sizes[k].rows, screen_sizes[k].cols, true,
                      "lathe train", true);
    assert_true(screen_runs.command(app, CMD_DELETE));
    assert_string_equal(app->message, "there is no run yet");
    assert_false(screen_runs.tick(app));
}

static void failure_is_told_in_full(void **state)
{
    struct app *app = *state;

    make_one_of_each();
    screen_runs.enter(app);
    move_to(app, "failed-1");
    screen_expect(&screen_runs, app, 26, 100, true, "loss is not a number at step 433; first bad",
                  true);
    screen_expect(&screen_runs, app, 26, 100, true,
                  "tensor layers.5.ffn.w2; last good checkpoint:", true);
    screen_expect(&screen_runs, app, 26, 100, true, "checkpoint 400", true);
    screen_expect(&screen_runs, app, 26, 100, true, "R continues", true);
    screen_expect(&screen_runs, app, 26, 100, true, "perplexity  log y", true); // its curve
}

static void damaged_run_is_listed_with_the_reason(void **state)
{
    struct app *app = *state;
    char dir[512], path[600];

    fake_run_make("a", RUN_DONE, 1099, dir);
    snprintf(path, sizeof(path), "%s/status.json", dir);
    t_write(path, "{\"state\": ");
    screen_runs.enter(app);
    screen_expect(&screen_runs, app, 20, 80, true, "! failed   a", true);
    screen_expect(&screen_runs, app, 20, 80, true, "is damaged", true);
}

static void every_size_down_to_one_cell_draws(void **state)
{
    struct app *app = *state;

    make_one_of_each();
    screen_runs.enter(app);
    screen_runs.tick(app);
    for (int rows = 1; rows < 45; rows += rows < 8 ? 1 : 5)
        for (int cols = 1; cols < 170; cols += cols < 12 ? 1 : 13)
            free(screen_text(&screen_runs, app, rows, cols, (rows + cols) % 2));
}

// ---- keys ---------------------------------------------------------------------------------------

static void cursor_stays_on_its_run(void **state)
{
    struct app *app = *state;
    char dir[512];

    make_one_of_each();
    screen_runs.enter(app);
    free(screen_text(&screen_runs, app, 20, 80, true));
    move_to(app, "failed-1");
    fake_run_make("newest", RUN_DONE, 1099, dir);
    app->runs->index.listed = 0;
    assert_true(screen_runs.tick(app));
    assert_string_equal(under_cursor(app), "failed-1");
    for (int i = 0; i < SORT_COUNT; i++) {
        screen_runs.command(app, CMD_SORT);
        assert_string_equal(under_cursor(app), "failed-1");
    }
    file_remove_tree(dir, NULL);
    app->runs->index.listed = 0;
    screen_runs.tick(app);
    assert_string_equal(under_cursor(app), "failed-1");
}

static void sorting_orders_by_the_named_column(void **state)
{
    struct app *app = *state;

    make_one_of_each();
    screen_runs.enter(app);
    assert_string_equal(app->runs->index.entry[0]->status.id, "new-1");
    screen_runs.command(app, CMD_SORT); // state: live first, done last
    screen_expect(&screen_runs, app, 20, 80, true, "sorted by state", true);
    assert_string_equal(app->runs->index.entry[0]->status.id, "live-1");
    assert_string_equal(app->runs->index.entry[6]->status.id, "done-1");
    screen_runs.command(app, CMD_SORT_BACK);
    screen_expect(&screen_runs, app, 20, 80, true, "sorted by age", true);
    runs_index_sort(&app->runs->index, SORT_PPL); // best first, unknown last
    assert_string_equal(app->runs->index.entry[0]->status.id, "done-1");
    assert_string_equal(app->runs->index.entry[6]->status.id, "new-1");
}

static void wrong_orders_are_refused_in_words(void **state)
{
    struct app *app = *state;

    make_one_of_each();
    screen_runs.enter(app);
    move_to(app, "live-1");
    screen_runs.command(app, CMD_DELETE);
    assert_string_equal(app->message, "live-1 is running: stop it first (Enter, then S)");
    screen_runs.command(app, CMD_RESUME_RUN);
    assert_string_equal(app->message, "live-1 is running already");
    move_to(app, "done-1");
    screen_runs.command(app, CMD_RESUME_RUN);
    assert_non_null(strstr(app->message, "reached its end"));
}

// ---- many runs ----------------------------------------------------------------------------------

static void make_small(int i)
{
    char path[700], text[256];

    snprintf(path, sizeof(path), "%s/r%04d", runs_dir(), i);
    assert_int_equal(file_mkdirs(path, 0700, NULL), 0);
    strcat(path, "/status.json");
    snprintf(text, sizeof(text),
             "{\"v\":1,\"id\":\"r%04d\",\"state\":\"done\",\"step\":10,\"total_steps\":10,"
             "\"tokens\":100,\"total_tokens\":100,\"val/ppl\":%d.5,\"started\":%d}",
             i, i, 1000000 + i);
    t_write(path, text);
}

static void thousand_runs_are_read_once(void **state)
{
    struct app *app = *state;
    double begin, first, again;

    for (int i = 0; i < 1000; i++)
        make_small(i);
    begin = t_now();
    screen_runs.enter(app);
    free(screen_text(&screen_runs, app, 56, 200, true));
    first = t_now() - begin;
    assert_int_equal(app->runs->index.n, 1000);
    assert_int_equal(app->runs->index.reads, 1000);
    assert_string_equal(app->runs->index.entry[0]->status.id, "r0999");
    begin = t_now();
    for (int i = 0; i < 20; i++)
        runs_index_poll(&app->runs->index);
    again = (t_now() - begin) / 20;
    assert_int_equal(app->runs->index.reads, 1000); // nothing changed, nothing read
    print_message("1000 runs: first %.1f ms, a poll %.2f ms\n", first * 1e3, again * 1e3);
}

static void changed_status_is_noticed(void **state)
{
    struct app *app = *state;
    char dir[512];

    fake_run_make("a", RUN_STOPPED, 300, dir);
    screen_runs.enter(app);
    fake_run_grow(dir, RUN_STOPPED, 300, 400);
    assert_true(screen_runs.tick(app));
    screen_expect(&screen_runs, app, 20, 80, true, "step 400 of", true);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, screen_setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(states_differ_without_colour),
        TEST(row_shows_shape_progress_and_results),
        TEST(shape_text_is_relative_to_the_widest),
        TEST(empty_list_says_how_to_start),
        TEST(failure_is_told_in_full),
        TEST(damaged_run_is_listed_with_the_reason),
        TEST(every_size_down_to_one_cell_draws),
        TEST(cursor_stays_on_its_run),
        TEST(sorting_orders_by_the_named_column),
        TEST(wrong_orders_are_refused_in_words),
        TEST(thousand_runs_are_read_once),
        TEST(changed_status_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
