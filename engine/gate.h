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

// Adds the statistics of `more` tokens to *sum, which holds those of `have` tokens (have 0: nothing
// yet, whatever *sum says). Equal weights give the global batch's mean of m and of E[g^2].
void gate_stat_add(struct gate_stat *sum, double have, const struct gate_stat *x, double more);

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

// ---- controllers --------------------------------------------------------------------------------
// After each optimizer step a coefficient c follows the deviation D of the global batch from its
// target, D = m - mu for alpha and v - sigma for beta, where |D| > delta:
//   sign           c += gamma sign(D)
//   proportional   c += gamma D
//   pd             c += gamma D where D (D - E) > 0, that is, where the deviation grows: E is the
//                  moving average of D with decay 1 - 1/10 that begins as the first D and holds the
//                  newest one already (the short average of the paper's code, decay 1 - 1/1, is D)
//   none, fixed_*  c stays
// gate.sided up_only drops the moves down, down_only those up. c has no bounds.

struct gate_control {
    double alpha[SPEC_MAX_LAYERS], beta[SPEC_MAX_LAYERS]; // L entries, mirrored layers equal
    int64_t updates;
    double mean_average[SPEC_MAX_LAYERS / 2], var_average[SPEC_MAX_LAYERS / 2]; // E, one per gate
};

void gate_control_init(struct gate_control *c, const struct spec *s);
void gate_control_update(struct gate_control *c, const struct spec *s,
                         const struct gate_stat *stat); // of L/2 gates

// ---- convergence --------------------------------------------------------------------------------
// The controllers integrate: whether they have come to rest is a question of its own.

struct gate_point { // one evaluation; arrays of L
    int64_t step;
    const double *mean, *var;   // gate/mean, gate/var
    const double *alpha, *beta; // reg/alpha, reg/beta, as they were then
};
struct gate_limits {
    int evaluations; // W: how many of the last ones count
    double delta;    // largest |D| of a layer that has converged
    double drift;    // largest change of a coefficient over them, per 1,000 steps
};
// W = 10, delta = gate.delta, and as much drift as a deviation of delta makes at gate.gamma.
struct gate_limits gate_limits_default(const struct spec *s);

enum { // why a layer has not converged
    GATE_TOO_FEW = 1 << 0,
    GATE_MEAN_OFF = 1 << 1,
    GATE_VAR_OFF = 1 << 2,
    GATE_DRIFTS = 1 << 3,
};
// Judges the last W of n points. why[L] receives the reasons of each layer, 0 = converged; true when
// all layers have. An unknown number (NaN) is no convergence.
bool gate_converged(const struct spec *s, struct gate_limits limits,
                    const struct gate_point *points, int n, unsigned *why);

#endif
