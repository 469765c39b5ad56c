// The Monitor's view of the layers: what stands in a run's log is what stands on the screen.
#include "tests/t.h"

#include <math.h>

#include "engine/buf.h"
#include "engine/profile.h"
#include "tests/fake_run.h"
#include "tests/screens.h"
#include "tui/launch.h"
#include "tui/monitor.h"
#include "tui/monitor_state.h"

static int teardown(void **state)
{
    struct app *app = *state;

    monitor_free(app->monitor);
    launch_free(app->launch);
    free(app);
    fake_run_unlock();
    runs_set_dir(NULL);
    return 0;
}

static void load(const char *file, const char *set, struct spec *s)
{
    struct problems p = {0};

    if (profile_load(file, &set, set ? 1 : 0, s, &p) < 0) {
        problems_print(&p, stderr);
        fail_msg("%s", file);
    }
    problems_release(&p);
}

// An array of n numbers base + slope * gate, mirrored.
static json_t *mirrored(int n, double base, double slope)
{
    json_t *a = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(a, json_real(base + slope * (i < n / 2 ? i : n - 1 - i)));
    return a;
}

// A training record with coefficients, then an evaluation; sparsity 0.1 per gate and `more`.
static void evaluate(const char *dir, int64_t step, int layers, double more)
{
    fake_run_record(dir,
                    json_pack("{s:I, s:f, s:f, s:o, s:o}", "step", (json_int_t)step - 1, "time",
                              1e9, "train/loss", 1., "reg/alpha", mirrored(layers, -0.25, -0.125),
                              "reg/beta", mirrored(layers, 0.5, 0.25)));
    fake_run_record(
        dir, json_pack("{s:I, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o}", "step",
                       (json_int_t)step, "time", 1e9, "val/loss", log(7.25), "val/ppl", 7.25,
                       "val/sparsity", 0.1 + more, "gate/mean", mirrored(layers, 0.875, -0.0625),
                       "gate/var", mirrored(layers, 0.125, 0.03125), "gate/sparsity",
                       mirrored(layers, more, 0.1), "gate/closed", mirrored(layers, 0.5, 0.125),
                       "gate/over", mirrored(layers, 0.25, 0), "resid/norm",
                       mirrored(layers, 12.5, 1.25)));
}

static void watch(struct app *app, const struct spec *s, int evaluations)
{
    char dir[512];

    fake_run_make_of(s, "gated", RUN_DONE, 0, dir);
    for (int i = 1; i <= evaluations; i++)
        evaluate(dir, 100 * i, s->model.n_layers, 0.01 * i);
    monitor_watch(app, dir);
    screen_monitor.command(app, CMD_LAYERS);
}

static void see(struct app *app, int rows, int cols, const char *want)
{
    screen_expect(&screen_monitor, app, rows, cols, true, want, true);
}

// ---- gates --------------------------------------------------------------------------------------

static void each_gate_has_its_column(void **state)
{
    struct app *app = *state;
    struct spec s;

    load("profiles/demo/gated.yaml", NULL, &s);
    watch(app, &s, 3);
    see(app, 26, 100, "layers         0 5      1 4      2 3\n");
    see(app, 26, 100, "mean gate    0.875    0.812    0.750\n");
    see(app, 26, 100, "  target     1.000    0.750    0.500\n");
    see(app, 26, 100, "variance     0.125    0.156    0.188\n");
    see(app, 26, 100, "  target     0.000    0.188    0.250\n"); // mu (1 - mu)
    see(app, 26, 100, "alpha       -0.250   -0.375   -0.500\n");
    see(app, 26, 100, "beta         0.500    0.750    1.000\n");
    see(app, 26, 100, "sparsity     3.0 %   13.0 %   23.0 %\n");
    see(app, 26, 100, "unit shut   50.0 %   62.5 %   75.0 %\n");
    see(app, 26, 100, "beyond 1    25.0 %   25.0 %   25.0 %\n");
    see(app, 26, 100, "control   mean off mean off mean off\n");
    see(app, 26, 100, "not converged: layer 0 mean 0.125 below its target, and 2 more");
}

static void small_screens_keep_what_matters(void **state)
{
    struct app *app = *state;
    struct spec s;

    load("profiles/demo/gated.yaml", NULL, &s);
    watch(app, &s, 12);
    see(app, 20, 80, "mean gate    0.875    0.812    0.750\n");
    see(app, 20, 80, "alpha       -0.250   -0.375   -0.500\n");
    see(app, 20, 80, "sparsity    12.0 %");
    see(app, 20, 80, "1,200 ");
    screen_expect(&screen_monitor, app, 20, 80, true, "unit shut", false);
    see(app, 7, 40, "1,200 ");
    for (int rows = 1; rows < 30; rows += 3)
        for (int cols = 1; cols < 120; cols += 7)
            free(screen_text(&screen_monitor, app, rows, cols, rows % 2));
}

// Twelve evaluations in seven rows: none is left out at the end, the newest is last.
static void time_runs_down(void **state)
{
    struct app *app = *state;
    struct spec s;
    char *text;

    load("profiles/demo/gated.yaml", NULL, &s);
    watch(app, &s, 12);
    see(app, 56, 145,
        "100 ░    1.0 ░   11.0 ░   21.0 ░   21.0 ░   11.0 ░    1.0     11.0 %      7.25");
    see(app, 56, 145,
        "1,200 ░   12.0 ░   22.0 ▒   32.0 ▒   32.0 ░   22.0 ░   12.0     22.0 %      7.25");
    text = screen_text(&screen_monitor, app, 20, 80, true);
    assert_true(strstr(text, "1,200 ░") > strstr(text, "900 ░"));
    assert_null(strstr(text, " 100 ░"));
    free(text);
    screen_monitor.command(app, CMD_ZOOM); // the newer half: from 700 on
    text = screen_text(&screen_monitor, app, 56, 140, true);
    assert_non_null(strstr(text, "700 ░"));
    assert_null(strstr(text, "600 ░"));
    assert_non_null(strstr(text, "last 1/2"));
    free(text);
}

static void metrics_follow_each_other(void **state)
{
    static const char *const order[] = {
        "mean gate  0.000 ·░▒▓█ 1.000   layer 1: 0.812", "variance  0.000 ·░▒▓█ 0.250",
        "alpha  -0.500 ·░▒▓█ 0.000   layer 1: -0.375",   "beta  0.000 ·░▒▓█ 1.000",
        "stream norm  0 ·░▒▓█ 15   layer 1: 13.75",      "sparsity  0.0 % ·░▒▓█ 100.0 %"};
    struct app *app = *state;
    struct spec s;

    load("profiles/demo/gated.yaml", NULL, &s);
    watch(app, &s, 3);
    screen_monitor.command(app, CMD_RIGHT);
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        screen_monitor.command(app, CMD_METRIC);
        see(app, 26, 100, order[i]);
    }
    screen_monitor.command(app, CMD_LAYERS); // and back to the curves
    see(app, 26, 100, "perplexity  log y");
}

static void many_layers_are_a_window_around_the_cursor(void **state)
{
    struct app *app = *state;
    struct spec s;

    load("profiles/demo/gated.yaml", "model.n_layers=36", &s);
    watch(app, &s, 3);
    see(app, 20, 80, "layers        0 35     1 34     2 33     3 32     4 31     5 30     6 29 >");
    for (int i = 0; i < 17; i++)
        screen_monitor.command(app, CMD_RIGHT);
    see(app, 20, 80, "16 19    17 18\n");
    see(app, 20, 80, "layer 17: ");
    for (int i = 0; i < 50; i++)
        screen_monitor.command(app, CMD_RIGHT);
    see(app, 20, 80, "layer 35: 3.0 %");
    see(app, 20, 80, "300 ░"); // one column each
    load("profiles/demo/gated.yaml", "model.n_layers=128", &s);
    monitor_free(app->monitor);
    app->monitor = NULL;
    runs_set_dir(t_path("many"));
    watch(app, &s, 3);
    see(app, 20, 80, "300 "); // several layers in a column
}

static void gates_without_control_have_no_targets(void **state)
{
    struct app *app = *state;
    struct spec s;

    load("profiles/demo/gated-open.yaml", NULL, &s);
    watch(app, &s, 3);
    see(app, 26, 100, "gates without control");
    see(app, 26, 100, "  target         —        —        —\n");
    screen_expect(&screen_monitor, app, 26, 100, true, "converged", false);
}

// ---- others -------------------------------------------------------------------------------------

static void dense_runs_show_their_norms(void **state)
{
    struct app *app = *state;
    char dir[512];

    fake_run_make("dense", RUN_DONE, 0, dir);
    fake_run_record(dir, json_pack("{s:i, s:f, s:f, s:f, s:[f,f,f]}", "step", 100, "time", 1e9,
                                   "val/loss", 2., "val/ppl", exp(2), "resid/norm", 10., 15., 20.));
    monitor_watch(app, dir);
    screen_monitor.command(app, CMD_LAYERS);
    see(app, 20, 80, "stream norm  0 ·░▒▓█ 20");
    see(app, 20, 80, "100 ▓     10 █     15 █     20         15      7.39");
    screen_expect(&screen_monitor, app, 20, 80, true, "control", false);
}

static void a_run_without_evaluations_says_so(void **state)
{
    struct app *app = *state;
    struct spec s;

    load("profiles/demo/gated.yaml", NULL, &s);
    watch(app, &s, 0);
    see(app, 20, 80, "nothing is known of the layers yet");
    see(app, 20, 80, "control proportional: not known yet");
    see(app, 20, 80, "mean gate        —        —        —\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_gate_has_its_column, screen_setup, teardown),
        cmocka_unit_test_setup_teardown(small_screens_keep_what_matters, screen_setup, teardown),
        cmocka_unit_test_setup_teardown(time_runs_down, screen_setup, teardown),
        cmocka_unit_test_setup_teardown(metrics_follow_each_other, screen_setup, teardown),
        cmocka_unit_test_setup_teardown(many_layers_are_a_window_around_the_cursor, screen_setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(gates_without_control_have_no_targets, screen_setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(dense_runs_show_their_norms, screen_setup, teardown),
        cmocka_unit_test_setup_teardown(a_run_without_evaluations_says_so, screen_setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
