// Several designs at once: tabs, controls, what Compare shows of them, pasted profiles.
#include "tests/t.h"

#include "engine/buf.h"
#include "engine/profile.h"
#include "engine/ledger.h"
#include "tests/desk.h"
#include "tui/design.h"

static const int sizes[][2] = {{24, 80}, {30, 100}, {60, 200}, {10, 40}, {4, 20}};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static void open_two(void)
{
    desk_open("profiles/A/crown18.yaml");
    desk_keys("Tprofiles/A/base12.yaml\n");
    assert_int_equal(desk_app.tabs.n, 2);
}

static bool said(const char *text)
{
    return strstr(desk_app.message, text) != NULL;
}

// Compare in one of its views, whichever it had before.
static void to_view(const char *name)
{
    desk_keys("C");
    for (int i = 0; i < 4; i++) {
        desk_draw(24, 80, true);
        if (desk_shows(name))
            return;
        desk_keys("\t");
    }
    fail_msg("no view %s", name);
}

// ---- tabs ---------------------------------------------------------------------------------------

static void each_tab_keeps_its_own_edits(void **state)
{
    (void)state;
    open_two();
    assert_string_equal(desk_app.design->spec.name, "base12");
    desk_keys("kk");
    assert_int_equal(desk_app.design->at, 2);
    desk_keys("[");
    assert_string_equal(desk_app.design->spec.name, "crown18");
    assert_int_equal(desk_app.design->at, 0);
    desk_keys("]u");
    assert_int_equal(desk_app.design->at, 1);
    desk_draw(24, 80, true);
    assert_true(desk_shows("2/2  base12.yaml [+]"));
}

static void a_copy_carries_what_is_not_saved(void **state)
{
    (void)state;
    desk_open("profiles/A/crown18.yaml");
    desk_keys("kT\n");
    assert_int_equal(desk_app.tabs.n, 2);
    assert_true(design_dirty(desk_app.design));
    assert_string_equal(desk_app.design->path, ""); // w asks for another file
    desk_keys("k");
    assert_int_equal(desk_app.tabs.v[0]->at, 1);
    desk_keys("X");
    assert_int_equal(desk_app.dialog.kind, DIALOG_CONFIRM);
    desk_keys("\n"); // Enter is no
    assert_int_equal(desk_app.tabs.n, 2);
    desk_keys("Xy");
    assert_int_equal(desk_app.tabs.n, 1);
    desk_keys("X");
    assert_int_equal(desk_app.tabs.n, 1);
    assert_true(said("the only design"));
}

static void there_is_room_for_eight(void **state)
{
    (void)state;
    desk_open("profiles/A/crown18.yaml");
    for (int i = 0; i < 9; i++)
        desk_keys("T\n");
    assert_int_equal(desk_app.tabs.n, TABS_MAX);
    assert_true(said("X closes one"));
}

static void a_profile_that_does_not_open_leaves_the_tabs(void **state)
{
    (void)state;
    desk_open("profiles/A/crown18.yaml");
    desk_keys("Tnowhere.yaml\n");
    assert_int_equal(desk_app.tabs.n, 1);
    assert_string_equal(desk_app.design->spec.name, "crown18");
    assert_true(said("nowhere.yaml"));
}

static void leaving_asks_for_every_tab(void **state)
{
    (void)state;
    open_two();
    desk_keys("k[q"); // the one that is not in hand
    assert_int_equal(desk_app.dialog.kind, DIALOG_CONFIRM);
    desk_keys("\033]uq");
    assert_int_equal(desk_app.dialog.kind, DIALOG_NONE);
    assert_true(desk_app.quit);
}

// ---- controls -----------------------------------------------------------------------------------

static void controls_are_designs_beside_this_one(void **state)
{
    const struct model_spec *from, *m;

    (void)state;
    desk_open("profiles/A/reverse18.yaml");
    desk_keys("c\n"); // all
    assert_int_equal(desk_app.tabs.n, 4);
    from = &desk_app.tabs.v[0]->spec.model;
    m = &desk_app.tabs.v[1]->spec.model;
    for (int i = 0; i < 18; i++)
        for (int lane = 0; lane < LANE_COUNT; lane++)
            assert_int_equal(m->lane[lane][i], from->lane[lane][17 - i]);
    assert_int_equal(desk_app.tabs.v[1]->count.total, desk_app.tabs.v[0]->count.total);
    assert_int_equal(desk_app.tabs.v[2]->count.total, desk_app.tabs.v[0]->count.total);
    m = &desk_app.tabs.v[3]->spec.model; // average
    for (int i = 1; i < 18; i++)
        assert_int_equal(m->lane[LANE_FFN][i], m->lane[LANE_FFN][0]);
    assert_string_equal(desk_app.tabs.v[3]->reference_name, "reverse18");
}

static void the_uniform_grid_has_the_same_budget(void **state)
{
    (void)state;
    desk_open("profiles/A/crown18.yaml");
    desk_keys("c\025grid\n");
    assert_int_equal(desk_app.tabs.n, TABS_MAX);
    assert_true(said("no room"));
    for (int i = 1; i < TABS_MAX; i++) {
        const struct design *d = desk_app.tabs.v[i];
        double off = (double)(d->count.total - desk_app.tabs.v[0]->count.total);

        // half a step of 256 in all layers
        assert_true(off < 0 ? -off : off <= 3.0 * 768 * 128 * d->spec.model.n_layers);
    }
}

static void controls_that_cannot_be_are_named(void **state)
{
    (void)state;
    desk_open("profiles/A/crown18.yaml");
    desk_keys("c\n");
    assert_int_equal(desk_app.tabs.n, 3);
    assert_true(said("2 opened"));
    assert_true(said("its own reverse"));
    assert_int_equal(tabs_dirty(&desk_app.tabs), 2); // they are in no file
}

static void wrong_controls_are_explained(void **state)
{
    (void)state;
    desk_open("profiles/A/base18.yaml");
    desk_keys("c\025sideways\n");
    assert_true(said("none of reverse"));
    desk_keys("c\025reverse\n");
    assert_true(said("symmetric"));
    desk_keys("c\025permute x\n");
    assert_true(said("a seed"));
    assert_int_equal(desk_app.tabs.n, 1);
}

// ---- Compare ------------------------------------------------------------------------------------

static void the_banner_names_what_differs(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        open_two();
        desk_keys("C");
        desk_draw(sizes[i][0], sizes[i][1], true);
        assert_true(desk_shows("! a: depth differs: 12 and 18 layers"));
        desk_keys("]");
        desk_draw(sizes[i][0], sizes[i][1], true);
        assert_true(desk_shows("! b: depth differs: 18 and 12 layers"));
    }
    desk_open("profiles/A/crown18.yaml");
    desk_keys("Tprofiles/A/base18.yaml\nC");
    desk_draw(24, 80, true);
    assert_true(desk_shows("a: nothing but the shape differs from b"));
}

static void the_ledger_is_what_is_counted(void **state)
{
    (void)state;
    open_two();
    to_view(" ledger, ");
    desk_draw(60, 200, true);
    for (int tab = 0; tab < 2; tab++)
        for (int row = 0; row < LEDGER_ROWS; row++) {
            const struct design *d = desk_app.tabs.v[tab];
            char text[UNIT_SIZE];

            assert_true(desk_shows(ledger_name(row)));
            assert_true(
                desk_shows(ledger_text(row, ledger_value(row, &d->spec, &d->count), text)));
        }
    assert_true(desk_shows("compare at equal depth")); // what removes it
}

static void layers_show_their_differences(void **state)
{
    (void)state;
    open_two();
    to_view(" layers ");
    desk_draw(60, 200, true);
    assert_true(desk_shows("layer 0         3072 12/4 x1   3072 12/4 x1\n"));
    assert_true(desk_shows("layer 1         3072 12/4 x1     768 9/3 x1   -2304\n"));
    assert_true(desk_shows("layer 17"));
}

static void letters_stand_at_their_heights(void **state)
{
    int found = 0;

    (void)state;
    open_two();
    to_view(" overlay, ffn");
    desk_keys("[");
    desk_draw(24, 80, true);
    for (int i = 0; i < desk_canvas.rows * desk_canvas.cols; i++) // base12: 12 bars of the full height
        if (desk_canvas.cell[i].ch == 'b' && desk_canvas.cell[i].role == ROLE_TITLE &&
            i / desk_canvas.cols == 3)
            found++;
    assert_int_equal(found, 12);
}

static void nothing_is_cut_at_any_size(void **state)
{
    (void)state;
    for (int i = 0; i < N_SIZES; i++)
        for (int tabs = 1; tabs <= TABS_MAX; tabs += 3) {
            desk_open("profiles/A/crown18.yaml");
            for (int k = 1; k < tabs; k++)
                desk_keys(k % 2 ? "T\n" : "Tprofiles/A/base12.yaml\n");
            desk_keys("C");
            for (int view = 0; view < 4; view++) {
                desk_draw(sizes[i][0], sizes[i][1], view % 2 == 0);
                desk_keys("l\tm");
            }
        }
}

// ---- pasted text --------------------------------------------------------------------------------

static void pasted_text_is_a_lane_or_a_design(void **state)
{
    static const char text[] = "name: pasted-one\n"
                               "model:\n"
                               "  d_model: 64\n"
                               "  n_layers: 5\n"
                               "  head_dim: 16\n"
                               "  ffn_width: 256\n"
                               "  n_heads: 4\n"
                               "  ffn_step: 64\n"
                               "  vocab: 257\n";

    (void)state;
    desk_open("profiles/A/crown18.yaml");
    app_key(&desk_app, K_PASTE, "ffn_width: [512, 1024]\n");
    assert_int_equal(desk_app.design->spec.model.lane[LANE_FFN][0], 512);
    assert_int_equal(desk_app.design->spec.model.lane[LANE_FFN][1], 1024);
    assert_int_equal(desk_app.design->at, 1);
    app_key(&desk_app, K_PASTE, text);
    assert_int_equal(desk_app.tabs.n, 2);
    assert_string_equal(desk_app.design->spec.name, "pasted-one");
    assert_int_equal(desk_app.design->spec.model.n_layers, 5);
    assert_true(design_dirty(desk_app.design)); // it is in no file
    app_key(&desk_app, K_PASTE, "name: with-cr\rmodel:\r  d_model: 64\r  n_layers: 2\r"
                                "  head_dim: 16\r  ffn_width: 256\r  n_heads: 4\r"
                                "  ffn_step: 64\r  vocab: 257\r");
    assert_string_equal(desk_app.design->spec.name, "with-cr"); // as terminals send lines
    desk_keys("X");
    assert_int_equal(desk_app.dialog.kind, DIALOG_CONFIRM);
    desk_keys("y");
    app_key(&desk_app, K_PASTE, "kk jj qq\n");
    assert_int_equal(desk_app.tabs.n, 2);
    assert_true(said("no list of numbers, and no profile"));
}

// ---- everything at once -------------------------------------------------------------------------

static bool leaves_or_writes(enum command cmd)
{
    return cmd == CMD_QUIT || cmd == CMD_SUSPEND || cmd == CMD_LAUNCH || cmd == CMD_SAVE ||
           cmd == CMD_SAVE_AS || cmd == CMD_WATCH || cmd == CMD_RESUME_RUN || cmd == CMD_DELETE;
}

static void random_answer(uint32_t *seed)
{
    static const char *const answers[] = {"\033", "\n", "y", "9\n", "*1.5\n", "\025all\n",
                                          "\025params 150M\n", "\025crown 1 3 1\n", "n", "2"};

    desk_keys(answers[desk_random(seed) % (sizeof answers / sizeof *answers)]);
}

static void random_report(uint32_t *seed)
{
    struct mouse m = {.kind = (int)(desk_random(seed) % 4),
                      .button = (int)(desk_random(seed) % 3),
                      .wheel = desk_random(seed) % 2 ? 1 : -1,
                      .row = (int)(desk_random(seed) % 30),
                      .col = (int)(desk_random(seed) % 100)};

    app_mouse(&desk_app, &m);
}

static void random_key(uint32_t *seed)
{
    const struct key_binding *b = &key_table[desk_random(seed) % (uint32_t)key_table_count];

    if (desk_app.dialog.kind != DIALOG_NONE)
        random_answer(seed);
    else if (desk_random(seed) % 4 == 0)
        random_report(seed);
    else if (b->key && (b->context == desk_app.screen->context || b->context == CTX_GLOBAL) &&
             !leaves_or_writes(b->command) &&
             !leaves_or_writes(keys_find(desk_app.screen->context, b->key)))
        app_key(&desk_app, b->key, "");
}

static void random_keys_keep_every_design_legal(void **state)
{
    uint32_t seed = 11;

    (void)state;
    desk_open("profiles/A/crown18.yaml");
    for (int i = 0; i < 12000; i++) {
        random_key(&seed);
        if (i % 8)
            continue;
        desk_draw(sizes[i / 8 % N_SIZES][0], sizes[i / 8 % N_SIZES][1], i % 16 == 0);
        for (int tab = 0; tab < desk_app.tabs.n; tab++) {
            struct design *d = desk_app.tabs.v[tab];
            struct problems problems = {0};
            struct count count;

            assert_int_equal(profile_validate(&d->spec, &problems), 0);
            count_model(&d->spec, &count);
            assert_int_equal(count.total, d->count.total);
            problems_release(&problems);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_tab_keeps_its_own_edits),
        cmocka_unit_test(a_copy_carries_what_is_not_saved),
        cmocka_unit_test(there_is_room_for_eight),
        cmocka_unit_test(a_profile_that_does_not_open_leaves_the_tabs),
        cmocka_unit_test(leaving_asks_for_every_tab),
        cmocka_unit_test(controls_are_designs_beside_this_one),
        cmocka_unit_test(the_uniform_grid_has_the_same_budget),
        cmocka_unit_test(controls_that_cannot_be_are_named),
        cmocka_unit_test(wrong_controls_are_explained),
        cmocka_unit_test(the_banner_names_what_differs),
        cmocka_unit_test(the_ledger_is_what_is_counted),
        cmocka_unit_test(layers_show_their_differences),
        cmocka_unit_test(letters_stand_at_their_heights),
        cmocka_unit_test(nothing_is_cut_at_any_size),
        cmocka_unit_test(pasted_text_is_a_lane_or_a_design),
        cmocka_unit_test(random_keys_keep_every_design_legal),
    };

    desk_setup();
    return cmocka_run_group_tests(tests, NULL, desk_release);
}
