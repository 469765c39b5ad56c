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

void ref_gate_forward(struct backend *be, struct f32 *sum, struct f32 *g, struct f32 *logg,
                      const struct act *x, const struct act *w, const struct act *b,
                      const struct f32 *prev, int64_t N, int C, float eps)
{
    (void)be;
    for (int64_t n = 0; n < N; n++) {
        double pre = ro(b)[0], s = prev ? ro(prev)[n] : 0, open;

        for (int64_t c = 0; c < C; c++)
            pre += ro(x)[n * C + c] * ro(w)[c];
        s += pre > 0 || isnan(pre) ? pre : 0;
        open = 1 - (s > 1 ? 1 : s < 0 ? 0 : s);
        rw(sum)[n] = s;
        rw(g)[n] = open;
        rw(logg)[n] = log(open < (double)eps ? (double)eps : open);
    }
}

void ref_gate_backward(struct backend *be, struct act *dx, struct f32 *dw, struct f32 *db,
                       struct f32 *dsum, const struct f32 *dg, const struct f32 *dlogg,
                       const struct act *x, const struct act *w, const struct f32 *sum,
                       const struct f32 *prev, int64_t N, int C, float eps, bool acc)
{
    (void)be;
    for (int64_t n = 0; n < N; n++) {
        double s = ro(sum)[n], before = prev ? ro(prev)[n] : 0, dpre;

        if (!(s > 1)) {
            if (dg)
                rw(dsum)[n] -= ro(dg)[n];
            if (dlogg && !(1 - s < (double)eps))
                rw(dsum)[n] -= ro(dlogg)[n] / (1 - s);
        }
        dpre = s > before ? ro(dsum)[n] : s <= before ? 0 : NAN;
        rw(db)[0] += dpre;
        for (int64_t c = 0; c < C; c++) {
            rw(dw)[c] += dpre * ro(x)[n * C + c];
            rw(dx)[n * C + c] = (acc ? ro(dx)[n * C + c] : 0) + dpre * ro(w)[c];
        }
    }
}
