// Plots as text: exact small pictures, and properties over random data and sizes.
#include "tests/t.h"

#include <math.h>

#include "engine/rng.h"
#include "tui/list.h"
#include "tui/plot.h"

struct rng {
    uint64_t key, i;
};

static double uniform(struct rng *r)
{
    return rng_uniform(r->key, r->i++);
}

static char *draw(const struct plot *p, int rows, int cols, bool utf8, struct plot_info *info)
{
    struct canvas c;
    struct rect r = {0, 0, rows, cols};
    char *text;

    canvas_init(&c, rows, cols, utf8);
    canvas_clear(&c);
    plot_draw(p, &c, &r, info);
    text = canvas_dump(&c);
    canvas_release(&c);
    return text;
}

static void assert_picture(const struct plot *p, int rows, int cols, bool utf8, const char *want)
{
    char *got = draw(p, rows, cols, utf8, NULL);

    if (strcmp(got, want))
        fail_msg("drew:\n%s\nwant:\n%s", got, want);
    free(got);
}

// ---- exact pictures -----------------------------------------------------------------------------

static void ascii_line_falls(void **state)
{
    double x[] = {0, 1, 2, 3, 4}, y[] = {4, 3, 2, 1, 0};
    struct plot_series s = {.x = x, .y = y, .n = 5, .letter = 't', .role = ROLE_CURVE_A};
    struct plot p = {.series = &s, .n_series = 1, .x_max = 10, .label_width = 3};

    (void)state;
    assert_picture(&p, 6, 14, false,
                   "  4+*\n"
                   "   | *\n"
                   "  2+  *\n"
                   "   |   *\n"
                   "  0+    *t\n"
                   "   +0----5----\n");
}

static void spike_and_mean_stand_in_one_column(void **state)
{
    // ten columns of ten points; one point of column 4 is a spike
    double x[100], y[100];
    struct plot_series s = {.x = x, .y = y, .n = 100, .role = ROLE_CURVE_A};
    struct plot p = {.series = &s, .n_series = 1, .x_max = 100, .no_axes = true};

    (void)state;
    for (int i = 0; i < 100; i++) {
        x[i] = i;
        y[i] = i == 45 ? 8 : 0;
    }
    assert_picture(&p, 5, 10, false,
                   "    :\n"
                   "    :\n"
                   "    :\n"
                   "    :\n"
                   "**********\n");
}

static void braille_uses_eight_dots_per_cell(void **state)
{
    double x[] = {0, 1, 2, 3}, y[] = {0, 1, 2, 3};
    struct plot_series s = {.x = x, .y = y, .n = 4, .role = ROLE_CURVE_A};
    struct plot p = {.series = &s, .n_series = 1, .x_max = 4, .no_axes = true};

    (void)state;
    // dots (0,3) (1,2) | (2,1) (3,0) of a 4x4 raster: bits 64+32 and 2+8... bottom row first
    assert_picture(&p, 1, 2, true, "⡠⠊\n");
}

static void evaluations_are_letters(void **state)
{
    double x[] = {1, 5, 9}, y[] = {100, 10, 1};
    struct plot_series s = {
        .x = x, .y = y, .n = 3, .style = PLOT_MARKS, .letter = 'v', .role = ROLE_CURVE_B};
    struct plot p = {.series = &s, .n_series = 1, .x_max = 10, .log_y = true, .label_width = 3};

    (void)state;
    assert_picture(&p, 6, 14, false,
                   "100+ v\n"
                   "   |\n"
                   " 10+     v\n"
                   "   |\n"
                   "  1+         v\n"
                   "   +0----5----\n");
}

static void dense_evaluations_are_a_line(void **state)
{
    double x[40], y[40];
    struct plot_series s = {
        .x = x, .y = y, .n = 10, .style = PLOT_MARKS, .letter = 'v', .role = ROLE_CURVE_B};
    struct plot p = {.series = &s, .n_series = 1, .x_max = 40, .no_axes = true};
    char *few, *many;

    (void)state;
    for (int i = 0; i < 40; i++)
        x[i] = y[i] = i;
    few = draw(&p, 6, 40, true, NULL);
    s.n = 40;
    many = draw(&p, 6, 40, true, NULL);
    assert_non_null(strstr(few, "vv"));
    assert_null(strstr(many, "vv"));
    assert_non_null(strchr(many, 'v')); // at its end
    free(few);
    free(many);
}

static void letters_of_close_curves_stand_side_by_side(void **state)
{
    double x[] = {0, 1, 2, 3}, y[] = {1, 1, 1, 1};
    struct plot_series s[2] = {
        {.x = x, .y = y, .n = 4, .letter = 't', .role = ROLE_CURVE_A},
        {.x = x, .y = y, .n = 4, .letter = 'v', .role = ROLE_CURVE_B},
    };
    struct plot p = {.series = s, .n_series = 2, .x_max = 8, .no_axes = true};
    char *text = draw(&p, 3, 20, true, NULL);

    (void)state;
    assert_non_null(strstr(text, "tv"));
    free(text);
}

static void values_that_are_no_numbers_are_marked(void **state)
{
    double x[] = {0, 1, 2, 3}, y[] = {1, NAN, 2, INFINITY};
    struct plot_series s = {.x = x, .y = y, .n = 4, .role = ROLE_CURVE_A};
    struct plot p = {.series = &s, .n_series = 1, .x_max = 4, .no_axes = true};
    char *got;

    (void)state;
    got = draw(&p, 3, 4, false, NULL);
    assert_int_equal(got[1], '!');
    assert_non_null(strchr(strchr(got, '!') + 1, '!'));
    free(got);
}

static void nothing_one_point_and_a_constant_draw(void **state)
{
    double x[] = {2, 4, 6}, y[] = {7, 7, 7}, nan[] = {NAN, NAN, NAN};
    struct plot_series s = {.x = x, .y = y, .n = 0, .role = ROLE_CURVE_A};
    struct plot p = {.series = &s, .n_series = 1, .x_max = 8};
    struct plot_info info;

    (void)state;
    free(draw(&p, 6, 30, true, &info));
    assert_true(info.empty);
    s.n = 1;
    free(draw(&p, 6, 30, true, &info));
    assert_true(!info.empty && info.y_min < 7 && info.y_max > 7);
    s.n = 3;
    p.log_y = true;
    free(draw(&p, 6, 30, true, &info));
    assert_true(info.log_y && info.y_min < 7 && info.y_max > 7);
    s.y = nan;
    free(draw(&p, 6, 30, true, &info));
    assert_true(info.empty);
    p.x_max = 0; // the plan is not known yet
    free(draw(&p, 6, 30, true, &info));
}

static void log_axis_falls_back_when_a_value_is_not_positive(void **state)
{
    double x[] = {0, 1}, y[] = {0, 5};
    struct plot_series s = {.x = x, .y = y, .n = 2, .role = ROLE_CURVE_A};
    struct plot p = {.series = &s, .n_series = 1, .x_max = 1, .log_y = true};
    struct plot_info info;

    (void)state;
    free(draw(&p, 6, 30, true, &info));
    assert_false(info.log_y);
}

static void zoomed_axis_fits_the_newest_points(void **state)
{
    double x[] = {0, 1, 2, 3, 4, 5}, y[] = {90, 50, 3, 2, 9, 1};
    struct plot_series s = {.x = x, .y = y, .n = 6, .role = ROLE_CURVE_A};
    struct plot p = {.series = &s, .n_series = 1, .x_max = 6, .fit_from = 2, .no_axes = true};
    struct plot_info info;
    char *text;

    (void)state;
    text = draw(&p, 5, 6, false, &info);
    assert_true(info.y_min <= 1 && info.y_max >= 9 && info.y_max < 12);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        assert_true(strncmp(line, "  ", 2) == 0 || line[0] == '\0'); // 90 and 50 are left out
    free(text);
    p.fit_from = 100; // beyond the last: that one decides
    free(draw(&p, 5, 6, false, &info));
    assert_true(info.y_min < 1 && info.y_max < 2);
}

static void speed_axis_starts_at_zero(void **state)
{
    double x[] = {0, 1}, y[] = {16000, 16500};
    struct plot_series s = {.x = x, .y = y, .n = 2, .role = ROLE_CURVE_A};
    struct plot p = {.series = &s, .n_series = 1, .x_max = 1, .from_zero = true};
    struct plot_info info;

    (void)state;
    free(draw(&p, 6, 30, true, &info));
    assert_near(info.y_min, 0, 1e-12);
    assert_true(info.y_max >= 16500);
}

static void perplexity_is_the_exponential_of_the_mean_loss(void **state)
{
    struct plot_series s = {.scale = PLOT_EXP};

    (void)state;
    assert_near(plot_value(&s, 2), 7.38905609893065, 1e-12);
    s = (struct plot_series){.scale = PLOT_AS_IS, .factor = 1 / M_LN2};
    assert_near(plot_value(&s, 1), 1.4426950408889634, 1e-12);
}

// ---- properties ---------------------------------------------------------------------------------

enum { N = 5000, MARGIN = 3 };

struct data {
    double x[N], y[N];
    struct pyramid pyramid;
    int n;
};

static void random_data(struct data *d, struct rng *rng, double span)
{
    double x = 0;

    d->n = (int)(uniform(rng) * N);
    for (int i = 0; i < d->n; i++) {
        double u = uniform(rng);

        x += u < 0.2 ? 0 : u;
        d->x[i] = x;
        d->y[i] = u < 0.01 ? NAN : exp(span * (uniform(rng) - 0.5));
    }
    pyramid_sync(&d->pyramid, d->y, d->n, 0);
}

static void check_margin_is_clean(const struct canvas *c, const struct rect *r)
{
    for (int row = 0; row < c->rows; row++)
        for (int col = 0; col < c->cols; col++) {
            bool inside =
                row >= r->row && row < r->row + r->rows && col >= r->col && col < r->col + r->cols;

            if (!inside && c->cell[row * c->cols + col].ch != ' ')
                fail_msg("drew outside at %d,%d of %dx%d", row, col, r->cols, r->rows);
        }
}

// Every column of cells that holds a point shows something.
static void check_columns(const struct canvas *c, const struct rect *a, const struct data *d,
                          double x_max)
{
    for (int i = 0; i < d->n; i++) {
        int col = (int)(d->x[i] / x_max * a->cols);
        bool touched = false;

        col = col >= a->cols ? a->cols - 1 : col;
        for (int row = 0; row < a->rows && !touched; row++)
            touched = c->cell[(a->row + row) * c->cols + a->col + col].ch != ' ';
        if (!touched)
            fail_msg("point %d of %d left no trace in column %d of %d", i, d->n, col, a->cols);
    }
}

static void draws_inside_and_touches_every_column(void **state)
{
    struct data *d = calloc(1, sizeof(*d));
    struct rng rng = {0, 0};

    (void)state;
    rng.key = 7;
    for (int trial = 0; trial < 300; trial++) {
        struct rect r = {MARGIN, MARGIN, 1 + (int)(uniform(&rng) * 40),
                         1 + (int)(uniform(&rng) * 120)};
        struct plot_series s = {.x = d->x,
                                .y = d->y,
                                .role = ROLE_CURVE_A,
                                .letter = 'a',
                                .style = trial % 3 == 0 ? PLOT_MARKS : PLOT_LINE,
                                .pyramid = trial % 2 ? &d->pyramid : NULL};
        struct plot p = {.series = &s, .n_series = 1, .log_y = trial % 5 < 2};
        struct plot_info info;
        struct canvas c;

        random_data(d, &rng, trial % 7 ? 3 : 200);
        s.n = d->n;
        p.x_max = d->n ? d->x[d->n - 1] * (1 + uniform(&rng)) + 1e-3 : 1;
        canvas_init(&c, r.rows + 2 * MARGIN, r.cols + 2 * MARGIN, trial % 4 < 2);
        canvas_clear(&c);
        plot_draw(&p, &c, &r, &info);
        check_margin_is_clean(&c, &r);
        check_columns(&c, &info.area, d, p.x_max);
        canvas_release(&c);
    }
    pyramid_release(&d->pyramid);
    free(d);
}

static void check_ticks(enum tick_kind kind, double lo, double hi, int cells, bool horizontal)
{
    struct tick t[TICKS_MAX];
    int n = ticks_make(kind, lo, hi, cells, horizontal, 2, 6, t);

    assert_in_range(n, 0, TICKS_MAX);
    for (int i = 0; i < n; i++) {
        assert_in_range(t[i].at, 0, cells - 1);
        assert_true(strlen(t[i].text) <= 6 || kind == TICKS_TIME);
        assert_true(t[i].value >= lo - 1e-6 * fabs(lo) && t[i].value <= hi + 1e-6 * fabs(hi));
        if (i == 0)
            continue;
        assert_true(t[i].value > t[i - 1].value);
        assert_true(t[i].at >= t[i - 1].at + 2 + (horizontal ? (int)strlen(t[i - 1].text) : 0));
        assert_string_not_equal(t[i].text, t[i - 1].text);
    }
}

static void ticks_are_round_and_never_overlap(void **state)
{
    struct rng rng = {0, 0};

    (void)state;
    rng.key = 11;
    for (int trial = 0; trial < 3000; trial++) {
        double lo = exp(30 * (uniform(&rng) - 0.5));
        double hi = lo * (1 + exp(12 * (uniform(&rng) - 0.5)));
        int cells = 1 + (int)(uniform(&rng) * 180);

        check_ticks(trial % 3, lo, hi, cells, trial % 2);
        if (trial % 3 == TICKS_LINEAR)
            check_ticks(TICKS_LINEAR, -hi, lo, cells, trial % 2);
        ticks_snap(trial % 2, &lo, &hi);
        check_ticks(trial % 2, lo, hi, cells, trial % 2);
    }
}

static void ticks_of_known_axes(void **state)
{
    struct tick t[TICKS_MAX];
    int n = ticks_make(TICKS_LINEAR, 0, 4.5e6, 80, true, 4, 8, t);

    (void)state;
    assert_string_equal(t[0].text, "0");
    assert_string_equal(t[1].text, "500k");
    assert_string_equal(t[2].text, "1M");
    assert_int_equal(n, 9); // 0 .. 4M; 4.5M has no room at the right edge
    n = ticks_make(TICKS_LOG, 2, 300, 20, false, 3, 5, t);
    assert_string_equal(t[0].text, "3");
    assert_string_equal(t[n - 1].text, "300");
    n = ticks_make(TICKS_TIME, 0, 7000, 60, true, 4, 8, t);
    assert_string_equal(t[0].text, "0");
    assert_string_equal(t[1].text, "30m");
    assert_string_equal(t[n - 1].text, "1h30");
    n = ticks_make(TICKS_LINEAR, 2.21, 2.29, 12, false, 2, 5, t);
    assert_true(n >= 3);
    assert_string_equal(t[0].text, "2.22");
}

static void snapping_holds_the_range_and_is_stable(void **state)
{
    double lo = 1.234, hi = 5.61, lo2 = 1.2339, hi2 = 5.6101;

    (void)state;
    ticks_snap(TICKS_LINEAR, &lo, &hi);
    ticks_snap(TICKS_LINEAR, &lo2, &hi2);
    assert_true(lo <= 1.2339 && hi >= 5.6101);
    assert_near(lo, lo2, 1e-12);
    assert_near(hi, hi2, 1e-12);
    assert_true(hi - lo < 1.25 * (5.61 - 1.234));
}

static void pyramid_agrees_with_walking(void **state)
{
    static double y[4099];
    struct pyramid p = {.n = 0};
    struct rng rng = {0, 0};
    int64_t n = 0;

    (void)state;
    rng.key = 3;
    for (int trial = 0; trial < 400; trial++) {
        int64_t same = (int64_t)(uniform(&rng) * (double)(n + 1));
        int64_t a, b;
        struct span got, want;

        if (trial % 4) // mostly appends
            same = n;
        n = same + (int64_t)(uniform(&rng) * (trial % 8 ? 30 : (double)(4099 - same)));
        n = n > 4099 ? 4099 : n;
        for (int64_t i = same; i < n; i++)
            y[i] = uniform(&rng) < 0.02 ? INFINITY : uniform(&rng);
        pyramid_sync(&p, y, n, same);
        a = (int64_t)(uniform(&rng) * (double)n);
        b = a + (int64_t)(uniform(&rng) * (double)(n - a + 1));
        got = pyramid_span(&p, y, a, b);
        want = pyramid_span(NULL, y, a, b);
        assert_true(got.n == want.n && got.bad == want.bad);
        assert_true(got.min == want.min && got.max == want.max);
        assert_near(got.sum, want.sum, 1e-9);
    }
    pyramid_release(&p);
}

// The number of points looked at, not time: 400 columns of a million points.
static void a_million_points_are_answered_from_summaries(void **state)
{
    enum { MANY = 1000000 };
    double *y = malloc(MANY * sizeof(*y));
    struct pyramid p = {.n = 0};
    double begin, took;

    (void)state;
    for (int i = 0; i < MANY; i++)
        y[i] = i % 1000;
    pyramid_sync(&p, y, MANY, 0);
    begin = t_now();
    for (int k = 0; k < 400; k++) {
        struct span s = pyramid_span(&p, y, (int64_t)k * 2500, (int64_t)(k + 1) * 2500);

        assert_true(s.n == 2500 && s.min == 0 && s.max == 999);
    }
    took = t_now() - begin;
    print_message("400 columns of 1M points: %.0f us\n", took * 1e6);
    pyramid_release(&p);
    free(y);
}

// ---- lists --------------------------------------------------------------------------------------

static void list_drops_columns_by_priority(void **state)
{
    static const struct list_column col[] = {{"state", 8, 0, 0, false},
                                             {"run", 8, 16, 0, false},
                                             {"seed", 4, 0, 2, true},
                                             {"ppl", 6, 0, 1, true}};
    int w[4];

    (void)state;
    list_layout(col, 4, 80, w);
    assert_true(w[0] == 8 && w[1] == 16 && w[2] == 4 && w[3] == 6);
    list_layout(col, 4, 29, w);
    assert_true(w[0] == 8 && w[1] == 8 && w[2] == 4 && w[3] == 6);
    list_layout(col, 4, 28, w);
    assert_true(w[2] == 0 && w[3] == 6 && w[1] == 12);
    list_layout(col, 4, 5, w);
    assert_true(w[0] == 8 && w[2] == 0 && w[3] == 0);
}

static void list_cursor_keeps_its_row_and_line(void **state)
{
    struct list l = {.page = 10};

    (void)state;
    list_set_rows(&l, 100, 0);
    for (int i = 0; i < 30; i++)
        list_command(&l, CMD_DOWN);
    list_command(&l, CMD_UP);
    assert_int_equal(l.cursor, 29);
    assert_int_equal(l.top, 21);
    list_set_rows(&l, 103, 32); // three new rows above
    assert_int_equal(l.cursor, 32);
    assert_int_equal(l.cursor - l.top, 8);
    list_set_rows(&l, 5, -1);
    assert_int_equal(l.cursor, 4);
    list_set_rows(&l, 0, -1);
    assert_int_equal(l.cursor, 0);
    assert_true(list_command(&l, CMD_LAST) && l.cursor == 0);
    assert_false(list_command(&l, CMD_SAVE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ascii_line_falls),
        cmocka_unit_test(spike_and_mean_stand_in_one_column),
        cmocka_unit_test(braille_uses_eight_dots_per_cell),
        cmocka_unit_test(evaluations_are_letters),
        cmocka_unit_test(dense_evaluations_are_a_line),
        cmocka_unit_test(letters_of_close_curves_stand_side_by_side),
        cmocka_unit_test(values_that_are_no_numbers_are_marked),
        cmocka_unit_test(nothing_one_point_and_a_constant_draw),
        cmocka_unit_test(log_axis_falls_back_when_a_value_is_not_positive),
        cmocka_unit_test(zoomed_axis_fits_the_newest_points),
        cmocka_unit_test(speed_axis_starts_at_zero),
        cmocka_unit_test(perplexity_is_the_exponential_of_the_mean_loss),
        cmocka_unit_test(draws_inside_and_touches_every_column),
        cmocka_unit_test(ticks_are_round_and_never_overlap),
        cmocka_unit_test(ticks_of_known_axes),
        cmocka_unit_test(snapping_holds_the_range_and_is_stable),
        cmocka_unit_test(pyramid_agrees_with_walking),
        cmocka_unit_test(a_million_points_are_answered_from_summaries),
        cmocka_unit_test(list_drops_columns_by_priority),
        cmocka_unit_test(list_cursor_keeps_its_row_and_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
