// Inner loops of the cpu backend, compiled once per instruction set from the same source
// (cpu_vec_body.h, cpu_attn_body.h) and chosen when a backend is opened. They run on one thread,
// take any length and any alignment, and let every NaN through.
#ifndef KERNELS_CPU_VEC_H
#define KERNELS_CPU_VEC_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/backend.h"

struct adamw_floats {
    float b1, c1, b2, c2; // decays of the moments and their complements
    float grad_scale, step, decay, root, eps;
};

// One attention op, arrays as in backend.h; d* are NULL in the forward pass.
struct attn {
    struct attn_dims d;
    const float *q, *k, *v, *kbias, *slopes, *dy;
    float *y, *lse; // only read by the backward pass
    float *dq, *dk, *dv;
};

enum {
    ATTN_QUERIES = 256,     // query rows of one forward unit
    ATTN_MAX_D = 1024,      // head width
    ATTN_SCRATCH = 3 << 18, // floats of scratch a unit may use: enough for ATTN_MAX_D
};

struct cpu_vec {
    const char *name;
    int width; // floats per vector
    bool (*runs_here)(void);

    float (*dot)(const float *x, const float *y, int64_t n);
    double (*sum)(const float *x, int64_t n);
    double (*sum_squares)(const float *x, int64_t n);
    void (*axpy)(float *y, float a, const float *x, int64_t n);
    void (*scale)(float *x, float a, int64_t n);
    void (*exp)(float *y, const float *x, int64_t n); // for tests of the exponential itself

    float (*rmsnorm)(float *y, const float *x, const float *w, int n, float eps); // returns rstd
    // dgain (n) += dy * x * rstd
    void (*rmsnorm_grad)(float *dx, float *dgain, const float *dy, const float *x, const float *w,
                         float rstd, int n, bool acc);
    void (*layernorm)(float *y, float *mean, float *rstd, const float *x, const float *w,
                      const float *b, int n, float eps);
    void (*layernorm_grad)(float *dx, float *dgain, float *dbias, const float *dy, const float *x,
                           const float *w, float mean, float rstd, int n, bool acc);
    void (*rotate)(float *head, const float *cosine, const float *sine, int half, float sign);
    void (*swiglu)(float *y, const float *a, const float *b, int64_t n);
    void (*swiglu_grad)(float *da, float *db, const float *dy, const float *a, const float *b,
                        int64_t n);
    void (*gelu_tanh)(float *y, const float *x, int64_t n);
    void (*gelu_tanh_grad)(float *dx, const float *dy, const float *x, int64_t n);
    void (*gelu_erf)(float *y, const float *x, int64_t n);
    void (*gelu_erf_grad)(float *dx, const float *dy, const float *x, int64_t n);
    void (*residual)(float *y, const float *x, const float *s, float g, int64_t n);
    float (*residual_grad)(float *ds, const float *dy, const float *s, float g, int64_t n);
    // returns the loss; with want_grad x becomes scale * (softmax - onehot)
    float (*xent)(float *x, int target, int n, float scale, bool want_grad);
    void (*adamw)(float *p, float *m, float *v, const float *g, int64_t n,
                  const struct adamw_floats *a);

    // Query rows t0 .. t0 + ATTN_QUERIES of one head.
    void (*attn_forward)(const struct attn *a, int b, int h, int t0, float *scratch);
    // All heads of one key/value group; dkbias* (Tk) assigned: the group's share.
    void (*attn_backward)(const struct attn *a, int b, int g, float *dkbias, float *scratch);
};

// Best first; ends with NULL.
extern const struct cpu_vec *const cpu_vec_tables[];

extern const struct cpu_vec cpu_vec_base;
#if defined(__x86_64__)
extern const struct cpu_vec cpu_vec_avx2, cpu_vec_avx512;
#endif

#endif
