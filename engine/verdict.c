#include "engine/verdict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"

bool verdict_has_targets(const struct spec *s)
{
    enum gate_controller c = s->gate.controller;

    return spec_gate_count(s) > 0 && c != CTRL_NONE && c != CTRL_FIXED_MEAN &&
           c != CTRL_FIXED_MEAN_VAR;
}

// ---- evaluations as points ----------------------------------------------------------------------

enum { MEAN, VAR, ALPHA, BETA, ARRAYS };

struct points {
    double *value; // (n, ARRAYS, L)
    struct gate_point *point;
    int n;
};

static double *array_of(const struct points *p, int row, int which, int layers)
{
    return p->value + ((size_t)row * ARRAYS + (size_t)which) * (size_t)layers;
}

// The last training record up to a step: its coefficients are those the evaluation saw.
static int train_row(const struct layer_log *l, double step)
{
    int low = -1, high = l->n;

    while (high - low > 1) {
        int middle = low + (high - low) / 2;

        if (l->step[middle] <= step)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// Coefficients before the first record are those of the profile.
static double coefficient(const struct layer_log *train, enum layer_array which, int row, int layer,
                          double first)
{
    return row < 0 ? first : layer_log_value(train, which, row, layer);
}

static void fill_point(const struct spec *s, const struct follow *f, struct points *p, int k,
                       int row)
{
    const struct layer_log *eval = &f->eval_layers, *train = &f->train_layers;
    int L = s->model.n_layers, at = train_row(train, eval->step[row]);
    double *mean = array_of(p, k, MEAN, L), *var = array_of(p, k, VAR, L);
    double *alpha = array_of(p, k, ALPHA, L), *beta = array_of(p, k, BETA, L);

    for (int i = 0; i < L; i++) {
        mean[i] = layer_log_value(eval, LAYER_MEAN, row, i);
        var[i] = layer_log_value(eval, LAYER_VAR, row, i);
        alpha[i] = coefficient(train, LAYER_ALPHA, at, i, s->gate.alpha[i]);
        beta[i] = coefficient(train, LAYER_BETA, at, i, s->gate.beta[i]);
    }
    p->point[k] = (struct gate_point){(int64_t)eval->step[row], mean, var, alpha, beta};
}

// The last `most` evaluations.
static struct points collect(const struct spec *s, const struct follow *f, int most)
{
    int n = f->eval_layers.n < most ? f->eval_layers.n : most;
    struct points p = {.n = n};

    p.value = xcalloc((size_t)n * ARRAYS * (size_t)s->model.n_layers, sizeof *p.value);
    p.point = xcalloc((size_t)n, sizeof *p.point);
    for (int k = 0; k < n; k++)
        fill_point(s, f, &p, k, f->eval_layers.n - n + k);
    return p;
}

// ---- judging ------------------------------------------------------------------------------------

static void judge(const struct spec *s, const struct follow *f, struct verdict *v)
{
    struct gate_limits limits = gate_limits_default(s);
    struct points p = collect(s, f, limits.evaluations);
    unsigned why[SPEC_MAX_LAYERS];
    bool off = false;

    v->seen = f->eval_layers.n;
    v->wanted = limits.evaluations;
    v->kind = gate_converged(s, limits, p.point, p.n, why) ? VERDICT_CONVERGED : VERDICT_TOO_FEW;
    for (int i = 0; i < v->gates; i++) {
        v->why[i] = why[i] & ~(unsigned)GATE_TOO_FEW;
        v->d[i] = p.point[p.n - 1].mean[i] - v->mu[i];
        v->dv[i] = p.point[p.n - 1].var[i] - v->sigma[i];
        off |= v->why[i] != 0;
    }
    if (off)
        v->kind = VERDICT_OFF;
    free(p.point);
    free(p.value);
}

void verdict_of(const struct spec *s, const struct follow *f, struct verdict *v)
{
    const struct layer_log *l = &f->eval_layers;

    memset(v, 0, sizeof *v);
    v->gates = spec_gate_count(s);
    v->kind = verdict_has_targets(s) ? VERDICT_UNKNOWN : VERDICT_NO_TARGETS;
    for (int i = 0; i < v->gates; i++)
        v->d[i] = v->dv[i] = NAN;
    if (v->kind == VERDICT_NO_TARGETS)
        return;
    gate_targets(s, v->mu, v->sigma);
    if (l->layers == s->model.n_layers && l->n > 0 && l->value[LAYER_MEAN])
        judge(s, f, v);
}

// ---- words --------------------------------------------------------------------------------------

static int count_off(const struct verdict *v, int *first)
{
    int n = 0;

    for (int i = v->gates - 1; i >= 0; i--)
        if (v->why[i]) {
            *first = i;
            n++;
        }
    return n;
}

// "mean 0.024 below its target"; of the last evaluations, so the newest may be on target again.
static void off_text(const struct spec *s, const struct verdict *v, int i, char *out, size_t size)
{
    bool mean = v->why[i] & GATE_MEAN_OFF, var = v->why[i] & GATE_VAR_OFF;
    double d = mean ? v->d[i] : v->dv[i];
    const char *what = mean ? "mean" : "variance";

    if (!mean && !var)
        snprintf(out, size, "coefficients still drift");
    else if (isnan(d))
        snprintf(out, size, "%s unknown", what);
    else if (fabs(d) <= s->gate.delta)
        snprintf(out, size, "%s was off lately", what);
    else
        snprintf(out, size, "%s %.3f %s its target", what, fabs(d), d < 0 ? "below" : "above");
}

char *verdict_text(const struct spec *s, const struct verdict *v, char *out, size_t size)
{
    char reason[80], more[32] = "";
    int first = 0, n = count_off(v, &first);

    out[0] = '\0';
    switch (v->kind) {
    case VERDICT_CONVERGED:
        snprintf(out, size, "converged");
        break;
    case VERDICT_TOO_FEW:
        snprintf(out, size, "on target so far, %d of %d evaluations seen", v->seen, v->wanted);
        break;
    case VERDICT_UNKNOWN:
        snprintf(out, size, "not known yet");
        break;
    case VERDICT_OFF:
        off_text(s, v, first, reason, sizeof reason);
        if (n > 1)
            snprintf(more, sizeof more, ", and %d more", n - 1);
        snprintf(out, size, "not converged: layer %d %s%s", first, reason, more);
        break;
    case VERDICT_NO_TARGETS:
        if (v->gates)
            snprintf(out, size, "%s",
                     s->gate.controller == CTRL_NONE ? "none" : "fixed coefficients, no targets");
        break;
    }
    return out;
}
