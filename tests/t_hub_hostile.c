// Hub configurations from people who mean harm, and from broken disks: an error in words or a valid
// spec, soon.
#include "tests/t.h"

#include <jansson.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/profile.h"
#include "engine/rng.h"
#include "tests/hub_rows.h"

static const char blocks[] =
    "{\"model_type\": \"nemotron-nas\", \"hidden_size\": 768, \"num_hidden_layers\": 2,\n"
    " \"num_attention_heads\": 12, \"vocab_size\": 1000, \"hidden_act\": \"silu\",\n"
    " \"block_configs\": [\n"
    "  {\"attention\": {\"n_heads_in_group\": 4}, \"ffn\": {\"ffn_mult\": 2.625}},\n"
    "  {\"attention\": {\"n_heads_in_group\": 12}, \"ffn\": {\"ffn_mult\": 0.5}}]}\n";

static void print_all(const struct problems *p)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    problems_print(p, f);
    fclose(f);
    free(text);
}

// text with another value for a field (JSON text), caller frees.
static char *with(const char *text, const char *field, const char *value)
{
    json_t *root = json_loads(text, 0, NULL), *v;
    char *out;

    assert_non_null(root);
    v = json_loads(value, JSON_DECODE_ANY, NULL);
    assert_non_null(v);
    json_object_set_new(root, field, v);
    out = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    return out;
}

static void feed(const char *text, size_t len)
{
    struct problems p = {0};
    struct spec s;
    double start = t_now();
    int rc = profile_parse("config.json", text, len, NULL, 0, &s, &p);

    assert_true((rc < 0) == (p.errors > 0));
    assert_true(p.n <= PROFILE_MAX_PROBLEMS);
    print_all(&p);
    problems_release(&p);
    p = (struct problems){0};
    if (rc == 0)
        assert_int_equal(profile_validate(&s, &p), 0);
    problems_release(&p);
    if (t_now() - start > 2)
        fail_msg("took %.1f s for %.200s", t_now() - start, text);
}

static void wrong_values_in_every_field(void **state)
{
    static const char *const values[] = {
        "null",       "true",  "false", "0",  "-1", "1.5", "1e300",     "9223372036854775807",
        "2147483647", "\"x\"", "\"\"",  "[]", "{}", "[1]", "[[[[1]]]]", "[null, {}, \"\\u0001\"]",
        "1048577"};
    char *texts[32];
    int n = 0;

    (void)state;
    for (int i = 0; i < hub_row_count && n < 30; i += 4)
        texts[n++] = hub_row_text(&hub_rows[i]);
    texts[n++] = hub_elm_text(&hub_elms[0]);
    texts[n++] = xstrdup(blocks);
    for (int i = 0; i < n; i++) {
        json_t *root = json_loads(texts[i], 0, NULL), *v;
        const char *field;

        json_object_foreach(root, field, v) for (size_t j = 0; j < sizeof values / sizeof values[0];
                                                 j++)
        {
            char *text = with(texts[i], field, values[j]);

            feed(text, strlen(text));
            free(text);
        }
        json_decref(root);
        free(texts[i]);
    }
}

static void torn_and_scribbled_files(void **state)
{
    struct buf text = {0};
    struct err err = ERR_INIT;
    uint64_t key = rng_key(1, "hub"), at = 0;

    (void)state;
    assert_int_equal(file_read("tests/hub/OpenELM-1_1B/config.json", 1 << 16, &text, &err), 0);
    for (size_t n = 0; n < text.len; n += 7)
        feed(text.data, n);
    for (int i = 0; i < 2000; i++) {
        char *copy = xstrdup(text.data);

        for (int j = 0; j < 3; j++) {
            size_t where = (size_t)(rng_u64(key, at++) % text.len);

            copy[where] = (char)(rng_u64(key, at++) % 256);
        }
        feed(copy, text.len);
        free(copy);
    }
    buf_release(&text);
}

static void feed_repeated(const char *before, const char *piece, int n, const char *after)
{
    struct buf b = {0};

    buf_str(&b, before);
    for (int i = 0; i < n; i++)
        buf_fmt(&b, piece, i);
    buf_str(&b, after);
    feed(b.data, b.len);
    buf_release(&b);
}

static void bulk_and_depth(void **state)
{
    (void)state;
    feed_repeated("{\"model_type\": \"llama\", \"x\": ", "[", 200000, "");
    feed_repeated("{\"model_type\": ", "{\"model_type\": ", 50000, "");
    feed_repeated("{\"model_type\": \"llama\", ", "\"u%d\": 1, ", 60000, "\"z\": 1}");
    feed_repeated("{\"model_type\": \"openelm\", \"num_query_heads\": [", "%d, ", 100000, "1]}");
    feed_repeated("{\"block_configs\": [", "{\"attention\": {\"a%d\": 1}}, ", 30000, "1]}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_values_in_every_field),
        cmocka_unit_test(torn_and_scribbled_files),
        cmocka_unit_test(bulk_and_depth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
