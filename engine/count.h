// Parameters, FLOPs and memory of a profile, per layer and in total.
// FLOPs: the house standard of the design notes (architectures.md §5.1): matmuls only, one
// multiply-add = 2 FLOPs, forward per token:
//   lin_i  = 2 d (2 q_i + 2 k_i) + 6 d f_i   (SwiGLU; 4 d f_i for a two-matrix FFN)
//   attn_i = 4 q_i S  (full square)  or  2 q_i (S + 1)  (causal mean)
//   head   = 2 d V;   F_fwd = sum r_i (lin_i + attn_i) + head;   F_train = 3 F_fwd
// Parameters are summed from the list of param.h, so counting cannot differ from what is trained.
//
// Memory: 4 bytes (f32) each for weights, gradients and AdamW's two moments, and activations of the
// CPU backend in f32, for N = micro_batch_size * seq_len rows, f32 elements per row:
//   every repetition of layer i, kept for its backward:
//     4 d                        stream and normalized stream (or branches, reordered), twice
//     (q + 2 k) + q + n_q        q, k, v; attention's output; log-sum-exp
//     (q + k) + norms            QK-norm's output and 1/rms (one per head or per row)
//     w + f                      FFN input (w = 2 f for SwiGLU, else f) and activation
//     2                          1/rms of the two norms (LayerNorm: 4, with the mean)
//   once: 5 d (embedded, final norm, three gradients), final norm's statistics, 4 (token, target,
//     position, loss), RoPE tables of S * head_dim in all
//   backward scratch, shared by all layers: the largest of  q + 2k (twice with QK-norm) + q,
//     w + f  and  one chunk of logits (V per row, COUNT_LOGITS_BYTES or 256 rows, 1,024 rows where
//     d < 512)
// The model may round each tensor up to 64 bytes.
#ifndef ENGINE_COUNT_H
#define ENGINE_COUNT_H

#include <jansson.h>
#include <stdint.h>

#include "engine/spec.h"

enum { COUNT_LOGITS_BYTES = 16 << 20 };

struct count_layer {
    int64_t params;
    double forward_flops; // per token, full square, repetitions included
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
    int64_t weights_bytes, gradients_bytes, optimizer_bytes;
    int64_t activations_bytes;  // one micro-batch of micro_batch_size x seq_len, CPU f32 backend
    int64_t kv_bytes_per_token; // f32 keys and values of all layers and repetitions
    struct count_layer layer[SPEC_MAX_LAYERS]; // first n_layers entries are set
};

// Any thread, no allocation kept. A 36-layer model takes well under a tenth of a millisecond, so
// that every key of the drawing can count anew. spec must be valid (profile_validate). With tied
// embeddings the table counts once in total and not at all in non_embedding.
void count_model(const struct spec *spec, struct count *out);

// The object that `lathe count --json` prints; new reference. FLOPs are whole numbers.
//   {name, n_layers, d_model,
//    params: {total, non_embedding, non_embedding_no_head},
//    flops: {forward_per_token, forward_per_token_causal, train_per_token},
//    memory: {weights_bytes, gradients_bytes, optimizer_bytes, activations_bytes,
//             kv_bytes_per_token},
//    layers: [{n_heads, n_kv_heads, ffn_width, reuse, gate, params, forward_flops}]}
json_t *count_to_json(const struct spec *spec, const struct count *c);

#endif
