// Causal attention: hands out heads to threads. The tiles are in cpu_attn_body.h.
#include "kernels/cpu.h"

#include <omp.h>

#include "kernels/bug.h"

// The rest of a part's scratch: shares of dkbias.
enum { SHARE_FLOATS = CPU_SCRATCH_FLOATS - ATTN_SCRATCH };

static void check(struct attn_dims d)
{
    BUG_IF(d.G < 1 || d.H < d.G || d.Tq > d.Tk || d.Tk > SHARE_FLOATS);
    if (d.D < 1 || d.D > ATTN_MAX_D)
        BUG("head width %d, the cpu backend has 1 to %d", d.D, ATTN_MAX_D);
}

void cpu_attention_forward(struct backend *be, struct act *y, struct f32 *lse, const struct act *q,
                           const struct act *k, const struct act *v, const struct f32 *kbias,
                           const struct f32 *slopes, struct attn_dims d)
{
    struct attn a = {.d = d,
                     .q = fr(q),
                     .k = fr(k),
                     .v = fr(v),
                     .kbias = fr(kbias),
                     .slopes = fr(slopes),
                     .y = fw(y),
                     .lse = fw(lse)};
    int64_t chunks = (d.Tq + ATTN_QUERIES - 1) / ATTN_QUERIES;

    check(d);
    CPU_PARTS(be, part)
    {
        struct part p = cpu_part((int64_t)d.B * d.H * chunks, 1, part, be->threads);

        for (int64_t u = p.from; u < p.to; u++)
            cpu_vec(be)->attn_forward(&a, (int)(u / chunks / d.H), (int)(u / chunks % d.H),
                                      (int)(u % chunks) * ATTN_QUERIES, cpu_scratch(be, part));
    }
}

// Where unit `u` of a round leaves its share of dkbias.
static float *share_of(struct backend *be, int64_t u, int Tk)
{
    return cpu_scratch(be, (int)(u % be->threads)) + ATTN_SCRATCH + u / be->threads * Tk;
}

// Units are the groups of all sequences. Their shares of dkbias wait in scratch and are added in
// the order of the units; as many units make a round as there is room for.
void cpu_attention_backward(struct backend *be, struct act *dq, struct act *dk, struct act *dv,
                            struct f32 *dkbias, const struct act *dy, const struct act *y,
                            const struct act *q, const struct act *k, const struct act *v,
                            const struct f32 *lse, const struct f32 *kbias,
                            const struct f32 *slopes, struct attn_dims d)
{
    struct attn a = {.d = d,
                     .q = fr(q),
                     .k = fr(k),
                     .v = fr(v),
                     .kbias = fr(kbias),
                     .slopes = fr(slopes),
                     .dy = fr(dy),
                     .y = fw(y),
                     .lse = fw(lse),
                     .dq = fw(dq),
                     .dk = fw(dk),
                     .dv = fw(dv)};
    int64_t units = (int64_t)d.B * d.G, round = units;

    check(d);
    if (dkbias)
        round = (int64_t)be->threads * (SHARE_FLOATS / d.Tk);
    for (int64_t from = 0; from < units; from += round) {
        int64_t here = from + round < units ? round : units - from;

        CPU_PARTS(be, part)
        {
            struct part p = cpu_part(here, 1, part, be->threads);

            for (int64_t u = p.from; u < p.to; u++)
                cpu_vec(be)->attn_backward(&a, (int)((from + u) / d.G), (int)((from + u) % d.G),
                                           dkbias ? share_of(be, u, d.Tk) : NULL,
                                           cpu_scratch(be, part));
        }
        for (int64_t u = 0; dkbias && u < here; u++)
            cpu_vec(be)->axpy(fw(dkbias) + (from + u) / d.G * d.Tk, 1, share_of(be, u, d.Tk), d.Tk);
    }
}
