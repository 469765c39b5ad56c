#include "kernels/ref.h"

#include <math.h>

void ref_embedding_forward(struct backend *be, struct act *y, const struct i32 *tok,
                           const struct act *w, int64_t N, int C)
{
    (void)be;
    for (int64_t n = 0; n < N; n++)
        for (int64_t c = 0; c < C; c++)
            rw(y)[n * C + c] = ro(w)[ids(tok)[n] * (int64_t)C + c];
}

void ref_embedding_backward(struct backend *be, struct f32 *dw, const struct act *dy,
                            const struct i32 *tok, int64_t N, int C, int V)
{
    (void)be;
    (void)V;
    for (int64_t n = 0; n < N; n++)
        for (int64_t c = 0; c < C; c++)
            rw(dw)[ids(tok)[n] * (int64_t)C + c] += ro(dy)[n * C + c];
}

static double row_log_sum_exp(const double *x, int n)
{
    double top = x[0], sum = 0;

    for (int i = 1; i < n; i++)
        top = isnan(x[i]) || x[i] > top ? x[i] : top;
    for (int i = 0; i < n; i++)
        sum += exp(x[i] - top);
    return top + log(sum);
}

void ref_softmax_xent(struct backend *be, struct f32 *loss, struct act *logits,
                      const struct i32 *target, struct xent_dims d, double scale, bool want_grad)
{
    (void)be;
    for (int64_t n = 0; n < d.N; n++) {
        double *x = rw(logits) + n * d.ld, lse = row_log_sum_exp(x, d.V);
        int t = ids(target)[n];

        rw(loss)[n] = t < 0 ? 0 : lse - x[t];
        for (int64_t i = 0; want_grad && i < d.ld; i++)
            x[i] = t < 0 || i >= d.V ? 0 : scale * (exp(x[i] - lse) - (i == t));
    }
}
