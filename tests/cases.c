#include "tests/cases.h"

#include <math.h>
#include <string.h>

#include "engine/rng.h"
#include "tests/t.h"

static double *add(struct fixture *f, const char *name, enum tensor_kind kind,
                   enum tensor_role role, int64_t n)
{
    struct tensor *t = &f->t[f->count++];
    uint64_t key = rng_key((uint64_t)f->c->dim[0] * 100 + (uint64_t)f->c->dim[1], name);

    assert_true(f->count <= CASE_TENSORS);
    *t = (struct tensor){.name = name, .kind = kind, .role = role, .n = n};
    t->before = malloc((size_t)n * sizeof *t->before);
    t->after = malloc((size_t)n * sizeof *t->after);
    assert_non_null(t->before);
    assert_non_null(t->after);
    for (int64_t i = 0; i < n; i++)
        t->before[i] = role == OUT ? NAN : rng_normal(key, (uint64_t)i);
    return t->before;
}

static void optional(struct fixture *f, unsigned null_flag)
{
    if (f->c->flags & null_flag)
        f->t[f->count - 1].is_null = true;
}

static void add_ids(struct fixture *f, const char *name, int64_t n, int low, int high)
{
    double *x = add(f, name, I32, IN, n);
    uint64_t key = rng_key(5, name);

    for (int64_t i = 0; i < n; i++)
        x[i] = low + (double)(rng_u64(key, (uint64_t)i) % (uint64_t)(high - low));
}

static void *dev(struct fixture *f, const char *name)
{
    struct tensor *t = fixture_tensor(f, name);

    if (!t)
        fail_msg("%s has no tensor %s", f->c->op, name);
    return t->is_null ? NULL : t->dev;
}
#define P(name) dev(f, name)

// ---- one setup and one call per op -----------------------------------------------------------

static void setup_embedding_forward(struct fixture *f, const int *d)
{
    add(f, "y", ACT, OUT, (int64_t)d[0] * d[1]);
    add_ids(f, "tok", d[0], 0, d[2]);
    add(f, "w", ACT, IN, (int64_t)d[2] * d[1]);
}
static void call_embedding_forward(struct backend *be, struct fixture *f, const int *d)
{
    be->op->embedding_forward(be, P("y"), P("tok"), P("w"), d[0], d[1]);
}
static void setup_embedding_backward(struct fixture *f, const int *d)
{
    add(f, "dw", F32, INOUT, (int64_t)d[2] * d[1]);
    add(f, "dy", ACT, IN, (int64_t)d[0] * d[1]);
    add_ids(f, "tok", d[0], 0, d[2]);
}
static void call_embedding_backward(struct backend *be, struct fixture *f, const int *d)
{
    be->op->embedding_backward(be, P("dw"), P("dy"), P("tok"), d[0], d[1], d[2]);
}

static struct norm_dims norm_dims(const int *d)
{
    return (struct norm_dims){.rows = d[0],
                              .groups = d[1],
                              .width = d[2],
                              .ldx = (int64_t)d[1] * d[2] + d[3],
                              .ldy = (int64_t)d[1] * d[2] + d[4],
                              .eps = 1e-5f};
}
static int64_t norm_x(const int *d)
{
    return d[0] * norm_dims(d).ldx;
}
static int64_t norm_y(const int *d)
{
    return d[0] * norm_dims(d).ldy;
}
static void setup_rmsnorm_forward(struct fixture *f, const int *d)
{
    add(f, "y", ACT, OUT, norm_y(d));
    add(f, "rstd", F32, OUT, (int64_t)d[0] * d[1]);
    add(f, "x", ACT, IN, norm_x(d));
    add(f, "w", ACT, IN, d[2]);
}
static void call_rmsnorm_forward(struct backend *be, struct fixture *f, const int *d)
{
    be->op->rmsnorm_forward(be, P("y"), P("rstd"), P("x"), P("w"), norm_dims(d));
}
static void setup_rmsnorm_backward(struct fixture *f, const int *d)
{
    add(f, "dx", ACT, f->c->flags & ACC ? INOUT : OUT, norm_x(d));
    add(f, "dw", F32, INOUT, d[2]);
    add(f, "dy", ACT, IN, norm_y(d));
    add(f, "x", ACT, IN, norm_x(d));
    add(f, "w", ACT, IN, d[2]);
    add(f, "rstd", F32, IN, (int64_t)d[0] * d[1]);
}
static void call_rmsnorm_backward(struct backend *be, struct fixture *f, const int *d)
{
    be->op->rmsnorm_backward(be, P("dx"), P("dw"), P("dy"), P("x"), P("w"), P("rstd"), norm_dims(d),
                             f->c->flags & ACC);
}
static void setup_layernorm_forward(struct fixture *f, const int *d)
{
    setup_rmsnorm_forward(f, d);
    add(f, "mean", F32, OUT, (int64_t)d[0] * d[1]);
    add(f, "b", ACT, IN, d[2]);
    optional(f, NO_BIAS);
}
static void call_layernorm_forward(struct backend *be, struct fixture *f, const int *d)
{
    be->op->layernorm_forward(be, P("y"), P("mean"), P("rstd"), P("x"), P("w"), P("b"),
                              norm_dims(d));
}
static void setup_layernorm_backward(struct fixture *f, const int *d)
{
    setup_rmsnorm_backward(f, d);
    add(f, "mean", F32, IN, (int64_t)d[0] * d[1]);
    add(f, "db", F32, INOUT, d[2]);
    optional(f, NO_BIAS);
}
static void call_layernorm_backward(struct backend *be, struct fixture *f, const int *d)
{
    be->op->layernorm_backward(be, P("dx"), P("dw"), P("db"), P("dy"), P("x"), P("w"), P("mean"),
                               P("rstd"), norm_dims(d), f->c->flags & ACC);
}

static void setup_linear_forward(struct fixture *f, const int *d)
{
    add(f, "y", ACT, OUT, (int64_t)d[0] * d[2]);
    add(f, "x", ACT, IN, (int64_t)d[0] * d[1]);
    add(f, "w", ACT, IN, (int64_t)d[1] * d[2]);
    add(f, "b", ACT, IN, d[2]);
    optional(f, NO_BIAS);
}
static void call_linear_forward(struct backend *be, struct fixture *f, const int *d)
{
    struct linear_dims dims = {.N = d[0], .C = d[1], .O = d[2]};

    be->op->linear_forward(be, P("y"), P("x"), P("w"), P("b"), dims);
}
static void setup_linear_backward(struct fixture *f, const int *d)
{
    add(f, "dx", ACT, f->c->flags & ACC ? INOUT : OUT, (int64_t)d[0] * d[1]);
    optional(f, NO_DX);
    add(f, "dw", F32, INOUT, (int64_t)d[1] * d[2]);
    optional(f, NO_DW);
    add(f, "db", F32, INOUT, d[2]);
    optional(f, NO_BIAS);
    add(f, "dy", ACT, IN, (int64_t)d[0] * d[2]);
    add(f, "x", ACT, IN, (int64_t)d[0] * d[1]);
    add(f, "w", ACT, IN, (int64_t)d[1] * d[2]);
}
static void call_linear_backward(struct backend *be, struct fixture *f, const int *d)
{
    struct linear_dims dims = {.N = d[0], .C = d[1], .O = d[2]};

    be->op->linear_backward(be, P("dx"), P("dw"), P("db"), P("dy"), P("x"), P("w"), dims,
                            f->c->flags & ACC);
}

static struct rope_dims rope_dims(const struct fixture *f, const int *d)
{
    return (struct rope_dims){.B = d[0],
                              .T = d[1],
                              .heads = d[2],
                              .D = d[3],
                              .ld = (int64_t)d[2] * d[3] + d[4],
                              .pos0 = d[5],
                              .interleaved = f->c->flags & INTERLEAVED};
}
static void setup_rope(struct fixture *f, const int *d, const char *name)
{
    int64_t positions = d[5] + d[1], half = d[3] / 2;
    double *c, *s;

    add(f, name, ACT, INOUT, (int64_t)d[0] * d[1] * rope_dims(f, d).ld);
    c = add(f, "cos", F32, IN, positions * half);
    s = add(f, "sin", F32, IN, positions * half);
    for (int64_t i = 0; i < positions * half; i++) {
        double angle = (double)(i / half) * pow(10000, -2.0 * (double)(i % half) / d[3]);

        c[i] = cos(angle);
        s[i] = sin(angle);
    }
}
static void setup_rope_forward(struct fixture *f, const int *d)
{
    setup_rope(f, d, "qk");
}
static void call_rope_forward(struct backend *be, struct fixture *f, const int *d)
{
    be->op->rope_forward(be, P("qk"), P("cos"), P("sin"), rope_dims(f, d));
}
static void setup_rope_backward(struct fixture *f, const int *d)
{
    setup_rope(f, d, "dqk");
}
static void call_rope_backward(struct backend *be, struct fixture *f, const int *d)
{
    be->op->rope_backward(be, P("dqk"), P("cos"), P("sin"), rope_dims(f, d));
}

static struct attn_dims attn_dims(const int *d)
{
    return (struct attn_dims){.B = d[0],
                              .Tq = d[1],
                              .Tk = d[2],
                              .H = d[3],
                              .G = d[4],
                              .D = d[5],
                              .ldq = (int64_t)d[3] * d[5] + d[6],
                              .ldk = (int64_t)d[4] * d[5] + d[6],
                              .ldv = (int64_t)d[4] * d[5] + 2 * d[6],
                              .ldy = (int64_t)d[3] * d[5],
                              .scale = 1 / sqrtf((float)d[5])};
}
static void setup_attention_forward(struct fixture *f, const int *d)
{
    struct attn_dims a = attn_dims(d);
    bool backward = strstr(f->c->op, "backward");

    add(f, "y", ACT, backward ? IN : OUT, (int64_t)a.B * a.Tq * a.ldy);
    add(f, "lse", F32, backward ? IN : OUT, (int64_t)a.B * a.H * a.Tq);
    add(f, "q", ACT, IN, (int64_t)a.B * a.Tq * a.ldq);
    add(f, "k", ACT, IN, (int64_t)a.B * a.Tk * a.ldk);
    add(f, "v", ACT, IN, (int64_t)a.B * a.Tk * a.ldv);
    add(f, "kbias", F32, IN, (int64_t)a.B * a.Tk);
    optional(f, NO_BIAS);
    double *slopes = add(f, "slopes", F32, IN, a.H);
    for (int h = 0; h < a.H; h++)
        slopes[h] = pow(2, -1 - h);
    optional(f, NO_SLOPES);
}
static void call_attention_forward(struct backend *be, struct fixture *f, const int *d)
{
    be->op->attention_forward(be, P("y"), P("lse"), P("q"), P("k"), P("v"), P("kbias"), P("slopes"),
                              attn_dims(d));
}
static void setup_attention_backward(struct fixture *f, const int *d)
{
    struct attn_dims a = attn_dims(d);

    setup_attention_forward(f, d);
    add(f, "dq", ACT, OUT, (int64_t)a.B * a.Tq * a.ldq);
    add(f, "dk", ACT, OUT, (int64_t)a.B * a.Tk * a.ldk);
    add(f, "dv", ACT, OUT, (int64_t)a.B * a.Tk * a.ldv);
    add(f, "dy", ACT, IN, (int64_t)a.B * a.Tq * a.ldy);
    add(f, "dkbias", F32, INOUT, (int64_t)a.B * a.Tk);
    optional(f, NO_BIAS);
}
static void call_attention_backward(struct backend *be, struct fixture *f, const int *d)
{
    be->op->attention_backward(be, P("dq"), P("dk"), P("dv"), P("dkbias"), P("dy"), P("y"), P("q"),
                               P("k"), P("v"), P("lse"), P("kbias"), P("slopes"), attn_dims(d));
}

static void setup_swiglu_forward(struct fixture *f, const int *d)
{
    add(f, "y", ACT, OUT, (int64_t)d[0] * d[1]);
    add(f, "ab", ACT, IN, 2 * (int64_t)d[0] * d[1]);
}
static void call_swiglu_forward(struct backend *be, struct fixture *f, const int *d)
{
    be->op->swiglu_forward(be, P("y"), P("ab"), d[0], d[1]);
}
static void setup_swiglu_backward(struct fixture *f, const int *d)
{
    add(f, "dab", ACT, OUT, 2 * (int64_t)d[0] * d[1]);
    add(f, "dy", ACT, IN, (int64_t)d[0] * d[1]);
    add(f, "ab", ACT, IN, 2 * (int64_t)d[0] * d[1]);
}
static void call_swiglu_backward(struct backend *be, struct fixture *f, const int *d)
{
    be->op->swiglu_backward(be, P("dab"), P("dy"), P("ab"), d[0], d[1]);
}

static enum gelu_kind gelu_kind(const struct fixture *f)
{
    return f->c->flags & TANH ? GELU_TANH : GELU_ERF;
}
static void setup_gelu_forward(struct fixture *f, const int *d)
{
    add(f, "y", ACT, OUT, d[0]);
    add(f, "x", ACT, IN, d[0]);
}
static void call_gelu_forward(struct backend *be, struct fixture *f, const int *d)
{
    be->op->gelu_forward(be, P("y"), P("x"), d[0], gelu_kind(f));
}
static void setup_gelu_backward(struct fixture *f, const int *d)
{
    add(f, "dx", ACT, OUT, d[0]);
    add(f, "dy", ACT, IN, d[0]);
    add(f, "x", ACT, IN, d[0]);
}
static void call_gelu_backward(struct backend *be, struct fixture *f, const int *d)
{
    be->op->gelu_backward(be, P("dx"), P("dy"), P("x"), d[0], gelu_kind(f));
}

static void setup_residual_forward(struct fixture *f, const int *d)
{
    add(f, "y", ACT, OUT, (int64_t)d[0] * d[1]);
    add(f, "x", ACT, IN, (int64_t)d[0] * d[1]);
    add(f, "s", ACT, IN, (int64_t)d[0] * d[1]);
    add(f, "g", F32, IN, d[0]);
    optional(f, NO_GATE);
}
static void call_residual_forward(struct backend *be, struct fixture *f, const int *d)
{
    be->op->residual_forward(be, P("y"), P("x"), P("s"), P("g"), d[0], d[1]);
}
static void setup_residual_backward(struct fixture *f, const int *d)
{
    add(f, "ds", ACT, OUT, (int64_t)d[0] * d[1]);
    add(f, "dg", F32, INOUT, d[0]);
    optional(f, NO_GATE);
    add(f, "dy", ACT, IN, (int64_t)d[0] * d[1]);
    add(f, "s", ACT, IN, (int64_t)d[0] * d[1]);
    add(f, "g", F32, IN, d[0]);
    optional(f, NO_GATE);
}
static void call_residual_backward(struct backend *be, struct fixture *f, const int *d)
{
    be->op->residual_backward(be, P("ds"), P("dg"), P("dy"), P("s"), P("g"), d[0], d[1]);
}

// The floor is high and the weights small, so that all pieces of the curve are met.
static const float gate_eps = 0.3f;

static void add_gate_inputs(struct fixture *f, const int *d)
{
    double *w;

    add(f, "x", ACT, IN, (int64_t)d[0] * d[1]);
    w = add(f, "w", ACT, IN, d[1]);
    for (int i = 0; i < d[1]; i++)
        w[i] /= sqrt(d[1]);
    double *prev = add(f, "prev", F32, IN, d[0]);
    for (int i = 0; i < d[0]; i++)
        prev[i] = fabs(prev[i]) / 2;
    optional(f, NO_PREV);
}
static void setup_gate_forward(struct fixture *f, const int *d)
{
    add(f, "sum", F32, OUT, d[0]);
    add(f, "g", F32, OUT, d[0]);
    add(f, "logg", F32, OUT, d[0]);
    add_gate_inputs(f, d);
    add(f, "b", ACT, IN, 1);
}
static void call_gate_forward(struct backend *be, struct fixture *f, const int *d)
{
    be->op->gate_forward(be, P("sum"), P("g"), P("logg"), P("x"), P("w"), P("b"), P("prev"),
                         (struct gate_dims){d[0], d[1], gate_eps, (float)d[2] * 0.01f});
}
static void setup_gate_backward(struct fixture *f, const int *d)
{
    add(f, "dx", ACT, f->c->flags & ACC ? INOUT : OUT, (int64_t)d[0] * d[1]);
    add(f, "dw", F32, INOUT, d[1]);
    add(f, "db", F32, INOUT, 1);
    add(f, "dsum", F32, INOUT, d[0]);
    add(f, "dg", F32, IN, d[0]);
    optional(f, NO_GATE);
    add(f, "dlogg", F32, IN, d[0]);
    optional(f, NO_LOGG);
    add_gate_inputs(f, d);
    add(f, "sum", F32, IN, d[0]);
}
static void call_gate_backward(struct backend *be, struct fixture *f, const int *d)
{
    be->op->gate_backward(be, P("dx"), P("dw"), P("db"), P("dsum"), P("dg"), P("dlogg"), P("x"),
                          P("w"), P("sum"), P("prev"), (struct gate_dims){d[0], d[1], gate_eps, 0},
                          f->c->flags & ACC);
}

static void setup_gate_stats(struct fixture *f, const int *d)
{
    add(f, "out", F32, OUT, GATE_STATS);
    double *prev = add(f, "prev", F32, IN, d[0]);
    double *sum = add(f, "sum", F32, IN, d[0]);
    double *g = add(f, "g", F32, IN, d[0]);

    for (int i = 0; i < d[0]; i++) {
        prev[i] = fabs(prev[i]);
        sum[i] = prev[i] + fmax(0, sum[i]);
        g[i] = 1 - fmin(1, sum[i]);
    }
    fixture_tensor(f, "prev")->is_null = f->c->flags & NO_PREV;
}
static void call_gate_stats(struct backend *be, struct fixture *f, const int *d)
{
    be->op->gate_stats(be, P("out"), P("g"), P("sum"), P("prev"), d[0]);
}
static void setup_gate_penalty(struct fixture *f, const int *d)
{
    add(f, "dg", F32, INOUT, d[0]);
    add(f, "g", F32, IN, d[0]);
}
static void call_gate_penalty(struct backend *be, struct fixture *f, const int *d)
{
    be->op->gate_penalty(be, P("dg"), 0.37, -1.8, P("g"), d[0]);
}

static void setup_softmax_xent(struct fixture *f, const int *d)
{
    add(f, "loss", F32, OUT, d[0]);
    add(f, "logits", ACT, f->c->flags & NO_GRAD ? IN : INOUT, (int64_t)d[0] * d[2]);
    add_ids(f, "target", d[0], -1, d[1]);
}
static void call_softmax_xent(struct backend *be, struct fixture *f, const int *d)
{
    struct xent_dims dims = {.N = d[0], .V = d[1], .ld = d[2]};

    be->op->softmax_xent(be, P("loss"), P("logits"), P("target"), dims, 0.25,
                         !(f->c->flags & NO_GRAD));
}

static void setup_adamw_step(struct fixture *f, const int *d)
{
    double *v;

    add(f, "p", F32, INOUT, d[0]);
    add(f, "p_act", ACT, OUT, d[0]);
    optional(f, NO_COPY);
    add(f, "m", F32, INOUT, d[0]);
    v = add(f, "v", F32, INOUT, d[0]);
    for (int i = 0; i < d[0]; i++)
        v[i] *= v[i];
    add(f, "g", F32, IN, d[0]);
}
static void call_adamw_step(struct backend *be, struct fixture *f, const int *d)
{
    struct adamw a = {.lr = 0.01,
                      .beta1 = 0.9,
                      .beta2 = 0.95,
                      .eps = 1e-8,
                      .weight_decay = 0.1,
                      .bias1 = 1 - pow(0.9, 3),
                      .bias2 = 1 - pow(0.95, 3),
                      .grad_scale = 0.7};

    be->op->adamw_step(be, P("p"), P("p_act"), P("m"), P("v"), P("g"), d[0], a);
}

static void setup_reduction(struct fixture *f, const int *d)
{
    add(f, "out", F32, OUT, 1);
    add(f, "x", F32, IN, d[0]);
}
static void setup_inplace(struct fixture *f, const int *d)
{
    add(f, "x", F32, INOUT, d[0]);
}
static void call_sum_squares(struct backend *be, struct fixture *f, const int *d)
{
    be->op->sum_squares(be, P("out"), P("x"), d[0]);
}
static void call_sum(struct backend *be, struct fixture *f, const int *d)
{
    be->op->sum(be, P("out"), P("x"), d[0]);
}
static void call_scale(struct backend *be, struct fixture *f, const int *d)
{
    be->op->scale(be, P("x"), -0.375, d[0]);
}
static void setup_axpy(struct fixture *f, const int *d)
{
    add(f, "y", F32, INOUT, d[0]);
    add(f, "x", F32, IN, d[0]);
}
static void call_axpy(struct backend *be, struct fixture *f, const int *d)
{
    be->op->axpy(be, P("y"), -0.375, P("x"), d[0]);
}
static void setup_fill(struct fixture *f, const int *d)
{
    add(f, "x", F32, OUT, d[0]);
}
static void call_fill(struct backend *be, struct fixture *f, const int *d)
{
    be->op->fill(be, P("x"), -2.5, d[0]);
}
static void setup_add_act(struct fixture *f, const int *d)
{
    add(f, "y", ACT, INOUT, d[0]);
    add(f, "x", ACT, IN, d[0]);
}
static void setup_copy_act(struct fixture *f, const int *d)
{
    add(f, "y", ACT, OUT, d[0]);
    add(f, "x", ACT, IN, d[0]);
}
static void call_copy_act(struct backend *be, struct fixture *f, const int *d)
{
    be->op->copy_act(be, P("y"), P("x"), d[0]);
}
static void setup_row_norms(struct fixture *f, const int *d)
{
    add(f, "out", F32, OUT, 1);
    add(f, "x", ACT, IN, (int64_t)d[0] * d[1]);
}
static void call_row_norms(struct backend *be, struct fixture *f, const int *d)
{
    be->op->row_norms(be, P("out"), P("x"), d[0], d[1]);
}
static void call_add_act(struct backend *be, struct fixture *f, const int *d)
{
    be->op->add_act(be, P("y"), P("x"), d[0]);
}
static void setup_cast_to_act(struct fixture *f, const int *d)
{
    add(f, "y", ACT, OUT, d[0]);
    add(f, "x", F32, IN, d[0]);
}
static void call_cast_to_act(struct backend *be, struct fixture *f, const int *d)
{
    be->op->cast_to_act(be, P("y"), P("x"), d[0]);
}
static void setup_cast_to_f32(struct fixture *f, const int *d)
{
    add(f, "y", F32, OUT, d[0]);
    add(f, "x", ACT, IN, d[0]);
}
static void call_cast_to_f32(struct backend *be, struct fixture *f, const int *d)
{
    be->op->cast_to_f32(be, P("y"), P("x"), d[0]);
}

#define DRIVER(op)                                                                                 \
    {                                                                                              \
#op, setup_##op, call_##op                                                                 \
    }
static const struct driver {
    const char *op;
    void (*setup)(struct fixture *f, const int *dim);
    void (*call)(struct backend *be, struct fixture *f, const int *dim);
} drivers[] = {
    DRIVER(embedding_forward),
    DRIVER(embedding_backward),
    DRIVER(rmsnorm_forward),
    DRIVER(rmsnorm_backward),
    DRIVER(layernorm_forward),
    DRIVER(layernorm_backward),
    DRIVER(linear_forward),
    DRIVER(linear_backward),
    DRIVER(rope_forward),
    DRIVER(rope_backward),
    DRIVER(attention_forward),
    DRIVER(attention_backward),
    DRIVER(swiglu_forward),
    DRIVER(swiglu_backward),
    DRIVER(gelu_forward),
    DRIVER(gelu_backward),
    DRIVER(residual_forward),
    DRIVER(residual_backward),
    DRIVER(gate_forward),
    DRIVER(gate_backward),
    DRIVER(gate_stats),
    DRIVER(gate_penalty),
    DRIVER(softmax_xent),
    DRIVER(adamw_step),
    {"sum_squares", setup_reduction, call_sum_squares},
    {"sum", setup_reduction, call_sum},
    {"scale", setup_inplace, call_scale},
    DRIVER(axpy),
    DRIVER(fill),
    DRIVER(add_act),
    DRIVER(copy_act),
    DRIVER(row_norms),
    DRIVER(cast_to_act),
    DRIVER(cast_to_f32),
};

static const struct driver *driver(const char *op)
{
    for (size_t i = 0; i < sizeof drivers / sizeof drivers[0]; i++)
        if (strcmp(drivers[i].op, op) == 0)
            return &drivers[i];
    fail_msg("no driver for op %s", op);
    return NULL;
}

void case_setup(struct fixture *f)
{
    f->count = 0;
    driver(f->c->op)->setup(f, f->c->dim);
}

void case_call(struct fixture *f, struct backend *be)
{
    driver(f->c->op)->call(be, f, f->c->dim);
}
