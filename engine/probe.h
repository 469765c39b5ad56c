// One micro-batch through a model, written out whole: what it was computed with and what came of it.
// Anyone can then check lathe against another implementation (tests/parity does, with PyTorch).
//
// The file is safetensors, F32: logits (B, T, V), loss (1) = mean cross-entropy, loss_total (1) =
// with the regulariser of gates, every weight under its name, grad.NAME = the gradient of loss_total
// by it, and with gates gate.mean, gate.var (of the population), gate.sparsity (L/2 each).
// __metadata__.profile is the resolved profile as JSON. Sequence b is tokens b T .. b T + T of the
// file, the last one a target only; B = train.micro_batch_size, T = train.seq_len.
// With gate.attn = hard there are no gradients.
#ifndef ENGINE_PROBE_H
#define ENGINE_PROBE_H

#include "engine/err.h"
#include "engine/shard.h"
#include "engine/spec.h"
#include "kernels/backend.h"

struct probe {
    const struct spec *spec;
    struct backend *be;
    const struct shard *tokens; // NULL = write the weights only
    const char *weights;        // safetensors file, NULL = the initial ones, from train.seed
};
struct probe_result { // of what was written
    double loss, loss_total;
    int tensors;
};

// Fails when the tokens are too few or beyond the vocabulary, when a weight is missing, has another
// shape or belongs to another model (what a probe writes besides weights is skipped, so its output
// may be the next one's weights), when memory is short, when path cannot be written, and on a device
// error.
int probe_write(const struct probe *p, const char *path, struct probe_result *r, struct err *err);

#endif
