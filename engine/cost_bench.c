// Training steps on random tokens, and the clocks they are measured with.
#include "engine/cost_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/rng.h"
#include "engine/trainer.h"
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
            be->op->upload(be, f32_at(be, w, at), tile, p->size - at < TILE ? p->size - at : TILE);
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

    return model_forward_backward(b->model, b->tokens, b->targets, 1 / (double)model_rows(b->model),
                                  &loss, err);
}

void bench_update(struct bench *b, int64_t n)
{
    char why[64];

    optim_step(b->optim, n, 1e-4, optim_grad_norm(b->optim));
    model_zero_gradients(b->model);
    b->be->op->sync(b->be, why, sizeof why); // what went wrong the next pass says
}

// ---- the whole model ----------------------------------------------------------------------------

enum { MOST_PASSES = 64 };

struct cost_trial {
    struct spec spec;
    struct bench bench;
    int64_t updates, memory;
    double pass[MOST_PASSES], update[MOST_PASSES]; // the latest, a ring
    int n;
    double seconds, cpu; // of all
};

struct cost_trial *cost_trial_new(const struct spec *spec, const char *backend, struct err *err)
{
    struct cost_trial *t = xcalloc(1, sizeof *t);
    int64_t before = cost_anonymous_bytes(), after;
    struct backend *be;

    t->spec = *spec;
    if (trainer_check(spec, err) == 0 && (be = cost_backend(spec, backend, err))) {
        t->spec.train.recompute = trainer_recompute(spec, model_sizes_of(be));
        if (bench_open(&t->bench, be, &t->spec, err) == 0 && bench_pass(&t->bench, err) == 0) {
            bench_update(&t->bench, ++t->updates);
            after = cost_anonymous_bytes();
            t->memory = before < 0 || after < 0 ? -1 : after - before;
            return t;
        }
    }
    cost_trial_free(t);
    return NULL;
}

int cost_trial_step(struct cost_trial *t, struct err *err)
{
    double start = cost_now(), cpu = cost_cpu_seconds(), middle;

    if (bench_pass(&t->bench, err) < 0)
        return -1;
    middle = cost_now();
    bench_update(&t->bench, ++t->updates);
    t->pass[t->n % MOST_PASSES] = middle - start;
    t->update[t->n++ % MOST_PASSES] = cost_now() - middle;
    t->seconds += cost_now() - start;
    t->cpu += cost_cpu_seconds() - cpu;
    return 0;
}

void cost_trial_result(const struct cost_trial *t, struct cost_measured *out)
{
    double micro = (double)t->spec.train.global_batch_size / t->spec.train.micro_batch_size;
    int n = t->n < MOST_PASSES ? t->n : MOST_PASSES;
    double pass[MOST_PASSES], update[MOST_PASSES];

    BUG_IF(n == 0);
    memcpy(pass, t->pass, sizeof pass);
    memcpy(update, t->update, sizeof update);
    out->passes = t->n;
    out->cores = t->cpu / t->seconds;
    out->seconds_per_step = micro * cost_median(pass, n) + cost_median(update, n);
    out->tokens_per_s = (double)spec_tokens_per_step(&t->spec) / out->seconds_per_step;
    out->memory_bytes = t->memory;
}

void cost_trial_free(struct cost_trial *t)
{
    struct backend *be = t ? t->bench.be : NULL;

    if (!t)
        return;
    bench_close(&t->bench);
    if (be)
        backend_close(be);
    free(t);
}
