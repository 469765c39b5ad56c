// Layers without attention or without an FFN: what a profile may say, how they are edited, counted,
// moved and written.
#include "tests/t.h"

#include <math.h>

#include "engine/buf.h"
#include "engine/ckpt.h"
#include "engine/count.h"
#include "engine/flops.h"
#include "engine/gen.h"
#include "engine/profile.h"
#include "engine/solve.h"
#include "engine/variant.h"

static const char design[] = "model:\n"
                             "  d_model: 128\n"
                             "  n_layers: 4\n"
                             "  head_dim: 32\n"
                             "  ffn_width: [512, 0, 256, 768]\n"
                             "  n_heads: [0, 4, 8, 4]\n"
                             "  n_kv_heads: {ratio: 4}\n"
                             "  vocab: 1000\n"
                             "train: {seq_len: 64}\n";

static int parse(const char *text, struct spec *s, struct problems *p)
{
    *p = (struct problems){0};
    return profile_parse("p.yaml", text, strlen(text), NULL, 0, s, p);
}

static struct spec good(const char *text)
{
    struct problems p;
    struct spec s;

    if (parse(text, &s, &p) != 0)
        fail_msg("%s: %s\n%s", p.v[0].path, p.v[0].err.text, text);
    problems_release(&p);
    return s;
}

static void assert_lane(const struct spec *s, enum lane lane, const int *want)
{
    for (int i = 0; i < s->model.n_layers; i++)
        if (s->model.lane[lane][i] != want[i])
            fail_msg("lane %d layer %d is %d, expected %d", (int)lane, i, s->model.lane[lane][i],
                     want[i]);
}

static void assert_valid(const struct spec *s, const char *after)
{
    struct problems p = {0};

    if (profile_validate(s, &p) != 0)
        fail_msg("after %s: %s: %s", after, p.v[0].path, p.v[0].err.text);
    problems_release(&p);
}

// ---- profiles -----------------------------------------------------------------------------------

static void zeros_are_read_and_written(void **state)
{
    struct spec s = good(design), back;
    char *text = profile_to_yaml(&s, NULL);

    (void)state;
    assert_lane(&s, LANE_FFN, (int[]){512, 0, 256, 768});
    assert_lane(&s, LANE_HEADS, (int[]){0, 4, 8, 4});
    assert_lane(&s, LANE_KV, (int[]){0, 1, 2, 1});
    assert_int_equal(spec_kv_ratio(&s.model), 4);
    back = good(text);
    assert_true(spec_equal(&s, &back));
    free(text);
    // a number takes it from all layers
    s = good("model: {d_model: 64, n_layers: 2, n_heads: 0, ffn_width: 256, vocab: 9}\n");
    assert_lane(&s, LANE_KV, (int[]){0, 0});
    assert_int_equal(spec_kv_ratio(&s.model), 0);
    s = good("model: {d_model: 64, n_layers: 2, n_heads: 0, n_kv_heads: 0, ffn_width: 256,\n"
             "        vocab: 9}\n");
    s = good("model: {d_model: 64, n_layers: 2, n_heads: 4, ffn_width: 0, vocab: 9}\n");
    assert_lane(&s, LANE_FFN, (int[]){0, 0});
    s = good("model: {d_model: 64, n_layers: 3, n_heads: [4, 0, 6], n_kv_heads: [2, 0, 2],\n"
             "        ffn_width: 256, vocab: 9}\n");
    assert_int_equal(spec_kv_ratio(&s.model), 0); // 2 and 3
}

static void expect(const char *lanes, const char *path, const char *part)
{
    char *text = xasprintf("model: {d_model: 64, n_layers: 3, vocab: 9, %s}\n", lanes);
    struct problems p;
    struct spec s;

    assert_int_equal(parse(text, &s, &p), -1);
    if (p.errors != 1 || strcmp(p.v[0].path, path) || !strstr(p.v[0].err.text, part))
        fail_msg("%s: %s: %s", lanes, p.v[0].path, p.v[0].err.text);
    problems_release(&p);
    free(text);
}

static void what_is_no_layer_is_refused(void **state)
{
    (void)state;
    expect("n_heads: [4, 0, 4], ffn_width: [256, 0, 256]", "model.ffn_width[1]",
           "0 in layer 1, whose n_heads is 0 too: a layer has attention, an FFN or both");
    expect("n_heads: 0, ffn_width: 0", "model.ffn_width[0]", "0 in layer 0");
    expect("n_heads: [4, 0, 4], n_kv_heads: 2, ffn_width: 256", "model.n_kv_heads[1]",
           "2 with n_heads 0 in layer 1: both are 0");
    expect("n_heads: 4, n_kv_heads: [4, 0, 4], ffn_width: 256", "model.n_kv_heads[1]",
           "0 with n_heads 4 in layer 1: both are 0");
    expect("n_heads: 4, n_kv_heads: 0, ffn_width: 256", "model.n_kv_heads[0]", "both are 0");
    expect("n_heads: 4, ffn_width: 256, reuse: [1, 0, 1]", "model.reuse[1]",
           "0 is out of range, expected 1 to 64");
    expect("n_heads: 4, ffn_width: {shape: uniform, points: 0}", "model.ffn_width",
           "multiplier 0 of ffn_width");
}

static void set_key(struct spec *s, const char *key, const char *value)
{
    struct problems p = {0};

    if (profile_set(s, key, value, &p) != 0)
        fail_msg("%s=%s: %s: %s", key, value, p.v[0].path, p.v[0].err.text);
    problems_release(&p);
}

static void other_keys_leave_absent_parts_away(void **state)
{
    struct spec s = good(design);

    (void)state;
    set_key(&s, "model.n_layers", "8");
    assert_lane(&s, LANE_FFN, (int[]){512, 512, 0, 0, 256, 256, 512, 768});
    assert_lane(&s, LANE_HEADS, (int[]){0, 0, 4, 4, 8, 8, 4, 4});
    assert_lane(&s, LANE_KV, (int[]){0, 0, 1, 1, 2, 2, 1, 1});
    s = good(design);
    set_key(&s, "model.ffn_step", "64");
    set_key(&s, "model.d_model", "192");
    set_key(&s, "model.head_step", "2");
    assert_lane(&s, LANE_FFN, (int[]){512, 0, 256, 768});
    assert_lane(&s, LANE_HEADS, (int[]){0, 4, 8, 4});
    set_key(&s, "model.n_heads", "{shape: uniform, points: 2}"); // gives all layers attention
    assert_lane(&s, LANE_HEADS, (int[]){12, 12, 12, 12});
    assert_lane(&s, LANE_KV, (int[]){3, 3, 3, 3});
    set_key(&s, "model.n_heads", "[4, 4, 0, 4]");
    assert_lane(&s, LANE_KV, (int[]){1, 1, 0, 1});
}

// ---- moves --------------------------------------------------------------------------------------

static void steps_neither_take_nor_give(void **state)
{
    struct spec s = good(design), before = s;
    struct model_spec *m = &s.model;
    char why[200];

    (void)state;
    for (int dir = -1; dir <= 1; dir += 2) {
        assert_false(gen_step(m, LANE_FFN, 1, dir, why, sizeof why));
        assert_string_equal(why, "layer 1 has no FFN; set a value with =");
        assert_false(gen_step(m, LANE_HEADS, 0, dir, why, sizeof why));
        assert_string_equal(why, "layer 0 has no attention; set a value with =");
        assert_false(gen_step(m, LANE_KV, 0, dir, why, sizeof why));
        assert_string_equal(why, "layer 0 has no attention; set its query heads first");
    }
    assert_true(spec_equal(&s, &before));
    assert_true(gen_step(m, LANE_FFN, 3, -100, why, sizeof why));
    assert_int_equal(m->lane[LANE_FFN][3], 256);
    assert_true(gen_step(m, LANE_HEADS, 2, -100, why, sizeof why));
    assert_int_equal(m->lane[LANE_HEADS][2], 4);
    assert_int_equal(m->lane[LANE_KV][2], 1);
    assert_false(gen_step(m, LANE_HEADS, 2, -1, why, sizeof why));
}

static void setting_takes_and_gives(void **state)
{
    struct spec s = good(design);
    struct model_spec *m = &s.model;
    char why[200];

    (void)state;
    assert_true(gen_set(m, LANE_HEADS, 0, 11, why, sizeof why)); // the ratio of the others
    assert_int_equal(m->lane[LANE_HEADS][0], 12);
    assert_int_equal(m->lane[LANE_KV][0], 3);
    assert_int_equal(m->source[LANE_KV].kv_ratio, 4);
    assert_true(gen_set(m, LANE_FFN, 0, 0, why, sizeof why));
    assert_false(gen_set(m, LANE_HEADS, 0, 0, why, sizeof why));
    assert_string_equal(why, "layer 0 has no FFN, so it keeps its attention");
    assert_false(gen_set(m, LANE_KV, 0, 0, why, sizeof why));
    assert_true(gen_set(m, LANE_FFN, 0, 1, why, sizeof why));
    assert_int_equal(m->lane[LANE_FFN][0], 256);
    assert_true(gen_set(m, LANE_KV, 0, 0, why, sizeof why)); // all of the attention
    assert_int_equal(m->lane[LANE_HEADS][0], 0);
    assert_int_equal(m->lane[LANE_KV][0], 0);
    assert_false(gen_set(m, LANE_KV, 0, 2, why, sizeof why));
    assert_string_equal(why, "layer 0 has no attention; set its query heads first");
    assert_false(gen_set(m, LANE_FFN, 0, 0, why, sizeof why));
    assert_string_equal(why, "layer 0 has no attention, so it keeps its FFN");
    assert_true(gen_set(m, LANE_HEADS, 0, -3, why, sizeof why)); // what is away stays away
    assert_int_equal(m->lane[LANE_HEADS][0], 0);
    assert_valid(&s, "edits");
    // without a shared ratio as many kv heads as query heads
    m->lane[LANE_KV][1] = 2;
    m->source[LANE_KV] = (struct lane_source){.shape = SHAPE_LIST};
    m->head_step = 1;
    assert_true(gen_set(m, LANE_HEADS, 0, 6, why, sizeof why));
    assert_int_equal(m->lane[LANE_HEADS][0], 6);
    assert_int_equal(m->lane[LANE_KV][0], 6);
    assert_valid(&s, "edits with mixed ratios");
}

static void variants_carry_absent_parts_along(void **state)
{
    struct err err = ERR_INIT;
    struct spec s = good(design), v;

    (void)state;
    assert_int_equal(variant_make(&s, VARIANT_REVERSE, 0, &v, &err), 0);
    assert_lane(&v, LANE_FFN, (int[]){768, 256, 0, 512});
    assert_lane(&v, LANE_HEADS, (int[]){4, 8, 4, 0});
    assert_valid(&v, "reversing");
    assert_int_equal(variant_make(&s, VARIANT_AVERAGE, 0, &v, &err), 0);
    assert_lane(&v, LANE_FFN, (int[]){512, 0, 512, 512}); // (512 + 256 + 768) / 3
    assert_lane(&v, LANE_HEADS, (int[]){0, 4, 4, 4});     // 16 / 3
    assert_lane(&v, LANE_KV, (int[]){0, 1, 1, 1});
    assert_valid(&v, "averaging");
}

static void solving_leaves_absent_parts_away(void **state)
{
    struct solve_request r = {BUDGET_PARAMS, 2e6, SOLVE_FFN, NULL};
    bool locked[SPEC_MAX_LAYERS] = {true, false, true, true};
    struct err err = ERR_INIT;
    struct spec s = good(design);
    struct solved out;

    (void)state;
    assert_int_equal(solve(&s, &r, &out, &err), 0);
    assert_int_equal(out.spec.model.lane[LANE_FFN][1], 0);
    assert_true(out.spec.model.lane[LANE_FFN][2] > 256);
    assert_true(fabs(out.residual) <= 3 * 128 * 256 / 2.);
    r.by = SOLVE_HEADS;
    assert_int_equal(solve(&s, &r, &out, &err), 0);
    assert_int_equal(out.spec.model.lane[LANE_HEADS][0], 0);
    assert_true(out.spec.model.lane[LANE_HEADS][2] > 8);
    r = (struct solve_request){BUDGET_PARAMS, 2e6, SOLVE_FFN, locked};
    assert_int_equal(solve(&s, &r, &out, &err), -1);
    assert_string_equal(err.text, "all layers with an FFN are locked");
    s = good("model: {d_model: 64, n_layers: 2, n_heads: 4, ffn_width: 0, vocab: 9}\n");
    r.locked = NULL;
    assert_int_equal(solve(&s, &r, &out, &err), -1);
    assert_string_equal(err.text, "no layer has an FFN");
}

// ---- counts -------------------------------------------------------------------------------------

// Tensors of a layer by hand: d wide, no biases, SwiGLU; norms only with what they belong to.
static int64_t layer_total(const struct spec *s, int layer)
{
    const struct model_spec *m = &s->model;
    int64_t d = m->d_model, q = m->lane[LANE_HEADS][layer] * m->head_dim;
    int64_t k = m->lane[LANE_KV][layer] * m->head_dim, f = m->lane[LANE_FFN][layer];
    int64_t norms = m->norm_place == PLACE_SANDWICH ? 2 * d : d;

    return (q ? norms + 2 * d * q + 2 * d * k : 0) + (f ? norms + 3 * d * f : 0);
}

static void counts_have_no_norms_of_absent_parts(void **state)
{
    struct spec s = good(design);

    (void)state;
    for (int place = PLACE_PRE; place <= PLACE_SANDWICH; place++) {
        int64_t sum = 2 * 1000 * 128 + 128;
        struct count c;

        s.model.norm_place = (enum norm_place)place;
        count_model(&s, &c);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(c.layer[i].params, layer_total(&s, i));
            sum += layer_total(&s, i);
        }
        assert_int_equal(c.total, sum);
        assert_int_equal(c.kv_bytes_per_token, (1 + 2 + 1) * 2 * 32 * 4);
        assert_near(c.layer[0].forward_flops, 6. * 128 * 512, 0);
        assert_near(c.layer[1].forward_flops, 2. * 128 * 2 * (128 + 32) + 4. * 128 * 64, 0);
        assert_near(c.layer[0].forward_flops_causal, 6. * 128 * 512, 0);
    }
}

static double forward(const char *name, const struct spec *s)
{
    struct count c;

    count_model(s, &c);
    return flops_find(name, strlen(name))->forward(s, &c, 0);
}

// Both parts apart are what the whole layer is, in every convention.
static void conventions_count_what_is_there(void **state)
{
    struct spec s =
        good("model: {d_model: 64, n_layers: 1, n_heads: 1, ffn_width: 256, vocab: 9}\n");
    struct spec attention = s, ffn = s, two = s;

    (void)state;
    attention.model.lane[LANE_FFN][0] = 0;
    ffn.model.lane[LANE_HEADS][0] = ffn.model.lane[LANE_KV][0] = 0;
    two.model.n_layers = 2;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        two.model.lane[lane][1] = two.model.lane[lane][0];
    // a layer in its two parts counts the rest of the model, 2 one - two, once more
    for (const struct flops_convention *f = flops_conventions; f->name; f++)
        assert_near(forward(f->name, &attention) + forward(f->name, &ffn),
                    3 * forward(f->name, &s) - forward(f->name, &two), 1e-12);
}

static void config_lists_hold_the_zeros(void **state)
{
    struct spec s = good(design);
    json_t *j = ckpt_config(&s), *one;

    (void)state;
    one = json_object_get(json_object_get(j, "per_layer_config"), "0");
    assert_int_equal(json_integer_value(json_object_get(one, "num_attention_heads")), 0);
    assert_int_equal(json_integer_value(json_object_get(one, "num_key_value_heads")), 0);
    assert_int_equal(json_integer_value(json_object_get(one, "intermediate_size")), 512);
    one = json_object_get(j, "intermediate_size_per_layer");
    assert_int_equal(json_integer_value(json_array_get(one, 1)), 0);
    assert_int_equal(json_integer_value(json_object_get(j, "num_attention_heads")), 8);
    json_decref(j);
}

// ---- random designs -----------------------------------------------------------------------------

static uint64_t random_state = 7;

static int below(int n) // 0 to n-1; splitmix64
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (int)((z ^ (z >> 31)) % (uint64_t)n);
}

static struct spec random_design(void)
{
    struct spec s = good(design);
    struct model_spec *m = &s.model;
    int shared = below(2) ? 1 + below(3) : 0;

    m->n_layers = 1 + below(10);
    m->ffn_step = 64 << below(3);
    m->head_step = shared ? shared : 1;
    m->norm_place = (enum norm_place)below(3);
    m->source[LANE_KV] = (struct lane_source){.shape = SHAPE_LIST, .kv_ratio = shared};
    m->source[LANE_FFN].shape = m->source[LANE_HEADS].shape = SHAPE_LIST;
    for (int i = 0; i < m->n_layers; i++) {
        int lacks = below(5), ratio = shared ? shared : 1 + below(3), kv = 1 + below(4);

        m->lane[LANE_FFN][i] = lacks == 0 ? 0 : m->ffn_step * (1 + below(20));
        m->lane[LANE_KV][i] = lacks == 1 ? 0 : kv;
        m->lane[LANE_HEADS][i] = lacks == 1 ? 0 : kv * ratio;
        m->lane[LANE_REUSE][i] = 1 + below(3);
    }
    return s;
}

static void assert_same_parts(const struct spec *a, const struct spec *b, const char *after)
{
    for (int i = 0; i < a->model.n_layers; i++)
        if (spec_has_attention(&a->model, i) != spec_has_attention(&b->model, i) ||
            spec_has_ffn(&a->model, i) != spec_has_ffn(&b->model, i))
            fail_msg("layer %d lost or got a part after %s", i, after);
}

static void check_total(const struct spec *s)
{
    int64_t sum = 2 * 1000 * 128 + 128;
    struct count c;

    for (int i = 0; i < s->model.n_layers; i++)
        sum += layer_total(s, i);
    count_model(s, &c);
    assert_int_equal(c.total, sum);
}

static void check_solving(const struct spec *s)
{
    static const char *const depths[] = {"1", "3", "7", "12"};
    struct solve_request r = {(enum budget)below(BUDGET_KINDS), pow(10, 3 + below(8)),
                              (enum solve_by)below(SOLVE_WAYS), NULL};
    struct err err = ERR_INIT;
    struct problems p = {0};
    struct spec other = *s;
    struct solved out;

    if (solve(s, &r, &out, &err) == 0) {
        assert_valid(&out.spec, "solving");
        if (r.by == SOLVE_FFN || r.by == SOLVE_HEADS)
            assert_same_parts(s, &out.spec, "solving");
    }
    if (profile_set(&other, "model.n_layers", depths[below(4)], &p) != 0)
        fail_msg("%s: %s", p.v[0].path, p.v[0].err.text);
    assert_valid(&other, "setting n_layers");
    problems_release(&p);
}

static void check_variants(const struct spec *s)
{
    struct err err = ERR_INIT;
    struct spec v;
    int n[8];

    for (int k = 0; k < VARIANTS; k++)
        if (variant_make(s, (enum variant)k, 1, &v, &err) == 0)
            assert_valid(&v, variant_names[k]);
    if (variant_make(s, VARIANT_AVERAGE, 1, &v, &err) == 0)
        assert_same_parts(s, &v, "averaging");
    variant_usual_heads(s, n, 8);
    if (variant_uniform(s, 4, s->model.head_step * 6, BUDGET_PARAMS, 1e6, &v, &err) == 0)
        assert_valid(&v, "making it uniform");
}

static void check_edits(struct spec *s)
{
    char why[200];

    for (int k = 0; k < 20; k++) {
        enum lane lane = (enum lane)below(LANE_COUNT);
        int layer = below(s->model.n_layers);
        struct spec before = *s;

        why[0] = 0;
        if (!gen_step(&s->model, lane, layer, below(9) - 4, why, sizeof why))
            assert_true(why[0] && spec_equal(s, &before));
        assert_valid(s, "a step");
        assert_same_parts(s, &before, "a step");
        why[0] = 0;
        before = *s;
        if (!gen_set(&s->model, lane, layer, below(3) ? below(2000) - 100 : 0, why, sizeof why))
            assert_true(why[0] && spec_equal(s, &before));
        assert_valid(s, "setting a value");
    }
}

static void random_designs_stay_legal(void **state)
{
    (void)state;
    for (int n = 0; n < 600; n++) {
        struct spec s = random_design(), back;
        char *text = profile_to_yaml(&s, NULL);

        assert_valid(&s, "drawing");
        back = good(text);
        assert_true(spec_equal(&s, &back));
        check_total(&s);
        check_solving(&s);
        check_variants(&s);
        check_edits(&s);
        check_total(&s);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeros_are_read_and_written),
        cmocka_unit_test(what_is_no_layer_is_refused),
        cmocka_unit_test(other_keys_leave_absent_parts_away),
        cmocka_unit_test(steps_neither_take_nor_give),
        cmocka_unit_test(setting_takes_and_gives),
        cmocka_unit_test(variants_carry_absent_parts_along),
        cmocka_unit_test(solving_leaves_absent_parts_away),
        cmocka_unit_test(counts_have_no_norms_of_absent_parts),
        cmocka_unit_test(conventions_count_what_is_there),
        cmocka_unit_test(config_lists_hold_the_zeros),
        cmocka_unit_test(random_designs_stay_legal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
