#include "tests/tokens.h"

#include "tests/t.h"

#include "engine/buf.h"
#include "engine/rng.h"

void tokens_write_bytes(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

uint32_t tokens_word(uint64_t key, int64_t i, int vocab)
{
    double u = rng_uniform(key, (uint64_t)i);

    return (uint32_t)(u * u * u * vocab);
}

void tokens_write_u16(const char *path, int64_t n, int vocab)
{
    uint16_t *ids = xmalloc((size_t)n * sizeof *ids);

    for (int64_t i = 0; i < n; i++)
        ids[i] = (uint16_t)tokens_word(7, i, vocab);
    tokens_write_bytes(path, ids, (size_t)n * sizeof *ids);
    free(ids);
}

void tokens_write_u32(const char *path, int64_t n, int vocab)
{
    uint32_t *ids = xmalloc((size_t)n * sizeof *ids);

    for (int64_t i = 0; i < n; i++)
        ids[i] = tokens_word(7, i, vocab);
    tokens_write_bytes(path, ids, (size_t)n * sizeof *ids);
    free(ids);
}

const struct shard_meta tokens_byte_meta = {.vocab = 257,
                                            .eot = 256,
                                            .tokenizer = "bytes",
                                            .source = "test",
                                            .license = "none",
                                            .split = "train",
                                            .seed = 5};

void tokens_write_two_documents(const char *path)
{
    const uint16_t a[] = {'a', 'b', 'c'}, b[] = {'d'};
    struct err err = ERR_INIT;
    struct shard_writer *w = shard_create(path, &tokens_byte_meta, &err);

    assert_non_null(w);
    assert_int_equal(shard_add(w, a, 3, 3, &err), 0);
    assert_int_equal(shard_add(w, b, 1, 1, &err), 0);
    assert_int_equal(shard_commit(w, &err), 0);
}
