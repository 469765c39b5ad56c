#include "tests/t.h"

#include <locale.h>

#include "tui/canvas.h"
#include "tui/utf8.h"

static struct canvas c;

static void start(int rows, int cols, bool utf8)
{
    canvas_release(&c);
    canvas_init(&c, rows, cols, utf8);
}

static void expect(const char *want)
{
    char *got = canvas_dump(&c);

    assert_string_equal(got, want);
    free(got);
}

static void text_is_clipped_to_its_rect(void **state)
{
    struct rect r = {1, 2, 1, 4};

    (void)state;
    start(3, 10, true);
    assert_int_equal(canvas_text(&c, &r, 0, 1, ROLE_TEXT, "abcdef"), 3);
    canvas_text(&c, &r, 1, 0, ROLE_TEXT, "below");
    canvas_text(&c, &r, -1, 0, ROLE_TEXT, "above");
    canvas_text(&c, &r, 0, -2, ROLE_TEXT, "xyZ");
    expect("\n  Zabc\n\n");
}

static void drawing_outside_the_grid_is_harmless(void **state)
{
    struct rect r = {-1, -3, 9, 40}, far = {100, 100, 2, 2};

    (void)state;
    start(2, 4, true);
    canvas_fill(&c, &r, ROLE_TEXT, '.');
    canvas_fill(&c, &far, ROLE_TEXT, 'x');
    canvas_put(&c, NULL, -1, 0, ROLE_TEXT, 'x');
    canvas_put(&c, NULL, 0, 4, ROLE_TEXT, 'x');
    canvas_bar(&c, &r, 0, 50, 1000, ROLE_BAR);
    canvas_role(&c, &far, ROLE_DIM);
    canvas_box(&c, &far, "title");
    start(0, 0, true);
    canvas_text(&c, NULL, 0, 0, ROLE_TEXT, "x");
    expect("");
}

static void right_alignment_ends_at_the_column(void **state)
{
    (void)state;
    start(1, 8, true);
    assert_int_equal(canvas_right(&c, NULL, 0, 6, ROLE_TEXT, "12.5"), 4);
    expect("   12.5\n");
}

static void wide_and_combining_characters_keep_columns(void **state)
{
    (void)state;
    start(3, 6, true);
    assert_int_equal(text_width("a\xe4\xb8\xad\xe6\x96\x87"), 5);
    assert_int_equal(text_width("e\xcc\x81x"), 2);
    canvas_text(&c, NULL, 0, 0, ROLE_TEXT, "a\xe4\xb8\xad\xe6\x96\x87z");
    canvas_text(&c, NULL, 1, 5, ROLE_TEXT, "\xe4\xb8\xad"); // half of it would not fit
    canvas_text(&c, NULL, 2, 0, ROLE_TEXT, "\xe4\xb8\xad\xe6\x96\x87");
    canvas_put(&c, NULL, 2, 1, ROLE_TEXT, '|'); // cuts the first one: no half stays
    expect("a\xe4\xb8\xad\xe6\x96\x87z\n\n |\xe6\x96\x87\n");
}

static void control_characters_and_bad_utf8_never_pass(void **state)
{
    (void)state;
    start(1, 20, false);
    canvas_text(&c, NULL, 0, 0, ROLE_TEXT,
                "a\x1b[2J\x07\n\xc2\x9b"
                "1\xff\xc0\xaf\xe2\x82");
    expect("a?[2J???1?????\n");
    for (int i = 0; i < c.cols; i++)
        assert_in_range(c.cell[i].ch, 0x20, 0x7e);
}

static void every_code_point_survives_utf8(void **state)
{
    (void)state;
    for (uint32_t ch = 1; ch <= 0x10ffff; ch += ch < 0x3000 ? 1 : 257) {
        char bytes[5] = {0};
        const char *at = bytes;

        if (ch >= 0xd800 && ch < 0xe000)
            continue;
        bytes[utf8_put(bytes, ch)] = 0;
        assert_int_equal(utf8_next(&at), ch);
        assert_int_equal(*at, 0);
    }
}

static void ascii_canvas_holds_ascii_only(void **state)
{
    struct rect all = {0, 0, 4, 12};

    (void)state;
    start(4, 12, false);
    canvas_box(&c, &all, "bo\xc3\xa4");
    canvas_text(&c, NULL, 1, 1, ROLE_TEXT,
                "\xe2\x96\x81\xe2\x96\x88\xce\x94\xc2\xb7\xe2\x80\xa6\xe2\xa3\xbf");
    canvas_put(&c, NULL, 2, 1, ROLE_TEXT, 0x2591);
    expect("+- bo? ----+\n|.#d.~*    |\n|.         |\n+----------+\n");
}

static void bars_grow_in_eighths(void **state)
{
    struct rect r = {0, 0, 3, 9};

    (void)state;
    start(3, 9, true);
    canvas_bar(&c, &r, 0, 2, 4, ROLE_BAR);
    canvas_bar(&c, &r, 3, 2, 8, ROLE_BAR);
    canvas_bar(&c, &r, 6, 2, 21, ROLE_BAR);
    canvas_bar(&c, &r, 8, 1, 0, ROLE_BAR);
    expect("      \u2585\u2585\n      \u2588\u2588\n\u2584\u2584 \u2588\u2588 \u2588\u2588\n");
}

static void ascii_bars_round_but_never_to_nothing(void **state)
{
    struct rect r = {0, 0, 3, 8};

    (void)state;
    start(3, 8, false);
    canvas_bar(&c, &r, 0, 1, 1, ROLE_BAR);
    canvas_bar(&c, &r, 2, 1, 11, ROLE_BAR);
    canvas_bar(&c, &r, 4, 1, 12, ROLE_BAR);
    canvas_bar(&c, &r, 6, 1, 20, ROLE_BAR_GHOST);
    expect("      .\n    # .\n# # # .\n");
}

static void each_role_has_its_own_letter(void **state)
{
    char seen[256] = {0};

    (void)state;
    start(1, ROLE_COUNT, true);
    for (int i = 0; i < ROLE_COUNT; i++)
        canvas_put(&c, NULL, 0, i, (enum role)i, 'x');
    char *roles = canvas_dump_roles(&c);
    assert_int_equal(strlen(roles), ROLE_COUNT + 1);
    for (int i = 0; i < ROLE_COUNT; i++)
        assert_int_equal(seen[(unsigned char)roles[i]]++, 0);
    free(roles);
}

static void colours_stay_in_their_palettes(void **state)
{
    (void)state;
    for (int i = 0; i < ROLE_COUNT; i++) {
        const struct style *s = theme_style((enum role)i);

        assert_in_range(s->fg256 + 1, 0, 256);
        assert_in_range(s->fg16 + 1, 0, 8); // no bright colours: 8-colour terminals have none
    }
}

static int release(void **state)
{
    (void)state;
    canvas_release(&c);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_clipped_to_its_rect),
        cmocka_unit_test(drawing_outside_the_grid_is_harmless),
        cmocka_unit_test(right_alignment_ends_at_the_column),
        cmocka_unit_test(wide_and_combining_characters_keep_columns),
        cmocka_unit_test(control_characters_and_bad_utf8_never_pass),
        cmocka_unit_test(every_code_point_survives_utf8),
        cmocka_unit_test(ascii_canvas_holds_ascii_only),
        cmocka_unit_test(bars_grow_in_eighths),
        cmocka_unit_test(ascii_bars_round_but_never_to_nothing),
        cmocka_unit_test(each_role_has_its_own_letter),
        cmocka_unit_test(colours_stay_in_their_palettes),
    };

    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, release);
}
