// Loss over a validation set. Windows of T targets that follow each other cover every target once;
// each window starts without context, so the figure is an upper bound of the loss with context.
//
// Bits per byte count the source bytes behind the scored tokens: exactly for byte-level shards
// (an id below 256 is one byte; end-of-text is scored but carries no byte), otherwise by the
// shard's ratio of source bytes to tokens; NaN where that is unknown.
#ifndef ENGINE_EVAL_H
#define ENGINE_EVAL_H

#include <stdint.h>

#include "engine/err.h"
#include "engine/loader.h"
#include "engine/model.h"

struct eval_result {
    double loss; // mean cross-entropy in nats
    double ppl;  // exp(loss)
    double bpb;
    int64_t tokens; // scored
};

// Scores the first max_tokens targets (0 = all). Returns 0, 1 when the model's poll abandoned it (out
// untouched), -1 on a device error. A loss that is not finite is returned like any other.
int eval_run(struct model *m, const struct loader *l, int64_t max_tokens, struct eval_result *out,
             struct err *err);

#endif
