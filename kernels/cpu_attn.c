#include "kernels/cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "kernels/bug.h"

struct attn {
    const float *q, *k, *v, *kbias, *slopes;
    struct attn_dims d;
};

static float dot(const float *x, const float *y, int n)
{
    float sum = 0;

    for (int i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

static void check(struct attn_dims d)
{
    BUG_IF(d.G < 1 || d.H % d.G || d.Tq > d.Tk || d.Tk > CPU_SCRATCH_FLOATS);
}

// Scores of one query row into s[0 .. position]; returns the number of visible keys.
static int row_scores(const struct attn *a, int b, int h, int t, float *s)
{
    struct attn_dims d = a->d;
    int pos = d.Tk - d.Tq + t, group = (int)((int64_t)h * d.G / d.H);
    const float *q = a->q + ((int64_t)b * d.Tq + t) * d.ldq + (int64_t)h * d.D;
    const float *k = a->k + (int64_t)b * d.Tk * d.ldk + (int64_t)group * d.D;

    for (int i = 0; i <= pos; i++) {
        s[i] = d.scale * dot(q, k + i * d.ldk, d.D);
        if (a->kbias)
            s[i] += a->kbias[(int64_t)b * d.Tk + i];
        if (a->slopes)
            s[i] -= a->slopes[h] * (float)(pos - i);
    }
    return pos + 1;
}

static void forward_row(const struct attn *a, int b, int h, int t, float *s, float *y, float *lse)
{
    struct attn_dims d = a->d;
    int n = row_scores(a, b, h, t, s), group = (int)((int64_t)h * d.G / d.H);
    const float *v = a->v + (int64_t)b * d.Tk * d.ldv + (int64_t)group * d.D;
    float *out = y + ((int64_t)b * d.Tq + t) * d.ldy + (int64_t)h * d.D;
    float top = s[0], sum = 0;

    for (int i = 1; i < n; i++)
        top = s[i] > top ? s[i] : top;
    for (int i = 0; i < n; i++)
        sum += s[i] = expf(s[i] - top);
    memset(out, 0, (size_t)d.D * sizeof *out);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < d.D; j++)
            out[j] += s[i] / sum * v[i * d.ldv + j];
    lse[((int64_t)b * d.H + h) * d.Tq + t] = top + logf(sum);
}

void cpu_attention_forward(struct backend *be, struct act *y, struct f32 *lse, const struct act *q,
                           const struct act *k, const struct act *v, const struct f32 *kbias,
                           const struct f32 *slopes, struct attn_dims d)
{
    struct attn a = {fr(q), fr(k), fr(v), fr(kbias), fr(slopes), d};

    check(d);
#pragma omp parallel num_threads(be->threads)
    {
        int me = omp_get_thread_num();
        struct part p = cpu_part((int64_t)d.B * d.H, 1, me, be->threads);

        for (int64_t u = p.from; u < p.to; u++)
            for (int t = 0; t < d.Tq; t++)
                forward_row(&a, (int)(u / d.H), (int)(u % d.H), t, cpu_scratch(be, me), fw(y),
                            fw(lse));
    }
}

static void zero_rows(float *x, int64_t rows, int64_t ld, int64_t width)
{
    for (int64_t r = 0; r < rows; r++)
        memset(x + r * ld, 0, (size_t)width * sizeof *x);
}

struct grads {
    float *dq, *dk, *dv, *dkbias;
    const float *dy, *y, *lse;
};

static void backward_row(const struct attn *a, const struct grads *g, int b, int h, int t, float *s)
{
    struct attn_dims d = a->d;
    int n = row_scores(a, b, h, t, s), group = (int)((int64_t)h * d.G / d.H);
    int64_t k0 = (int64_t)b * d.Tk * d.ldk + (int64_t)group * d.D;
    int64_t v0 = (int64_t)b * d.Tk * d.ldv + (int64_t)group * d.D;
    int64_t q0 = ((int64_t)b * d.Tq + t) * d.ldq + (int64_t)h * d.D;
    int64_t y0 = ((int64_t)b * d.Tq + t) * d.ldy + (int64_t)h * d.D;
    float mean = dot(g->dy + y0, g->y + y0, d.D), lse = g->lse[((int64_t)b * d.H + h) * d.Tq + t];

    memset(g->dq + q0, 0, (size_t)d.D * sizeof(float));
    for (int i = 0; i < n; i++) {
        float p = expf(s[i] - lse);
        float dz = p * (dot(g->dy + y0, a->v + v0 + i * d.ldv, d.D) - mean);

        if (g->dkbias)
            g->dkbias[(int64_t)b * d.Tk + i] += dz;
        for (int j = 0; j < d.D; j++) {
            g->dq[q0 + j] += d.scale * dz * a->k[k0 + i * d.ldk + j];
            g->dk[k0 + i * d.ldk + j] += d.scale * dz * a->q[q0 + j];
            g->dv[v0 + i * d.ldv + j] += p * g->dy[y0 + j];
        }
    }
}

void cpu_attention_backward(struct backend *be, struct act *dq, struct act *dk, struct act *dv,
                            struct f32 *dkbias, const struct act *dy, const struct act *y,
                            const struct act *q, const struct act *k, const struct act *v,
                            const struct f32 *lse, const struct f32 *kbias,
                            const struct f32 *slopes, struct attn_dims d)
{
    struct attn a = {fr(q), fr(k), fr(v), fr(kbias), fr(slopes), d};
    struct grads g = {fw(dq), fw(dk), fw(dv), fw(dkbias), fr(dy), fr(y), fr(lse)};

    check(d);
#pragma omp parallel num_threads(be->threads)
    {
        int me = omp_get_thread_num();
        struct part p = cpu_part(d.B, 1, me, be->threads);

        for (int64_t b = p.from; b < p.to; b++) {
            zero_rows(g.dk + b * d.Tk * d.ldk, d.Tk, d.ldk, (int64_t)d.G * d.D);
            zero_rows(g.dv + b * d.Tk * d.ldv, d.Tk, d.ldv, (int64_t)d.G * d.D);
            for (int h = 0; h < d.H; h++)
                for (int t = 0; t < d.Tq; t++)
                    backward_row(&a, &g, (int)b, h, t, cpu_scratch(be, me));
        }
    }
}
