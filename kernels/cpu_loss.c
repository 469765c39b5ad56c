// Both ends of the model: token rows in, cross-entropy out.
#include "kernels/cpu.h"

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
    CPU_PARTS(be, part)
    {
        struct part p = cpu_part(N, 1, part, be->threads);

        for (int64_t n = p.from; n < p.to; n++) {
            BUG_IF(ids(tok)[n] < 0);
            memcpy(fw(y) + n * C, fr(w) + (int64_t)ids(tok)[n] * C, (size_t)C * sizeof(float));
        }
    }
}

// Part i owns the rows with token % threads == i, and adds to them in the order of the batch.
void cpu_embedding_backward(struct backend *be, struct f32 *dw, const struct act *dy,
                            const struct i32 *tok, int64_t N, int C, int V)
{
    CPU_PARTS(be, part)
    {
        for (int64_t n = 0; n < N; n++) {
            int32_t t = ids(tok)[n];
            float *row = fw(dw) + (int64_t)t * C;

            BUG_IF(t < 0 || t >= V);
            if (t % be->threads != part)
                continue;
            cpu_vec(be)->axpy(row, 1, fr(dy) + n * C, C);
        }
    }
}

void cpu_softmax_xent(struct backend *be, struct f32 *loss, struct act *logits,
                      const struct i32 *target, struct xent_dims d, double scale, bool want_grad)
{
    BUG_IF(d.V < 1 || d.ld < d.V);
    CPU_PARTS(be, part)
    {
        struct part p = cpu_part(d.N, 1, part, be->threads);

        for (int64_t n = p.from; n < p.to; n++) {
            float *x = fw(logits) + n * d.ld;
            int32_t t = ids(target)[n];
            int64_t used = t < 0 ? 0 : d.V; // an ignored row has no gradient at all

            BUG_IF(t >= d.V);
            fw(loss)[n] = t < 0 ? 0 : cpu_vec(be)->xent(x, t, d.V, (float)scale, want_grad);
            if (want_grad)
                memset(x + used, 0, (size_t)(d.ld - used) * sizeof *x);
        }
    }
}
