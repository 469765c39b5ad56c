// Predicted against measured training speed of shipped presets: the ratio of each, and how many are
// within 20 %. Large presets run with fewer sequences at once, as a machine like this would.
// usage: bench_cost [PROFILE [key=value]…]
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "engine/buf.h"
#include "engine/cost.h"
#include "engine/profile.h"

enum { TRIES = 3 };
static const double trial_s = 9; // of real steps and calibration together

static int load(const char *path, const char *const *set, int n_set, struct spec *spec)
{
    struct problems problems = {0};
    int rc = profile_load(path, set, n_set, spec, &problems);

    problems_print(&problems, stderr);
    problems_release(&problems);
    return rc;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Steps of the calibration and of the whole model take turns, so that both meet the same machine.
static int take_turns(struct cost_job *j, struct cost_trial *t, struct err *err)
{
    double end = now() + trial_s;
    int rc = 1;

    for (int i = 0; rc > 0; i++) {
        if ((i < 3 || now() < end) && cost_trial_step(t, err) < 0)
            return -1;
        rc = cost_step(j, err);
    }
    return rc;
}

struct result {
    struct cost cost;
    struct cost_measured measured;
    double ratio; // of tokens/s, predicted to measured
};

static int measure(const struct spec *spec, struct result *r, struct err *err)
{
    struct cost_job *j = cost_new(spec, "cpu");
    struct cost_trial *t = NULL;
    int rc = cost_step(j, err);

    if (rc > 0 && (t = cost_trial_new(spec, "cpu", err)))
        rc = take_turns(j, t, err);
    r->cost = *cost_result(j);
    if (rc == 0 && t) {
        cost_trial_result(t, &r->measured);
        r->ratio = r->cost.tokens_per_s / r->measured.tokens_per_s;
    }
    cost_trial_free(t);
    cost_free(j);
    return rc == 0 && r->cost.fits ? 0 : -1;
}

static void print(const struct spec *s, const struct result *r)
{
    const struct cost *c = &r->cost;
    const struct cost_measured *m = &r->measured;

    printf(
        "%-24s %9.0f %9.0f  %5.3f  %8.0f %8.0f  %5.3f  %4.1f s, %2d +-%2.0f%%, %.2f : %.2f cores, "
        "%d layers %lld x %d, vocab %d\n",
        s->name, c->tokens_per_s, m->tokens_per_s, r->ratio,
        (double)c->memory_step_bytes / (1 << 20), (double)m->memory_bytes / (1 << 20),
        (double)c->memory_step_bytes / (double)m->memory_bytes, c->calibration_s, c->passes,
        50 * c->spread, c->cores, m->cores, c->slice_layers,
        (long long)c->slice_rows / c->slice_seq_len, c->slice_seq_len, c->slice_vocab);
    fflush(stdout);
}

// Whether other work took more of the cores from one than from the other: they cannot be compared.
static bool is_unequal(const struct result *r)
{
    return fabs(r->cost.cores / r->measured.cores - 1) > 0.1;
}

// 1 within, 0 not, -1 not measured.
static int bench(const char *path, const char *const *set, int n_set)
{
    struct spec spec;
    struct result r = {.ratio = NAN};
    struct err err = ERR_INIT;
    bool is_within = false, again = true;

    if (load(path, set, n_set, &spec) < 0)
        return -1;
    for (int i = 0; i < TRIES && again; i++) {
        if (measure(&spec, &r, &err) < 0) {
            printf("%-24s %s%s\n", spec.name, r.cost.why, err.text);
            return -1;
        }
        print(&spec, &r);
        is_within = fabs(r.ratio - 1) <= COST_WITHIN;
        again = !is_within && is_unequal(&r);
        if (again && i + 1 < TRIES)
            printf("%-24s once more: other work took unequal parts of the cores\n", "");
    }
    return is_within;
}

static const struct {
    const char *path, *set[3];
} presets[] = {
    {"profiles/demo/crown.yaml", {NULL}},
    {"profiles/demo/gated.yaml", {NULL}},
    {"profiles/demo/mixture.yaml", {NULL}},
    {"profiles/C/small-rope-baseline.yaml", {"train.micro_batch_size=8"}},
    {"profiles/C/small-rope-3221.yaml", {"train.micro_batch_size=8"}},
    {"profiles/C/small-nope-3221-reinject.yaml", {"train.micro_batch_size=8"}},
    {"profiles/C/small-alibi-block2.yaml", {"train.micro_batch_size=8"}},
    {"profiles/C/large-rope-baseline.yaml", {"train.micro_batch_size=1", "train.seq_len=256"}},
    {"profiles/B/dense2.yaml", {"train.micro_batch_size=1", "train.seq_len=256"}},
    {"profiles/B/gated12-0.5.yaml", {"train.micro_batch_size=1", "train.seq_len=256"}},
    {"profiles/A/crown18.yaml",
     {"train.seq_len=256", "train.micro_batch_size=1", "train.recompute=layer"}},
    {"profiles/gpt2/124M.yaml", {"train.seq_len=64", "train.micro_batch_size=4"}},
};
enum { PRESETS = sizeof presets / sizeof *presets };

int main(int argc, char **argv)
{
    int tally[3] = {0}; // not within, within, not measured

    printf("%-24s predicted  measured  ratio   MiB pred. measured  ratio  calibration\n",
           "tokens/s");
    if (argc > 1)
        return bench(argv[1], (const char *const *)argv + 2, argc - 2) < 1;
    for (int i = 0; i < PRESETS; i++) {
        int n = 0, got;

        while (n < 3 && presets[i].set[n])
            n++;
        got = bench(presets[i].path, presets[i].set, n);
        tally[got < 0 ? 2 : got]++;
    }
    printf("%d of %d within %.0f %%", tally[1], tally[0] + tally[1], 100 * COST_WITHIN);
    printf(tally[2] ? ", %d not measured\n" : "\n", tally[2]);
    return 0;
}
