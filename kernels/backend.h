// The seam between the engine and a device: memory and one complete table of typed ops.
//
// * Elements in device memory have opaque types, so the engine can neither index nor read them by
//   mistake: `struct act` (activations and the compute copy of weights), `struct f32` (master
//   weights, gradients of weights, moments, statistics, losses), `struct i32` (token ids).
//   Pointers move with act_at()/f32_at(). The reference backend stores both as double.
// * Ops return void, enqueue work, allocate nothing and never fail on valid arguments; wrong
//   arguments are a BUG. Device errors are sticky and surface at sync().
// * All arrays are row-major, the last index is contiguous. `ld` is the distance in elements
//   between two rows of one matrix inside a wider one.
// * Weight gradients accumulate (+=). Activation gradients assign (=) unless `acc` says add.
// * Reductions have a fixed order: same seed, backend, thread count and build give the same bits.
// * One thread drives a backend; it may not be the thread that opened it, but only one at a time.
//
// Letters: B batch, T tokens, N = B*T rows, C model width, V vocabulary, H query heads, G key/value
// heads, D head width, F hidden width, O output width.
#ifndef KERNELS_BACKEND_H
#define KERNELS_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct act;
struct f32;
struct i32;
struct backend;

// Rows of `groups` neighbouring vectors of `width`: element (r, g, i) of x lies at
// x + r*ldx + g*width + i. A plain norm has groups = 1; per-head QK-norm has one group per head.
// The gain (width) is shared by all groups; rstd and mean are (rows, groups).
struct norm_dims {
    int64_t rows;
    int groups;
    int width;
    int64_t ldx; // row distance of x and dx
    int64_t ldy; // row distance of y and dy
    float eps;
};

struct linear_dims {
    int64_t N; // rows
    int C;     // inputs
    int O;     // outputs
};

// Heads of D elements at qk + (b*T + t)*ld + h*D, h < heads. The angle of pair j at position
// pos0 + t is read from the tables cos, sin (positions, D/2).
struct rope_dims {
    int B, T, heads, D;
    int64_t ld;
    int pos0;
    bool interleaved; // pairs (2j, 2j+1) instead of (j, j + D/2)
};

// Causal grouped-query attention. Query row t is position Tk - Tq + t, so Tq = Tk in training and
// Tq < Tk with a key/value cache. Head h reads group h*G/H; G <= H. The cpu backend takes D up to
// 1024 and Tk up to 262144. kbias must be finite: with -inf the row that sees one key is NaN.
// score(t, s) = scale * q_t.k_s + kbias[b, s] - slope[h] * (position(t) - s), s <= position(t).
// Strides are per token row; q, k, v usually point into one (B, T, H+2G, D) buffer.
struct attn_dims {
    int B, Tq, Tk, H, G, D;
    int64_t ldq, ldk, ldv, ldy;
    float scale;
};

struct xent_dims {
    int64_t N;  // rows
    int V;      // classes that take part in the softmax
    int64_t ld; // row distance of logits, >= V; columns V..ld-1 get gradient 0
};

// AdamW with decoupled decay. bias1 = 1 - beta1^step, bias2 = 1 - beta2^step, computed by the
// caller in double. grad_scale multiplies the gradient first (clipping, mean over micro-batches).
//   m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
//   p = p - lr * (weight_decay * p + (m/bias1) / (sqrt(v/bias2) + eps))
struct adamw {
    double lr, beta1, beta2, eps, weight_decay, bias1, bias2, grad_scale;
};

// A gate's rows and width; eps is the least weight of a key, and rows with g < drop are hidden from
// attention altogether (0: none; -1e30 is as good as -inf and no NaN).
struct gate_dims {
    int64_t N;
    int C;
    float eps, drop;
};
#define GATE_DROPPED -1e30

// What gate_stats writes, in this order; variance over the N rows, shares of the N rows.
enum gate_stat_index {
    GATE_STAT_MEAN,
    GATE_STAT_VAR,
    GATE_STAT_ZERO,   // |g| < 1e-8
    GATE_STAT_CLOSED, // relu was shut: sum = prev, no gradient reaches the gate's weights
    GATE_STAT_OVER,   // sum > 1: no gradient of this gate
    GATE_STATS
};

enum gelu_kind { GELU_ERF, GELU_TANH };

// One entry per op; the table of a backend has no empty slot (backend_open checks).
// (shape) comments: outputs first, then inputs; * marks a pointer that may be NULL.
struct ops {
    // ---- device memory -------------------------------------------------------------------------
    void *(*alloc)(struct backend *be, size_t bytes); // zeroed, 64-byte aligned; NULL when full
    void (*release)(struct backend *be, void *p);     // NULL is fine
    void (*upload)(struct backend *be, struct f32 *dst, const float *src, int64_t n);
    void (*download)(struct backend *be, float *dst, const struct f32 *src, int64_t n);
    void (*upload_f64)(struct backend *be, struct f32 *dst, const double *src, int64_t n);
    void (*download_f64)(struct backend *be, double *dst, const struct f32 *src, int64_t n);
    void (*upload_i32)(struct backend *be, struct i32 *dst, const int32_t *src, int64_t n);
    // Scratch for the ops beyond what a backend brings, grown here only. cpu and ref need none.
    void (*reserve)(struct backend *be, size_t bytes);
    int (*sync)(struct backend *be, char *why, size_t why_size); // 0, or -1 with the device's words
    void (*close)(struct backend *be);

    // ---- ops -----------------------------------------------------------------------------------
    // y (N,C) = w[tok]
    void (*embedding_forward)(struct backend *be, struct act *y, const struct i32 *tok,
                              const struct act *w, int64_t N, int C);
    // dw f32 (V,C) += rows of dy; one owner per row of dw
    void (*embedding_backward)(struct backend *be, struct f32 *dw, const struct act *dy,
                               const struct i32 *tok, int64_t N, int C, int V);
    // y = w * x / sqrt(mean(x^2) + eps); rstd f32 (rows, groups)
    void (*rmsnorm_forward)(struct backend *be, struct act *y, struct f32 *rstd,
                            const struct act *x, const struct act *w, struct norm_dims d);
    // dx = or +=, dw f32 (width) +=
    void (*rmsnorm_backward)(struct backend *be, struct act *dx, struct f32 *dw,
                             const struct act *dy, const struct act *x, const struct act *w,
                             const struct f32 *rstd, struct norm_dims d, bool acc);
    // y = w * (x - mean) * rstd + b*
    void (*layernorm_forward)(struct backend *be, struct act *y, struct f32 *mean, struct f32 *rstd,
                              const struct act *x, const struct act *w, const struct act *b,
                              struct norm_dims d);
    void (*layernorm_backward)(struct backend *be, struct act *dx, struct f32 *dw, struct f32 *db,
                               const struct act *dy, const struct act *x, const struct act *w,
                               const struct f32 *mean, const struct f32 *rstd, struct norm_dims d,
                               bool acc);
    // y (N,O) = x (N,C) . w (O,C)^T + b* (O)
    void (*linear_forward)(struct backend *be, struct act *y, const struct act *x,
                           const struct act *w, const struct act *b, struct linear_dims d);
    // dx* (N,C) = or += dy . w;  dw* f32 (O,C) += dy^T . x;  db* f32 (O) += column sums of dy
    void (*linear_backward)(struct backend *be, struct act *dx, struct f32 *dw, struct f32 *db,
                            const struct act *dy, const struct act *x, const struct act *w,
                            struct linear_dims d, bool acc);
    // rotation in place
    void (*rope_forward)(struct backend *be, struct act *qk, const struct f32 *cos,
                         const struct f32 *sin, struct rope_dims d);
    // rotation by the negative angle, in place on the gradient
    void (*rope_backward)(struct backend *be, struct act *dqk, const struct f32 *cos,
                          const struct f32 *sin, struct rope_dims d);
    // y (B,Tq,H,D), lse f32 (B,H,Tq) = log-sum-exp of the scores;
    // kbias* f32 (B,Tk), slopes* f32 (H). Never forms the (Tq, Tk) matrix of a whole head.
    void (*attention_forward)(struct backend *be, struct act *y, struct f32 *lse,
                              const struct act *q, const struct act *k, const struct act *v,
                              const struct f32 *kbias, const struct f32 *slopes,
                              struct attn_dims d);
    // dq, dk, dv assign with the strides of q, k, v; dkbias* f32 (B,Tk) +=
    void (*attention_backward)(struct backend *be, struct act *dq, struct act *dk, struct act *dv,
                               struct f32 *dkbias, const struct act *dy, const struct act *y,
                               const struct act *q, const struct act *k, const struct act *v,
                               const struct f32 *lse, const struct f32 *kbias,
                               const struct f32 *slopes, struct attn_dims d);
    // y (N,F) = silu(a) * b with ab (N,2F): a = first F of a row, b = last F
    void (*swiglu_forward)(struct backend *be, struct act *y, const struct act *ab, int64_t N,
                           int F);
    void (*swiglu_backward)(struct backend *be, struct act *dab, const struct act *dy,
                            const struct act *ab, int64_t N, int F);
    void (*gelu_forward)(struct backend *be, struct act *y, const struct act *x, int64_t n,
                         enum gelu_kind kind);
    void (*gelu_backward)(struct backend *be, struct act *dx, const struct act *dy,
                          const struct act *x, int64_t n, enum gelu_kind kind);
    // y (N,C) = x + g* (N) * s; g = 1 if NULL
    void (*residual_forward)(struct backend *be, struct act *y, const struct act *x,
                             const struct act *s, const struct f32 *g, int64_t N, int C);
    // ds = g * dy, dg* f32 (N) += row dot (dy, s). The gradient of x is dy itself.
    void (*residual_backward)(struct backend *be, struct act *ds, struct f32 *dg,
                              const struct act *dy, const struct act *s, const struct f32 *g,
                              int64_t N, int C);
    // skip-the-middle gate (arXiv 2506.21103): pre = x.w + b, sum = prev* + relu(pre),
    // g = 1 - clamp(sum, 0, 1), logg = log(max(g, eps)), GATE_DROPPED where g < drop; all f32 (N)
    void (*gate_forward)(struct backend *be, struct f32 *sum, struct f32 *g, struct f32 *logg,
                         const struct act *x, const struct act *w, const struct act *b,
                         const struct f32 *prev, struct gate_dims d);
    // Walk the first half of the layers backwards; dsum f32 (N) in/out is the accumulator's
    // gradient (0 for the last). dg*, dlogg* f32 (N) are the gradients of g and logg; dlogg flows
    // only where g >= eps, both only where sum <= 1; relu'(0) = 0. dx = or +=, dw (C), db (1) +=.
    void (*gate_backward)(struct backend *be, struct act *dx, struct f32 *dw, struct f32 *db,
                          struct f32 *dsum, const struct f32 *dg, const struct f32 *dlogg,
                          const struct act *x, const struct act *w, const struct f32 *sum,
                          const struct f32 *prev, struct gate_dims d, bool acc);
    // out f32 (GATE_STATS) over the N rows of one gate
    void (*gate_stats)(struct backend *be, struct f32 *out, const struct f32 *g,
                       const struct f32 *sum, const struct f32 *prev, int64_t N);
    // The gradient of a function of mean and variance: dg f32 (N) += a + b g
    void (*gate_penalty)(struct backend *be, struct f32 *dg, double a, double b,
                         const struct f32 *g, int64_t N);
    // loss f32 (N) = -log softmax(logits)[target], 0 where target = -1. With want_grad the logits
    // become scale * (softmax - onehot), 0 where target = -1.
    void (*softmax_xent)(struct backend *be, struct f32 *loss, struct act *logits,
                         const struct i32 *target, struct xent_dims d, double scale,
                         bool want_grad);
    // p, m, v f32 (n) updated; p_act* (n) receives the compute copy (NULL when it is p itself)
    void (*adamw_step)(struct backend *be, struct f32 *p, struct act *p_act, struct f32 *m,
                       struct f32 *v, const struct f32 *g, int64_t n, struct adamw a);
    void (*sum_squares)(struct backend *be, struct f32 *out, const struct f32 *x, int64_t n);
    void (*sum)(struct backend *be, struct f32 *out, const struct f32 *x, int64_t n);
    void (*scale)(struct backend *be, struct f32 *x, double a, int64_t n);
    void (*axpy)(struct backend *be, struct f32 *y, double a, const struct f32 *x, int64_t n);
    void (*fill)(struct backend *be, struct f32 *x, double value, int64_t n);
    void (*add_act)(struct backend *be, struct act *y, const struct act *x, int64_t n); // y += x
    void (*copy_act)(struct backend *be, struct act *y, const struct act *x, int64_t n);
    // out f32 (1) = mean L2 norm of the rows of x (N,C)
    void (*row_norms)(struct backend *be, struct f32 *out, const struct act *x, int64_t N, int C);
    void (*cast_to_act)(struct backend *be, struct act *y, const struct f32 *x, int64_t n);
    void (*cast_to_f32)(struct backend *be, struct f32 *y, const struct act *x, int64_t n);
};

// Every member of struct ops is one pointer; backend.c asserts that this list is complete.
#define OPS_COUNT (sizeof(struct ops) / sizeof(void (*)(void)))

struct backend {
    const char *name; // "cpu", "ref", "trace"
    size_t act_size;  // bytes of one struct act element
    size_t f32_size;  // bytes of one struct f32 element
    bool act_is_f32;  // act and f32 share one representation: weights need no second copy
    int threads;
    const struct ops *op;
    void *state; // the implementation's
};

// Opens "cpu" or "ref". threads = 0 takes every core the process may use, at most OMP_NUM_THREADS
// where that is set. Returns NULL and writes one sentence to `why` when the backend is not
// available.
struct backend *backend_open(const char *name, int threads, char *why, size_t why_size);
void backend_close(struct backend *be);

// Name of the i-th member of struct ops, i < OPS_COUNT.
const char *backend_op_name(int i);

// What the matrix products run on: "oneDNN 2.6.3" or "OpenBLAS".
const char *backend_gemm_library(void);

static inline struct act *act_at(const struct backend *be, const struct act *p, int64_t i)
{
    return (struct act *)((char *)(uintptr_t)p + be->act_size * (size_t)i);
}
static inline struct f32 *f32_at(const struct backend *be, const struct f32 *p, int64_t i)
{
    return (struct f32 *)((char *)(uintptr_t)p + be->f32_size * (size_t)i);
}
static inline struct i32 *i32_at(const struct i32 *p, int64_t i)
{
    return (struct i32 *)((char *)(uintptr_t)p + sizeof(int32_t) * (size_t)i);
}

#endif
