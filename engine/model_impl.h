// What the files of the model share. Nobody else includes this.
#ifndef ENGINE_MODEL_IMPL_H
#define ENGINE_MODEL_IMPL_H

#include "engine/model.h"

struct norm_stat {
    struct f32 *mean; // LayerNorm only
    struct f32 *rstd;
};

// One pass through one layer. "pre": y = x + f(norm(x)); "reordered": y = x + norm(f(x)).
// Buffers that the backward pass needs are the step's own, the others are shared.
struct step {
    int layer, repeat;
    int H, G, D;                              // query heads, key/value heads, head width
    int Q, K;                                 // H*D, G*D
    int F;                                    // hidden width
    int W;                                    // columns of ab: 2F (SwiGLU) or F (GELU)
    const struct param **p;                   // of the layer, by role
    const struct param *ffn_in, *ffn_in_bias; // gate and up fused, or up alone
    struct act *x;                            // (N, C) the stream that enters
    struct act *in1;                          // (N, C) input of the attention: norm of x, or x
    struct act *qkv;          // (N, Q+2K); q and k already rotated unless there is a QK-norm
    struct act *qk;           // (N, Q+K) normalised and rotated, NULL without QK-norm
    struct f32 *rstd_q;       // (N, groups)
    struct f32 *rstd_k;       //
    struct act *att;          // (N, Q) mixed values
    struct f32 *lse;          // (B, H, T)
    struct act *out1;         // (N, C) output of the attention; shared in pre placement
    struct act *mid;          // (N, C) the stream between attention and FFN
    struct act *in2;          // (N, C) input of the FFN: norm of mid, or mid
    struct act *ab;           // (N, W)
    struct act *h;            // (N, F)
    struct act *out2;         // (N, C) output of the FFN; shared in pre placement
    struct act *y;            // (N, C) the stream that leaves
    struct norm_stat stat[2]; // of the two norms
};

// Buffers of the backward pass and of what is not kept, shared by all steps.
struct scratch {
    struct act *branch;  // (N, C) what is added to the stream
    struct act *dbranch; // (N, C)
    struct act *dx;      // (N, C) gradient of the stream
    struct act *dqkv;    // (N, max Q+2K)
    struct act *dqk;     // (N, max Q+K), with QK-norm
    struct act *datt;    // (N, max Q)
    struct act *dab;     // (N, max W)
    struct act *dh;      // (N, max F)
    struct act *logits;  // (head_rows, V)
};

struct model {
    struct backend *be;
    struct spec spec;
    struct param_list params;
    int B, T, C, V;
    int64_t N;
    int head_rows, head_rows_max;
    const struct param *(*layer)[PARAM_ROLE_COUNT]; // [n_layers], by role
    const struct param *top[PARAM_ROLE_COUNT];      // outside the layers
    struct step *steps;
    int n_steps;

    struct f32 *weights, *gradients;
    struct act *compute; // the weights as the ops read them; weights itself where act_is_f32
    void *arena;
    struct act *embedded; // (N, C)
    struct act *final;    // (N, C) after the final norm
    struct norm_stat final_stat;
    struct f32 *losses;                       // (N)
    struct f32 *cos, *sin;                    // (T, D/2)
    struct i32 *tokens, *targets, *positions; // (N)
    struct scratch s;
    double *host_losses;

    model_poll *poll;
    void *poll_user;
    bool abandoned; // the pass that runs, as the poll wished
};

// Assigns every activation buffer inside a block that starts at `base` (NULL: only measure) and
// returns its size in bytes.
size_t model_lay_out(struct model *m, char *base, struct model_sizes sizes);
// Everything of a model that needs no memory on a device.
void model_describe(struct model *m, const struct spec *spec);
void model_undescribe(struct model *m);

void model_forward(struct model *m);                            // tokens -> final
void model_head(struct model *m, double scale, bool want_grad); // final -> losses (, dbranch)
void model_backward(struct model *m);                           // dbranch -> gradients

// Between the pieces of a pass: whether to go on.
static inline bool model_goes_on(struct model *m)
{
    if (!m->abandoned && m->poll)
        m->abandoned = m->poll(m->poll_user);
    return !m->abandoned;
}
static inline bool model_is_pre(const struct model *m)
{
    return m->spec.model.norm_place == PLACE_PRE;
}
// NULL stays NULL: a bias that the model does not have.
static inline const struct act *model_w(const struct model *m, const struct param *p)
{
    return p ? act_at(m->be, m->compute, p->offset) : NULL;
}
static inline struct f32 *model_dw(const struct model *m, const struct param *p)
{
    return p ? f32_at(m->be, m->gradients, p->offset) : NULL;
}
// The matrix that turns the final stream into logits.
static inline const struct param *model_head_param(const struct model *m)
{
    return m->top[PARAM_HEAD] ? m->top[PARAM_HEAD] : m->top[PARAM_EMBED];
}
static inline struct norm_dims model_norm_dims(const struct model *m)
{
    return (struct norm_dims){.rows = m->N,
                              .groups = 1,
                              .width = m->C,
                              .ldx = m->C,
                              .ldy = m->C,
                              .eps = (float)m->spec.model.norm_eps};
}
// The QK-norm of `heads` heads inside rows of Q+2K (in) and Q+K (out).
static inline struct norm_dims model_qk_norm_dims(const struct model *m, const struct step *s,
                                                  int heads)
{
    bool per_head = m->spec.model.qk_norm == QK_HEAD;

    return (struct norm_dims){.rows = m->N,
                              .groups = per_head ? heads : 1,
                              .width = per_head ? s->D : heads * s->D,
                              .ldx = s->Q + 2 * s->K,
                              .ldy = s->Q + s->K,
                              .eps = (float)m->spec.model.norm_eps};
}
// Row length of the buffer that holds the rotated q and k.
static inline int model_qk_ld(const struct step *s)
{
    return s->qk ? s->Q + s->K : s->Q + 2 * s->K;
}
static inline struct rope_dims model_rope_dims(const struct model *m, const struct step *s)
{
    return (struct rope_dims){.B = m->B,
                              .T = m->T,
                              .heads = s->H + s->G, // k follows q
                              .D = s->D,
                              .ld = model_qk_ld(s),
                              .interleaved = m->spec.model.rope_layout == ROPE_INTERLEAVED};
}
struct attn_dims model_attn_dims(const struct model *m, const struct step *s);

#endif
