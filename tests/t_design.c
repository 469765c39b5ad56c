// Editing a profile and the screen that shows it, without a terminal.
#include "tests/t.h"

#include <locale.h>
#include <math.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/run.h"
#include "tui/app.h"
#include "tui/bars.h"
#include "tui/design.h"
#include "tui/design_draw.h"
#include "tui/launch.h"
#include "tui/utf8.h"

static struct app app;
static struct canvas c;

static void start(const char *profile)
{
    struct err err = ERR_INIT;

    app_release(&app);
    app_init(&app);
    if (profile && design_open(app.design, profile, &err) < 0)
        fail_msg("%s: %s", profile, err.text);
}

static void draw(int rows, int cols, bool utf8)
{
    canvas_release(&c);
    canvas_init(&c, rows, cols, utf8);
    app_draw(&app, &c);
}

static const char *screen(void)
{
    static char *text;

    free(text);
    text = canvas_dump(&c);
    return text;
}

static void keys(const char *text)
{
    while (*text) {
        uint32_t ch = utf8_next(&text);

        app_key(&app, ch == '\n' ? K_ENTER : ch == 27 ? K_ESC : ch == '\t' ? K_TAB : (int)ch, "");
    }
}

static bool shows(const char *text)
{
    return strstr(screen(), text) != NULL;
}

static int ffn(int layer)
{
    return app.design->spec.model.lane[LANE_FFN][layer];
}

// ---- editing ------------------------------------------------------------------------------------

static void steps_move_by_the_legal_step(void **state)
{
    (void)state;
    start(NULL);
    int before = ffn(2), step = app.design->spec.model.ffn_step;

    keys("llk");
    assert_int_equal(ffn(2), before + step);
    keys("K");
    assert_int_equal(ffn(2), before + 5 * step);
    keys("jJ");
    assert_int_equal(ffn(2), before);
    assert_int_equal(app.design->cursor, 2);
}

static void a_selection_moves_together(void **state)
{
    (void)state;
    start(NULL);
    struct model_spec before = app.design->spec.model;

    keys("lvllk");
    for (int i = 0; i < before.n_layers; i++)
        assert_int_equal(ffn(i),
                         before.lane[LANE_FFN][i] + (i >= 1 && i <= 3 ? before.ffn_step : 0));
    keys("u");
    assert_memory_equal(&app.design->spec.model, &before, sizeof before);
    keys("\033V=*2\n");
    for (int i = 0; i < before.n_layers; i++)
        assert_int_equal(ffn(i), 2 * before.lane[LANE_FFN][i]);
}

static void typed_values_are_numbers_factors_and_sums(void **state)
{
    (void)state;
    start(NULL);
    keys("=256\n");
    assert_int_equal(ffn(0), 256);
    keys("=+64\n");
    assert_int_equal(ffn(0), 320);
    keys("=-64\n");
    assert_int_equal(ffn(0), 256);
    keys("=*1.1\n"); // 281.6: the nearest multiple of 32
    assert_int_equal(ffn(0), 288);
    keys("=rubbish\n");
    assert_int_equal(ffn(0), 288);
    draw(24, 80, true);
    assert_true(shows("'rubbish' is no value"));
    keys("=512\033"); // left
    assert_int_equal(ffn(0), 288);
}

static void an_illegal_move_says_why(void **state)
{
    (void)state;
    start(NULL);
    keys("\t\t\tj"); // reuse below 1
    assert_int_equal(app.design->lane, LANE_REUSE);
    draw(24, 80, true);
    assert_true(shows("1 repetitions is the least a layer can have"));
    assert_false(design_dirty(app.design));
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void random_edit(uint32_t *seed)
{
    static const char *const edits[] = {"k",
                                        "j",
                                        "K",
                                        "J",
                                        "l",
                                        "h",
                                        "\t",
                                        "v",
                                        "V",
                                        "\033",
                                        "=*1.3\n",
                                        "=+96\n",
                                        "=1\n",
                                        "g\025crown 0.5 2 0.5\n",
                                        "g\025uniform 1\n",
                                        "g\025reverse 3 1\n",
                                        "g\025broken\n",
                                        "R",
                                        "$",
                                        "0"};

    const char *edit = edits[next_random(seed) % (sizeof edits / sizeof *edits)];

    if (edit[0] == 'g' && app.design->lane > LANE_HEADS)
        edit++; // no dialog opens: the letters would be commands
    if (edit[0] != '\025')
        keys(edit);
}

static void undo_returns_every_state_exactly(void **state)
{
    enum { EDITS = 400 };
    static struct model_spec at[EDITS + 1];
    uint32_t seed = 7;

    (void)state;
    start("profiles/A/crown18.yaml");
    struct design *d = app.design;
    at[0] = d->spec.model;
    for (int i = 0; i < EDITS; i++) {
        int before = d->at;

        random_edit(&seed);
        assert_in_range(d->at, before, before + 1);
        at[d->at] = d->spec.model;
    }
    int newest = d->at;
    assert_true(newest > EDITS / 4);
    for (int i = newest - 1; i >= 0; i--) {
        assert_true(design_undo(d));
        assert_memory_equal(&d->spec.model, &at[i], sizeof at[i]);
    }
    assert_false(design_undo(d));
    assert_false(design_dirty(d));
    for (int i = 1; i <= newest; i++) {
        assert_true(design_redo(d));
        assert_memory_equal(&d->spec.model, &at[i], sizeof at[i]);
    }
    assert_false(design_redo(d));
}

static void every_state_is_a_valid_profile_with_its_own_counts(void **state)
{
    uint32_t seed = 99;

    (void)state;
    start(NULL);
    for (int i = 0; i < 300; i++) {
        struct problems problems = {0};
        struct count fresh;

        random_edit(&seed);
        if (profile_validate(&app.design->spec, &problems) < 0)
            fail_msg("edit %d: %s: %s", i, problems.v[0].path, problems.v[0].err.text);
        problems_release(&problems);
        count_model(&app.design->spec, &fresh);
        assert_int_equal(app.design->count.total, fresh.total);
        assert_true(app.design->count.forward_per_token == fresh.forward_per_token);
    }
}

static void an_edit_after_undo_forgets_the_redone(void **state)
{
    (void)state;
    start(NULL);
    int before = ffn(0), step = app.design->spec.model.ffn_step;

    keys("kkuj");
    assert_int_equal(ffn(0), before);
    assert_false(design_redo(app.design));
    keys("uu");
    assert_int_equal(ffn(0), before);
    keys("k");
    assert_int_equal(ffn(0), before + step);
}

static void a_shape_is_previewed_and_left_without_a_trace(void **state)
{
    (void)state;
    start(NULL);
    struct model_spec before = app.design->spec.model;
    struct model_spec shown;
    int64_t total = app.design->count.total;

    keys("g\025"); // ctrl-U clears the line
    keys("uniform 2");
    shown = app.design->spec.model;
    assert_int_equal(shown.lane[LANE_FFN][3], 2 * before.d_model);
    assert_int_not_equal(app.design->count.total, total); // read-outs follow the preview
    draw(24, 80, true);
    assert_true(shows("preview: o"));
    keys("\033");
    assert_memory_equal(&app.design->spec.model, &before, sizeof before);
    assert_int_equal(app.design->count.total, total);
    assert_false(design_dirty(app.design));
    keys("g\025");    // ctrl-U clears the line
    keys("unif 2\n"); // a prefix is enough
    assert_int_equal(ffn(3), 2 * before.d_model);
    assert_int_equal(app.design->spec.model.source[LANE_FFN].shape, SHAPE_UNIFORM);
    assert_true(design_dirty(app.design));
}

static void wrong_shapes_are_explained(void **state)
{
    struct lane_source source;
    char why[DESIGN_WHY];

    (void)state;
    assert_true(shape_parse("crown: [0.5, 3.8, 0.5]", &source, why));
    assert_int_equal(source.shape, SHAPE_CROWN);
    assert_near(source.points[1], 3.8, 0);
    assert_false(shape_parse("crown 1 2", &source, why));
    assert_string_equal(why, "crown takes 3 multipliers");
    assert_false(shape_parse("uniform 1 2 3 4", &source, why));
    assert_false(shape_parse("pyramid 1 2", &source, why));
    assert_non_null(strstr(why, "'pyramid' is no shape"));
    assert_false(shape_parse("", &source, why));
    assert_false(shape_parse("vanilla 1 x", &source, why));
}

static void a_shape_begins_with_what_the_lane_had(void **state)
{
    struct model_spec *m;
    struct lane_source had;
    char initial[96];

    (void)state;
    start("profiles/A/crown18.yaml");
    m = &app.design->spec.model;
    had = m->source[LANE_FFN];
    assert_int_equal(had.shape, SHAPE_CROWN);
    shape_format(&had, initial, sizeof initial);
    keys("kkg");                                          // edited by hand: the former points
    assert_true(m->source[LANE_FFN].shape != SHAPE_LIST); // the preview
    assert_string_equal(app.dialog.edit.text, initial);
    keys("\033");
    start(NULL); // a list, from nowhere: through the layers it has
    keys("V=128\n");
    app.design->spec.model.source[LANE_FFN] = (struct lane_source){.shape = SHAPE_LIST};
    m = &app.design->spec.model;
    m->d_model = 128;
    for (int i = 0; i < app.design->n_undo; i++)
        app.design->undo[i]->model = *m;
    design_shape(app.design, &had);
    assert_string_equal(shape_format(&had, initial, sizeof initial), "uniform 1");
    m->lane[LANE_FFN][(m->n_layers - 1) / 2] = 512;
    design_shape(app.design, &had);
    assert_string_equal(shape_format(&had, initial, sizeof initial), "crown 1 4 1");
    m->lane[LANE_FFN][m->n_layers - 1] = 1024;
    design_shape(app.design, &had);
    assert_string_equal(shape_format(&had, initial, sizeof initial), "vanilla 1 8");
    m->head_dim = 32;
    app.design->lane = LANE_HEADS;
    for (int i = 0; i < app.design->n_undo; i++)
        app.design->undo[i]->model.source[LANE_HEADS].shape = SHAPE_LIST;
    for (int i = 0; i < m->n_layers; i++)
        m->lane[LANE_HEADS][i] = 2;
    design_shape(app.design, &had);
    assert_string_equal(shape_format(&had, initial, sizeof initial), "uniform 0.5");
}

static void heads_carry_their_kv_heads(void **state)
{
    (void)state;
    start("profiles/A/crown18.yaml");
    const struct model_spec *m = &app.design->spec.model;
    int ratio = spec_kv_ratio(m);

    assert_true(ratio > 1);
    keys("\tVk");
    assert_int_equal(spec_kv_ratio(m), ratio);
    keys("g\025"); // ctrl-U clears the line
    keys("uniform 1\n");
    assert_int_equal(spec_kv_ratio(m), ratio);
}

// ---- files --------------------------------------------------------------------------------------

static void saving_and_opening_gives_the_same_profile(void **state)
{
    const char *path = t_path("saved.yaml");

    (void)state;
    start(NULL);
    keys("lKvlj");
    struct spec before = app.design->spec;

    keys("W\025");
    keys(path);
    keys("\n");
    assert_false(design_dirty(app.design));
    assert_string_equal(app.design->path, path);
    start(path);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        assert_memory_equal(app.design->spec.model.lane[lane], before.model.lane[lane],
                            sizeof(int) * (size_t)before.model.n_layers);
}

static void saving_again_goes_to_the_same_file(void **state)
{
    const char *path = t_path("again.yaml");
    char said[600], same_as[600];

    (void)state;
    start(NULL);
    keys("W\025");
    keys(path);
    keys("\n");
    snprintf(said, sizeof said, "saved %s", path);
    snprintf(same_as, sizeof same_as, "same as: lathe count %s", path);
    for (int i = 0; i < 2; i++) {
        keys("kw");
        assert_string_equal(app.design->path, path);
        assert_false(design_dirty(app.design));
        draw(24, 200, true);
        assert_true(shows(said) && shows(same_as) && shows(" again.yaml"));
        assert_false(shows("[+]"));
    }
}

static void save_over(const char *path)
{
    keys("W\025");
    keys(path);
    keys("\n");
    draw(24, 200, true);
}

// The question must agree with the deed: what it says stays, stays.
static void assert_said_is_done(const char *path, bool keeps)
{
    struct err err = ERR_INIT;
    struct buf text = {0};

    save_over(path);
    assert_int_equal(shows("the rest of its text stays"), keeps);
    assert_int_equal(shows("! The whole file is replaced"), !keeps);
    keys("\n"); // is no
    assert_true(design_dirty(app.design));
    save_over(path);
    keys("y");
    assert_false(design_dirty(app.design));
    assert_int_equal(file_read(path, 1 << 20, &text, &err), 0);
    assert_int_equal(strstr(text.data, "# mine") != NULL, keeps);
    buf_release(&text);
}

static void replacing_a_file_says_what_is_lost(void **state)
{
    const char *twin = t_path("twin.yaml"), *other = t_path("other.yaml");
    char *text = xasprintf("# mine\n%s", profile_default_yaml);

    (void)state;
    t_write(twin, text);
    t_write(other, "# mine\n{name: other, model: {d_model: 64, n_layers: 2, head_dim: 16, "
                   "ffn_width: 64, n_heads: 4, n_kv_heads: 4, ffn_step: 16, vocab: 257}}\n");
    start(NULL);
    keys("k");
    assert_said_is_done(twin, true);
    keys("k");
    assert_said_is_done(other, false);
    free(text);
}

static void a_bad_file_changes_nothing_and_says_where(void **state)
{
    const char *path = t_path("bad.yaml");

    (void)state;
    start(NULL);
    char *yaml = profile_to_yaml(&app.design->spec, NULL);
    char *key = strstr(yaml, "norm_eps:");

    memcpy(key, "norm_epz:", 9);
    t_write(path, yaml);
    free(yaml);
    struct spec before = app.design->spec;

    keys("O\025");
    keys(path);
    keys("\n");
    assert_memory_equal(&app.design->spec, &before, sizeof before);
    draw(24, 200, true);
    assert_true(shows("bad.yaml:") && shows("model.norm_epz: unknown key 'norm_epz'"));
}

static void leaving_with_changes_asks_once(void **state)
{
    (void)state;
    start(NULL);
    keys("q");
    assert_true(app.quit);
    start(NULL);
    keys("kq");
    assert_false(app.quit);
    keys("n");
    assert_false(app.quit);
    keys("qy");
    assert_true(app.quit);
    start(NULL);
    keys("kuq"); // undone: nothing to lose
    assert_true(app.quit);
}

// ---- the picture --------------------------------------------------------------------------------

static const int sizes[][2] = {{24, 80}, {30, 100}, {60, 200}, {10, 40}, {4, 20}};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

// Exact where there is room, else to the thousand.
static bool shows_parameters(int64_t n)
{
    char exact[UNIT_SIZE], shorter[UNIT_SIZE];

    snprintf(shorter, sizeof shorter, n < 1000000000 ? "%.3fM" : "%.4fG",
             (double)n / (n < 1000000000 ? 1e6 : 1e9));
    return shows(c.cols >= 100 || n < 1000000 ? unit_thousands(exact, n) : shorter);
}

static void totals_shown_are_those_counted(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        char flops[UNIT_SIZE];

        start("profiles/A/crown18.yaml");
        keys("llVk");
        draw(sizes[i][0], sizes[i][1], true);
        assert_true(shows_parameters(app.design->count.total));
        assert_true(shows_parameters(app.design->count.non_embedding));
        assert_true(shows(unit_count(flops, app.design->count.forward_per_token)));
    }
}

static void differences_are_against_the_reference(void **state)
{
    char want[32];

    (void)state;
    start("profiles/A/crown18.yaml");
    double before = (double)app.design->count.total, change;

    draw(30, 100, true);
    assert_false(shows("%+")); // nothing differs yet
    keys("k");
    change = 100 * ((double)app.design->count.total / before - 1);
    assert_true(change > 0.1 && change < 9);
    snprintf(want, sizeof want, "%+.2f%%", change);
    draw(30, 100, true);
    assert_true(shows(want));
    keys("R");
    draw(30, 100, true);
    assert_false(shows(want));
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
    char *text = canvas_dump(&c), *at = text;
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

            start(profiles[p]);
            draw(sizes[i][0], sizes[i][1], true);
            n = word_ends(row_starting("layer ") + 7, axis, 64);
            assert_true(n >= app.design->spec.model.n_layers);
            n = app.design->spec.model.n_layers; // the panel follows on the same row
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
    start("profiles/A/crown18.yaml");
    draw(24, 80, true);
    int total = column_of_word(screen(), "non-emb");
    char axis[1024];

    snprintf(axis, sizeof axis, "%s", row_starting("layer "));
    keys("VKKKK");
    keys("0\033");
    draw(24, 80, true);
    assert_int_equal(column_of_word(screen(), "non-emb"), total);
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
                start(profiles[p]);
                keys("$v\t");
                draw(sizes[i][0], sizes[i][1], utf8);
                assert_true(shows_parameters(app.design->count.total));
                for (int k = 0; k < c.rows * c.cols && !utf8; k++)
                    assert_in_range(c.cell[k].ch, 0x20, 0x7e);
            }
}

static void any_size_and_key_is_survived(void **state)
{
    uint32_t seed = 5;

    (void)state;
    start("profiles/openelm/1.1B.yaml");
    for (int i = 0; i < 400; i++) {
        random_edit(&seed);
        if (i % 3 == 0)
            keys("?");
        draw((int)(next_random(&seed) % 70), (int)(next_random(&seed) % 230), i % 2);
        if (i % 3 == 0)
            keys("\033");
    }
}

static void many_layers_scroll_with_the_cursor(void **state)
{
    (void)state;
    start("profiles/openelm/3B.yaml");
    draw(24, 40, true); // 33 columns: one each, 33 of 36 layers
    assert_true(strchr(row_starting("layer"), '>') != NULL);
    keys("$");
    draw(24, 40, true);
    assert_true(strchr(row_starting("layer"), '<') != NULL);
    assert_true(shows("35"));
    assert_true(c.cursor_col >= 0 && c.cursor_col < 40);
}

static int bar_height(int layer_column)
{
    int n = 0;

    for (int row = 0; row < c.rows; row++) {
        const struct cell *cell = &c.cell[row * c.cols + layer_column];

        if (cell->role == ROLE_BAR || cell->role == ROLE_BAR_CURSOR)
            n += cell->ch == 0x2588                       ? 8
                 : cell->ch > 0x2580 && cell->ch < 0x2588 ? (int)(cell->ch - 0x2580)
                                                          : 0;
    }
    return n;
}

static void bars_are_as_high_as_their_values(void **state)
{
    (void)state;
    start("profiles/A/crown18.yaml");
    draw(60, 200, true);
    struct design_layout l = design_layout(56, 200, 18);
    const struct model_spec *m = &app.design->spec.model;
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
    start(NULL);
    keys("?");
    draw(60, 100, true);
    for (int i = 0; i < key_table_count; i++)
        if (help_applies(&key_table[i], CTX_DESIGN) && !shows(key_table[i].help))
            fail_msg("help does not show '%s'", key_table[i].help);
    keys("generat");
    draw(24, 80, true);
    assert_true(shows("a generator for the whole lane"));
    assert_false(shows("paint the whole screen again"));
    keys("\033\033");
    draw(24, 80, true);
    assert_true(shows("ffn width"));
}

static void a_search_in_help_takes_all_letters(void **state)
{
    (void)state;
    start(NULL);
    keys("?q");
    assert_int_equal(app.dialog.kind, DIALOG_NONE);
    keys("?/quit?");
    assert_int_equal(app.dialog.kind, DIALOG_HELP);
    assert_string_equal(app.dialog.help.search.text, "quit?");
    keys("\033\033");
    assert_int_equal(app.dialog.kind, DIALOG_NONE);
    keys("?seq");
    assert_string_equal(app.dialog.help.search.text, "seq");
    keys("\033q");
    assert_int_equal(app.dialog.kind, DIALOG_NONE);
    assert_false(app.quit);
}

static void a_long_message_is_shown_whole(void **state)
{
    (void)state;
    start(NULL);
    app_message(&app, ROLE_WARN, "%s",
                "a reason that is a good deal longer than the eighty columns of a terminal, and "
                "behind it the remedy: turn it off and on");
    for (int rows = 20; rows < 60; rows += 10) {
        draw(rows, 80, true);
        assert_true(shows("a reason that is") && shows("off and on"));
        assert_true(shows("same as:"));
    }
    draw(7, 40, true); // where there is no room for it the line stays one
    assert_true(shows("a reason that is"));
}

static void an_idle_workbench_never_wakes(void **state)
{
    (void)state;
    start(NULL);
    draw(24, 80, true);
    assert_int_equal(app_wait_ms(&app), -1);
    assert_false(app_tick(&app));
}

static void one_edit_counts_once(void **state)
{
    (void)state;
    start("profiles/openelm/3B.yaml");
    long before = app.design->counts;

    keys("k");
    assert_int_equal(app.design->counts - before, 1);
    keys("VK"); // a range is one edit
    assert_int_equal(app.design->counts - before, 2);
}

// ---- launching ----------------------------------------------------------------------------------

static void launching_shows_what_will_run_and_asks(void **state)
{
    char steps[UNIT_SIZE], length[64];

    (void)state;
    start(NULL);
    keys("\n");
    draw(24, 80, true);
    assert_true(shows("Train this?"));
    assert_true(shows("demo-crown-1"));
    assert_true(shows("gcide/train.bin"));
    snprintf(length, sizeof length, "tokens in %s steps",
             unit_thousands(steps, spec_total_steps(&app.design->spec)));
    assert_true(shows(length));
    assert_true(shows("lathe train"));
    assert_true(shows("Enter yes   Esc no"));
    keys("\033");
    assert_int_equal(app.dialog.kind, DIALOG_NONE);
    assert_false(launch_busy(&app));
}

static void the_question_warns_of_what_will_go_wrong(void **state)
{
    (void)state;
    start(NULL);
    keys("\n");
    assert_null(strstr(app.dialog.text, "!"));
    keys("\033");
    app.design->spec.optim.warmup_steps = spec_total_steps(&app.design->spec) + 1;
    keys("\n");
    draw(40, 100, true);
    assert_true(shows("!         optim.warmup_steps"));
    keys("\033");
    start(NULL);
    // more than any machine has; the check counts the activations of the micro-batch
    app.design->spec.train.seq_len = 1 << 16;
    app.design->spec.train.micro_batch_size = 1 << 12;
    app.design->spec.train.global_batch_size = 1 << 12;
    keys("\n");
    draw(40, 100, true);
    assert_true(shows("available: will be refused"));
    keys("\033");
}

static void the_question_names_the_run_that_will_be_made(void **state)
{
    struct err err = ERR_INIT;
    char dir[512], id[RUN_ID_SIZE], shown[80];

    (void)state;
    start(NULL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(run_create(&app.design->spec, NULL, dir, sizeof dir, &err), 0);
    assert_int_equal(run_delete(dir, &err), 0); // its number is not used again
    keys("\n");
    draw(24, 100, true);
    assert_true(shows("demo-crown-3"));
    assert_false(shows("demo-crown-2"));
    keys("\033");
    run_next_id(&app.design->spec, id);
    assert_int_equal(run_create(&app.design->spec, NULL, dir, sizeof dir, &err), 0);
    snprintf(shown, sizeof shown, "/%s", id);
    assert_non_null(strstr(dir, shown));
}

static void a_profile_without_data_is_not_launched(void **state)
{
    (void)state;
    start("profiles/A/crown18.yaml"); // ships without token files
    keys("\n");
    draw(24, 100, true);
    assert_int_equal(app.dialog.kind, DIALOG_NONE);
    assert_true(shows("data.train"));
}

static int release(void **state)
{
    (void)state;
    app_release(&app);
    canvas_release(&c);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_move_by_the_legal_step),
        cmocka_unit_test(a_selection_moves_together),
        cmocka_unit_test(typed_values_are_numbers_factors_and_sums),
        cmocka_unit_test(an_illegal_move_says_why),
        cmocka_unit_test(undo_returns_every_state_exactly),
        cmocka_unit_test(every_state_is_a_valid_profile_with_its_own_counts),
        cmocka_unit_test(an_edit_after_undo_forgets_the_redone),
        cmocka_unit_test(a_shape_is_previewed_and_left_without_a_trace),
        cmocka_unit_test(wrong_shapes_are_explained),
        cmocka_unit_test(a_shape_begins_with_what_the_lane_had),
        cmocka_unit_test(heads_carry_their_kv_heads),
        cmocka_unit_test(saving_and_opening_gives_the_same_profile),
        cmocka_unit_test(saving_again_goes_to_the_same_file),
        cmocka_unit_test(replacing_a_file_says_what_is_lost),
        cmocka_unit_test(a_bad_file_changes_nothing_and_says_where),
        cmocka_unit_test(leaving_with_changes_asks_once),
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
        cmocka_unit_test(launching_shows_what_will_run_and_asks),
        cmocka_unit_test(the_question_warns_of_what_will_go_wrong),
        cmocka_unit_test(the_question_names_the_run_that_will_be_made),
        cmocka_unit_test(a_profile_without_data_is_not_launched),
    };

    if (argc > 1) { // a launch would start this program again as the host of a run
        fprintf(stderr, "%s: a test tried to start a run\n", argv[0]);
        return 1;
    }
    setlocale(LC_CTYPE, "C.UTF-8");
    runs_set_dir(t_path("runs"));
    return cmocka_run_group_tests(tests, NULL, release);
}
