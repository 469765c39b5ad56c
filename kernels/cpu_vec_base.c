// Vectors of four floats: SSE2 on x86-64, NEON on arm64, whatever the compiler makes elsewhere.
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define VEC_WIDTH 4
#define VEC_TABLE cpu_vec_base
#define VEC_NAME  "4 floats"

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));

#define VEC_INLINE static inline __attribute__((always_inline, unused))

VEC_INLINE vf splat(float x)
{
    return (vf){x, x, x, x};
}
VEC_INLINE vf load(const float *p)
{
    vf v;

    memcpy(&v, p, sizeof v);
    return v;
}
VEC_INLINE void store(float *p, vf v)
{
    memcpy(p, &v, sizeof v);
}
VEC_INLINE vf load_n(const float *p, int64_t n)
{
    vf v = splat(0);

    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
}
VEC_INLINE void store_n(float *p, vf v, int64_t n)
{
    memcpy(p, &v, (size_t)n * sizeof *p);
}
VEC_INLINE vf fma_(vf a, vf b, vf c)
{
    return a * b + c;
}
VEC_INLINE vf sqrt_(vf x)
{
    return (vf){sqrtf(x[0]), sqrtf(x[1]), sqrtf(x[2]), sqrtf(x[3])};
}
VEC_INLINE float hsum(vf x)
{
    return (x[0] + x[2]) + (x[1] + x[3]);
}

// The largest lane; what a NaN does here is not defined, it comes through the exponentials.
VEC_INLINE float hmax(vf x)
{
    float a = x[0] > x[2] ? x[0] : x[2], b = x[1] > x[3] ? x[1] : x[3];

    return a > b ? a : b;
}

static bool runs_here(void)
{
    return true;
}

#include "kernels/cpu_vec_body.h"
