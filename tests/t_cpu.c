// What is particular to the cpu backend: its matrix products against other ones, its threads.
#include "tests/t.h"

#include <dirent.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>

#include <cblas.h>

#include "engine/rng.h"
#include "kernels/backend.h"
#include "kernels/cpu.h"

static struct backend *open_cpu(int threads)
{
    char why[200] = "";
    struct backend *be = backend_open("cpu", threads, why, sizeof why);

    if (!be)
        fail_msg("%s", why);
    return be;
}

static float *random_floats(struct backend *be, const char *name, int64_t n)
{
    float *x = be->op->alloc(be, (size_t)n * sizeof *x);
    uint64_t key = rng_key(1, name);

    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)rng_normal(key, (uint64_t)i);
    return x;
}

// ---- matrix products -------------------------------------------------------------------------

struct product {
    CBLAS_TRANSPOSE ta, tb;
    int M, N, K;
    const float *a, *b;
    int lda, ldb;
};

// Every element of got against cblas, and 200 of them against a sum in double. The bound is
// relative to sum |a||b|, as rounding is.
static void check_product(const float *got, const float *before, struct product p)
{
    float *oracle = malloc((size_t)p.M * (size_t)p.N * sizeof *oracle);

    memcpy(oracle, before, (size_t)p.M * (size_t)p.N * sizeof *oracle);
    cblas_sgemm(CblasRowMajor, p.ta, p.tb, p.M, p.N, p.K, 1, p.a, p.lda, p.b, p.ldb, 1, oracle,
                p.N);
    for (int64_t i = 0; i < (int64_t)p.M * p.N; i++)
        assert_near(got[i], oracle[i], 2e-6 * sqrt(p.K));
    for (int s = 0; s < 200; s++) {
        int m = (int)(rng_u64(7, (uint64_t)s) % (uint64_t)p.M);
        int n = (int)(rng_u64(8, (uint64_t)s) % (uint64_t)p.N);
        double sum = before[(int64_t)m * p.N + n], size = fabs(sum);

        for (int64_t k = 0; k < p.K; k++) {
            double x = p.ta == CblasTrans ? p.a[k * p.lda + m] : p.a[m * (int64_t)p.lda + k];
            double y = p.tb == CblasTrans ? p.b[n * (int64_t)p.ldb + k] : p.b[k * p.ldb + n];

            sum += x * y;
            size += fabs(x * y);
        }
        if (!(fabs(got[(int64_t)m * p.N + n] - sum) <= 5e-7 * size))
            fail_msg("element (%d,%d) of %d x %d x %d is %g, expected %g", m, n, p.M, p.N, p.K,
                     (double)got[(int64_t)m * p.N + n], sum);
    }
    free(oracle);
}

static void check_linear(struct backend *be, struct linear_dims d)
{
    int N = (int)d.N;
    int64_t nx = d.N * d.C, ny = d.N * d.O, nw = (int64_t)d.C * d.O;
    float *x = random_floats(be, "x", nx), *w = random_floats(be, "w", nw);
    float *y = random_floats(be, "y", ny), *dx = random_floats(be, "dx", nx);
    float *dw = random_floats(be, "dw", nw), *zero = be->op->alloc(be, (size_t)ny * sizeof *zero);
    float *dx_was = random_floats(be, "dx", nx), *dw_was = random_floats(be, "dw", nw);
    float *dy = random_floats(be, "dy", ny);

    be->op->linear_forward(be, (void *)y, (void *)x, (void *)w, NULL, d);
    check_product(y, zero, (struct product){CblasNoTrans, CblasTrans, N, d.O, d.C, x, w, d.C, d.C});
    be->op->linear_backward(be, (void *)dx, (void *)dw, NULL, (void *)dy, (void *)x, (void *)w, d,
                            true);
    check_product(dx, dx_was,
                  (struct product){CblasNoTrans, CblasNoTrans, N, d.C, d.O, dy, w, d.O, d.C});
    check_product(dw, dw_was,
                  (struct product){CblasTrans, CblasNoTrans, d.O, d.C, N, dy, x, d.O, d.C});
    float *all[] = {x, w, y, dx, dw, zero, dx_was, dw_was, dy};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        be->op->release(be, all[i]);
}

static void products_agree_with_cblas_and_double(void **state)
{
    static const struct linear_dims dims[] = {
        {1024, 128, 256}, {513, 128, 96}, {1, 64, 33}, {257, 7, 513}, {77, 300, 1},
    };
    struct backend *be = open_cpu(2);

    (void)state;
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
        check_linear(be, dims[i]);
    backend_close(be);
}

// Long sums are split over threads by some libraries; the split must not depend on timing.
static void products_give_the_same_bits_again(void **state)
{
    struct linear_dims d = {4096, 96, 64};
    struct backend *be = open_cpu(2);
    float *x = random_floats(be, "x", d.N * d.C), *w = random_floats(be, "w", d.C * d.O);
    float *dy = random_floats(be, "dy", d.N * d.O);
    float *dx = random_floats(be, "dx", d.N * d.C), *dw[2];

    (void)state;
    for (int run = 0; run < 2; run++)
        dw[run] = random_floats(be, "dw", d.C * d.O);
    for (int repeat = 0; repeat < 10; repeat++) {
        for (int run = 0; run < 2; run++)
            be->op->linear_backward(be, (void *)dx, (void *)dw[run], NULL, (void *)dy, (void *)x,
                                    (void *)w, d, false);
        assert_memory_equal(dw[0], dw[1], (size_t)(d.C * d.O) * sizeof(float));
    }
    float *all[] = {x, w, dy, dx, dw[0], dw[1]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        be->op->release(be, all[i]);
    backend_close(be);
}

// ---- threads ---------------------------------------------------------------------------------

static int threads_of_process(void)
{
    DIR *dir = opendir("/proc/self/task");
    int n = 0;

    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

struct driver {
    int threads, started, openmp_max;
};

// A thread of its own has no OpenMP team yet, so every worker that appears was asked for here.
static void *drive(void *arg)
{
    struct driver *d = arg;
    struct backend *be = open_cpu(d->threads);
    struct linear_dims dims = {512, 256, 256};
    int before = threads_of_process();
    void *x = random_floats(be, "x", 512 * 256), *y = random_floats(be, "y", 512 * 256);
    void *w = random_floats(be, "w", 256 * 256);

    be->op->add_act(be, y, x, 512 * 256);
    be->op->linear_forward(be, y, x, w, NULL, dims);
    be->op->linear_backward(be, x, w, NULL, y, x, w, dims, false);
    d->started = threads_of_process() - before;
    d->openmp_max = omp_get_max_threads();
    be->op->release(be, x);
    be->op->release(be, y);
    be->op->release(be, w);
    backend_close(be);
    return NULL;
}

static void thread_count_is_honoured_in_any_driving_thread(void **state)
{
    int at_rest = threads_of_process();

    (void)state;
    t_needs_gnu_openmp();
    for (int threads = 1; threads <= 3; threads++) {
        struct driver d = {.threads = threads};
        pthread_t id;

        // the workers of the driver before end by themselves, a little after it
        t_wait(threads_of_process() == at_rest, 20);

        assert_int_equal(pthread_create(&id, NULL, drive, &d), 0);
        pthread_join(id, NULL);
        assert_int_equal(d.started, threads - 1);
        assert_int_equal(d.openmp_max, threads);
    }
}

static void parts_cover_the_work_without_overlap(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 200; n += 7) {
        for (int parts = 1; parts < 6; parts++) {
            int64_t next = 0;

            for (int i = 0; i < parts; i++) {
                struct part p = cpu_part(n, 16, i, parts);

                assert_true(p.from == next && p.to >= p.from);
                next = p.to;
            }
            assert_true(next == n);
        }
    }
}

static void memory_is_zeroed_and_aligned(void **state)
{
    struct backend *be = open_cpu(1);

    (void)state;
    for (size_t bytes = 0; bytes < 9000000; bytes = bytes * 3 + 1) {
        char *p = be->op->alloc(be, bytes);

        assert_non_null(p);
        assert_true((uintptr_t)p % 64 == 0);
        for (size_t i = 0; i < bytes; i++)
            assert_true(p[i] == 0);
        if (bytes)
            memset(p, 255, bytes);
        be->op->release(be, p);
    }
    assert_null(be->op->alloc(be, SIZE_MAX - 100));
    be->op->release(be, NULL);
    backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thread_count_is_honoured_in_any_driving_thread),
        cmocka_unit_test(products_agree_with_cblas_and_double),
        cmocka_unit_test(products_give_the_same_bits_again),
        cmocka_unit_test(parts_cover_the_work_without_overlap),
        cmocka_unit_test(memory_is_zeroed_and_aligned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
