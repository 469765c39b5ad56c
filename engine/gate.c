#include "engine/gate.h"

#include <math.h>

void gate_targets(const struct spec *s, double *mu, double *sigma)
{
    const struct gate_spec *g = &s->gate;
    int L = s->model.n_layers, n = L / 2;

    for (int i = 0; i < L; i++) {
        int gate = spec_gate_of(&s->model, i);
        double along = n > 1 ? (double)gate / (n - 1) : 0;

        mu[i] = g->mu_start + (g->mu_end - g->mu_start) * along;
        sigma[i] = fmax(0, mu[i] * (1 - mu[i]) + g->var_delta);
    }
}

static double unbiased(const struct gate_stat *s, int64_t n)
{
    return n > 1 ? s->var * (double)n / (double)(n - 1) : 0;
}

static double linear_penalty(const struct spec *s, const double *alpha, const double *beta,
                             const struct gate_stat *stat, int64_t n, double *slope_mean,
                             double *slope_var)
{
    int L = s->model.n_layers;
    double c = s->gate.reduce == REDUCE_MEAN ? 1. / L : 1, sum = 0;

    for (int i = 0; i < L / 2; i++) {
        slope_mean[i] = c * (alpha[i] + alpha[L - 1 - i]);
        slope_var[i] = c * (beta[i] + beta[L - 1 - i]);
        sum += slope_mean[i] * stat[i].mean + slope_var[i] * unbiased(&stat[i], n);
    }
    return sum;
}

// weight * |x|_2 over both halves; d becomes its slope in each element of the first.
static double norm_penalty(double weight, double *d, int half)
{
    double sum = 0, norm;

    for (int i = 0; i < half; i++)
        sum += 2 * d[i] * d[i];
    norm = sqrt(sum);
    for (int i = 0; i < half; i++)
        d[i] = norm > 0 ? weight * 2 * d[i] / norm : 0;
    return weight * norm;
}

static double l2_penalty(const struct spec *s, const double *alpha, const double *beta,
                         const struct gate_stat *stat, int64_t n, double *slope_mean,
                         double *slope_var)
{
    double mu[SPEC_MAX_LAYERS], sigma[SPEC_MAX_LAYERS];
    int half = s->model.n_layers / 2;

    gate_targets(s, mu, sigma);
    for (int i = 0; i < half; i++) {
        slope_mean[i] = stat[i].mean - mu[i];
        slope_var[i] = unbiased(&stat[i], n) - sigma[i];
    }
    return norm_penalty(alpha[0], slope_mean, half) + norm_penalty(beta[0], slope_var, half);
}

double gate_penalty(const struct spec *s, const double *alpha, const double *beta,
                    const struct gate_stat *stat, int64_t n, double *slope_mean, double *slope_var)
{
    bool l2 = s->gate.controller == CTRL_FIXED_L2;

    return (l2 ? l2_penalty : linear_penalty)(s, alpha, beta, stat, n, slope_mean, slope_var);
}
