#include "engine/count_active.h"

static double layer_flops(const struct spec *s, int i, double p)
{
    const struct model_spec *m = &s->model;
    double d = m->d_model, S = s->train.seq_len;
    double q = (double)m->lane[LANE_HEADS][i] * m->head_dim;
    double k = (double)m->lane[LANE_KV][i] * m->head_dim;
    double ffn = (m->act == ACT_SWIGLU ? 6 : 4) * d * m->lane[LANE_FFN][i];
    double keys_values = 4 * d * k, lin = 4 * d * q + ffn, attn = 4 * q * S;

    if (s->gate.attn == GATE_ATTN_KEY || s->gate.attn == GATE_ATTN_HARD)
        return p * (lin + keys_values) + p * p * attn;
    return p * (lin + attn) + keys_values;
}

double count_active_train_flops(const struct spec *s, const double *sparsity)
{
    const struct model_spec *m = &s->model;
    double sum = 2. * m->d_model * (spec_padded_vocab(m) + spec_gate_count(s));

    for (int i = 0; i < m->n_layers; i++)
        sum += (double)m->lane[LANE_REUSE][i] * m->block_loops * layer_flops(s, i, 1 - sparsity[i]);
    return 3 * sum;
}
