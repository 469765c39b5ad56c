// The one list of a model's weight tensors: names, shapes, initial values, weight decay. Counting,
// initialisation, the optimizer, checkpoints and export all walk this list.
// Names are the hub's (Llama/OLMo2/GPT-2-like: model.layers.i.self_attn.q_proj.weight, …), linear
// weights are [out, in]. q, k, v of a layer follow each other, as do gate and up, so each group can
// be used as one fused matrix.
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
    PARAM_UP_BIAS,
    PARAM_DOWN_BIAS,
    PARAM_NORM1,
    PARAM_NORM2, // attention's and the FFN's, before (pre) or after (reordered)
    PARAM_NORM1_BIAS,
    PARAM_NORM2_BIAS, // LayerNorm with biases
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
    int64_t offset;   // first element in the parameter block, a multiple of 16
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

void param_list_build(struct param_list *list, const struct spec *spec);
void param_list_release(struct param_list *list);
// NULL when the model has no such tensor.
const struct param *param_find(const struct param_list *list, enum param_role role, int layer);

// Initial values of one tensor: element i is drawn from (seed, name, i) only.
void param_init(const struct param *p, uint64_t seed, float *out);

#endif
