#include "engine/count_active.h"

#include "engine/count.h"

static double layer_flops(const struct spec *s, int i, double p)
{
    struct count_terms t = count_terms(s, i);

    if (s->gate.attn == GATE_ATTN_KEY || s->gate.attn == GATE_ATTN_HARD)
        return p * t.lin + p * p * t.attn;
    return p * (t.lin - t.keys_values + t.attn) + t.keys_values;
}

double count_active_train_flops(const struct spec *s, const double *sparsity)
{
    const struct model_spec *m = &s->model;
    double sum = 2. * m->d_model * (spec_padded_vocab(m) + spec_gate_count(s));

    for (int i = 0; i < m->n_layers; i++)
        sum += count_runs(m, i) * layer_flops(s, i, 1 - sparsity[i]);
    return 3 * sum;
}
