// Token files: written and read back, refused by name, judged before training.
#include "tests/t.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "engine/audit.h"
#include "engine/buf.h"
#include "engine/file.h"
#include "engine/rng.h"
#include "engine/shard.h"

// ---- helpers ------------------------------------------------------------------------------------

static void write_bytes(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

// Ids of a made-up language: skewed, all below vocab.
static uint32_t word(uint64_t key, int64_t i, int vocab)
{
    double u = rng_uniform(key, (uint64_t)i);

    return (uint32_t)(u * u * u * vocab);
}

static void write_u16(const char *path, int64_t n, int vocab)
{
    uint16_t *ids = xmalloc((size_t)n * sizeof *ids);

    for (int64_t i = 0; i < n; i++)
        ids[i] = (uint16_t)word(7, i, vocab);
    write_bytes(path, ids, (size_t)n * sizeof *ids);
    free(ids);
}

static void write_u32(const char *path, int64_t n, int vocab)
{
    uint32_t *ids = xmalloc((size_t)n * sizeof *ids);

    for (int64_t i = 0; i < n; i++)
        ids[i] = word(7, i, vocab);
    write_bytes(path, ids, (size_t)n * sizeof *ids);
    free(ids);
}

// An llm.c file as llm.c's own scripts write it: nothing behind the third int.
static void write_llmc(const char *path, int32_t magic, int32_t version, int32_t count,
                       const void *ids, size_t size)
{
    int32_t h[256] = {magic, version, count};
    struct buf b = {0};

    buf_add(&b, h, sizeof h);
    buf_add(&b, ids, size);
    write_bytes(path, b.data, b.len);
    buf_release(&b);
}

static const struct shard_meta byte_meta = {.vocab = 257,
                                            .eot = 256,
                                            .tokenizer = "bytes",
                                            .source = "test",
                                            .license = "none",
                                            .split = "train",
                                            .seed = 5};

static void write_two_documents(const char *path)
{
    const uint16_t a[] = {'a', 'b', 'c'}, b[] = {'d'};
    struct err err = ERR_INIT;
    struct shard_writer *w = shard_create(path, &byte_meta, &err);

    assert_non_null(w);
    assert_int_equal(shard_add(w, a, 3, 3, &err), 0);
    assert_int_equal(shard_add(w, b, 1, 1, &err), 0);
    assert_int_equal(shard_commit(w, &err), 0);
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
    write_two_documents(t_path("two.bin"));
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
    write_two_documents(t_path("bytes.bin"));
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
    struct shard_meta meta = byte_meta;
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
    struct shard_writer *w = shard_create(t_path("ids.bin"), &byte_meta, &err);

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
    w = shard_create(path, &byte_meta, &err);
    assert_int_equal(shard_add(w, &id, 1, 1, &err), 0);
    shard_abort(w);
    assert_int_equal(rmdir(dir), 0); // empty
    assert_null(shard_create(path, &byte_meta, &err));
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
    write_two_documents(t_path("corpora/t.bin"));
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
    write_u16(path, 1001, 50257);
    refuses(path, TOKENS_AUTO, "must be declared: data.dtype");
    accepts(path, TOKENS_U16, 1001);
    refuses(path, TOKENS_U32, "no multiple of 4");
    write_u32(path, 1000, 50257);
    accepts(path, TOKENS_U32, 1000);
}

static void sidecar_can_declare_a_headerless_file(void **state)
{
    const char *path = t_path("declared.bin"), *json = t_path("declared.bin.json");
    struct err err = ERR_INIT;
    struct shard s;

    (void)state;
    write_u16(path, 1000, 50257);
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
        write_bytes(path, known[i].head, known[i].n);
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
    write_u16(path, 1000, 50257);
    write_bytes(t_path("d.ds.index"), ends, sizeof ends);
    refuses(path, TOKENS_AUTO,
            "datatrove token file ('.index' beside it) with 16-bit ids; declare");
    refuses(path, TOKENS_U32, "set data.dtype to u16");
    accepts(path, TOKENS_U16, 1000);
    write_u32(path, 1000, 128256);
    refuses(path, TOKENS_U16, "set data.dtype to u32");
    accepts(path, TOKENS_U32, 1000);
}

static void megatron_index_settles_the_width(void **state)
{
    unsigned char idx[34] = "MMIDIDX\0\0\1";

    (void)state;
    write_u16(t_path("m.bin"), 1000, 50257);
    idx[16] = 8;
    write_bytes(t_path("m.idx"), idx, sizeof idx);
    refuses(t_path("m.bin"), TOKENS_AUTO, "Megatron token file ('.idx' beside it) with 16-bit ids");
    accepts(t_path("m.bin"), TOKENS_U16, 1000);
    idx[16] = 5; // int64
    write_bytes(t_path("m.idx"), idx, sizeof idx);
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
    write_bytes(empty, "", 0);
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
    write_u16(path, 100000, 50257);
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
    write_two_documents(path);
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
    write_u32(path, 4000, 50280); // the published layer-wise-scaling runs
    refuses(path, TOKENS_U16,
            "zeros in its odd positions: it holds 32-bit ids; declare data.dtype");
    write_u32(path, 4000, 128256);
    refuses(path, TOKENS_U16, "odd positions: it holds 32-bit ids");
    write_u32(path, 4000, 27); // characters
    refuses(path, TOKENS_U16, "it holds 32-bit ids");
    write_u32(path, 4000, 257);
    refuses(path, TOKENS_U16, "it holds 32-bit ids");
}

static void narrow_ids_read_as_wide_are_refused_on_opening(void **state)
{
    const char *path = t_path("int16.bin");

    (void)state;
    write_u16(path, 4000, 50257);
    refuses(path, TOKENS_U32, "it holds 16-bit ids; declare data.dtype u16");
    write_u16(path, 4000, 257); // bytes: the pairs stay below 2^24
    refuses(path, TOKENS_U32, "it holds 16-bit ids");
}

static void wider_and_swapped_ids_are_named(void **state)
{
    const char *path = t_path("int64.bin");
    uint64_t ids64[1000];
    uint16_t swapped[2000];

    (void)state;
    for (int i = 0; i < 1000; i++)
        ids64[i] = 1 + word(7, i, 50000);
    write_bytes(path, ids64, sizeof ids64);
    refuses(path, TOKENS_U16, "it holds 64-bit ids");
    refuses(path, TOKENS_U32, "it holds 64-bit ids");
    for (int i = 0; i < 1000; i++) {
        swapped[2 * i] = 0;
        swapped[2 * i + 1] = (uint16_t)ids64[i];
    }
    write_bytes(path, swapped, sizeof swapped);
    refuses(path, TOKENS_U16, "high bytes first");
}

// ---- audit --------------------------------------------------------------------------------------

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
        ids[i] = (uint16_t)(1 + word(7, i, 50279));
    audit_refuses(&s, 50280, "32-bit ids are being read as 16-bit ids");
    assert_int_equal(audit_shard(&s, 50280, &a, &err), -1);
    assert_near(a.entropy_odd, 0, 1e-12);
    assert_near(a.most_common_share, 0.5, 0.001);
    for (int i = 0; i < N; i += 2) // a 128k vocabulary: the high halves are 0 and 1
        ids[i + 1] = word(9, i, 2) > 0;
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
        ids[i] = (uint16_t)(32 + word(7, i, 90));
    memset(ids + N / 2, 0, N / 2 * sizeof *ids); // a copy that stopped half-way
    audit_refuses(&s, 257, "id 0 stands 20000 times in a row from token 20000");
    for (int i = N / 2; i < N; i++)
        ids[i] = (uint16_t)(32 + word(7, i, 90));
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
    write_two_documents(t_path("honest.bin"));
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
    write_u16(path, 1 << 20, 50257);
    assert_int_equal(truncate(path, 400000000), 0);
    assert_int_equal(shard_open(&s, path, TOKENS_U16, &err), 0);
    assert_int_equal(audit_shard(&s, 50257, &a, &err), -1);
    assert_true(a.scanned > AUDIT_MAX_TOKENS / 2 && a.scanned <= AUDIT_MAX_TOKENS);
    assert_int_equal(a.tokens, 200000000);
    shard_close(&s);
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
    write_two_documents(path);
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
        write_bytes(path, t.data, t.len);
        write_bytes(json, j.data, j.len);
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
        cmocka_unit_test(audit_counts_what_is_there),
        cmocka_unit_test(audit_refuses_halves_of_wide_ids),
        cmocka_unit_test(audit_refuses_ids_beyond_the_vocabulary),
        cmocka_unit_test(audit_refuses_constants_holes_and_missing_ends),
        cmocka_unit_test(audit_accepts_small_honest_files),
        cmocka_unit_test(audit_of_a_large_file_is_bounded),
        cmocka_unit_test(random_damage_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
