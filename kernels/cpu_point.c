// Elementwise ops and the gate.
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

// A NaN passes through relu and clamp, so that the op that made it is not the last to show it.
void cpu_gate_forward(struct backend *be, struct f32 *sum, struct f32 *g, struct f32 *logg,
                      const struct act *x, const struct act *w, const struct act *b,
                      const struct f32 *prev, int64_t N, int C, float eps)
{
    CPU_PARTS(be, part)
    {
        struct part p = cpu_part(N, 16, part, be->threads);

        for (int64_t n = p.from; n < p.to; n++) {
            float pre = fr(b)[0] + cpu_vec(be)->dot(fr(x) + n * C, fr(w), C);
            float s = prev ? fr(prev)[n] : 0, open;

            s += pre <= 0 ? 0 : pre;
            open = 1 - (s > 1 ? 1 : s < 0 ? 0 : s);
            fw(sum)[n] = s;
            fw(g)[n] = open;
            fw(logg)[n] = logf(open < eps ? eps : open);
        }
    }
}

void cpu_gate_backward(struct backend *be, struct act *dx, struct f32 *dw, struct f32 *db,
                       struct f32 *dsum, const struct f32 *dg, const struct f32 *dlogg,
                       const struct act *x, const struct act *w, const struct f32 *sum,
                       const struct f32 *prev, int64_t N, int C, float eps, bool acc)
{
    BUG_IF(C + 1 > CPU_SCRATCH_FLOATS);
    CPU_PARTS(be, part)
    {
        struct part p = cpu_part(N, 16, part, be->threads);
        float *weight = cpu_scratch(be, part), *bias = weight + C;

        memset(weight, 0, (size_t)(C + 1) * sizeof *weight);
        for (int64_t n = p.from; n < p.to; n++) {
            float s = fr(sum)[n], d = fr(dsum)[n], before = prev ? fr(prev)[n] : 0;

            if (!(s > 1) && dg)
                d -= fr(dg)[n];
            if (!(s > 1) && dlogg && !(1 - s < eps))
                d -= fr(dlogg)[n] / (1 - s);
            fw(dsum)[n] = d;
            if (!(s > before)) // relu was shut, or something is NaN
                d = s <= before ? 0 : NAN;
            *bias += d;
            cpu_vec(be)->axpy(weight, d, fr(x) + n * C, C);
            if (!acc)
                memset(fw(dx) + n * C, 0, (size_t)C * sizeof(float));
            cpu_vec(be)->axpy(fw(dx) + n * C, d, fr(w), C);
        }
    }
    cpu_add_partials(be, fw(dw), 0, C);
    cpu_add_partials(be, fw(db), C, 1);
}
