// The forward pass and the head: read from top to bottom, one op call per line.
#include "engine/model_impl.h"

#include <math.h>

void model_norm(struct model *m, struct act *y, struct norm_stat stat, const struct act *x,
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
    struct linear_dims d = {.N = m->rows, .C = in, .O = out};

    m->be->op->linear_forward(m->be, y, x, model_w(m, w), model_w(m, bias), d);
}

struct attn_dims model_attn_dims(const struct model *m, const struct step *s)
{
    int T = (int)(m->rows / m->B);

    return (struct attn_dims){.B = m->B,
                              .Tq = T,
                              .Tk = m->past + T,
                              .H = s->H,
                              .G = s->G,
                              .D = s->D,
                              .ldq = model_qk_ld(s),
                              .ldk = model_qk_ld(s),
                              .ldv = s->Q + 2 * s->K,
                              .ldy = s->Q,
                              .scale = (float)(1 / sqrt(s->D))};
}

// qkv -> qk, rows of this pass
static void qk_norm(struct model *m, const struct step *s, struct act *qkv, struct act *qk)
{
    struct backend *be = m->be;

    be->op->rmsnorm_forward(be, qk, s->rstd_q, qkv, model_w(m, s->p[PARAM_Q_NORM]),
                            model_qk_norm_dims(m, s, s->H));
    be->op->rmsnorm_forward(be, act_at(be, qk, s->Q), s->rstd_k, act_at(be, qkv, s->Q),
                            model_w(m, s->p[PARAM_K_NORM]), model_qk_norm_dims(m, s, s->G));
}

// Queries are the rows of this pass; keys and values also those of earlier ones.
static void attention(struct model *m, struct step *s)
{
    struct backend *be = m->be;
    struct residual *r = &s->r[ATTENTION];
    int ld = s->Q + 2 * s->K;
    struct act *qkv = model_new_rows(m, s->qkv, ld), *keys = s->qk ? s->qk : s->qkv;
    struct act *q = model_new_rows(m, keys, model_qk_ld(s));
    const struct gate *gate = model_gates_keys(m) ? model_gate(m, s) : NULL;

    linear(m, qkv, r->in, s->p[PARAM_Q], s->p[PARAM_Q_BIAS], m->C, ld);
    if (s->qk)
        qk_norm(m, s, qkv, q);
    if (m->spec.model.pos == POS_ROPE)
        be->op->rope_forward(be, q, m->cos, m->sin, model_rope_dims(m, s));
    be->op->attention_forward(be, s->att, s->lse, q, act_at(be, keys, s->Q),
                              act_at(be, s->qkv, s->Q + s->K), gate ? gate->logg : NULL, s->slopes,
                              model_attn_dims(m, s));
    linear(m, r->out, s->att, s->p[PARAM_O], s->p[PARAM_O_BIAS], s->Q, m->C);
}

static void ffn(struct model *m, struct step *s)
{
    const struct ops *op = m->be->op;
    struct residual *r = &s->r[FFN];
    enum act_fn act = m->spec.model.act;
    enum gelu_kind kind = act == ACT_GELU ? GELU_ERF : GELU_TANH;

    linear(m, s->ab, r->in, s->ffn_in, s->ffn_in_bias, m->C, s->W);
    if (act == ACT_SWIGLU)
        op->swiglu_forward(m->be, s->h, s->ab, m->rows, s->F);
    else
        op->gelu_forward(m->be, s->h, s->ab, m->rows * s->F, kind);
    linear(m, r->out, s->h, s->p[PARAM_DOWN], s->p[PARAM_DOWN_BIAS], s->F, m->C);
}

// norm, branch, norm; what is to be added to the stream
static const struct act *branch(struct model *m, struct step *s, enum branch b)
{
    struct residual *r = &s->r[b];
    struct norm_roles role = model_norm_roles(b);

    if (spec_norm_before(&m->spec.model))
        model_norm(m, r->in, r->in_stat, r->x, s->p[role.in], s->p[role.in_bias]);
    (b == ATTENTION ? attention : ffn)(m, s);
    if (!spec_norm_after(&m->spec.model))
        return r->out;
    model_norm(m, m->s.branch, r->out_stat, r->out, s->p[role.out], s->p[role.out_bias]);
    return m->s.branch;
}

static void add_branch(struct model *m, struct step *s, enum branch b, const struct act *what)
{
    const struct gate *gate = model_gate(m, s);

    m->be->op->residual_forward(m->be, s->r[b].y, s->r[b].x, what,
                                gate ? f32_at(m->be, gate->g, m->past) : NULL, m->rows, m->C);
}

void model_step_inner(struct model *m, struct step *s)
{
    const struct act *what = model_has(s, ATTENTION) ? branch(m, s, ATTENTION) : NULL;

    if (!model_has(s, FFN))
        return;
    if (what)
        add_branch(m, s, ATTENTION, what);
    branch(m, s, FFN);
}

void model_step(struct model *m, struct step *s)
{
    for (int b = ATTENTION; b < BRANCHES; b++)
        if (model_has(s, (enum branch)b))
            add_branch(m, s, (enum branch)b, branch(m, s, (enum branch)b));
}

void model_embed(struct model *m)
{
    const struct ops *op = m->be->op;
    const struct param *pos = m->top[PARAM_POSITION];

    op->embedding_forward(m->be, m->raw, m->tokens, model_w(m, m->top[PARAM_EMBED]), m->rows, m->C);
    if (pos) {
        op->embedding_forward(m->be, m->s.branch, i32_at(m->positions, m->past), model_w(m, pos),
                              m->rows, m->C);
        op->add_act(m->be, m->raw, m->s.branch, m->rows * m->C);
    }
    if (m->spec.model.input_norm)
        model_norm(m, m->embedded, m->embed_stat, m->raw, m->top[PARAM_EMBED_NORM],
                   m->top[PARAM_EMBED_NORM_BIAS]);
}

// In place: nothing reads the stream as the step before left it.
void model_inject(struct model *m, const struct step *s)
{
    if (s->inject)
        m->be->op->add_act(m->be, s->r[ATTENTION].x, s->inject, m->rows * m->C);
}

void model_forward(struct model *m)
{
    model_embed(m);
    for (int i = 0; i < m->n_steps && model_goes_on(m); i++) {
        struct step *s = &m->steps[i];

        model_inject(m, s);
        if (s->opens_gate)
            model_gate_forward(m, s);
        model_step(m, s);
    }
    model_norm(m, m->final, m->final_stat, m->steps[m->n_steps - 1].r[FFN].y,
               m->top[PARAM_FINAL_NORM], m->top[PARAM_FINAL_NORM_BIAS]);
}

void model_logits_chunk(struct model *m, int64_t row, int64_t rows)
{
    struct linear_dims d = {.N = rows, .C = m->C, .O = m->V};

    m->be->op->linear_forward(m->be, m->s.logits, act_at(m->be, m->final, row * m->C),
                              model_w(m, model_head_param(m)), NULL, d);
}

// Logits exist for head_rows rows at a time; their gradient replaces them and is used at once.
void model_head(struct model *m, double scale, bool want_grad)
{
    const struct backend *be = m->be;
    const struct ops *op = be->op;
    const struct act *w = model_w(m, model_head_param(m));
    struct f32 *dw = want_grad ? model_dw(m, model_head_param(m)) : NULL;
    struct act *logits = m->s.logits;

    for (int64_t row = 0; row < m->N && model_goes_on(m); row += m->head_rows) {
        int64_t rows = m->N - row < m->head_rows ? m->N - row : m->head_rows;
        struct linear_dims d = {.N = rows, .C = m->C, .O = m->V};
        struct xent_dims xd = {.N = rows, .V = m->V, .ld = m->V};

        model_logits_chunk(m, row, rows);
        op->softmax_xent(m->be, f32_at(be, m->losses, row), logits, i32_at(m->targets, row), xd,
                         scale, want_grad);
        if (want_grad)
            op->linear_backward(m->be, act_at(be, m->s.dbranch, row * m->C), dw, NULL, logits,
                                act_at(be, m->final, row * m->C), w, d, false);
    }
}
