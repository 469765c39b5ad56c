// Elementwise ops and the gate.
#include "kernels/cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "kernels/bug.h"

static void rotate_head(float *x, const float *c, const float *s, int half, bool interleaved,
                        float sign)
{
    int step = interleaved ? 2 : 1, to = interleaved ? 1 : half;

    for (int j = 0; j < half; j++) {
        float a = x[j * step], b = x[j * step + to], sine = sign * s[j];

        x[j * step] = a * c[j] - b * sine;
        x[j * step + to] = a * sine + b * c[j];
    }
}

static void rotate(struct backend *be, float *qk, const float *cosines, const float *sines,
                   struct rope_dims d, float sign)
{
    BUG_IF(d.D % 2);
#pragma omp parallel num_threads(be->threads)
    {
        struct part p = cpu_part((int64_t)d.B * d.T, 1, omp_get_thread_num(), be->threads);

        for (int64_t r = p.from; r < p.to; r++) {
            int64_t table = (d.pos0 + r % d.T) * (d.D / 2);

            for (int h = 0; h < d.heads; h++)
                rotate_head(qk + r * d.ld + (int64_t)h * d.D, cosines + table, sines + table,
                            d.D / 2, d.interleaved, sign);
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
#pragma omp parallel num_threads(be->threads)
    {
        struct part p = cpu_part(N, 1, omp_get_thread_num(), be->threads);

        for (int64_t n = p.from; n < p.to; n++) {
            const float *a = fr(ab) + n * 2 * F, *b = a + F;
            float *out = fw(y) + n * F;

            for (int f = 0; f < F; f++)
                out[f] = a[f] / (1 + expf(-a[f])) * b[f];
        }
    }
}

void cpu_swiglu_backward(struct backend *be, struct act *dab, const struct act *dy,
                         const struct act *ab, int64_t N, int F)
{
#pragma omp parallel num_threads(be->threads)
    {
        struct part p = cpu_part(N, 1, omp_get_thread_num(), be->threads);

        for (int64_t n = p.from; n < p.to; n++) {
            const float *a = fr(ab) + n * 2 * F, *b = a + F, *g = fr(dy) + n * F;
            float *da = fw(dab) + n * 2 * F, *db = da + F;

            for (int f = 0; f < F; f++) {
                float s = 1 / (1 + expf(-a[f])), x = a[f];

                da[f] = g[f] * b[f] * s * (1 + x * (1 - s));
                db[f] = g[f] * x * s;
            }
        }
    }
}

static const float tanh_scale = 0.79788456080286535588f; // sqrt(2 / pi)
static const float tanh_cubic = 0.044715f;

static float gelu(float x, enum gelu_kind kind)
{
    if (kind == GELU_ERF)
        return 0.5f * x * (1 + erff(x * (float)M_SQRT1_2));
    return 0.5f * x * (1 + tanhf(tanh_scale * (x + tanh_cubic * x * x * x)));
}

static float gelu_slope(float x, enum gelu_kind kind)
{
    float t;

    if (kind == GELU_ERF)
        return 0.5f * (1 + erff(x * (float)M_SQRT1_2)) +
               x * expf(-0.5f * x * x) * 0.5f * (float)M_SQRT1_2 * (float)M_2_SQRTPI;
    t = tanhf(tanh_scale * (x + tanh_cubic * x * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * tanh_scale * (1 + 3 * tanh_cubic * x * x);
}

void cpu_gelu_forward(struct backend *be, struct act *y, const struct act *x, int64_t n,
                      enum gelu_kind kind)
{
#pragma omp parallel num_threads(be->threads)
    {
        struct part p = cpu_part(n, 16, omp_get_thread_num(), be->threads);

        for (int64_t i = p.from; i < p.to; i++)
            fw(y)[i] = gelu(fr(x)[i], kind);
    }
}

void cpu_gelu_backward(struct backend *be, struct act *dx, const struct act *dy,
                       const struct act *x, int64_t n, enum gelu_kind kind)
{
#pragma omp parallel num_threads(be->threads)
    {
        struct part p = cpu_part(n, 16, omp_get_thread_num(), be->threads);

        for (int64_t i = p.from; i < p.to; i++)
            fw(dx)[i] = fr(dy)[i] * gelu_slope(fr(x)[i], kind);
    }
}

void cpu_residual_forward(struct backend *be, struct act *y, const struct act *x,
                          const struct act *s, const struct f32 *g, int64_t N, int C)
{
#pragma omp parallel num_threads(be->threads)
    {
        struct part p = cpu_part(N, 1, omp_get_thread_num(), be->threads);

        for (int64_t n = p.from; n < p.to; n++) {
            float open = g ? fr(g)[n] : 1;

            for (int64_t i = n * C; i < (n + 1) * C; i++)
                fw(y)[i] = fr(x)[i] + open * fr(s)[i];
        }
    }
}

void cpu_residual_backward(struct backend *be, struct act *ds, struct f32 *dg, const struct act *dy,
                           const struct act *s, const struct f32 *g, int64_t N, int C)
{
#pragma omp parallel num_threads(be->threads)
    {
        struct part p = cpu_part(N, 1, omp_get_thread_num(), be->threads);

        for (int64_t n = p.from; n < p.to; n++) {
            float open = g ? fr(g)[n] : 1, dot = 0;

            for (int64_t i = n * C; i < (n + 1) * C; i++) {
                float e = fr(dy)[i];

                dot += e * fr(s)[i];
                fw(ds)[i] = open * e;
            }
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
#pragma omp parallel num_threads(be->threads)
    {
        struct part p = cpu_part(N, 16, omp_get_thread_num(), be->threads);

        for (int64_t n = p.from; n < p.to; n++) {
            float pre = fr(b)[0], s = prev ? fr(prev)[n] : 0, open;

            for (int64_t c = 0; c < C; c++)
                pre += fr(x)[n * C + c] * fr(w)[c];
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
#pragma omp parallel num_threads(be->threads)
    {
        int me = omp_get_thread_num();
        struct part p = cpu_part(N, 16, me, be->threads);
        float *weight = cpu_scratch(be, me), *bias = weight + C;

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
            for (int64_t c = 0; c < C; c++) {
                float old = acc ? fr(dx)[n * C + c] : 0;

                weight[c] += d * fr(x)[n * C + c];
                fw(dx)[n * C + c] = old + d * fr(w)[c];
            }
        }
    }
    cpu_add_partials(be, fw(dw), 0, C);
    cpu_add_partials(be, fw(db), C, 1);
}
