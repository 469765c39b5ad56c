// Token files for the tests.
#ifndef TESTS_TOKENS_H
#define TESTS_TOKENS_H

#include <stdint.h>

#include "engine/shard.h"

void tokens_write_bytes(const char *path, const void *data, size_t n);
// Id i of a made-up language: skewed towards small ids, all below vocab.
uint32_t tokens_word(uint64_t key, int64_t i, int vocab);
// Headerless files of n such ids.
void tokens_write_u16(const char *path, int64_t n, int vocab);
void tokens_write_u32(const char *path, int64_t n, int vocab);

// 257 byte-level ids.
extern const struct shard_meta tokens_byte_meta;
// "abc" and "d", six tokens, through the writer.
void tokens_write_two_documents(const char *path);

#endif
