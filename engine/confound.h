// What differs between two designs besides what was meant to: each entry is a reason not to credit
// the shape for a difference in the result (objections A1 and A3 of the notes). Any thread.
#ifndef ENGINE_CONFOUND_H
#define ENGINE_CONFOUND_H

#include "engine/count.h"
#include "engine/spec.h"

enum confound_kind {
    CONFOUND_DEPTH,
    CONFOUND_WIDTH, // of the stream
    CONFOUND_PARAMS,
    CONFOUND_FLOPS,
    CONFOUND_TRAIN_FLOPS,
    CONFOUND_TOKENS,
    CONFOUND_DATA,
    CONFOUND_TOKENIZER,
    CONFOUND_POSITIONS,
    CONFOUND_ARCHITECTURE, // norms, activation, biases, gates, …
    CONFOUND_OPTIMIZER,
    CONFOUND_INIT,
    CONFOUND_SEED,
    CONFOUND_EVALUATION,
    CONFOUND_KINDS
};

struct confound {
    enum confound_kind kind;
    bool severe;    // a verdict on the shape means nothing while it stands
    char text[160]; // "depth differs: 12 and 18 layers"
    const char *remedy;
};

struct confounds {
    struct confound v[CONFOUND_KINDS]; // severe ones first
    int n, severe;
    bool same_shape; // and the shape is the same too
};

// Parameters and FLOPs count when they differ by more than this share of a's.
#define CONFOUND_TOLERANCE 0.01

// The intended variable is the shape: widths, heads, kv heads and repetitions per layer.
void confounds_between(const struct spec *a, const struct count *ca, const struct spec *b,
                       const struct count *cb, struct confounds *out);

// Whether a key means something else in b.
bool confound_key_differs(const struct spec_key *key, const struct spec *a, const struct spec *b);

#endif
