// Designs that belong beside another one, and what differs between two.
#include "tests/t.h"

#include <math.h>

#include "engine/buf.h"
#include "engine/confound.h"
#include "engine/profile.h"
#include "engine/variant.h"

static void load(const char *file, const char *set, struct spec *s)
{
    struct problems p = {0};

    if (profile_load(file, &set, set ? 1 : 0, s, &p) < 0) {
        problems_print(&p, stderr);
        fail_msg("%s", file);
    }
    problems_release(&p);
}

static void check_valid(const struct spec *s)
{
    struct problems p = {0};

    if (profile_validate(s, &p) < 0) {
        problems_print(&p, stderr);
        fail_msg("%s is no valid profile", s->name);
    }
    problems_release(&p);
}

// architectures.md §6.4: FFN widths in steps of 64 at 180 M, and totals in millions
static void uniform_designs_of_180m(void **state)
{
    static const struct {
        int layers, ffn[3];
        double total[3];
    } rows[] = {
        {12, {3392, 3200, 3008}, {180.5, 179.9, 179.3}},
        {14, {2816, 2688, 2496}, {179.1, 180.5, 179.8}},
        {16, {2432, 2304, 2112}, {179.5, 181.1, 180.3}},
        {18, {2112, 1984, 1792}, {179.0, 180.8, 179.9}},
        {20, {1856, 1728, 1536}, {178.6, 180.5, 179.6}},
        {24, {1536, 1344, 1152}, {181.1, 180.0, 178.8}},
    };
    struct spec base, s;
    struct count c;
    int depths[8], heads[8];

    (void)state;
    load("profiles/A/base18.yaml", "model.ffn_step=64", &base);
    assert_int_equal(variant_usual_depths(&base, depths, 8), 6);
    assert_int_equal(variant_usual_heads(&base, heads, 8), 3);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 3; k++) {
            struct err err = ERR_INIT;

            assert_int_equal(depths[i], rows[i].layers);
            assert_int_equal(heads[k], 6 + 3 * k);
            if (variant_uniform(&base, depths[i], heads[k], BUDGET_PARAMS, 180e6, &s, &err) < 0)
                fail_msg("%s", err.text);
            check_valid(&s);
            count_model(&s, &c);
            assert_int_equal(s.model.lane[LANE_FFN][depths[i] - 1], rows[i].ffn[k]);
            assert_int_equal(s.model.lane[LANE_KV][0], 2 + k);
            assert_true(fabs((double)c.total / 1e6 - rows[i].total[k]) <= 0.0501);
        }
}

static void forbidden_uniform_designs_say_why(void **state)
{
    struct err err = ERR_INIT;
    struct spec base, s;

    (void)state;
    load("profiles/A/base18.yaml", NULL, &base);
    assert_int_equal(variant_uniform(&base, 18, 7, BUDGET_PARAMS, 180e6, &s, &err), -1);
    assert_non_null(strstr(err.text, "7 heads"));
    load("profiles/B/gated12-0.5.yaml", NULL, &base);
    assert_int_equal(variant_uniform(&base, 11, 12, BUDGET_PARAMS, 180e6, &s, &err), -1);
    assert_int_equal(variant_uniform(&base, 12, 12, BUDGET_KV, 1e4, &s, &err), -1);
    assert_string_equal(err.text, "ffn_width does not change kv");
}

static int sum(const struct spec *s, enum lane lane)
{
    int all = 0;

    for (int i = 0; i < s->model.n_layers; i++)
        all += s->model.lane[lane][i];
    return all;
}

static void reversed_layers_stay_whole(void **state)
{
    struct err err = ERR_INIT;
    struct spec a, s;
    struct count c, d;

    (void)state;
    load("profiles/A/lws18.yaml", NULL, &a);
    assert_int_equal(variant_make(&a, VARIANT_REVERSE, 0, &s, &err), 0);
    check_valid(&s);
    for (int i = 0; i < 18; i++)
        for (int lane = 0; lane < LANE_COUNT; lane++)
            assert_int_equal(s.model.lane[lane][i], a.model.lane[lane][17 - i]);
    count_model(&a, &c);
    count_model(&s, &d);
    assert_int_equal(c.total, d.total);
    assert_string_equal(s.name, "lws18-reverse");
    load("profiles/A/crown18.yaml", NULL, &a);
    assert_int_equal(variant_make(&a, VARIANT_REVERSE, 0, &s, &err), -1);
    assert_non_null(strstr(err.text, "symmetric"));
}

static void permuted_layers_are_the_same_ones(void **state)
{
    struct err err = ERR_INIT;
    struct spec a, s, t;
    struct count c, d;

    (void)state;
    load("profiles/A/lws18.yaml", NULL, &a);
    assert_int_equal(variant_make(&a, VARIANT_PERMUTE, 1, &s, &err), 0);
    assert_int_equal(variant_make(&a, VARIANT_PERMUTE, 2, &t, &err), 0);
    check_valid(&s);
    count_model(&a, &c);
    count_model(&s, &d);
    assert_int_equal(c.total, d.total);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        assert_int_equal(sum(&a, lane), sum(&s, lane));
    assert_memory_not_equal(s.model.lane[LANE_FFN], t.model.lane[LANE_FFN], sizeof(int) * 18);
    assert_int_equal(variant_make(&a, VARIANT_PERMUTE, 1, &t, &err), 0);
    assert_true(spec_equal(&s, &t));
}

// crown18: 34,816 / 18 = 1,934 is nearest to 2,048; 186 / 18 = 10.3 heads to 9 of 3, 6, 9, 12
static void averages_are_legal(void **state)
{
    struct err err = ERR_INIT;
    struct spec a, s;

    (void)state;
    load("profiles/A/crown18.yaml", NULL, &a);
    assert_int_equal(variant_make(&a, VARIANT_AVERAGE, 0, &s, &err), 0);
    check_valid(&s);
    assert_int_equal(sum(&a, LANE_FFN), 34816);
    assert_int_equal(sum(&a, LANE_HEADS), 186);
    for (int i = 0; i < 18; i++) {
        assert_int_equal(s.model.lane[LANE_FFN][i], 2048);
        assert_int_equal(s.model.lane[LANE_HEADS][i], 9);
        assert_int_equal(s.model.lane[LANE_KV][i] * 3, s.model.lane[LANE_HEADS][i]);
    }
    load("profiles/A/base18.yaml", NULL, &a);
    assert_int_equal(variant_make(&a, VARIANT_AVERAGE, 0, &s, &err), -1);
}

static void long_names_keep_their_ending(void **state)
{
    struct err err = ERR_INIT;
    struct spec a, s;

    (void)state;
    load("profiles/A/lws18.yaml", NULL, &a);
    memset(a.name, 'x', SPEC_NAME_SIZE - 1);
    assert_int_equal(variant_make(&a, VARIANT_REVERSE, 0, &s, &err), 0);
    assert_int_equal(strlen(s.name), SPEC_NAME_SIZE - 1);
    assert_string_equal(s.name + SPEC_NAME_SIZE - 1 - 8, "-reverse");
}

// ---- confounds ----------------------------------------------------------------------------------

static struct confounds between(const char *a, const char *b, const char *set_b)
{
    struct spec x, y;
    struct count cx, cy;
    struct confounds c;

    load(a, NULL, &x);
    load(b, set_b, &y);
    count_model(&x, &cx);
    count_model(&y, &cy);
    confounds_between(&x, &cx, &y, &cy, &c);
    return c;
}

static void the_best_uniform_rival_has_another_depth(void **state)
{
    struct confounds c = between("profiles/A/base12.yaml", "profiles/A/crown18.yaml", NULL);

    (void)state;
    assert_int_equal(c.n, 3);
    assert_int_equal(c.severe, 1);
    assert_string_equal(c.v[0].text, "depth differs: 12 and 18 layers");
    // 335,216,640 / 322,633,728
    assert_string_equal(c.v[1].text, "FLOPs per token differ by +3.90%");
    assert_string_equal(c.v[2].text, "training FLOPs differ by +3.90%");
}

static void the_shape_alone_is_no_confound(void **state)
{
    struct confounds c = between("profiles/A/base18.yaml", "profiles/A/crown18.yaml", NULL);

    (void)state;
    assert_int_equal(c.n, 0);
}

static void every_kind_has_its_sentence(void **state)
{
    static const struct {
        const char *set, *text;
        bool severe;
    } rows[] = {
        {"model.d_model=1536", "d_model: d_model 768 and 1536", true},
        {"model.vocab_pad=1", "vocabulary: vocab_pad 128 and 1", true},
        {"model.pos=alibi", "positions: pos rope and alibi", true},
        {"train.seq_len=512", "positions: seq_len 1024 and 512", true},
        {"model.act=gelu", "architecture: act swiglu and gelu", true},
        {"gate.enabled=true", "architecture: enabled false and true", true},
        {"optim.lr=1e-3", "optimizer: lr 0.0006 and 0.001", true},
        {"train.max_steps=1300", "training tokens differ: 5,111,808,000 and 511,180,800", true},
        {"data.train=other.bin", "data: train", true},
        {"model.init_std=0.01", "initial weights: init_std 0.02 and 0.01", false},
        {"train.seed=7", "seed: seed 0 and 7", false},
        {"eval.max_tokens=100", "evaluation: max_tokens", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct confounds c =
            between("profiles/A/base18.yaml", "profiles/A/base18.yaml", rows[i].set);
        bool found = false;

        for (int k = 0; k < c.n; k++)
            found |= !strncmp(c.v[k].text, rows[i].text, strlen(rows[i].text)) &&
                     c.v[k].severe == rows[i].severe && c.v[k].remedy[0];
        for (int k = 0; k < c.n && !found; k++)
            print_message("# has %s\n", c.v[k].text);
        if (!found)
            fail_msg("%s: '%s' is missing", rows[i].set, rows[i].text);
    }
}

static void what_does_not_touch_a_result_is_left_out(void **state)
{
    static const char *const sets[] = {
        "save.interval=7", "log.interval=9",        "train.threads=1",
        "name=other",      "train.recompute=layer", "gate.mu_end=0.25"}; // without gates

    (void)state;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        struct confounds c = between("profiles/A/base18.yaml", "profiles/A/base18.yaml", sets[i]);

        if (c.n)
            fail_msg("%s: %s", sets[i], c.v[0].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_designs_of_180m),
        cmocka_unit_test(forbidden_uniform_designs_say_why),
        cmocka_unit_test(reversed_layers_stay_whole),
        cmocka_unit_test(permuted_layers_are_the_same_ones),
        cmocka_unit_test(averages_are_legal),
        cmocka_unit_test(long_names_keep_their_ending),
        cmocka_unit_test(the_best_uniform_rival_has_another_depth),
        cmocka_unit_test(the_shape_alone_is_no_confound),
        cmocka_unit_test(every_kind_has_its_sentence),
        cmocka_unit_test(what_does_not_touch_a_result_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
