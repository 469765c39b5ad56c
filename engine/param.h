// The one list of a model's weight tensors: names, shapes, initial values, weight decay. Counting,
// initialisation, the optimizer, checkpoints and export all walk this list.
// Names are the hub's (Llama/OLMo2/GPT-2-like: model.layers.i.self_attn.q_proj.weight, …), linear
// weights are [out, in]. q, k, v of a layer follow each other without a gap, as do gate and up, and
// the biases of each group, so that a group can be used as one fused matrix. Any thread.
//
// Norms of a layer: of the input of attention and FFN (pre and sandwich), of their output (reordered
// and sandwich). The hub has one name for two places: post_attention_layernorm is the FFN's input
// norm in pre-norm layers and the attention's output norm elsewhere; sandwich layers call the FFN's
// input norm pre_feedforward_layernorm.
// Biases (model.bias): every linear layer but lm_head, and LayerNorm; RMSNorm and QK-norm have none.
//
// Initial values: gains 1, biases 0; the matrices by model.init:
//   normal     N(0, init_std)
//   truncated  the same, cut at 3 standard deviations (OLMo2)
//   openelm    N(0, fan_in^-1/2); the embeddings N(0, d^-1/2); attention's and the FFN's output
//              matrices N(0, d^-1/2 (2L)^-1/2)
//   depth_scale: with normal and truncated, attention's and the FFN's output matrices get
//              init_std / sqrt(2L) (GPT-2)
// Gate units (gate.enabled, layers below L/2): weights like the matrices, or zero (gate.init).
// Weight decay by optim.decay_scope:
//   matrices       every tensor with two dimensions, the embeddings included (nanoGPT)
//   not_embedding  everything, gains and biases too, but the input embeddings (token and position
//                  table; paper A)
//   all            everything
#ifndef ENGINE_PARAM_H
#define ENGINE_PARAM_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/spec.h"

enum param_role {
    PARAM_EMBED,    // model.embed_tokens.weight (V, d)
    PARAM_POSITION, // model.embed_positions.weight (S, d)
    PARAM_Q,
    PARAM_K,
    PARAM_V,
    PARAM_O,
    PARAM_Q_BIAS,
    PARAM_K_BIAS,
    PARAM_V_BIAS,
    PARAM_O_BIAS,
    PARAM_Q_NORM,
    PARAM_K_NORM,
    PARAM_GATE,
    PARAM_UP,
    PARAM_DOWN, // GELU models have UP and DOWN only
    PARAM_GATE_BIAS,
    PARAM_UP_BIAS,
    PARAM_DOWN_BIAS,
    PARAM_ATTN_IN_NORM, // before and after attention and FFN, as norm_place wants them
    PARAM_ATTN_OUT_NORM,
    PARAM_FFN_IN_NORM,
    PARAM_FFN_OUT_NORM,
    PARAM_ATTN_IN_NORM_BIAS, // LayerNorm with biases
    PARAM_ATTN_OUT_NORM_BIAS,
    PARAM_FFN_IN_NORM_BIAS,
    PARAM_FFN_OUT_NORM_BIAS,
    PARAM_SKIP,      // model.layers.i.gate.weight (d), the skip-the-middle gate, i < L/2
    PARAM_SKIP_BIAS, // model.layers.i.gate.bias (1)
    PARAM_EMBED_NORM,
    PARAM_EMBED_NORM_BIAS,
    PARAM_FINAL_NORM,
    PARAM_FINAL_NORM_BIAS,
    PARAM_HEAD, // lm_head.weight (V, d), untied models only
    PARAM_ROLE_COUNT
};

struct param {
    char name[96];
    enum param_role role;
    int layer;        // -1 outside the layers
    int rows, cols;   // vectors have rows 1
    int n_dims;       // 1 or 2, as stored in files
    int64_t offset;   // first element in the parameter block; a multiple of 16, except that k, v,
                      // up and their biases directly follow the tensor before them
    int64_t size;     // rows * cols
    float init_std;   // 0 = filled with init_value
    float init_value; // 1 for gains, 0 for biases
    float init_limit; // cut in standard deviations, 0 = none
    bool decay;       // weight decay applies (optim.decay_scope)
};

struct param_list {
    struct param *v;
    int n;
    int64_t total;      // sum of sizes: the model's parameter count
    int64_t block_size; // elements of the block, with alignment gaps
};

// list may be uninitialised; release frees it. spec must be valid (profile_validate).
void param_list_build(struct param_list *list, const struct spec *spec);
void param_list_release(struct param_list *list);
// NULL when the model has no such tensor.
const struct param *param_find(const struct param_list *list, enum param_role role, int layer);

// Initial values of one tensor, out[p->size]: element i is drawn from (seed, name, i) only, so the
// bits do not depend on the thread count or on the model's other tensors.
void param_init(const struct param *p, uint64_t seed, float *out);

#endif
