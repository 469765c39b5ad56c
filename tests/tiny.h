// Tiny models for tests: heterogeneous layers, and weights that make every gradient matter.
#ifndef TESTS_TINY_H
#define TESTS_TINY_H

#include "engine/model.h"
#include "engine/spec.h"

// 3 layers, width 12, heads 2/4/3 of 4 with 1/2/3 key/value heads, FFN 5/8/12, reuse 1/2/1,
// V = 11 padded to 16, 2 sequences of 5: pre, RMSNorm, RoPE, SwiGLU, tied.
struct spec tiny_spec(void);

// Every weight drawn anew: matrices with deviation 0.4, gains near 1, biases near 0.
void tiny_fill(struct model *m, uint64_t seed);

// N tokens and targets below vocab; one target in seven is -1.
void tiny_batch(const struct model *m, int vocab, uint64_t seed, int32_t *tokens, int32_t *targets);

// Backend or a failed test. Programs under the thread sanitizer use one thread: it cannot see
// OpenMP's barriers.
struct backend *tiny_backend(const char *name, int threads);

#endif
