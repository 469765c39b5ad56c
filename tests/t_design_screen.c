// What the Design screen, the help and the message lines show, without a terminal.
#include "tests/t.h"

#include <math.h>

#include "engine/buf.h"
#include "tests/desk.h"
#include "tui/bars.h"
#include "tui/design.h"
#include "tui/design_draw.h"
#include "tui/utf8.h"

// ---- the picture --------------------------------------------------------------------------------

static const int sizes[][2] = {{24, 80}, {30, 100}, {60, 200}, {10, 40}, {4, 20}};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

// Exact where there is room, else to the thousand.
static bool shows_parameters(int64_t n)
{
    char exact[UNIT_SIZE], shorter[UNIT_SIZE];

    snprintf(shorter, sizeof shorter, n < 1000000000 ? "%.3fM" : "%.4fG",
             (double)n / (n < 1000000000 ? 1e6 : 1e9));
    return desk_shows(desk_canvas.cols >= 100 || n < 1000000 ? unit_thousands(exact, n) : shorter);
}

static void totals_shown_are_those_counted(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        char flops[UNIT_SIZE];

        desk_open("profiles/A/crown18.yaml");
        desk_keys("llVk");
        desk_draw(sizes[i][0], sizes[i][1], true);
        assert_true(shows_parameters(desk_app.design->count.total));
        assert_true(shows_parameters(desk_app.design->count.non_embedding));
        assert_true(desk_shows(unit_count(flops, desk_app.design->count.forward_per_token)));
    }
}

static void differences_are_against_the_reference(void **state)
{
    char want[32];

    (void)state;
    desk_open("profiles/A/crown18.yaml");
    double before = (double)desk_app.design->count.total, change;

    desk_draw(30, 100, true);
    assert_false(desk_shows("%+")); // nothing differs yet
    desk_keys("k");
    change = 100 * ((double)desk_app.design->count.total / before - 1);
    assert_true(change > 0.1 && change < 9);
    snprintf(want, sizeof want, "%+.2f%%", change);
    desk_draw(30, 100, true);
    assert_true(desk_shows(want));
    desk_keys("R");
    desk_draw(30, 100, true);
    assert_false(desk_shows(want));
}

static void layout_follows_the_widths_promised(void **state)
{
    static const struct {
        int layers, bar, gap;
    } at_100[] = {{18, 3, 1}, {24, 2, 1}, {36, 2, 0}, {72, 1, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof at_100 / sizeof *at_100; i++) {
        struct design_layout l = design_layout(26, 100, at_100[i].layers);

        assert_int_equal(l.layer_cols, at_100[i].bar);
        assert_int_equal(l.gap, at_100[i].gap);
        assert_int_equal(l.visible, at_100[i].layers);
    }
    assert_int_equal(design_layout(26, 100, 200).visible, 72); // beyond, the view scrolls
}

static void no_two_parts_of_the_layout_overlap(void **state)
{
    (void)state;
    for (int rows = 1; rows <= 70; rows++)
        for (int cols = 1; cols <= 220; cols += 7) {
            struct design_layout l = design_layout(rows, cols, 18);
            int single[] = {l.note,     l.axis,    l.value[1], l.value[2],
                            l.value[3], l.bracket, l.detail};
            char used[80] = {0};

            for (int i = 0; i < l.totals_rows; i++)
                used[i]++;
            for (int i = 0; i < l.ffn.rows; i++)
                used[l.ffn.row + i]++;
            for (int i = 0; i < l.heads.rows; i++)
                used[l.heads.row + i]++;
            for (size_t i = 0; i < sizeof single / sizeof *single; i++) {
                assert_true(single[i] < rows);
                if (single[i] >= 0)
                    used[single[i]]++;
            }
            for (int i = 0; i < 80; i++)
                if (used[i] > (i < rows))
                    fail_msg("%dx%d: row %d is used %d times", cols, rows, i, used[i]);
            assert_true(l.ffn.rows >= 0 && l.layer_cols >= 1 && l.visible >= 1);
        }
}

static int column_of_word(const char *line, const char *word)
{
    const char *at = strstr(line, word);
    char before[512];

    assert_non_null(at);
    snprintf(before, sizeof before, "%.*s", (int)(at - line), line);
    return text_width(before);
}

static const char *row_starting(const char *name)
{
    static char line[1024];
    char *text = canvas_dump(&desk_canvas), *at = text;
    size_t indent;

    for (; *at; at += strcspn(at, "\n") + 1) {
        indent = strspn(at, " >");
        if (!strncmp(at + indent, name, strlen(name)) && indent == 1)
            break;
    }
    assert_true(*at);
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    free(text);
    return line;
}

// Right ends of the words of a row, after its name.
static int word_ends(const char *row, int *ends, int max)
{
    int n = 0, col = 0;
    bool in_word = false;

    for (const char *at = row; *at; col++) {
        uint32_t ch = utf8_next(&at);

        if (ch == ' ' && in_word && n < max)
            ends[n++] = col;
        in_word = ch != ' ';
    }
    if (in_word && n < max)
        ends[n++] = col;
    return n;
}

static void numbers_stand_under_each_other(void **state)
{
    static const char *const rows[] = {"q ", "kv ", "reuse "};
    static const char *const profiles[] = {NULL, "profiles/A/crown18.yaml",
                                           "profiles/A/base12.yaml"};

    (void)state;
    for (size_t p = 0; p < 3; p++)
        for (int i = 0; i < 3; i++) {
            int axis[64], ends[64], n;

            desk_open(profiles[p]);
            desk_draw(sizes[i][0], sizes[i][1], true);
            n = word_ends(row_starting("layer ") + 7, axis, 64);
            assert_true(n >= desk_app.design->spec.model.n_layers);
            n = desk_app.design->spec.model.n_layers; // the panel follows on the same row
            for (size_t r = 0; r < 3; r++) {
                assert_true(word_ends(row_starting(rows[r]) + 7, ends, 64) >= n);
                for (int k = 0; k < n; k++)
                    assert_int_equal(ends[k], axis[k]);
            }
        }
}

static void nothing_jumps_when_a_value_changes(void **state)
{
    (void)state;
    desk_open("profiles/A/crown18.yaml");
    desk_draw(24, 80, true);
    int total = column_of_word(desk_screen(), "non-emb");
    char axis[1024];

    snprintf(axis, sizeof axis, "%s", row_starting("layer "));
    desk_keys("VKKKK");
    desk_keys("0\033");
    desk_draw(24, 80, true);
    assert_int_equal(column_of_word(desk_screen(), "non-emb"), total);
    assert_string_equal(row_starting("layer "), axis);
}

static void every_size_draws_in_every_alphabet(void **state)
{
    static const char *const profiles[] = {NULL, "profiles/A/crown18.yaml",
                                           "profiles/openelm/3B.yaml"};

    (void)state;
    for (size_t p = 0; p < 3; p++)
        for (int i = 0; i < N_SIZES; i++)
            for (int utf8 = 0; utf8 < 2; utf8++) {
                desk_open(profiles[p]);
                desk_keys("$v\t");
                desk_draw(sizes[i][0], sizes[i][1], utf8);
                assert_true(shows_parameters(desk_app.design->count.total));
                for (int k = 0; k < desk_canvas.rows * desk_canvas.cols && !utf8; k++)
                    assert_in_range(desk_canvas.cell[k].ch, 0x20, 0x7e);
            }
}

static void any_size_and_key_is_survived(void **state)
{
    uint32_t seed = 5;

    (void)state;
    desk_open("profiles/openelm/1.1B.yaml");
    for (int i = 0; i < 400; i++) {
        desk_random_edit(&seed);
        if (i % 3 == 0)
            desk_keys("?");
        desk_draw((int)(desk_random(&seed) % 70), (int)(desk_random(&seed) % 230), i % 2);
        if (i % 3 == 0)
            desk_keys("\033");
    }
}

static void many_layers_scroll_with_the_cursor(void **state)
{
    (void)state;
    desk_open("profiles/openelm/3B.yaml");
    desk_draw(24, 40, true); // 33 columns: one each, 33 of 36 layers
    assert_true(strchr(row_starting("layer"), '>') != NULL);
    desk_keys("$");
    desk_draw(24, 40, true);
    assert_true(strchr(row_starting("layer"), '<') != NULL);
    assert_true(desk_shows("35"));
    assert_true(desk_canvas.cursor_col >= 0 && desk_canvas.cursor_col < 40);
}

static int bar_height(int layer_column)
{
    int n = 0;

    for (int row = 0; row < desk_canvas.rows; row++) {
        const struct cell *cell = &desk_canvas.cell[row * desk_canvas.cols + layer_column];

        if (cell->role == ROLE_BAR || cell->role == ROLE_BAR_CURSOR)
            n += cell->ch == 0x2588 || cell->ch == 0x2592 ? 8 // kv heads are shaded
                 : cell->ch > 0x2580 && cell->ch < 0x2588 ? (int)(cell->ch - 0x2580)
                                                          : 0;
    }
    return n;
}

static void bars_are_as_high_as_their_values(void **state)
{
    (void)state;
    desk_open("profiles/A/crown18.yaml");
    desk_draw(60, 200, true);
    struct design_layout l = design_layout(56, 200, 18);
    const struct model_spec *m = &desk_app.design->spec.model;
    int unit = l.layer_cols + l.gap;
    double scale = 0;

    for (int i = 0; i < m->n_layers; i++)
        scale = fmax(scale, m->lane[LANE_FFN][i]);
    for (int i = 0; i < m->n_layers; i++) { // both panes: heads are subtracted by their own share
        int col = l.ffn.col + i * unit;
        double heads = (double)m->lane[LANE_HEADS][i] / 12 * l.heads.rows * 8;

        // 3072 and 12 are the tops of the scales
        assert_in_range(bar_height(col),
                        (int)lround(m->lane[LANE_FFN][i] / 3072. * l.ffn.rows * 8 + heads) - 1,
                        (int)lround(m->lane[LANE_FFN][i] / 3072. * l.ffn.rows * 8 + heads) + 1);
    }
    assert_near(scale, 3072, 0);
}

static void the_key_bar_keeps_the_most_important_keys(void **state)
{
    struct canvas bar;
    struct rect r = {0, 0, 1, 24};
    char *text;

    (void)state;
    canvas_init(&bar, 1, 24, true);
    bars_keys(&bar, &r, CTX_DESIGN);
    text = canvas_dump(&bar);
    assert_string_equal(text, " ? Help  q Quit  k Raise\n");
    free(text);
    canvas_release(&bar);
}

static void help_is_the_key_table(void **state)
{
    (void)state;
    desk_open(NULL);
    desk_keys("?");
    desk_draw(100, 100, true);
    for (int i = 0; i < key_table_count; i++)
        if (help_applies(&key_table[i], CTX_DESIGN) && !desk_shows(key_table[i].help))
            fail_msg("help does not show '%s'", key_table[i].help);
    desk_keys("generat");
    desk_draw(24, 80, true);
    assert_true(desk_shows("a generator for the whole lane"));
    assert_false(desk_shows("paint the whole screen again"));
    desk_keys("\033\033");
    desk_draw(24, 80, true);
    assert_true(desk_shows("ffn width"));
}

static void a_search_in_help_takes_all_letters(void **state)
{
    (void)state;
    desk_open(NULL);
    desk_keys("?q");
    assert_int_equal(desk_app.dialog.kind, DIALOG_NONE);
    desk_keys("?/quit?");
    assert_int_equal(desk_app.dialog.kind, DIALOG_HELP);
    assert_string_equal(desk_app.dialog.help.search.text, "quit?");
    desk_keys("\033\033");
    assert_int_equal(desk_app.dialog.kind, DIALOG_NONE);
    desk_keys("?seq");
    assert_string_equal(desk_app.dialog.help.search.text, "seq");
    desk_keys("\033q");
    assert_int_equal(desk_app.dialog.kind, DIALOG_NONE);
    assert_false(desk_app.quit);
}

static void a_long_message_is_shown_whole(void **state)
{
    (void)state;
    desk_open(NULL);
    app_message(&desk_app, ROLE_WARN, "%s",
                "a reason that is a good deal longer than the eighty columns of a terminal, and "
                "behind it the remedy: turn it off and on");
    for (int rows = 20; rows < 60; rows += 10) {
        desk_draw(rows, 80, true);
        assert_true(desk_shows("a reason that is") && desk_shows("off and on"));
        assert_true(desk_shows("same as:"));
    }
    desk_draw(7, 40, true); // where there is no room for it the line stays one
    assert_true(desk_shows("a reason that is"));
}

static void an_idle_workbench_never_wakes(void **state)
{
    (void)state;
    desk_open(NULL);
    desk_draw(24, 80, true);
    assert_int_equal(app_wait_ms(&desk_app), -1);
    assert_false(app_tick(&desk_app));
}

static void one_edit_counts_once(void **state)
{
    (void)state;
    desk_open("profiles/openelm/3B.yaml");
    long before = desk_app.design->counts;

    desk_keys("k");
    assert_int_equal(desk_app.design->counts - before, 1);
    desk_keys("VK"); // a range is one edit
    assert_int_equal(desk_app.design->counts - before, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_shown_are_those_counted),
        cmocka_unit_test(differences_are_against_the_reference),
        cmocka_unit_test(layout_follows_the_widths_promised),
        cmocka_unit_test(no_two_parts_of_the_layout_overlap),
        cmocka_unit_test(numbers_stand_under_each_other),
        cmocka_unit_test(nothing_jumps_when_a_value_changes),
        cmocka_unit_test(every_size_draws_in_every_alphabet),
        cmocka_unit_test(any_size_and_key_is_survived),
        cmocka_unit_test(many_layers_scroll_with_the_cursor),
        cmocka_unit_test(bars_are_as_high_as_their_values),
        cmocka_unit_test(the_key_bar_keeps_the_most_important_keys),
        cmocka_unit_test(help_is_the_key_table),
        cmocka_unit_test(a_search_in_help_takes_all_letters),
        cmocka_unit_test(a_long_message_is_shown_whole),
        cmocka_unit_test(an_idle_workbench_never_wakes),
        cmocka_unit_test(one_edit_counts_once),
    };

    desk_setup();
    return cmocka_run_group_tests(tests, NULL, desk_release);
}
