// Token files. lathe writes the llm.c layout (1024-byte header, 16- or 32-bit ids) with two
// siblings: NAME.index (uint64 running document ends, in tokens) and NAME.json (tokenizer, source,
// source bytes, documents, split, seed). It reads llm.c files and headerless ids with a declared
// type. Mapped read-only; a shard may be used by several threads.
#ifndef ENGINE_SHARD_H
#define ENGINE_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/err.h"
#include "engine/spec.h"

struct shard {
    char path[SPEC_PATH_SIZE];
    const void *map;
    size_t map_size;
    const uint16_t *u16; // one of these two is set
    const uint32_t *u32;
    int64_t n;             // tokens
    int vocab;             // from header or sidecar, 0 = unknown
    int eot;               // end-of-text id, -1 = unknown
    int64_t documents;     // 0 = unknown
    int64_t source_bytes;  // bytes of text behind the tokens, 0 = unknown
    bool bytes_are_tokens; // byte-level: every id < 256 is one source byte
    char tokenizer[64], source[128];
};

// Opens path as given, or below the data directory ($LATHE_DATA, else ./data) when it is relative
// and not there. Fails with the likely true layout when the content contradicts the declared type.
int shard_open(struct shard *s, const char *path, enum token_dtype dtype, struct err *err);
void shard_close(struct shard *s);

static inline uint32_t shard_token(const struct shard *s, int64_t i)
{
    return s->u16 ? s->u16[i] : s->u32[i];
}

// Writer used by `data prepare`: temporary names, fsync, rename of all three files at commit.
struct shard_writer;
struct shard_meta {
    int vocab, eot;
    const char *tokenizer, *source, *license, *split;
    int64_t seed;
};
struct shard_writer *shard_create(const char *path, const struct shard_meta *meta, struct err *err);
// Appends one document's ids followed by end-of-text.
int shard_add(struct shard_writer *w, const uint16_t *ids, int64_t n, int64_t source_bytes,
              struct err *err);
int shard_commit(struct shard_writer *w, struct err *err); // frees w in every case
void shard_abort(struct shard_writer *w);

#endif
