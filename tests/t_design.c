// Editing a profile, saving it and launching a run of it, without a terminal.
#include "tests/t.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/run.h"
#include "tests/desk.h"
#include "tui/design.h"
#include "tui/launch.h"

static int ffn(int layer)
{
    return desk_app.design->spec.model.lane[LANE_FFN][layer];
}

// ---- editing ------------------------------------------------------------------------------------

static void steps_move_by_the_legal_step(void **state)
{
    (void)state;
    desk_open(NULL);
    int before = ffn(2), step = desk_app.design->spec.model.ffn_step;

    desk_keys("llk");
    assert_int_equal(ffn(2), before + step);
    desk_keys("K");
    assert_int_equal(ffn(2), before + 5 * step);
    desk_keys("jJ");
    assert_int_equal(ffn(2), before);
    assert_int_equal(desk_app.design->cursor, 2);
}

static void a_selection_moves_together(void **state)
{
    (void)state;
    desk_open(NULL);
    struct model_spec before = desk_app.design->spec.model;

    desk_keys("lvllk");
    for (int i = 0; i < before.n_layers; i++)
        assert_int_equal(ffn(i),
                         before.lane[LANE_FFN][i] + (i >= 1 && i <= 3 ? before.ffn_step : 0));
    desk_keys("u");
    assert_memory_equal(&desk_app.design->spec.model, &before, sizeof before);
    desk_keys("\033V=*2\n");
    for (int i = 0; i < before.n_layers; i++)
        assert_int_equal(ffn(i), 2 * before.lane[LANE_FFN][i]);
}

static void typed_values_are_numbers_factors_and_sums(void **state)
{
    (void)state;
    desk_open(NULL);
    desk_keys("=256\n");
    assert_int_equal(ffn(0), 256);
    desk_keys("=+64\n");
    assert_int_equal(ffn(0), 320);
    desk_keys("=-64\n");
    assert_int_equal(ffn(0), 256);
    desk_keys("=*1.1\n"); // 281.6: the nearest multiple of 32
    assert_int_equal(ffn(0), 288);
    desk_keys("=rubbish\n");
    assert_int_equal(ffn(0), 288);
    desk_draw(24, 80, true);
    assert_true(desk_shows("'rubbish' is no value"));
    desk_keys("=512\033"); // left
    assert_int_equal(ffn(0), 288);
}

static void an_illegal_move_says_why(void **state)
{
    (void)state;
    desk_open(NULL);
    desk_keys("\t\t\tj"); // reuse below 1
    assert_int_equal(desk_app.design->lane, LANE_REUSE);
    desk_draw(24, 80, true);
    assert_true(desk_shows("1 repetitions is the least a layer can have"));
    assert_false(design_dirty(desk_app.design));
}

static void undo_returns_every_state_exactly(void **state)
{
    enum { EDITS = 400 };
    static struct model_spec at[EDITS + 1];
    uint32_t seed = 7;

    (void)state;
    desk_open("profiles/A/crown18.yaml");
    struct design *d = desk_app.design;
    at[0] = d->spec.model;
    for (int i = 0; i < EDITS; i++) {
        int before = d->at;

        desk_random_edit(&seed);
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

static void a_locked_layer_never_moves(void **state)
{
    uint32_t seed = 11;
    char why[DESIGN_WHY];

    (void)state;
    desk_open("profiles/A/crown18.yaml");
    struct design *d = desk_app.design;
    struct model_spec before = d->spec.model;

    desk_keys("lllL0");
    for (int i = 0; i < 400; i++) {
        desk_random_edit(&seed);
        if (i % 20 == 0)
            design_match(d, "ffn params 170M", why);
        for (int lane = 0; lane < LANE_COUNT; lane++)
            assert_int_equal(d->spec.model.lane[lane][3], before.lane[lane][3]);
    }
    assert_true(d->at > 50);
}

static void a_held_budget_stays_met(void **state)
{
    char why[DESIGN_WHY];

    (void)state;
    desk_open("profiles/A/crown18.yaml");
    struct design *d = desk_app.design;
    // one step of an FFN width of this profile, in parameters; the solver ends within half of it
    double step = 3.0 * d->spec.model.d_model * d->spec.model.ffn_step;

    assert_false(design_hold(d, why)); // there is no budget yet
    assert_true(design_set_budget(d, "params 180M", why));
    assert_true(design_hold(d, why));
    for (int i = 0; i < 60; i++) {
        int layer = i * 7 % d->spec.model.n_layers, width;

        design_move(d, layer);
        width = ffn(layer);
        if (design_step(d, i % 3 ? 1 : -1, why))
            assert_int_not_equal(ffn(layer), width);
        assert_true(fabs((double)d->count.total - 180e6) <= step / 2);
    }
    while (design_undo(d))
        ;
    assert_false(design_dirty(d));
    assert_false(d->previewing);
}

static void every_state_is_a_valid_profile_with_its_own_counts(void **state)
{
    uint32_t seed = 99;

    (void)state;
    desk_open(NULL);
    for (int i = 0; i < 300; i++) {
        struct problems problems = {0};
        struct count fresh;

        desk_random_edit(&seed);
        if (profile_validate(&desk_app.design->spec, &problems) < 0)
            fail_msg("edit %d: %s: %s", i, problems.v[0].path, problems.v[0].err.text);
        problems_release(&problems);
        count_model(&desk_app.design->spec, &fresh);
        assert_int_equal(desk_app.design->count.total, fresh.total);
        assert_true(desk_app.design->count.forward_per_token == fresh.forward_per_token);
    }
}

static void an_edit_after_undo_forgets_the_redone(void **state)
{
    (void)state;
    desk_open(NULL);
    int before = ffn(0), step = desk_app.design->spec.model.ffn_step;

    desk_keys("kkuj");
    assert_int_equal(ffn(0), before);
    assert_false(design_redo(desk_app.design));
    desk_keys("uu");
    assert_int_equal(ffn(0), before);
    desk_keys("k");
    assert_int_equal(ffn(0), before + step);
}

static void a_shape_is_previewed_and_left_without_a_trace(void **state)
{
    (void)state;
    desk_open(NULL);
    struct model_spec before = desk_app.design->spec.model;
    struct model_spec shown;
    int64_t total = desk_app.design->count.total;

    desk_keys("g\025"); // ctrl-U clears the line
    desk_keys("uniform 2");
    shown = desk_app.design->spec.model;
    assert_int_equal(shown.lane[LANE_FFN][3], 2 * before.d_model);
    assert_int_not_equal(desk_app.design->count.total, total); // read-outs follow the preview
    desk_draw(24, 80, true);
    assert_true(desk_shows("preview: o"));
    desk_keys("\033");
    assert_memory_equal(&desk_app.design->spec.model, &before, sizeof before);
    assert_int_equal(desk_app.design->count.total, total);
    assert_false(design_dirty(desk_app.design));
    desk_keys("g\025");    // ctrl-U clears the line
    desk_keys("unif 2\n"); // a prefix is enough
    assert_int_equal(ffn(3), 2 * before.d_model);
    assert_int_equal(desk_app.design->spec.model.source[LANE_FFN].shape, SHAPE_UNIFORM);
    assert_true(design_dirty(desk_app.design));
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
    desk_open("profiles/A/crown18.yaml");
    m = &desk_app.design->spec.model;
    had = m->source[LANE_FFN];
    assert_int_equal(had.shape, SHAPE_CROWN);
    shape_format(&had, initial, sizeof initial);
    desk_keys("kkg");                                     // edited by hand: the former points
    assert_true(m->source[LANE_FFN].shape != SHAPE_LIST); // the preview
    assert_string_equal(desk_app.dialog.edit.text, initial);
    desk_keys("\033");
    desk_open(NULL); // a list, from nowhere: through the layers it has
    desk_keys("V=128\n");
    desk_app.design->spec.model.source[LANE_FFN] = (struct lane_source){.shape = SHAPE_LIST};
    m = &desk_app.design->spec.model;
    m->d_model = 128;
    for (int i = 0; i < desk_app.design->n_undo; i++)
        desk_app.design->undo[i]->spec.model = *m;
    design_shape(desk_app.design, &had);
    assert_string_equal(shape_format(&had, initial, sizeof initial), "uniform 1");
    m->lane[LANE_FFN][(m->n_layers - 1) / 2] = 512;
    design_shape(desk_app.design, &had);
    assert_string_equal(shape_format(&had, initial, sizeof initial), "crown 1 4 1");
    m->lane[LANE_FFN][m->n_layers - 1] = 1024;
    design_shape(desk_app.design, &had);
    assert_string_equal(shape_format(&had, initial, sizeof initial), "vanilla 1 8");
    m->head_dim = 32;
    desk_app.design->lane = LANE_HEADS;
    for (int i = 0; i < desk_app.design->n_undo; i++)
        desk_app.design->undo[i]->spec.model.source[LANE_HEADS].shape = SHAPE_LIST;
    for (int i = 0; i < m->n_layers; i++)
        m->lane[LANE_HEADS][i] = 2;
    design_shape(desk_app.design, &had);
    assert_string_equal(shape_format(&had, initial, sizeof initial), "uniform 0.5");
}

static void heads_carry_their_kv_heads(void **state)
{
    (void)state;
    desk_open("profiles/A/crown18.yaml");
    const struct model_spec *m = &desk_app.design->spec.model;
    int ratio = spec_kv_ratio(m);

    assert_true(ratio > 1);
    desk_keys("\tVk");
    assert_int_equal(spec_kv_ratio(m), ratio);
    desk_keys("g\025"); // ctrl-U clears the line
    desk_keys("uniform 1\n");
    assert_int_equal(spec_kv_ratio(m), ratio);
}

// ---- files --------------------------------------------------------------------------------------

static void saving_and_opening_gives_the_same_profile(void **state)
{
    const char *path = t_path("saved.yaml");

    (void)state;
    desk_open(NULL);
    desk_keys("lKvlj");
    struct spec before = desk_app.design->spec;

    desk_keys("W\025");
    desk_keys(path);
    desk_keys("\n");
    assert_false(design_dirty(desk_app.design));
    assert_string_equal(desk_app.design->path, path);
    desk_open(path);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        assert_memory_equal(desk_app.design->spec.model.lane[lane], before.model.lane[lane],
                            sizeof(int) * (size_t)before.model.n_layers);
}

static void saving_again_goes_to_the_same_file(void **state)
{
    const char *path = t_path("again.yaml");
    char said[600], same_as[600];

    (void)state;
    desk_open(NULL);
    desk_keys("W\025");
    desk_keys(path);
    desk_keys("\n");
    snprintf(said, sizeof said, "saved %s", path);
    snprintf(same_as, sizeof same_as, "same as: lathe count %s", path);
    for (int i = 0; i < 2; i++) {
        desk_keys("kw");
        assert_string_equal(desk_app.design->path, path);
        assert_false(design_dirty(desk_app.design));
        desk_draw(24, 200, true);
        assert_true(desk_shows(said) && desk_shows(same_as) && desk_shows(" again.yaml"));
        assert_false(desk_shows("[+]"));
    }
}

static void save_over(const char *path)
{
    desk_keys("W\025");
    desk_keys(path);
    desk_keys("\n");
    desk_draw(24, 200, true);
}

// The question must agree with the deed: what it says stays, stays.
static void assert_said_is_done(const char *path, bool keeps)
{
    struct err err = ERR_INIT;
    struct buf text = {0};

    save_over(path);
    assert_int_equal(desk_shows("the rest of its text stays"), keeps);
    assert_int_equal(desk_shows("! The whole file is replaced"), !keeps);
    desk_keys("\n"); // is no
    assert_true(design_dirty(desk_app.design));
    save_over(path);
    desk_keys("y");
    assert_false(design_dirty(desk_app.design));
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
    desk_open(NULL);
    desk_keys("k");
    assert_said_is_done(twin, true);
    desk_keys("k");
    assert_said_is_done(other, false);
    free(text);
}

static void open_copy(const char *name)
{
    struct buf text = {0};

    assert_int_equal(file_read("profiles/A/base12.yaml", 1 << 16, &text, NULL), 0);
    chmod(t_path(name), 0644);
    t_write(t_path(name), text.data);
    buf_release(&text);
    desk_open(t_path(name));
}

static void what_others_wrote_is_not_overwritten_unasked(void **state)
{
    struct buf text = {0};

    (void)state;
    open_copy("shared.yaml");
    desk_keys("kw");
    assert_int_equal(desk_app.dialog.kind, DIALOG_NONE); // our own save
    assert_int_equal(file_read(t_path("shared.yaml"), 1 << 16, &text, NULL), 0);
    buf_str(&text, "# theirs\n");
    t_write(t_path("shared.yaml"), text.data);
    desk_keys("kw");
    assert_int_equal(desk_app.dialog.kind, DIALOG_CONFIRM);
    desk_draw(24, 80, true);
    assert_true(desk_shows("Somebody else changed"));
    desk_draw(10, 40, true);
    assert_true(desk_shows("Somebody else"));
    desk_keys("\n"); // Enter is no
    assert_true(design_dirty(desk_app.design));
    desk_keys("wy");
    assert_false(design_dirty(desk_app.design));
    assert_int_equal(file_read(t_path("shared.yaml"), 1 << 16, &text, NULL), 0);
    assert_non_null(strstr(text.data, "# theirs")); // only values are replaced
    buf_release(&text);
}

static void a_protected_file_stays(void **state)
{
    struct buf before = {0}, after = {0};

    (void)state;
    open_copy("protected.yaml");
    assert_int_equal(chmod(t_path("protected.yaml"), 0444), 0);
    file_read(t_path("protected.yaml"), 1 << 16, &before, NULL);
    desk_keys("kw");
    assert_true(strstr(desk_app.message, "write-protected") != NULL);
    file_read(t_path("protected.yaml"), 1 << 16, &after, NULL);
    assert_string_equal(before.data, after.data);
    assert_true(design_dirty(desk_app.design));
    buf_release(&before);
    buf_release(&after);
}

static void a_new_profile_is_for_others_too(void **state)
{
    struct stat st;
    mode_t mask = umask(022);

    (void)state;
    open_copy("mine.yaml");
    unlink(t_path("new.yaml"));
    desk_keys("W\025");
    app_key(&desk_app, K_PASTE, t_path("new.yaml"));
    desk_keys("\n");
    umask(mask);
    assert_int_equal(stat(t_path("new.yaml"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
}

static void a_hub_configuration_is_saved_under_another_name(void **state)
{
    (void)state;
    desk_open("tests/hub/SmolLM2-135M/config.json");
    desk_keys("kw");
    assert_int_equal(desk_app.dialog.kind, DIALOG_PROMPT);
    assert_string_equal(desk_app.dialog.edit.text, "SmolLM2-135M.yaml");
    desk_keys("\033");
}

static void a_bad_file_changes_nothing_and_says_where(void **state)
{
    const char *path = t_path("bad.yaml");

    (void)state;
    desk_open(NULL);
    char *yaml = profile_to_yaml(&desk_app.design->spec, NULL);
    char *key = strstr(yaml, "norm_eps:");

    memcpy(key, "norm_epz:", 9);
    t_write(path, yaml);
    free(yaml);
    struct spec before = desk_app.design->spec;

    desk_keys("O\025");
    desk_keys(path);
    desk_keys("\n");
    assert_memory_equal(&desk_app.design->spec, &before, sizeof before);
    desk_draw(24, 200, true);
    assert_true(desk_shows("bad.yaml:") && desk_shows("model.norm_epz: unknown key 'norm_epz'"));
}

static void leaving_with_changes_asks_once(void **state)
{
    (void)state;
    desk_open(NULL);
    desk_keys("q");
    assert_true(desk_app.quit);
    desk_open(NULL);
    desk_keys("kq");
    assert_false(desk_app.quit);
    desk_keys("n");
    assert_false(desk_app.quit);
    desk_keys("qy");
    assert_true(desk_app.quit);
    desk_open(NULL);
    desk_keys("kuq"); // undone: nothing to lose
    assert_true(desk_app.quit);
}

// ---- launching ----------------------------------------------------------------------------------

static void launching_shows_what_will_run_and_asks(void **state)
{
    char steps[UNIT_SIZE], length[64];

    (void)state;
    desk_open(NULL);
    desk_keys("\n");
    desk_draw(24, 80, true);
    assert_true(desk_shows("Train this?"));
    assert_true(desk_shows("demo-crown-1"));
    assert_true(desk_shows("gcide/train.bin"));
    snprintf(length, sizeof length, "tokens in %s steps",
             unit_thousands(steps, spec_total_steps(&desk_app.design->spec)));
    assert_true(desk_shows(length));
    assert_true(desk_shows("lathe train"));
    assert_true(desk_shows("Enter yes   Esc no"));
    desk_keys("\033");
    assert_int_equal(desk_app.dialog.kind, DIALOG_NONE);
    assert_false(launch_busy(&desk_app));
}

static void the_question_warns_of_what_will_go_wrong(void **state)
{
    (void)state;
    desk_open(NULL);
    desk_keys("\n");
    assert_null(strstr(desk_app.dialog.text, "!"));
    desk_keys("\033");
    desk_app.design->spec.optim.warmup_steps = spec_total_steps(&desk_app.design->spec) + 1;
    desk_keys("\n");
    desk_draw(40, 100, true);
    assert_true(desk_shows("!         optim.warmup_steps"));
    desk_keys("\033");
    desk_open(NULL);
    // more than any machine has; the check counts the activations of the micro-batch
    desk_app.design->spec.train.seq_len = 1 << 16;
    desk_app.design->spec.train.micro_batch_size = 1 << 12;
    desk_app.design->spec.train.global_batch_size = 1 << 12;
    desk_keys("\n");
    desk_draw(40, 100, true);
    assert_true(desk_shows("available: will be refused"));
    desk_keys("\033");
}

static void the_question_names_the_run_that_will_be_made(void **state)
{
    struct err err = ERR_INIT;
    char dir[512], id[RUN_ID_SIZE], shown[80];

    (void)state;
    desk_open(NULL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(run_create(&desk_app.design->spec, NULL, dir, sizeof dir, &err), 0);
    assert_int_equal(run_delete(dir, &err), 0); // its number is not used again
    desk_keys("\n");
    desk_draw(24, 100, true);
    assert_true(desk_shows("demo-crown-3"));
    assert_false(desk_shows("demo-crown-2"));
    desk_keys("\033");
    run_next_id(&desk_app.design->spec, id);
    assert_int_equal(run_create(&desk_app.design->spec, NULL, dir, sizeof dir, &err), 0);
    snprintf(shown, sizeof shown, "/%s", id);
    assert_non_null(strstr(dir, shown));
}

static void a_profile_without_data_is_not_launched(void **state)
{
    (void)state;
    desk_open("profiles/A/crown18.yaml"); // ships without token files
    desk_keys("\n");
    desk_draw(24, 100, true);
    assert_int_equal(desk_app.dialog.kind, DIALOG_NONE);
    assert_true(desk_shows("data.train"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_move_by_the_legal_step),
        cmocka_unit_test(a_selection_moves_together),
        cmocka_unit_test(typed_values_are_numbers_factors_and_sums),
        cmocka_unit_test(an_illegal_move_says_why),
        cmocka_unit_test(undo_returns_every_state_exactly),
        cmocka_unit_test(a_locked_layer_never_moves),
        cmocka_unit_test(a_held_budget_stays_met),
        cmocka_unit_test(every_state_is_a_valid_profile_with_its_own_counts),
        cmocka_unit_test(an_edit_after_undo_forgets_the_redone),
        cmocka_unit_test(a_shape_is_previewed_and_left_without_a_trace),
        cmocka_unit_test(wrong_shapes_are_explained),
        cmocka_unit_test(a_shape_begins_with_what_the_lane_had),
        cmocka_unit_test(heads_carry_their_kv_heads),
        cmocka_unit_test(saving_and_opening_gives_the_same_profile),
        cmocka_unit_test(saving_again_goes_to_the_same_file),
        cmocka_unit_test(replacing_a_file_says_what_is_lost),
        cmocka_unit_test(what_others_wrote_is_not_overwritten_unasked),
        cmocka_unit_test(a_protected_file_stays),
        cmocka_unit_test(a_new_profile_is_for_others_too),
        cmocka_unit_test(a_hub_configuration_is_saved_under_another_name),
        cmocka_unit_test(a_bad_file_changes_nothing_and_says_where),
        cmocka_unit_test(leaving_with_changes_asks_once),
        cmocka_unit_test(launching_shows_what_will_run_and_asks),
        cmocka_unit_test(the_question_warns_of_what_will_go_wrong),
        cmocka_unit_test(the_question_names_the_run_that_will_be_made),
        cmocka_unit_test(a_profile_without_data_is_not_launched),
    };

    desk_setup();
    return cmocka_run_group_tests(tests, NULL, desk_release);
}
