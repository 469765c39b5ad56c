// Speed of every op of the cpu backend at the shapes of the demo and of GPT-2 124M, with the
// sgemm ceiling of this machine measured in the same run.
// usage: bench_ops [--json] [--threads N] [--seconds S] [op-name-part]
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/cpu.h"
#include "tests/t.h"

struct shape {
    const char *name;
    int B, T, C, H, G, D, F, V, ld;
    int64_t params;
};

static const struct shape shapes[] = {
    {"demo", 16, 256, 128, 4, 2, 32, 384, 257, 320, 1200000},
    {"gpt2", 4, 256, 768, 12, 12, 64, 3072, 50257, 50304, 30000000},
};

enum { BUFFERS = 9 };

struct bench {
    struct backend *be;
    const struct shape *s;
    void *buf[BUFFERS]; // random numbers, 0..5 large enough for any array of the shape
    struct i32 *ids;
    int64_t N;
};

#define A(i)  ((struct act *)b->buf[i])
#define F(i)  ((struct f32 *)b->buf[i])
#define OP(f) b->be->op->f

static struct norm_dims row_norm(const struct bench *b)
{
    return (struct norm_dims){b->N, 1, b->s->C, b->s->C, b->s->C, 1e-5f};
}
static struct norm_dims head_norm(const struct bench *b)
{
    int64_t ld = (int64_t)(b->s->H + 2 * b->s->G) * b->s->D;

    return (struct norm_dims){b->N, b->s->H + b->s->G, b->s->D, ld, ld, 1e-5f};
}
static struct attn_dims attention(const struct bench *b)
{
    const struct shape *s = b->s;
    int64_t ld = (int64_t)(s->H + 2 * s->G) * s->D;

    return (struct attn_dims){s->B,
                              s->T,
                              s->T,
                              s->H,
                              s->G,
                              s->D,
                              ld,
                              ld,
                              ld,
                              (int64_t)s->H * s->D,
                              1 / sqrtf((float)s->D)};
}
static struct act *keys(const struct bench *b, int i)
{
    return act_at(b->be, A(i), (int64_t)b->s->H * b->s->D);
}
static struct act *values(const struct bench *b, int i)
{
    return act_at(b->be, A(i), (int64_t)(b->s->H + b->s->G) * b->s->D);
}
// Rows of logits at a time, as a chunked head would take them.
static int64_t head_rows(const struct bench *b)
{
    return b->N < 256 * 1024 / b->s->ld + 256 ? b->N : 256 * 1024 / b->s->ld + 256;
}
static struct linear_dims up(const struct bench *b)
{
    return (struct linear_dims){b->N, b->s->C, 2 * b->s->F};
}
static struct linear_dims square(const struct bench *b)
{
    return (struct linear_dims){b->N, b->s->C, b->s->C};
}
static struct linear_dims head(const struct bench *b)
{
    return (struct linear_dims){head_rows(b), b->s->C, b->s->ld};
}

static void embedding_forward(struct bench *b)
{
    OP(embedding_forward)(b->be, A(0), b->ids, A(1), b->N, b->s->C);
}
static void embedding_backward(struct bench *b)
{
    OP(embedding_backward)(b->be, F(0), A(1), b->ids, b->N, b->s->C, b->s->V);
}
static void rmsnorm_forward(struct bench *b)
{
    OP(rmsnorm_forward)(b->be, A(0), F(6), A(1), A(2), row_norm(b));
}
static void rmsnorm_backward(struct bench *b)
{
    OP(rmsnorm_backward)(b->be, A(0), F(6), A(1), A(2), A(3), F(7), row_norm(b), false);
}
static void qknorm_forward(struct bench *b)
{
    OP(rmsnorm_forward)(b->be, A(0), F(6), A(1), A(2), head_norm(b));
}
static void qknorm_backward(struct bench *b)
{
    OP(rmsnorm_backward)(b->be, A(0), F(6), A(1), A(2), A(3), F(7), head_norm(b), false);
}
static void layernorm_forward(struct bench *b)
{
    OP(layernorm_forward)(b->be, A(0), F(6), F(7), A(1), A(2), A(3), row_norm(b));
}
static void layernorm_backward(struct bench *b)
{
    OP(layernorm_backward)
    (b->be, A(0), F(6), F(7), A(1), A(2), A(3), F(7), F(8), row_norm(b), false);
}
static void linear_up_forward(struct bench *b)
{
    OP(linear_forward)(b->be, A(0), A(1), A(2), NULL, up(b));
}
static void linear_up_dx(struct bench *b)
{
    OP(linear_backward)(b->be, A(1), NULL, NULL, A(0), A(2), A(3), up(b), false);
}
static void linear_up_dw(struct bench *b)
{
    OP(linear_backward)(b->be, NULL, F(3), NULL, A(0), A(1), A(2), up(b), false);
}
static void linear_square_forward(struct bench *b)
{
    OP(linear_forward)(b->be, A(0), A(1), A(2), NULL, square(b));
}
static void linear_square_backward(struct bench *b)
{
    OP(linear_backward)(b->be, A(1), F(3), NULL, A(0), A(2), A(4), square(b), false);
}
static void linear_head_forward(struct bench *b)
{
    OP(linear_forward)(b->be, A(0), A(1), A(2), NULL, head(b));
}
static void linear_head_backward(struct bench *b)
{
    OP(linear_backward)(b->be, A(1), F(3), NULL, A(0), A(2), A(4), head(b), false);
}
static struct rope_dims rope(const struct bench *b)
{
    const struct shape *s = b->s;

    return (struct rope_dims){s->B, s->T, s->H + s->G, s->D, (int64_t)(s->H + 2 * s->G) * s->D,
                              0,    false};
}
static void rope_forward(struct bench *b)
{
    OP(rope_forward)(b->be, A(0), F(1), F(2), rope(b));
}
static void attention_forward(struct bench *b)
{
    OP(attention_forward)
    (b->be, A(0), F(6), A(1), keys(b, 1), values(b, 1), NULL, NULL, attention(b));
}
static void attention_backward(struct bench *b)
{
    OP(attention_backward)
    (b->be, A(2), keys(b, 2), values(b, 2), NULL, A(3), A(0), A(1), keys(b, 1), values(b, 1), F(6),
     NULL, NULL, attention(b));
}
static void swiglu_forward(struct bench *b)
{
    OP(swiglu_forward)(b->be, A(0), A(1), b->N, b->s->F);
}
static void swiglu_backward(struct bench *b)
{
    OP(swiglu_backward)(b->be, A(0), A(1), A(2), b->N, b->s->F);
}
static void gelu_tanh_forward(struct bench *b)
{
    OP(gelu_forward)(b->be, A(0), A(1), b->N * b->s->F, GELU_TANH);
}
static void gelu_erf_forward(struct bench *b)
{
    OP(gelu_forward)(b->be, A(0), A(1), b->N * b->s->F, GELU_ERF);
}
static void residual_forward(struct bench *b)
{
    OP(residual_forward)(b->be, A(0), A(1), A(2), NULL, b->N, b->s->C);
}
static void softmax_xent(struct bench *b)
{
    struct xent_dims d = {head_rows(b), b->s->V, b->s->ld};

    OP(softmax_xent)(b->be, F(6), A(0), b->ids, d, 1, true);
}
static void adamw_step(struct bench *b)
{
    struct adamw a = {1e-4, 0.9, 0.95, 1e-8, 0.1, 0.1, 0.05, 1};

    OP(adamw_step)(b->be, F(0), NULL, F(1), F(2), F(3), b->s->params, a);
}
static void sum_squares(struct bench *b)
{
    OP(sum_squares)(b->be, F(6), F(0), b->s->params);
}
static void add_act(struct bench *b)
{
    OP(add_act)(b->be, A(0), A(1), b->N * b->s->C);
}

static double linear_flops(struct linear_dims d)
{
    return 2.0 * (double)d.N * d.C * d.O;
}
// Work of one head under the causal mask: T (T+1) / 2 pairs.
static double pair_flops(const struct bench *b)
{
    const struct shape *s = b->s;

    return (double)s->B * s->H * s->T * (s->T + 1.0) / 2 * 2 * s->D;
}

// Work in floating point operations, or else the bytes that must move.
static void work(const struct bench *b, const char *op, double *flops, double *bytes)
{
    double rows = (double)b->N * b->s->C * 4, wide = (double)b->N * b->s->F * 4;
    double heads = (double)b->N * (b->s->H + b->s->G) * b->s->D * 4;
    const struct {
        const char *op;
        double flops, bytes;
    } table[] = {
        {"linear_up_forward", linear_flops(up(b)), 0},
        {"linear_up_dx", linear_flops(up(b)), 0},
        {"linear_up_dw", linear_flops(up(b)), 0},
        {"linear_square_forward", linear_flops(square(b)), 0},
        {"linear_square_backward", 2 * linear_flops(square(b)), 0},
        {"linear_head_forward", linear_flops(head(b)), 0},
        {"linear_head_backward", 2 * linear_flops(head(b)), 0},
        {"attention_forward", 2 * pair_flops(b), 0},
        {"attention_backward", 5 * pair_flops(b), 0},
        {"embedding_forward", 0, 2 * rows},
        {"embedding_backward", 0, 3 * rows},
        {"rmsnorm_forward", 0, 2 * rows},
        {"rmsnorm_backward", 0, 3 * rows},
        {"qknorm_forward", 0, 2 * heads},
        {"qknorm_backward", 0, 3 * heads},
        {"layernorm_forward", 0, 2 * rows},
        {"layernorm_backward", 0, 3 * rows},
        {"rope_forward", 0, 2 * heads},
        {"swiglu_forward", 0, 3 * wide},
        {"swiglu_backward", 0, 5 * wide},
        {"gelu_tanh_forward", 0, 2 * wide},
        {"gelu_erf_forward", 0, 2 * wide},
        {"residual_forward", 0, 3 * rows},
        {"softmax_xent", 0, 2.0 * (double)head_rows(b) * b->s->ld * 4},
        {"adamw_step", 0, 28.0 * (double)b->s->params},
        {"sum_squares", 0, 4.0 * (double)b->s->params},
        {"add_act", 0, 3 * rows},
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(table[i].op, op) == 0) {
            *flops = table[i].flops;
            *bytes = table[i].bytes;
            return;
        }
    }
}

#define ROW(f)                                                                                     \
    {                                                                                              \
#f, f                                                                                      \
    }
static const struct {
    const char *name;
    void (*run)(struct bench *b);
} rows[] = {
    ROW(linear_up_forward),
    ROW(linear_up_dx),
    ROW(linear_up_dw),
    ROW(linear_square_forward),
    ROW(linear_square_backward),
    ROW(linear_head_forward),
    ROW(linear_head_backward),
    ROW(attention_forward),
    ROW(attention_backward),
    ROW(embedding_forward),
    ROW(embedding_backward),
    ROW(rmsnorm_forward),
    ROW(rmsnorm_backward),
    ROW(qknorm_forward),
    ROW(qknorm_backward),
    ROW(layernorm_forward),
    ROW(layernorm_backward),
    ROW(rope_forward),
    ROW(swiglu_forward),
    ROW(swiglu_backward),
    ROW(gelu_tanh_forward),
    ROW(gelu_erf_forward),
    ROW(residual_forward),
    ROW(softmax_xent),
    ROW(adamw_step),
    ROW(sum_squares),
    ROW(add_act),
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct timing {
    double best, median; // seconds per call
};

static struct timing measure(void (*run)(struct bench *b), struct bench *b, double seconds)
{
    enum { MOST = 1000 };
    double t[MOST], end;
    int n = 0;

    run(b);
    end = t_now() + seconds;
    while (n < 5 || (n < MOST && t_now() < end)) {
        double start = t_now();

        run(b);
        t[n++] = t_now() - start;
    }
    qsort(t, (size_t)n, sizeof *t, by_value);
    return (struct timing){t[0], t[n / 2]};
}

static struct linear_dims ceiling_dims = {2048, 2048, 2048};

static void ceiling(struct bench *b)
{
    OP(linear_forward)(b->be, A(0), A(1), A(2), NULL, ceiling_dims);
}

static int64_t largest_array(const struct shape *s)
{
    int64_t N = (int64_t)s->B * s->T, most = 2048 * 2048, sizes[4];

    sizes[0] = N * 2 * s->F;
    sizes[1] = (int64_t)s->C * s->ld;
    sizes[2] = (int64_t)(256 * 1024 / s->ld + 256) * s->ld;
    sizes[3] = s->params;
    for (int i = 0; i < 4; i++)
        most = sizes[i] > most ? sizes[i] : most;
    return most;
}

static bool fill_buffers(struct bench *b)
{
    int64_t big = largest_array(b->s), small = b->N * (b->s->H + b->s->G) + b->s->C + b->s->ld;

    b->N = (int64_t)b->s->B * b->s->T;
    b->ids = b->be->op->alloc(b->be, (size_t)b->N * sizeof(int32_t));
    for (int64_t i = 0; b->ids && i < b->N; i++)
        ((int32_t *)b->ids)[i] = (int32_t)(i * 7919 % b->s->V);
    for (int i = 0; i < BUFFERS; i++) {
        int64_t n = i < 6 ? big : small + b->N * b->s->H;

        b->buf[i] = b->be->op->alloc(b->be, (size_t)n * sizeof(float));
        if (!b->buf[i] || !b->ids)
            return false;
        for (int64_t j = 0; j < n; j++)
            ((float *)b->buf[i])[j] = (float)(j * 2654435761u % 1000) / 1000 + 0.001f;
    }
    return true;
}

static void release_buffers(struct bench *b)
{
    for (int i = 0; i < BUFFERS; i++)
        b->be->op->release(b->be, b->buf[i]);
    b->be->op->release(b->be, b->ids);
}

static void bench_shape(struct bench *b, double seconds, const char *only, bool json, double top)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double flops = 0, bytes = 0;
        struct timing t;

        if (only && !strstr(rows[i].name, only))
            continue;
        work(b, rows[i].name, &flops, &bytes);
        t = measure(rows[i].run, b, seconds);
        if (json)
            printf(",\n {\"shape\": \"%s\", \"op\": \"%s\", \"ms\": %.4f, \"best_ms\": %.4f, "
                   "\"gflops\": %.1f, \"gbytes_per_s\": %.1f}",
                   b->s->name, rows[i].name, t.median * 1e3, t.best * 1e3, flops / t.median / 1e9,
                   bytes / t.median / 1e9);
        else if (flops > 0)
            printf("%-5s %-24s %9.3f ms  best %9.3f  %7.1f GFLOP/s  %5.1f %% of the ceiling\n",
                   b->s->name, rows[i].name, t.median * 1e3, t.best * 1e3, flops / t.median / 1e9,
                   100 * flops / t.median / top);
        else
            printf("%-5s %-24s %9.3f ms  best %9.3f  %7.1f GB/s\n", b->s->name, rows[i].name,
                   t.median * 1e3, t.best * 1e3, bytes / t.median / 1e9);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    bool json = false;
    const char *only = NULL;
    double seconds = 0.15, top = 0;
    int threads = 0;
    char why[200];
    struct backend *be;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            threads = atoi(argv[++i]);
        else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            seconds = atof(argv[++i]);
        else
            only = argv[i];
    }
    be = backend_open("cpu", threads, why, sizeof why);
    if (!be) {
        fprintf(stderr, "bench_ops: %s\n", why);
        return 1;
    }
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct bench b = {.be = be, .s = &shapes[i], .N = (int64_t)shapes[i].B * shapes[i].T};

        if (!fill_buffers(&b)) {
            fprintf(stderr, "bench_ops: no memory for shape '%s'\n", b.s->name);
            return 1;
        }
        if (top == 0) {
            top = linear_flops(ceiling_dims) / measure(ceiling, &b, 3 * seconds).best;
            printf(json ? "[{\"threads\": %d, \"gemm\": \"%s\", \"vectors\": \"%s\", "
                          "\"ceiling_gflops\": %.1f}"
                        : "%d threads, %s, %s, sgemm ceiling %.1f GFLOP/s (2048^3, best)\n",
                   be->threads, backend_gemm_library(), cpu_vec(be)->name, top / 1e9);
        }
        bench_shape(&b, seconds, only, json, top);
        release_buffers(&b);
    }
    if (json)
        printf("\n]\n");
    backend_close(be);
    return 0;
}
