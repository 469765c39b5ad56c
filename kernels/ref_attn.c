#include "kernels/ref.h"

#include <math.h>

// Everything one attention op reads, so that the loops below stay readable.
struct attn {
    const double *q, *k, *v, *kbias, *slopes;
    struct attn_dims d;
};

static const double *query(const struct attn *a, int b, int h, int t)
{
    return a->q + ((int64_t)b * a->d.Tq + t) * a->d.ldq + (int64_t)h * a->d.D;
}

static int64_t key_at(const struct attn *a, int b, int h, int s, int64_t ld)
{
    int64_t group = (int64_t)h * a->d.G / a->d.H;

    return ((int64_t)b * a->d.Tk + s) * ld + group * a->d.D;
}

static double dot(const double *x, const double *y, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

static int position(const struct attn *a, int t)
{
    return a->d.Tk - a->d.Tq + t;
}

static double score(const struct attn *a, int b, int h, int t, int s)
{
    double x =
        (double)a->d.scale * dot(query(a, b, h, t), a->k + key_at(a, b, h, s, a->d.ldk), a->d.D);

    if (a->kbias)
        x += a->kbias[(int64_t)b * a->d.Tk + s];
    if (a->slopes)
        x -= a->slopes[h] * (position(a, t) - s);
    return x;
}

static int64_t stat_at(const struct attn *a, int b, int h, int t)
{
    return ((int64_t)b * a->d.H + h) * a->d.Tq + t;
}

static int64_t out_at(const struct attn *a, int b, int h, int t)
{
    return ((int64_t)b * a->d.Tq + t) * a->d.ldy + (int64_t)h * a->d.D;
}

static double log_sum_exp(const struct attn *a, int b, int h, int t)
{
    double top = score(a, b, h, t, 0), sum = 0;

    for (int s = 1; s <= position(a, t); s++) {
        double x = score(a, b, h, t, s);

        top = isnan(x) || x > top ? x : top;
    }
    for (int s = 0; s <= position(a, t); s++)
        sum += exp(score(a, b, h, t, s) - top);
    return top + log(sum);
}

void ref_attention_forward(struct backend *be, struct act *y, struct f32 *lse, const struct act *q,
                           const struct act *k, const struct act *v, const struct f32 *kbias,
                           const struct f32 *slopes, struct attn_dims d)
{
    struct attn a = {ro(q), ro(k), ro(v), ro(kbias), ro(slopes), d};

    (void)be;
    for (int b = 0; b < d.B; b++) {
        for (int h = 0; h < d.H; h++) {
            for (int t = 0; t < d.Tq; t++) {
                double *out = rw(y) + out_at(&a, b, h, t), total = log_sum_exp(&a, b, h, t);

                rw(lse)[stat_at(&a, b, h, t)] = total;
                for (int i = 0; i < d.D; i++)
                    out[i] = 0;
                for (int s = 0; s <= position(&a, t); s++) {
                    double p = exp(score(&a, b, h, t, s) - total);

                    for (int i = 0; i < d.D; i++)
                        out[i] += p * a.v[key_at(&a, b, h, s, d.ldv) + i];
                }
            }
        }
    }
}

static void zero_rows(double *x, int64_t rows, int64_t ld, int64_t width)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i++)
            x[r * ld + i] = 0;
}

// With p the probabilities and z the scores: dp = dy.v, dz = p * (dp - dy.y).
void ref_attention_backward(struct backend *be, struct act *dq, struct act *dk, struct act *dv,
                            struct f32 *dkbias, const struct act *dy, const struct act *y,
                            const struct act *q, const struct act *k, const struct act *v,
                            const struct f32 *lse, const struct f32 *kbias,
                            const struct f32 *slopes, struct attn_dims d)
{
    struct attn a = {ro(q), ro(k), ro(v), ro(kbias), ro(slopes), d};

    (void)be;
    zero_rows(rw(dq), (int64_t)d.B * d.Tq, d.ldq, (int64_t)d.H * d.D);
    zero_rows(rw(dk), (int64_t)d.B * d.Tk, d.ldk, (int64_t)d.G * d.D);
    zero_rows(rw(dv), (int64_t)d.B * d.Tk, d.ldv, (int64_t)d.G * d.D);
    for (int b = 0; b < d.B; b++) {
        for (int h = 0; h < d.H; h++) {
            for (int t = 0; t < d.Tq; t++) {
                const double *g = ro(dy) + out_at(&a, b, h, t), *qt = query(&a, b, h, t);
                double *dqt = rw(dq) + (qt - a.q);
                double mean = dot(g, ro(y) + out_at(&a, b, h, t), d.D);

                for (int s = 0; s <= position(&a, t); s++) {
                    double p = exp(score(&a, b, h, t, s) - ro(lse)[stat_at(&a, b, h, t)]);
                    int64_t ks = key_at(&a, b, h, s, d.ldk), vs = key_at(&a, b, h, s, d.ldv);
                    double dz = p * (dot(g, a.v + vs, d.D) - mean);

                    if (dkbias)
                        rw(dkbias)[(int64_t)b * d.Tk + s] += dz;
                    for (int i = 0; i < d.D; i++) {
                        dqt[i] += (double)d.scale * dz * a.k[ks + i];
                        rw(dk)[ks + i] += (double)d.scale * dz * qt[i];
                        rw(dv)[vs + i] += p * g[i];
                    }
                }
            }
        }
    }
}
