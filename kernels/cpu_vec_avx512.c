// Vectors of sixteen floats.
#if defined(__x86_64__)
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cpu_vec.h"

// The whole file is for this instruction set; the table is only used where it runs.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx2,fma"))),                 \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512dq,avx2,fma")
#endif
#include <immintrin.h>

#define VEC_WIDTH 16
#define VEC_TABLE cpu_vec_avx512
#define VEC_NAME  "AVX-512"

typedef float vf __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));

#define VEC_INLINE static inline __attribute__((always_inline, unused))

VEC_INLINE vf splat(float x)
{
    return (vf)_mm512_set1_ps(x);
}
VEC_INLINE vf load(const float *p)
{
    return (vf)_mm512_loadu_ps(p);
}
VEC_INLINE void store(float *p, vf v)
{
    _mm512_storeu_ps(p, (__m512)v);
}
VEC_INLINE vf load_n(const float *p, int64_t n)
{
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}
VEC_INLINE void store_n(float *p, vf v, int64_t n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
}
VEC_INLINE vf fma_(vf a, vf b, vf c)
{
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
VEC_INLINE vf sqrt_(vf x)
{
    return (vf)_mm512_sqrt_ps((__m512)x);
}
VEC_INLINE float hsum(vf x)
{
    return _mm512_reduce_add_ps((__m512)x);
}

// The largest lane; what a NaN does here is not defined, it comes through the exponentials.
VEC_INLINE float hmax(vf x)
{
    return _mm512_reduce_max_ps((__m512)x);
}

static bool runs_here(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

#include "kernels/cpu_vec_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int cpu_vec_avx512_is_for_x86;
#endif
