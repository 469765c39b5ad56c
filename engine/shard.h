// Token files. lathe writes the llm.c layout (1024-byte header, 16- or 32-bit ids) with two
// siblings: FILE.index (uint64 running document ends, in tokens) and FILE.json (tokenizer, source,
// source bytes, documents, split, seed, checksum). It reads llm.c files and headerless ids with a
// declared type. Mapped read-only; a shard may be used by several threads. docs/data.md has the
// layouts.
#ifndef ENGINE_SHARD_H
#define ENGINE_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/err.h"
#include "engine/spec.h"

// No known vocabulary comes near this size: larger ids mean a file read with the wrong type.
enum { SHARD_MAX_VOCAB = 1 << 21 };

struct shard {
    char path[SPEC_PATH_SIZE];
    int fd; // kept to notice a file that changes under the map, -1 = closed
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
    bool has_header;       // llm.c layout, else headerless
    bool has_crc;          // the sidecar names a checksum
    uint32_t crc;          // of all token bytes, as zlib's crc32
    char tokenizer[64], source[128];
};

// $LATHE_DATA, else "data".
const char *shard_data_dir(void);

// Opens path as given, or below the data directory when it is relative and not there. dtype is
// what the profile declares for headerless files; TOKENS_AUTO = nothing. Fails with the likely true
// layout when the content contradicts the declared type. s may be uninitialised; after a failure
// it needs no closing and s->path still says which file was looked at.
int shard_open(struct shard *s, const char *path, enum token_dtype dtype, struct err *err);
void shard_close(struct shard *s);

// Fails when the file was truncated or rewritten since it was opened. One fstat: call it before
// touching the map in every step, because reading behind the end of a mapped file kills a process.
int shard_check(const struct shard *s, struct err *err);

// A short text that tells these tokens from others wherever the file lies: their number and size, and
// a CRC-32 over 256 blocks of 4 KiB spread evenly from the first token to the last. Reads 1 MiB.
enum { SHARD_FINGERPRINT = 48 };
void shard_fingerprint(const struct shard *s, char out[SHARD_FINGERPRINT]);

// Reads all tokens and compares them with the sidecar's checksum. -1 also when there is none.
int shard_verify(const struct shard *s, struct err *err);

static inline uint32_t shard_token(const struct shard *s, int64_t i)
{
    return s->u16 ? s->u16[i] : s->u32[i];
}

// Layouts known by content or by a sibling file. shard_open reads the first two only.
enum shard_layout {
    LAYOUT_LLMC_U16,
    LAYOUT_LLMC_U32,
    LAYOUT_UNKNOWN, // headerless ids, or nothing known
    LAYOUT_LLMC_CHOICE,
    LAYOUT_LLMC_MODEL,
    LAYOUT_NPY,
    LAYOUT_MEGATRON_INDEX,
    LAYOUT_GZIP,
    LAYOUT_ZSTD,
    LAYOUT_PARQUET,
    LAYOUT_SAFETENSORS,
    LAYOUT_TEXT,
};
// Looks at the first n bytes of a file.
enum shard_layout shard_sniff(const void *head, size_t n);
// "gzip data", with what to do about it: "unpack it and run 'lathe data prepare'".
const char *shard_layout_name(enum shard_layout layout);
const char *shard_layout_advice(enum shard_layout layout);

// Writer used by `data prepare`: temporary names, fsync, rename of all three files at commit.
// The layout has 32-bit ids when vocab > 65536, else 16-bit ones.
struct shard_writer;
struct shard_meta {
    int vocab, eot;
    const char *tokenizer, *source, *license, *split;
    const char *recipe; // how it was prepared, one line; NULL = not recorded
    int64_t seed;
};
struct shard_writer *shard_create(const char *path, const struct shard_meta *meta, struct err *err);
// Appends one document's ids followed by end-of-text. Ids must be below vocab and not end-of-text.
int shard_add(struct shard_writer *w, const uint16_t *ids, int64_t n, int64_t source_bytes,
              struct err *err);
int shard_add32(struct shard_writer *w, const uint32_t *ids, int64_t n, int64_t source_bytes,
                struct err *err);
// Everything is on the disk under its temporary name afterwards: what can fail has failed. Lets
// several files be finished before the first is committed; shard_commit calls it when it was not.
int shard_finish(struct shard_writer *w, struct err *err);
int shard_commit(struct shard_writer *w, struct err *err); // frees w in every case
void shard_abort(struct shard_writer *w);                  // removes what was written; NULL is fine

// The sidecar's text member `key` of a token file ("" when absent). 0, or -1 without a sidecar.
int shard_sidecar_text(const char *path, const char *key, char *out, size_t out_size);

// llm.c's header: 256 int32, of which llm.c reads the first three and lathe also the others here.
enum { SHARD_HEADER_INTS = 256, SHARD_HEADER_SIZE = 1024 };
enum {
    SHARD_MAGIC_U16 = 20240520,
    SHARD_MAGIC_U32 = 20240801,
    SHARD_MARK = 0x6874616c, // "lath": the ints below are set
};
enum {
    SHARD_AT_MAGIC,
    SHARD_AT_VERSION, // 1 with 16-bit ids, 7 with 32-bit ones
    SHARD_AT_COUNT,   // tokens
    SHARD_AT_MARK,
    SHARD_AT_REVISION, // of these spare ints, 1
    SHARD_AT_VOCAB,
    SHARD_AT_EOT,
};

#endif
