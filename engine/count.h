// Parameters, FLOPs and memory of a profile, per layer and in total.
// FLOPs: the house standard of the design notes (architectures.md §5.1): matmuls only, one
// multiply-add = 2 FLOPs, forward per token:
//   lin_i  = 2 d (2 q_i + 2 k_i) + 6 d f_i   (SwiGLU; 4 d f_i for a two-matrix FFN)
//   attn_i = 4 q_i S  (full square)  or  2 q_i (S + 1)  (causal mean)
//   head   = 2 d V;   F_fwd = sum r_i (lin_i + attn_i) + head;   F_train = 3 F_fwd
#ifndef ENGINE_COUNT_H
#define ENGINE_COUNT_H

#include <jansson.h>
#include <stdint.h>

#include "engine/spec.h"

struct count_layer {
    int64_t params;
    double forward_flops; // per token, full square, repetitions included
};

struct count {
    int64_t total;                 // all parameters
    int64_t non_embedding;         // total - V*d - position table; keeps the output matrix
    int64_t non_embedding_no_head; // also without an untied output matrix
    double forward_per_token;      // full-square attention
    double forward_per_token_causal;
    double train_per_token;
    int64_t weights_bytes, gradients_bytes, optimizer_bytes;
    int64_t activations_bytes;  // one micro-batch of micro_batch_size x seq_len, CPU f32 backend
    int64_t kv_bytes_per_token; // f32 keys and values of all layers and repetitions
    struct count_layer layer[SPEC_MAX_LAYERS];
};

void count_model(const struct spec *spec, struct count *out); // any thread, no allocation kept
json_t *count_to_json(const struct spec *spec, const struct count *c); // the documented object

#endif
