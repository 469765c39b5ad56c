#include "kernels/cpu.h"

#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cblas.h>

#include "kernels/bug.h"

#if HAVE_DNNL
#include <dnnl.h>
#endif

enum { ALIGN = 64, HUGE_PAGE = 2 << 20 };

const struct cpu_vec *const cpu_vec_tables[] = {
#if defined(__x86_64__)
    &cpu_vec_avx512,
    &cpu_vec_avx2,
#endif
    &cpu_vec_base,
    NULL,
};

static void *aligned_block(size_t bytes)
{
    size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : ALIGN;
    size_t size = bytes ? (bytes + align - 1) / align * align : align;
    void *p;

    if (size < bytes)
        return NULL;
    p = aligned_alloc(align, size);
    if (p && align == HUGE_PAGE)
        madvise(p, size, MADV_HUGEPAGE); // only a hint
    return p;
}

static void *cpu_alloc(struct backend *be, size_t bytes)
{
    void *p = aligned_block(bytes);

    (void)be;
    if (p)
        memset(p, 0, bytes);
    return p;
}

static void cpu_release(struct backend *be, void *p)
{
    (void)be;
    free(p);
}

static void cpu_upload(struct backend *be, struct f32 *dst, const float *src, int64_t n)
{
    (void)be;
    if (n > 0)
        memcpy(dst, src, (size_t)n * sizeof *src);
}

static void cpu_download(struct backend *be, float *dst, const struct f32 *src, int64_t n)
{
    (void)be;
    if (n > 0)
        memcpy(dst, src, (size_t)n * sizeof *dst);
}

static void cpu_upload_f64(struct backend *be, struct f32 *dst, const double *src, int64_t n)
{
    (void)be;
    for (int64_t i = 0; i < n; i++)
        fw(dst)[i] = (float)src[i];
}

static void cpu_download_f64(struct backend *be, double *dst, const struct f32 *src, int64_t n)
{
    (void)be;
    for (int64_t i = 0; i < n; i++)
        dst[i] = fr(src)[i];
}

static void cpu_upload_i32(struct backend *be, struct i32 *dst, const int32_t *src, int64_t n)
{
    (void)be;
    if (n > 0)
        memcpy(dst, src, (size_t)n * sizeof *src);
}

// All scratch is the per-thread blocks, which exist from the start; the ops cut their work so that
// it fits.
static void cpu_reserve(struct backend *be, size_t bytes)
{
    (void)be;
    (void)bytes;
}

static int cpu_sync(struct backend *be, char *why, size_t why_size)
{
    (void)be;
    if (why && why_size)
        why[0] = '\0';
    return 0;
}

static void cpu_close(struct backend *be)
{
    struct cpu *cpu = be->state;

    free(cpu->scratch);
    free(cpu);
    free(be);
}

void cpu_poison_scratch(struct backend *be)
{
    for (int t = 0; t < be->threads; t++)
        for (int64_t i = 0; i < CPU_SCRATCH_FLOATS; i++)
            cpu_scratch(be, t)[i] = NAN;
}

void cpu_add_partials(const struct backend *be, float *dst, int64_t offset, int64_t n)
{
    for (int t = 0; t < be->threads; t++)
        cpu_vec(be)->axpy(dst, 1, cpu_scratch(be, t) + offset, n);
}

int cpu_default_threads(void)
{
    const char *limit = getenv("OMP_NUM_THREADS");
    int cores, wanted = limit ? atoi(limit) : 0;
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) == 0)
        cores = CPU_COUNT(&set);
    else
        cores = omp_get_num_procs(); // more cores than cpu_set_t can name
    return wanted > 0 && wanted < cores ? wanted : cores;
}

// OpenMP keeps its thread count per calling thread, and the thread that drives a backend need not
// be the one that opened it.
void cpu_bind(const struct backend *be)
{
    static _Thread_local int bound;

    if (bound == be->threads && omp_get_max_threads() == bound)
        return;
    omp_set_dynamic(0);
    omp_set_num_threads(be->threads);
#if !HAVE_DNNL
    openblas_set_num_threads(be->threads);
#endif
    bound = be->threads;
}

const char *backend_gemm_library(void)
{
#if HAVE_DNNL
    static char name[64];
    const dnnl_version_t *v = dnnl_version();

    snprintf(name, sizeof name, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    return name;
#else
    return "OpenBLAS";
#endif
}

#define SLOT(op) .op = cpu_##op,
static const struct ops cpu_ops = {ALL_OPS(SLOT)};
#undef SLOT

struct backend *cpu_open(int threads, char *why, size_t why_size)
{
    struct backend *be = calloc(1, sizeof *be);
    struct cpu *cpu = calloc(1, sizeof *cpu);

    if (!be || !cpu)
        goto fail;
    be->name = "cpu";
    be->act_size = be->f32_size = sizeof(float);
    be->act_is_f32 = true;
    be->threads = threads ? threads : cpu_default_threads();
    be->op = &cpu_ops;
    be->state = cpu;
    for (int i = 0; !cpu->vec; i++)
        if (cpu_vec_tables[i]->runs_here())
            cpu->vec = cpu_vec_tables[i];
    cpu->scratch = aligned_block((size_t)be->threads * CPU_SCRATCH_FLOATS * sizeof(float));
    if (!cpu->scratch)
        goto fail;
    return be;
fail:
    snprintf(why, why_size, "no memory for the scratch of the cpu backend");
    free(cpu);
    free(be);
    return NULL;
}
