// The form of all keys over Design, without a terminal.
#include "tests/t.h"

#include <locale.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/run.h"
#include "tui/app.h"
#include "tui/design.h"
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

static bool shows(const char *text)
{
    char *screen = canvas_dump(&c);
    bool found = strstr(screen, text) != NULL;

    free(screen);
    return found;
}

static void keys(const char *text)
{
    while (*text) {
        uint32_t ch = utf8_next(&text);

        app_key(&app, ch == '\n' ? K_ENTER : ch == 27 ? K_ESC : ch == '\t' ? K_TAB : (int)ch, "");
    }
}

static const char *at_cursor(void)
{
    return spec_keys[app.form.row[app.form.list.cursor]].path;
}

// Opens the form, or stays in it, and walks to a key.
static void go_to(const char *path)
{
    if (app.screen != &screen_form)
        keys("e");
    keys("0");
    for (int i = 0; strcmp(at_cursor(), path); i++) {
        keys("j");
        assert_true(i < spec_key_count);
    }
}

static void type(const char *path, const char *text)
{
    go_to(path);
    keys("\n\025"); // ctrl-U clears the line
    keys(text);
    keys("\n");
}

static const char *value(const char *path)
{
    static char *text;
    struct buf b = {0};

    free(text);
    profile_value_text(spec_key_find(path), &app.design->spec, &b);
    return text = buf_detach(&b);
}

static const int sizes[][2] = {{24, 80}, {30, 100}, {60, 200}, {10, 40}, {4, 20}};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

// ---- what is shown ------------------------------------------------------------------------------

static bool row_shows(int row, const char *text)
{
    struct canvas one = {1, c.cols, c.cell + row * c.cols, c.utf8, -1, -1};
    char *line = canvas_dump(&one);
    bool found = strstr(line, text) != NULL;

    free(line);
    return found;
}

static void every_key_is_reached_and_shown_with_its_value(void **state)
{
    (void)state;
    for (int s = 0; s < 4; s++) {
        int n = 0;

        start("profiles/A/crown18.yaml");
        keys("e");
        for (int i = 0; i < spec_key_count; i++, n++) {
            const struct spec_key *k = &spec_keys[i];
            const char *dot = strrchr(k->path, '.');
            char shown[8], help[16];

            assert_string_equal(at_cursor(), k->path);
            draw(sizes[s][0], sizes[s][1], true);
            snprintf(shown, sizeof shown, "%.7s", value(k->path));
            snprintf(help, sizeof help, "%.15s", k->help);
            if (!row_shows(c.cursor_row, dot ? dot + 1 : k->path) ||
                !row_shows(c.cursor_row, shown))
                fail_msg("%dx%d does not show %s", sizes[s][1], sizes[s][0], k->path);
            assert_true(shows(help));
            if (sizes[s][1] >= 80)
                assert_true(shows(k->unit));
            keys("j");
        }
        assert_string_equal(at_cursor(), spec_keys[spec_key_count - 1].path);
        for (int i = spec_key_count - 2; i >= 0; i--) {
            keys("k");
            assert_string_equal(at_cursor(), spec_keys[i].path);
        }
        keys("k"); // nothing above
        assert_string_equal(at_cursor(), spec_keys[0].path);
    }
}

static void sections_have_headings_and_tab_goes_through_them(void **state)
{
    static const char *const firsts[] = {"model.d_model", "data.train",    "train.seq_len",
                                         "optim.lr",      "eval.interval", "log.interval",
                                         "save.interval", "model.d_model"};

    (void)state;
    start(NULL);
    keys("e");
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        char heading[16];

        keys("\t");
        assert_string_equal(at_cursor(), firsts[i]);
        draw(24, 80, true);
        snprintf(heading, sizeof heading, "   %.*s\n", (int)strcspn(firsts[i], "."), firsts[i]);
        assert_true(shows(heading));
    }
    app_key(&app, K_BACKTAB, "");
    assert_string_equal(at_cursor(), "save.interval");
}

static void range_default_and_origin_stand_below(void **state)
{
    (void)state;
    start("profiles/A/crown18.yaml");
    go_to("model.n_layers");
    draw(24, 80, true);
    assert_true(shows("1 to 256   has no default   from crown18.yaml:6"));
    go_to("model.norm_place");
    draw(24, 80, true);
    assert_true(shows("pre | reordered   default pre   from base12.yaml:25"));
    go_to("optim.min_lr");
    draw(24, 80, true);
    assert_true(shows("0 to 100   default: derived"));
    type("optim.min_lr", "1e-6");
    draw(30, 100, true);
    assert_true(shows("default: derived   edited"));
}

static void values_unlike_the_reference_are_marked(void **state)
{
    (void)state;
    start("profiles/A/crown18.yaml");
    keys("e");
    draw(60, 200, true);
    assert_false(shows(" *"));
    type("model.n_layers", "20");
    draw(60, 200, true);
    assert_true(shows(" *  n_layers          20"));
    assert_true(row_shows(c.cursor_row, " 18")); // the reference
    assert_true(shows(" *  ffn_width"));
    assert_false(shows(" *  reuse")); // one is one in every layer
    keys("R");
    draw(60, 200, true);
    assert_false(shows(" *"));
}

static void a_filter_leaves_what_was_asked_for(void **state)
{
    (void)state;
    start(NULL);
    keys("e/learning");
    draw(24, 80, true);
    assert_true(shows("   optim\n") && shows("lr ") && shows("schedule"));
    assert_false(shows("d_model"));
    keys("\n");
    assert_string_equal(at_cursor(), "optim.lr");
    keys("$");
    assert_string_equal(at_cursor(), "optim.schedule");
    keys("\033"); // all keys, the cursor where it was
    assert_ptr_equal(app.screen, &screen_form);
    assert_string_equal(at_cursor(), "optim.schedule");
    keys("/zzz\n");
    draw(24, 80, true);
    assert_true(shows("no key has that"));
    keys("\nlhkj\t");
    keys("\033\033");
    assert_ptr_equal(app.screen, &screen_design);
}

static void every_size_draws_in_every_alphabet(void **state)
{
    (void)state;
    for (int i = 0; i < N_SIZES; i++)
        for (int utf8 = 0; utf8 < 2; utf8++) {
            start("profiles/openelm/3B.yaml");
            keys("e");
            for (int k = 0; k < spec_key_count; k++) {
                draw(sizes[i][0], sizes[i][1], utf8);
                for (int at = 0; at < c.rows * c.cols && !utf8; at++)
                    assert_in_range(c.cell[at].ch, 0x20, 0x7e);
                keys("\n");
                draw(sizes[i][0], sizes[i][1], utf8);
                keys("?x"); // into the line
                draw(sizes[i][0], sizes[i][1], utf8);
                keys("\033j");
            }
            assert_false(design_dirty(app.design));
        }
    for (int rows = 1; rows < 40; rows++)
        for (int cols = 1; cols < 120; cols += 9)
            draw(rows, cols, rows % 2);
}

// ---- values -------------------------------------------------------------------------------------

static void typed_values_are_edits_with_undo(void **state)
{
    (void)state;
    start(NULL);
    struct spec before = app.design->spec;

    type("model.d_model", "256");
    assert_int_equal(app.design->spec.model.d_model, 256);
    assert_int_equal(app.design->spec.model.lane[LANE_FFN][0], 768); // the frame: 3 times
    type("optim.lr", "1e-3");
    type("model.n_layers", "3");
    assert_int_equal(app.design->at, 3);
    assert_true(design_dirty(app.design));
    draw(24, 80, true);
    assert_true(shows("crown.yaml [+]") || shows("demo-crown [+]"));
    keys("u");
    assert_int_equal(app.design->spec.model.n_layers, before.model.n_layers);
    keys("uu");
    assert_memory_equal(&app.design->spec, &before, sizeof before);
    assert_false(design_dirty(app.design));
    keys("\022"); // ctrl-R
    assert_int_equal(app.design->spec.model.d_model, 256);
    type("model.d_model", "256"); // the same: no edit
    assert_int_equal(app.design->at, 1);
    assert_int_equal(app.design->n_undo, 4);
}

static void totals_follow_while_typing(void **state)
{
    char total[UNIT_SIZE];

    (void)state;
    start(NULL);
    int64_t before = app.design->count.total;

    go_to("model.n_layers");
    keys("\n\0254"); // four
    struct spec four = app.design->spec;
    assert_int_equal(four.model.n_layers, 4);
    assert_true(app.design->count.total < before);
    draw(30, 100, true);
    assert_true(shows(unit_thousands(total, app.design->count.total)));
    assert_true(shows("model.ffn_width: follows its generator"));
    keys("\033");
    assert_int_equal(app.design->count.total, before);
    assert_false(design_dirty(app.design));
}

static void errors_are_said_at_once_and_change_nothing(void **state)
{
    (void)state;
    start(NULL);
    struct spec before = app.design->spec;

    go_to("model.d_model");
    keys("\n\0250");
    draw(24, 80, true);
    assert_true(shows("0 is out of range, expected 1 to 65536"));
    keys("\n"); // stays open, what was typed can be corrected
    assert_int_equal(app.dialog.kind, DIALOG_PROMPT);
    assert_string_equal(app.dialog.edit.text, "0");
    draw(24, 80, true);
    assert_true(shows("0 is out of range, expected 1 to 65536"));
    keys("\033");
    assert_memory_equal(&app.design->spec, &before, sizeof before);
    go_to("train.global_batch_size");
    keys("\n\02512");
    draw(10, 40, true); // in full on a small terminal
    assert_true(shows("12 is not a multiple of") && shows("micro_batch_size 8"));
    keys("8\n");
    assert_string_equal(value("train.global_batch_size"), "128");
}

static void choices_go_round_without_typing(void **state)
{
    (void)state;
    start(NULL);
    go_to("model.qk_norm"); // none, full, head
    assert_string_equal(value("model.qk_norm"), "head");
    keys("l");
    assert_string_equal(value("model.qk_norm"), "none");
    keys(" ");
    assert_string_equal(value("model.qk_norm"), "full");
    keys("h");
    assert_string_equal(value("model.qk_norm"), "none");
    go_to("model.bias");
    keys("l");
    assert_string_equal(value("model.bias"), "true");
    keys("l");
    assert_string_equal(value("model.bias"), "false");
    go_to("model.d_model");
    keys("l");
    draw(24, 80, true);
    assert_true(shows("Enter edits this value"));
}

static void a_refused_choice_is_passed_over_and_explained(void **state)
{
    const char *path = t_path("odd.yaml");

    (void)state;
    t_write(path, "model:\n  d_model: 64\n  n_layers: 2\n  head_dim: 15\n  ffn_width: 256\n"
                  "  n_heads: 2\n  vocab: 9\n  pos: none\n");
    start(path);
    go_to("model.pos"); // rope, none, learned
    keys("h");
    assert_string_equal(value("model.pos"), "learned");
    draw(24, 80, true);
    assert_true(shows("not rope: model.head_dim: 15 is odd"));
}

static void the_cursor_stays_inside_when_layers_go(void **state)
{
    (void)state;
    start(NULL);
    keys("$v0"); // both ends of a selection
    keys("$");
    type("model.n_layers", "2");
    assert_in_range(app.design->cursor, 0, 1);
    keys("\033k");
    draw(24, 80, true);
    keys("uu");
    assert_int_equal(app.design->spec.model.n_layers, 8);
    type("model.n_layers", "200");
    keys("\033$");
    assert_int_equal(app.design->cursor, 199);
    keys("u");
    assert_int_equal(app.design->cursor, 7);
    draw(24, 80, true);
}

// ---- files --------------------------------------------------------------------------------------

#define PROFILE                                                                                    \
    "# mine\nmodel:\n  d_model: 128 # width\n  n_layers: 4\n  ffn_width: 512\n  n_heads: 4\n"      \
    "  vocab: 257 # bytes\n\noptim: {lr: 3e-4} # low\n"

static void saving_replaces_the_values_in_their_places(void **state)
{
    const char *path = t_path("mine.yaml");
    struct err err = ERR_INIT;
    struct buf text = {0};

    (void)state;
    t_write(path, PROFILE);
    start(path);
    type("model.d_model", "256");
    type("optim.lr", "0.001");
    type("model.n_layers", "6");
    type("data.train", "a b.bin");
    type("eval.interval", "10");
    keys("w");
    assert_false(design_dirty(app.design));
    assert_string_equal(app.design->path, path);
    assert_int_equal(file_read(path, 10000, &text, &err), 0);
    assert_string_equal(text.data,
                        "# mine\nmodel:\n  d_model: 256 # width\n  n_layers: 6\n  ffn_width: 512\n"
                        "  n_heads: 4\n  vocab: 257 # bytes\n\noptim: {lr: 0.001} # low\n"
                        "data:\n  train: \"a b.bin\"\neval:\n  interval: 10\n");
    buf_release(&text);
}

static void save_as(const char *path)
{
    keys("W\025");
    keys(path);
    keys("\n");
    assert_string_equal(app.design->path, path);
}

static void a_new_file_gives_its_name(void **state)
{
    const char *path = t_path("first.yaml");

    (void)state;
    t_write(path, PROFILE);
    start(path);
    keys("k");
    save_as(t_path("second.yaml"));
    assert_string_equal(app.design->spec.name, "second");
    keys("u"); // undoing the edit leaves the name
    assert_string_equal(app.design->spec.name, "second");
    start(t_path("second.yaml")); // named in the file now, as the file
    assert_string_equal(app.design->spec.name, "second");
    save_as(t_path("third.yaml"));
    assert_string_equal(app.design->spec.name, "third");
    type("name", "other"); // chosen: stays
    keys("\033");
    save_as(t_path("fourth.yaml"));
    assert_string_equal(app.design->spec.name, "other");
    start(t_path("fourth.yaml"));
    assert_string_equal(app.design->spec.name, "other");
}

static void the_command_shown_gives_the_edited_profile(void **state)
{
    static const char *const edits[][2] = {
        {"optim.lr", "1e-3"},
        {"model.n_layers", "5"},
        {"train.max_tokens", "1M"},
        {"data.val", "a b.bin"},
        {"model.n_heads", "{shape: uniform, points: [1]}"},
    };
    const char *path = t_path("cmd.yaml");
    struct problems problems = {0};
    struct buf text = {0};
    char *set[16] = {0};
    int n = 0;

    (void)state;
    t_write(path, PROFILE);
    start(path);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++)
        type(edits[i][0], edits[i][1]);
    assert_true(design_sets(app.design, &text));
    for (char *at = text.data; at && *at;) { // as a shell would
        bool quoted = !strncmp(at, "--set '", 7);
        char *from = at + (quoted ? 7 : 6), *end = strchr(from, quoted ? '\'' : ' ');

        assert_true(!strncmp(at, "--set ", 6) && n < 16);
        set[n++] = from;
        at = end ? end + 1 + (quoted && end[1]) : NULL;
        if (end)
            *end = 0;
    }
    struct spec s;
    if (profile_load(path, (const char *const *)set, n, &s, &problems) < 0)
        fail_msg("%s: %s", problems.v[0].path, problems.v[0].err.text);
    assert_true(spec_equal(&s, &app.design->spec));
    problems_release(&problems);
    buf_release(&text);
    start(path);
    type("optim.weight_decay", "0.2");
    draw(24, 200, true);
    assert_true(shows("cmd.yaml --set optim.weight_decay=0.2"));
    draw(24, 40, true);
    assert_false(shows("--set")); // part of a command is none
}

static void the_launch_shows_what_was_changed(void **state)
{
    (void)state;
    start(NULL);
    type("optim.betas", "[0.7, 0.9]");
    type("train.max_steps", "77");
    type("model.n_layers", "9");
    keys("\033\n");
    draw(30, 100, true);
    assert_true(shows("Train this?"));
    assert_true(shows("optim.betas [0.7, 0.9] (was [0.9, 0.98])"));
    assert_true(shows("train.max_steps 77 (was 0)"));
    assert_true(shows("tokens in 77 steps"));
    assert_true(shows("model.n_layers 9 (was 8)"));
    assert_false(shows("model.n_heads")); // its generator is the same
    keys("\033");
    assert_false(launch_busy(&app));
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
        cmocka_unit_test(every_key_is_reached_and_shown_with_its_value),
        cmocka_unit_test(sections_have_headings_and_tab_goes_through_them),
        cmocka_unit_test(range_default_and_origin_stand_below),
        cmocka_unit_test(values_unlike_the_reference_are_marked),
        cmocka_unit_test(a_filter_leaves_what_was_asked_for),
        cmocka_unit_test(every_size_draws_in_every_alphabet),
        cmocka_unit_test(typed_values_are_edits_with_undo),
        cmocka_unit_test(totals_follow_while_typing),
        cmocka_unit_test(errors_are_said_at_once_and_change_nothing),
        cmocka_unit_test(choices_go_round_without_typing),
        cmocka_unit_test(a_refused_choice_is_passed_over_and_explained),
        cmocka_unit_test(the_cursor_stays_inside_when_layers_go),
        cmocka_unit_test(saving_replaces_the_values_in_their_places),
        cmocka_unit_test(a_new_file_gives_its_name),
        cmocka_unit_test(the_command_shown_gives_the_edited_profile),
        cmocka_unit_test(the_launch_shows_what_was_changed),
    };

    if (argc > 1) { // a launch would start this program again as the host of a run
        fprintf(stderr, "%s: a test tried to start a run\n", argv[0]);
        return 1;
    }
    setlocale(LC_CTYPE, "C.UTF-8");
    runs_set_dir(t_path("runs"));
    return cmocka_run_group_tests(tests, NULL, release);
}
