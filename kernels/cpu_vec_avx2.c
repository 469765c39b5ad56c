// Vectors of eight floats with fused multiply-add.
#if defined(__x86_64__)
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cpu_vec.h"

// The whole file is for this instruction set; the table is only used where it runs.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#include <immintrin.h>

#define VEC_WIDTH 8
#define VEC_TABLE cpu_vec_avx2
#define VEC_NAME  "AVX2"

typedef float vf __attribute__((vector_size(32)));
typedef int32_t vi __attribute__((vector_size(32)));

#define VEC_INLINE static inline __attribute__((always_inline, unused))

VEC_INLINE vf splat(float x)
{
    return (vf)_mm256_set1_ps(x);
}
VEC_INLINE vf load(const float *p)
{
    return (vf)_mm256_loadu_ps(p);
}
VEC_INLINE void store(float *p, vf v)
{
    _mm256_storeu_ps(p, (__m256)v);
}
VEC_INLINE __m256i first(int64_t n)
{
    return (__m256i)(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)n),
                                        _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
}
VEC_INLINE vf load_n(const float *p, int64_t n)
{
    return (vf)_mm256_maskload_ps(p, first(n));
}
VEC_INLINE void store_n(float *p, vf v, int64_t n)
{
    _mm256_maskstore_ps(p, first(n), (__m256)v);
}
VEC_INLINE vf fma_(vf a, vf b, vf c)
{
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
VEC_INLINE vf sqrt_(vf x)
{
    return (vf)_mm256_sqrt_ps((__m256)x);
}
VEC_INLINE float hsum(vf x)
{
    __m128 a = _mm_add_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));

    a = _mm_add_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)));
}

// The largest lane; what a NaN does here is not defined, it comes through the exponentials.
VEC_INLINE float hmax(vf x)
{
    __m128 a = _mm_max_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));

    a = _mm_max_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}

static bool runs_here(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

#include "kernels/cpu_vec_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int cpu_vec_avx2_is_for_x86;
#endif
