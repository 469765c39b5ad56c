// The part of a run that Monitor's charts show, the cursor with its values, the smoothed line.
#include "tests/t.h"

#include <math.h>

#include "engine/buf.h"
#include "tests/fake_run.h"
#include "tests/screens.h"
#include "tui/launch.h"
#include "tui/monitor.h"
#include "tui/monitor_state.h"
#include "tui/plot.h"

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

static void press(struct app *app, const char *keys)
{
    for (; *keys; keys++) {
        free(screen_text(&screen_monitor, app, 20, 80, true)); // the cursor moves by columns
        screen_monitor.command(app, keys_find(CTX_MONITOR, *keys == '\033' ? K_ESC
                                                           : *keys == 'L'  ? K_LEFT
                                                           : *keys == 'R'  ? K_RIGHT
                                                                           : *keys));
    }
}

static struct monitor *watch(struct app *app, int64_t steps)
{
    char dir[512];

    fake_run_make("a", RUN_DONE, steps, dir);
    monitor_watch(app, dir);
    return app->monitor;
}

// ---- the smoothed line --------------------------------------------------------------------------

static void smoothing_is_the_mean_of_the_records_before(void **state)
{
    enum { N = 5000, MOST = 64 };
    static double x[N], y[N];
    double sx[MOST], sy[MOST];
    struct pyramid p = {0};
    struct plot_series raw = {.x = x, .y = y, .n = N, .pyramid = &p};
    uint64_t seed = 1;

    (void)state;
    for (int i = 0; i < N; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = i * 3.0;
        y[i] = i % 97 == 0 ? NAN : (double)(seed >> 40);
    }
    pyramid_sync(&p, y, N, 0);
    for (int window = 1; window <= 1000; window *= 10) {
        int n = monitor_smooth(&raw, window, 3000, 9000, sx, sy, MOST);

        assert_in_range(n, MOST / 2, MOST);
        for (int k = 0; k < n; k++) {
            int i = (int)(sx[k] / 3), from = i + 1 > window ? i + 1 - window : 0, finite = 0;
            double sum = 0;

            assert_true(k == 0 || sx[k] > sx[k - 1]);
            for (int j = from; j <= i; j++)
                if (isfinite(y[j])) {
                    sum += y[j];
                    finite++;
                }
            assert_near(sy[k], sum / finite, 1e-9 * fabs(sum / finite));
        }
    }
    pyramid_release(&p);
}

static void the_legend_says_how_it_is_smoothed(void **state)
{
    struct app *app = *state;

    watch(app, 1099);
    press(app, "ee");
    screen_expect(&screen_monitor, app, 26, 120, true, "s mean of 100", true);
    screen_expect(&screen_monitor, app, 20, 80, true, "t train  s  o val", true);
    assert_true(strstr(app->message, "mean of the last 100 records") != NULL);
    press(app, "ee");
    screen_expect(&screen_monitor, app, 26, 120, true, "s mean of", false);
}

// ---- the cursor ---------------------------------------------------------------------------------

static void the_cursor_tells_the_records_values(void **state)
{
    struct app *app = *state;
    struct monitor *m = watch(app, 1099);
    char want[64], text[UNIT_SIZE];
    int64_t step;

    press(app, "L"); // at the newest point
    screen_expect(&screen_monitor, app, 20, 80, true, "step 1,099", true);
    press(app, "LLLLLLLLLLLL");
    step = (int64_t)floor(m->view.cursor * FAKE_TOTAL_STEPS + 1e-9);
    assert_in_range(step, 1, FAKE_TOTAL_STEPS - 1);
    snprintf(want, sizeof want, "step %s  t %.4g", unit_thousands(text, step),
             exp(m->follow.train.col[TRAIN_LOSS][step - 1]));
    screen_expect(&screen_monitor, app, 20, 80, true, want, true);
    press(app, "0");
    screen_expect(&screen_monitor, app, 20, 80, true, "nothing here yet", true);
    press(app, "\033");
    screen_expect(&screen_monitor, app, 20, 80, true, "nothing here yet", false);
}

// ---- the part that is shown ---------------------------------------------------------------------

static void zooming_keeps_the_cursor_where_it_is(void **state)
{
    struct app *app = *state;
    struct monitor *m = watch(app, 1099);
    double share, cursor;

    press(app, "LLLLLLLLLL");
    cursor = m->view.cursor;
    share = (cursor - m->view.from) / (m->view.to - m->view.from);
    for (int i = 1; i <= 8; i++) {
        press(app, "+");
        assert_near(m->view.to - m->view.from, pow(0.5, i), 1e-9);
        assert_near(m->view.cursor, cursor, 1e-12);
        assert_near((cursor - m->view.from) / (m->view.to - m->view.from), share, 1e-6);
    }
    for (int i = 0; i < 20; i++)
        press(app, "-");
    assert_true(monitor_view_is_whole(m));
    press(app, "++<<<<<<<<<<<<<<");
    assert_near(m->view.from, 0, 1e-12);
    assert_near(m->view.to, 0.25, 1e-12);
    press(app, "\033\033"); // the cursor, then the whole
    assert_true(monitor_view_is_whole(m));
}

// One record far above its neighbours is on the picture of its part, and the axis fits it.
static void a_part_shows_its_own_range(void **state)
{
    enum { N = 100000, SPIKE = 61234 };
    static double x[N], y[N];
    struct pyramid p = {0};
    struct plot_series s = {.x = x, .y = y, .n = N, .pyramid = &p, .role = ROLE_CURVE_A};
    struct plot plot = {.series = &s, .n_series = 1};
    struct plot_info info;
    struct canvas c;
    struct rect r = {0, 0, 20, 80};

    (void)state;
    for (int i = 0; i < N; i++) {
        x[i] = i;
        y[i] = i == SPIKE ? 50 : 1;
    }
    pyramid_sync(&p, y, N, 0);
    canvas_init(&c, 20, 80, true);
    for (double width = N; width > 10; width /= 3) {
        plot.x_min = fmax(0, SPIKE - width / 3);
        plot.x_max = plot.x_min + width;
        plot_draw(&plot, &c, &r, &info);
        assert_true(info.y_max >= 50);
        plot.x_min = SPIKE + 1;
        plot.x_max = SPIKE + 1 + width / 3;
        plot_draw(&plot, &c, &r, &info);
        assert_true(info.y_max < 3);
    }
    canvas_release(&c);
    pyramid_release(&p);
}

static void any_keys_in_any_order_draw(void **state)
{
    static const char keys[] = "+-<>eLR0$mxozgf\033";
    struct app *app = *state;
    uint32_t seed = 5;

    watch(app, 300);
    for (int i = 0; i < 4000; i++) {
        char key[2] = {0, 0};

        seed = seed * 1664525u + 1013904223u;
        key[0] = keys[(seed >> 10) % (sizeof keys - 1)];
        press(app, key);
        assert_true(app->monitor->view.from >= 0 && app->monitor->view.to <= 1 + 1e-12);
        assert_true(app->monitor->view.to > app->monitor->view.from);
        free(screen_text(&screen_monitor, app, i % 30 + 1, i % 120 + 1, i % 2));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smoothing_is_the_mean_of_the_records_before),
        cmocka_unit_test_setup_teardown(the_legend_says_how_it_is_smoothed, screen_setup, teardown),
        cmocka_unit_test_setup_teardown(the_cursor_tells_the_records_values, screen_setup, teardown),
        cmocka_unit_test_setup_teardown(zooming_keeps_the_cursor_where_it_is, screen_setup, teardown),
        cmocka_unit_test(a_part_shows_its_own_range),
        cmocka_unit_test_setup_teardown(any_keys_in_any_order_draw, screen_setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
