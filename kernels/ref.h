// The reference backend: every op in double, in the plainest loops that can be read against the
// formulas in backend.h. act and f32 are both stored as double. It shares no code with the cpu
// backend, runs on one thread and is slow; tests compare the others with it.
#ifndef KERNELS_REF_H
#define KERNELS_REF_H

#include "kernels/backend.h"
#include "kernels/oplist.h"

struct backend *ref_open(int threads, char *why, size_t why_size);

// The ops, split over ref_*.c; ref.c puts them into the table.
#define REF_OP(op) extern __typeof__(*((struct ops *)0)->op) ref_##op;
COMPUTE_OPS(REF_OP)
#undef REF_OP

// Elements of both kinds are doubles here.
static inline double *rw(const void *p)
{
    return (double *)(uintptr_t)p;
}
static inline const double *ro(const void *p)
{
    return (const double *)p;
}
static inline const int32_t *ids(const struct i32 *p)
{
    return (const int32_t *)p;
}

#endif
