// Profiles: reading with positions, defaults, layers of files, every kind of problem.
#include "tests/t.h"

#include <math.h>

#include "engine/buf.h"
#include "engine/profile.h"

static const char minimal[] = "model:\n"
                              "  d_model: 128\n"
                              "  n_layers: 4\n"
                              "  ffn_width: 512\n"
                              "  n_heads: 4\n"
                              "  vocab: 257\n";

static int parse_set(const char *text, const char *const *set, int n_set, struct spec *s,
                     struct problems *p)
{
    *p = (struct problems){0};
    return profile_parse("p.yaml", text, strlen(text), set, n_set, s, p);
}

static int parse(const char *text, struct spec *s, struct problems *p)
{
    return parse_set(text, NULL, 0, s, p);
}

// All problems as they are printed, in a static buffer.
static const char *printed(const struct problems *p)
{
    static char text[65536];
    FILE *f = fmemopen(text, sizeof text, "w");

    problems_print(p, f);
    fclose(f);
    return text;
}

// Parses and expects success.
static struct spec good(const char *text)
{
    struct spec s;
    struct problems p;

    if (parse(text, &s, &p) != 0)
        fail_msg("%s", printed(&p));
    problems_release(&p);
    return s;
}

// One problem, at this place, whose text holds `part`.
static void expect_problem(const char *text, const char *const *set, int n_set, const char *where,
                           const char *path, const char *part)
{
    struct spec s;
    struct problems p;
    char place[600];

    if (parse_set(text, set, n_set, &s, &p) == 0 || p.errors != 1)
        fail_msg("expected one error with '%s' at %s, got %d:\n%s\nfor\n%s", part, where, p.errors,
                 printed(&p), text);
    for (int i = 0; i < p.n; i++) {
        const struct err *e = &p.v[i].err;

        if (p.v[i].severity != SEV_ERROR)
            continue;
        snprintf(place, sizeof place, "%s:%d:%d", e->file, e->line, e->col);
        if (strcmp(place, where) || strcmp(p.v[i].path, path) || !strstr(e->text, part))
            fail_msg("expected %s: %s: %s\ngot %s", where, path, part, printed(&p));
    }
    problems_release(&p);
}

// The minimal profile followed by more lines at the top level, from line 7 on.
static void expect_after(const char *more, const char *where, const char *path, const char *part)
{
    char *text = xasprintf("%s%s", minimal, more);

    expect_problem(text, NULL, 0, where, path, part);
    free(text);
}

// A model of 4 layers with one more line in its section, line 7.
static void expect_model(const char *line, const char *where, const char *path, const char *part)
{
    char *text = xasprintf("%s  %s\n", minimal, line);

    expect_problem(text, NULL, 0, where, path, part);
    free(text);
}

// The minimal profile with another value for one key.
static char *with(const char *key, const char *value)
{
    struct buf b = {0};
    const char *at = strstr(minimal, key);

    assert_non_null(at);
    buf_add(&b, minimal, (size_t)(at - minimal));
    buf_fmt(&b, "%s: %s%s", key, value, strchr(at, '\n'));
    return buf_detach(&b);
}

static void expect_with(const char *key, const char *value, const char *where, const char *path,
                        const char *part)
{
    char *text = with(key, value);

    expect_problem(text, NULL, 0, where, path, part);
    free(text);
}

// ---- reading ------------------------------------------------------------------------------------

static void assert_lane(const struct spec *s, enum lane lane, const int *want)
{
    for (int i = 0; i < s->model.n_layers; i++)
        if (s->model.lane[lane][i] != want[i])
            fail_msg("lane %d layer %d: %d, expected %d", (int)lane, i, s->model.lane[lane][i],
                     want[i]);
}

static void demo_profile_reads(void **state)
{
    // crown 1, 4, 1 over 8 layers in steps of 32: knots 0, 3, 4, 7; both ends framed with 3.0
    static const int ffn[] = {384, 256, 384, 512, 512, 384, 256, 384};
    // multipliers 0.5 .. 1 of 128/32 heads in steps of 2, ends framed with 1.0
    // (2/3 of 128 is 85: 64 would lose more than a tenth, so 128)
    static const int heads[] = {4, 4, 4, 4, 4, 4, 4, 4};
    static const int kv[] = {2, 2, 2, 2, 2, 2, 2, 2};
    struct spec s = good(profile_default_yaml);

    (void)state;
    assert_string_equal(s.name, "demo-crown");
    assert_int_equal(s.model.n_layers, 8);
    assert_lane(&s, LANE_FFN, ffn);
    assert_lane(&s, LANE_KV, kv);
    assert_lane(&s, LANE_HEADS, heads);
    assert_int_equal(s.model.source[LANE_FFN].shape, SHAPE_CROWN);
    assert_int_equal(s.model.source[LANE_KV].kv_ratio, 2);
    assert_int_equal(s.model.frame.mode, FRAME_LITERAL);
    assert_true(s.model.frame.ffn == 3.0 && s.model.frame.heads == 1.0);
    assert_int_equal(s.model.qk_norm, QK_HEAD);
    assert_true(s.model.tie_embeddings && !s.model.bias);
    assert_int_equal(spec_padded_vocab(&s.model), 320);
    assert_string_equal(s.data.val, "gcide/val.bin");
    assert_int_equal(s.train.max_tokens, 4500000);
    assert_int_equal(s.train.max_steps, 0);
    assert_true(s.optim.lr == 3e-3 && s.optim.min_lr == 3e-4);
    assert_int_equal(spec_tokens_per_step(&s), 2048);
    assert_int_equal(spec_total_steps(&s), 2198); // 4500000 / 2048 = 2197.3
    assert_int_equal(spec_reuse_total(&s.model), 8);
    assert_int_equal(spec_kv_ratio(&s.model), 2);
}

static void defaults_fill_what_is_not_given(void **state)
{
    struct spec s = good(minimal);

    (void)state;
    assert_string_equal(s.name, "p");
    assert_int_equal(s.model.head_dim, 64);
    assert_int_equal(s.model.lane[LANE_KV][3], 4);
    assert_int_equal(s.model.lane[LANE_REUSE][3], 1);
    assert_int_equal(s.model.head_step, 1);
    assert_true(s.model.norm_eps == 1e-6 && s.model.rope_theta == 10000);
    assert_true(s.optim.betas[0] == 0.9 && s.optim.betas[1] == 0.95);
    assert_true(s.optim.lr == 3e-4 && s.optim.min_lr == 3e-5);
    assert_int_equal(s.train.global_batch_size, 8);
    assert_int_equal(s.train.max_steps, 1000);
    assert_int_equal(s.optim.warmup_steps, 20);
    assert_string_equal(s.data.train, "");
}

static void layer_values_take_three_forms(void **state)
{
    static const int list[] = {768, 512, 512, 1024};
    static const int ramp[] = {256, 256, 512, 512}; // 1, 2, 3, 4 times 128, rounded half up
    char *text = with("ffn_width", "[768, 512 x2, 1024]");
    struct spec s = good(text);

    (void)state;
    assert_lane(&s, LANE_FFN, list);
    assert_int_equal(s.model.source[LANE_FFN].shape, SHAPE_LIST);
    free(text);
    text = with("ffn_width", "{shape: vanilla, points: [1, 4]}");
    s = good(text);
    assert_lane(&s, LANE_FFN, ramp);
    free(text);
    text = with("ffn_width", "{shape: uniform, points: 4.0}");
    s = good(text);
    assert_int_equal(s.model.lane[LANE_FFN][2], 512);
    free(text);
    text = xasprintf("%s  n_kv_heads: [4, 2, 1, 4]\n  reuse: [1, 2x2, 1]\n", minimal);
    s = good(text);
    assert_int_equal(s.model.lane[LANE_KV][1], 2);
    assert_int_equal(spec_reuse_total(&s.model), 6);
    assert_int_equal(spec_kv_ratio(&s.model), 0);
    free(text);
}

static void numbers_take_units(void **state)
{
    char *text = xasprintf("%strain:\n  seq_len: 1KiB\n  global_batch_size: 512Ktok\n"
                           "  micro_batch_size: 4096tok\n  max_tokens: 5B\n"
                           "optim: {warmup_steps: 1_000, weight_decay: 10%%, lr: 1e-4}\n",
                           minimal);
    const char *set[] = {"train.global_batch_size=524288tok"};
    struct spec s;
    struct problems p;

    (void)state;
    assert_int_equal(parse_set(text, set, 1, &s, &p), 0);
    assert_int_equal(s.train.seq_len, 1024);
    assert_int_equal(s.train.micro_batch_size, 4);
    assert_int_equal(s.train.global_batch_size, 512);
    assert_int_equal(s.train.max_tokens, 5000000000);
    assert_int_equal(s.optim.warmup_steps, 1000);
    assert_true(s.optim.lr == 1e-4 && fabs(s.optim.weight_decay - 0.1) < 1e-15);
    assert_int_equal(spec_total_steps(&s), 9537); // 5e9 / 524288 = 9536.7
    problems_release(&p);
    assert_int_equal(parse(text, &s, &p), 0);
    assert_int_equal(s.train.global_batch_size, 500); // 512000 / 1024
    problems_release(&p);
    free(text);
}

// ---- problems -----------------------------------------------------------------------------------

static void wrong_types_are_named(void **state)
{
    (void)state;
    expect_with("d_model", "abc", "p.yaml:2:12", "model.d_model", "a whole number");
    expect_with("d_model", "1.5", "p.yaml:2:12", "model.d_model", "got '1.5'");
    expect_with("d_model", "\"128\"", "p.yaml:2:12", "model.d_model", "in quotes");
    expect_with("d_model", "[1]", "p.yaml:2:12", "model.d_model", "got a list");
    expect_with("d_model", "{a: 1}", "p.yaml:2:12", "model.d_model", "got a mapping");
    expect_with("d_model", "0128", "p.yaml:2:12", "model.d_model", "octal");
    expect_with("d_model", "0x80", "p.yaml:2:12", "model.d_model", "a whole number");
    expect_with("d_model", "1:30", "p.yaml:2:12", "model.d_model", "a whole number");
    expect_with("d_model", "", "p.yaml:2:3", "model.d_model", "has no value");
    expect_with("d_model", "~", "p.yaml:2:3", "model.d_model", "has no value");
    expect_with("d_model", "99999999999", "p.yaml:2:12", "model.d_model", "expected 1 to 65536");
    expect_with("d_model", "-1", "p.yaml:2:12", "model.d_model", "-1 is out of range");
    expect_with("n_layers", "257", "p.yaml:3:13", "model.n_layers", "expected 1 to 256");
    expect_model("bias: no", "p.yaml:7:9", "model.bias", "true or false (written so), got 'no'");
    expect_model("bias: On", "p.yaml:7:9", "model.bias", "written so");
    expect_model("bias: \"true\"", "p.yaml:7:9", "model.bias", "written so");
    expect_model("bias: 2", "p.yaml:7:9", "model.bias", "expected true or false, got '2'");
    expect_model("norm: batch", "p.yaml:7:9", "model.norm", "rms or layer, got 'batch'");
    expect_model("norm_eps: inf", "p.yaml:7:13", "model.norm_eps", "expected a number");
    expect_model("norm_eps: 0", "p.yaml:7:13", "model.norm_eps", "out of range");
    expect_model("frame: both", "p.yaml:7:10", "model.frame", "endpoint_max or profile_max");
    expect_model("frame: {ffn: 3}", "p.yaml:7:10", "model.frame", "'heads' is missing");
    expect_model("frame: {ffn: 3, heads: x}", "p.yaml:7:26", "model.frame.heads", "a number");
    expect_model("frame: {ffn: 3, heads: 1, x: 2}", "p.yaml:7:29", "model.frame", "'x'");
    expect_after("optim: {betas: [0.9]}\n", "p.yaml:7:16", "optim.betas", "has 1 values");
    expect_after("optim: {betas: [0.9, 1]}\n", "p.yaml:7:16", "optim.betas[1]", "less than 1");
    expect_after("optim: 3\n", "p.yaml:7:8", "optim", "expected keys and values");
    expect_after("name: [x]\n", "p.yaml:7:7", "name", "expected a text");
    expect_after("data: {val: \"a\\Lb\"}\n", "p.yaml:7:13", "data.val", "line separator");
    expect_after("data: {val: \"a\\nb\"}\n", "p.yaml:7:13", "data.val", "control character");
    expect_after("name: ../x\n", "p.yaml:7:7", "name", "cannot name a run");
    expect_problem("[1, 2]", NULL, 0, "p.yaml:1:1", "", "expected keys and values");
    expect_problem("# nothing\n", NULL, 0, "p.yaml:1:1", "", "empty");
}

static void wrong_layer_values_are_named(void **state)
{
    (void)state;
    expect_with("ffn_width", "[512, 512]", "p.yaml:4:14", "model.ffn_width", "has 2 values");
    expect_with("ffn_width", "[512, 500, 512 x2]", "p.yaml:4:20", "model.ffn_width[1]",
                "500 in layer 1 is not a multiple of model.ffn_step 256");
    expect_with("ffn_width", "[512 x2, 500 x2]", "p.yaml:4:23", "model.ffn_width[2]",
                "nearest are 256 and 512");
    expect_with("ffn_width", "[512, -1, 512 x2]", "p.yaml:4:20", "model.ffn_width[1]",
                "-1 is out of range, expected 0 to 1048576");
    expect_with("ffn_width", "[512 x300]", "p.yaml:4:15", "model.ffn_width[0]", "2048 x6");
    expect_with("ffn_width", "[512 x200, 512 x200]", "p.yaml:4:25", "model.ffn_width",
                "more than 256 values");
    expect_with("ffn_width", "[512, a, 512 x2]", "p.yaml:4:20", "model.ffn_width[1]", "got 'a'");
    expect_with("ffn_width", "2048 x6", "p.yaml:4:14", "model.ffn_width", "repeats stand in lists");
    expect_with("ffn_width", "500", "p.yaml:4:14", "model.ffn_width[0]", "not a multiple");
    expect_with("ffn_width", "{shape: crwn, points: [1]}", "p.yaml:4:22", "model.ffn_width.shape",
                "uniform, vanilla, framed, reverse or crown, got 'crwn'");
    expect_with("ffn_width", "{shape: crown, points: [1, 2]}", "p.yaml:4:37",
                "model.ffn_width.points", "shape crown needs 3 points");
    expect_with("ffn_width", "{shape: uniform, points: [x]}", "p.yaml:4:40",
                "model.ffn_width.points[0]", "expected a number");
    expect_with("ffn_width", "{shape: uniform}", "p.yaml:4:14", "model.ffn_width",
                "'points' is missing");
    expect_with("ffn_width", "{shape: uniform, points: 2, multiple_of: 4}", "p.yaml:4:42",
                "model.ffn_width", "model.ffn_step");
    expect_with("ffn_width", "{shape: uniform, points: -2}", "p.yaml:4:14", "model.ffn_width",
                "out of range");
    expect_model("n_kv_heads: {ratio: 3}", "p.yaml:7:15", "model.n_kv_heads", "ratio 3");
    expect_model("n_kv_heads: 3", "p.yaml:7:15", "model.n_kv_heads[0]",
                 "3 does not divide n_heads 4 in layer 0");
    expect_model("n_kv_heads: {ratio: 0}", "p.yaml:7:23", "model.n_kv_heads.ratio", "1 to 1024");
    expect_model("n_kv_heads: {shape: crown}", "p.yaml:7:16", "model.n_kv_heads", "expected ratio");
    expect_model("head_step: 3", "p.yaml:5:12", "model.n_heads[0]",
                 "multiple of model.head_step 3");
    expect_model("reuse: {shape: crown}", "p.yaml:7:10", "model.reuse", "a number or a list");
    expect_model("head_dim: 33", "p.yaml:7:13", "model.head_dim", "rope needs an even head_dim");
}

static void gates_need_pairs_of_layers(void **state)
{
    const char *odd[] = {"model.n_layers=5"};
    char *text = xasprintf("%s%s", minimal, "gate: {enabled: true}\n");

    (void)state;
    expect_problem(text, odd, 1, "p.yaml:7:17", "gate.enabled", "layer 2 of 5 without a partner");
    free(text);
    expect_after("gate: {enabled: true, alpha: [1, 2, 3]}\n", "p.yaml:7:30", "gate.alpha",
                 "has 3 values, expected a number or one for each of 4 layers");
    expect_after("gate: {enabled: true, beta: [1, 2, 3, 1]}\n", "p.yaml:7:29", "gate.beta[2]",
                 "3 differs from 2 of layer 1, which shares its gate");
    expect_after("gate: {enabled: true, controller: fixed_l2, alpha: [1, 2, 2, 1]}\n",
                 "p.yaml:7:52", "gate.alpha", "fixed_l2 weighs a norm over all layers");
    expect_after("gate: {attn: queries}\n", "p.yaml:7:14", "gate.attn",
                 "expected key, query_noop, off or hard");
    expect_after("gate: {enabled: true, mu_ends: 0.5}\n", "p.yaml:7:23", "gate.mu_ends",
                 "did you mean 'mu_end'");
}

static void unknown_keys_suggest_the_nearest(void **state)
{
    (void)state;
    expect_model("d_mdoel: 3", "p.yaml:7:3", "model.d_mdoel", "did you mean 'd_model'?");
    expect_model("lr: 3", "p.yaml:7:3", "model.lr", "did you mean 'lr' in 'optim:'");
    expect_model("zebra: 3", "p.yaml:7:3", "model.zebra", "unknown key 'zebra'");
    expect_after("modle: {}\n", "p.yaml:7:1", "modle", "did you mean 'model'?");
    expect_after("lr: 1\n", "p.yaml:7:1", "lr", "did you mean 'lr' in 'optim:'");
    expect_after("model.vocab: 1\n", "p.yaml:7:1", "model.vocab", "given twice");
    expect_after("\"a\\e[2Jb\": 1\n", "p.yaml:7:1", "a [2Jb", "unknown key 'a [2Jb'");
    expect_after("match: {params: 180M}\n", "p.yaml:7:1", "match", "not supported");
    expect_after("train: {master: none}\n", "p.yaml:7:17", "train.master", "only 'f32'");
    expect_after("train: {compute: bf16}\n", "p.yaml:7:18", "train.compute", "in f32");
    expect_model("layers: {0: {ffn_width: 1}}", "p.yaml:7:3", "model.layers", "lists");
}

static void syntax_errors_have_places(void **state)
{
    (void)state;
    expect_problem("a: [1, 2\nb: 3\n", NULL, 0, "p.yaml:2:2", "", "did not find expected");
    expect_problem("a:\n\tb: 3\n", NULL, 0, "p.yaml:2:1", "", "tab");
    expect_problem("a: 1\n---\nb: 1\n", NULL, 0, "p.yaml:2:1", "", "second document");
    expect_problem("\xef\xbb\xbfname: x\n", NULL, 0, "p.yaml:1:1", "", "byte order mark");
    expect_problem("name: x\n# \xff\n", NULL, 0, "p.yaml:2:3", "", "UTF-8");
    expect_problem("name: \x01\n", NULL, 0, "p.yaml:1:7", "", "control character");
    expect_problem("name: !!str x\n", NULL, 0, "p.yaml:1:7", "", "tags");
    expect_problem("name: *x\n", NULL, 0, "p.yaml:1:7", "", "alias without an anchor");
    expect_problem("a: &x [*x]\n", NULL, 0, "p.yaml:1:8", "", "alias inside");
    expect_problem("? [a]\n: 1\n", NULL, 0, "p.yaml:1:3", "", "a key must be a word");
    expect_after("<<: {a: 1}\n", "p.yaml:7:1", "", "merge key '<<'");
    expect_model("vocab: 258", "p.yaml:7:3", "", "duplicate key 'vocab', first at line 6");
    expect_model("vocab_size: 258", "p.yaml:7:3", "model.vocab", "given twice, first at line 6");
}

static void missing_keys_are_named_at_their_section(void **state)
{
    (void)state;
    expect_problem("model: {d_model: 8, n_layers: 1, ffn_width: 256, n_heads: 1}\n", NULL, 0,
                   "p.yaml:1:1", "model.vocab", "is missing");
}

static void contradictions_are_named(void **state)
{
    (void)state;
    expect_after("train: {micro_batch_size: 8, global_batch_size: 12}\n", "p.yaml:7:49",
                 "train.global_batch_size", "12 is not a multiple of micro_batch_size 8");
    expect_after("train: {global_batch_size: 1000tok}\n", "p.yaml:7:28", "train.global_batch_size",
                 "multiple of train.seq_len 1024");
    expect_after("train: {max_steps: 5, max_tokens: 5}\n", "p.yaml:7:20", "train.max_steps",
                 "one of them");
    expect_after("train: {max_steps: 0}\n", "p.yaml:7:20", "train.max_steps", "no length");
    expect_after("optim: {lr: 1e-4, min_lr: 1e-3}\n", "p.yaml:7:27", "optim.min_lr",
                 "above lr, expected at most 0.0001");
    expect_after("train: {seq_len: 200K, micro_batch_size: 20K}\n", "p.yaml:7:42",
                 "train.micro_batch_size", "2^31");
    expect_problem("model: {d_model: 65536, n_layers: 256, ffn_width: 1048576, n_heads: 1, vocab: "
                   "9}\n",
                   NULL, 0, "p.yaml:1:18", "model.d_model", "at most 1T");
}

static void all_problems_come_in_one_pass(void **state)
{
    struct spec s;
    struct problems p;

    (void)state;
    assert_int_equal(parse("model:\n"
                           "  d_model: x\n"
                           "  n_layers: 4\n"
                           "  ffn_width: [1, 2]\n"
                           "  n_heds: 4\n"
                           "optim: {lr: [1], schedule: linear}\n",
                           &s, &p),
                     -1);
    assert_string_equal(printed(&p),
                        "p.yaml:1:1: model.n_heads: is missing and has no default (query heads: "
                        "number, list or generator; 0: the layer has no attention)\n"
                        "    model:\n"
                        "    ^\n"
                        "p.yaml:1:1: model.vocab: is missing and has no default (number of token "
                        "ids)\n"
                        "    model:\n"
                        "    ^\n"
                        "p.yaml:2:12: model.d_model: expected a whole number (1000, 1_000, 180M, "
                        "64KiB), got 'x'\n"
                        "      d_model: x\n"
                        "               ^\n"
                        "p.yaml:4:14: model.ffn_width: has 2 values, expected one for each of 4 "
                        "layers\n"
                        "      ffn_width: [1, 2]\n"
                        "                 ^\n"
                        "p.yaml:5:3: model.n_heds: unknown key 'n_heds', did you mean 'n_heads'?\n"
                        "      n_heds: 4\n"
                        "      ^\n"
                        "p.yaml:6:13: optim.lr: expected a number (0.1, 3e-4, 0.2%), got a list\n"
                        "    optim: {lr: [1], schedule: linear}\n"
                        "                ^\n"
                        "p.yaml:6:28: optim.schedule: expected cosine or constant, got 'linear'\n"
                        "    optim: {lr: [1], schedule: linear}\n"
                        "                               ^\n");
    problems_release(&p);
}

static void spellings_of_other_tools_are_noted(void **state)
{
    struct spec s;
    struct problems p;

    (void)state;
    assert_int_equal(parse("hidden_size: 128\nnum_hidden_layers: 2\nintermediate_size: 512\n"
                           "num_attention_heads: 4\nnum_key_value_heads: 2\nvocab_size: 300\n"
                           "train: {sequence_len: 64}\nlearning_rate: 1e-3\n",
                           &s, &p),
                     0);
    assert_int_equal(p.n, 8);
    assert_int_equal(p.v[0].severity, SEV_NOTE);
    assert_non_null(strstr(printed(&p), "p.yaml:1:1: note: hidden_size: read as 'model.d_model'"));
    assert_int_equal(s.model.d_model, 128);
    assert_int_equal(s.model.lane[LANE_KV][1], 2);
    assert_int_equal(s.model.head_step, 2);
    assert_int_equal(s.train.seq_len, 64);
    assert_true(s.optim.lr == 1e-3);
    problems_release(&p);
}

// ---- layers -------------------------------------------------------------------------------------

static void sets_are_the_last_layer(void **state)
{
    const char *set[] = {"model.d_model=256", "train.max_steps=30", "data.train=a: b's.bin",
                         "model.ffn_width=[256 x3, 512]", "model.d_model=192"};
    char *text = xasprintf("%strain: {max_tokens: 5B}\n", minimal);
    struct spec s;
    struct problems p;

    (void)state;
    assert_int_equal(parse_set(text, set, 5, &s, &p), 0);
    assert_int_equal(s.model.d_model, 192);
    assert_int_equal(s.model.lane[LANE_FFN][3], 512);
    assert_string_equal(s.data.train, "a: b's.bin");
    assert_int_equal(s.train.max_steps, 30);
    assert_int_equal(s.train.max_tokens, 0); // the later of the two lengths wins
    problems_release(&p);
    free(text);
}

static void set_problems_have_places(void **state)
{
    static const struct {
        const char *set, *where, *path, *part;
    } cases[] = {
        {"model.d_model=x", "--set 1:1:15", "model.d_model", "got 'x'"},
        {"model.d_mdel=3", "--set 1:1:1", "model.d_mdel", "did you mean 'd_model'"},
        {"model.d_model", "--set 1:1:1", "", "expected key=value"},
        {"=3", "--set 1:1:1", "", "expected key=value"},
        {"model.d_model=", "--set 1:1:1", "", "has no value"},
        {"model.d_model=[1", "--set 1:1:17", "", "did not find expected"},
        {"model=3", "--set 1:1:1", "", "inside a section"},
        {"extends=x", "--set 1:1:1", "", "only in files"},
        {"train.lr=3", "--set 1:1:1", "train.lr", "did you mean 'lr' in 'optim:'"},
        {"data.val=a\tb", "--set 1:1:10", "data.val", "a control character"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_problem(minimal, &cases[i].set, 1, cases[i].where, cases[i].path, cases[i].part);
}

static void assert_load_fails(const char *path, const char *part)
{
    struct spec s;
    struct problems p = {0};

    assert_int_equal(profile_load(path, NULL, 0, &s, &p), -1);
    if (!strstr(printed(&p), part))
        fail_msg("expected '%s' in\n%s", part, printed(&p));
    problems_release(&p);
}

static void extends_layers_files(void **state)
{
    struct spec s;
    struct problems p = {0};
    char *base = xasprintf("%s  n_kv_heads: 2\noptim: {lr: 1e-3}\n", minimal);

    (void)state;
    t_write(t_path("base.yaml"), base);
    t_write(t_path("second.yaml"), "optim: {lr: 2e-3, weight_decay: 0}\n");
    t_write(t_path("top.yaml"), "extends: [base.yaml, second.yaml]\nmodel: {d_model: 256}\n");
    assert_int_equal(profile_load(t_path("top.yaml"), NULL, 0, &s, &p), 0);
    assert_int_equal(s.model.d_model, 256);
    assert_int_equal(s.model.lane[LANE_KV][0], 2);
    assert_true(s.optim.lr == 2e-3 && s.optim.weight_decay == 0);
    assert_string_equal(s.name, "top");
    problems_release(&p);
    free(base);
}

static void extends_problems_are_named(void **state)
{
    char text[64], name[32];

    (void)state;
    t_write(t_path("a.yaml"), "extends: b.yaml\n");
    t_write(t_path("b.yaml"), "extends: a.yaml\n");
    assert_load_fails(t_path("a.yaml"), "b.yaml:1:10: extends: 'a.yaml' extends itself");
    t_write(t_path("c.yaml"), "extends: none.yaml\n");
    assert_load_fails(t_path("c.yaml"), "No such file");
    t_write(t_path("d.yaml"), "extends: /dev/zero\n");
    assert_load_fails(t_path("d.yaml"), "not a plain file");
    t_write(t_path("e.yaml"), "extends: {a: b}\n");
    assert_load_fails(t_path("e.yaml"), "expected a file name");
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "deep%d.yaml", i);
        snprintf(text, sizeof text, "extends: deep%d.yaml\n", i + 1);
        t_write(t_path(name), text);
    }
    assert_load_fails(t_path("deep0.yaml"), "more than 8 levels of extends");
    // the error stands in the file that holds the value
    t_write(t_path("bad.yaml"), "# c\nmodel: {d_model: 0}\n");
    t_write(t_path("f.yaml"), "extends: bad.yaml\n");
    assert_load_fails(t_path("f.yaml"), "bad.yaml:2:18: model.d_model: 0 is out of range");
    assert_load_fails(t_path("missing.yaml"), "No such file");
    assert_load_fails(t_dir(), "Is a directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(demo_profile_reads),
        cmocka_unit_test(defaults_fill_what_is_not_given),
        cmocka_unit_test(layer_values_take_three_forms),
        cmocka_unit_test(numbers_take_units),
        cmocka_unit_test(wrong_types_are_named),
        cmocka_unit_test(wrong_layer_values_are_named),
        cmocka_unit_test(gates_need_pairs_of_layers),
        cmocka_unit_test(unknown_keys_suggest_the_nearest),
        cmocka_unit_test(syntax_errors_have_places),
        cmocka_unit_test(missing_keys_are_named_at_their_section),
        cmocka_unit_test(contradictions_are_named),
        cmocka_unit_test(all_problems_come_in_one_pass),
        cmocka_unit_test(spellings_of_other_tools_are_noted),
        cmocka_unit_test(sets_are_the_last_layer),
        cmocka_unit_test(set_problems_have_places),
        cmocka_unit_test(extends_layers_files),
        cmocka_unit_test(extends_problems_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
