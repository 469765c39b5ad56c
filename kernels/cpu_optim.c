// AdamW and flat vector ops; all run over flat ranges cut at cache lines.
#include "kernels/cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum { LINE = 16 }; // floats in a cache line

void cpu_adamw_step(struct backend *be, struct f32 *p, struct act *p_act, struct f32 *m,
                    struct f32 *v, const struct f32 *g, int64_t n, struct adamw a)
{
    float b1 = (float)a.beta1, b2 = (float)a.beta2, c1 = (float)(1 - a.beta1);
    float c2 = (float)(1 - a.beta2), gs = (float)a.grad_scale, eps = (float)a.eps;
    float step = (float)(a.lr / a.bias1), decay = (float)(a.lr * a.weight_decay);
    float root = (float)(1 / sqrt(a.bias2));

#pragma omp parallel num_threads(be->threads)
    {
        struct part r = cpu_part(n, LINE, omp_get_thread_num(), be->threads);

        for (int64_t i = r.from; i < r.to; i++) {
            float e = fr(g)[i] * gs, pi = fr(p)[i];
            float mi = b1 * fr(m)[i] + c1 * e, vi = b2 * fr(v)[i] + c2 * (e * e);

            fw(m)[i] = mi;
            fw(v)[i] = vi;
            fw(p)[i] = pi - decay * pi - step * mi / (sqrtf(vi) * root + eps);
        }
        if (p_act && r.to > r.from)
            memmove(fw(p_act) + r.from, fr(p) + r.from, (size_t)(r.to - r.from) * sizeof(float));
    }
}

// Per-thread sums in double, added in thread order.
static double reduce(struct backend *be, const float *x, int64_t n, bool squares)
{
    double total = 0;

#pragma omp parallel num_threads(be->threads)
    {
        int me = omp_get_thread_num();
        struct part r = cpu_part(n, LINE, me, be->threads);
        double sum = 0;

        for (int64_t i = r.from; i < r.to; i++)
            sum += squares ? (double)x[i] * x[i] : x[i];
        *(double *)(void *)cpu_scratch(be, me) = sum;
    }
    for (int t = 0; t < be->threads; t++)
        total += *(const double *)(const void *)cpu_scratch(be, t);
    return total;
}

void cpu_sum_squares(struct backend *be, struct f32 *out, const struct f32 *x, int64_t n)
{
    fw(out)[0] = (float)reduce(be, fr(x), n, true);
}

void cpu_sum(struct backend *be, struct f32 *out, const struct f32 *x, int64_t n)
{
    fw(out)[0] = (float)reduce(be, fr(x), n, false);
}

void cpu_scale(struct backend *be, struct f32 *x, double a, int64_t n)
{
#pragma omp parallel num_threads(be->threads)
    {
        struct part r = cpu_part(n, LINE, omp_get_thread_num(), be->threads);

        for (int64_t i = r.from; i < r.to; i++)
            fw(x)[i] *= (float)a;
    }
}

void cpu_axpy(struct backend *be, struct f32 *y, double a, const struct f32 *x, int64_t n)
{
#pragma omp parallel num_threads(be->threads)
    {
        struct part r = cpu_part(n, LINE, omp_get_thread_num(), be->threads);

        for (int64_t i = r.from; i < r.to; i++)
            fw(y)[i] += (float)a * fr(x)[i];
    }
}

void cpu_fill(struct backend *be, struct f32 *x, double value, int64_t n)
{
#pragma omp parallel num_threads(be->threads)
    {
        struct part r = cpu_part(n, LINE, omp_get_thread_num(), be->threads);

        for (int64_t i = r.from; i < r.to; i++)
            fw(x)[i] = (float)value;
    }
}

void cpu_add_act(struct backend *be, struct act *y, const struct act *x, int64_t n)
{
    cpu_axpy(be, (struct f32 *)(void *)y, 1, (const struct f32 *)(const void *)x, n);
}

static void copy(struct backend *be, float *y, const float *x, int64_t n)
{
#pragma omp parallel num_threads(be->threads)
    {
        struct part r = cpu_part(n, LINE, omp_get_thread_num(), be->threads);

        if (r.to > r.from)
            memmove(y + r.from, x + r.from, (size_t)(r.to - r.from) * sizeof *y);
    }
}

void cpu_cast_to_act(struct backend *be, struct act *y, const struct f32 *x, int64_t n)
{
    copy(be, fw(y), fr(x), n);
}

void cpu_cast_to_f32(struct backend *be, struct f32 *y, const struct act *x, int64_t n)
{
    copy(be, fw(y), fr(x), n);
}
