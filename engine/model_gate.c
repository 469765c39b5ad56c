// The gates of a model: evaluated in the forward pass, measured after it, and their backward pass,
// which begins with the regulariser's gradient (architectures.md §3.2 to §3.5).
#include "engine/model_impl.h"

#include <string.h>

static struct gate_dims gate_dims(const struct model *m)
{
    bool hard = m->spec.gate.attn == GATE_ATTN_HARD;

    return (struct gate_dims){
        .N = m->rows, .C = m->C, .eps = (float)m->spec.gate.eps, .drop = hard ? 1e-8f : 0};
}

// The accumulator of the gate before, NULL for the first.
static const struct f32 *previous(const struct model *m, int gate)
{
    return gate ? f32_at(m->be, m->gates[gate - 1].sum, m->past) : NULL;
}

void model_gate_forward(struct model *m, const struct step *s)
{
    const struct gate *g = &m->gates[s->gate];
    const struct backend *be = m->be;

    m->be->op->gate_forward(m->be, f32_at(be, g->sum, m->past), f32_at(be, g->g, m->past),
                            f32_at(be, g->logg, m->past), s->r[ATTENTION].x, model_w(m, g->weight),
                            model_w(m, g->bias), previous(m, s->gate), gate_dims(m));
}

void model_gate_measure(struct model *m)
{
    double v[GATE_STATS];

    for (int i = 0; i < m->n_gates; i++)
        m->be->op->gate_stats(m->be, f32_at(m->be, m->stats, (int64_t)i * GATE_STATS),
                              m->gates[i].g, m->gates[i].sum, previous(m, i), m->N);
    for (int i = 0; i < m->n_gates; i++) {
        m->be->op->download_f64(m->be, v, f32_at(m->be, m->stats, (int64_t)i * GATE_STATS),
                                GATE_STATS);
        m->stat[i] = (struct gate_stat){.mean = v[GATE_STAT_MEAN],
                                        .var = v[GATE_STAT_VAR],
                                        .zero = v[GATE_STAT_ZERO],
                                        .closed = v[GATE_STAT_CLOSED],
                                        .over = v[GATE_STAT_OVER]};
    }
}

// d/dg of n c (slope_mean * mean(g) + slope_var * var(g)) with the unbiased variance:
//   c slope_mean + 2 c slope_var n/(n-1) (g - mean)
static void add_penalty(struct model *m, int i, double c, double slope_mean, double slope_var)
{
    double n = (double)m->N, b = m->N > 1 ? 2 * c * slope_var * n / (n - 1) : 0;

    m->be->op->gate_penalty(m->be, m->gates[i].dg, c * slope_mean - b * m->stat[i].mean, b,
                            m->gates[i].g, m->N);
}

void model_gate_begin_backward(struct model *m, double scale)
{
    double slope_mean[SPEC_MAX_LAYERS], slope_var[SPEC_MAX_LAYERS];
    const struct ops *op = m->be->op;

    if (!m->n_gates)
        return;
    m->penalty = gate_penalty(&m->spec, m->alpha, m->beta, m->stat, m->N, slope_mean, slope_var);
    op->fill(m->be, m->s.dsum, 0, m->N);
    for (int i = 0; i < m->n_gates; i++) {
        op->fill(m->be, m->gates[i].dg, 0, m->N);
        op->fill(m->be, m->gates[i].dlogg, 0, m->N);
        add_penalty(m, i, scale, slope_mean[i], slope_var[i]);
    }
}

void model_gate_backward(struct model *m, const struct step *s)
{
    const struct gate *g = &m->gates[s->gate];

    m->be->op->gate_backward(m->be, m->s.dx, model_dw(m, g->weight), model_dw(m, g->bias),
                             m->s.dsum, g->dg, model_gates_keys(m) ? g->dlogg : NULL,
                             s->r[ATTENTION].x, model_w(m, g->weight), g->sum, previous(m, s->gate),
                             gate_dims(m), true);
}

void model_set_penalty(struct model *m, const double *alpha, const double *beta)
{
    size_t bytes = (size_t)m->spec.model.n_layers * sizeof *alpha;

    memcpy(m->alpha, alpha, bytes);
    memcpy(m->beta, beta, bytes);
}

double model_penalty(const struct model *m)
{
    return m->penalty;
}

const struct gate_stat *model_gate_stats(const struct model *m)
{
    return m->stat;
}
