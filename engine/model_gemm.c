// The ceiling that steps are compared with: square matrix products through the backend's own
// linear_forward, measured where and when the step runs.
#include "engine/model.h"

#include <time.h>

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double time_product(struct backend *be, struct act *y, const struct act *x,
                           const struct act *w, int n)
{
    struct linear_dims d = {.N = n, .C = n, .O = n};
    char why[64];
    double start = now();

    be->op->linear_forward(be, y, x, w, NULL, d);
    be->op->sync(be, why, sizeof why);
    return now() - start;
}

// Best of several, because what disturbs a measurement only ever makes it slower. On a busy machine
// the time may be up before the products are large enough to say anything: three of that size count
// at least.
static double measure(struct backend *be, struct act *block, int n_max, double seconds)
{
    enum { LARGE = 512, AT_LEAST = 3 };
    double best = 0, end = now() + seconds;
    int large = n_max < LARGE ? n_max : LARGE, done = 0;
    int64_t square = (int64_t)n_max * n_max;
    const struct act *x = act_at(be, block, square), *w = act_at(be, block, 2 * square);

    for (int n = n_max < 128 ? n_max : 128;;) {
        double took = time_product(be, block, x, w, n), rate = 2.0 * n * n * n / took * 1e-9;

        best = rate > best ? rate : best;
        done += n >= large;
        if (now() >= end && done >= AT_LEAST)
            return best;
        if (n < large || (n < n_max && took * 64 < seconds))
            n = 2 * n < n_max ? 2 * n : n_max;
    }
}

double model_gemm_gflops(struct backend *be, int n_max, double seconds)
{
    size_t bytes = 3 * (size_t)n_max * (size_t)n_max * be->act_size;
    struct act *block = be->op->alloc(be, bytes);
    double best;

    if (!block)
        return 0;
    best = measure(be, block, n_max, seconds);
    be->op->release(be, block);
    return best;
}
