// Shared by the shard_*.c files only.
#ifndef ENGINE_SHARD_INTERNAL_H
#define ENGINE_SHARD_INTERNAL_H

#include "engine/shard.h"

// What FILE.json says. Without a sidecar: all unknown.
struct shard_sidecar {
    enum token_dtype dtype; // TOKENS_AUTO = not said
    int64_t vocab, eot;     // 0, -1 = not said
    int64_t tokens;         // -1 = not said
    int64_t documents, source_bytes;
    bool has_crc;
    uint32_t crc;
    char tokenizer[64], source[128];
};
int shard_read_sidecar(const char *path, struct shard_sidecar *c, struct err *err);

// Refuses a headerless file when a datatrove or Megatron index beside it says another width than
// declared, or when nothing was declared.
int shard_check_siblings(const char *path, int64_t size, enum token_dtype declared,
                         struct err *err);

#endif
