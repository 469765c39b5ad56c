// Training steps on random tokens, and the clocks they are measured with.
#include "engine/cost_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/rng.h"
#include "kernels/backend.h"

static double clock_seconds(clockid_t which)
{
    struct timespec t;

    clock_gettime(which, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double cost_now(void)
{
    return clock_seconds(CLOCK_MONOTONIC);
}

double cost_cpu_seconds(void)
{
    return clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t cost_anonymous_bytes(void)
{
    struct buf b = {0};
    long long kib = -1;
    char *at;

    if (!file_read("/proc/self/status", 1 << 16, &b, NULL) && b.data &&
        (at = strstr(b.data, "RssAnon:")))
        if (sscanf(at, "RssAnon: %lld", &kib) != 1)
            kib = -1;
    buf_release(&b);
    return kib < 0 ? -1 : kib * 1024;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double cost_median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

double cost_spread(double *v, int n)
{
    double median = cost_median(v, n);

    return (v[(3 * n) / 4 < n ? (3 * n) / 4 : n - 1] - v[n / 4]) / median;
}

struct backend *cost_backend(const struct spec *spec, const char *name, struct err *err)
{
    const char *real = !name || !strcmp(name, "auto") ? "cpu" : name;
    char why[256] = "";
    struct backend *be = backend_open(real, spec->train.threads, why, sizeof why);

    if (!be)
        err_set(err, "backend '%s' is not available: %s", real, why);
    return be;
}

// ---- a step -------------------------------------------------------------------------------------

// Initial weights take longer to draw than a slice takes to run: a tile of them is enough.
static void fill_weights(struct model *m)
{
    enum { TILE = 1 << 16 };
    const struct param_list *list = model_params(m);
    struct backend *be = model_backend(m);
    float *tile = xmalloc(TILE * sizeof *tile);

    for (int i = 0; i < TILE; i++)
        tile[i] = (float)(0.02 * rng_normal(7, (uint64_t)i));
    for (int i = 0; i < list->n; i++) {
        const struct param *p = &list->v[i];
        struct f32 *w = f32_at(be, model_weights(m), p->offset);

        if (p->n_dims == 1)
            be->op->fill(be, w, p->init_value, p->size);
        for (int64_t at = 0; p->n_dims > 1 && at < p->size; at += TILE)
            be->op->upload(be, f32_at(be, w, at), tile,
                           p->size - at < TILE ? p->size - at : TILE);
    }
    model_weights_changed(m);
    free(tile);
}

static void fill_tokens(struct bench *b, int vocab)
{
    int64_t n = model_rows(b->model);

    b->tokens = xcalloc((size_t)n, 2 * sizeof *b->tokens);
    b->targets = b->tokens + n;
    for (int64_t i = 0; i < 2 * n; i++)
        b->tokens[i] = (int32_t)(rng_u64(5, (uint64_t)i) % (uint64_t)vocab);
}

int bench_open(struct bench *b, struct backend *be, const struct spec *spec, struct err *err)
{
    *b = (struct bench){.be = be};
    if (!(b->model = model_new(be, spec, err)) ||
        !(b->optim = optim_new(b->model, &spec->optim, err)))
        return -1;
    fill_weights(b->model);
    fill_tokens(b, spec->model.vocab);
    model_zero_gradients(b->model);
    return 0;
}

void bench_close(struct bench *b)
{
    free(b->tokens);
    optim_free(b->optim);
    model_free(b->model);
    *b = (struct bench){0};
}

int bench_pass(struct bench *b, struct err *err)
{
    double loss;

    return model_forward_backward(b->model, b->tokens, b->targets,
                                  1 / (double)model_rows(b->model), &loss, err);
}

void bench_update(struct bench *b, int64_t n)
{
    char why[64];

    optim_step(b->optim, n, 1e-4, optim_grad_norm(b->optim));
    model_zero_gradients(b->model);
    b->be->op->sync(b->be, why, sizeof why); // what went wrong the next pass says
}

// ---- the whole model ----------------------------------------------------------------------------

struct times {
    double pass[256], update[256];
    int n;
};

static int time_steps(struct bench *b, double seconds, struct times *t, struct err *err)
{
    enum { LEAST = 3, MOST = sizeof t->pass / sizeof *t->pass };
    double end = 0;

    for (int i = 0; t->n < MOST && (t->n < LEAST || cost_now() < end); i++) {
        double start = cost_now(), middle;

        if (bench_pass(b, err) < 0)
            return -1;
        middle = cost_now();
        bench_update(b, i + 1);
        if (i == 0) { // touches the memory
            end = cost_now() + seconds;
            continue;
        }
        t->pass[t->n] = middle - start;
        t->update[t->n++] = cost_now() - middle;
    }
    return 0;
}

static int measure_on(struct backend *be, const struct spec *spec, double seconds,
                      struct cost_measured *out, struct err *err)
{
    struct times *t = xcalloc(1, sizeof *t);
    struct bench b;
    int rc = bench_open(&b, be, spec, err);

    if (!rc)
        rc = time_steps(&b, seconds, t, err);
    if (!rc) {
        double micro = (double)spec->train.global_batch_size / spec->train.micro_batch_size;

        out->passes = t->n;
        out->seconds_per_step = micro * cost_median(t->pass, t->n) + cost_median(t->update, t->n);
        out->tokens_per_s = (double)spec_tokens_per_step(spec) / out->seconds_per_step;
        out->memory_bytes = cost_anonymous_bytes();
    }
    bench_close(&b);
    free(t);
    return rc;
}

int cost_measure(const struct spec *spec, const char *backend, double seconds,
                 struct cost_measured *out, struct err *err)
{
    struct backend *be = cost_backend(spec, backend, err);
    int rc;

    *out = (struct cost_measured){.memory_bytes = -1};
    if (!be)
        return -1;
    rc = measure_on(be, spec, seconds, out, err);
    backend_close(be);
    return rc;
}
