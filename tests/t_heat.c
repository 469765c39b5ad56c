// Shades of numbers.
#include "tests/t.h"

#include <math.h>

#include "tui/heat.h"

static void levels_by_quarters(void **state)
{
    static const struct heat h = {-1, 3};
    static const struct {
        double v;
        int level;
    } rows[] = {{-5, 0},   {-1, 0},   {-0.999, 1},    {-0.01, 1},   {0, 2},
                {0.99, 2}, {1, 3},    {1.99, 3},      {2, 4},       {3, 4},
                {9, 4},    {NAN, -1}, {-INFINITY, 0}, {INFINITY, 4}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (heat_level(&h, rows[i].v) != rows[i].level)
            fail_msg("%g has level %d", rows[i].v, heat_level(&h, rows[i].v));
}

static void an_empty_range_has_two_levels(void **state)
{
    static const struct heat h = {0, 0};

    (void)state;
    assert_int_equal(heat_level(&h, 0), 0);
    assert_int_equal(heat_level(&h, 1), HEAT_LEVELS - 1);
    assert_int_equal(heat_level(&h, NAN), -1);
}

static void glyphs_differ_without_colour(void **state)
{
    static const struct heat h = {0, 1};
    static const char *const want[] = {"··░░▒▒▓▓██??\n", "..::++##@@??\n"};

    (void)state;
    for (int utf8 = 0; utf8 < 2; utf8++) {
        struct canvas c;
        char *text;

        canvas_init(&c, 1, 12, utf8);
        canvas_clear(&c);
        for (int i = 0; i <= 4; i++)
            heat_put(&c, NULL, 0, 2 * i, 2, &h, 0.25 * i - (i == 4 ? 0 : 0.1 * (i > 0)));
        heat_put(&c, NULL, 0, 10, 2, &h, NAN);
        text = canvas_dump(&c);
        assert_string_equal(text, want[!utf8]);
        free(text);
        canvas_release(&c);
    }
}

static void the_legend_shows_both_ends(void **state)
{
    struct canvas c;
    char *text;

    (void)state;
    canvas_init(&c, 1, 30, true);
    canvas_clear(&c);
    assert_int_equal(heat_legend(&c, NULL, 0, 2, "0", "1.5"), 11);
    text = canvas_dump(&c);
    assert_string_equal(text, "  0 ·░▒▓█ 1.5\n");
    free(text);
    canvas_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_by_quarters),
        cmocka_unit_test(an_empty_range_has_two_levels),
        cmocka_unit_test(glyphs_differ_without_colour),
        cmocka_unit_test(the_legend_shows_both_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
