#include "engine/ledger.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/budget.h"

enum { CAUSAL, LAYERS, UNROLLED, D_MODEL, FFN_MEAN, FFN_LEAST, FFN_MOST, HEADS, KV_HEADS, FACTS };
_Static_assert(BUDGET_KINDS + FACTS == LEDGER_ROWS, "a row for each");

static const struct {
    const char *name, *what;
} facts[FACTS] = {
    [CAUSAL] = {"flops-causal", "FLOPs per token, forward, causal attention"},
    [LAYERS] = {"layers", "layers with weights of their own"},
    [UNROLLED] = {"unrolled", "layers a token passes, repetitions counted"},
    [D_MODEL] = {"d_model", "width of the stream"},
    [FFN_MEAN] = {"ffn-mean", "mean FFN width"},
    [FFN_LEAST] = {"ffn-least", "smallest FFN width"},
    [FFN_MOST] = {"ffn-most", "largest FFN width"},
    [HEADS] = {"heads", "query heads of all layers"},
    [KV_HEADS] = {"kv-heads", "key and value heads of all layers"},
};

const char *ledger_name(int row)
{
    return row < BUDGET_KINDS ? budget_rows[row].name : facts[row - BUDGET_KINDS].name;
}

const char *ledger_what(int row)
{
    return row < BUDGET_KINDS ? budget_rows[row].what : facts[row - BUDGET_KINDS].what;
}

bool ledger_confounds(int row)
{
    return row == BUDGET_PARAMS || row == BUDGET_FLOPS || row == BUDGET_TRAIN_FLOPS ||
           row == BUDGET_KINDS + LAYERS || row == BUDGET_KINDS + D_MODEL;
}

static double sum(const struct model_spec *m, enum lane lane)
{
    double total = 0;

    for (int i = 0; i < m->n_layers; i++)
        total += m->lane[lane][i];
    return total;
}

static double extreme(const struct model_spec *m, enum lane lane, int sign)
{
    int v = m->lane[lane][0];

    for (int i = 1; i < m->n_layers; i++)
        if (sign * m->lane[lane][i] > sign * v)
            v = m->lane[lane][i];
    return v;
}

double ledger_value(int row, const struct spec *spec, const struct count *c)
{
    const struct model_spec *m = &spec->model;

    if (row < BUDGET_KINDS)
        return budget_value((enum budget)row, spec, c);
    switch (row - BUDGET_KINDS) {
    case CAUSAL:
        return c->forward_per_token_causal;
    case LAYERS:
        return m->n_layers;
    case UNROLLED:
        return spec_step_count(m);
    case D_MODEL:
        return m->d_model;
    case FFN_MEAN:
        return sum(m, LANE_FFN) / m->n_layers;
    case FFN_LEAST:
        return extreme(m, LANE_FFN, -1);
    case FFN_MOST:
        return extreme(m, LANE_FFN, 1);
    case HEADS:
        return sum(m, LANE_HEADS);
    case KV_HEADS:
        return sum(m, LANE_KV);
    }
    BUG("ledger row %d", row);
}

char *ledger_text(int row, double value, char *out)
{
    if (row < BUDGET_KINDS)
        return budget_text((enum budget)row, value, out);
    long long tenths = llround(10 * value);

    unit_thousands(out, tenths / 10);
    if (tenths % 10)
        snprintf(out + strlen(out), UNIT_SIZE - strlen(out), ".%lld", tenths % 10);
    return out;
}
