// Parameters, FLOPs and memory of a profile, per layer and in total.
// FLOPs: the house standard of the design notes (architectures.md §5.1): matmuls only, one
// multiply-add = 2 FLOPs, forward per token:
//   lin_i  = 2 d (2 q_i + 2 k_i) + 6 d f_i   (SwiGLU; 4 d f_i for a two-matrix FFN)
//   attn_i = 4 q_i S  (full square)  or  2 q_i (S + 1)  (causal mean)
//   head   = 2 d V;   gates = 2 d per gate unit
//   F_fwd  = sum r_i (lin_i + attn_i) + head + gates;   F_train = 3 F_fwd
// r_i counts every repetition in every pass through the stack: model.reuse * model.block_loops. A gate
// unit (2 d) runs once, in the layer's first repetition of the first pass.
// Parameters are summed from the list of param.h and memory is what model.h plans, so that counting
// cannot differ from what is trained. Other conventions for FLOPs: flops.h.
#ifndef ENGINE_COUNT_H
#define ENGINE_COUNT_H

#include <jansson.h>
#include <stdint.h>

#include "engine/spec.h"

// Of one repetition of a layer, forward, per token.
struct count_terms {
    double lin;         // all matrices of the layer,
    double keys_values; // of it those of keys and values: 4 d k
    double attn, attn_causal;
};
struct count_terms count_terms(const struct spec *spec, int layer);
// How often a layer runs in a forward pass: its repetitions in all passes through the stack.
static inline double count_runs(const struct model_spec *m, int layer)
{
    return (double)m->lane[LANE_REUSE][layer] * m->block_loops;
}

struct count_layer {
    int64_t params;
    double forward_flops; // per token, full square, all repetitions; without its gate unit
    double forward_flops_causal;
};

struct count {
    int64_t total;                 // all parameters
    int64_t non_embedding;         // total - V*d - position table; keeps the output matrix
    int64_t non_embedding_no_head; // also without an untied output matrix
    double forward_per_token;      // full-square attention
    double forward_per_token_causal;
    double train_per_token;
    double head_flops; // of the output matrix, part of both forward numbers
    double gate_flops; // of all gate units, likewise
    // As model_new and optim_new ask for it on the CPU backend (f32): one micro-batch of
    // micro_batch_size x seq_len, with train.recompute as the spec has it (auto counts as none).
    int64_t weights_bytes, gradients_bytes, optimizer_bytes;
    int64_t activations_bytes;
    int64_t activations_recompute_bytes; // with train.recompute layer, whatever the spec has
    int64_t kv_bytes_per_token;          // f32 keys and values, one pair per repetition of a layer
    struct count_layer layer[SPEC_MAX_LAYERS]; // first n_layers entries are set
};

// Any thread, no allocation kept. A 36-layer model takes about a tenth of a millisecond, so that
// every key of the drawing can count anew. spec must be valid (profile_validate). With tied
// embeddings the table counts once in total and not at all in non_embedding.
void count_model(const struct spec *spec, struct count *out);

// The object that `lathe count --json` prints; new reference. FLOPs are whole numbers.
//   {name, n_layers, d_model, block_loops, gate_units,
//    params: {total, non_embedding, non_embedding_no_head},
//    flops: {forward_per_token, forward_per_token_causal, train_per_token},
//    memory: {weights_bytes, gradients_bytes, optimizer_bytes, activations_bytes,
//             activations_recompute_bytes, kv_bytes_per_token},
//    layers: [{n_heads, n_kv_heads, ffn_width, reuse, gate, params, forward_flops}]}
// gate: whether a gate acts on the layer (gate i on layers i and L-1-i). With --flops the command adds
// flops_alternatives: {NAME: what flops_to_json gives}.
json_t *count_to_json(const struct spec *spec, const struct count *c);

#endif
