// AdamW and flat vector ops; all run over flat ranges cut at cache lines.
#include "kernels/cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum { LINE = 16 }; // floats in a cache line

void cpu_adamw_step(struct backend *be, struct f32 *p, struct act *p_act, struct f32 *m,
                    struct f32 *v, const struct f32 *g, int64_t n, struct adamw a)
{
    struct adamw_floats f = {.b1 = (float)a.beta1,
                             .c1 = (float)(1 - a.beta1),
                             .b2 = (float)a.beta2,
                             .c2 = (float)(1 - a.beta2),
                             .grad_scale = (float)a.grad_scale,
                             .step = (float)(a.lr / a.bias1),
                             .decay = (float)(a.lr * a.weight_decay),
                             .root = (float)(1 / sqrt(a.bias2)),
                             .eps = (float)a.eps};

    CPU_PARTS(be, part)
    {
        struct part r = cpu_part(n, LINE, part, be->threads);

        cpu_vec(be)->adamw(fw(p) + r.from, fw(m) + r.from, fw(v) + r.from, fr(g) + r.from,
                           r.to - r.from, &f);
        if (p_act && r.to > r.from)
            memcpy(fw(p_act) + r.from, fr(p) + r.from, (size_t)(r.to - r.from) * sizeof(float));
    }
}

// Sums of the parts in double, added in their order.
static double reduce(struct backend *be, const float *x, int64_t n,
                     double (*f)(const float *, int64_t))
{
    double total = 0;

    CPU_PARTS(be, part)
    {
        struct part r = cpu_part(n, LINE, part, be->threads);
        double sum = f(x + r.from, r.to - r.from);

        *(double *)(void *)cpu_scratch(be, part) = sum;
    }
    for (int t = 0; t < be->threads; t++)
        total += *(const double *)(const void *)cpu_scratch(be, t);
    return total;
}

void cpu_sum_squares(struct backend *be, struct f32 *out, const struct f32 *x, int64_t n)
{
    fw(out)[0] = (float)reduce(be, fr(x), n, cpu_vec(be)->sum_squares);
}

void cpu_sum(struct backend *be, struct f32 *out, const struct f32 *x, int64_t n)
{
    fw(out)[0] = (float)reduce(be, fr(x), n, cpu_vec(be)->sum);
}

void cpu_scale(struct backend *be, struct f32 *x, double a, int64_t n)
{
    CPU_PARTS(be, part)
    {
        struct part r = cpu_part(n, LINE, part, be->threads);

        cpu_vec(be)->scale(fw(x) + r.from, (float)a, r.to - r.from);
    }
}

void cpu_axpy(struct backend *be, struct f32 *y, double a, const struct f32 *x, int64_t n)
{
    CPU_PARTS(be, part)
    {
        struct part r = cpu_part(n, LINE, part, be->threads);

        cpu_vec(be)->axpy(fw(y) + r.from, (float)a, fr(x) + r.from, r.to - r.from);
    }
}

void cpu_fill(struct backend *be, struct f32 *x, double value, int64_t n)
{
    CPU_PARTS(be, part)
    {
        struct part r = cpu_part(n, LINE, part, be->threads);

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
    CPU_PARTS(be, part)
    {
        struct part r = cpu_part(n, LINE, part, be->threads);

        if (r.to > r.from)
            memmove(y + r.from, x + r.from, (size_t)(r.to - r.from) * sizeof *y);
    }
}

void cpu_copy_act(struct backend *be, struct act *y, const struct act *x, int64_t n)
{
    copy(be, fw(y), fr(x), n);
}

void cpu_cast_to_act(struct backend *be, struct act *y, const struct f32 *x, int64_t n)
{
    copy(be, fw(y), fr(x), n);
}

void cpu_cast_to_f32(struct backend *be, struct f32 *y, const struct act *x, int64_t n)
{
    copy(be, fw(y), fr(x), n);
}
