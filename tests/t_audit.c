// Token files judged before training.
#include "tests/t.h"
#include "tests/tokens.h"

#include <math.h>
#include <unistd.h>

#include <jansson.h>

#include "engine/audit.h"
#include "engine/buf.h"

// A shard in memory, past what shard_open looks at.
static struct shard memory_u16(const uint16_t *ids, int64_t n)
{
    struct shard s = {.path = "memory", .fd = -1, .u16 = ids, .n = n, .eot = -1};

    return s;
}

static void audit_refuses(const struct shard *s, int vocab, const char *expect)
{
    struct err err = ERR_INIT;
    struct audit a;

    assert_int_equal(audit_shard(s, vocab, &a, &err), -1);
    assert_false(a.ok);
    assert_string_equal(a.verdict, err.text);
    if (!strstr(err.text, expect))
        fail_msg("expected '%s' in '%s'", expect, err.text);
}

static void audit_counts_what_is_there(void **state)
{
    const uint16_t ids[] = {5, 1, 5, 2, 5, 3, 5, 4, 7, 7};
    struct shard s = memory_u16(ids, 10);
    struct err err = ERR_INIT;
    struct audit a;
    json_t *j;

    (void)state;
    s.eot = 7;
    assert_int_equal(audit_shard(&s, 8, &a, &err), 0);
    assert_int_equal(a.scanned, 10);
    assert_int_equal(a.max_id, 7);
    assert_int_equal(a.most_common, 5);
    assert_near(a.most_common_share, 0.4, 1e-12);
    assert_int_equal(a.common[1].id, 7);
    assert_int_equal(a.common[1].count, 2);
    assert_int_equal(a.kinds, 6);
    assert_int_equal(a.ends, 2);
    assert_int_equal(a.longest_run, 2);
    assert_int_equal(a.longest_run_at, 8);
    assert_near(a.entropy_even, 0.8 * log2(1 / 0.8) + 0.2 * log2(1 / 0.2), 1e-12);
    assert_near(a.entropy_odd, log2(5), 1e-12);
    j = audit_to_json(&s, &a);
    assert_true(json_is_true(json_object_get(j, "ok")));
    assert_int_equal(json_integer_value(json_object_get(j, "longest_run")), 2);
    json_decref(j);
}

static void audit_refuses_halves_of_wide_ids(void **state)
{
    enum { N = 20000 };
    uint16_t *ids = xcalloc(N, sizeof *ids);
    struct shard s = memory_u16(ids, N);
    struct err err = ERR_INIT;
    struct audit a;

    (void)state;
    for (int i = 0; i < N; i += 2)
        ids[i] = (uint16_t)(1 + tokens_word(7, i, 50279));
    audit_refuses(&s, 50280, "32-bit ids are being read as 16-bit ids");
    assert_int_equal(audit_shard(&s, 50280, &a, &err), -1);
    assert_near(a.entropy_odd, 0, 1e-12);
    assert_near(a.most_common_share, 0.5, 0.001);
    for (int i = 0; i < N; i += 2) // a 128k vocabulary: the high halves are 0 and 1
        ids[i + 1] = tokens_word(9, i, 2) > 0;
    audit_refuses(&s, 65536, "32-bit ids are being read as 16-bit ids");
    free(ids);
}

static void audit_refuses_ids_beyond_the_vocabulary(void **state)
{
    uint16_t ids[100];
    struct shard s = memory_u16(ids, 100);

    (void)state;
    for (int i = 0; i < 100; i++)
        ids[i] = (uint16_t)(40 + i % 7);
    ids[61] = 257;
    audit_refuses(&s, 257,
                  "1 of 100 ids are beyond the vocabulary of 257 (expected 0..256); the "
                  "largest is 257, the first is 257 at token 61");
    s.vocab = 47; // the file's own, when the model's is unknown
    audit_refuses(&s, 0, "beyond the vocabulary of 47");
}

static void audit_refuses_constants_holes_and_missing_ends(void **state)
{
    enum { N = 40000 };
    uint16_t *ids = xcalloc(N, sizeof *ids);
    struct shard s = memory_u16(ids, N);
    struct err err = ERR_INIT;
    struct audit a;

    (void)state;
    audit_refuses(&s, 257, "100.0 % of its tokens are id 0");
    for (int i = 0; i < N; i++)
        ids[i] = (uint16_t)(32 + tokens_word(7, i, 90));
    memset(ids + N / 2, 0, N / 2 * sizeof *ids); // a copy that stopped half-way
    audit_refuses(&s, 257, "id 0 stands 20000 times in a row from token 20000");
    for (int i = N / 2; i < N; i++)
        ids[i] = (uint16_t)(32 + tokens_word(7, i, 90));
    assert_int_equal(audit_shard(&s, 257, &a, &err), 0);
    s.eot = 256;
    audit_refuses(&s, 257, "end-of-text id 256 never occurs");
    s.n = 1;
    audit_refuses(&s, 257, "at least 2 are needed");
    free(ids);
}

static void audit_accepts_small_honest_files(void **state)
{
    const char *text = "the cat sat on the mat\nand so it went";
    uint16_t ids[64];
    struct err err = ERR_INIT;
    struct audit a;
    struct shard s;

    (void)state;
    for (size_t i = 0; i < strlen(text); i++)
        ids[i] = (unsigned char)text[i];
    for (int64_t n = 2; n <= (int64_t)strlen(text); n++) {
        s = memory_u16(ids, n);
        if (audit_shard(&s, 257, &a, &err) < 0)
            fail_msg("%lld bytes refused: %s", (long long)n, err.text);
        assert_string_equal(a.verdict, "");
    }
    tokens_write_two_documents(t_path("honest.bin"));
    assert_int_equal(shard_open(&s, t_path("honest.bin"), TOKENS_AUTO, &err), 0);
    assert_int_equal(audit_shard(&s, 257, &a, &err), 0);
    assert_int_equal(a.ends, 2);
    shard_close(&s);
}

// 200 M tokens of a sparse file: bounded work, and the verdict says how much was looked at.
static void audit_of_a_large_file_is_bounded(void **state)
{
    const char *path = t_path("large.bin");
    struct err err = ERR_INIT;
    struct audit a;
    struct shard s;

    (void)state;
    tokens_write_u16(path, 1 << 20, 50257);
    assert_int_equal(truncate(path, 400000000), 0);
    assert_int_equal(shard_open(&s, path, TOKENS_U16, &err), 0);
    assert_int_equal(audit_shard(&s, 50257, &a, &err), -1);
    assert_true(a.scanned > AUDIT_MAX_TOKENS / 2 && a.scanned <= AUDIT_MAX_TOKENS);
    assert_int_equal(a.tokens, 200000000);
    shard_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(audit_counts_what_is_there),
        cmocka_unit_test(audit_refuses_halves_of_wide_ids),
        cmocka_unit_test(audit_refuses_ids_beyond_the_vocabulary),
        cmocka_unit_test(audit_refuses_constants_holes_and_missing_ends),
        cmocka_unit_test(audit_accepts_small_honest_files),
        cmocka_unit_test(audit_of_a_large_file_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
