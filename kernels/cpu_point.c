// Elementwise ops.
#include "kernels/cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "kernels/bug.h"

static void rotate_pairs(float *x, const float *c, const float *s, int pairs, float sign)
{
    for (int j = 0; j < pairs; j++) {
        float a = x[2 * j], b = x[2 * j + 1], sine = sign * s[j];

        x[2 * j] = a * c[j] - b * sine;
        x[2 * j + 1] = a * sine + b * c[j];
    }
}

static void rotate(struct backend *be, float *qk, const float *cosines, const float *sines,
                   struct rope_dims d, float sign)
{
    void (*turn)(float *, const float *, const float *, int, float) =
        d.interleaved ? rotate_pairs : cpu_vec(be)->rotate;

    BUG_IF(d.D % 2);
    CPU_PARTS(be, part)
    {
        struct part p = cpu_part((int64_t)d.B * d.T, 1, part, be->threads);

        for (int64_t r = p.from; r < p.to; r++) {
            int64_t table = (d.pos0 + r % d.T) * (d.D / 2);

            for (int h = 0; h < d.heads; h++) {
                float *head = qk + r * d.ld + (int64_t)h * d.D;

                turn(head, cosines + table, sines + table, d.D / 2, sign);
            }
        }
    }
}

void cpu_rope_forward(struct backend *be, struct act *qk, const struct f32 *cos,
                      const struct f32 *sin, struct rope_dims d)
{
    rotate(be, fw(qk), fr(cos), fr(sin), d, 1);
}

void cpu_rope_backward(struct backend *be, struct act *dqk, const struct f32 *cos,
                       const struct f32 *sin, struct rope_dims d)
{
    rotate(be, fw(dqk), fr(cos), fr(sin), d, -1);
}

void cpu_swiglu_forward(struct backend *be, struct act *y, const struct act *ab, int64_t N, int F)
{
    CPU_PARTS(be, part)
    {
        struct part p = cpu_part(N, 1, part, be->threads);

        for (int64_t n = p.from; n < p.to; n++) {
            const float *a = fr(ab) + n * 2 * F;

            cpu_vec(be)->swiglu(fw(y) + n * F, a, a + F, F);
        }
    }
}

void cpu_swiglu_backward(struct backend *be, struct act *dab, const struct act *dy,
                         const struct act *ab, int64_t N, int F)
{
    CPU_PARTS(be, part)
    {
        struct part p = cpu_part(N, 1, part, be->threads);

        for (int64_t n = p.from; n < p.to; n++) {
            const float *a = fr(ab) + n * 2 * F;
            float *da = fw(dab) + n * 2 * F;

            cpu_vec(be)->swiglu_grad(da, da + F, fr(dy) + n * F, a, a + F, F);
        }
    }
}

void cpu_gelu_forward(struct backend *be, struct act *y, const struct act *x, int64_t n,
                      enum gelu_kind kind)
{
    void (*f)(float *, const float *, int64_t) =
        kind == GELU_ERF ? cpu_vec(be)->gelu_erf : cpu_vec(be)->gelu_tanh;

    CPU_PARTS(be, part)
    {
        struct part p = cpu_part(n, 16, part, be->threads);

        f(fw(y) + p.from, fr(x) + p.from, p.to - p.from);
    }
}

void cpu_gelu_backward(struct backend *be, struct act *dx, const struct act *dy,
                       const struct act *x, int64_t n, enum gelu_kind kind)
{
    void (*f)(float *, const float *, const float *, int64_t) =
        kind == GELU_ERF ? cpu_vec(be)->gelu_erf_grad : cpu_vec(be)->gelu_tanh_grad;

    CPU_PARTS(be, part)
    {
        struct part p = cpu_part(n, 16, part, be->threads);

        f(fw(dx) + p.from, fr(dy) + p.from, fr(x) + p.from, p.to - p.from);
    }
}

void cpu_residual_forward(struct backend *be, struct act *y, const struct act *x,
                          const struct act *s, const struct f32 *g, int64_t N, int C)
{
    CPU_PARTS(be, part)
    {
        struct part p = cpu_part(N, 1, part, be->threads);

        for (int64_t n = p.from; n < p.to; n++)
            cpu_vec(be)->residual(fw(y) + n * C, fr(x) + n * C, fr(s) + n * C, g ? fr(g)[n] : 1, C);
    }
}

void cpu_residual_backward(struct backend *be, struct act *ds, struct f32 *dg, const struct act *dy,
                           const struct act *s, const struct f32 *g, int64_t N, int C)
{
    CPU_PARTS(be, part)
    {
        struct part p = cpu_part(N, 1, part, be->threads);

        for (int64_t n = p.from; n < p.to; n++) {
            float dot = cpu_vec(be)->residual_grad(fw(ds) + n * C, fr(dy) + n * C, fr(s) + n * C,
                                                   g ? fr(g)[n] : 1, C);

            if (dg)
                fw(dg)[n] += dot;
        }
    }
}
