// What the files of the model share. Nobody else includes this.
#ifndef ENGINE_MODEL_IMPL_H
#define ENGINE_MODEL_IMPL_H

#include "engine/model.h"

struct norm_stat {
    struct f32 *mean; // LayerNorm only
    struct f32 *rstd;
};

// What a residual branch (attention or FFN) does to the stream: y = x + g * norm(f(norm(x))), each
// norm where the placement has it, g the layer's gate or 1.
enum branch { ATTENTION, FFN, BRANCHES };
struct residual {
    struct act *x;   // (N, C) the stream that enters
    struct act *in;  // (N, C) input of the branch: norm of x, or x
    struct act *out; // (N, C) output of the branch; shared where the backward pass needs none
    struct act *y;   // (N, C) the stream that leaves
    struct norm_stat in_stat, out_stat;
};

// One application of a layer. Buffers that the backward pass needs are the step's own, or are
// computed again there (recompute); the others are shared.
struct step {
    int layer, repeat, loop;
    int gate;                                 // index of the layer's gate, -1 = none
    bool opens_gate;                          // evaluates it, on x
    int H, G, D;                              // query heads, key/value heads, head width
    int Q, K;                                 // H*D, G*D
    int F;                                    // hidden width
    int W;                                    // columns of ab: 2F (SwiGLU) or F (GELU)
    const struct param **p;                   // of the layer, by role
    const struct param *ffn_in, *ffn_in_bias; // gate and up fused, or up alone
    const struct f32 *slopes;                 // (H) ALiBi, NULL without
    const struct act *inject;                 // (N, C) added to x before anything else, or NULL
    struct residual r[BRANCHES];              // r[FFN].x is r[ATTENTION].y; see model_has
    struct act *qkv;    // (N, Q+2K); q and k already rotated unless there is a QK-norm
    struct act *qk;     // (N, Q+K) normalised and rotated, NULL without QK-norm
    struct f32 *rstd_q; // (N, groups)
    struct f32 *rstd_k; //
    struct act *att;    // (N, Q) mixed values
    struct f32 *lse;    // (B, H, T)
    struct act *ab;     // (N, W)
    struct act *h;      // (N, F)
};

// A skip-the-middle gate and its gradients.
struct gate {
    const struct param *weight, *bias;
    struct f32 *sum, *g, *logg; // (N)
    struct f32 *dg, *dlogg;     // (N)
};

// Buffers of the backward pass and of what is not kept, shared by all steps.
struct scratch {
    struct act *branch;      // (N, C) what is added to the stream
    struct act *dbranch;     // (N, C)
    struct act *dx;          // (N, C) gradient of the stream
    struct act *dembedded;   // (N, C) through block_inject
    struct act *dfirst;      // (N, C) through reuse_inject, of the layer at hand
    struct act *dqkv;        // (N, max Q+2K)
    struct act *dqk;         // (N, max Q+K), with QK-norm
    struct act *datt;        // (N, max Q)
    struct act *dab;         // (N, max W)
    struct act *dh;          // (N, max F)
    struct act *logits;      // (head_rows, V)
    struct f32 *last_logits; // (V) of MODEL_DECODE
    struct f32 *dsum;        // (N) gradient of the gates' accumulator
};

struct model {
    struct backend *be;
    struct spec spec;
    enum model_use use;
    struct param_list params;
    int B, T, C, V;
    int64_t N;    // rows that there is memory for
    int64_t rows; // of the pass that runs: N, or what model_decode appends
    int past;     // positions before them, MODEL_DECODE only
    int head_rows, head_rows_max;
    const struct param *(*layer)[PARAM_ROLE_COUNT]; // [n_layers], by role
    const struct param *top[PARAM_ROLE_COUNT];      // outside the layers
    struct step *steps;
    int n_steps;
    struct gate *gates;
    int n_gates;

    struct f32 *weights, *gradients;
    struct act *compute; // the weights as the ops read them; weights itself where act_is_f32
    void *arena;
    struct act *raw;      // (N, C) before the input norm; embedded itself without one
    struct act *embedded; // (N, C) the stream that enters layer 0
    struct norm_stat embed_stat;
    struct act *final; // (N, C) after the final norm
    struct norm_stat final_stat;
    struct f32 *losses;                       // (N)
    struct f32 *cos, *sin;                    // (T, D/2)
    struct f32 *slopes;                       // (n_layers, max H), ALiBi
    struct f32 *stats;                        // (n_gates, GATE_STATS)
    struct f32 *norms;                        // (n_layers)
    struct i32 *tokens, *targets, *positions; // (N)
    struct scratch s;
    double *host_losses;

    double alpha[SPEC_MAX_LAYERS], beta[SPEC_MAX_LAYERS];
    struct gate_stat *stat; // n_gates, of the last pass
    double penalty;

    model_poll *poll;
    void *poll_user;
    bool abandoned; // the pass that runs, as the poll wished
};

// Assigns every activation buffer inside a block that starts at `base` (NULL: only measure) and
// returns its size in bytes.
size_t model_lay_out(struct model *m, char *base, struct model_sizes sizes);
// Everything of a model that needs no memory on a device.
void model_describe(struct model *m, const struct spec *spec, enum model_use use);
void model_undescribe(struct model *m);
// Angles, slopes, positions.
void model_fill_tables(struct model *m);

void model_forward(struct model *m);                            // tokens -> final
void model_embed(struct model *m);                              // the pieces of it
void model_inject(struct model *m, const struct step *s);       // what the step adds to its input
void model_step(struct model *m, struct step *s);               // without injection and gate
void model_step_inner(struct model *m, struct step *s);         // and without the last sum, y
void model_head(struct model *m, double scale, bool want_grad); // final -> losses (, dbranch)
void model_logits_chunk(struct model *m, int64_t row, int64_t rows); // final -> s.logits
void model_backward(struct model *m);                                // dbranch -> gradients
void model_norm(struct model *m, struct act *y, struct norm_stat stat, const struct act *x,
                const struct param *gain, const struct param *bias);

// model_gate.c
void model_gate_forward(struct model *m, const struct step *s);
void model_gate_measure(struct model *m);                        // after a forward pass: stat
void model_gate_begin_backward(struct model *m, double scale);   // zeroes, penalty and its gradient
void model_gate_backward(struct model *m, const struct step *s); // adds to s.dx

// Between the pieces of a pass: whether to go on.
static inline bool model_goes_on(struct model *m)
{
    if (!m->abandoned && m->poll)
        m->abandoned = m->poll(m->poll_user);
    return !m->abandoned;
}
// Roles of the norms of a branch.
struct norm_roles {
    enum param_role in, in_bias, out, out_bias;
};
static inline struct norm_roles model_norm_roles(enum branch b)
{
    if (b == ATTENTION)
        return (struct norm_roles){PARAM_ATTN_IN_NORM, PARAM_ATTN_IN_NORM_BIAS, PARAM_ATTN_OUT_NORM,
                                   PARAM_ATTN_OUT_NORM_BIAS};
    return (struct norm_roles){PARAM_FFN_IN_NORM, PARAM_FFN_IN_NORM_BIAS, PARAM_FFN_OUT_NORM,
                               PARAM_FFN_OUT_NORM_BIAS};
}
// A branch that a layer lacks has no buffers and leaves the stream as it is: y is x.
static inline bool model_has(const struct step *s, enum branch b)
{
    return b == ATTENTION ? s->H > 0 : s->F > 0;
}
static inline const struct gate *model_gate(const struct model *m, const struct step *s)
{
    return s->gate < 0 ? NULL : &m->gates[s->gate];
}
// Whether attention weighs its keys by the gates.
static inline bool model_gates_keys(const struct model *m)
{
    return m->spec.gate.attn == GATE_ATTN_KEY || m->spec.gate.attn == GATE_ATTN_HARD;
}
static inline bool model_recomputes(const struct model *m)
{
    return m->use == MODEL_TRAIN && m->spec.train.recompute == RECOMPUTE_LAYER;
}
// Whether the buffers of all steps still hold their values after a pass.
static inline bool model_keeps_all(const struct model *m)
{
    return m->use == MODEL_TRAIN && !model_recomputes(m);
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
    return (struct norm_dims){.rows = m->rows,
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

    return (struct norm_dims){.rows = m->rows,
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
// The rows of the pass inside a buffer that holds those of earlier ones too.
static inline struct act *model_new_rows(const struct model *m, struct act *x, int ld)
{
    return act_at(m->be, x, (int64_t)m->past * ld);
}
static inline struct rope_dims model_rope_dims(const struct model *m, const struct step *s)
{
    return (struct rope_dims){.B = m->B,
                              .T = (int)(m->rows / m->B),
                              .pos0 = m->past,
                              .heads = s->H + s->G, // k follows q
                              .D = s->D,
                              .ld = model_qk_ld(s),
                              .interleaved = m->spec.model.rope_layout == ROPE_INTERLEAVED};
}
int model_sync(struct model *m, struct err *err); // sticky errors of the device
int model_most_heads(const struct model *m);
struct attn_dims model_attn_dims(const struct model *m, const struct step *s);

#endif
