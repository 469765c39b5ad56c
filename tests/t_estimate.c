// What training would cost, measured from the Design screen.
#include "tests/t.h"

#include <stdio.h>

#include "engine/buf.h"
#include "tests/desk.h"
#include "tui/design.h"
#include "tui/estimate.h"

static const char profile[] = "model:\n"
                              "  d_model: 32\n"
                              "  n_layers: 4\n"
                              "  head_dim: 16\n"
                              "  ffn_width: [64, 128, 128, 64]\n"
                              "  n_heads: 2\n"
                              "  ffn_step: 16\n"
                              "  vocab: 257\n"
                              "train:\n"
                              "  seq_len: 32\n"
                              "  micro_batch_size: 2\n"
                              "  global_batch_size: 2\n"
                              "  max_steps: 1000\n"
                              "  threads: 1\n";

static bool words(char *out, size_t size)
{
    return estimate_words(&desk_app, out, size);
}

static void measure(void)
{
    desk_keys("t");
    assert_true(estimate_busy(&desk_app));
    assert_in_range(app_wait_ms(&desk_app), 1, 500); // the loop looks for the end
    t_wait((app_tick(&desk_app), !estimate_busy(&desk_app)), 60);
}

static void open_tiny(void)
{
    t_write(t_path("tiny.yaml"), profile);
    desk_open(t_path("tiny.yaml"));
}

static void a_measured_design_says_what_it_costs(void **state)
{
    char text[256];
    double speed;

    (void)state;
    open_tiny();
    assert_false(words(text, sizeof text));
    assert_non_null(strstr(text, "t measures"));
    assert_int_equal(app_wait_ms(&desk_app), -1); // nothing moves
    measure();
    assert_true(words(text, sizeof text));
    assert_int_equal(sscanf(text, "%lf", &speed), 1);
    assert_true(speed > 0);
    assert_non_null(strstr(text, "tok/s  run "));
    assert_non_null(strstr(text, "cpu, +-20%"));
    desk_draw(30, 100, true);
    assert_true(desk_shows(text));
    assert_int_equal(app_wait_ms(&desk_app), -1);
}

static void an_edit_makes_it_another_design(void **state)
{
    char text[256];

    (void)state;
    open_tiny();
    measure();
    desk_keys("k");
    assert_false(words(text, sizeof text));
    desk_keys("u");
    assert_true(words(text, sizeof text));
}

static void measuring_can_be_stopped(void **state)
{
    char text[256];

    (void)state;
    open_tiny();
    desk_keys("tt");
    assert_false(estimate_busy(&desk_app));
    assert_false(words(text, sizeof text));
    desk_keys("t");
    app_release(&desk_app); // leaving meanwhile joins the thread
    app_init(&desk_app);
}

static void what_does_not_fit_is_said_at_once(void **state)
{
    static const char giant[] = "model:\n"
                                "  d_model: 16384\n"
                                "  n_layers: 126\n"
                                "  head_dim: 128\n"
                                "  ffn_width: 53248\n"
                                "  n_heads: 128\n"
                                "  n_kv_heads: 8\n"
                                "  ffn_step: 256\n"
                                "  vocab: 128256\n";
    char text[256];

    (void)state;
    t_write(t_path("giant.yaml"), giant);
    desk_open(t_path("giant.yaml"));
    measure();
    assert_true(words(text, sizeof text));
    assert_non_null(strstr(text, "does not fit: needs "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_measured_design_says_what_it_costs),
        cmocka_unit_test(an_edit_makes_it_another_design),
        cmocka_unit_test(measuring_can_be_stopped),
        cmocka_unit_test(what_does_not_fit_is_said_at_once),
    };

    desk_setup();
    return cmocka_run_group_tests(tests, NULL, desk_release);
}
