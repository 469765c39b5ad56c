// The choice of the next token from a row of logits. The draw depends on (seed, position) alone: the
// same seed gives the same text, whatever came before. Any thread; one allocation per call.
#ifndef ENGINE_SAMPLER_H
#define ENGINE_SAMPLER_H

#include <stdint.h>

#include "engine/err.h"

struct sampler {
    int vocab;          // ids below this can be drawn; a padded table's further rows never are
    double temperature; // logits are divided by it; 0 = the largest one, the lowest id of equals
    int top_k;          // only the k largest; of equals those with the lowest ids. 0 = all
    uint64_t seed;
};

// The id at `position`, and in *logprob (may be NULL) its log probability under the model itself:
// temperature 1, all ids. -1 when a logit is NaN or +infinity or none is finite.
int sampler_next(const struct sampler *s, const float *logits, int64_t position, double *logprob,
                 struct err *err);

#endif
