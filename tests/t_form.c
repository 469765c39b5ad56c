// The form of all keys over Design, without a terminal.
#include "tests/t.h"

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/run.h"
#include "tests/desk.h"
#include "tui/design.h"
#include "tui/launch.h"

static const char *at_cursor(void)
{
    return spec_keys[desk_app.form.row[desk_app.form.list.cursor]].path;
}

// Opens the form, or stays in it, and walks to a key.
static void go_to(const char *path)
{
    if (desk_app.screen != &screen_form)
        desk_keys("e");
    desk_keys("0");
    for (int i = 0; strcmp(at_cursor(), path); i++) {
        desk_keys("j");
        assert_true(i < spec_key_count);
    }
}

static void type(const char *path, const char *text)
{
    go_to(path);
    desk_keys("\n\025"); // ctrl-U clears the line
    desk_keys(text);
    desk_keys("\n");
}

static const char *value(const char *path)
{
    static char *text;
    struct buf b = {0};

    free(text);
    profile_value_text(spec_key_find(path), &desk_app.design->spec, &b);
    return text = buf_detach(&b);
}

static const int sizes[][2] = {{24, 80}, {30, 100}, {60, 200}, {10, 40}, {4, 20}};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

// ---- what is shown ------------------------------------------------------------------------------

static bool row_shows(int row, const char *text)
{
    struct canvas one = {
        1, desk_canvas.cols, desk_canvas.cell + row * desk_canvas.cols, desk_canvas.utf8, -1, -1};
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

        desk_open("profiles/A/crown18.yaml");
        desk_keys("e");
        for (int i = 0; i < spec_key_count; i++, n++) {
            const struct spec_key *k = &spec_keys[i];
            const char *dot = strrchr(k->path, '.');
            char shown[8], help[16];

            assert_string_equal(at_cursor(), k->path);
            desk_draw(sizes[s][0], sizes[s][1], true);
            snprintf(shown, sizeof shown, "%.7s", value(k->path));
            snprintf(help, sizeof help, "%.15s", k->help);
            if (!row_shows(desk_canvas.cursor_row, dot ? dot + 1 : k->path) ||
                !row_shows(desk_canvas.cursor_row, shown))
                fail_msg("%dx%d does not show %s", sizes[s][1], sizes[s][0], k->path);
            assert_true(desk_shows(help));
            if (sizes[s][1] >= 80)
                assert_true(desk_shows(k->unit));
            desk_keys("j");
        }
        assert_string_equal(at_cursor(), spec_keys[spec_key_count - 1].path);
        for (int i = spec_key_count - 2; i >= 0; i--) {
            desk_keys("k");
            assert_string_equal(at_cursor(), spec_keys[i].path);
        }
        desk_keys("k"); // nothing above
        assert_string_equal(at_cursor(), spec_keys[0].path);
    }
}

static void sections_have_headings_and_tab_goes_through_them(void **state)
{
    static const char *const firsts[] = {"model.d_model", "gate.enabled",  "data.train",
                                         "train.seq_len", "optim.lr",      "eval.interval",
                                         "log.interval",  "save.interval", "model.d_model"};

    (void)state;
    desk_open(NULL);
    desk_keys("e");
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        char heading[16];

        desk_keys("\t");
        assert_string_equal(at_cursor(), firsts[i]);
        desk_draw(24, 80, true);
        snprintf(heading, sizeof heading, "   %.*s\n", (int)strcspn(firsts[i], "."), firsts[i]);
        assert_true(desk_shows(heading));
    }
    app_key(&desk_app, K_BACKTAB, "");
    assert_string_equal(at_cursor(), "save.interval");
}

static void range_default_and_origin_stand_below(void **state)
{
    (void)state;
    desk_open("profiles/A/crown18.yaml");
    go_to("model.n_layers");
    desk_draw(24, 80, true);
    assert_true(desk_shows("1 to 256   has no default   from crown18.yaml:6"));
    go_to("model.norm_place");
    desk_draw(24, 80, true);
    assert_true(desk_shows("pre | reordered | sandwich   default pre   from base12.yaml:25"));
    go_to("optim.min_lr");
    desk_draw(24, 80, true);
    assert_true(desk_shows("0 to 100   default: derived"));
    type("optim.min_lr", "1e-6");
    desk_draw(30, 100, true);
    assert_true(desk_shows("default: derived   edited"));
}

static void values_unlike_the_reference_are_marked(void **state)
{
    (void)state;
    desk_open("profiles/A/crown18.yaml");
    desk_keys("e");
    desk_draw(60, 200, true);
    assert_false(desk_shows(" *"));
    type("model.n_layers", "20");
    desk_draw(60, 200, true);
    assert_true(desk_shows(" *  n_layers          20"));
    assert_true(row_shows(desk_canvas.cursor_row, " 18")); // the reference
    assert_true(desk_shows(" *  ffn_width"));
    assert_false(desk_shows(" *  reuse")); // one is one in every layer
    desk_keys("R");
    desk_draw(60, 200, true);
    assert_false(desk_shows(" *"));
}

static void a_filter_leaves_what_was_asked_for(void **state)
{
    (void)state;
    desk_open(NULL);
    desk_keys("e/learning");
    desk_draw(24, 80, true);
    assert_true(desk_shows("   optim\n") && desk_shows("lr ") && desk_shows("schedule"));
    assert_false(desk_shows("d_model"));
    desk_keys("\n");
    assert_string_equal(at_cursor(), "optim.lr");
    desk_keys("$");
    assert_string_equal(at_cursor(), "optim.schedule");
    desk_keys("\033"); // all keys, the cursor where it was
    assert_ptr_equal(desk_app.screen, &screen_form);
    assert_string_equal(at_cursor(), "optim.schedule");
    desk_keys("/zzz\n");
    desk_draw(24, 80, true);
    assert_true(desk_shows("no key has that"));
    desk_keys("\nlhkj\t");
    desk_keys("\033\033");
    assert_ptr_equal(desk_app.screen, &screen_design);
}

static void every_size_draws_in_every_alphabet(void **state)
{
    (void)state;
    for (int i = 0; i < N_SIZES; i++)
        for (int utf8 = 0; utf8 < 2; utf8++) {
            desk_open("profiles/openelm/3B.yaml");
            desk_keys("e");
            for (int k = 0; k < spec_key_count; k++) {
                desk_draw(sizes[i][0], sizes[i][1], utf8);
                for (int at = 0; at < desk_canvas.rows * desk_canvas.cols && !utf8; at++)
                    assert_in_range(desk_canvas.cell[at].ch, 0x20, 0x7e);
                desk_keys("\n");
                desk_draw(sizes[i][0], sizes[i][1], utf8);
                desk_keys("?x"); // into the line
                desk_draw(sizes[i][0], sizes[i][1], utf8);
                desk_keys("\033j");
            }
            assert_false(design_dirty(desk_app.design));
        }
    for (int rows = 1; rows < 40; rows++)
        for (int cols = 1; cols < 120; cols += 9)
            desk_draw(rows, cols, rows % 2);
}

// ---- values -------------------------------------------------------------------------------------

static void typed_values_are_edits_with_undo(void **state)
{
    (void)state;
    desk_open(NULL);
    struct spec before = desk_app.design->spec;

    type("model.d_model", "256");
    assert_int_equal(desk_app.design->spec.model.d_model, 256);
    assert_int_equal(desk_app.design->spec.model.lane[LANE_FFN][0], 768); // the frame: 3 times
    type("optim.lr", "1e-3");
    type("model.n_layers", "3");
    assert_int_equal(desk_app.design->at, 3);
    assert_true(design_dirty(desk_app.design));
    desk_draw(24, 80, true);
    assert_true(desk_shows("crown.yaml [+]") || desk_shows("demo-crown [+]"));
    desk_keys("u");
    assert_int_equal(desk_app.design->spec.model.n_layers, before.model.n_layers);
    desk_keys("uu");
    assert_memory_equal(&desk_app.design->spec, &before, sizeof before);
    assert_false(design_dirty(desk_app.design));
    desk_keys("\022"); // ctrl-R
    assert_int_equal(desk_app.design->spec.model.d_model, 256);
    type("model.d_model", "256"); // the same: no edit
    assert_int_equal(desk_app.design->at, 1);
    assert_int_equal(desk_app.design->n_undo, 4);
}

static void totals_follow_while_typing(void **state)
{
    char total[UNIT_SIZE];

    (void)state;
    desk_open(NULL);
    int64_t before = desk_app.design->count.total;

    go_to("model.n_layers");
    desk_keys("\n\0254"); // four
    struct spec four = desk_app.design->spec;
    assert_int_equal(four.model.n_layers, 4);
    assert_true(desk_app.design->count.total < before);
    desk_draw(30, 100, true);
    assert_true(desk_shows(unit_thousands(total, desk_app.design->count.total)));
    assert_true(desk_shows("model.ffn_width: follows its generator"));
    desk_keys("\033");
    assert_int_equal(desk_app.design->count.total, before);
    assert_false(design_dirty(desk_app.design));
}

static void errors_are_said_at_once_and_change_nothing(void **state)
{
    (void)state;
    desk_open(NULL);
    struct spec before = desk_app.design->spec;

    go_to("model.d_model");
    desk_keys("\n\0250");
    desk_draw(24, 80, true);
    assert_true(desk_shows("0 is out of range, expected 1 to 65536"));
    desk_keys("\n"); // stays open, what was typed can be corrected
    assert_int_equal(desk_app.dialog.kind, DIALOG_PROMPT);
    assert_string_equal(desk_app.dialog.edit.text, "0");
    desk_draw(24, 80, true);
    assert_true(desk_shows("0 is out of range, expected 1 to 65536"));
    desk_keys("\033");
    assert_memory_equal(&desk_app.design->spec, &before, sizeof before);
    go_to("train.global_batch_size");
    desk_keys("\n\02512");
    desk_draw(10, 40, true); // in full on a small terminal
    assert_true(desk_shows("12 is not a multiple of") && desk_shows("micro_batch_size 8"));
    desk_keys("8\n");
    assert_string_equal(value("train.global_batch_size"), "128");
}

static void choices_go_round_without_typing(void **state)
{
    (void)state;
    desk_open(NULL);
    go_to("model.qk_norm"); // none, full, head
    assert_string_equal(value("model.qk_norm"), "head");
    desk_keys("l");
    assert_string_equal(value("model.qk_norm"), "none");
    desk_keys(" ");
    assert_string_equal(value("model.qk_norm"), "full");
    desk_keys("h");
    assert_string_equal(value("model.qk_norm"), "none");
    go_to("model.bias");
    desk_keys("l");
    assert_string_equal(value("model.bias"), "true");
    desk_keys("l");
    assert_string_equal(value("model.bias"), "false");
    go_to("model.d_model");
    desk_keys("l");
    desk_draw(24, 80, true);
    assert_true(desk_shows("Enter edits this value"));
}

static void a_refused_choice_is_passed_over_and_explained(void **state)
{
    const char *path = t_path("odd.yaml");

    (void)state;
    t_write(path, "model:\n  d_model: 64\n  n_layers: 2\n  head_dim: 15\n  ffn_width: 256\n"
                  "  n_heads: 2\n  vocab: 9\n  pos: none\n");
    desk_open(path);
    go_to("model.pos"); // rope, none, learned, alibi
    desk_keys("h");
    assert_string_equal(value("model.pos"), "alibi");
    desk_draw(24, 80, true);
    assert_true(desk_shows("not rope: model.head_dim: 15 is odd"));
}

static void the_cursor_stays_inside_when_layers_go(void **state)
{
    (void)state;
    desk_open(NULL);
    desk_keys("$v0"); // both ends of a selection
    desk_keys("$");
    type("model.n_layers", "2");
    assert_in_range(desk_app.design->cursor, 0, 1);
    desk_keys("\033k");
    desk_draw(24, 80, true);
    desk_keys("uu");
    assert_int_equal(desk_app.design->spec.model.n_layers, 8);
    type("model.n_layers", "200");
    desk_keys("\033$");
    assert_int_equal(desk_app.design->cursor, 199);
    desk_keys("u");
    assert_int_equal(desk_app.design->cursor, 7);
    desk_draw(24, 80, true);
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
    desk_open(path);
    type("model.d_model", "256");
    type("optim.lr", "0.001");
    type("model.n_layers", "6");
    type("data.train", "a b.bin");
    type("eval.interval", "10");
    desk_keys("w");
    assert_false(design_dirty(desk_app.design));
    assert_string_equal(desk_app.design->path, path);
    assert_int_equal(file_read(path, 10000, &text, &err), 0);
    assert_string_equal(text.data,
                        "# mine\nmodel:\n  d_model: 256 # width\n  n_layers: 6\n  ffn_width: 512\n"
                        "  n_heads: 4\n  vocab: 257 # bytes\n\noptim: {lr: 0.001} # low\n"
                        "data:\n  train: \"a b.bin\"\neval:\n  interval: 10\n");
    buf_release(&text);
}

static void save_as(const char *path)
{
    desk_keys("W\025");
    desk_keys(path);
    desk_keys("\n");
    assert_string_equal(desk_app.design->path, path);
}

static void a_new_file_gives_its_name(void **state)
{
    const char *path = t_path("first.yaml");

    (void)state;
    t_write(path, PROFILE);
    desk_open(path);
    desk_keys("k");
    save_as(t_path("second.yaml"));
    assert_string_equal(desk_app.design->spec.name, "second");
    desk_keys("u"); // undoing the edit leaves the name
    assert_string_equal(desk_app.design->spec.name, "second");
    desk_open(t_path("second.yaml")); // named in the file now, as the file
    assert_string_equal(desk_app.design->spec.name, "second");
    save_as(t_path("third.yaml"));
    assert_string_equal(desk_app.design->spec.name, "third");
    type("name", "other"); // chosen: stays
    desk_keys("\033");
    save_as(t_path("fourth.yaml"));
    assert_string_equal(desk_app.design->spec.name, "other");
    desk_open(t_path("fourth.yaml"));
    assert_string_equal(desk_app.design->spec.name, "other");
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
    desk_open(path);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++)
        type(edits[i][0], edits[i][1]);
    assert_true(design_sets(desk_app.design, &text));
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
    assert_true(spec_equal(&s, &desk_app.design->spec));
    problems_release(&problems);
    buf_release(&text);
    desk_open(path);
    type("optim.weight_decay", "0.2");
    desk_draw(24, 200, true);
    assert_true(desk_shows("cmd.yaml --set optim.weight_decay=0.2"));
    desk_draw(24, 40, true);
    assert_false(desk_shows("--set")); // part of a command is none
}

static void the_launch_shows_what_was_changed(void **state)
{
    (void)state;
    desk_open(NULL);
    type("optim.betas", "[0.7, 0.9]");
    type("train.max_steps", "77");
    type("model.n_layers", "9");
    desk_keys("\033\n");
    desk_draw(30, 100, true);
    assert_true(desk_shows("Train this?"));
    assert_true(desk_shows("optim.betas [0.7, 0.9] (was [0.9, 0.98])"));
    assert_true(desk_shows("train.max_steps 77 (was 0)"));
    assert_true(desk_shows("tokens in 77 steps"));
    assert_true(desk_shows("model.n_layers 9 (was 8)"));
    assert_false(desk_shows("model.n_heads")); // its generator is the same
    desk_keys("\033");
    assert_false(launch_busy(&desk_app));
}

int main(void)
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

    desk_setup();
    return cmocka_run_group_tests(tests, NULL, desk_release);
}
