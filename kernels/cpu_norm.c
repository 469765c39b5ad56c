// RMSNorm and LayerNorm over rows; gains and their gradients are shared by all groups of a row.
#include "kernels/cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "kernels/bug.h"

static void check(struct norm_dims d)
{
    BUG_IF(d.width < 1 || d.groups < 1 || 2 * (int64_t)d.width > CPU_SCRATCH_FLOATS);
}

// Vector `v` of the rows * groups vectors: where it starts in an array with row distance ld.
static int64_t start_of(int64_t v, int64_t ld, struct norm_dims d)
{
    return v / d.groups * ld + v % d.groups * d.width;
}

void cpu_rmsnorm_forward(struct backend *be, struct act *y, struct f32 *rstd, const struct act *x,
                         const struct act *w, struct norm_dims d)
{
    check(d);
    CPU_PARTS(be, part)
    {
        struct part p = cpu_part(d.rows * d.groups, 16, part, be->threads);

        for (int64_t v = p.from; v < p.to; v++)
            fw(rstd)[v] =
                cpu_vec(be)->rmsnorm(fw(y) + start_of(v, d.ldy, d), fr(x) + start_of(v, d.ldx, d),
                                     fr(w), d.width, d.eps);
    }
}

void cpu_rmsnorm_backward(struct backend *be, struct act *dx, struct f32 *dw, const struct act *dy,
                          const struct act *x, const struct act *w, const struct f32 *rstd,
                          struct norm_dims d, bool acc)
{
    check(d);
    CPU_PARTS(be, part)
    {
        struct part p = cpu_part(d.rows * d.groups, 16, part, be->threads);
        float *dgain = cpu_scratch(be, part);

        memset(dgain, 0, (size_t)d.width * sizeof *dgain);
        for (int64_t v = p.from; v < p.to; v++) {
            int64_t in = start_of(v, d.ldx, d);

            cpu_vec(be)->rmsnorm_grad(fw(dx) + in, dgain, fr(dy) + start_of(v, d.ldy, d),
                                      fr(x) + in, fr(w), fr(rstd)[v], d.width, acc);
        }
    }
    cpu_add_partials(be, fw(dw), 0, d.width);
}

void cpu_layernorm_forward(struct backend *be, struct act *y, struct f32 *mean, struct f32 *rstd,
                           const struct act *x, const struct act *w, const struct act *b,
                           struct norm_dims d)
{
    check(d);
    CPU_PARTS(be, part)
    {
        struct part p = cpu_part(d.rows * d.groups, 16, part, be->threads);

        for (int64_t v = p.from; v < p.to; v++)
            cpu_vec(be)->layernorm(fw(y) + start_of(v, d.ldy, d), fw(mean) + v, fw(rstd) + v,
                                   fr(x) + start_of(v, d.ldx, d), fr(w), fr(b), d.width, d.eps);
    }
}

void cpu_layernorm_backward(struct backend *be, struct act *dx, struct f32 *dw, struct f32 *db,
                            const struct act *dy, const struct act *x, const struct act *w,
                            const struct f32 *mean, const struct f32 *rstd, struct norm_dims d,
                            bool acc)
{
    check(d);
    CPU_PARTS(be, part)
    {
        struct part p = cpu_part(d.rows * d.groups, 16, part, be->threads);
        float *dgain = cpu_scratch(be, part), *dbias = dgain + d.width;

        memset(dgain, 0, 2 * (size_t)d.width * sizeof *dgain);
        for (int64_t v = p.from; v < p.to; v++) {
            int64_t in = start_of(v, d.ldx, d);

            cpu_vec(be)->layernorm_grad(fw(dx) + in, dgain, dbias, fr(dy) + start_of(v, d.ldy, d),
                                        fr(x) + in, fr(w), fr(mean)[v], fr(rstd)[v], d.width, acc);
        }
    }
    cpu_add_partials(be, fw(dw), 0, d.width);
    if (db)
        cpu_add_partials(be, fw(db), d.width, d.width);
}

void cpu_row_norms(struct backend *be, struct f32 *out, const struct act *x, int64_t N, int C)
{
    double total = 0;

    CPU_PARTS(be, part)
    {
        struct part p = cpu_part(N, 1, part, be->threads);
        double sum = 0;

        for (int64_t n = p.from; n < p.to; n++)
            sum += sqrt(cpu_vec(be)->sum_squares(fr(x) + n * C, C));
        *(double *)(void *)cpu_scratch(be, part) = sum;
    }
    for (int t = 0; t < be->threads; t++)
        total += *(const double *)(const void *)cpu_scratch(be, t);
    fw(out)[0] = (float)(total / (double)N);
}
