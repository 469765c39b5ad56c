// FLOPs that the gates leave to do (architectures.md §5.1), beside the executed ones of count.h.
#ifndef ENGINE_COUNT_ACTIVE_H
#define ENGINE_COUNT_ACTIVE_H

#include "engine/spec.h"

// Training FLOPs per token, house standard with full-square attention, if layer i ran only for the
// share p_i = 1 - sparsity[i] of the tokens (L entries):
//   3 (sum r_i (p_i lin_i + a_i attn_i) + head + gates), gates = 2 d each
// a_i = p_i^2 where skipped tokens are no keys (gate.attn key, hard), else p_i; then (off,
// query_noop) their keys and values are needed all the same and 4 d k_i of lin_i is never saved.
double count_active_train_flops(const struct spec *s, const double *sparsity);

#endif
