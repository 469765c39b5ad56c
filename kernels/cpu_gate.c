// The skip-the-middle gate and its statistics.
#include "kernels/cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "kernels/bug.h"

// A NaN passes through relu and clamp, so that the op that made it is not the last to show it.
void cpu_gate_forward(struct backend *be, struct f32 *sum, struct f32 *g, struct f32 *logg,
                      const struct act *x, const struct act *w, const struct act *b,
                      const struct f32 *prev, struct gate_dims d)
{
    CPU_PARTS(be, part)
    {
        struct part p = cpu_part(d.N, 16, part, be->threads);

        for (int64_t n = p.from; n < p.to; n++) {
            float pre = fr(b)[0] + cpu_vec(be)->dot(fr(x) + n * d.C, fr(w), d.C);
            float s = prev ? fr(prev)[n] : 0, open;

            s += pre <= 0 ? 0 : pre;
            open = 1 - (s > 1 ? 1 : s < 0 ? 0 : s);
            fw(sum)[n] = s;
            fw(g)[n] = open;
            fw(logg)[n] = open < d.drop ? (float)GATE_DROPPED : logf(open < d.eps ? d.eps : open);
        }
    }
}

void cpu_gate_backward(struct backend *be, struct act *dx, struct f32 *dw, struct f32 *db,
                       struct f32 *dsum, const struct f32 *dg, const struct f32 *dlogg,
                       const struct act *x, const struct act *w, const struct f32 *sum,
                       const struct f32 *prev, struct gate_dims dim, bool acc)
{
    int C = dim.C;

    BUG_IF(C + 1 > CPU_SCRATCH_FLOATS);
    CPU_PARTS(be, part)
    {
        struct part p = cpu_part(dim.N, 16, part, be->threads);
        float *weight = cpu_scratch(be, part), *bias = weight + C;

        memset(weight, 0, (size_t)(C + 1) * sizeof *weight);
        for (int64_t n = p.from; n < p.to; n++) {
            float s = fr(sum)[n], d = fr(dsum)[n], before = prev ? fr(prev)[n] : 0;

            if (!(s > 1) && dg)
                d -= fr(dg)[n];
            if (!(s > 1) && dlogg && !(1 - s < dim.eps))
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

// A few reads of N floats: not worth threads, and in one order.
void cpu_gate_stats(struct backend *be, struct f32 *out, const struct f32 *g, const struct f32 *sum,
                    const struct f32 *prev, int64_t N)
{
    double mean = 0, squares = 0, zero = 0, closed = 0, over = 0;

    (void)be;
    for (int64_t n = 0; n < N; n++) {
        float before = prev ? fr(prev)[n] : 0, s = fr(sum)[n];

        mean += fr(g)[n];
        zero += fabsf(fr(g)[n]) < 1e-8f;
        closed += s > before ? 0 : s <= before ? 1 : (double)NAN;
        over += s > 1;
    }
    mean /= (double)N;
    for (int64_t n = 0; n < N; n++)
        squares += (fr(g)[n] - mean) * (fr(g)[n] - mean);
    fw(out)[GATE_STAT_MEAN] = (float)mean;
    fw(out)[GATE_STAT_VAR] = (float)(squares / (double)N);
    fw(out)[GATE_STAT_ZERO] = (float)(zero / (double)N);
    fw(out)[GATE_STAT_CLOSED] = (float)(closed / (double)N);
    fw(out)[GATE_STAT_OVER] = (float)(over / (double)N);
}

void cpu_gate_penalty(struct backend *be, struct f32 *dg, double a, double b, const struct f32 *g,
                      int64_t N)
{
    (void)be;
    for (int64_t n = 0; n < N; n++)
        fw(dg)[n] += (float)(a + b * fr(g)[n]);
}
