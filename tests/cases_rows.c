#include "tests/cases.h"

#include <string.h>

const struct op_case op_cases[] = {
    // N, C, V
    {"embedding_forward", {33, 24, 17}, 0},
    {"embedding_forward", {1, 128, 5}, 0},
    {"embedding_backward", {133, 24, 17}, 0},
    {"embedding_backward", {7, 65, 3}, 0},
    // rows, groups, width, extra columns of x, of y
    {"rmsnorm_forward", {7, 1, 24}, 0},
    {"rmsnorm_forward", {1, 1, 1}, 0},
    {"rmsnorm_forward", {33, 1, 131}, 0},
    {"rmsnorm_forward", {9, 4, 32, 64, 0}, 0},
    {"rmsnorm_forward", {5, 3, 24, 48, 7}, 0},
    {"rmsnorm_backward", {7, 1, 24}, 0},
    {"rmsnorm_backward", {1, 1, 2}, 0},
    {"rmsnorm_backward", {33, 1, 131}, ACC},
    {"rmsnorm_backward", {9, 4, 32, 64, 0}, 0},
    {"rmsnorm_backward", {5, 3, 24, 48, 7}, ACC},
    {"layernorm_forward", {7, 1, 24}, 0},
    {"layernorm_forward", {33, 1, 131}, NO_BIAS},
    {"layernorm_forward", {5, 3, 24, 48, 7}, 0},
    {"layernorm_backward", {7, 1, 24}, 0},
    {"layernorm_backward", {33, 1, 131}, ACC | NO_BIAS},
    {"layernorm_backward", {5, 3, 24, 48, 7}, ACC},
    // N, C, O
    {"linear_forward", {7, 24, 33}, 0},
    {"linear_forward", {1, 1, 1}, NO_BIAS},
    {"linear_forward", {65, 128, 96}, NO_BIAS},
    {"linear_backward", {7, 24, 33}, 0},
    {"linear_backward", {1, 3, 1}, NO_BIAS},
    {"linear_backward", {65, 128, 96}, NO_BIAS | ACC},
    {"linear_backward", {33, 17, 40}, NO_DX},
    {"linear_backward", {33, 17, 40}, NO_DW | NO_BIAS | ACC},
    // B, T, heads, D, extra columns, first position
    {"rope_forward", {2, 7, 3, 24, 48, 0}, 0},
    {"rope_forward", {2, 7, 3, 24, 48, 5}, INTERLEAVED},
    {"rope_forward", {1, 1, 1, 2, 0, 3}, 0},
    {"rope_backward", {2, 7, 3, 24, 48, 0}, 0},
    {"rope_backward", {2, 7, 3, 24, 48, 5}, INTERLEAVED},
    // B, Tq, Tk, H, G, D, extra columns of q, k, v
    {"attention_forward", {1, 1, 1, 1, 1, 24}, 0},
    {"attention_forward", {2, 7, 7, 4, 1, 24, 48}, NO_BIAS | NO_SLOPES},
    {"attention_forward", {2, 33, 33, 4, 2, 32, 128}, NO_BIAS | NO_SLOPES},
    {"attention_forward", {1, 33, 33, 3, 3, 24, 5}, NO_SLOPES},
    {"attention_forward", {1, 133, 133, 2, 1, 64, 3}, NO_BIAS},
    {"attention_forward", {2, 7, 40, 4, 2, 24, 48}, 0},
    {"attention_forward", {2, 1, 70, 4, 2, 16, 0}, NO_BIAS | NO_SLOPES},
    {"attention_forward", {1, 100, 333, 2, 1, 40, 0}, NO_SLOPES},
    {"attention_forward", {1, 300, 300, 1, 1, 1, 0}, 0},
    // one key: the gradient of its bias is 0 up to rounding, nothing to compare
    {"attention_backward", {1, 1, 1, 1, 1, 24}, NO_BIAS},
    {"attention_backward", {2, 7, 7, 4, 1, 24, 48}, NO_BIAS | NO_SLOPES},
    {"attention_backward", {2, 33, 33, 4, 2, 32, 128}, NO_BIAS | NO_SLOPES},
    {"attention_backward", {1, 33, 33, 3, 3, 24, 5}, NO_SLOPES},
    {"attention_backward", {1, 133, 133, 2, 1, 64, 3}, NO_BIAS},
    {"attention_backward", {2, 7, 40, 4, 2, 24, 48}, 0},
    {"attention_backward", {2, 1, 70, 4, 2, 16, 0}, NO_SLOPES},
    {"attention_backward", {1, 100, 333, 2, 1, 40, 0}, NO_SLOPES},
    {"attention_backward", {1, 300, 300, 1, 1, 1, 0}, 0},
    // N, F
    {"swiglu_forward", {7, 33}, 0},
    {"swiglu_forward", {1, 1}, 0},
    {"swiglu_backward", {7, 33}, 0},
    {"swiglu_backward", {3, 128}, 0},
    // n
    {"gelu_forward", {133}, 0},
    {"gelu_forward", {133}, TANH},
    {"gelu_backward", {133}, 0},
    {"gelu_backward", {133}, TANH},
    // N, C
    {"residual_forward", {7, 33}, 0},
    {"residual_forward", {7, 64}, NO_GATE},
    {"residual_backward", {7, 33}, 0},
    {"residual_backward", {7, 64}, NO_GATE},
    {"gate_forward", {33, 24}, 0},
    {"gate_forward", {70, 7}, NO_PREV},
    {"gate_forward", {133, 24, 20}, 0}, // rows with g < 0.2 are dropped
    {"gate_backward", {33, 24}, 0},
    {"gate_backward", {70, 7}, NO_PREV | ACC},
    {"gate_backward", {33, 24}, NO_GATE | ACC},
    {"gate_backward", {33, 24}, NO_LOGG},
    {"gate_stats", {133}, 0},
    {"gate_stats", {70}, NO_PREV},
    {"gate_stats", {1}, 0},
    {"gate_penalty", {133}, 0},
    // N, V, ld
    {"softmax_xent", {33, 50, 64}, 0},
    {"softmax_xent", {7, 257, 320}, 0},
    {"softmax_xent", {7, 33, 33}, NO_GRAD},
    {"softmax_xent", {3, 1, 1}, 0},
    // n
    {"adamw_step", {1000}, NO_COPY},
    {"adamw_step", {133}, 0},
    {"sum_squares", {10007}, 0},
    {"sum_squares", {1}, 0},
    {"sum", {10007}, 0},
    {"scale", {133}, 0},
    {"axpy", {133}, 0},
    {"fill", {133}, 0},
    {"add_act", {133}, 0},
    {"copy_act", {10007}, 0},
    {"copy_act", {1}, 0},
    {"row_norms", {133, 24}, 0},
    {"row_norms", {1, 7}, 0},
    {"cast_to_act", {133}, 0},
    {"cast_to_f32", {133}, 0},
};
const int op_cases_count = sizeof op_cases / sizeof op_cases[0];

// Passing limits are about four times the errors measured on the cpu backend (oneDNN, AVX-512).
static const struct op_limit limits[] = {
    {"embedding_forward", 0, 0, 0},
    {"embedding_backward", 2e-7, 1e-6, 1e-5},
    {"attention_forward", 6e-7, 2e-6, 2e-5},
    {"attention_backward", 6e-7, 2e-6, 3e-5},
    {"", 3e-7, 1e-6, 1e-5}, // all others
};

const struct op_limit *op_limit(const char *op)
{
    const struct op_limit *l = limits;

    while (l->op[0] && strcmp(l->op, op) != 0)
        l++;
    return l;
}
