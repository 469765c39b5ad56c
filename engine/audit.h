// The data audit that runs before training: does the file hold what its reader will see?
// Catches 32-bit ids read as 16-bit (the published layer-wise-scaling runs), 16-bit read as 32-bit,
// ids outside the vocabulary, constant runs and missing document ends.
#ifndef ENGINE_AUDIT_H
#define ENGINE_AUDIT_H

#include <jansson.h>
#include <stdbool.h>

#include "engine/err.h"
#include "engine/shard.h"

struct audit {
    int64_t tokens, documents;
    int64_t scanned; // tokens looked at
    uint32_t max_id, most_common;
    double most_common_share;
    double entropy_even, entropy_odd; // bits, unigram, of even and odd positions
    int64_t longest_run;              // of one id
    int64_t beyond_vocab;             // ids >= vocab
    bool ok;
    char verdict[512]; // why it is refused, or "" / warnings
};

// vocab: the model's. Fills a; returns 0 when the file may be trained on, -1 with the reason.
int audit_shard(const struct shard *s, int vocab, struct audit *a, struct err *err);
json_t *audit_to_json(const struct shard *s, const struct audit *a);

#endif
