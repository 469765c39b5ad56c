// The data audit that runs before training: does the file hold what its reader will see?
// Catches 32-bit ids read as 16-bit (the published layer-wise-scaling runs), 16-bit read as 32-bit,
// ids outside the vocabulary, constant runs and missing document ends. Bounded: at most
// AUDIT_MAX_TOKENS are looked at, in evenly spaced blocks when the file has more.
#ifndef ENGINE_AUDIT_H
#define ENGINE_AUDIT_H

#include <jansson.h>
#include <stdbool.h>

#include "engine/err.h"
#include "engine/shard.h"

enum { AUDIT_MAX_TOKENS = 1 << 26, AUDIT_COMMON = 8 };

struct audit_id {
    uint32_t id;
    int64_t count;
};

struct audit {
    int64_t tokens, documents; // documents: as the sidecar says, 0 = unknown
    int64_t scanned;           // tokens looked at
    int vocab; // what ids were held against: the model's, else the shard's, 0 = none
    uint32_t max_id, most_common;
    double most_common_share;
    struct audit_id common[AUDIT_COMMON]; // most common first, count 0 = fewer kinds
    int64_t kinds;                        // different ids seen
    double entropy_even, entropy_odd;     // bits, unigram, of even and odd positions
    double even_low, odd_low;             // share of ids below 32: what high halves look like
    int64_t longest_run;                  // of one id, within a block
    int64_t longest_run_at;               // its position
    uint32_t longest_run_id;
    int64_t beyond_vocab; // ids >= vocab
    int64_t beyond_at;    // position of the first, -1 = none
    int64_t ends;         // end-of-text ids seen, -1 = unknown which id that is
    bool ok;
    char verdict[512]; // why it is refused, or "" / warnings
};

// vocab: the model's, 0 = unknown. Fills a; returns 0 when the file may be trained on, -1 with the
// reason.
int audit_shard(const struct shard *s, int vocab, struct audit *a, struct err *err);
json_t *audit_to_json(const struct shard *s, const struct audit *a);

#endif
