#include "kernels/ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *ref_alloc(struct backend *be, size_t bytes)
{
    size_t size = (bytes + 63) / 64 * 64;
    void *p;

    (void)be;
    if (size < bytes)
        return NULL;
    p = aligned_alloc(64, size ? size : 64);
    if (p)
        memset(p, 0, size ? size : 64);
    return p;
}

static void ref_release(struct backend *be, void *p)
{
    (void)be;
    free(p);
}

static void ref_upload(struct backend *be, struct f32 *dst, const float *src, int64_t n)
{
    (void)be;
    for (int64_t i = 0; i < n; i++)
        rw(dst)[i] = src[i];
}

static void ref_download(struct backend *be, float *dst, const struct f32 *src, int64_t n)
{
    (void)be;
    for (int64_t i = 0; i < n; i++)
        dst[i] = (float)ro(src)[i];
}

static void ref_upload_f64(struct backend *be, struct f32 *dst, const double *src, int64_t n)
{
    (void)be;
    for (int64_t i = 0; i < n; i++)
        rw(dst)[i] = src[i];
}

static void ref_download_f64(struct backend *be, double *dst, const struct f32 *src, int64_t n)
{
    (void)be;
    for (int64_t i = 0; i < n; i++)
        dst[i] = ro(src)[i];
}

static void ref_upload_i32(struct backend *be, struct i32 *dst, const int32_t *src, int64_t n)
{
    (void)be;
    if (n > 0)
        memcpy(dst, src, (size_t)n * sizeof *src);
}

// The reference takes what it needs from the heap.
static void ref_reserve(struct backend *be, size_t bytes)
{
    (void)be;
    (void)bytes;
}

static int ref_sync(struct backend *be, char *why, size_t why_size)
{
    (void)be;
    if (why && why_size)
        why[0] = '\0';
    return 0;
}

static void ref_close(struct backend *be)
{
    free(be);
}

#define SLOT(op) .op = ref_##op,
static const struct ops ref_ops = {ALL_OPS(SLOT)};
#undef SLOT

struct backend *ref_open(int threads, char *why, size_t why_size)
{
    struct backend *be = calloc(1, sizeof *be);

    (void)threads;
    if (!be) {
        snprintf(why, why_size, "no memory for the reference backend");
        return NULL;
    }
    be->name = "ref";
    be->act_size = be->f32_size = sizeof(double);
    be->act_is_f32 = true;
    be->threads = 1;
    be->op = &ref_ops;
    return be;
}
