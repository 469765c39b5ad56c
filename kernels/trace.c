#include "kernels/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/bug.h"
#include "kernels/oplist.h"

struct trace {
    struct backend *inner;
    struct trace_row row[OPS_COUNT];
    struct trace_bad bad;
    uint64_t calls;
    bool check_finite;
    struct f32 *sum, *copy; // (1), (copy_n): device memory of the finite check
    int64_t copy_n;
};

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void finish(struct trace *t, int op, uint64_t start, int64_t bytes)
{
    t->row[op].ns += now_ns() - start;
    t->row[op].calls++;
    t->row[op].bytes += (uint64_t)bytes;
    t->calls++;
}

// Calls the op of the inner backend; `t` and `in` are declared for what follows.
#define PASS(name, bytes, ...)                                                                     \
    struct trace *t = be->state;                                                                   \
    struct backend *in = t->inner;                                                                 \
    uint64_t start_ns = now_ns();                                                                  \
    in->op->name(in, __VA_ARGS__);                                                                 \
    finish(t, OP_##name, start_ns, (bytes))

// ---- finite check ----------------------------------------------------------------------------

static bool is_finite(struct trace *t, const struct f32 *x, int64_t n)
{
    float sum;

    t->inner->op->sum(t->inner, t->sum, x, n); // a NaN or an infinity survives any sum
    t->inner->op->download(t->inner, &sum, t->sum, 1);
    return isfinite(sum);
}

static void found_bad(struct trace *t, int op, const char *output)
{
    t->bad = (struct trace_bad){backend_op_name(op), output, t->calls};
}

// Without memory for the copy of activations only f32 outputs are checked.
static bool grow_copy(struct trace *t, int64_t n)
{
    if (n <= t->copy_n)
        return true;
    t->inner->op->release(t->inner, t->copy);
    t->copy = t->inner->op->alloc(t->inner, (size_t)n * t->inner->f32_size);
    t->copy_n = t->copy ? n : 0;
    return t->copy;
}

// Rows of `width` values, `ld` apart: what lies between them belongs to others.
static void check_act(struct trace *t, int op, const char *name, const struct act *x, int64_t rows,
                      int64_t ld, int64_t width)
{
    struct backend *in = t->inner;

    if (!t->check_finite || t->bad.op || !x)
        return;
    if (ld == width) {
        width *= rows;
        rows = 1;
    }
    if (!grow_copy(t, width))
        return;
    for (int64_t r = 0; r < rows; r++) {
        in->op->cast_to_f32(in, t->copy, act_at(in, x, r * ld), width);
        if (!is_finite(t, t->copy, width)) {
            found_bad(t, op, name);
            return;
        }
    }
}

static void check_f32(struct trace *t, int op, const char *name, const struct f32 *x, int64_t n)
{
    if (t->check_finite && !t->bad.op && x && !is_finite(t, x, n))
        found_bad(t, op, name);
}

#define CHECK_ACT(op, x, rows, ld, width) check_act(t, OP_##op, #x, x, rows, ld, width)
#define CHECK_F32(op, x, n)               check_f32(t, OP_##op, #x, x, n)

// Bytes of so many activations and f32.
static int64_t bytes_of(const struct backend *be, int64_t acts, int64_t f32s)
{
    return acts * (int64_t)be->act_size + f32s * (int64_t)be->f32_size;
}
#define BYTES(acts, f32s) bytes_of(be, acts, f32s)

// ---- device memory ---------------------------------------------------------------------------

static void *trace_alloc(struct backend *be, size_t bytes)
{
    struct trace *t = be->state;
    uint64_t start_ns = now_ns();
    void *p = t->inner->op->alloc(t->inner, bytes);

    finish(t, OP_alloc, start_ns, (int64_t)bytes);
    return p;
}

static void trace_release(struct backend *be, void *p)
{
    PASS(release, 0, p);
}

static void trace_upload(struct backend *be, struct f32 *dst, const float *src, int64_t n)
{
    PASS(upload, BYTES(0, n), dst, src, n);
}

static void trace_download(struct backend *be, float *dst, const struct f32 *src, int64_t n)
{
    PASS(download, BYTES(0, n), dst, src, n);
}

static void trace_upload_f64(struct backend *be, struct f32 *dst, const double *src, int64_t n)
{
    PASS(upload_f64, BYTES(0, n), dst, src, n);
}

static void trace_download_f64(struct backend *be, double *dst, const struct f32 *src, int64_t n)
{
    PASS(download_f64, BYTES(0, n), dst, src, n);
}

static void trace_upload_i32(struct backend *be, struct i32 *dst, const int32_t *src, int64_t n)
{
    PASS(upload_i32, n * (int64_t)sizeof *src, dst, src, n);
}

static void trace_reserve(struct backend *be, size_t bytes)
{
    PASS(reserve, 0, bytes);
}

static int trace_sync(struct backend *be, char *why, size_t why_size)
{
    struct trace *t = be->state;
    uint64_t start_ns = now_ns();
    int rc = t->inner->op->sync(t->inner, why, why_size);

    finish(t, OP_sync, start_ns, 0);
    return rc;
}

static void trace_close(struct backend *be)
{
    struct trace *t = be->state;

    t->inner->op->release(t->inner, t->sum);
    t->inner->op->release(t->inner, t->copy);
    t->inner->op->close(t->inner);
    free(t);
    free(be);
}

// ---- ops -------------------------------------------------------------------------------------

static void trace_embedding_forward(struct backend *be, struct act *y, const struct i32 *tok,
                                    const struct act *w, int64_t N, int C)
{
    PASS(embedding_forward, BYTES(2 * N * C, 0), y, tok, w, N, C);
    CHECK_ACT(embedding_forward, y, N, C, C);
}

static void trace_embedding_backward(struct backend *be, struct f32 *dw, const struct act *dy,
                                     const struct i32 *tok, int64_t N, int C, int V)
{
    PASS(embedding_backward, BYTES(N * C, 2 * N * C), dw, dy, tok, N, C, V);
    CHECK_F32(embedding_backward, dw, (int64_t)V * C);
}

static int64_t norm_size(struct norm_dims d)
{
    return d.rows * d.groups * d.width;
}

static void trace_rmsnorm_forward(struct backend *be, struct act *y, struct f32 *rstd,
                                  const struct act *x, const struct act *w, struct norm_dims d)
{
    PASS(rmsnorm_forward, BYTES(2 * norm_size(d), d.rows * d.groups), y, rstd, x, w, d);
    CHECK_ACT(rmsnorm_forward, y, d.rows, d.ldy, (int64_t)d.groups * d.width);
    CHECK_F32(rmsnorm_forward, rstd, d.rows * d.groups);
}

static void trace_rmsnorm_backward(struct backend *be, struct act *dx, struct f32 *dw,
                                   const struct act *dy, const struct act *x, const struct act *w,
                                   const struct f32 *rstd, struct norm_dims d, bool acc)
{
    PASS(rmsnorm_backward, BYTES((3 + acc) * norm_size(d), d.rows * d.groups), dx, dw, dy, x, w,
         rstd, d, acc);
    CHECK_ACT(rmsnorm_backward, dx, d.rows, d.ldx, (int64_t)d.groups * d.width);
    CHECK_F32(rmsnorm_backward, dw, d.width);
}

static void trace_layernorm_forward(struct backend *be, struct act *y, struct f32 *mean,
                                    struct f32 *rstd, const struct act *x, const struct act *w,
                                    const struct act *b, struct norm_dims d)
{
    PASS(layernorm_forward, BYTES(2 * norm_size(d), 2 * d.rows * d.groups), y, mean, rstd, x, w, b,
         d);
    CHECK_ACT(layernorm_forward, y, d.rows, d.ldy, (int64_t)d.groups * d.width);
    CHECK_F32(layernorm_forward, mean, d.rows * d.groups);
    CHECK_F32(layernorm_forward, rstd, d.rows * d.groups);
}

static void trace_layernorm_backward(struct backend *be, struct act *dx, struct f32 *dw,
                                     struct f32 *db, const struct act *dy, const struct act *x,
                                     const struct act *w, const struct f32 *mean,
                                     const struct f32 *rstd, struct norm_dims d, bool acc)
{
    PASS(layernorm_backward, BYTES((3 + acc) * norm_size(d), 2 * d.rows * d.groups), dx, dw, db, dy,
         x, w, mean, rstd, d, acc);
    CHECK_ACT(layernorm_backward, dx, d.rows, d.ldx, (int64_t)d.groups * d.width);
    CHECK_F32(layernorm_backward, dw, d.width);
    CHECK_F32(layernorm_backward, db, d.width);
}

static void trace_linear_forward(struct backend *be, struct act *y, const struct act *x,
                                 const struct act *w, const struct act *b, struct linear_dims d)
{
    PASS(linear_forward, BYTES(d.N * d.C + d.N * d.O + (int64_t)d.C * d.O, 0), y, x, w, b, d);
    CHECK_ACT(linear_forward, y, d.N, d.O, d.O);
}

static void trace_linear_backward(struct backend *be, struct act *dx, struct f32 *dw,
                                  struct f32 *db, const struct act *dy, const struct act *x,
                                  const struct act *w, struct linear_dims d, bool acc)
{
    int64_t weights = (int64_t)d.C * d.O, in_rows = d.N * d.C, out_rows = d.N * d.O;
    int64_t acts =
        (dx ? out_rows + weights + (1 + acc) * in_rows : 0) + (dw ? out_rows + in_rows : 0);

    PASS(linear_backward, BYTES(acts, dw ? 2 * weights : 0), dx, dw, db, dy, x, w, d, acc);
    CHECK_ACT(linear_backward, dx, d.N, d.C, d.C);
    CHECK_F32(linear_backward, dw, weights);
    CHECK_F32(linear_backward, db, d.O);
}

static void trace_rope_forward(struct backend *be, struct act *qk, const struct f32 *cos,
                               const struct f32 *sin, struct rope_dims d)
{
    int64_t rows = (int64_t)d.B * d.T, width = (int64_t)d.heads * d.D;

    PASS(rope_forward, BYTES(2 * rows * width, (int64_t)d.T * d.D), qk, cos, sin, d);
    CHECK_ACT(rope_forward, qk, rows, d.ld, width);
}

static void trace_rope_backward(struct backend *be, struct act *dqk, const struct f32 *cos,
                                const struct f32 *sin, struct rope_dims d)
{
    int64_t rows = (int64_t)d.B * d.T, width = (int64_t)d.heads * d.D;

    PASS(rope_backward, BYTES(2 * rows * width, (int64_t)d.T * d.D), dqk, cos, sin, d);
    CHECK_ACT(rope_backward, dqk, rows, d.ld, width);
}

static int64_t attn_acts(struct attn_dims d)
{
    return (int64_t)d.B * d.D * (2 * (int64_t)d.Tq * d.H + 2 * (int64_t)d.Tk * d.G);
}

static void trace_attention_forward(struct backend *be, struct act *y, struct f32 *lse,
                                    const struct act *q, const struct act *k, const struct act *v,
                                    const struct f32 *kbias, const struct f32 *slopes,
                                    struct attn_dims d)
{
    int64_t stats = (int64_t)d.B * d.H * d.Tq;

    PASS(attention_forward, BYTES(attn_acts(d), stats), y, lse, q, k, v, kbias, slopes, d);
    CHECK_ACT(attention_forward, y, (int64_t)d.B * d.Tq, d.ldy, (int64_t)d.H * d.D);
    CHECK_F32(attention_forward, lse, stats);
}

static void trace_attention_backward(struct backend *be, struct act *dq, struct act *dk,
                                     struct act *dv, struct f32 *dkbias, const struct act *dy,
                                     const struct act *y, const struct act *q, const struct act *k,
                                     const struct act *v, const struct f32 *lse,
                                     const struct f32 *kbias, const struct f32 *slopes,
                                     struct attn_dims d)
{
    int64_t queries = (int64_t)d.B * d.Tq, keys = (int64_t)d.B * d.Tk;

    PASS(attention_backward, BYTES(2 * attn_acts(d), queries * d.H), dq, dk, dv, dkbias, dy, y, q,
         k, v, lse, kbias, slopes, d);
    CHECK_ACT(attention_backward, dq, queries, d.ldq, (int64_t)d.H * d.D);
    CHECK_ACT(attention_backward, dk, keys, d.ldk, (int64_t)d.G * d.D);
    CHECK_ACT(attention_backward, dv, keys, d.ldv, (int64_t)d.G * d.D);
    CHECK_F32(attention_backward, dkbias, keys);
}

static void trace_swiglu_forward(struct backend *be, struct act *y, const struct act *ab, int64_t N,
                                 int F)
{
    PASS(swiglu_forward, BYTES(3 * N * F, 0), y, ab, N, F);
    CHECK_ACT(swiglu_forward, y, N, F, F);
}

static void trace_swiglu_backward(struct backend *be, struct act *dab, const struct act *dy,
                                  const struct act *ab, int64_t N, int F)
{
    PASS(swiglu_backward, BYTES(5 * N * F, 0), dab, dy, ab, N, F);
    CHECK_ACT(swiglu_backward, dab, N, 2 * (int64_t)F, 2 * (int64_t)F);
}

static void trace_gelu_forward(struct backend *be, struct act *y, const struct act *x, int64_t n,
                               enum gelu_kind kind)
{
    PASS(gelu_forward, BYTES(2 * n, 0), y, x, n, kind);
    CHECK_ACT(gelu_forward, y, 1, n, n);
}

static void trace_gelu_backward(struct backend *be, struct act *dx, const struct act *dy,
                                const struct act *x, int64_t n, enum gelu_kind kind)
{
    PASS(gelu_backward, BYTES(3 * n, 0), dx, dy, x, n, kind);
    CHECK_ACT(gelu_backward, dx, 1, n, n);
}

static void trace_residual_forward(struct backend *be, struct act *y, const struct act *x,
                                   const struct act *s, const struct f32 *g, int64_t N, int C)
{
    PASS(residual_forward, BYTES(3 * N * C, g ? N : 0), y, x, s, g, N, C);
    CHECK_ACT(residual_forward, y, N, C, C);
}

static void trace_residual_backward(struct backend *be, struct act *ds, struct f32 *dg,
                                    const struct act *dy, const struct act *s, const struct f32 *g,
                                    int64_t N, int C)
{
    PASS(residual_backward, BYTES((dg ? 3 : 2) * N * C, (dg ? 2 * N : 0) + (g ? N : 0)), ds, dg, dy,
         s, g, N, C);
    CHECK_ACT(residual_backward, ds, N, C, C);
    CHECK_F32(residual_backward, dg, N);
}

static void trace_gate_forward(struct backend *be, struct f32 *sum, struct f32 *g, struct f32 *logg,
                               const struct act *x, const struct act *w, const struct act *b,
                               const struct f32 *prev, struct gate_dims d)
{
    PASS(gate_forward, BYTES(d.N * d.C + d.C, (prev ? 4 : 3) * d.N), sum, g, logg, x, w, b, prev,
         d);
    CHECK_F32(gate_forward, sum, d.N);
    CHECK_F32(gate_forward, g, d.N);
    CHECK_F32(gate_forward, logg, d.N);
}

static void trace_gate_backward(struct backend *be, struct act *dx, struct f32 *dw, struct f32 *db,
                                struct f32 *dsum, const struct f32 *dg, const struct f32 *dlogg,
                                const struct act *x, const struct act *w, const struct f32 *sum,
                                const struct f32 *prev, struct gate_dims d, bool acc)
{
    PASS(gate_backward, BYTES((2 + acc) * d.N * d.C, 6 * d.N), dx, dw, db, dsum, dg, dlogg, x, w,
         sum, prev, d, acc);
    CHECK_ACT(gate_backward, dx, d.N, d.C, d.C);
    CHECK_F32(gate_backward, dw, d.C);
    CHECK_F32(gate_backward, db, 1);
    CHECK_F32(gate_backward, dsum, d.N);
}

static void trace_gate_stats(struct backend *be, struct f32 *out, const struct f32 *g,
                             const struct f32 *sum, const struct f32 *prev, int64_t N)
{
    PASS(gate_stats, BYTES(0, (prev ? 4 : 3) * N), out, g, sum, prev, N);
    CHECK_F32(gate_stats, out, GATE_STATS);
}

static void trace_gate_penalty(struct backend *be, struct f32 *dg, double a, double b,
                               const struct f32 *g, int64_t N)
{
    PASS(gate_penalty, BYTES(0, 3 * N), dg, a, b, g, N);
    CHECK_F32(gate_penalty, dg, N);
}

static void trace_softmax_xent(struct backend *be, struct f32 *loss, struct act *logits,
                               const struct i32 *target, struct xent_dims d, double scale,
                               bool want_grad)
{
    PASS(softmax_xent, BYTES((1 + want_grad) * d.N * d.ld, d.N), loss, logits, target, d, scale,
         want_grad);
    CHECK_F32(softmax_xent, loss, d.N);
    if (want_grad)
        CHECK_ACT(softmax_xent, logits, d.N, d.ld, d.ld);
}

static void trace_adamw_step(struct backend *be, struct f32 *p, struct act *p_act, struct f32 *m,
                             struct f32 *v, const struct f32 *g, int64_t n, struct adamw a)
{
    PASS(adamw_step, BYTES(p_act ? n : 0, 7 * n), p, p_act, m, v, g, n, a);
    CHECK_F32(adamw_step, p, n);
    CHECK_F32(adamw_step, m, n);
    CHECK_F32(adamw_step, v, n);
}

static void trace_sum_squares(struct backend *be, struct f32 *out, const struct f32 *x, int64_t n)
{
    PASS(sum_squares, BYTES(0, n), out, x, n);
    CHECK_F32(sum_squares, out, 1);
}

static void trace_sum(struct backend *be, struct f32 *out, const struct f32 *x, int64_t n)
{
    PASS(sum, BYTES(0, n), out, x, n);
    CHECK_F32(sum, out, 1);
}

static void trace_scale(struct backend *be, struct f32 *x, double a, int64_t n)
{
    PASS(scale, BYTES(0, 2 * n), x, a, n);
    CHECK_F32(scale, x, n);
}

static void trace_axpy(struct backend *be, struct f32 *y, double a, const struct f32 *x, int64_t n)
{
    PASS(axpy, BYTES(0, 3 * n), y, a, x, n);
    CHECK_F32(axpy, y, n);
}

static void trace_fill(struct backend *be, struct f32 *x, double value, int64_t n)
{
    PASS(fill, BYTES(0, n), x, value, n);
    CHECK_F32(fill, x, n);
}

static void trace_add_act(struct backend *be, struct act *y, const struct act *x, int64_t n)
{
    PASS(add_act, BYTES(3 * n, 0), y, x, n);
    CHECK_ACT(add_act, y, 1, n, n);
}

static void trace_copy_act(struct backend *be, struct act *y, const struct act *x, int64_t n)
{
    PASS(copy_act, BYTES(2 * n, 0), y, x, n);
    CHECK_ACT(copy_act, y, 1, n, n);
}

static void trace_row_norms(struct backend *be, struct f32 *out, const struct act *x, int64_t N,
                            int C)
{
    PASS(row_norms, BYTES(N * C, 1), out, x, N, C);
    CHECK_F32(row_norms, out, 1);
}

static void trace_cast_to_act(struct backend *be, struct act *y, const struct f32 *x, int64_t n)
{
    PASS(cast_to_act, BYTES(n, n), y, x, n);
    CHECK_ACT(cast_to_act, y, 1, n, n);
}

static void trace_cast_to_f32(struct backend *be, struct f32 *y, const struct act *x, int64_t n)
{
    PASS(cast_to_f32, BYTES(n, n), y, x, n);
    CHECK_F32(cast_to_f32, y, n);
}

#define SLOT(op) .op = trace_##op,
static const struct ops trace_ops = {ALL_OPS(SLOT)};
#undef SLOT

struct backend *trace_open(struct backend *inner, bool check_finite)
{
    struct backend *be = calloc(1, sizeof *be);
    struct trace *t = calloc(1, sizeof *t);

    if (!be || !t)
        goto fail;
    *be = *inner;
    be->name = "trace";
    be->op = &trace_ops;
    be->state = t;
    t->inner = inner;
    t->check_finite = check_finite;
    t->sum = inner->op->alloc(inner, inner->f32_size);
    if (t->sum)
        return be;
fail:
    free(be);
    free(t);
    return NULL;
}

const struct trace_row *trace_row(const struct backend *be, int op)
{
    const struct trace *t = be->state;

    BUG_IF(be->op != &trace_ops || op < 0 || (size_t)op >= OPS_COUNT);
    return &t->row[op];
}

struct trace_bad trace_first_bad(const struct backend *be)
{
    const struct trace *t = be->state;

    BUG_IF(be->op != &trace_ops);
    return t->bad;
}

void trace_reset(struct backend *be)
{
    struct trace *t = be->state;

    BUG_IF(be->op != &trace_ops);
    memset(t->row, 0, sizeof t->row);
    t->bad = (struct trace_bad){0};
    t->calls = 0;
}
