#include "kernels/ref.h"

#include <math.h>

void ref_adamw_step(struct backend *be, struct f32 *p, struct act *p_act, struct f32 *m,
                    struct f32 *v, const struct f32 *g, int64_t n, struct adamw a)
{
    (void)be;
    for (int64_t i = 0; i < n; i++) {
        double e = ro(g)[i] * a.grad_scale;

        rw(m)[i] = a.beta1 * ro(m)[i] + (1 - a.beta1) * e;
        rw(v)[i] = a.beta2 * ro(v)[i] + (1 - a.beta2) * e * e;
        rw(p)[i] -= a.lr * (a.weight_decay * ro(p)[i] +
                            ro(m)[i] / a.bias1 / (sqrt(ro(v)[i] / a.bias2) + a.eps));
        if (p_act)
            rw(p_act)[i] = ro(p)[i];
    }
}

void ref_sum_squares(struct backend *be, struct f32 *out, const struct f32 *x, int64_t n)
{
    double sum = 0;

    (void)be;
    for (int64_t i = 0; i < n; i++)
        sum += ro(x)[i] * ro(x)[i];
    rw(out)[0] = sum;
}

void ref_sum(struct backend *be, struct f32 *out, const struct f32 *x, int64_t n)
{
    double sum = 0;

    (void)be;
    for (int64_t i = 0; i < n; i++)
        sum += ro(x)[i];
    rw(out)[0] = sum;
}

void ref_scale(struct backend *be, struct f32 *x, double a, int64_t n)
{
    (void)be;
    for (int64_t i = 0; i < n; i++)
        rw(x)[i] *= a;
}

void ref_axpy(struct backend *be, struct f32 *y, double a, const struct f32 *x, int64_t n)
{
    (void)be;
    for (int64_t i = 0; i < n; i++)
        rw(y)[i] += a * ro(x)[i];
}

void ref_fill(struct backend *be, struct f32 *x, double value, int64_t n)
{
    (void)be;
    for (int64_t i = 0; i < n; i++)
        rw(x)[i] = value;
}

void ref_add_act(struct backend *be, struct act *y, const struct act *x, int64_t n)
{
    (void)be;
    for (int64_t i = 0; i < n; i++)
        rw(y)[i] += ro(x)[i];
}

void ref_cast_to_act(struct backend *be, struct act *y, const struct f32 *x, int64_t n)
{
    (void)be;
    for (int64_t i = 0; i < n; i++)
        rw(y)[i] = ro(x)[i];
}

void ref_cast_to_f32(struct backend *be, struct f32 *y, const struct act *x, int64_t n)
{
    (void)be;
    for (int64_t i = 0; i < n; i++)
        rw(y)[i] = ro(x)[i];
}

void ref_copy_act(struct backend *be, struct act *y, const struct act *x, int64_t n)
{
    (void)be;
    for (int64_t i = 0; i < n; i++)
        rw(y)[i] = ro(x)[i];
}
