// Edits of whole spans, digits, gates and the history, as typed in the workbench.
#include "tests/t.h"

#include <math.h>

#include "engine/profile.h"
#include "tests/desk.h"
#include "tui/design.h"

static const char profile[] = "model:\n"
                              "  d_model: 256\n"
                              "  n_layers: 8\n"
                              "  head_dim: 32\n"
                              "  ffn_width: [64, 128, 192, 256, 320, 384, 640, 512]\n"
                              "  n_heads: 8\n"
                              "  ffn_step: 64\n"
                              "  vocab: 257\n";

static void open_small(void)
{
    t_write(t_path("small.yaml"), profile);
    desk_open(t_path("small.yaml"));
    desk_draw(30, 100, true);
}

static void expect_widths(const int *want)
{
    for (int i = 0; i < 8; i++)
        if (desk_app.design->spec.model.lane[LANE_FFN][i] != want[i])
            fail_msg("layer %d: %d, not %d", i, desk_app.design->spec.model.lane[LANE_FFN][i],
                     want[i]);
}
#define WIDTHS(...) expect_widths((const int[]){__VA_ARGS__})

static void without_a_selection_the_whole_lane_is_meant(void **state)
{
    (void)state;
    open_small();
    desk_keys("r");
    WIDTHS(512, 640, 384, 320, 256, 192, 128, 64);
    desk_keys("uM");
    WIDTHS(64, 128, 192, 256, 256, 192, 128, 64);
    desk_keys("ui");
    WIDTHS(64, 128, 192, 256, 320, 384, 448, 512);
    desk_keys("u~"); // 6: (384 + 1280 + 512) / 4 = 544, to 512 (nearer than 576? 32 each: smaller)
    WIDTHS(64, 128, 192, 256, 320, 448, 512, 512);
    desk_keys("u");
    WIDTHS(64, 128, 192, 256, 320, 384, 640, 512);
    assert_int_equal(desk_app.design->at, 0);
}

static void a_selection_is_all_that_moves(void **state)
{
    (void)state;
    open_small();
    desk_keys("llvllr"); // 2-4
    WIDTHS(64, 128, 320, 256, 192, 384, 640, 512);
    desk_keys("r");
    WIDTHS(64, 128, 192, 256, 320, 384, 640, 512);
    desk_keys("i");
    assert_true(strstr(desk_app.message, "already") != NULL);
    assert_int_equal(desk_app.design->at, 2);
}

static void copies_go_where_the_cursor_is(void **state)
{
    (void)state;
    open_small();
    desk_keys("vlly"); // 64 128 192
    desk_keys("\033$hp");
    WIDTHS(64, 128, 192, 256, 320, 384, 64, 128); // the third has no layer
    assert_true(strstr(desk_app.message, "the last 1 of 3") != NULL);
    desk_keys("u0vllllp"); // stretched over 0-4
    WIDTHS(64, 64, 128, 128, 192, 384, 640, 512);
    desk_keys("\033\tp");
    assert_true(strstr(desk_app.message, "ffn width, this lane is heads") != NULL);
}

static void lists_of_numbers_are_copies(void **state)
{
    struct design_copy c;

    (void)state;
    open_small();
    assert_true(design_copy_parse(desk_app.design, " [2304, 2048, 1024]\n", &c));
    assert_int_equal(c.n, 3);
    assert_int_equal(c.lane, LANE_FFN);
    assert_near(c.v[1], 2048, 0);
    assert_true(design_copy_parse(desk_app.design, "n_heads: [9, 12]", &c));
    assert_int_equal(c.lane, LANE_HEADS);
    assert_false(design_copy_parse(desk_app.design, "[1, two]", &c));
    assert_false(design_copy_parse(desk_app.design, "", &c));
    assert_false(design_copy_parse(desk_app.design, "ffn_width: {shape: crown}", &c));
}

static void digits_draw_tenths_of_the_scale(void **state)
{
    (void)state;
    open_small(); // the scale ends at 640
    desk_keys("lD15.9");
    desk_draw(30, 100, true);
    assert_true(desk_shows("preview"));
    WIDTHS(64, 64, 320, 256, 576, 384, 640, 512);
    desk_keys("\033");
    WIDTHS(64, 128, 192, 256, 320, 384, 640, 512);
    desk_keys("D15.9\n");
    WIDTHS(64, 64, 320, 256, 576, 384, 640, 512);
    assert_int_equal(desk_app.design->at, 1);
    desk_keys("D0\n"); // the least, and not none
    WIDTHS(64, 64, 320, 256, 576, 384, 640, 512);
    desk_keys("D12345678\n"); // one more than there are layers from here on
    assert_true(strstr(desk_app.message, "1 to 7 digits") != NULL);
    assert_int_equal(desk_app.design->at, 1);
}

static void locked_layers_stay_in_every_span(void **state)
{
    static const char *const keys[] = {"r", "M", "i", "~", "D0000000\n"};

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        open_small();
        desk_keys("llL0");
        desk_keys(keys[i]);
        assert_int_equal(desk_app.design->spec.model.lane[LANE_FFN][2], 192);
    }
}

static void a_held_budget_is_met_after_every_span(void **state)
{
    char why[DESIGN_WHY];

    (void)state;
    open_small();
    assert_true(design_set_budget(desk_app.design, "params reference", why));
    desk_keys("B");
    double target = (double)desk_app.design->count.total;

    desk_keys("vlllr"); // 0-3: 4-7 make up
    assert_true(fabs((double)desk_app.design->count.total - target) <= 3.0 * 256 * 64 / 2);
    desk_keys("\0330vlD90\n");
    assert_true(fabs((double)desk_app.design->count.total - target) <= 3.0 * 256 * 64 / 2);
}

static void gates_go_on_and_off(void **state)
{
    (void)state;
    open_small();
    desk_keys("G");
    assert_true(desk_app.design->spec.gate.enabled);
    desk_draw(30, 100, true);
    assert_true(desk_shows(" gate"));
    desk_keys("G");
    assert_false(desk_app.design->spec.gate.enabled);
    desk_keys("uu");
    assert_false(desk_app.design->spec.gate.enabled);
}

static void the_history_lists_and_walks_all_edits(void **state)
{
    (void)state;
    open_small();
    desk_keys("kr");
    desk_keys("lk");
    assert_int_equal(desk_app.design->at, 3);
    desk_keys("U");
    for (int size = 0; size < 3; size++) {
        desk_draw(size == 0 ? 24 : 30, size == 2 ? 40 : 80, true);
        assert_true(desk_shows("as opened"));
        assert_true(desk_shows("reverse ffn width of layer"));
    }
    desk_keys("kk");
    assert_int_equal(desk_app.design->at, 1);
    WIDTHS(128, 128, 192, 256, 320, 384, 640, 512);
    desk_keys("\033"); // back to where it was
    assert_int_equal(desk_app.design->at, 3);
    desk_keys("Ukkk\n");
    assert_int_equal(desk_app.design->at, 0);
    WIDTHS(64, 128, 192, 256, 320, 384, 640, 512);
    assert_string_equal(desk_app.screen->title, "Design");
    assert_int_equal(desk_app.design->n_undo, 4); // nothing is lost until the next edit
}

static void values_that_no_layer_can_have_are_named(void **state)
{
    (void)state;
    open_small();
    desk_keys("=100\n");
    WIDTHS(128, 128, 192, 256, 320, 384, 640, 512);
    assert_true(strstr(desk_app.message, "128 is the nearest legal value to 100") != NULL);
    desk_keys("=192\n");
    assert_true(strstr(desk_app.message, "nearest") == NULL);
    app_key(&desk_app, K_PASTE, "[100, 128, 200]");
    WIDTHS(128, 128, 192, 256, 320, 384, 640, 512);
    assert_true(strstr(desk_app.message, "2 values went to the nearest legal one") != NULL);
}

static void undo_says_what_it_undid(void **state)
{
    (void)state;
    open_small();
    desk_keys("L");
    desk_keys("lk");
    desk_keys("u");
    assert_true(strstr(desk_app.message, "undo ffn width of layer 1 ") != NULL);
    desk_keys("u");
    assert_true(strstr(desk_app.message, "undo lock layer 0 ") != NULL);
    desk_keys("\022"); // Ctrl-R
    assert_true(strstr(desk_app.message, "redo lock layer 0 ") != NULL);
}

static void a_budget_that_ffn_widths_cannot_move_is_not_held(void **state)
{
    (void)state;
    open_small();
    desk_keys("b\025kv reference\n");
    desk_keys("B");
    assert_false(desk_app.design->hold);
    assert_true(strstr(desk_app.message, "cannot be held: ") != NULL);
    desk_keys("m");
    assert_string_equal(desk_app.dialog.edit.text, "heads kv");
    desk_keys("\033");
}

// Within half an FFN step of the target.
static bool is_met(double target)
{
    const struct design *d = desk_app.design;

    return fabs((double)d->count.total - target) <=
           3.0 * d->spec.model.d_model * d->spec.model.ffn_step / 2;
}

static void a_held_budget_is_met_after_keys_matches_and_undo(void **state)
{
    struct design *d;
    double target;

    (void)state;
    desk_open("profiles/A/base12.yaml");
    d = desk_app.design;
    desk_keys("b\025params 180M\nmffn\n");
    desk_keys("B");
    assert_true(d->hold);
    target = 180e6;
    assert_true(design_set_key(d, spec_key_find("model.d_model"), "832", (char[DESIGN_WHY]){0}));
    assert_true(is_met(target));
    desk_keys("m\025depth\n");
    assert_true(is_met(target));
    desk_keys("m\025ffn params 150M\n");
    assert_true(strstr(desk_app.message, "another budget is held") != NULL);
    assert_true(is_met(target));
    desk_keys("VK");
    assert_true(strstr(desk_app.message, "all are selected or locked") != NULL);
    while (d->at > 0)
        desk_keys("u");
    assert_false(d->hold); // it was not, then
    assert_false(is_met(target));
    while (d->at < d->n_undo - 1)
        desk_keys("\022");
    assert_true(d->hold);
    assert_true(is_met(target));
}

static void what_would_move_a_locked_layer_is_refused(void **state)
{
    static const char *const matches[] = {"m\025width params 150M\n", "m\025depth params 150M\n"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        desk_open("profiles/A/crown18.yaml");
        desk_keys("L");
        desk_keys(matches[i]);
        assert_true(strstr(desk_app.message, "layer 0 is locked") != NULL);
        assert_int_equal(desk_app.design->at, 1);
    }
}

static void long_hints_are_not_cut(void **state)
{
    (void)state;
    desk_open("profiles/A/crown18.yaml");
    desk_keys("m\025ffn params 180M");
    desk_draw(24, 80, true);
    assert_true(desk_shows("one step of ffn_width (256) is 589,824\n"));
    assert_true(desk_shows("in layer 8, none smaller"));
    desk_keys("\033");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_selection_the_whole_lane_is_meant),
        cmocka_unit_test(a_selection_is_all_that_moves),
        cmocka_unit_test(copies_go_where_the_cursor_is),
        cmocka_unit_test(lists_of_numbers_are_copies),
        cmocka_unit_test(digits_draw_tenths_of_the_scale),
        cmocka_unit_test(locked_layers_stay_in_every_span),
        cmocka_unit_test(a_held_budget_is_met_after_every_span),
        cmocka_unit_test(values_that_no_layer_can_have_are_named),
        cmocka_unit_test(undo_says_what_it_undid),
        cmocka_unit_test(a_budget_that_ffn_widths_cannot_move_is_not_held),
        cmocka_unit_test(a_held_budget_is_met_after_keys_matches_and_undo),
        cmocka_unit_test(what_would_move_a_locked_layer_is_refused),
        cmocka_unit_test(long_hints_are_not_cut),
        cmocka_unit_test(gates_go_on_and_off),
        cmocka_unit_test(the_history_lists_and_walks_all_edits),
    };

    desk_setup();
    return cmocka_run_group_tests(tests, NULL, desk_release);
}
