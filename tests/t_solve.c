// The solver: the published shapes on a budget, brute force on small models, and what must hold for
// any design and any target.
#include "tests/t.h"

#include <math.h>

#include "engine/buf.h"
#include "engine/gen.h"
#include "engine/profile.h"
#include "engine/rng.h"
#include "engine/solve.h"
#include "engine/solve_impl.h"

static void load(const char *file, const char *set, struct spec *s)
{
    struct problems p = {0};

    if (profile_load(file, &set, set ? 1 : 0, s, &p) < 0) {
        problems_print(&p, stderr);
        fail_msg("%s", file);
    }
    problems_release(&p);
}

static void solve_or_fail(const struct spec *s, const struct solve_request *r, struct solved *out)
{
    struct err err = ERR_INIT;

    if (solve(s, r, out, &err) < 0)
        fail_msg("%s: %s", s->name, err.text);
}

static double counted(enum budget b, const struct spec *s)
{
    struct count c;

    count_model(s, &c);
    return budget_value(b, s, &c);
}

// ---- the shapes of paper A ----------------------------------------------------------------------

static const char *const shapes[] = {"base12",   "lws12",     "base18", "lws18",
                                     "framed18", "reverse18", "crown18"};

static void paper_a_on_180m_within_a_twentieth_of_a_percent(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int b = BUDGET_PARAMS; b <= BUDGET_NON_EMBEDDING; b++) {
            struct solve_request r = {(enum budget)b, 180e6, SOLVE_FFN, NULL};
            char *file = xasprintf("profiles/A/%s.yaml", shapes[i]);
            struct spec s;
            struct solved out;

            load(file, "model.ffn_step=64", &s);
            solve_or_fail(&s, &r, &out);
            if (fabs(out.residual) > 0.0005 * 180e6)
                fail_msg("%s: %.0f off", file, out.residual);
            // half of one step of 3 d 64 weights: no design of any shape is nearer
            assert_true(fabs(out.residual) <= 3 * 768 * 64 / 2.);
            free(file);
        }
}

// At step 256 crown18 has 181,906,688; one step is 3 * 768 * 256 = 589,824.
static void crown18_takes_the_steps_by_hand(void **state)
{
    struct solve_request r = {BUDGET_PARAMS, 180e6, SOLVE_FFN, NULL};
    struct spec s;
    struct solved out;

    (void)state;
    load("profiles/A/crown18.yaml", NULL, &s);
    solve_or_fail(&s, &r, &out);
    assert_near(out.residual, 181906688. - 3 * 589824 - 180e6, 0);
    assert_near(out.other, 181906688. - 4 * 589824, 0);
    assert_int_equal(out.count.total, 181906688 - 3 * 589824);
    assert_string_equal(out.why, "one step of ffn_width (256) is 589,824 in layer 8, none smaller");
    // the middle of the crown is still its top, the outline still falls to both sides
    for (int i = 2; i < 9; i++)
        assert_true(out.spec.model.lane[LANE_FFN][i] >= out.spec.model.lane[LANE_FFN][i - 1]);
    for (int i = 10; i < 17; i++)
        assert_true(out.spec.model.lane[LANE_FFN][i] <= out.spec.model.lane[LANE_FFN][i - 1]);
}

// ---- brute force --------------------------------------------------------------------------------

static struct spec small(int layers, const char *set)
{
    struct spec s;
    char text[32];
    struct problems p = {0};

    load("profiles/A/base12.yaml", set, &s);
    snprintf(text, sizeof text, "%d", layers);
    assert_int_equal(profile_set(&s, "model.d_model", "192", &p), 0);
    assert_int_equal(profile_set(&s, "model.n_layers", text, &p), 0);
    problems_release(&p);
    return s;
}

// The least distance over all widths of up to `most` steps in every layer.
static double nearest_of_all(struct spec s, enum budget b, double target, int most)
{
    int n = s.model.n_layers, *w = s.model.lane[LANE_FFN];
    double nearest = INFINITY;

    for (int i = 0; i < n; i++)
        w[i] = s.model.ffn_step;
    for (;;) {
        int i = 0;

        nearest = fmin(nearest, fabs(counted(b, &s) - target));
        while (i < n && w[i] == most * s.model.ffn_step)
            w[i++] = s.model.ffn_step;
        if (i == n)
            return nearest;
        w[i] += s.model.ffn_step;
    }
}

static void parameters_come_as_near_as_any_widths_can(void **state)
{
    static const char *const sets[] = {"model.ffn_width={shape: crown, points: [1, 3, 1]}",
                                       "model.ffn_width={shape: vanilla, points: [0.5, 4]}",
                                       "model.ffn_width=768"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct spec s = small(4, sets[i]);
        double least = counted(BUDGET_PARAMS, &s) * 0.9;

        for (int k = 0; k < 12; k++) {
            double target = least * (1 + 0.015 * k);
            struct solve_request r = {BUDGET_PARAMS, target, SOLVE_FFN, NULL};
            struct solved out;

            solve_or_fail(&s, &r, &out);
            for (int j = 0; j < 4; j++) // else the search would not have seen it
                assert_true(out.spec.model.lane[LANE_FFN][j] <= 8 * 256);
            assert_near(fabs(out.residual), nearest_of_all(s, BUDGET_PARAMS, target, 8), 1e-12);
        }
    }
}

// With repeated layers a step costs differently in each: the designs of the shape, one after the
// other, are then what the result must not be worse than.
static void flops_are_no_worse_than_any_design_of_the_shape(void **state)
{
    struct spec s = small(5, "model.ffn_width={shape: crown, points: [1, 4, 2]}");
    struct problems p = {0};

    (void)state;
    assert_int_equal(profile_set(&s, "model.reuse", "[1,3,1,2,5]", &p), 0);
    problems_release(&p);
    for (int k = 0; k < 40; k++) {
        double target = counted(BUDGET_FLOPS, &s) * (0.7 + 0.02 * k), nearest = INFINITY;
        struct solve_request r = {BUDGET_FLOPS, target, SOLVE_FFN, NULL};
        struct solved out;

        solve_or_fail(&s, &r, &out);
        for (double scale = 0.1; scale < 3; scale += 0.001) {
            struct spec t = s;
            static const double want[] = {1, 2.5, 4, 3, 2}; // the crown of five layers

            for (int i = 0; i < 5; i++) {
                double steps = floor(scale * want[i] * 192 / 256 + 0.5);

                t.model.lane[LANE_FFN][i] = 256 * (int)fmax(1, steps);
            }
            nearest = fmin(nearest, fabs(counted(BUDGET_FLOPS, &t) - target));
        }
        assert_true(fabs(out.residual) <= nearest);
    }
}

// ---- any design, any target ---------------------------------------------------------------------

static uint64_t random_state = 1;

static int below(int n) // 0 to n-1; splitmix64
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (int)((z ^ (z >> 31)) % (uint64_t)n);
}

static struct lane_source random_shape(void)
{
    static const enum shape some[] = {SHAPE_LIST, SHAPE_UNIFORM, SHAPE_VANILLA, SHAPE_REVERSE,
                                      SHAPE_CROWN};
    struct lane_source src = {.shape = some[below(5)]};

    src.n_points = gen_points(src.shape);
    for (int i = 0; i < src.n_points; i++)
        src.points[i] = 0.25 + 0.25 * below(20);
    return src;
}

static struct spec random_design(void)
{
    static const int steps[] = {1, 16, 64, 256};
    struct spec s = {.train = {.seq_len = 1 + below(256), .micro_batch_size = 1 + below(4)}};
    struct model_spec *m = &s.model;

    s.train.global_batch_size = s.train.micro_batch_size;
    s.train.max_steps = 1 + below(1000);
    m->head_dim = 8 << below(4);
    m->d_model = m->head_dim * (1 + below(12));
    m->n_layers = 1 + below(12);
    m->ffn_step = steps[below(4)];
    m->head_step = 1 + below(3);
    m->vocab = 2 + below(1000);
    m->vocab_pad = 1 + below(64);
    m->block_loops = 1 + below(2);
    m->qk_norm = (enum qk_norm)below(3);
    m->act = (enum act_fn)below(3);
    m->bias = below(2);
    m->tie_embeddings = below(2);
    m->pos = (enum pos)below(4);
    m->frame.mode = (enum frame_mode)below(4);
    m->frame.ffn = m->frame.heads = 1 + below(4);
    m->source[LANE_FFN] = random_shape();
    for (int i = 0; i < m->n_layers; i++) {
        int group = 1 + below(3);

        m->lane[LANE_FFN][i] = m->ffn_step * (1 + below(40));
        m->lane[LANE_KV][i] = 1 + below(4);
        m->lane[LANE_HEADS][i] = m->head_step * m->lane[LANE_KV][i] * group;
        m->lane[LANE_REUSE][i] = 1 + below(3);
    }
    gen_apply(m, LANE_FFN, NULL);
    return s;
}

static void check_locked(const struct spec *from, const struct solved *out, const bool *locked)
{
    for (int i = 0; i < from->model.n_layers; i++)
        for (int lane = 0; lane < LANE_COUNT; lane++)
            if (locked[i] && out->spec.model.lane[lane][i] != from->model.lane[lane][i])
                fail_msg("locked layer %d moved", i);
}

// No single legal step of a layer that may move comes nearer.
static void check_steps(const struct solved *out, const struct solve_request *r)
{
    enum lane lane = r->by == SOLVE_FFN ? LANE_FFN : LANE_HEADS;

    for (int i = 0; i < out->spec.model.n_layers; i++)
        for (int dir = -1; dir <= 1; dir += 2) {
            struct spec t = out->spec;
            char why[160];

            if (r->locked[i] || !gen_step(&t.model, lane, i, dir, why, sizeof why))
                continue;
            if (fabs(counted(r->budget, &t) - r->target) < fabs(out->residual))
                fail_msg("layer %d by %+d would have been nearer", i, dir);
        }
}

// Mixed kv ratios move by another unit once they agree; the steps are those of the design one began
// with.
static bool same_steps(const struct spec *from, const struct solved *out, enum solve_by by)
{
    return by == SOLVE_FFN ||
           (spec_kv_ratio(&from->model) == 0) == (spec_kv_ratio(&out->spec.model) == 0);
}

static void ten_thousand_random_designs(void **state)
{
    int solved_ones = 0;

    (void)state;
    for (int n = 0; n < 10000; n++) {
        struct spec s = random_design();
        bool locked[SPEC_MAX_LAYERS] = {false};
        // memory counts every trial: fewer of them
        enum budget b = (enum budget)(n % 50 == 0 ? BUDGET_MEMORY : below(BUDGET_MEMORY));
        struct solve_request r = {b, counted(b, &s) * (0.3 + 0.01 * below(300)),
                                  (enum solve_by)below(2), locked};
        struct err err = ERR_INIT;
        struct solved out;

        for (int i = 0; i < s.model.n_layers; i++)
            locked[i] = below(4) == 0;
        if (solve(&s, &r, &out, &err) < 0) {
            assert_true(err.text[0] != 0);
            continue;
        }
        solved_ones++;
        if (counted(b, &out.spec) != out.value || out.value - r.target != out.residual)
            fail_msg("design %d: reports %.17g, counts %.17g", n, out.value, counted(b, &out.spec));
        check_locked(&s, &out, locked);
        if (same_steps(&s, &out, r.by))
            check_steps(&out, &r);
        assert_true((out.residual == 0) == (out.why[0] == 0));
    }
    assert_true(solved_ones > 9000);
}

// ---- other ways ---------------------------------------------------------------------------------

static void locked_layers_stay_and_others_give(void **state)
{
    bool locked[SPEC_MAX_LAYERS] = {[0] = true, [17] = true};
    struct solve_request r = {BUDGET_PARAMS, 170e6, SOLVE_FFN, locked};
    struct err err = ERR_INIT;
    struct spec s;
    struct solved out;

    (void)state;
    load("profiles/A/crown18.yaml", NULL, &s);
    solve_or_fail(&s, &r, &out);
    assert_int_equal(out.spec.model.lane[LANE_FFN][0], 3072);
    assert_int_equal(out.spec.model.lane[LANE_FFN][17], 3072);
    assert_true(fabs(out.residual) <= 589824 / 2.);
    memset(locked, true, 18);
    assert_int_equal(solve(&s, &r, &out, &err), -1);
    assert_string_equal(err.text, "all layers are locked");
}

static void the_end_of_what_layers_can_give_is_named(void **state)
{
    struct solve_request r = {BUDGET_PARAMS, 1e6, SOLVE_FFN, NULL};
    struct spec s;
    struct solved out;

    (void)state;
    load("profiles/A/base12.yaml", NULL, &s);
    solve_or_fail(&s, &r, &out);
    assert_string_equal(out.why, "every layer that may move has its ffn_width at the least");
    assert_int_equal(out.spec.model.lane[LANE_FFN][5], 256);
    assert_true(isnan(out.other));
}

static void what_a_way_cannot_change_is_refused(void **state)
{
    struct solve_request r = {BUDGET_KV, 1e4, SOLVE_FFN, NULL};
    struct err err = ERR_INIT;
    struct spec s;
    struct solved out;

    (void)state;
    load("profiles/A/base12.yaml", NULL, &s);
    assert_int_equal(solve(&s, &r, &out, &err), -1);
    assert_string_equal(err.text, "ffn_width does not change kv");
    r = (struct solve_request){BUDGET_PARAMS, 1e8, SOLVE_TOKENS, NULL};
    assert_int_equal(solve(&s, &r, &out, &err), -1);
    r = (struct solve_request){BUDGET_PARAMS, -1, SOLVE_FFN, NULL};
    assert_int_equal(solve(&s, &r, &out, &err), -1);
}

// 38,633,472 embedding parameters twice, 768 and 8,653,312 per layer (architectures.md §2.4)
static void depth_by_hand(void **state)
{
    struct solve_request r = {BUDGET_PARAMS, 181e6, SOLVE_DEPTH, NULL};
    double layer = (181107456. - 2 * 50304 * 768. - 768) / 12;
    struct spec s;
    struct solved out;

    (void)state;
    load("profiles/A/base12.yaml", NULL, &s);
    solve_or_fail(&s, &r, &out);
    assert_int_equal(out.spec.model.n_layers, 12);
    assert_near(out.residual, 107456., 0);
    assert_near(out.other, 181107456. - layer, 0);
    assert_int_equal(out.moved, 0);
    r.target = 200e6;
    solve_or_fail(&s, &r, &out);
    assert_int_equal(out.spec.model.n_layers, 14);
    assert_near(out.value, 181107456. + 2 * layer, 0);
}

static void gated_depth_stays_even(void **state)
{
    struct solve_request r = {BUDGET_PARAMS, 162e6, SOLVE_DEPTH, NULL};
    struct spec s;
    struct solved out;

    (void)state;
    load("profiles/B/gated12-0.5.yaml", NULL, &s);
    solve_or_fail(&s, &r, &out);
    assert_int_equal(out.spec.model.n_layers, 8); // 152.7 M; 10 layers are 171.6 M
}

static void width_follows_its_generators(void **state)
{
    struct solve_request r = {BUDGET_PARAMS, 300e6, SOLVE_WIDTH, NULL};
    struct spec s, t;
    struct solved out;
    struct problems p = {0};
    char text[16];

    (void)state;
    load("profiles/A/crown18.yaml", NULL, &s);
    solve_or_fail(&s, &r, &out);
    assert_int_equal(out.spec.model.d_model % 64, 0);
    for (int k = -1; k <= 1; k += 2) { // the neighbours are further away
        t = s;
        snprintf(text, sizeof text, "%d", out.spec.model.d_model + 64 * k);
        assert_int_equal(profile_set(&t, "model.d_model", text, &p), 0);
        assert_true(fabs(counted(BUDGET_PARAMS, &t) - 300e6) >= fabs(out.residual));
    }
    problems_release(&p);
}

// 1.2e18 / (967,897,... per token * 393,216 tokens of a step), rounded to whole steps
static void tokens_match_training_flops(void **state)
{
    struct solve_request r = {BUDGET_TRAIN_FLOPS, 1.2e18, SOLVE_TOKENS, NULL};
    struct spec s;
    struct solved out;
    double per_step;

    (void)state;
    load("profiles/A/base12.yaml", NULL, &s);
    solve_or_fail(&s, &r, &out);
    per_step = out.count.train_per_token * 393216;
    assert_near(out.value, rint(1.2e18 / per_step) * per_step, 1e-14);
    assert_int_equal(spec_total_steps(&out.spec), (int64_t)rint(1.2e18 / per_step));
    assert_true(fabs(out.residual) <= per_step / 2);
}

static void budgets_read_their_units(void **state)
{
    struct err err = ERR_INIT;
    double v;

    (void)state;
    assert_int_equal(budget_parse(BUDGET_PARAMS, "180M", &v, &err), 0);
    assert_near(v, 180e6, 0);
    assert_int_equal(budget_parse(BUDGET_TRAIN_FLOPS, "5e21", &v, &err), 0);
    assert_near(v, 5e21, 0);
    assert_int_equal(budget_parse(BUDGET_MEMORY, "8GiB", &v, &err), 0);
    assert_near(v, 8. * (1 << 30), 0);
    assert_int_equal(budget_parse(BUDGET_PARAMS, "-3", &v, &err), -1);
    assert_int_equal(budget_parse(BUDGET_PARAMS, "many", &v, &err), -1);
    assert_non_null(strstr(err.text, "180M"));
    assert_int_equal(budget_find("non-embedding"), BUDGET_NON_EMBEDDING);
    assert_int_equal(budget_find("nothing"), BUDGET_KINDS);
}

// What one layer's step adds to memory, against counting the whole model twice.
static void a_step_alone_adds_what_counting_says(void **state)
{
    static const char *const sets[] = {"train.seq_len=77", "train.recompute=layer",
                                       "train.seq_len=33"};
    struct spec from, before, after, few;
    struct solve_step known = {{0}, 0};
    int told = 0;

    (void)state;
    for (uint64_t n = 0; n < 600; n++) {
        struct model_spec *m = &before.model, *to = &after.model;
        int layer = (int)(rng_u64(8, 5 * n) % 9);

        if (n % 200 == 0)
            load(n ? "profiles/C/large-rope-baseline.yaml" : "profiles/C/large-alibi-baseline.yaml",
                 sets[n / 200], &from);
        before = few = from;
        m->n_layers = 9;
        for (int i = 0; i < 9; i++) { // few values, so that there are ties
            m->lane[LANE_FFN][i] = 256 * (1 + (int)(rng_u64(9, 100 * n + (uint64_t)i) % 4));
            m->lane[LANE_KV][i] = 1 + (int)(rng_u64(10, 100 * n + (uint64_t)i) % 2);
            m->lane[LANE_HEADS][i] = 2 * (1 + (int)(rng_u64(11, 100 * n + (uint64_t)i) % 4));
            m->lane[LANE_REUSE][i] = 1 + (int)(rng_u64(12, 100 * n + (uint64_t)i) % 2);
        }
        after = before;
        if (n % 2)
            to->lane[LANE_FFN][layer] += n % 4 == 1 ? 256 : -32;
        else
            to->lane[LANE_HEADS][layer] += n % 4 == 0 ? 2 : 6;
        if (!solve_step_alone(&before, &after, layer, &few, &known))
            continue;
        told++;
        assert_near(known.change, counted(BUDGET_MEMORY, &after) - counted(BUDGET_MEMORY, &before),
                    0);
        assert_true(solve_step_alone(&before, &after, layer, &few, &known)); // known already
        assert_near(known.change, counted(BUDGET_MEMORY, &after) - counted(BUDGET_MEMORY, &before),
                    0);
    }
    assert_true(told >= 350); // nearly all without recomputation
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_alone_adds_what_counting_says),
        cmocka_unit_test(paper_a_on_180m_within_a_twentieth_of_a_percent),
        cmocka_unit_test(crown18_takes_the_steps_by_hand),
        cmocka_unit_test(parameters_come_as_near_as_any_widths_can),
        cmocka_unit_test(flops_are_no_worse_than_any_design_of_the_shape),
        cmocka_unit_test(ten_thousand_random_designs),
        cmocka_unit_test(locked_layers_stay_and_others_give),
        cmocka_unit_test(the_end_of_what_layers_can_give_is_named),
        cmocka_unit_test(what_a_way_cannot_change_is_refused),
        cmocka_unit_test(depth_by_hand),
        cmocka_unit_test(gated_depth_stays_even),
        cmocka_unit_test(width_follows_its_generators),
        cmocka_unit_test(tokens_match_training_flops),
        cmocka_unit_test(budgets_read_their_units),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
