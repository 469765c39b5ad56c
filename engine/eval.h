// Loss over a token file. Windows of T targets; without a stride they follow each other and cover
// every target once. Each window starts without context, so the figure is an upper bound of the
// loss with context.
//
// Bits per byte count the source bytes behind the scored tokens: exactly for byte-level shards
// (an id below 256 is one byte; end-of-text is scored but carries no byte), otherwise by the
// shard's ratio of source bytes to tokens; NaN where that is unknown. Every byte counts the same,
// however the loss is averaged.
#ifndef ENGINE_EVAL_H
#define ENGINE_EVAL_H

#include <stdint.h>

#include "engine/err.h"
#include "engine/loader.h"
#include "engine/model.h"

enum eval_avg {
    EVAL_AVG_TOKEN, // every scored token counts the same
    EVAL_AVG_CHUNK, // the mean of the windows' means: tokens of a short last window count more
};

struct eval_options {
    int64_t max_tokens; // targets to score, the first ones; 0 = all
    enum eval_avg avg;
    int norm_layers; // n_layers of a MODEL_TRAIN model whose stream is to be measured, 0 = don't
    void (*progress)(void *user, double share); // after each batch; may be NULL
    void *user;
};

struct eval_result {
    double loss; // mean cross-entropy in nats
    double ppl;  // exp(loss)
    double bpb;
    int64_t tokens; // scored
    int64_t windows;
    // What the layers did in the whole micro-batches, or in the first when there is no whole one: its
    // empty rows then repeat its text. One per gate (spec_gate_count), one per layer.
    struct gate_stat gate[SPEC_MAX_LAYERS / 2];
    double norm[SPEC_MAX_LAYERS]; // model_stream_norms, where asked for
};

// Scores the loader's windows. Returns 0, 1 when the model's poll abandoned it (out untouched), -1 on
// a device error or when the file shrank. A loss that is not finite is returned like any other.
int eval_score(struct model *m, const struct loader *l, const struct eval_options *o,
               struct eval_result *out, struct err *err);
// The same by tokens, without progress.
int eval_run(struct model *m, const struct loader *l, int64_t max_tokens, struct eval_result *out,
             struct err *err);

#endif
