#include "kernels/ref.h"

void ref_linear_forward(struct backend *be, struct act *y, const struct act *x, const struct act *w,
                        const struct act *b, struct linear_dims d)
{
    (void)be;
    for (int64_t n = 0; n < d.N; n++) {
        for (int64_t o = 0; o < d.O; o++) {
            double sum = b ? ro(b)[o] : 0;

            for (int64_t c = 0; c < d.C; c++)
                sum += ro(x)[n * d.C + c] * ro(w)[o * d.C + c];
            rw(y)[n * d.O + o] = sum;
        }
    }
}

static void gradient_of_input(struct act *dx, const struct act *dy, const struct act *w,
                              struct linear_dims d, bool acc)
{
    for (int64_t n = 0; n < d.N; n++) {
        for (int64_t c = 0; c < d.C; c++) {
            double sum = acc ? ro(dx)[n * d.C + c] : 0;

            for (int64_t o = 0; o < d.O; o++)
                sum += ro(dy)[n * d.O + o] * ro(w)[o * d.C + c];
            rw(dx)[n * d.C + c] = sum;
        }
    }
}

void ref_linear_backward(struct backend *be, struct act *dx, struct f32 *dw, struct f32 *db,
                         const struct act *dy, const struct act *x, const struct act *w,
                         struct linear_dims d, bool acc)
{
    (void)be;
    for (int64_t n = 0; n < d.N; n++) {
        for (int64_t o = 0; o < d.O; o++) {
            if (db)
                rw(db)[o] += ro(dy)[n * d.O + o];
            for (int64_t c = 0; dw && c < d.C; c++)
                rw(dw)[o * d.C + c] += ro(dy)[n * d.O + o] * ro(x)[n * d.C + c];
        }
    }
    if (dx)
        gradient_of_input(dx, dy, w, d, acc);
}
