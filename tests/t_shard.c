// Token files: written and read back, refused by name.
#include "tests/t.h"
#include "tests/tokens.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/audit.h"
#include "engine/buf.h"
#include "engine/file.h"
#include "engine/rng.h"
#include "engine/shard.h"

// ---- helpers ------------------------------------------------------------------------------------

// An llm.c file as llm.c's own scripts write it: nothing behind the third int.
static void write_llmc(const char *path, int32_t magic, int32_t version, int32_t count,
                       const void *ids, size_t size)
{
    int32_t h[256] = {magic, version, count};
    struct buf b = {0};

    buf_add(&b, h, sizeof h);
    buf_add(&b, ids, size);
    tokens_write_bytes(path, b.data, b.len);
    buf_release(&b);
}

static void refuses(const char *path, enum token_dtype dtype, const char *expect)
{
    struct err err = ERR_INIT;
    struct shard s;

    assert_int_equal(shard_open(&s, path, dtype, &err), -1);
    if (!strstr(err.text, expect))
        fail_msg("expected '%s' in '%s'", expect, err.text);
}

static void accepts(const char *path, enum token_dtype dtype, int64_t n)
{
    struct err err = ERR_INIT;
    struct shard s;

    if (shard_open(&s, path, dtype, &err) < 0)
        fail_msg("refused: %s", err.text);
    assert_int_equal(s.n, n);
    shard_close(&s);
}

// ---- writing and reading ------------------------------------------------------------------------

static void written_documents_are_read_back(void **state)
{
    const uint32_t expected[] = {'a', 'b', 'c', 256, 'd', 256};
    struct err err = ERR_INIT;
    struct shard s;

    (void)state;
    tokens_write_two_documents(t_path("two.bin"));
    assert_int_equal(shard_open(&s, t_path("two.bin"), TOKENS_AUTO, &err), 0);
    assert_int_equal(s.n, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(shard_token(&s, i), expected[i]);
    assert_int_equal(s.vocab, 257);
    assert_int_equal(s.eot, 256);
    assert_int_equal(s.documents, 2);
    assert_int_equal(s.source_bytes, 4);
    assert_true(s.bytes_are_tokens && s.has_header);
    assert_string_equal(s.tokenizer, "bytes");
    assert_string_equal(s.source, "test");
    assert_int_equal(shard_verify(&s, &err), 0);
    shard_close(&s);
}

// The bytes llm.c's reader looks at, and the index.
static void files_have_the_documented_bytes(void **state)
{
    struct err err = ERR_INIT;
    struct buf b = {0};
    int32_t h[256];
    uint64_t ends[2];

    (void)state;
    tokens_write_two_documents(t_path("bytes.bin"));
    assert_int_equal(file_read(t_path("bytes.bin"), 1 << 20, &b, &err), 0);
    assert_int_equal(b.len, 1024 + 2 * 6);
    memcpy(h, b.data, sizeof h);
    assert_int_equal(h[0], 20240520);
    assert_int_equal(h[1], 1);
    assert_int_equal(h[2], 6);
    assert_memory_equal(b.data + 1024, "a\0b\0c\0\0\1d\0\0\1", 12);
    assert_int_equal(file_read(t_path("bytes.bin.index"), 1 << 20, &b, &err), 0);
    assert_int_equal(b.len, sizeof ends);
    memcpy(ends, b.data, sizeof ends);
    assert_int_equal(ends[0], 4);
    assert_int_equal(ends[1], 6);
    buf_release(&b);
}

static void wide_vocabularies_get_32_bit_ids(void **state)
{
    struct shard_meta meta = tokens_byte_meta;
    const uint32_t ids[] = {128000, 5, 70000};
    const uint16_t narrow[] = {9};
    struct err err = ERR_INIT;
    struct shard_writer *w;
    struct shard s;

    (void)state;
    meta.vocab = 128256;
    meta.eot = 128001;
    meta.tokenizer = "llama3";
    w = shard_create(t_path("wide.bin"), &meta, &err);
    assert_int_equal(shard_add32(w, ids, 3, 11, &err), 0);
    assert_int_equal(shard_add(w, narrow, 1, 2, &err), 0);
    assert_int_equal(shard_commit(w, &err), 0);
    assert_int_equal(shard_open(&s, t_path("wide.bin"), TOKENS_AUTO, &err), 0);
    assert_non_null(s.u32);
    assert_int_equal(s.n, 6);
    assert_int_equal(s.u32[0], 128000);
    assert_int_equal(s.u32[3], 128001);
    assert_int_equal(s.u32[4], 9);
    assert_int_equal(((const int32_t *)s.map)[0], 20240801);
    assert_int_equal(((const int32_t *)s.map)[1], 7);
    assert_int_equal(s.source_bytes, 13);
    assert_false(s.bytes_are_tokens);
    shard_close(&s);
}

static void writer_refuses_ids_outside_the_vocabulary(void **state)
{
    const uint16_t large[] = {1, 257}, end[] = {256};
    struct err err = ERR_INIT;
    struct shard_writer *w = shard_create(t_path("ids.bin"), &tokens_byte_meta, &err);

    (void)state;
    assert_int_equal(shard_add(w, large, 2, 2, &err), -1);
    assert_non_null(strstr(err.text, "id 257"));
    assert_int_equal(shard_add(w, end, 1, 1, &err), -1);
    assert_non_null(strstr(err.text, "end-of-text"));
    shard_abort(w);
    assert_false(file_exists(t_path("ids.bin")));
}

static void abandoned_writer_leaves_nothing(void **state)
{
    const uint16_t id = 1;
    struct err err = ERR_INIT;
    char *dir = xstrdup(t_path("abandoned"));
    char *path = xasprintf("%s/x.bin", dir);
    struct shard_writer *w;

    (void)state;
    assert_int_equal(mkdir(dir, 0700), 0);
    w = shard_create(path, &tokens_byte_meta, &err);
    assert_int_equal(shard_add(w, &id, 1, 1, &err), 0);
    shard_abort(w);
    assert_int_equal(rmdir(dir), 0); // empty
    assert_null(shard_create(path, &tokens_byte_meta, &err));
    assert_non_null(strstr(err.text, "No such file"));
    free(path);
    free(dir);
}

static void files_are_found_below_the_data_directory(void **state)
{
    struct err err = ERR_INIT;
    struct shard s;

    (void)state;
    assert_int_equal(mkdir(t_path("corpora"), 0700), 0);
    tokens_write_two_documents(t_path("corpora/t.bin"));
    assert_int_equal(setenv("LATHE_DATA", t_dir(), 1), 0);
    assert_int_equal(shard_open(&s, "corpora/t.bin", TOKENS_AUTO, &err), 0);
    shard_close(&s);
    refuses("corpora/none.bin", TOKENS_AUTO, "lathe data prepare");
    refuses("corpora/none.bin", TOKENS_AUTO, t_dir());
    assert_int_equal(unsetenv("LATHE_DATA"), 0);
    assert_string_equal(shard_data_dir(), "data");
}

// ---- foreign files ------------------------------------------------------------------------------

static void llm_c_files_are_read(void **state)
{
    const uint16_t ids16[] = {50256, 464, 2068};
    const uint32_t ids32[] = {128000, 791, 4062, 14198};
    struct err err = ERR_INIT;
    struct shard s;

    (void)state;
    write_llmc(t_path("gpt2.bin"), 20240520, 1, 3, ids16, sizeof ids16);
    assert_int_equal(shard_open(&s, t_path("gpt2.bin"), TOKENS_AUTO, &err), 0);
    assert_int_equal(s.n, 3);
    assert_int_equal(shard_token(&s, 0), 50256);
    assert_int_equal(s.vocab, 0);
    assert_int_equal(s.eot, -1);
    shard_close(&s);
    write_llmc(t_path("llama.bin"), 20240801, 7, 4, ids32, sizeof ids32);
    accepts(t_path("llama.bin"), TOKENS_AUTO, 4);
    accepts(t_path("llama.bin"), TOKENS_U32, 4);
    refuses(t_path("llama.bin"), TOKENS_U16, "leave out data.dtype");
}

static void llm_c_sizes_are_checked(void **state)
{
    const uint32_t ids[64] = {1, 2, 3};
    const char *path = t_path("size.bin");

    (void)state;
    write_llmc(path, 20240520, 1, 5, ids, 6);
    refuses(path, TOKENS_AUTO, "truncated: the header promises 5 tokens (1034 bytes)");
    write_llmc(path, 20240520, 1, 3, ids, 8);
    refuses(path, TOKENS_AUTO, "2 bytes follow the 3 tokens");
    write_llmc(path, 20240520, 1, 3, ids, 12);
    refuses(path, TOKENS_AUTO, "the size is that of 32-bit ids");
    write_llmc(path, 20240801, 7, 4, ids, 8);
    refuses(path, TOKENS_AUTO, "the size is that of 16-bit ids");
    write_llmc(path, 20240520, 1, -1, ids, 6);
    refuses(path, TOKENS_AUTO, "token count is -1");
    write_llmc(path, 20240520, 1, 0, ids, 0);
    refuses(path, TOKENS_AUTO, "token count is 0");
    write_llmc(path, 20240520, 2, 3, ids, 6);
    refuses(path, TOKENS_AUTO, "version 2");
    write_llmc(path, 20240520, 1, 3, ids, 6);
    assert_int_equal(truncate(path, 100), 0);
    refuses(path, TOKENS_AUTO, "truncated: 100 bytes");
}

static void headerless_files_need_a_declared_type(void **state)
{
    const char *path = t_path("raw.bin");

    (void)state;
    tokens_write_u16(path, 1001, 50257);
    refuses(path, TOKENS_AUTO, "must be declared: data.dtype");
    accepts(path, TOKENS_U16, 1001);
    refuses(path, TOKENS_U32, "no multiple of 4");
    tokens_write_u32(path, 1000, 50257);
    accepts(path, TOKENS_U32, 1000);
}

static void sidecar_can_declare_a_headerless_file(void **state)
{
    const char *path = t_path("declared.bin"), *json = t_path("declared.bin.json");
    struct err err = ERR_INIT;
    struct shard s;

    (void)state;
    tokens_write_u16(path, 1000, 50257);
    t_write(json,
            "{\"dtype\": \"uint16\", \"vocab\": 50257, \"eot\": 50256, \"source_bytes\": 4321}");
    assert_int_equal(shard_open(&s, path, TOKENS_AUTO, &err), 0);
    assert_int_equal(s.vocab, 50257);
    assert_int_equal(s.source_bytes, 4321);
    assert_int_equal(shard_verify(&s, &err), -1);
    shard_close(&s);
    refuses(path, TOKENS_U32, "sidecar says u16");
    t_write(json, "{\"dtype\": \"uint16\", \"tokens\": 999}");
    refuses(path, TOKENS_AUTO, "was written for 999");
    t_write(json, "{\"dtype\": \"int8\"}");
    refuses(path, TOKENS_AUTO, "'dtype' must be");
    t_write(json, "{\"vocab\": 1e9}");
    refuses(path, TOKENS_U16, "'vocab' must be an integer");
    t_write(json, "{\"vocab\": 10, \"eot\": 10}");
    refuses(path, TOKENS_U16, "beyond the vocabulary of 10");
    t_write(json, "{\"crc32\": \"xyz\"}");
    refuses(path, TOKENS_U16, "hexadecimal");
    t_write(json, "{\"vocab\": 1");
    refuses(path, TOKENS_U16, "no JSON");
    t_write(json, "[]");
    refuses(path, TOKENS_U16, "no JSON object");
}

struct known {
    const char *head, *expect;
    size_t n;
};

static void other_formats_are_refused_by_name(void **state)
{
    static const struct known known[] = {
        {"\x93NUMPY\x01\x00v\x00{'descr': '<u2'}", "NumPy array", 26},
        {"MMIDIDX\0\0\1\0\0\0\0\0\0\0\0\10", "Megatron index", 18},
        {"\x1f\x8b\x08\x00\x00\x00\x00\x00", "gzip data", 8},
        {"\x28\xb5\x2f\xfd\x04\x00\x58\x00", "zstd data", 8},
        {"PAR1\x15\x04\x15\x10", "Parquet", 8},
        {"\x40\0\0\0\0\0\0\0{\"a\":{}}", "safetensors", 16},
        {"First Citizen:\nBefore we proceed any further", "plain text", 44},
        {"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", "plain text",
         18},
    };
    const char *path = t_path("other.bin");

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        tokens_write_bytes(path, known[i].head, known[i].n);
        refuses(path, TOKENS_AUTO, known[i].expect);
        refuses(path, TOKENS_U16, known[i].expect);
    }
    write_llmc(path, 20240522, 1, 3, "123456", 6);
    refuses(path, TOKENS_AUTO, "multiple-choice evaluation file");
    write_llmc(path, 20240326, 3, 1024, "123456", 6);
    refuses(path, TOKENS_AUTO, "llm.c model file, no token file; it holds weights");
}

static void datatrove_index_settles_the_width(void **state)
{
    const char *path = t_path("d.ds");
    uint64_t ends[] = {400, 1000};

    (void)state;
    tokens_write_u16(path, 1000, 50257);
    tokens_write_bytes(t_path("d.ds.index"), ends, sizeof ends);
    refuses(path, TOKENS_AUTO,
            "datatrove token file ('.index' beside it) with 16-bit ids; declare");
    refuses(path, TOKENS_U32, "set data.dtype to u16");
    accepts(path, TOKENS_U16, 1000);
    tokens_write_u32(path, 1000, 128256);
    refuses(path, TOKENS_U16, "set data.dtype to u32");
    accepts(path, TOKENS_U32, 1000);
}

static void megatron_index_settles_the_width(void **state)
{
    unsigned char idx[34] = "MMIDIDX\0\0\1";

    (void)state;
    tokens_write_u16(t_path("m.bin"), 1000, 50257);
    idx[16] = 8;
    tokens_write_bytes(t_path("m.idx"), idx, sizeof idx);
    refuses(t_path("m.bin"), TOKENS_AUTO, "Megatron token file ('.idx' beside it) with 16-bit ids");
    accepts(t_path("m.bin"), TOKENS_U16, 1000);
    idx[16] = 5; // int64
    tokens_write_bytes(t_path("m.idx"), idx, sizeof idx);
    refuses(t_path("m.bin"), TOKENS_U16, "not 16 or 32 bits wide");
}

static void odd_files_are_refused(void **state)
{
    const char *fifo = t_path("fifo"), *empty = t_path("empty");
    char name[600];

    (void)state;
    refuses(t_dir(), TOKENS_AUTO, "is a directory");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    refuses(fifo, TOKENS_AUTO, "no regular file");
    refuses("/dev/zero", TOKENS_U16, "no regular file");
    tokens_write_bytes(empty, "", 0);
    refuses(empty, TOKENS_U16, "is empty");
    refuses(t_path("absent.bin"), TOKENS_U16, "No such file");
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    refuses(name, TOKENS_AUTO, "too long");
}

static void shrinking_file_is_noticed(void **state)
{
    const char *path = t_path("shrink.bin");
    struct err err = ERR_INIT;
    struct audit a;
    struct shard s;

    (void)state;
    tokens_write_u16(path, 100000, 50257);
    assert_int_equal(shard_open(&s, path, TOKENS_U16, &err), 0);
    assert_int_equal(shard_check(&s, &err), 0);
    assert_int_equal(truncate(path, 1000), 0);
    assert_int_equal(shard_check(&s, &err), -1);
    assert_non_null(strstr(err.text, "shrank from 200000 to 1000 bytes"));
    assert_int_equal(audit_shard(&s, 50257, &a, &err), -1);
    assert_non_null(strstr(err.text, "shrank"));
    shard_close(&s);
}

static void damaged_tokens_fail_the_checksum(void **state)
{
    const char *path = t_path("crc.bin");
    struct err err = ERR_INIT;
    struct shard s;
    FILE *f;

    (void)state;
    tokens_write_two_documents(path);
    f = fopen(path, "r+b");
    assert_int_equal(fseek(f, 1024, SEEK_SET), 0);
    assert_int_equal(fputc('z', f), 'z');
    assert_int_equal(fclose(f), 0);
    assert_int_equal(shard_open(&s, path, TOKENS_AUTO, &err), 0);
    assert_int_equal(shard_verify(&s, &err), -1);
    assert_non_null(strstr(err.text, "is damaged: checksum"));
    shard_close(&s);
}

// ---- content against declaration ----------------------------------------------------------------

static void wide_ids_read_as_narrow_are_refused_on_opening(void **state)
{
    const char *path = t_path("int32.bin");

    (void)state;
    tokens_write_u32(path, 4000, 50280); // the published layer-wise-scaling runs
    refuses(path, TOKENS_U16,
            "zeros in its odd positions: it holds 32-bit ids; declare data.dtype");
    tokens_write_u32(path, 4000, 128256);
    refuses(path, TOKENS_U16, "odd positions: it holds 32-bit ids");
    tokens_write_u32(path, 4000, 27); // characters
    refuses(path, TOKENS_U16, "it holds 32-bit ids");
    tokens_write_u32(path, 4000, 257);
    refuses(path, TOKENS_U16, "it holds 32-bit ids");
}

static void narrow_ids_read_as_wide_are_refused_on_opening(void **state)
{
    const char *path = t_path("int16.bin");

    (void)state;
    tokens_write_u16(path, 4000, 50257);
    refuses(path, TOKENS_U32, "it holds 16-bit ids; declare data.dtype u16");
    tokens_write_u16(path, 4000, 257); // bytes: the pairs stay below 2^24
    refuses(path, TOKENS_U32, "it holds 16-bit ids");
}

static void wider_and_swapped_ids_are_named(void **state)
{
    const char *path = t_path("int64.bin");
    uint64_t ids64[1000];
    uint16_t swapped[2000];

    (void)state;
    for (int i = 0; i < 1000; i++)
        ids64[i] = 1 + tokens_word(7, i, 50000);
    tokens_write_bytes(path, ids64, sizeof ids64);
    refuses(path, TOKENS_U16, "it holds 64-bit ids");
    refuses(path, TOKENS_U32, "it holds 64-bit ids");
    for (int i = 0; i < 1000; i++) {
        swapped[2 * i] = 0;
        swapped[2 * i + 1] = (uint16_t)ids64[i];
    }
    tokens_write_bytes(path, swapped, sizeof swapped);
    refuses(path, TOKENS_U16, "high bytes first");
}

// ---- damage -------------------------------------------------------------------------------------

// Random changes of the header, the sidecar and the length never crash the reader; whatever opens
// can be audited and read to the end.
static void random_damage_is_survived(void **state)
{
    const char *path = t_path("fuzz.bin"), *json = t_path("fuzz.bin.json");
    uint64_t key = rng_key(11, "fuzz"), at = 0;
    struct buf tokens = {0}, side = {0};
    struct err err = ERR_INIT;
    int opened = 0;

    (void)state;
    tokens_write_two_documents(path);
    assert_int_equal(file_read(path, 1 << 20, &tokens, &err), 0);
    assert_int_equal(file_read(json, 1 << 20, &side, &err), 0);
    for (int i = 0; i < 1500; i++) {
        struct buf t = {0}, j = {0};
        struct audit a;
        struct shard s;

        buf_add(&t, tokens.data, tokens.len);
        buf_add(&j, side.data, side.len);
        for (uint64_t k = rng_u64(key, at++) % 4; k > 0; k--) // mostly the meaningful ints
            t.data[rng_u64(key, at) % (k % 2 ? 28 : t.len)] ^= (char)rng_u64(key, at + 1), at += 2;
        for (uint64_t k = rng_u64(key, at++) % 3; k > 0; k--, at += 2)
            j.data[rng_u64(key, at) % j.len] = (char)rng_u64(key, at + 1);
        if (rng_u64(key, at++) % 4 == 0)
            t.len = rng_u64(key, at++) % t.len;
        tokens_write_bytes(path, t.data, t.len);
        tokens_write_bytes(json, j.data, j.len);
        if (shard_open(&s, path, (enum token_dtype)(i % 3), &err) == 0) {
            opened++;
            audit_shard(&s, i % 2 ? 257 : 0, &a, &err);
            for (int64_t n = 0; n < s.n; n++)
                (void)shard_token(&s, n);
            shard_close(&s);
        } else {
            assert_true(err.text[0]);
        }
        buf_release(&t);
        buf_release(&j);
    }
    assert_true(opened > 20 && opened < 1400);
    buf_release(&tokens);
    buf_release(&side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_documents_are_read_back),
        cmocka_unit_test(files_have_the_documented_bytes),
        cmocka_unit_test(wide_vocabularies_get_32_bit_ids),
        cmocka_unit_test(writer_refuses_ids_outside_the_vocabulary),
        cmocka_unit_test(abandoned_writer_leaves_nothing),
        cmocka_unit_test(files_are_found_below_the_data_directory),
        cmocka_unit_test(llm_c_files_are_read),
        cmocka_unit_test(llm_c_sizes_are_checked),
        cmocka_unit_test(headerless_files_need_a_declared_type),
        cmocka_unit_test(sidecar_can_declare_a_headerless_file),
        cmocka_unit_test(other_formats_are_refused_by_name),
        cmocka_unit_test(datatrove_index_settles_the_width),
        cmocka_unit_test(megatron_index_settles_the_width),
        cmocka_unit_test(odd_files_are_refused),
        cmocka_unit_test(shrinking_file_is_noticed),
        cmocka_unit_test(damaged_tokens_fail_the_checksum),
        cmocka_unit_test(wide_ids_read_as_narrow_are_refused_on_opening),
        cmocka_unit_test(narrow_ids_read_as_wide_are_refused_on_opening),
        cmocka_unit_test(wider_and_swapped_ids_are_named),
        cmocka_unit_test(random_damage_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
