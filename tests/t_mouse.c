// Drawing with the mouse: in the workbench without a terminal, and in the real program on a pty with
// the bytes a terminal sends.
#include "tests/t.h"

#include <math.h>
#include <unistd.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/profile.h"
#include "tests/desk.h"
#include "tests/pty.h"
#include "tui/bars.h"
#include "tui/design.h"
#include "tui/design_draw.h"

enum { LAYERS = 18, STEP = 256 };

// ---- reports ------------------------------------------------------------------------------------

static void report(int kind, int button, int layer, double height, bool heads)
{
    int n = desk_app.design->spec.model.n_layers;
    struct bars b = bars_layout(desk_canvas.rows, desk_canvas.cols);
    struct design_layout l = design_layout(b.body.rows, b.body.cols, n);
    const struct rect *pane = heads ? &l.heads : &l.ffn;
    struct mouse m = {.kind = kind, .button = button};

    m.row = b.body.row + pane->row + pane->rows - (int)lround(height);
    m.col = b.body.col + pane->col + layer * (l.layer_cols + l.gap);
    app_mouse(&desk_app, &m);
}

static int width(int layer)
{
    return desk_app.design->spec.model.lane[LANE_FFN][layer];
}

// The bar that reaches to a row, as a person reads it off the scale: independent of the program.
static int expected_width(int top, int rows, int height)
{
    int steps = (int)floor((double)top * height / rows / STEP + 0.4999999);

    return STEP * (steps < 1 ? 1 : steps);
}

static int ffn_rows(void)
{
    struct bars b = bars_layout(desk_canvas.rows, desk_canvas.cols);

    return design_layout(b.body.rows, b.body.cols, LAYERS).ffn.rows;
}

static void open_at(int rows, int cols)
{
    desk_open("profiles/A/crown18.yaml");
    desk_draw(rows, cols, true);
}

// ---- without a terminal -------------------------------------------------------------------------

static void a_drag_sets_what_it_passes(void **state)
{
    (void)state;
    for (int size = 0; size < 2; size++) {
        open_at(size ? 60 : 24, size ? 200 : 80);
        int rows = ffn_rows(), at = desk_app.design->n_undo;

        report(MOUSE_PRESS, MOUSE_LEFT, 2, 2, false);
        report(MOUSE_DRAG, MOUSE_LEFT, 6, rows - 2, false); // three layers jumped over
        report(MOUSE_RELEASE, MOUSE_LEFT, 6, rows - 2, false);
        assert_int_equal(desk_app.design->n_undo, at + 1); // one edit
        assert_int_equal(width(2), expected_width(3072, rows, 2));
        assert_int_equal(width(6), expected_width(3072, rows, rows - 2));
        for (int i = 3; i <= 5; i++) {
            double v = 3072.0 / rows * (2 + (rows - 4) * (i - 2) / 4.0);

            assert_true(fabs(width(i) - v) <= STEP / 2.0);
        }
        assert_int_equal(width(1), desk_app.design->undo[0]->spec.model.lane[LANE_FFN][1]);
        desk_keys("u");
        assert_memory_equal(&desk_app.design->spec, &desk_app.design->undo[0]->spec,
                            sizeof desk_app.design->spec);
    }
}

static void the_right_button_lays_a_straight_line(void **state)
{
    (void)state;
    open_at(60, 200);
    int rows = ffn_rows();

    report(MOUSE_PRESS, MOUSE_RIGHT, 0, rows, false);
    report(MOUSE_DRAG, MOUSE_RIGHT, 17, 1, false); // where it was first does not matter
    report(MOUSE_DRAG, MOUSE_RIGHT, 4, rows / 2, false);
    report(MOUSE_RELEASE, MOUSE_RIGHT, 4, rows / 2, false);
    assert_int_equal(width(0), 3072);
    for (int i = 1; i <= 4; i++)
        assert_true(width(i) <= width(i - 1));
    assert_int_equal(width(4), expected_width(3072, rows, rows / 2));
    for (int i = 5; i < LAYERS; i++)
        assert_int_equal(width(i), desk_app.design->undo[0]->spec.model.lane[LANE_FFN][i]);
}

static void the_pen_can_go_above_the_scale(void **state)
{
    (void)state;
    open_at(60, 200);
    int rows = ffn_rows();

    report(MOUSE_PRESS, MOUSE_LEFT, 5, rows, false);
    report(MOUSE_DRAG, MOUSE_LEFT, 5, rows + 2, false);
    report(MOUSE_RELEASE, MOUSE_LEFT, 5, rows + 2, false);
    assert_int_equal(width(5), expected_width(3072, rows, rows + 2));
    assert_true(width(5) > 3072);
}

static void the_pen_takes_no_part_away(void **state)
{
    (void)state;
    open_at(24, 80);
    report(MOUSE_PRESS, MOUSE_LEFT, 5, 3, false);
    report(MOUSE_DRAG, MOUSE_LEFT, 6, -2, false); // below the pane
    report(MOUSE_RELEASE, MOUSE_LEFT, 6, -2, false);
    assert_int_equal(width(6), STEP);
    report(MOUSE_PRESS, MOUSE_LEFT, 7, 1, true);
    report(MOUSE_DRAG, MOUSE_LEFT, 7, -3, true);
    report(MOUSE_RELEASE, MOUSE_LEFT, 7, -3, true);
    assert_int_equal(desk_app.design->spec.model.lane[LANE_HEADS][7], 3);
}

static void locked_layers_stay_under_the_pen(void **state)
{
    (void)state;
    open_at(24, 80);
    desk_keys("lllL"); // layer 3
    int before = width(3);

    report(MOUSE_PRESS, MOUSE_LEFT, 0, 1, false);
    report(MOUSE_DRAG, MOUSE_LEFT, 17, 1, false);
    report(MOUSE_RELEASE, MOUSE_LEFT, 17, 1, false);
    for (int i = 0; i < LAYERS; i++)
        assert_int_equal(width(i), i == 3 ? before : expected_width(3072, ffn_rows(), 1));
}

static void a_held_budget_holds_under_the_pen(void **state)
{
    struct design *d;

    (void)state;
    open_at(60, 200);
    desk_keys("bparams reference\n");
    d = desk_app.design;
    assert_true(design_set_budget(d, "params reference", (char[DESIGN_WHY]){0}));
    desk_keys("B");
    assert_true(d->hold);
    double target = (double)d->count.total;
    int rows = ffn_rows(), before = width(8);

    report(MOUSE_PRESS, MOUSE_LEFT, 2, 2, false);
    for (int i = 3; i < 8; i++) {
        report(MOUSE_DRAG, MOUSE_LEFT, i, rows, false);
        assert_true(fabs((double)d->count.total - target) <= 3.0 * 768 * STEP / 2);
    }
    assert_int_equal(width(7), 3072);
    assert_true(width(8) < before); // what is not drawn gives
    report(MOUSE_RELEASE, MOUSE_LEFT, 7, rows, false);
    desk_keys("u");
    assert_int_equal(width(8), before);
}

static void esc_leaves_a_line_without_a_trace(void **state)
{
    (void)state;
    open_at(24, 80);
    report(MOUSE_PRESS, MOUSE_LEFT, 2, 1, false);
    report(MOUSE_DRAG, MOUSE_LEFT, 9, 1, false);
    desk_keys("\033");
    assert_int_equal(desk_app.design->n_undo, 1);
    assert_memory_equal(&desk_app.design->spec, &desk_app.design->undo[0]->spec,
                        sizeof desk_app.design->spec);
}

static void heads_are_drawn_in_their_pane(void **state)
{
    const struct model_spec *m;

    (void)state;
    open_at(60, 200);
    m = &desk_app.design->spec.model;
    assert_int_equal(m->lane[LANE_HEADS][8], 12);
    report(MOUSE_PRESS, MOUSE_LEFT, 8, 1, true);
    report(MOUSE_RELEASE, MOUSE_LEFT, 8, 1, true);
    assert_int_equal(desk_app.design->lane, LANE_HEADS);
    assert_int_equal(m->lane[LANE_HEADS][8], 3); // 3 query heads per kv head
    assert_int_equal(m->lane[LANE_KV][8], 1);
}

static void a_wheel_steps_what_is_below_it(void **state)
{
    struct mouse m = {.kind = MOUSE_WHEEL, .wheel = -1};
    struct bars b;
    struct design_layout l;

    (void)state;
    open_at(30, 100);
    b = bars_layout(30, 100);
    l = design_layout(b.body.rows, b.body.cols, LAYERS);
    m.row = b.body.row + l.ffn.row + 1;
    m.col = b.body.col + l.ffn.col + 4 * (l.layer_cols + l.gap);
    int before = width(4);

    app_mouse(&desk_app, &m);
    assert_int_equal(width(4), before - STEP);
    m.wheel = 1;
    m.row = b.body.row + l.value[LANE_REUSE];
    app_mouse(&desk_app, &m);
    assert_int_equal(desk_app.design->spec.model.lane[LANE_REUSE][4], 2);
}

static void a_drag_on_the_layers_row_selects(void **state)
{
    struct mouse m = {.kind = MOUSE_PRESS};
    struct bars b;
    struct design_layout l;
    int first, last;

    (void)state;
    open_at(30, 100);
    b = bars_layout(30, 100);
    l = design_layout(b.body.rows, b.body.cols, LAYERS);
    m.row = b.body.row + l.axis;
    m.col = b.body.col + l.ffn.col + 4 * (l.layer_cols + l.gap);
    app_mouse(&desk_app, &m);
    m.kind = MOUSE_DRAG;
    m.col += 3 * (l.layer_cols + l.gap);
    app_mouse(&desk_app, &m);
    design_range(desk_app.design, &first, &last);
    assert_int_equal(first, 4);
    assert_int_equal(last, 7);
    assert_int_equal(desk_app.design->n_undo, 1);
}

static void random_reports_keep_the_design_legal(void **state)
{
    uint32_t seed = 7;

    (void)state;
    open_at(24, 80);
    desk_keys("lL");
    for (int i = 0; i < 3000; i++) {
        struct problems problems = {0};
        struct mouse m = {.kind = (int)(desk_random(&seed) % 4),
                          .button = (int)(desk_random(&seed) % 3),
                          .wheel = desk_random(&seed) % 2 ? 1 : -1,
                          .row = (int)(desk_random(&seed) % 30) - 2,
                          .col = (int)(desk_random(&seed) % 90) - 2};

        app_mouse(&desk_app, &m);
        if (i % 40 == 0)
            desk_random_edit(&seed);
        if (desk_app.dialog.kind != DIALOG_NONE)
            desk_keys("\033");
        desk_draw(24, 80, true);
        assert_int_equal(profile_validate(&desk_app.design->spec, &problems), 0);
        problems_release(&problems);
    }
}

// ---- the real program on a pty ------------------------------------------------------------------

static const char *program(void)
{
    const char *path = getenv("LATHE");

    return path ? path : "./lathe";
}

static void send_report(struct pty *p, int bits, int row, int col, char final)
{
    char text[40];

    snprintf(text, sizeof text, "\033[<%d;%d;%d%c", bits, col + 1, row + 1, final);
    pty_send(p, text);
}

static bool saved_widths_are(const char *path, const int *want)
{
    struct spec *spec = calloc(1, sizeof *spec);
    struct problems problems = {0};
    bool same = profile_load(path, NULL, 0, spec, &problems) == 0;

    for (int i = 0; i < LAYERS; i++)
        same = same && spec->model.lane[LANE_FFN][i] == want[i];
    problems_release(&problems);
    free(spec);
    return same;
}

static bool same_text(const char *path, const struct buf *want)
{
    struct buf text = {0};
    bool same = file_read(path, 1 << 16, &text, NULL) == 0 && text.len == want->len &&
                !memcmp(text.data, want->data, text.len);

    buf_release(&text);
    return same;
}

// A zigzag over all layers, in one drag. Every layer's height is another one than its neighbour's.
static void drag_over_all(struct pty *p, int rows, int cols, int *want)
{
    struct bars b = bars_layout(rows, cols);
    struct design_layout l = design_layout(b.body.rows, b.body.cols, LAYERS);
    int row = 0, col = 0;

    for (int i = 0; i < LAYERS; i++) {
        int height = 1 + i * 7 % l.ffn.rows;

        row = b.body.row + l.ffn.row + l.ffn.rows - height;
        col = b.body.col + l.ffn.col + i * (l.layer_cols + l.gap);
        send_report(p, i == 0 ? 0 : 32, row, col, 'M');
        want[i] = expected_width(3072, l.ffn.rows, height);
    }
    send_report(p, 0, row, col, 'm');
}

static void draw_save_undo_save(const char *path, int rows, int cols)
{
    const char *argv[] = {program(), path, NULL};
    struct pty *p = pty_start(argv, (const char *const[]){NULL}, rows, cols);
    struct buf before = {0};
    int want[LAYERS];

    assert_int_equal(file_read(path, 1 << 16, &before, NULL), 0);
    pty_wait(p, "[1 Design]");
    drag_over_all(p, rows, cols, want);
    pty_wait(p, "draw ffn width of layers 0-17");
    pty_send(p, "w");
    t_wait((pty_pump(p, 10), saved_widths_are(path, want)), 20);
    assert_false(same_text(path, &before));
    pty_send(p, "u");
    pty_wait(p, "[+]");
    pty_send(p, "w");
    t_wait((pty_pump(p, 10), same_text(path, &before)), 20);
    pty_send(p, "q");
    assert_int_equal(pty_wait_exit(p), 0);
    assert_non_null(memmem(pty_raw(p)->data, pty_raw(p)->len, "\033[?1002l", 8));
    pty_free(p);
    buf_release(&before);
}

static const char drawn[] = "# mine\n"
                            "model:\n"
                            "  d_model: 768\n"
                            "  n_layers: 18\n"
                            "  head_dim: 64\n"
                            "  ffn_width: %s   # drawn\n"
                            "  n_heads: 12\n"
                            "  ffn_step: 256\n"
                            "  vocab: 50280\n";

static void a_drag_on_a_terminal_draws_and_undo_returns_the_file(void **state)
{
    static const char list[] = "[3072, 512, 768, 1024, 1280, 1536, 1792, 2048, 2304, 2304, 2048, "
                               "1792, 1536, 1280, 1024, 768, 512, 3072]";
    static const char shape[] = "{shape: vanilla, points: [4.0, 0.5]}";
    char text[1024];

    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, drawn, i ? shape : list);
        t_write(t_path("drawn.yaml"), text);
        draw_save_undo_save(t_path("drawn.yaml"), 24, 80);
        draw_save_undo_save(t_path("drawn.yaml"), 60, 200);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_drag_sets_what_it_passes),
        cmocka_unit_test(the_right_button_lays_a_straight_line),
        cmocka_unit_test(the_pen_can_go_above_the_scale),
        cmocka_unit_test(the_pen_takes_no_part_away),
        cmocka_unit_test(locked_layers_stay_under_the_pen),
        cmocka_unit_test(a_held_budget_holds_under_the_pen),
        cmocka_unit_test(esc_leaves_a_line_without_a_trace),
        cmocka_unit_test(heads_are_drawn_in_their_pane),
        cmocka_unit_test(a_wheel_steps_what_is_below_it),
        cmocka_unit_test(a_drag_on_the_layers_row_selects),
        cmocka_unit_test(random_reports_keep_the_design_legal),
        cmocka_unit_test(a_drag_on_a_terminal_draws_and_undo_returns_the_file),
    };

    desk_setup();
    return cmocka_run_group_tests(tests, NULL, desk_release);
}
