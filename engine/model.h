// The decoder: weights, gradients and activations of one profile on one backend, and its forward
// and backward pass as straight lists of op calls. Every repetition of a layer (model.reuse) is a
// step with its own activations; the gradients of its weights add up over the repetitions.
//
// Memory is four blocks whose sizes model_plan() tells before anything is allocated: master weights
// (with a compute copy where the backend wants one), gradients, activations (with the backward
// scratch), and the optimizer's moments (owned by optim.h). Nothing is allocated in a step.
// One thread at a time, the one that drives the backend.
#ifndef ENGINE_MODEL_H
#define ENGINE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/err.h"
#include "engine/gate.h"
#include "engine/param.h"
#include "engine/spec.h"
#include "kernels/backend.h"

struct model;

// What a model is for decides what it keeps: TRAIN everything a backward pass needs, EVAL one layer at
// a time and no gradients, DECODE the keys and values of one sequence, one cache per repetition.
enum model_use { MODEL_TRAIN, MODEL_EVAL, MODEL_DECODE };

// Bytes of each block, exactly as model_new and optim_new will ask for them.
struct model_plan {
    int64_t weights;     // master weights
    int64_t compute;     // their copy in the activation type, 0 where the backend needs none
    int64_t gradients;   //
    int64_t moments;     // AdamW's m and v
    int64_t activations; // saved activations, statistics, backward scratch, one chunk of logits
    int64_t total;
    int64_t activations_recompute; // what activations would be with train.recompute layer
    int head_rows;                 // rows of one chunk of logits
};
struct model_sizes { // of the elements of a backend, see struct backend
    size_t act, f32;
    bool act_is_f32;
};
extern const struct model_sizes model_sizes_cpu; // f32 throughout
struct model_sizes model_sizes_of(const struct backend *be);

// Uses train.micro_batch_size, train.seq_len and train.recompute (auto counts as none). Any thread.
void model_plan_for(const struct spec *spec, enum model_use use, struct model_sizes sizes,
                    struct model_plan *plan);
void model_plan(const struct spec *spec, struct model_sizes sizes,
                struct model_plan *plan); // MODEL_TRAIN

// NULL with the block that did not fit and its size when memory is short. Weights are zero.
// The backend and (a copy of) the spec are used until model_free; the backend is not closed.
struct model *model_new(struct backend *be, const struct spec *spec, struct err *err);
// DECODE wants micro_batch_size 1.
struct model *model_new_for(struct backend *be, const struct spec *spec, enum model_use use,
                            struct err *err);
void model_free(struct model *m);

const struct param_list *model_params(const struct model *m);
struct backend *model_backend(const struct model *m);
int64_t model_rows(const struct model *m); // N = micro_batch_size * seq_len

// Asked between the layers of every pass, so that a command need not wait for a long micro-batch:
// true abandons the pass. It may block (pause); it may read weights but run no pass itself.
typedef bool model_poll(void *user);
void model_set_poll(struct model *m, model_poll *poll, void *user);

// Initial values of every tensor from (seed, name).
void model_init_weights(struct model *m, uint64_t seed);

// Adds the gradient of scale * (summed loss) to the gradients and returns the summed cross-entropy
// over the scored targets. tokens, targets: N ids each on the host; target -1 is not scored.
// Returns 0, 1 when the poll abandoned it (the gradients are then of no use), -1 on a device error.
int model_forward_backward(struct model *m, const int32_t *tokens, const int32_t *targets,
                           double scale, double *loss_sum, struct err *err);
// A model with gate.attn hard has no gradient: -1.
// The same loss without gradients.
int model_loss(struct model *m, const int32_t *tokens, const int32_t *targets, double *loss_sum,
               struct err *err);
void model_zero_gradients(struct model *m);
// The loss, and with it every row's logits: logits[N * V] on the host.
int model_logits(struct model *m, const int32_t *tokens, const int32_t *targets, float *logits,
                 double *loss_sum, struct err *err);

// ---- gates ----
// The regulariser enters the gradient as if it were part of the mean loss of its micro-batch: the
// gradient is that of scale * (summed loss + N * regulariser). Coefficients of L entries; at first
// those of the spec.
void model_set_penalty(struct model *m, const double *alpha, const double *beta);
// Of the last forward_backward: the regulariser's value, 0 without gates.
double model_penalty(const struct model *m);
// Of the last pass, one per gate (spec_gate_count).
const struct gate_stat *model_gate_stats(const struct model *m);
// Mean L2 norm of the stream that leaves each layer (after its last repetition in the last pass
// through the stack), of the last pass of a MODEL_TRAIN model: L values. Computed only here.
void model_stream_norms(struct model *m, double *norms);

// ---- one token after the other (MODEL_DECODE) ----
// Appends n tokens to the sequence and writes the logits of the last one (V, host). The position of
// the first is model_decoded(); at most seq_len positions: what does not fit is a BUG.
int model_decode(struct model *m, const int32_t *tokens, int n, float *logits, struct err *err);
int model_decoded(const struct model *m);
void model_decode_from(struct model *m, int position); // forgets what lies behind; 0 = all

// Named tensors between host and device. set also refreshes the compute copy.
void model_set_weight(struct model *m, const struct param *p, const float *src);
void model_get_weight(struct model *m, const struct param *p, float *dst);
void model_get_gradient(struct model *m, const struct param *p, float *dst);

// Blocks of params->block_size elements, for the optimizer; compute is NULL where the weights
// themselves are used.
struct f32 *model_weights(struct model *m);
struct f32 *model_gradients(struct model *m);
struct act *model_compute_copy(struct model *m);
void model_weights_changed(struct model *m); // after writing to model_weights() directly

// Names the first tensor that holds a NaN or an infinity: in the order of the forward pass, each
// layer's weights before what is computed with them, and then the gradients in the order of the
// backward pass. "layer 3 mlp.gate_up", "weight model.norm.weight", "grad of lm_head.weight".
// Returns false (and "") when everything is finite. Valid after forward_backward or loss.
bool model_first_nonfinite(struct model *m, char *name, size_t size);

// Rows per chunk of logits from now on, for tests; 1 <= rows <= plan.head_rows.
void model_set_head_rows(struct model *m, int rows);

// GFLOP/s of square matrix products through the backend: the ceiling a step is compared with.
// Takes the largest size up to n_max that fits the time given. 0 when there is no memory for it.
double model_gemm_gflops(struct backend *be, int n_max, double seconds);

#endif
