// DeciLM's block_configs as profiles: sizes by layer, layers without a part, and what is no layer.
#include "tests/t.h"

#include "engine/buf.h"
#include "engine/count.h"
#include "engine/profile.h"
#include "tests/hub_rows.h"

static struct spec good(const char *text)
{
    struct problems p = {0};
    struct spec s;

    if (profile_parse("config.json", text, strlen(text), NULL, 0, &s, &p) != 0)
        fail_msg("%s: %s\nfor\n%s", p.v[0].path, p.v[0].err.text, text);
    problems_release(&p);
    return s;
}

static int64_t total(const struct spec *s)
{
    struct count c;

    count_model(s, &c);
    return c.total;
}

#define HEAD                                                                                       \
    "{\"model_type\": \"nemotron-nas\", \"hidden_size\": 768, \"num_attention_heads\": 12,\n"      \
    " \"vocab_size\": 1000, \"hidden_act\": \"silu\", \"num_hidden_layers\": "

// Two layers; exactly one problem of this severity, at this path.
static void expect_blocks(const char *blocks, enum severity severity, const char *path,
                          const char *part)
{
    char *text = xasprintf(HEAD "2, \"block_configs\": %s}", blocks);
    struct problems p = {0};
    struct spec s;
    int rc = profile_parse("config.json", text, strlen(text), NULL, 0, &s, &p), n = 0, hits = 0;

    for (int i = 0; i < p.n; i++) {
        n += p.v[i].severity == severity;
        hits += p.v[i].severity == severity && !strcmp(p.v[i].path, path) &&
                strstr(p.v[i].err.text, part);
    }
    if ((rc < 0) != (severity == SEV_ERROR) || n != 1 || hits != 1)
        fail_msg("%s: expected '%s' at %s, got '%s' at %s", blocks, part, path,
                 p.n ? p.v[0].err.text : "", p.n ? p.v[0].path : "");
    problems_release(&p);
    free(text);
}

static const char deci[] =
    HEAD "2, \"block_configs\": [\n"
         "  {\"attention\": {\"n_heads_in_group\": 4, \"no_op\": false, \"sparsify\": null},\n"
         "   \"ffn\": {\"ffn_mult\": 2.625, \"no_op\": false}},\n"
         "  {\"attention\": {\"n_heads_in_group\": 12}, \"ffn\": {\"ffn_mult\": 0.5}}]}\n";

static void blocks_give_each_layer_its_sizes(void **state)
{
    struct spec s = good(deci);

    (void)state;
    // 2 * 2.625 * 768 / 3 = 1344 up to 1536; 256 stays
    assert_int_equal(s.model.lane[LANE_FFN][0], 1536);
    assert_int_equal(s.model.lane[LANE_FFN][1], 256);
    assert_int_equal(s.model.lane[LANE_KV][0], 3);
    assert_int_equal(s.model.lane[LANE_KV][1], 1);
    assert_int_equal(total(&s), 2 * 1000 * 768 + 768 + 2 * (2 * 768 * 768 + 2 * 768) +
                                    2 * 768 * 64 * (3 + 1) + 3 * 768 * (1536 + 256));
}

static const char deci_absent[] =
    HEAD "3, \"block_configs\": [\n"
         "  {\"attention\": {\"n_heads_in_group\": null, \"no_op\": true}, \"ffn\": {\"ffn_mult\": "
         "0.5}},\n"
         "  {\"attention\": {\"n_heads_in_group\": 4}, \"ffn\": {\"ffn_mult\": null, \"no_op\": "
         "true}},\n"
         "  {\"attention\": {\"n_heads_in_group\": 4}, \"ffn\": {\"ffn_mult\": 0.5}}]}\n";

static void no_op_leaves_the_part_and_its_norm_out(void **state)
{
    static const int heads[] = {0, 12, 12}, kv[] = {0, 3, 3}, ffn[] = {256, 0, 256};
    struct spec s = good(deci_absent);

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(s.model.lane[LANE_HEADS][i], heads[i]);
        assert_int_equal(s.model.lane[LANE_KV][i], kv[i]);
        assert_int_equal(s.model.lane[LANE_FFN][i], ffn[i]);
    }
    assert_int_equal(s.model.source[LANE_KV].kv_ratio, 4);
    assert_int_equal(total(&s), 2 * 1000 * 768 + 768 +
                                    2 * (768 + 2 * 768 * 768 + 2 * 768 * 64 * 3) +
                                    2 * (768 + 3 * 768 * 256));
}

static void nemotron_blocks_give_their_total(void **state)
{
    (void)state;
    for (int i = 0; i < hub_deci_count; i++) {
        char *text = hub_deci_text(&hub_decis[i]);
        struct spec s = good(text);

        assert_int_equal(hub_deci_total(&hub_decis[i]), hub_decis[i].total);
        assert_int_equal(total(&s), hub_decis[i].total);
        free(text);
    }
}

static void blocks_that_are_no_layer_are_named(void **state)
{
    (void)state;
    expect_blocks("[{\"attention\": {\"n_heads_in_group\": 4},"
                  " \"ffn\": {\"replace_with_linear\": true}},"
                  "{\"attention\": {\"n_heads_in_group\": 4}, \"ffn\": {\"ffn_mult\": 1}}]",
                  SEV_ERROR, "block_configs[0].ffn.replace_with_linear",
                  "layer 0 has one matrix in place");
    expect_blocks("[{\"attention\": {\"no_op\": true}, \"ffn\": {\"ffn_mult\": 1}},"
                  "{\"attention\": {\"no_op\": true}, \"ffn\": {\"no_op\": true}}]",
                  SEV_ERROR, "block_configs[1]", "layer 1 has neither attention nor an ffn");
    expect_blocks("[{\"attention\": {\"no_op\": 1}, \"ffn\": {\"ffn_mult\": 1}},"
                  "{\"attention\": {\"n_heads_in_group\": 4}, \"ffn\": {\"ffn_mult\": 1}}]",
                  SEV_ERROR, "block_configs[0].attention.no_op", "expected true or false, got 1");
    expect_blocks("[{\"attention\": {\"n_heads_in_group\": 5}, \"ffn\": {\"ffn_mult\": 1}},"
                  "{\"attention\": {\"n_heads_in_group\": 4}, \"ffn\": {\"ffn_mult\": 1}}]",
                  SEV_ERROR, "block_configs[0].attention.n_heads_in_group", "5 does not divide");
    expect_blocks("[{\"attention\": {\"n_heads_in_group\": 4}, \"ffn\": {\"ffn_mult\": 1}}]",
                  SEV_ERROR, "block_configs", "has 1 values, expected one for each of 2");
    expect_blocks("[3, {\"attention\": {\"n_heads_in_group\": 4}, \"ffn\": {\"ffn_mult\": 1}}]",
                  SEV_ERROR, "block_configs[0]", "expected an object, got 3");
    expect_blocks("[{\"attention\": {\"n_heads_in_group\": 4}, \"ffn\": {\"ffn_mult\": 1}},"
                  "{\"attention\": {\"n_heads_in_group\": 4, \"window_length\": 64, \"x\": 1},"
                  " \"ffn\": {\"intermediate_size\": 300}}]",
                  SEV_WARNING, "block_configs[1].attention.window_length", "attention reaches");
    expect_blocks("{}", SEV_ERROR, "block_configs", "expected a list");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_give_each_layer_its_sizes),
        cmocka_unit_test(no_op_leaves_the_part_and_its_norm_out),
        cmocka_unit_test(nemotron_blocks_give_their_total),
        cmocka_unit_test(blocks_that_are_no_layer_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
