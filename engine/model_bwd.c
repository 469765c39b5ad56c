// The backward pass: the forward lists reversed. m->s.dx is the gradient of the stream; since the
// residual adds, it passes a sublayer unchanged and the sublayer's own gradient is added to it.
#include "engine/model_impl.h"

static void norm_backward(struct model *m, struct act *dx, const struct act *dy,
                          struct norm_stat stat, const struct act *x, const struct param *gain,
                          const struct param *bias, bool acc)
{
    const struct act *w = model_w(m, gain);
    struct f32 *dw = model_dw(m, gain);
    struct norm_dims d = model_norm_dims(m);

    if (m->spec.model.norm == NORM_LAYER)
        m->be->op->layernorm_backward(m->be, dx, dw, model_dw(m, bias), dy, x, w, stat.mean,
                                      stat.rstd, d, acc);
    else
        m->be->op->rmsnorm_backward(m->be, dx, dw, dy, x, w, stat.rstd, d, acc);
}

static void linear_backward(struct model *m, struct act *dx, const struct act *dy,
                            const struct act *x, const struct param *w, const struct param *bias,
                            int in, int out, bool acc)
{
    struct linear_dims d = {.N = m->N, .C = in, .O = out};

    m->be->op->linear_backward(m->be, dx, model_dw(m, w), model_dw(m, bias), dy, x, model_w(m, w),
                               d, acc);
}

// Gradients of the normalised, rotated q and k in s.dqk become those of q and k in s.dqkv.
static void qk_norm_backward(struct model *m, const struct step *s)
{
    struct backend *be = m->be;
    struct act *dqk = m->s.dqk, *dqkv = m->s.dqkv;
    const struct param *q = s->p[PARAM_Q_NORM], *k = s->p[PARAM_K_NORM];

    be->op->rmsnorm_backward(be, dqkv, model_dw(m, q), dqk, s->qkv, model_w(m, q), s->rstd_q,
                             model_qk_norm_dims(m, s, s->H), false);
    be->op->rmsnorm_backward(be, act_at(be, dqkv, s->Q), model_dw(m, k), act_at(be, dqk, s->Q),
                             act_at(be, s->qkv, s->Q), model_w(m, k), s->rstd_k,
                             model_qk_norm_dims(m, s, s->G), false);
}

// dx (= or +=, the gradient of in1) from dy, the gradient of out1
static void attention_backward(struct model *m, const struct step *s, struct act *dx,
                               const struct act *dy, bool acc)
{
    struct backend *be = m->be;
    const struct ops *op = be->op;
    const struct act *qk = s->qk ? s->qk : s->qkv;
    struct act *dqkv = m->s.dqkv, *dqk = s->qk ? m->s.dqk : dqkv;
    int v = s->Q + s->K;

    linear_backward(m, m->s.datt, dy, s->att, s->p[PARAM_O], s->p[PARAM_O_BIAS], s->Q, m->C, false);
    op->attention_backward(be, dqk, act_at(be, dqk, s->Q), act_at(be, dqkv, v), NULL, m->s.datt,
                           s->att, qk, act_at(be, qk, s->Q), act_at(be, s->qkv, v), s->lse, NULL,
                           NULL, model_attn_dims(m, s));
    if (m->spec.model.pos == POS_ROPE)
        op->rope_backward(be, dqk, m->cos, m->sin, model_rope_dims(m, s));
    if (s->qk)
        qk_norm_backward(m, s);
    linear_backward(m, dx, dqkv, s->in1, s->p[PARAM_Q], s->p[PARAM_Q_BIAS], m->C, s->Q + 2 * s->K,
                    acc);
}

// dx (= or +=, the gradient of in2) from dy, the gradient of out2
static void ffn_backward(struct model *m, const struct step *s, struct act *dx,
                         const struct act *dy, bool acc)
{
    const struct ops *op = m->be->op;
    enum act_fn act = m->spec.model.act;
    enum gelu_kind kind = act == ACT_GELU ? GELU_ERF : GELU_TANH;

    linear_backward(m, m->s.dh, dy, s->h, s->p[PARAM_DOWN], s->p[PARAM_DOWN_BIAS], s->F, m->C,
                    false);
    if (act == ACT_SWIGLU)
        op->swiglu_backward(m->be, m->s.dab, m->s.dh, s->ab, m->N, s->F);
    else
        op->gelu_backward(m->be, m->s.dab, m->s.dh, s->ab, m->N * s->F, kind);
    linear_backward(m, dx, m->s.dab, s->in2, s->ffn_in, s->ffn_in_bias, m->C, s->W, acc);
}

static void step_pre(struct model *m, const struct step *s)
{
    struct act *dx = m->s.dx, *dbranch = m->s.dbranch;

    ffn_backward(m, s, dbranch, dx, false);
    norm_backward(m, dx, dbranch, s->stat[1], s->mid, s->p[PARAM_FFN_IN_NORM],
                  s->p[PARAM_FFN_IN_NORM_BIAS], true);
    attention_backward(m, s, dbranch, dx, false);
    norm_backward(m, dx, dbranch, s->stat[0], s->x, s->p[PARAM_ATTN_IN_NORM],
                  s->p[PARAM_ATTN_IN_NORM_BIAS], true);
}

static void step_reordered(struct model *m, const struct step *s)
{
    struct act *dx = m->s.dx, *dbranch = m->s.dbranch;

    norm_backward(m, dbranch, dx, s->stat[1], s->out2, s->p[PARAM_FFN_OUT_NORM],
                  s->p[PARAM_FFN_OUT_NORM_BIAS], false);
    ffn_backward(m, s, dx, dbranch, true);
    norm_backward(m, dbranch, dx, s->stat[0], s->out1, s->p[PARAM_ATTN_OUT_NORM],
                  s->p[PARAM_ATTN_OUT_NORM_BIAS], false);
    attention_backward(m, s, dx, dbranch, true);
}

static void embed_backward(struct model *m)
{
    const struct ops *op = m->be->op;
    const struct param *pos = m->top[PARAM_POSITION];

    op->embedding_backward(m->be, model_dw(m, m->top[PARAM_EMBED]), m->s.dx, m->tokens, m->N, m->C,
                           m->V);
    if (pos)
        op->embedding_backward(m->be, model_dw(m, pos), m->s.dx, m->positions, m->N, m->C,
                               pos->rows);
}

void model_backward(struct model *m)
{
    const struct act *last = m->n_steps ? m->steps[m->n_steps - 1].y : m->embedded;

    norm_backward(m, m->s.dx, m->s.dbranch, m->final_stat, last, m->top[PARAM_FINAL_NORM],
                  m->top[PARAM_FINAL_NORM_BIAS], false);
    for (int i = m->n_steps - 1; i >= 0 && model_goes_on(m); i--)
        (model_is_pre(m) ? step_pre : step_reordered)(m, &m->steps[i]);
    embed_backward(m);
}
