#include "kernels/ref.h"

#include <math.h>

// sign +1 rotates by the angle, -1 back.
static void rotate(struct act *qk, const struct f32 *cosines, const struct f32 *sines,
                   struct rope_dims d, double sign)
{
    int half = d.D / 2;

    for (int64_t row = 0; row < (int64_t)d.B * d.T; row++) {
        int64_t pos = d.pos0 + row % d.T;

        for (int h = 0; h < d.heads; h++) {
            for (int j = 0; j < half; j++) {
                double *head = rw(qk) + row * d.ld + (int64_t)h * d.D;
                double *x = head + (d.interleaved ? 2 * j : j);
                double *y = head + (d.interleaved ? 2 * j + 1 : j + half);
                double c = ro(cosines)[pos * half + j], s = sign * ro(sines)[pos * half + j];
                double a = *x, b = *y;

                *x = a * c - b * s;
                *y = a * s + b * c;
            }
        }
    }
}

void ref_rope_forward(struct backend *be, struct act *qk, const struct f32 *cos,
                      const struct f32 *sin, struct rope_dims d)
{
    (void)be;
    rotate(qk, cos, sin, d, 1);
}

void ref_rope_backward(struct backend *be, struct act *dqk, const struct f32 *cos,
                       const struct f32 *sin, struct rope_dims d)
{
    (void)be;
    rotate(dqk, cos, sin, d, -1);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

void ref_swiglu_forward(struct backend *be, struct act *y, const struct act *ab, int64_t N, int F)
{
    (void)be;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t f = 0; f < F; f++) {
            double a = ro(ab)[n * 2 * F + f], b = ro(ab)[n * 2 * F + F + f];

            rw(y)[n * F + f] = a * sigmoid(a) * b;
        }
    }
}

void ref_swiglu_backward(struct backend *be, struct act *dab, const struct act *dy,
                         const struct act *ab, int64_t N, int F)
{
    (void)be;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t f = 0; f < F; f++) {
            double a = ro(ab)[n * 2 * F + f], b = ro(ab)[n * 2 * F + F + f];
            double g = ro(dy)[n * F + f], s = sigmoid(a);

            rw(dab)[n * 2 * F + f] = g * b * s * (1 + a * (1 - s));
            rw(dab)[n * 2 * F + F + f] = g * a * s;
        }
    }
}

static double gelu(double x, enum gelu_kind kind)
{
    if (kind == GELU_ERF)
        return x / 2 * (1 + erf(x / M_SQRT2));
    return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x, enum gelu_kind kind)
{
    double u, t;

    if (kind == GELU_ERF)
        return (1 + erf(x / M_SQRT2)) / 2 + x * exp(-x * x / 2) / sqrt(2 * M_PI);
    u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
    t = tanh(u);
    return (1 + t) / 2 + x / 2 * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

void ref_gelu_forward(struct backend *be, struct act *y, const struct act *x, int64_t n,
                      enum gelu_kind kind)
{
    (void)be;
    for (int64_t i = 0; i < n; i++)
        rw(y)[i] = gelu(ro(x)[i], kind);
}

void ref_gelu_backward(struct backend *be, struct act *dx, const struct act *dy,
                       const struct act *x, int64_t n, enum gelu_kind kind)
{
    (void)be;
    for (int64_t i = 0; i < n; i++)
        rw(dx)[i] = ro(dy)[i] * gelu_slope(ro(x)[i], kind);
}

void ref_residual_forward(struct backend *be, struct act *y, const struct act *x,
                          const struct act *s, const struct f32 *g, int64_t N, int C)
{
    (void)be;
    for (int64_t n = 0; n < N; n++)
        for (int64_t c = 0; c < C; c++)
            rw(y)[n * C + c] = ro(x)[n * C + c] + (g ? ro(g)[n] : 1) * ro(s)[n * C + c];
}

void ref_residual_backward(struct backend *be, struct act *ds, struct f32 *dg, const struct act *dy,
                           const struct act *s, const struct f32 *g, int64_t N, int C)
{
    (void)be;
    for (int64_t n = 0; n < N; n++) {
        double dot = 0;

        for (int64_t c = 0; c < C; c++) {
            double e = ro(dy)[n * C + c];

            dot += e * ro(s)[n * C + c];
            rw(ds)[n * C + c] = (g ? ro(g)[n] : 1) * e;
        }
        if (dg)
            rw(dg)[n] += dot;
    }
}
