// Matrix products over oneDNN's sgemm, or CBLAS where oneDNN is missing.
#include "kernels/cpu.h"

#include <omp.h>
#include <string.h>

#include <cblas.h>

#include "kernels/bug.h"

#if HAVE_DNNL
#include <dnnl.h>
#endif

// C (M,N) = op(A) . op(B) + beta * C, row-major; op is the transpose where the letter is 'T'.
static void sgemm(char ta, char tb, int64_t M, int64_t N, int64_t K, const float *A, int64_t lda,
                  const float *B, int64_t ldb, float beta, float *C, int64_t ldc)
{
#if HAVE_DNNL
    if (dnnl_sgemm(ta, tb, M, N, K, 1.0f, A, lda, B, ldb, beta, C, ldc) != dnnl_success)
        BUG("sgemm %c%c %ld x %ld x %ld failed", ta, tb, (long)M, (long)N, (long)K);
#else
    cblas_sgemm(CblasRowMajor, ta == 'T' ? CblasTrans : CblasNoTrans,
                tb == 'T' ? CblasTrans : CblasNoTrans, (blasint)M, (blasint)N, (blasint)K, 1.0f, A,
                (blasint)lda, B, (blasint)ldb, beta, C, (blasint)ldc);
#endif
}

static void copy_bias_to_rows(struct backend *be, float *y, const float *b, struct linear_dims d)
{
    CPU_PARTS(be, part)
    {
        struct part p = cpu_part(d.N, 1, part, be->threads);

        for (int64_t n = p.from; n < p.to; n++)
            memcpy(y + n * d.O, b, (size_t)d.O * sizeof *b);
    }
}

void cpu_linear_forward(struct backend *be, struct act *y, const struct act *x, const struct act *w,
                        const struct act *b, struct linear_dims d)
{
    if (d.N < 1)
        return;
    cpu_bind(be);
    if (b)
        copy_bias_to_rows(be, fw(y), fr(b), d);
    sgemm('N', 'T', d.N, d.O, d.C, fr(x), d.C, fr(w), d.C, b ? 1.0f : 0.0f, fw(y), d.O);
}

// db (O) += column sums of dy: every part owns columns, so the order of the sum is that of the
// rows whatever the thread count is.
static void add_column_sums(struct backend *be, float *db, const float *dy, struct linear_dims d)
{
    CPU_PARTS(be, part)
    {
        struct part p = cpu_part(d.O, 16, part, be->threads);

        for (int64_t n = 0; n < d.N; n++)
            cpu_vec(be)->axpy(db + p.from, 1, dy + n * d.O + p.from, p.to - p.from);
    }
}

void cpu_linear_backward(struct backend *be, struct act *dx, struct f32 *dw, struct f32 *db,
                         const struct act *dy, const struct act *x, const struct act *w,
                         struct linear_dims d, bool acc)
{
    if (d.N < 1)
        return;
    cpu_bind(be);
    if (dx)
        sgemm('N', 'N', d.N, d.C, d.O, fr(dy), d.O, fr(w), d.C, acc ? 1.0f : 0.0f, fw(dx), d.C);
    if (dw)
        sgemm('T', 'N', d.O, d.C, d.N, fr(dy), d.O, fr(x), d.C, 1.0f, fw(dw), d.C);
    if (db)
        add_column_sums(be, fw(db), fr(dy), d);
}
