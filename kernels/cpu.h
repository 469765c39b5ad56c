// Inside of the cpu backend: what its files share. act and f32 are float.
//
// Threads: every op opens at most a few OpenMP regions of be->threads threads and cuts its work
// into be->threads contiguous parts (cpu_part), so a result depends on the thread count only.
// Scratch: a block per part (cpu_scratch), never read before it is written.
// Inner loops: cpu_vec.h, the widest the processor has.
#ifndef KERNELS_CPU_H
#define KERNELS_CPU_H

#include "kernels/backend.h"
#include "kernels/cpu_vec.h"
#include "kernels/oplist.h"

struct backend *cpu_open(int threads, char *why, size_t why_size);

// Cores this process may run on, at most OMP_NUM_THREADS where that is set.
int cpu_default_threads(void);

// Fills all scratch with NaN; tests show that no result changes.
void cpu_poison_scratch(struct backend *be);

enum { CPU_SCRATCH_FLOATS = 1 << 20 }; // per part

struct cpu {
    float *scratch; // (threads, CPU_SCRATCH_FLOATS)
    const struct cpu_vec *vec;
};

static inline float *cpu_scratch(const struct backend *be, int part)
{
    return ((const struct cpu *)be->state)->scratch + (size_t)part * CPU_SCRATCH_FLOATS;
}
static inline const struct cpu_vec *cpu_vec(const struct backend *be)
{
    return ((const struct cpu *)be->state)->vec;
}

// Runs the statement that follows once for each part number 0 .. be->threads-1, in parallel. Right
// even where the OpenMP runtime grants fewer threads.
#define CPU_PARTS(be, part)                                                                        \
    _Pragma("omp parallel num_threads((be)->threads)") for (int part = omp_get_thread_num();       \
                                                            part < (be)->threads;                  \
                                                            part += omp_get_num_threads())

// Makes the calling thread's OpenMP and the BLAS use be->threads. Cheap when it already holds.
void cpu_bind(const struct backend *be);

struct part {
    int64_t from, to;
};

// Part `i` of `parts` nearly equal parts of [0, n), cut at multiples of `grain`.
static inline struct part cpu_part(int64_t n, int64_t grain, int i, int parts)
{
    int64_t blocks = (n + grain - 1) / grain, base = blocks / parts, rest = blocks % parts;
    int64_t from = base * i + (i < rest ? i : rest), to = from + base + (i < rest);

    return (struct part){from * grain < n ? from * grain : n, to * grain < n ? to * grain : n};
}

// dst (n) += the `n` scratch floats from `offset` of every part, in their order.
void cpu_add_partials(const struct backend *be, float *dst, int64_t offset, int64_t n);

#define CPU_OP(op) extern __typeof__(*((struct ops *)0)->op) cpu_##op;
COMPUTE_OPS(CPU_OP)
#undef CPU_OP

static inline float *fw(const void *p)
{
    return (float *)(uintptr_t)p;
}
static inline const float *fr(const void *p)
{
    return (const float *)p;
}

#endif
