// The backward pass: the forward lists reversed. m->s.dx is the gradient of the stream; since the
// residual adds, it passes a branch unchanged and the branch's own gradient is added to it.
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

// dx (= or +=, the gradient of the branch's input) from dy, that of its output; dx may be dy
static void attention_backward(struct model *m, const struct step *s, struct act *dx,
                               const struct act *dy, bool acc)
{
    struct backend *be = m->be;
    const struct ops *op = be->op;
    const struct act *qk = s->qk ? s->qk : s->qkv;
    struct act *dqkv = m->s.dqkv, *dqk = s->qk ? m->s.dqk : dqkv;
    const struct gate *gate = model_gates_keys(m) ? model_gate(m, s) : NULL;
    int v = s->Q + s->K;

    linear_backward(m, m->s.datt, dy, s->att, s->p[PARAM_O], s->p[PARAM_O_BIAS], s->Q, m->C, false);
    op->attention_backward(be, dqk, act_at(be, dqk, s->Q), act_at(be, dqkv, v),
                           gate ? gate->dlogg : NULL, m->s.datt, s->att, qk, act_at(be, qk, s->Q),
                           act_at(be, s->qkv, v), s->lse, gate ? gate->logg : NULL, s->slopes,
                           model_attn_dims(m, s));
    if (m->spec.model.pos == POS_ROPE)
        op->rope_backward(be, dqk, m->cos, m->sin, model_rope_dims(m, s));
    if (s->qk)
        qk_norm_backward(m, s);
    linear_backward(m, dx, dqkv, s->r[ATTENTION].in, s->p[PARAM_Q], s->p[PARAM_Q_BIAS], m->C,
                    s->Q + 2 * s->K, acc);
}

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
    linear_backward(m, dx, m->s.dab, s->r[FFN].in, s->ffn_in, s->ffn_in_bias, m->C, s->W, acc);
}

// The gradient of what was multiplied by the gate; the gate's own is added to dg. What was
// multiplied is computed once more where a norm made it.
static const struct act *gated(struct model *m, const struct step *s, enum branch b)
{
    const struct residual *r = &s->r[b];
    const struct gate *gate = model_gate(m, s);
    struct norm_roles role = model_norm_roles(b);
    const struct act *what = r->out;

    if (!gate)
        return m->s.dx;
    if (spec_norm_after(&m->spec.model)) {
        model_norm(m, m->s.branch, r->out_stat, r->out, s->p[role.out], s->p[role.out_bias]);
        what = m->s.branch;
    }
    m->be->op->residual_backward(m->be, m->s.dbranch, gate->dg, m->s.dx, what, gate->g, m->N, m->C);
    return m->s.dbranch;
}

// dx = the gradient of y becomes that of x
static void residual_backward(struct model *m, const struct step *s, enum branch b)
{
    const struct residual *r = &s->r[b];
    struct norm_roles role = model_norm_roles(b);
    struct act *dx = m->s.dx, *dbranch = m->s.dbranch;
    const struct act *dy = gated(m, s, b);
    bool before = spec_norm_before(&m->spec.model);

    if (spec_norm_after(&m->spec.model)) {
        struct act *dout = dy == dbranch ? m->s.branch : dbranch;

        norm_backward(m, dout, dy, r->out_stat, r->out, s->p[role.out], s->p[role.out_bias], false);
        dy = dout;
    }
    (b == ATTENTION ? attention_backward : ffn_backward)(m, s, before ? dbranch : dx, dy, !before);
    if (before)
        norm_backward(m, dx, dbranch, r->in_stat, r->x, s->p[role.in], s->p[role.in_bias], true);
}

// The stream entered the step as x + inject: its gradient goes both ways. `to` collects that of a
// source which several steps used, the last of them first.
static void share(struct model *m, struct act *to, bool is_first)
{
    (is_first ? m->be->op->copy_act : m->be->op->add_act)(m->be, to, m->s.dx, m->N * m->C);
}

static void inject_backward(struct model *m, const struct step *s)
{
    int repeats = m->spec.model.lane[LANE_REUSE][s->layer];
    bool reuse = m->spec.model.reuse_inject == INJECT_ADD;

    if (s->repeat > 0 && reuse)
        share(m, m->s.dfirst, s->repeat == repeats - 1);
    if (s->repeat == 0 && reuse && repeats > 1)
        m->be->op->add_act(m->be, m->s.dx, m->s.dfirst, m->N * m->C);
    if (s->repeat == 0 && s->inject)
        share(m, m->s.dembedded, s->loop == m->spec.model.block_loops - 1);
}

static void step_backward(struct model *m, struct step *s)
{
    if (model_recomputes(m))
        model_step_inner(m, s);
    for (int b = BRANCHES - 1; b >= ATTENTION; b--)
        if (model_has(s, (enum branch)b))
            residual_backward(m, s, (enum branch)b);
    if (s->opens_gate)
        model_gate_backward(m, s);
    inject_backward(m, s);
}

static void embed_backward(struct model *m)
{
    const struct ops *op = m->be->op;
    const struct model_spec *ms = &m->spec.model;
    const struct param *pos = m->top[PARAM_POSITION];
    struct act *dx = m->s.dx;

    if (ms->block_loops > 1 && ms->block_inject == INJECT_ADD)
        op->add_act(m->be, dx, m->s.dembedded, m->N * m->C);
    if (ms->input_norm) {
        norm_backward(m, m->s.dbranch, dx, m->embed_stat, m->raw, m->top[PARAM_EMBED_NORM],
                      m->top[PARAM_EMBED_NORM_BIAS], false);
        dx = m->s.dbranch;
    }
    op->embedding_backward(m->be, model_dw(m, m->top[PARAM_EMBED]), dx, m->tokens, m->N, m->C,
                           m->V);
    if (pos)
        op->embedding_backward(m->be, model_dw(m, pos), dx, m->positions, m->N, m->C, pos->rows);
}

void model_backward(struct model *m)
{
    const struct act *last = m->steps[m->n_steps - 1].r[FFN].y;

    norm_backward(m, m->s.dx, m->s.dbranch, m->final_stat, last, m->top[PARAM_FINAL_NORM],
                  m->top[PARAM_FINAL_NORM_BIAS], false);
    for (int i = m->n_steps - 1; i >= 0 && model_goes_on(m); i--)
        step_backward(m, &m->steps[i]);
    embed_backward(m);
}
