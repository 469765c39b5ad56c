// Both ends of the model: token rows in, cross-entropy out.
#include "kernels/cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "kernels/bug.h"

static const int32_t *ids(const struct i32 *p)
{
    return (const int32_t *)p;
}

void cpu_embedding_forward(struct backend *be, struct act *y, const struct i32 *tok,
                           const struct act *w, int64_t N, int C)
{
#pragma omp parallel num_threads(be->threads)
    {
        struct part p = cpu_part(N, 1, omp_get_thread_num(), be->threads);

        for (int64_t n = p.from; n < p.to; n++) {
            BUG_IF(ids(tok)[n] < 0);
            memcpy(fw(y) + n * C, fr(w) + (int64_t)ids(tok)[n] * C, (size_t)C * sizeof(float));
        }
    }
}

// Thread i owns the rows with token % threads == i, and adds to them in the order of the batch.
void cpu_embedding_backward(struct backend *be, struct f32 *dw, const struct act *dy,
                            const struct i32 *tok, int64_t N, int C, int V)
{
#pragma omp parallel num_threads(be->threads)
    {
        int me = omp_get_thread_num();

        for (int64_t n = 0; n < N; n++) {
            int32_t t = ids(tok)[n];
            float *row = fw(dw) + (int64_t)t * C;

            BUG_IF(t < 0 || t >= V);
            if (t % be->threads != me)
                continue;
            for (int64_t c = 0; c < C; c++)
                row[c] += fr(dy)[n * C + c];
        }
    }
}

static float xent_row(float *x, int32_t target, struct xent_dims d, float scale, bool want_grad)
{
    float top = x[0], sum = 0, loss;

    if (target < 0) {
        if (want_grad)
            memset(x, 0, (size_t)d.ld * sizeof *x);
        return 0;
    }
    for (int i = 1; i < d.V; i++)
        top = x[i] > top ? x[i] : top;
    for (int i = 0; i < d.V; i++)
        sum += expf(x[i] - top);
    loss = top - x[target] + logf(sum);
    if (!want_grad)
        return loss;
    for (int i = 0; i < d.V; i++)
        x[i] = scale / sum * expf(x[i] - top);
    x[target] -= scale;
    memset(x + d.V, 0, (size_t)(d.ld - d.V) * sizeof *x);
    return loss;
}

void cpu_softmax_xent(struct backend *be, struct f32 *loss, struct act *logits,
                      const struct i32 *target, struct xent_dims d, double scale, bool want_grad)
{
    BUG_IF(d.V < 1 || d.ld < d.V);
#pragma omp parallel num_threads(be->threads)
    {
        struct part p = cpu_part(d.N, 1, omp_get_thread_num(), be->threads);

        for (int64_t n = p.from; n < p.to; n++) {
            BUG_IF(ids(target)[n] >= d.V);
            fw(loss)[n] =
                xent_row(fw(logits) + n * d.ld, ids(target)[n], d, (float)scale, want_grad);
        }
    }
}
