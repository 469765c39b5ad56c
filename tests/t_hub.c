// Hub configurations as profiles: exact totals of public models, what is said about the rest, and
// files that are wrong.
#include "tests/t.h"

#include <jansson.h>

#include "engine/buf.h"
#include "engine/count.h"
#include "engine/file.h"
#include "engine/hub.h"
#include "engine/profile.h"
#include "tests/hub_rows.h"

static const char llama[] = "{\n"
                            "  \"model_type\": \"llama\",\n"
                            "  \"hidden_size\": 128,\n"
                            "  \"num_hidden_layers\": 4,\n"
                            "  \"num_attention_heads\": 4,\n"
                            "  \"num_key_value_heads\": 2,\n"
                            "  \"intermediate_size\": 512,\n"
                            "  \"vocab_size\": 1000\n"
                            "}\n";

static int parse(const char *text, struct spec *s, struct problems *p)
{
    *p = (struct problems){0};
    return profile_parse("config.json", text, strlen(text), NULL, 0, s, p);
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

static int problems_of(const struct problems *p, enum severity severity)
{
    int n = 0;

    for (int i = 0; i < p->n; i++)
        n += p->v[i].severity == severity;
    return n;
}

static const struct problem *find(const struct problems *p, enum severity severity,
                                  const char *path, const char *part)
{
    for (int i = 0; i < p->n; i++)
        if (p->v[i].severity == severity && !strcmp(p->v[i].path, path) &&
            strstr(p->v[i].err.text, part))
            return &p->v[i];
    return NULL;
}

static struct spec good(const char *text)
{
    struct spec s;
    struct problems p;

    if (parse(text, &s, &p) != 0)
        fail_msg("%s\nfor\n%s", printed(&p), text);
    problems_release(&p);
    return s;
}

static int64_t total(const struct spec *s)
{
    struct count c;

    count_model(s, &c);
    return c.total;
}

// text with another value for a field (JSON text; NULL: without it), caller frees.
static char *with(const char *text, const char *field, const char *value)
{
    json_t *root = json_loads(text, 0, NULL), *v;
    char *out;

    assert_non_null(root);
    if (value) {
        v = json_loads(value, JSON_DECODE_ANY, NULL);
        if (!v)
            fail_msg("no JSON: %s", value);
        json_object_set_new(root, field, v);
    } else {
        json_object_del(root, field);
    }
    out = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    return out;
}

// One more field gives one problem of this kind at it, whose text holds `part`.
static void expect(const char *base, const char *field, const char *value, enum severity severity,
                   const char *path, const char *part)
{
    char *text = with(base, field, value);
    struct spec s;
    struct problems p;
    int rc = parse(text, &s, &p);

    if ((rc < 0) != (severity == SEV_ERROR) || problems_of(&p, severity) != 1 ||
        !find(&p, severity, path, part))
        fail_msg("%s = %s: expected '%s' at %s, got\n%s", field, value ? value : "nothing", part,
                 path, printed(&p));
    problems_release(&p);
    free(text);
}

static void expect_silence(const char *field, const char *value)
{
    char *text = with(llama, field, value);
    struct spec s;
    struct problems p;

    if (parse(text, &s, &p) != 0 || p.n)
        fail_msg("%s = %s: %s", field, value, printed(&p));
    problems_release(&p);
    free(text);
}

// ---- public models ------------------------------------------------------------------------------

static void expect_total(const char *name, const char *text, int64_t want)
{
    struct spec s;
    struct problems p;

    if (parse(text, &s, &p) != 0)
        fail_msg("%s: %s", name, printed(&p));
    for (int i = 0; i < p.n; i++)
        if (strstr(p.v[i].err.text, "unknown field"))
            fail_msg("%s: %s", name, printed(&p));
    if (total(&s) != want)
        fail_msg("%s: %lld, expected %lld", name, (long long)total(&s), (long long)want);
    problems_release(&p);
}

static void public_models_have_their_exact_totals(void **state)
{
    (void)state;
    for (int i = 0; i < hub_row_count; i++) {
        const struct hub_row *r = &hub_rows[i];
        char *text = hub_row_text(r);

        expect_total(r->name, text, r->total);
        if (hub_row_total(r) != r->total)
            fail_msg("%s: formula %lld, table %lld", r->name, (long long)hub_row_total(r),
                     (long long)r->total);
        free(text);
    }
    assert_true(hub_row_count + hub_elm_count >= 25);
}

static void openelm_lists_give_their_totals(void **state)
{
    (void)state;
    for (int i = 0; i < hub_elm_count; i++) {
        char *text = hub_elm_text(&hub_elms[i]);

        expect_total(hub_elms[i].name, text, hub_elms[i].total);
        free(text);
    }
}

static int64_t total_of(const char *name)
{
    for (int i = 0; i < hub_row_count; i++)
        if (!strcmp(hub_rows[i].name, name))
            return hub_rows[i].total;
    for (int i = 0; i < hub_elm_count; i++)
        if (!strcmp(hub_elms[i].name, name))
            return hub_elms[i].total;
    fail_msg("no row for %s", name);
    return 0;
}

// Whole files, with the usual extra fields: none is unknown.
static void whole_files_are_read(void **state)
{
    static const struct {
        const char *name;
        int warnings;
    } files[] = {{"gpt2", 0},         {"pythia-160m", 2},    {"SmolLM2-135M", 0},
                 {"Llama-3.2-1B", 1}, {"TinyLlama-1.1B", 0}, {"Mistral-7B-v0.1", 1},
                 {"Qwen3-0.6B", 0},   {"OLMo-2-1B", 0},      {"OpenELM-1_1B", 0},
                 {"gemma-2b", 1},     {"gemma-2-2b", 4},     {"gemma-3-270m", 4}};

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char *path = xasprintf("tests/hub/%s/config.json", files[i].name);
        struct problems p = {0};
        struct spec s;

        if (profile_load(path, NULL, 0, &s, &p) != 0 ||
            problems_of(&p, SEV_WARNING) != files[i].warnings ||
            problems_of(&p, SEV_NOTE) > 1) // the longest context
            fail_msg("%s: %s", files[i].name, printed(&p));
        assert_string_equal(s.name, files[i].name);
        if (total(&s) != total_of(files[i].name))
            fail_msg("%s: %lld", files[i].name, (long long)total(&s));
        problems_release(&p);
        free(path);
    }
}

// ---- what the fields become ---------------------------------------------------------------------

static void assert_origin(const struct spec *s, const char *key, const char *want)
{
    struct buf b = {0};

    profile_origin_text(spec_key_find(key), s, &b);
    assert_string_equal(b.data, want);
    buf_release(&b);
}

static void fields_become_keys_with_origins(void **state)
{
    struct problems p = {0};
    struct spec s;

    (void)state;
    assert_int_equal(profile_load("tests/hub/SmolLM2-135M/config.json", NULL, 0, &s, &p), 0);
    assert_int_equal(s.model.d_model, 576);
    assert_int_equal(s.model.lane[LANE_KV][29], 3);
    assert_near(s.model.init_std, 0.041666666666666664, 0);
    assert_near(s.model.norm_eps, 1e-5, 0);
    assert_near(s.model.rope_theta, 100000, 0);
    assert_true(s.model.tie_embeddings);
    assert_int_equal(s.train.seq_len, 1024);
    assert_origin(&s, "model.d_model", "config.json:10");
    assert_origin(&s, "model.n_kv_heads", "config.json:18");
    assert_origin(&s, "optim.lr", "default");
    problems_release(&p);
    p = (struct problems){0};
    assert_int_equal(profile_load("tests/hub/gpt2/config.json", NULL, 0, &s, &p), 0);
    assert_int_equal(s.model.pos, POS_LEARNED);
    assert_int_equal(s.model.norm, NORM_LAYER);
    assert_int_equal(s.model.act, ACT_GELU_TANH);
    assert_true(s.model.bias);
    assert_int_equal(s.train.seq_len, 1024);
    assert_int_equal(p.n, 0);
}

static void settings_and_bases_still_apply(void **state)
{
    const char *set[] = {"model.n_layers=2", "train.seq_len=64"};
    struct problems p = {0};
    struct spec s, t;
    char *text;

    (void)state;
    assert_int_equal(profile_parse("config.json", llama, strlen(llama), set, 2, &s, &p), 0);
    assert_int_equal(s.model.n_layers, 2);
    assert_int_equal(s.train.seq_len, 64);
    assert_int_equal(p.n, 0);
    t_write(t_path("base.json"), llama);
    t_write(t_path("top.yaml"), "extends: base.json\nmodel: {n_layers: 2}\ntrain: {seq_len: 64}\n");
    assert_int_equal(profile_load(t_path("top.yaml"), NULL, 0, &t, &p), 0);
    assert_int_equal(total(&s), total(&t));
    assert_string_equal(t.name, "top");
    // a broken base is reported in its own file
    text = with(llama, "hidden_size", "\"wide\"");
    t_write(t_path("base.json"), text);
    assert_int_equal(profile_load(t_path("top.yaml"), NULL, 0, &t, &p), -1);
    assert_non_null(strstr(p.v[0].err.file, "base.json"));
    free(text);
    problems_release(&p);
}

static void profiles_in_braces_stay_profiles(void **state)
{
    struct spec s = good("{model: {d_model: 128, n_layers: 2, ffn_width: 512, n_heads: 2, "
                         "vocab: 300}}");

    (void)state;
    assert_int_equal(s.model.vocab, 300);
    s = good("{\"model\": {\"d_model\": 128, \"n_layers\": 2, \"ffn_width\": 512,\n"
             " \"n_heads\": 2, \"vocab\": 300}, \"name\": \"model_type\"}");
    assert_string_equal(s.name, "model_type");
    assert_false(hub_is_config("{\"model\": {\"model_type\": 1}}", 28));
    assert_true(hub_is_config(" \n{\"x\": [{\"\\\"\": 1}], \"architectures\" : 1", 42));
    assert_false(hub_is_config("", 0));
}

static void newer_rope_and_biases(void **state)
{
    char *text =
        with(llama, "rope_parameters", "{\"rope_theta\": 5e5, \"rope_type\": \"default\"}");
    char *half;
    struct spec s = good(text);
    int64_t plain = total(&s);

    (void)state;
    assert_near(s.model.rope_theta, 5e5, 0);
    free(text);
    expect(llama, "rope_parameters", "{\"full_attention\": {}}", SEV_WARNING, "rope_parameters",
           "RoPE");
    expect(llama, "attention_bias", "true", SEV_ERROR, "attention_bias", "in attention alone");
    expect(llama, "mlp_bias", "true", SEV_ERROR, "mlp_bias", "in the FFN alone");
    half = with(llama, "attention_bias", "true");
    text = with(half, "mlp_bias", "true");
    s = good(text);
    free(half);
    // q, o: 128 each; k, v: 64 each; gate, up: 512 each; down: 128
    assert_int_equal(total(&s), plain + 4 * (2 * 128 + 2 * 64 + 2 * 512 + 128));
    free(text);
}

// ---- what is said -------------------------------------------------------------------------------

static void unknown_fields_are_listed(void **state)
{
    expect(llama, "frobnicate", "3", SEV_NOTE, "frobnicate", "unknown field of llama");
    expect(llama, "n_embd", "3", SEV_NOTE, "n_embd", "unknown field"); // another family's
    expect(llama, "rotary_pct", "0.25", SEV_NOTE, "rotary_pct", "unknown field");
    (void)state;
    expect_silence("torch_dtype", "\"bfloat16\"");
    expect_silence("bos_token_id", "[1, 2]");
    expect_silence("rope_scaling", "null");
    expect_silence("layer_types", "[\"full_attention\", \"full_attention\"]");
    expect_silence("max_position_embeddings", "1024");
    expect_silence("architectures", "[\"LlamaForCausalLM\"]");
    expect_silence("hidden_act", "\"silu\"");
}

static void differences_are_warnings(void **state)
{
    static const char *const rows[][3] = {
        {"rope_scaling", "{\"type\": \"linear\", \"factor\": 2}", "RoPE"},
        {"sliding_window", "4096", "4096: attention"},
        {"layer_types", "[\"sliding_attention\"]", "layers differ"},
        {"hidden_act", "\"relu\"", "\"relu\"; here silu"},
        {"partial_rotary_factor", "0.5", "a part of each head"},
        {"quantization_config", "{\"bits\": 4}", "fewer bits"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect(llama, rows[i][0], rows[i][1], SEV_WARNING, rows[i][0], rows[i][2]);
    expect(llama, "max_position_embeddings", "8192", SEV_NOTE, "max_position_embeddings",
           "the longest context is 8192");
}

static void other_tensors_are_refused(void **state)
{
    static const char *const rows[][3] = {
        {"model_type", "\"qwen2\"", "q, k and v have biases"},
        {"model_type", "\"olmo\"", "norms have no weights"},
        {"model_type", "\"lathe\"", "profile.yaml beside it"},
        {"model_type", "\"mamba\"", "expected one of llama, mistral"},
        {"model_type", "7", "7 is not read"},
        {"architectures", "[\"LlamaForSequenceClassification\"]", "expected LlamaForCausalLM"},
        {"architectures", "[null, 3]", NULL},
        {"num_experts", "8", "mixture of experts"},
        {"is_encoder_decoder", "true", "decoder alone"},
        {"pruned_heads", "{\"0\": [1]}", "without some of their heads"},
        {"per_layer_config", "{\"0\": {}}", "not read"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i][2])
            expect(llama, rows[i][0], rows[i][1], SEV_ERROR, rows[i][0], rows[i][2]);
        else
            expect_silence(rows[i][0], rows[i][1]);
}

static void what_is_missing_is_named(void **state)
{
    static const char *const fields[] = {"hidden_size", "num_hidden_layers", "num_attention_heads",
                                         "intermediate_size", "vocab_size"};
    struct problems p;
    struct spec s;

    (void)state;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        expect(llama, fields[i], NULL, SEV_ERROR, fields[i], "is missing");
        expect(llama, fields[i], "null", SEV_ERROR, fields[i], "is missing");
    }
    assert_int_equal(parse("{\"model_type\": \"gpt2\"}", &s, &p), -1);
    assert_int_equal(p.errors, 5);
    assert_non_null(find(&p, SEV_ERROR, "n_positions", "is missing"));
    problems_release(&p);
    assert_int_equal(parse("{\"block_configs\": []}", &s, &p), -1);
    assert_non_null(find(&p, SEV_ERROR, "vocab_size", "model_type nemotron-nas needs"));
    problems_release(&p);
}

static void expect_place(const char *text, int line, int col, const char *part)
{
    struct spec s;
    struct problems p;

    assert_int_equal(parse(text, &s, &p), -1);
    if (p.v[0].err.line != line || p.v[0].err.col != col || !strstr(p.v[0].err.text, part))
        fail_msg("expected %d:%d: %s, got %s", line, col, part, printed(&p));
    problems_release(&p);
}

static void errors_have_a_place(void **state)
{
    (void)state;
    expect_place("{\"model_type\": \"llama\",\n \"a\": 1 \"b\": 2}", 2, 11, "'}' expected");
    expect_place("{\"model_type\": \"llama\",\n \"a\": 1,\n", 3, 1, "string or '}' expected");
    expect_place("{\"model_type\": \"llama\",\n \"model_type\": 1}", 2, 13, "duplicate");
    expect_place("{\"model_type\": \"llama\", \"x\": 99999999999999999999}", 1, 49, "too big");
    // the value of a field that is fine as JSON
    expect_place("{\"model_type\": \"llama\",\n\"num_hidden_layers\": 300, \"hidden_size\": 8,\n"
                 "\"num_attention_heads\": 2, \"intermediate_size\": 8, \"vocab_size\": 9}",
                 2, 1, "300 layers, at most 256");
    expect_place("{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 8,\n"
                 "\"num_attention_heads\": [2, 4], \"intermediate_size\": 8, \"vocab_size\": 9}",
                 2, 1, "their width is unknown");
    expect_place("{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 8,\n"
                 "\"num_attention_heads\": 3, \"intermediate_size\": 8, \"vocab_size\": 9}",
                 2, 1, "3 heads do not divide hidden_size 8");
    // found by the checks of every profile, in the configuration
    expect_place("{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 8,\n"
                 "\"num_attention_heads\": 4, \"num_key_value_heads\": 3,\n"
                 "\"intermediate_size\": 8, \"vocab_size\": 9}",
                 2, 27, "3 does not divide n_heads 4");
}

// ---- saving -------------------------------------------------------------------------------------

static void saving_over_a_configuration_is_refused(void **state)
{
    struct spec s = good(llama), now;
    struct problems p = {0};
    struct err err = ERR_INIT;
    struct buf text = {0};
    bool keeps;

    (void)state;
    t_write(t_path("m.json"), llama);
    assert_int_equal(profile_save_changes(t_path("m.json"), &s, &keeps), -1);
    assert_int_equal(profile_save(t_path("m.json"), &s, &err), -1);
    assert_non_null(strstr(err.text, "hub configuration and was left alone, save as 'm.yaml'"));
    assert_int_equal(file_read(t_path("m.json"), 1 << 16, &text, &err), 0);
    assert_string_equal(text.data, llama);
    // a broken one too
    t_write(t_path("m.json"), "{\"model_type\": ");
    assert_int_equal(profile_save(t_path("m.json"), &s, &err), -1);
    assert_non_null(strstr(err.text, "hub configuration"));
    assert_int_equal(profile_save(t_path("m.yaml"), &s, &err), 0);
    assert_int_equal(profile_load(t_path("m.yaml"), NULL, 0, &now, &p), 0);
    assert_true(spec_equal(&now, &s));
    problems_release(&p);
    buf_release(&text);
}

static void a_profile_on_a_configuration_is_saved(void **state)
{
    struct problems p = {0};
    struct err err = ERR_INIT;
    struct buf text = {0};
    struct spec s;

    (void)state;
    t_write(t_path("b.json"), llama);
    t_write(t_path("on.yaml"), "# mine\nextends: b.json\nmodel:\n  rope_theta: 5000\n");
    assert_int_equal(profile_load(t_path("on.yaml"), NULL, 0, &s, &p), 0);
    s.model.vocab = 999;
    s.model.lane[LANE_FFN][2] = 768;
    if (profile_save(t_path("on.yaml"), &s, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(file_read(t_path("on.yaml"), 1 << 16, &text, &err), 0);
    assert_non_null(strstr(text.data, "# mine\nextends: b.json"));
    assert_non_null(strstr(text.data, "  ffn_width: [512, 512, 768, 512]"));
    assert_int_equal(file_read(t_path("b.json"), 1 << 16, &text, &err), 0);
    assert_string_equal(text.data, llama);
    problems_release(&p);
    buf_release(&text);
}

static void names_come_from_folders(void **state)
{
    static const char *const rows[][2] = {{"a/Qwen3-0.6B/config.json", "Qwen3-0.6B"},
                                          {"config.json", "config"},
                                          {"./config.json", "config"},
                                          {"../config.json", "config"},
                                          {"/config.json", "config"},
                                          {"a/b.json", "b"},
                                          {"a b/config.json", "a-b"},
                                          {"a/b.yaml", "b"},
                                          {"a/.json", "profile"}};
    char name[SPEC_NAME_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(profile_file_name(rows[i][0], name), rows[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(public_models_have_their_exact_totals),
        cmocka_unit_test(openelm_lists_give_their_totals),
        cmocka_unit_test(whole_files_are_read),
        cmocka_unit_test(fields_become_keys_with_origins),
        cmocka_unit_test(settings_and_bases_still_apply),
        cmocka_unit_test(profiles_in_braces_stay_profiles),
        cmocka_unit_test(newer_rope_and_biases),
        cmocka_unit_test(unknown_fields_are_listed),
        cmocka_unit_test(differences_are_warnings),
        cmocka_unit_test(other_tensors_are_refused),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(errors_have_a_place),
        cmocka_unit_test(saving_over_a_configuration_is_refused),
        cmocka_unit_test(a_profile_on_a_configuration_is_saved),
        cmocka_unit_test(names_come_from_folders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
