// A whole training step (forward, backward, gradient norm, AdamW) of two profiles, against the
// ceiling of large matrix products measured in the same run through the same backend, and where
// the time goes. usage: bench_step [PROFILE [key=value]…]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "engine/buf.h"
#include "engine/count.h"
#include "engine/model.h"
#include "engine/optim.h"
#include "engine/profile.h"
#include "engine/rng.h"
#include "kernels/trace.h"

enum { MAX_STEPS = 400, MIN_STEPS = 5 };
static const double budget_s = 8;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct bench {
    struct spec spec;
    struct backend *be; // a trace around cpu
    struct model *model;
    struct optim *optim;
    int32_t *tokens, *targets;
};

static int one_step(struct bench *b, int n)
{
    double loss;

    model_zero_gradients(b->model);
    if (model_forward_backward(b->model, b->tokens, b->targets, 1 / (double)model_rows(b->model),
                               &loss, NULL) < 0)
        return -1;
    optim_step(b->optim, n, 1e-4, optim_grad_norm(b->optim));
    return 0;
}

struct timing {
    double median, best;
    int steps;
};

// As many steps as fit the budget, after two that touch all memory.
static struct timing time_steps(struct bench *b)
{
    double took[MAX_STEPS], start = now();
    int n = 0;

    one_step(b, 1);
    one_step(b, 2);
    trace_reset(b->be);
    while (n < MAX_STEPS && (n < MIN_STEPS || now() - start < budget_s)) {
        double t = now();

        one_step(b, n + 3);
        took[n++] = now() - t;
    }
    qsort(took, (size_t)n, sizeof *took, by_value);
    return (struct timing){took[n / 2], took[0], n};
}

static void print_ops(const struct bench *b, int steps)
{
    double total = 0;
    int order[OPS_COUNT], n = 0;

    for (int i = 0; i < (int)OPS_COUNT; i++) {
        const struct trace_row *row = trace_row(b->be, i);
        int at = n;

        if (!row->calls)
            continue;
        for (; at > 0 && trace_row(b->be, order[at - 1])->ns < row->ns; at--)
            order[at] = order[at - 1];
        order[at] = i;
        n++;
        total += (double)row->ns;
    }
    for (int i = 0; i < n; i++) {
        const struct trace_row *row = trace_row(b->be, order[i]);
        double ms = (double)row->ns * 1e-6 / steps;

        if ((double)row->ns > 0.002 * total)
            printf("    %-20s %8.2f ms %5.1f %%  %5.0f calls\n", backend_op_name(order[i]), ms,
                   100 * (double)row->ns / total, (double)row->calls / steps);
    }
}

static void fill_tokens(struct bench *b)
{
    int64_t n = model_rows(b->model);

    b->tokens = xcalloc((size_t)n, 2 * sizeof *b->tokens);
    b->targets = b->tokens + n;
    for (int64_t i = 0; i < 2 * n; i++)
        b->tokens[i] = (int32_t)(rng_u64(5, (uint64_t)i) % (uint64_t)b->spec.model.vocab);
}

static double peak_mib(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_maxrss / 1024;
}

static void print_head(const struct bench *b, const struct count *c)
{
    printf("%s: %.2fM parameters, %d x %d tokens, %d threads, %s, peak memory %.0f MiB\n",
           b->spec.name, (double)c->total * 1e-6, b->spec.train.micro_batch_size,
           b->spec.train.seq_len, b->be->threads, backend_gemm_library(), peak_mib());
}

static void measure(struct bench *b)
{
    double ceiling = model_gemm_gflops(b->be, 2048, 0.5), after, flops;
    double rows = (double)model_rows(b->model);
    struct timing t;
    struct count c;

    count_model(&b->spec, &c);
    t = time_steps(b);
    print_head(b, &c);
    print_ops(b, t.steps); // before anything else is traced
    flops = c.train_per_token * rows * 1e-9;
    after = model_gemm_gflops(b->be, 2048, 0.5);
    ceiling = after > ceiling ? after : ceiling;
    printf("  median %.1f ms/step, %.0f tokens/s, %.1f GFLOP/s (full attention)\n", 1e3 * t.median,
           rows / t.median, flops / t.median);
    printf("  best   %.1f ms/step, %.0f tokens/s, %.1f GFLOP/s = %.0f %% of the ceiling's best, "
           "%.0f\n",
           1e3 * t.best, rows / t.best, flops / t.best, 100 * flops / t.best / ceiling, ceiling);
}

static int bench_profile(const char *path, const char *const *set, int n_set)
{
    struct bench b = {.be = NULL};
    struct problems problems = {0};
    struct err err = ERR_INIT;
    char why[200] = "";
    int rc = profile_load(path, set, n_set, &b.spec, &problems);

    problems_print(&problems, stderr);
    problems_release(&problems);
    if (rc < 0)
        return 1;
    b.be = backend_open("cpu", 0, why, sizeof why);
    b.be = b.be ? trace_open(b.be, false) : NULL;
    b.model = b.be ? model_new(b.be, &b.spec, &err) : NULL;
    b.optim = b.model ? optim_new(b.model, &b.spec.optim, &err) : NULL;
    if (b.optim) {
        model_init_weights(b.model, 1);
        fill_tokens(&b);
        measure(&b);
    } else {
        fprintf(stderr, "bench_step: %s%s\n", why, err.text);
    }
    rc = !b.optim;
    free(b.tokens);
    optim_free(b.optim);
    model_free(b.model);
    if (b.be)
        backend_close(b.be);
    return rc;
}

int main(int argc, char **argv)
{
    const char *const gpt2[] = {"train.seq_len=64", "train.micro_batch_size=4",
                                "train.global_batch_size=4"};

    if (argc > 1)
        return bench_profile(argv[1], (const char *const *)argv + 2, argc - 2);
    return bench_profile("profiles/demo/crown.yaml", NULL, 0) ||
           bench_profile("profiles/gpt2/124M.yaml", gpt2, 3);
}
