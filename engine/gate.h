// Skip-the-middle gates (paper B, arXiv 2506.21103): the targets of their statistics, the regulariser
// of the loss, and the controllers that move its coefficients. Plain numbers on the host; the gates
// themselves are ops of the model.
//
// Gate i < L/2 acts on layers i and L-1-i. Arrays of L hold one value per layer with mirrored layers
// equal, arrays of L/2 one per gate.
#ifndef ENGINE_GATE_H
#define ENGINE_GATE_H

#include "engine/spec.h"

// Statistics of one gate over the tokens of a micro-batch, or of several (gate_stat_add).
struct gate_stat {
    double mean;   // m
    double var;    // v, population variance
    double zero;   // share of tokens with |g| < 1e-8: the layer's sparsity
    double closed; // share whose gate unit is shut: pre-activation <= 0, no gradient
    double over;   // share whose accumulator exceeds 1: skipped, no gradient either
};

// Targets per layer (architectures.md §3.5): mu_i = linspace(mu_start, mu_end, L/2) and its mirror,
// sigma_i = max(0, mu_i (1 - mu_i) + var_delta). With L = 2 the one gate aims at mu_start.
void gate_targets(const struct spec *s, double *mu, double *sigma);

// The regulariser of one micro-batch of n tokens with statistics stat[L/2] and coefficients
// alpha[L], beta[L]; for variances it uses the unbiased estimate v n/(n-1) (0 where n = 1):
//   c sum_i alpha_i m_i + c sum_i beta_i v_i, c = 1/L (reduce: mean) or 1 (sum)
//   fixed_l2: alpha_0 |m - mu|_2 + beta_0 |v - sigma|_2 over all L layers
// slope_mean[L/2] and slope_var[L/2] receive its derivatives by each gate's m and unbiased v, the
// mirrored layer included.
double gate_penalty(const struct spec *s, const double *alpha, const double *beta,
                    const struct gate_stat *stat, int64_t n, double *slope_mean, double *slope_var);

#endif
