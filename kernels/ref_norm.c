#include "kernels/ref.h"

#include <math.h>

static int64_t at(int64_t row, int g, int i, int64_t ld, struct norm_dims d)
{
    return row * ld + (int64_t)g * d.width + i;
}

void ref_rmsnorm_forward(struct backend *be, struct act *y, struct f32 *rstd, const struct act *x,
                         const struct act *w, struct norm_dims d)
{
    (void)be;
    for (int64_t r = 0; r < d.rows; r++) {
        for (int g = 0; g < d.groups; g++) {
            double ss = 0, s;

            for (int i = 0; i < d.width; i++)
                ss += ro(x)[at(r, g, i, d.ldx, d)] * ro(x)[at(r, g, i, d.ldx, d)];
            s = 1 / sqrt(ss / d.width + (double)d.eps);
            rw(rstd)[r * d.groups + g] = s;
            for (int i = 0; i < d.width; i++)
                rw(y)[at(r, g, i, d.ldy, d)] = ro(w)[i] * ro(x)[at(r, g, i, d.ldx, d)] * s;
        }
    }
}

// With xhat = x * rstd and e = w * dy: dx = rstd * (e - xhat * mean(e * xhat)).
void ref_rmsnorm_backward(struct backend *be, struct act *dx, struct f32 *dw, const struct act *dy,
                          const struct act *x, const struct act *w, const struct f32 *rstd,
                          struct norm_dims d, bool acc)
{
    (void)be;
    for (int64_t r = 0; r < d.rows; r++) {
        for (int g = 0; g < d.groups; g++) {
            double s = ro(rstd)[r * d.groups + g], dot = 0;

            for (int i = 0; i < d.width; i++)
                dot += ro(w)[i] * ro(dy)[at(r, g, i, d.ldy, d)] * ro(x)[at(r, g, i, d.ldx, d)] * s;
            for (int i = 0; i < d.width; i++) {
                double xhat = ro(x)[at(r, g, i, d.ldx, d)] * s;
                double e = ro(dy)[at(r, g, i, d.ldy, d)];
                double *out = &rw(dx)[at(r, g, i, d.ldx, d)];

                rw(dw)[i] += e * xhat;
                *out = (acc ? *out : 0) + s * (ro(w)[i] * e - xhat * dot / d.width);
            }
        }
    }
}

void ref_layernorm_forward(struct backend *be, struct act *y, struct f32 *mean, struct f32 *rstd,
                           const struct act *x, const struct act *w, const struct act *b,
                           struct norm_dims d)
{
    (void)be;
    for (int64_t r = 0; r < d.rows; r++) {
        for (int g = 0; g < d.groups; g++) {
            double m = 0, var = 0, s;

            for (int i = 0; i < d.width; i++)
                m += ro(x)[at(r, g, i, d.ldx, d)] / d.width;
            for (int i = 0; i < d.width; i++)
                var += pow(ro(x)[at(r, g, i, d.ldx, d)] - m, 2) / d.width;
            s = 1 / sqrt(var + (double)d.eps);
            rw(mean)[r * d.groups + g] = m;
            rw(rstd)[r * d.groups + g] = s;
            for (int i = 0; i < d.width; i++)
                rw(y)[at(r, g, i, d.ldy, d)] =
                    ro(w)[i] * (ro(x)[at(r, g, i, d.ldx, d)] - m) * s + (b ? ro(b)[i] : 0);
        }
    }
}

// As for rmsnorm with xhat = (x - mean) * rstd, and the mean of e also taken out.
void ref_layernorm_backward(struct backend *be, struct act *dx, struct f32 *dw, struct f32 *db,
                            const struct act *dy, const struct act *x, const struct act *w,
                            const struct f32 *mean, const struct f32 *rstd, struct norm_dims d,
                            bool acc)
{
    (void)be;
    for (int64_t r = 0; r < d.rows; r++) {
        for (int g = 0; g < d.groups; g++) {
            double m = ro(mean)[r * d.groups + g], s = ro(rstd)[r * d.groups + g];
            double e_mean = 0, dot = 0;

            for (int i = 0; i < d.width; i++) {
                double e = ro(w)[i] * ro(dy)[at(r, g, i, d.ldy, d)];

                e_mean += e / d.width;
                dot += e * (ro(x)[at(r, g, i, d.ldx, d)] - m) * s / d.width;
            }
            for (int i = 0; i < d.width; i++) {
                double xhat = (ro(x)[at(r, g, i, d.ldx, d)] - m) * s;
                double e = ro(dy)[at(r, g, i, d.ldy, d)];
                double *out = &rw(dx)[at(r, g, i, d.ldx, d)];

                rw(dw)[i] += e * xhat;
                if (db)
                    rw(db)[i] += e;
                *out = (acc ? *out : 0) + s * (ro(w)[i] * e - e_mean - xhat * dot);
            }
        }
    }
}

void ref_row_norms(struct backend *be, struct f32 *out, const struct act *x, int64_t N, int C)
{
    double sum = 0;

    (void)be;
    for (int64_t n = 0; n < N; n++) {
        double squares = 0;

        for (int64_t c = 0; c < C; c++)
            squares += ro(x)[n * C + c] * ro(x)[n * C + c];
        sum += sqrt(squares);
    }
    rw(out)[0] = sum / (double)N;
}
