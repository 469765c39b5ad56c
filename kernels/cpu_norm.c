// RMSNorm and LayerNorm; one pass over each row, gains and their gradients shared by all groups.
#include "kernels/cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "kernels/bug.h"

static void check(struct norm_dims d)
{
    BUG_IF(d.width < 1 || d.groups < 1 || 2 * (int64_t)d.width > CPU_SCRATCH_FLOATS);
}

void cpu_rmsnorm_forward(struct backend *be, struct act *y, struct f32 *rstd, const struct act *x,
                         const struct act *w, struct norm_dims d)
{
    check(d);
#pragma omp parallel num_threads(be->threads)
    {
        struct part p = cpu_part(d.rows, 1, omp_get_thread_num(), be->threads);

        for (int64_t r = p.from; r < p.to; r++) {
            for (int g = 0; g < d.groups; g++) {
                const float *in = fr(x) + r * d.ldx + (int64_t)g * d.width;
                float *out = fw(y) + r * d.ldy + (int64_t)g * d.width, ss = 0, s;

                for (int i = 0; i < d.width; i++)
                    ss += in[i] * in[i];
                s = 1 / sqrtf(ss / (float)d.width + d.eps);
                fw(rstd)[r * d.groups + g] = s;
                for (int i = 0; i < d.width; i++)
                    out[i] = fr(w)[i] * (in[i] * s);
            }
        }
    }
}

void cpu_rmsnorm_backward(struct backend *be, struct act *dx, struct f32 *dw, const struct act *dy,
                          const struct act *x, const struct act *w, const struct f32 *rstd,
                          struct norm_dims d, bool acc)
{
    check(d);
#pragma omp parallel num_threads(be->threads)
    {
        int me = omp_get_thread_num();
        struct part p = cpu_part(d.rows, 1, me, be->threads);
        float *gain = cpu_scratch(be, me);

        memset(gain, 0, (size_t)d.width * sizeof *gain);
        for (int64_t r = p.from; r < p.to; r++) {
            for (int g = 0; g < d.groups; g++) {
                const float *in = fr(x) + r * d.ldx + (int64_t)g * d.width;
                const float *e = fr(dy) + r * d.ldy + (int64_t)g * d.width;
                float *out = fw(dx) + r * d.ldx + (int64_t)g * d.width;
                float s = fr(rstd)[r * d.groups + g], dot = 0;

                for (int i = 0; i < d.width; i++)
                    dot += fr(w)[i] * e[i] * in[i];
                dot *= s * s / (float)d.width;
                for (int i = 0; i < d.width; i++) {
                    float old = acc ? out[i] : 0, dxi = s * (fr(w)[i] * e[i] - in[i] * dot);

                    gain[i] += e[i] * (in[i] * s);
                    out[i] = old + dxi;
                }
            }
        }
    }
    cpu_add_partials(be, fw(dw), 0, d.width);
}

void cpu_layernorm_forward(struct backend *be, struct act *y, struct f32 *mean, struct f32 *rstd,
                           const struct act *x, const struct act *w, const struct act *b,
                           struct norm_dims d)
{
    check(d);
#pragma omp parallel num_threads(be->threads)
    {
        struct part p = cpu_part(d.rows, 1, omp_get_thread_num(), be->threads);

        for (int64_t r = p.from; r < p.to; r++) {
            for (int g = 0; g < d.groups; g++) {
                const float *in = fr(x) + r * d.ldx + (int64_t)g * d.width;
                float *out = fw(y) + r * d.ldy + (int64_t)g * d.width, m = 0, var = 0, s;

                for (int i = 0; i < d.width; i++)
                    m += in[i];
                m /= (float)d.width;
                for (int i = 0; i < d.width; i++)
                    var += (in[i] - m) * (in[i] - m);
                s = 1 / sqrtf(var / (float)d.width + d.eps);
                fw(mean)[r * d.groups + g] = m;
                fw(rstd)[r * d.groups + g] = s;
                for (int i = 0; i < d.width; i++)
                    out[i] = fr(w)[i] * ((in[i] - m) * s) + (b ? fr(b)[i] : 0);
            }
        }
    }
}

void cpu_layernorm_backward(struct backend *be, struct act *dx, struct f32 *dw, struct f32 *db,
                            const struct act *dy, const struct act *x, const struct act *w,
                            const struct f32 *mean, const struct f32 *rstd, struct norm_dims d,
                            bool acc)
{
    check(d);
#pragma omp parallel num_threads(be->threads)
    {
        int me = omp_get_thread_num();
        struct part p = cpu_part(d.rows, 1, me, be->threads);
        float *gain = cpu_scratch(be, me), *bias = gain + d.width;

        memset(gain, 0, 2 * (size_t)d.width * sizeof *gain);
        for (int64_t r = p.from; r < p.to; r++) {
            for (int g = 0; g < d.groups; g++) {
                const float *in = fr(x) + r * d.ldx + (int64_t)g * d.width;
                const float *e = fr(dy) + r * d.ldy + (int64_t)g * d.width;
                float *out = fw(dx) + r * d.ldx + (int64_t)g * d.width;
                float m = fr(mean)[r * d.groups + g], s = fr(rstd)[r * d.groups + g];
                float e_mean = 0, dot = 0;

                for (int i = 0; i < d.width; i++) {
                    e_mean += fr(w)[i] * e[i];
                    dot += fr(w)[i] * e[i] * ((in[i] - m) * s);
                }
                e_mean /= (float)d.width;
                dot /= (float)d.width;
                for (int i = 0; i < d.width; i++) {
                    float xhat = (in[i] - m) * s, old = acc ? out[i] : 0, ei = e[i];

                    gain[i] += ei * xhat;
                    bias[i] += ei;
                    out[i] = old + s * (fr(w)[i] * ei - e_mean - xhat * dot);
                }
            }
        }
    }
    cpu_add_partials(be, fw(dw), 0, d.width);
    if (db)
        cpu_add_partials(be, fw(db), d.width, d.width);
}
