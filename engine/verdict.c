#include "engine/verdict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/gate.h"

bool verdict_has_targets(const struct spec *s)
{
    enum gate_controller c = s->gate.controller;

    return spec_gate_count(s) > 0 && c != CTRL_NONE && c != CTRL_FIXED_MEAN &&
           c != CTRL_FIXED_MEAN_VAR;
}

// Unknown is not on target.
static bool within(double d, double delta)
{
    return fabs(d) <= delta;
}

static const struct layer_log *log_of(const struct spec *s, const struct follow *f)
{
    const struct layer_log *l =
        f->eval_layers.value[LAYER_MEAN] ? &f->eval_layers : &f->train_layers;

    return l->layers == s->model.n_layers && l->n > 0 && l->value[LAYER_MEAN] ? l : NULL;
}

static int means_off(const struct layer_log *l, int row, const double *mu, double delta)
{
    int n = 0;

    for (int i = 0; i < l->layers / 2; i++)
        n += !within(layer_log_value(l, LAYER_MEAN, row, i) - mu[i], delta);
    return n;
}

static void judge(const struct spec *s, const struct layer_log *l, struct verdict *v)
{
    double mu[SPEC_MAX_LAYERS], sigma[SPEC_MAX_LAYERS], delta = s->gate.delta;
    int row = l->n - 1;

    gate_targets(s, mu, sigma);
    for (int i = 0; i < v->gates; i++) {
        v->d[i] = layer_log_value(l, LAYER_MEAN, row, i) - mu[i];
        v->dv[i] = layer_log_value(l, LAYER_VAR, row, i) - sigma[i];
        v->n_off += !within(v->d[i], delta);
        v->n_var_off += !within(v->dv[i], delta);
    }
    for (; row >= 0 && means_off(l, row, mu, delta) == 0; row--) {
        v->since = l->step[row];
        v->held++;
    }
    v->kind = v->n_off                    ? VERDICT_OFF
              : v->held >= VERDICT_WINDOW ? VERDICT_CONVERGED
                                          : VERDICT_HOLDING;
}

void verdict_of(const struct spec *s, const struct follow *f, struct verdict *v)
{
    const struct layer_log *l = log_of(s, f);

    memset(v, 0, sizeof *v);
    v->gates = spec_gate_count(s);
    v->since = NAN;
    for (int i = 0; i < v->gates; i++)
        v->d[i] = v->dv[i] = NAN;
    v->kind = verdict_has_targets(s) ? VERDICT_UNKNOWN : VERDICT_NO_TARGETS;
    if (v->kind != VERDICT_NO_TARGETS && l)
        judge(s, l, v);
}

// "2 3 7-11" of the gates that are off.
static void off_list(const struct spec *s, const struct verdict *v, struct buf *b)
{
    double delta = s->gate.delta;

    for (int i = 0; i < v->gates; i++) {
        int last = i;

        if (within(v->d[i], delta))
            continue;
        while (last + 1 < v->gates && !within(v->d[last + 1], delta))
            last++;
        buf_fmt(b, " %d", i);
        if (last > i)
            buf_fmt(b, "%s%d", last > i + 1 ? "-" : " ", last);
        i = last;
    }
}

char *verdict_text(const struct spec *s, const struct verdict *v, char *out, size_t size)
{
    char step[UNIT_SIZE];
    struct buf b = {0};

    out[0] = '\0';
    if (v->kind == VERDICT_CONVERGED) {
        snprintf(out, size, "converged since step %s", unit_thousands(step, (int64_t)v->since));
    } else if (v->kind == VERDICT_HOLDING) {
        snprintf(out, size, "on target for %d of %d evaluations", v->held, VERDICT_WINDOW);
    } else if (v->kind == VERDICT_UNKNOWN) {
        snprintf(out, size, "not known yet");
    } else if (v->kind == VERDICT_OFF) {
        off_list(s, v, &b);
        snprintf(out, size, "not converged: layer%s%s", v->n_off > 1 ? "s" : "", b.data);
        buf_release(&b);
    } else if (v->gates) {
        snprintf(out, size, "%s",
                 s->gate.controller == CTRL_NONE ? "none" : "fixed coefficients, no targets");
    }
    return out;
}
