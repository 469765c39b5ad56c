// One key of a profile set in memory: every type, what follows it, and what is refused.
#include "tests/t.h"

#include "engine/buf.h"
#include "engine/profile.h"

static struct spec load(const char *path)
{
    struct problems p = {0};
    struct spec s;
    int rc = path ? profile_load(path, NULL, 0, &s, &p)
                  : profile_parse("default.yaml", profile_default_yaml,
                                  strlen(profile_default_yaml), NULL, 0, &s, &p);

    if (rc < 0)
        fail_msg("%s: %s", p.v[0].path, p.v[0].err.text);
    problems_release(&p);
    return s;
}

static struct spec parse(const char *text)
{
    struct problems p = {0};
    struct spec s;

    if (profile_parse("p.yaml", text, strlen(text), NULL, 0, &s, &p) < 0)
        fail_msg("%s: %s", p.v[0].path, p.v[0].err.text);
    problems_release(&p);
    return s;
}

// Notes of the last set, "path: text" with a newline each.
static char notes[4096];

static void set(struct spec *s, const char *key, const char *text)
{
    struct problems p = {0};
    struct problems check = {0};

    notes[0] = 0;
    if (profile_set(s, key, text, &p) < 0)
        fail_msg("%s=%s: %s: %s", key, text, p.v[0].path, p.v[0].err.text);
    for (int i = 0; i < p.n; i++) {
        size_t n = strlen(notes);

        snprintf(notes + n, sizeof notes - n, "%s: %s\n", p.v[i].path, p.v[i].err.text);
    }
    if (profile_validate(s, &check) < 0)
        fail_msg("%s=%s is accepted, but %s: %s", key, text, check.v[0].path, check.v[0].err.text);
    problems_release(&check);
    problems_release(&p);
}

// The message, whichever of the problems has this path.
static void refused(const struct spec *s, const char *key, const char *text, const char *path,
                    const char *message)
{
    struct problems p = {0};
    struct spec *copy = xmalloc(sizeof *copy);
    bool found = false;

    *copy = *s;
    assert_int_equal(profile_set(copy, key, text, &p), -1);
    assert_memory_equal(copy, s, sizeof *s);
    for (int i = 0; i < p.n; i++)
        found |= !strcmp(p.v[i].path, path) && strstr(p.v[i].err.text, message);
    if (!found)
        fail_msg("%s=%s: no '%s: %s', but '%s: %s'", key, text, path, message, p.v[0].path,
                 p.v[0].err.text);
    problems_release(&p);
    free(copy);
}

static const char *value(const struct spec *s, const char *key)
{
    static char *text;
    struct buf b = {0};

    free(text);
    profile_value_text(spec_key_find(key), s, &b);
    return text = buf_detach(&b);
}

static void expect(const struct spec *s, const char *key, const char *want)
{
    assert_string_equal(value(s, key), want);
}

// ---- values -------------------------------------------------------------------------------------

static void every_type_of_key_is_set(void **state)
{
    static const char *const rows[][3] = {
        {"name", "mine-2", "mine-2"},                                    // KEY_STRING
        {"data.train", "a b.bin", "\"a b.bin\""},                        //
        {"data.val", "''", "\"\""},                                      //
        {"model.vocab", "300", "300"},                                   // KEY_INT
        {"train.seq_len", "64", "64"},                                   //
        {"train.max_tokens", "9M", "9000000"},                           // KEY_COUNT
        {"train.global_batch_size", "1024tok", "16"},                    // KEY_BATCH
        {"train.micro_batch_size", "16", "16"},                          //
        {"optim.lr", "2e-3", "0.002"},                                   // KEY_FLOAT
        {"optim.betas", "[0.8, 0.99]", "[0.8, 0.99]"},                   // KEY_FLOATS
        {"model.tie_embeddings", "false", "false"},                      // KEY_BOOL
        {"model.norm", "layer", "layer"},                                // KEY_ENUM
        {"model.reuse", "[1 x6, 2 x2]", "[1 x6, 2 x2]"},                 // KEY_LANE
        {"model.n_kv_heads", "{ratio: 1}", "{ratio: 1}"},                //
        {"model.ffn_width", "96", "96"},                                 //
        {"model.ffn_width", "{shape: framed, points: [1, 2.5]}",         //
         "{shape: framed, points: [1, 2.5]}"},                           //
        {"model.frame", "{ffn: 2, heads: 0.5}", "{ffn: 2, heads: 0.5}"}, // KEY_FRAME
        {"model.frame", "profile_max", "profile_max"},
    };
    struct spec s = load(NULL);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        set(&s, rows[i][0], rows[i][1]);
        expect(&s, rows[i][0], rows[i][2]);
        assert_int_equal(s.origin[spec_key_find(rows[i][0]) - spec_keys].kind, ORIGIN_NONE);
    }
}

static void what_is_wrong_changes_nothing(void **state)
{
    static const char *const rows[][4] = {
        {"name", "a/b", "name", "cannot name a run"},
        {"data.train", "", "", "has no value"},
        {"model.d_model", "0", "model.d_model", "0 is out of range, expected 1 to 65536"},
        {"model.d_model", "wide", "model.d_model", "expected a whole number"},
        {"model.n_layers", "300", "model.n_layers", "300 is out of range, expected 1 to 256"},
        {"model.vocab", "[1]", "model.vocab", "got a list"},
        {"train.max_tokens", "-5", "train.max_tokens", "out of range"},
        {"train.global_batch_size", "100tok", "train.global_batch_size", "no whole number"},
        {"train.global_batch_size", "12", "train.global_batch_size", "not a multiple"},
        {"optim.lr", "fast", "optim.lr", "expected a number"},
        {"optim.lr", "1e-5", "optim.min_lr", "above lr"}, // min_lr is given in the file
        {"optim.betas", "0.9", "optim.betas", "a list of two numbers"},
        {"optim.betas", "[0.9, 1]", "optim.betas[1]", "out of range"},
        {"model.bias", "yes", "model.bias", "true or false"},
        {"model.norm", "batch", "model.norm", "rms or layer"},
        {"model.ffn_width", "100", "model.ffn_width[0]", "not a multiple of model.ffn_step 32"},
        {"model.ffn_width", "[64, 64]", "model.ffn_width", "has 2 values"},
        {"model.ffn_width", "{shape: crown, points: [1]}", "model.ffn_width.points", "3 points"},
        {"model.ffn_width", "[64, ", "", ""},
        {"model.n_kv_heads", "3", "model.n_kv_heads[0]", "does not divide"},
        {"model.frame", "some", "model.frame", "endpoint_max"},
        {"model.frame", "{ffn: 0, heads: 1}", "model.frame.ffn", "out of range"},
        {"model.head_dim", "33", "model.head_dim", "even"},
        {"model.widht", "3", "model.widht", "unknown key"},
        {"model", "3", "", "expected a key inside a section"},
        {"extends", "x.yaml", "", "only in files"},
    };
    struct spec s = load(NULL);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(&s, rows[i][0], rows[i][1], rows[i][2], rows[i][3]);
}

static void its_own_text_changes_nothing(void **state)
{
    static const char *const profiles[] = {NULL,
                                           "profiles/A/crown18.yaml",
                                           "profiles/A/base12.yaml",
                                           "profiles/openelm/3B.yaml",
                                           "profiles/gpt2/124M.yaml",
                                           "profiles/olmo2/190M.yaml"};

    (void)state;
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++) {
        struct spec s;

        s = load(profiles[i]);
        for (int round = 0; round < 2; round++) {
            struct spec before = s;

            for (int k = 0; k < spec_key_count; k++) {
                set(&s, spec_keys[k].path, value(&s, spec_keys[k].path));
                assert_string_equal(notes, "");
                assert_memory_equal(&s, &before, sizeof s);
            }
            // the same after lanes were drawn by hand
            s.model.lane[LANE_FFN][0] += s.model.ffn_step;
            s.model.source[LANE_FFN].shape = SHAPE_LIST;
            s.model.source[LANE_KV].shape = SHAPE_LIST;
            s.model.source[LANE_KV].kv_ratio = 0;
        }
    }
}

// ---- what follows -------------------------------------------------------------------------------

#define SMALL                                                                                      \
    "model:\n  d_model: 128\n  n_layers: 4\n  head_dim: 32\n  ffn_step: 32\n  vocab: 257\n"

static void generators_and_ratios_give_new_values(void **state)
{
    struct spec s = parse(SMALL "  ffn_width: {shape: vanilla, points: [1, 4]}\n  n_heads: 4\n"
                                "  n_kv_heads: {ratio: 2}\n");

    (void)state;
    set(&s, "model.n_layers", "7"); // beta 1, 1.5, … 4 of 128
    expect(&s, "model.ffn_width", "{shape: vanilla, points: [1, 4]}");
    for (int i = 0; i < 7; i++) {
        assert_int_equal(s.model.lane[LANE_FFN][i], 128 + 64 * i);
        assert_int_equal(s.model.lane[LANE_HEADS][i], 4);
        assert_int_equal(s.model.lane[LANE_KV][i], 2);
    }
    assert_non_null(strstr(notes, "model.ffn_width: follows its generator\n"));
    assert_null(strstr(notes, "model.n_heads"));
    set(&s, "model.d_model", "64");
    assert_int_equal(s.model.lane[LANE_FFN][0], 64);
    assert_int_equal(s.model.lane[LANE_FFN][6], 256);
    set(&s, "model.frame", "{ffn: 3, heads: 1}");
    assert_int_equal(s.model.lane[LANE_FFN][0], 192);
    assert_int_equal(s.model.lane[LANE_FFN][6], 192);
    set(&s, "model.ffn_step", "50");
    assert_int_equal(s.model.lane[LANE_FFN][0], 200);
    set(&s, "model.n_heads", "8");
    assert_int_equal(s.model.lane[LANE_KV][6], 4);
    assert_int_equal(s.origin[spec_key_find("model.ffn_width") - spec_keys].kind, ORIGIN_FILE);
}

static void lists_are_resampled_onto_legal_values(void **state)
{
    struct spec s = parse(SMALL "  ffn_width: [64, 128, 256, 160]\n  n_heads: [2, 4, 8, 4]\n"
                                "  n_kv_heads: [1, 2, 4, 2]\n  reuse: [1, 1, 3, 1]\n");

    (void)state;
    set(&s, "model.n_layers", "7"); // every second layer is an old one
    // half way: 96, 192 and 208, which has 192 and 224 as near
    expect(&s, "model.ffn_width", "[64, 96, 128, 192, 256, 192, 160]");
    expect(&s, "model.n_heads", "[2 x2, 4, 6, 8, 6, 4]"); // multiples of the ratio 2
    expect(&s, "model.n_kv_heads", "[1 x2, 2, 3, 4, 3, 2]");
    expect(&s, "model.reuse", "[1 x3, 2, 3, 2, 1]");
    assert_non_null(strstr(notes, "model.ffn_width: list of 4 resampled to 7 layers\n"));
    set(&s, "model.n_layers", "4"); // the old layers are all there
    expect(&s, "model.ffn_width", "[64, 128, 256, 160]");
    expect(&s, "model.n_kv_heads", "[1, 2, 4, 2]");
    set(&s, "model.n_layers", "1");
    assert_int_equal(s.model.n_layers, 1);
    set(&s, "model.n_layers", "256");
    assert_int_equal(spec_kv_ratio(&s.model), 2);
}

static void lists_and_numbers_move_onto_a_new_grid(void **state)
{
    struct spec s = parse(SMALL "  ffn_width: [64, 128, 256, 160]\n  n_heads: 6\n"
                                "  n_kv_heads: [3, 2, 6, 1]\n  head_step: 1\n");

    (void)state;
    set(&s, "model.ffn_step", "100");
    expect(&s, "model.ffn_width", "[100 x2, 300, 200]");
    assert_string_equal(notes, "model.ffn_width: list moved to the nearest legal values\n");
    set(&s, "model.head_step", "4");
    expect(&s, "model.n_heads", "4"); // of 4 and 8 the smaller
    expect(&s, "model.n_kv_heads", "[2 x2, 4, 1]");
    set(&s, "model.n_heads", "8"); // mixed ratios: kv heads stay where they divide
    expect(&s, "model.n_kv_heads", "[2 x2, 4, 1]");
    s = parse(SMALL "  ffn_width: 256\n  n_heads: 8\n  n_kv_heads: 4\n  head_step: 4\n");
    set(&s, "model.ffn_step", "96");
    expect(&s, "model.ffn_width", "288");
    assert_string_equal(notes, "model.ffn_width: 288 in all 4 layers\n");
    set(&s, "model.n_layers", "9");
    assert_string_equal(notes, ""); // numbers are as before, in more layers
    assert_int_equal(s.model.lane[LANE_FFN][8], 288);
    assert_int_equal(s.origin[spec_key_find("model.n_heads") - spec_keys].kind, ORIGIN_FILE);
}

static void lists_with_one_ratio_keep_it(void **state)
{
    struct spec s = parse(SMALL "  ffn_width: 256\n  n_heads: [4, 4, 8, 4]\n"
                                "  n_kv_heads: [2, 2, 4, 2]\n  head_step: 1\n");

    (void)state;
    set(&s, "model.n_heads", "6");
    expect(&s, "model.n_kv_heads", "[3 x4]");
}

static void derived_values_are_derived_again(void **state)
{
    struct spec s = parse(SMALL "  ffn_width: 256\n  n_heads: 8\n  n_kv_heads: {ratio: 2}\n");

    (void)state;
    set(&s, "optim.lr", "1e-5");
    expect(&s, "optim.min_lr", "1e-06");
    set(&s, "train.micro_batch_size", "3");
    expect(&s, "train.global_batch_size", "3");
    set(&s, "train.max_steps", "500");
    expect(&s, "optim.warmup_steps", "10");
    set(&s, "model.n_kv_heads", "{ratio: 4}");
    expect(&s, "model.head_step", "4");
    set(&s, "train.max_tokens", "1M"); // the one set last gives the length
    expect(&s, "train.max_steps", "0");
    set(&s, "optim.min_lr", "2e-6");
    set(&s, "optim.lr", "1e-4"); // given now
    expect(&s, "optim.min_lr", "2e-06");
    set(&s, "model.n_kv_heads", "[2, 4, 8, 1]");
    set(&s, "optim.lr", "1e-3");
    expect(&s, "model.n_kv_heads", "[2, 4, 8, 1]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_of_key_is_set),
        cmocka_unit_test(what_is_wrong_changes_nothing),
        cmocka_unit_test(its_own_text_changes_nothing),
        cmocka_unit_test(generators_and_ratios_give_new_values),
        cmocka_unit_test(lists_are_resampled_onto_legal_values),
        cmocka_unit_test(lists_and_numbers_move_onto_a_new_grid),
        cmocka_unit_test(lists_with_one_ratio_keep_it),
        cmocka_unit_test(derived_values_are_derived_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
