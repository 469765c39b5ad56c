#include "kernels/ref.h"

#include <math.h>

void ref_gate_forward(struct backend *be, struct f32 *sum, struct f32 *g, struct f32 *logg,
                      const struct act *x, const struct act *w, const struct act *b,
                      const struct f32 *prev, struct gate_dims d)
{
    (void)be;
    for (int64_t n = 0; n < d.N; n++) {
        double pre = ro(b)[0], s = prev ? ro(prev)[n] : 0, open;

        for (int64_t c = 0; c < d.C; c++)
            pre += ro(x)[n * d.C + c] * ro(w)[c];
        s += pre > 0 || isnan(pre) ? pre : 0;
        open = 1 - (s > 1 ? 1 : s < 0 ? 0 : s);
        rw(sum)[n] = s;
        rw(g)[n] = open;
        rw(logg)[n] =
            open < (double)d.drop ? GATE_DROPPED : log(open < (double)d.eps ? (double)d.eps : open);
    }
}

void ref_gate_backward(struct backend *be, struct act *dx, struct f32 *dw, struct f32 *db,
                       struct f32 *dsum, const struct f32 *dg, const struct f32 *dlogg,
                       const struct act *x, const struct act *w, const struct f32 *sum,
                       const struct f32 *prev, struct gate_dims d, bool acc)
{
    (void)be;
    for (int64_t n = 0; n < d.N; n++) {
        double s = ro(sum)[n], before = prev ? ro(prev)[n] : 0, dpre;

        if (!(s > 1)) {
            if (dg)
                rw(dsum)[n] -= ro(dg)[n];
            if (dlogg && !(1 - s < (double)d.eps))
                rw(dsum)[n] -= ro(dlogg)[n] / (1 - s);
        }
        dpre = s > before ? ro(dsum)[n] : s <= before ? 0 : NAN;
        rw(db)[0] += dpre;
        for (int64_t c = 0; c < d.C; c++) {
            rw(dw)[c] += dpre * ro(x)[n * d.C + c];
            rw(dx)[n * d.C + c] = (acc ? ro(dx)[n * d.C + c] : 0) + dpre * ro(w)[c];
        }
    }
}

void ref_gate_stats(struct backend *be, struct f32 *out, const struct f32 *g, const struct f32 *sum,
                    const struct f32 *prev, int64_t N)
{
    double *o = rw(out);

    (void)be;
    for (int i = 0; i < GATE_STATS; i++)
        o[i] = 0;
    for (int64_t n = 0; n < N; n++) {
        double s = ro(sum)[n], before = prev ? ro(prev)[n] : 0;

        o[GATE_STAT_MEAN] += ro(g)[n];
        o[GATE_STAT_ZERO] += fabs(ro(g)[n]) < 1e-8;
        o[GATE_STAT_CLOSED] += (s > before ? 0 : s <= before ? 1 : NAN);
        o[GATE_STAT_OVER] += ro(sum)[n] > 1;
    }
    for (int i = 0; i < GATE_STATS; i++)
        o[i] /= (double)N;
    for (int64_t n = 0; n < N; n++)
        o[GATE_STAT_VAR] += pow(ro(g)[n] - o[GATE_STAT_MEAN], 2) / (double)N;
}

void ref_gate_penalty(struct backend *be, struct f32 *dg, double a, double b, const struct f32 *g,
                      int64_t N)
{
    (void)be;
    for (int64_t n = 0; n < N; n++)
        rw(dg)[n] += a + b * ro(g)[n];
}
