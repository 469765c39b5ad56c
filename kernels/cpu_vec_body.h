// Included by cpu_vec_*.c, which define the vector type, its loads and stores, and VEC_* names.
// Not a header of its own.
#ifdef VEC_WIDTH

#include "kernels/cpu_vec.h"

enum { W = VEC_WIDTH };

typedef uint32_t vu __attribute__((vector_size(4 * W)));

VEC_INLINE vf zero(void)
{
    return splat(0);
}

// The mask of a comparison picks a where it is true.
VEC_INLINE vf pick(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

static const float lane_numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

VEC_INLINE vf lanes(void)
{
    return load(lane_numbers);
}

// The first n lanes of x, `other` in the rest; n may be negative or more than W.
VEC_INLINE vf first_lanes(vf x, int64_t n, float other)
{
    return pick(lanes() < splat((float)n), x, splat(other));
}

// The larger; b where one of them is NaN.
VEC_INLINE vf max_(vf a, vf b)
{
    return pick(a > b, a, b);
}

// exp to about 1 ulp (coefficients of Cephes): n = round(x / ln 2), a polynomial on the rest, times
// 2^n. Below -87.33 the result is 0, above 88.37 infinity; NaN stays NaN.
VEC_INLINE vf exp_(vf x)
{
    vf magic = splat(12582912.0f), z = fma_(x, splat(1.44269504088896341f), magic);
    vf n = z - magic, r = fma_(n, splat(-0.693359375f), x), p = splat(1.9875691500e-4f);
    vf power = (vf)(((vu)z << 23) + 0x3f800000u);

    r = fma_(n, splat(2.12194440e-4f), r);
    p = fma_(p, r, splat(1.3981999507e-3f));
    p = fma_(p, r, splat(8.3334519073e-3f));
    p = fma_(p, r, splat(4.1665795894e-2f));
    p = fma_(p, r, splat(1.6666665459e-1f));
    p = fma_(p, r, splat(5.0000001201e-1f));
    p = fma_(p, r * r, r) + 1.0f;
    p = p * power;
    p = pick(x < splat(-87.33f), zero(), p);
    return pick(x > splat(88.37f), splat(INFINITY), p);
}

VEC_INLINE vf sigmoid_(vf x)
{
    return 1.0f / (1.0f + exp_(-x));
}

// Runs its second argument for i = 0, W, 2W, ...; in it LOAD and STORE reach n - i elements where fewer than W are
// left, and lanes beyond the end hold 0.
#define LOAD(p)     (left >= W ? load((p) + i) : load_n((p) + i, left))
#define STORE(p, v) (left >= W ? store((p) + i, v) : store_n((p) + i, v, left))
#define EACH(n, ...)                                                                               \
    do {                                                                                           \
        int64_t i = 0, left = W;                                                                   \
        for (; i + W <= (n); i += W) {                                                             \
            __VA_ARGS__                                                                            \
        }                                                                                          \
        left = (n)-i;                                                                              \
        if (left > 0) {                                                                            \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    } while (0)

static float vec_dot(const float *x, const float *y, int64_t n)
{
    vf a = zero(), b = zero();
    int64_t j = 0;

    for (; j + 2 * W <= n; j += 2 * W) {
        a = fma_(load(x + j), load(y + j), a);
        b = fma_(load(x + j + W), load(y + j + W), b);
    }
    EACH(n - j, a = fma_(LOAD(x + j), LOAD(y + j), a););
    return hsum(a + b);
}

// Sums in double over lanes of float partial sums of at most 16 vectors.
static double vec_sum(const float *x, int64_t n)
{
    double total = 0;

    for (int64_t at = 0; at < n; at += 16 * W) {
        int64_t here = n - at < 16 * W ? n - at : 16 * W;
        vf a = zero();

        EACH(here, a += LOAD(x + at););
        for (int lane = 0; lane < W; lane++)
            total += a[lane];
    }
    return total;
}

static double vec_sum_squares(const float *x, int64_t n)
{
    double total = 0;

    for (int64_t at = 0; at < n; at += 16 * W) {
        int64_t here = n - at < 16 * W ? n - at : 16 * W;

        total += vec_dot(x + at, x + at, here);
    }
    return total;
}

static void vec_axpy(float *y, float a, const float *x, int64_t n)
{
    vf av = splat(a);

    EACH(n, STORE(y, fma_(av, LOAD(x), LOAD(y))););
}

static void vec_scale(float *x, float a, int64_t n)
{
    EACH(n, STORE(x, LOAD(x) * a););
}

static void vec_exp(float *y, const float *x, int64_t n)
{
    EACH(n, STORE(y, exp_(LOAD(x))););
}

static float vec_rmsnorm(float *y, const float *x, const float *w, int n, float eps)
{
    float rstd = 1 / sqrtf(vec_dot(x, x, n) / (float)n + eps);
    vf s = splat(rstd);

    EACH(n, STORE(y, LOAD(w) * (LOAD(x) * s)););
    return rstd;
}

static void vec_rmsnorm_grad(float *dx, float *dgain, const float *dy, const float *x,
                             const float *w, float rstd, int n, bool acc)
{
    vf dots = zero(), s = splat(rstd), mean;

    EACH(n, dots = fma_(LOAD(w) * LOAD(dy), LOAD(x), dots););
    mean = splat(hsum(dots) * rstd * rstd / (float)n);
    EACH(n, {
        vf e = LOAD(dy);
        vf in = LOAD(x);
        vf old = acc ? LOAD(dx) : zero();

        STORE(dgain, fma_(e, in * s, LOAD(dgain)));
        STORE(dx, fma_(s, LOAD(w) * e - in * mean, old));
    });
}

static void vec_layernorm(float *y, float *mean, float *rstd, const float *x, const float *w,
                          const float *b, int n, float eps)
{
    vf sum = zero(), var = zero(), m, s;

    EACH(n, sum += LOAD(x););
    *mean = hsum(sum) / (float)n;
    m = splat(*mean);
    EACH(n, {
        vf d = first_lanes(LOAD(x) - m, left, 0); // lanes beyond the end must not count

        var = fma_(d, d, var);
    });
    *rstd = 1 / sqrtf(hsum(var) / (float)n + eps);
    s = splat(*rstd);
    EACH(n, {
        vf bias = b ? LOAD(b) : zero();

        STORE(y, fma_(LOAD(w), (LOAD(x) - m) * s, bias));
    });
}

static void vec_layernorm_grad(float *dx, float *dgain, float *dbias, const float *dy,
                               const float *x, const float *w, float mean, float rstd, int n,
                               bool acc)
{
    vf m = splat(mean), s = splat(rstd), e_sum = zero(), dot_sum = zero(), e_mean, dot;

    EACH(n, {
        vf e = LOAD(w) * LOAD(dy);

        e_sum += e;
        dot_sum = fma_(e, (LOAD(x) - m) * s, dot_sum);
    });
    e_mean = splat(hsum(e_sum) / (float)n);
    dot = splat(hsum(dot_sum) / (float)n);
    EACH(n, {
        vf e = LOAD(dy);
        vf xhat = (LOAD(x) - m) * s;
        vf old = acc ? LOAD(dx) : zero();

        STORE(dgain, fma_(e, xhat, LOAD(dgain)));
        STORE(dbias, LOAD(dbias) + e);
        STORE(dx, fma_(s, LOAD(w) * e - e_mean - xhat * dot, old));
    });
}

static void vec_rotate(float *head, const float *cosine, const float *sine, int half, float sign)
{
    float *other = head + half;
    vf sg = splat(sign);

    EACH(half, {
        vf a = LOAD(head);
        vf b = LOAD(other);
        vf c = LOAD(cosine);
        vf s = LOAD(sine) * sg;

        STORE(head, a * c - b * s);
        STORE(other, fma_(a, s, b * c));
    });
}

static void vec_swiglu(float *y, const float *a, const float *b, int64_t n)
{
    EACH(n, {
        vf x = LOAD(a);

        STORE(y, x * sigmoid_(x) * LOAD(b));
    });
}

static void vec_swiglu_grad(float *da, float *db, const float *dy, const float *a, const float *b,
                            int64_t n)
{
    EACH(n, {
        vf x = LOAD(a);
        vf g = LOAD(dy);
        vf s = sigmoid_(x);
        vf up = LOAD(b);

        STORE(da, g * up * s * fma_(x, 1.0f - s, splat(1)));
        STORE(db, g * x * s);
    });
}

// tanh(u) for u = sqrt(2/pi) (x + 0.044715 x^3), as 1 - 2 / (1 + exp(2u)), which keeps its absolute
// precision and saturates at both ends.
VEC_INLINE vf gelu_inner(vf x)
{
    vf u = 0.79788456080286536f * fma_(0.044715f * x * x, x, x);

    return 1.0f - 2.0f / (1.0f + exp_(u + u));
}

static void vec_gelu_tanh(float *y, const float *x, int64_t n)
{
    EACH(n, {
        vf in = LOAD(x);

        STORE(y, 0.5f * in * (1.0f + gelu_inner(in)));
    });
}

static void vec_gelu_tanh_grad(float *dx, const float *dy, const float *x, int64_t n)
{
    EACH(n, {
        vf in = LOAD(x);
        vf t = gelu_inner(in);
        vf du = 0.79788456080286536f * fma_(splat(3 * 0.044715f), in * in, splat(1));
        vf slope = 0.5f * (1.0f + t) + 0.5f * in * (1.0f - t * t) * du;

        STORE(dx, LOAD(dy) * slope);
    });
}

// erf to about 1 ulp (N. Juffa's polynomials): a series near 0, 1 - exp(polynomial) beyond 0.93.
VEC_INLINE vf erf_(vf x)
{
    vf s = x * x, t = pick(x < zero(), -x, x), far_, near_, u;

    far_ = fma_(splat(-1.72853470e-5f), t, splat(3.83197126e-4f));
    u = fma_(splat(-3.88396438e-3f), t, splat(2.42546219e-2f));
    far_ = fma_(far_, s, u);
    far_ = fma_(far_, t, splat(-1.06777877e-1f));
    far_ = fma_(far_, t, splat(-6.34846687e-1f));
    far_ = fma_(far_, t, splat(-1.28717512e-1f));
    far_ = 1.0f - exp_(fma_(far_, t, -t));
    far_ = pick(t > splat(4), splat(1), far_); // where the polynomial turns back
    far_ = pick(x < zero(), -far_, far_);
    near_ = fma_(splat(-5.96761703e-4f), s, splat(4.99119423e-3f));
    near_ = fma_(near_, s, splat(-2.67681349e-2f));
    near_ = fma_(near_, s, splat(1.12819925e-1f));
    near_ = fma_(near_, s, splat(-3.76125336e-1f));
    near_ = fma_(near_, s, splat(1.28379166e-1f));
    near_ = fma_(near_, x, x);
    return pick(t > splat(0.927734375f), far_, near_); // NaN takes near_
}

static void vec_gelu_erf(float *y, const float *x, int64_t n)
{
    EACH(n, {
        vf in = LOAD(x);

        STORE(y, 0.5f * in * (1.0f + erf_(in * 0.70710678118654752f)));
    });
}

static void vec_gelu_erf_grad(float *dx, const float *dy, const float *x, int64_t n)
{
    EACH(n, {
        vf in = LOAD(x);
        vf density = 0.39894228040143268f * exp_(-0.5f * in * in);
        vf mass = 0.5f * (1.0f + erf_(in * 0.70710678118654752f));

        STORE(dx, LOAD(dy) * fma_(in, density, mass));
    });
}

static void vec_residual(float *y, const float *x, const float *s, float g, int64_t n)
{
    vf gv = splat(g);

    EACH(n, STORE(y, fma_(gv, LOAD(s), LOAD(x))););
}

static float vec_residual_grad(float *ds, const float *dy, const float *s, float g, int64_t n)
{
    vf dot = zero(), gv = splat(g);

    EACH(n, {
        vf e = LOAD(dy);

        dot = fma_(e, LOAD(s), dot);
        STORE(ds, gv * e);
    });
    return hsum(dot);
}

static float row_max(const float *x, int n)
{
    vf top = splat(x[0]);
    int64_t i = 0;
    float m;

    for (; i + W <= n; i += W)
        top = max_(load(x + i), top);
    m = hmax(top);
    for (; i < n; i++)
        m = x[i] > m ? x[i] : m;
    return m;
}

// Lanes beyond the end would add exp(-top).
static float vec_xent(float *x, int target, int n, float scale, bool want_grad)
{
    float top = row_max(x, n), hit = x[target], total;
    vf t = splat(top), sum = zero();

    EACH(n, {
        vf e = first_lanes(exp_(LOAD(x) - t), left, 0);

        sum += e;
        if (want_grad)
            STORE(x, e);
    });
    total = hsum(sum);
    if (want_grad) {
        vec_scale(x, scale / total, n);
        x[target] -= scale;
    }
    return logf(total) - (hit - top);
}

static void vec_adamw(float *p, float *m, float *v, const float *g, int64_t n,
                      const struct adamw_floats *a)
{
    vf b1 = splat(a->b1), c1 = splat(a->c1), b2 = splat(a->b2), c2 = splat(a->c2);
    vf gs = splat(a->grad_scale), step = splat(a->step), root = splat(a->root);
    vf eps = splat(a->eps), decay = splat(a->decay);

    EACH(n, {
        vf e = LOAD(g) * gs;
        vf pi = LOAD(p);
        vf mi = fma_(b1, LOAD(m), c1 * e);
        vf vv = fma_(b2, LOAD(v), c2 * (e * e));

        STORE(m, mi);
        STORE(v, vv);
        STORE(p, pi - fma_(decay, pi, step * mi / fma_(sqrt_(vv), root, eps)));
    });
}

#include "kernels/cpu_attn_body.h"

const struct cpu_vec VEC_TABLE = {
    .name = VEC_NAME,
    .width = W,
    .runs_here = runs_here,
    .dot = vec_dot,
    .sum = vec_sum,
    .sum_squares = vec_sum_squares,
    .axpy = vec_axpy,
    .scale = vec_scale,
    .exp = vec_exp,
    .rmsnorm = vec_rmsnorm,
    .rmsnorm_grad = vec_rmsnorm_grad,
    .layernorm = vec_layernorm,
    .layernorm_grad = vec_layernorm_grad,
    .rotate = vec_rotate,
    .swiglu = vec_swiglu,
    .swiglu_grad = vec_swiglu_grad,
    .gelu_tanh = vec_gelu_tanh,
    .gelu_tanh_grad = vec_gelu_tanh_grad,
    .gelu_erf = vec_gelu_erf,
    .gelu_erf_grad = vec_gelu_erf_grad,
    .residual = vec_residual,
    .residual_grad = vec_residual_grad,
    .xent = vec_xent,
    .adamw = vec_adamw,
    .attn_forward = vec_attn_forward,
    .attn_backward = vec_attn_backward,
};

#endif
