// The controllers of the regulariser's coefficients, and whether they have come to rest.
#include "engine/gate.h"

#include <math.h>
#include <string.h>

enum { LONG_STEPS = 10, CONVERGED_EVALUATIONS = 10 };

// Chan's update of mean and variance: exact for the first batch, no cancellation after it.
void gate_stat_add(struct gate_stat *sum, double have, const struct gate_stat *x, double more)
{
    double share, off;

    if (have <= 0) {
        *sum = *x;
        return;
    }
    share = more / (have + more);
    off = x->mean - sum->mean;
    sum->mean += share * off;
    sum->var += share * (x->var - sum->var) + share * (1 - share) * off * off;
    sum->zero += share * (x->zero - sum->zero);
    sum->closed += share * (x->closed - sum->closed);
    sum->over += share * (x->over - sum->over);
}

void gate_control_init(struct gate_control *c, const struct spec *s)
{
    *c = (struct gate_control){0};
    memcpy(c->alpha, s->gate.alpha, sizeof c->alpha);
    memcpy(c->beta, s->gate.beta, sizeof c->beta);
}

static double rule(const struct gate_spec *g, double d, double average)
{
    switch (g->controller) {
    case CTRL_SIGN:
        return d > 0 ? g->gamma : -g->gamma;
    case CTRL_PROPORTIONAL:
        return g->gamma * d;
    case CTRL_PD:
        return d * (d - average) > 0 ? g->gamma * d : 0;
    case CTRL_NONE:
    case CTRL_FIXED_MEAN:
    case CTRL_FIXED_MEAN_VAR:
    case CTRL_FIXED_L2:
        break;
    }
    return 0;
}

static double move(const struct gate_spec *g, double d, double average)
{
    double by = fabs(d) > g->delta ? rule(g, d, average) : 0;
    bool unwanted = by > 0 ? g->sided == SIDED_DOWN_ONLY : g->sided == SIDED_UP_ONLY;

    return unwanted ? 0 : by;
}

static void follow(double *average, double d, bool first)
{
    double decay = 1 - 1. / LONG_STEPS;

    *average = first ? d : decay * *average + (1 - decay) * d;
}

void gate_control_update(struct gate_control *c, const struct spec *s, const struct gate_stat *stat)
{
    double mu[SPEC_MAX_LAYERS], sigma[SPEC_MAX_LAYERS];
    int L = s->model.n_layers;

    gate_targets(s, mu, sigma);
    for (int i = 0; i < spec_gate_count(s); i++) {
        double mean = stat[i].mean - mu[i], var = stat[i].var - sigma[i];

        follow(&c->mean_average[i], mean, c->updates == 0);
        follow(&c->var_average[i], var, c->updates == 0);
        c->alpha[i] += move(&s->gate, mean, c->mean_average[i]);
        c->beta[i] += move(&s->gate, var, c->var_average[i]);
        c->alpha[L - 1 - i] = c->alpha[i];
        c->beta[L - 1 - i] = c->beta[i];
    }
    c->updates++;
}

// ---- convergence --------------------------------------------------------------------------------

struct gate_limits gate_limits_default(const struct spec *s)
{
    return (struct gate_limits){.evaluations = CONVERGED_EVALUATIONS,
                                .delta = s->gate.delta,
                                .drift = 1000 * s->gate.gamma * s->gate.delta};
}

// Largest change of a coefficient per 1,000 steps, seen from the first point.
static double drift(const struct gate_point *p, int n, int layer)
{
    double most = 0, steps = (double)(p[n - 1].step - p[0].step);

    for (int k = 1; k < n; k++) {
        double a = fabs(p[k].alpha[layer] - p[0].alpha[layer]);
        double b = fabs(p[k].beta[layer] - p[0].beta[layer]);

        if (isnan(a) || isnan(b))
            return NAN;
        most = fmax(most, fmax(a, b));
    }
    return most > 0 ? 1000 * most / steps : 0;
}

static unsigned judge_layer(const struct gate_point *p, int n, int layer, double mu, double sigma,
                            struct gate_limits limits)
{
    unsigned why = drift(p, n, layer) <= limits.drift ? 0 : GATE_DRIFTS;

    // written so that a NaN is off
    for (int k = 0; k < n; k++) {
        if (!(fabs(p[k].mean[layer] - mu) <= limits.delta))
            why |= GATE_MEAN_OFF;
        if (!(fabs(p[k].var[layer] - sigma) <= limits.delta))
            why |= GATE_VAR_OFF;
    }
    return why;
}

bool gate_converged(const struct spec *s, struct gate_limits limits,
                    const struct gate_point *points, int n, unsigned *why)
{
    double mu[SPEC_MAX_LAYERS], sigma[SPEC_MAX_LAYERS];
    int used = n < limits.evaluations ? n : limits.evaluations;
    bool all = true;

    gate_targets(s, mu, sigma);
    for (int i = 0; i < s->model.n_layers; i++) {
        why[i] = n < limits.evaluations || used < 1 ? GATE_TOO_FEW : 0;
        if (used > 0)
            why[i] |= judge_layer(points + n - used, used, i, mu[i], sigma[i], limits);
        all = all && !why[i];
    }
    return all;
}
