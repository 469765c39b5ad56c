// The forward pass and the head: read from top to bottom, one op call per line.
#include "engine/model_impl.h"

#include <math.h>

static void norm(struct model *m, struct act *y, struct norm_stat stat, const struct act *x,
                 const struct param *gain, const struct param *bias)
{
    const struct act *w = model_w(m, gain), *b = model_w(m, bias);
    struct norm_dims d = model_norm_dims(m);

    if (m->spec.model.norm == NORM_LAYER)
        m->be->op->layernorm_forward(m->be, y, stat.mean, stat.rstd, x, w, b, d);
    else
        m->be->op->rmsnorm_forward(m->be, y, stat.rstd, x, w, d);
}

static void linear(struct model *m, struct act *y, const struct act *x, const struct param *w,
                   const struct param *bias, int in, int out)
{
    struct linear_dims d = {.N = m->N, .C = in, .O = out};

    m->be->op->linear_forward(m->be, y, x, model_w(m, w), model_w(m, bias), d);
}

struct attn_dims model_attn_dims(const struct model *m, const struct step *s)
{
    return (struct attn_dims){.B = m->B,
                              .Tq = m->T,
                              .Tk = m->T,
                              .H = s->H,
                              .G = s->G,
                              .D = s->D,
                              .ldq = model_qk_ld(s),
                              .ldk = model_qk_ld(s),
                              .ldv = s->Q + 2 * s->K,
                              .ldy = s->Q,
                              .scale = (float)(1 / sqrt(s->D))};
}

// in1 -> out1
static void attention(struct model *m, struct step *s)
{
    struct backend *be = m->be;
    const struct ops *op = be->op;
    struct act *qk = s->qk ? s->qk : s->qkv, *k = act_at(be, s->qkv, s->Q);

    linear(m, s->qkv, s->in1, s->p[PARAM_Q], s->p[PARAM_Q_BIAS], m->C, s->Q + 2 * s->K);
    if (s->qk) {
        op->rmsnorm_forward(be, s->qk, s->rstd_q, s->qkv, model_w(m, s->p[PARAM_Q_NORM]),
                            model_qk_norm_dims(m, s, s->H));
        op->rmsnorm_forward(be, act_at(be, s->qk, s->Q), s->rstd_k, k,
                            model_w(m, s->p[PARAM_K_NORM]), model_qk_norm_dims(m, s, s->G));
    }
    if (m->spec.model.pos == POS_ROPE)
        op->rope_forward(be, qk, m->cos, m->sin, model_rope_dims(m, s));
    op->attention_forward(be, s->att, s->lse, qk, act_at(be, qk, s->Q),
                          act_at(be, s->qkv, s->Q + s->K), NULL, NULL, model_attn_dims(m, s));
    linear(m, s->out1, s->att, s->p[PARAM_O], s->p[PARAM_O_BIAS], s->Q, m->C);
}

// in2 -> out2
static void ffn(struct model *m, struct step *s)
{
    const struct ops *op = m->be->op;
    enum act_fn act = m->spec.model.act;
    enum gelu_kind kind = act == ACT_GELU ? GELU_ERF : GELU_TANH;

    linear(m, s->ab, s->in2, s->ffn_in, s->ffn_in_bias, m->C, s->W);
    if (act == ACT_SWIGLU)
        op->swiglu_forward(m->be, s->h, s->ab, m->N, s->F);
    else
        op->gelu_forward(m->be, s->h, s->ab, m->N * s->F, kind);
    linear(m, s->out2, s->h, s->p[PARAM_DOWN], s->p[PARAM_DOWN_BIAS], s->F, m->C);
}

static void step_pre(struct model *m, struct step *s)
{
    const struct ops *op = m->be->op;

    norm(m, s->in1, s->stat[0], s->x, s->p[PARAM_ATTN_IN_NORM], s->p[PARAM_ATTN_IN_NORM_BIAS]);
    attention(m, s);
    op->residual_forward(m->be, s->mid, s->x, s->out1, NULL, m->N, m->C);
    norm(m, s->in2, s->stat[1], s->mid, s->p[PARAM_FFN_IN_NORM], s->p[PARAM_FFN_IN_NORM_BIAS]);
    ffn(m, s);
    op->residual_forward(m->be, s->y, s->mid, s->out2, NULL, m->N, m->C);
}

static void step_reordered(struct model *m, struct step *s)
{
    const struct ops *op = m->be->op;
    struct act *branch = m->s.branch;

    attention(m, s);
    norm(m, branch, s->stat[0], s->out1, s->p[PARAM_ATTN_OUT_NORM], s->p[PARAM_ATTN_OUT_NORM_BIAS]);
    op->residual_forward(m->be, s->mid, s->x, branch, NULL, m->N, m->C);
    ffn(m, s);
    norm(m, branch, s->stat[1], s->out2, s->p[PARAM_FFN_OUT_NORM], s->p[PARAM_FFN_OUT_NORM_BIAS]);
    op->residual_forward(m->be, s->y, s->mid, branch, NULL, m->N, m->C);
}

static void embed(struct model *m)
{
    const struct ops *op = m->be->op;
    const struct param *pos = m->top[PARAM_POSITION];

    op->embedding_forward(m->be, m->embedded, m->tokens, model_w(m, m->top[PARAM_EMBED]), m->N,
                          m->C);
    if (pos) {
        op->embedding_forward(m->be, m->s.branch, m->positions, model_w(m, pos), m->N, m->C);
        op->add_act(m->be, m->embedded, m->s.branch, m->N * m->C);
    }
}

void model_forward(struct model *m)
{
    embed(m);
    for (int i = 0; i < m->n_steps && model_goes_on(m); i++)
        (model_is_pre(m) ? step_pre : step_reordered)(m, &m->steps[i]);
    norm(m, m->final, m->final_stat, m->n_steps ? m->steps[m->n_steps - 1].y : m->embedded,
         m->top[PARAM_FINAL_NORM], m->top[PARAM_FINAL_NORM_BIAS]);
}

// Logits exist for head_rows rows at a time; their gradient replaces them and is used at once.
void model_head(struct model *m, double scale, bool want_grad)
{
    const struct backend *be = m->be;
    const struct ops *op = be->op;
    const struct act *w = model_w(m, model_head_param(m));
    struct f32 *dw = model_dw(m, model_head_param(m));
    struct act *logits = m->s.logits;

    for (int64_t row = 0; row < m->N && model_goes_on(m); row += m->head_rows) {
        int64_t rows = m->N - row < m->head_rows ? m->N - row : m->head_rows;
        const struct act *x = act_at(be, m->final, row * m->C);
        struct linear_dims d = {.N = rows, .C = m->C, .O = m->V};
        struct xent_dims xd = {.N = rows, .V = m->V, .ld = m->V};

        op->linear_forward(m->be, logits, x, w, NULL, d);
        op->softmax_xent(m->be, f32_at(be, m->losses, row), logits, i32_at(m->targets, row), xd,
                         scale, want_grad);
        if (want_grad)
            op->linear_backward(m->be, act_at(be, m->s.dbranch, row * m->C), dw, NULL, logits, x, w,
                                d, false);
    }
}
