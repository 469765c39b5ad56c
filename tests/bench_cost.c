// Predicted against measured training speed of shipped presets: the ratio of each, and how many are
// within 20 %. Large presets run with fewer sequences at once, as a machine like this would.
// usage: bench_cost [PROFILE [key=value]…]
#include <math.h>
#include <stdio.h>

#include "engine/buf.h"
#include "engine/cost.h"
#include "engine/profile.h"

static int load(const char *path, const char *const *set, int n_set, struct spec *spec)
{
    struct problems problems = {0};
    int rc = profile_load(path, set, n_set, spec, &problems);

    problems_print(&problems, stderr);
    problems_release(&problems);
    return rc;
}

// Steps of the calibration and of the whole model take turns, so that both meet the same machine.
static int take_turns(struct cost_job *j, struct cost_trial *t, struct err *err)
{
    int rc;

    do
        rc = cost_trial_step(t, err) < 0 ? -1 : cost_step(j, err);
    while (rc > 0);
    return rc;
}

static void print(const struct spec *s, const struct cost *c, const struct cost_measured *m)
{
    printf("%-24s %9.0f %9.0f  %5.3f  %8.0f %8.0f  %5.3f  %5.1f s, %2d +-%2.0f%%, %.2f cores, "
           "%d layers %lld x %d, vocab %d\n",
           s->name, c->tokens_per_s, m->tokens_per_s, c->tokens_per_s / m->tokens_per_s,
           (double)c->memory_step_bytes / (1 << 20), (double)m->memory_bytes / (1 << 20),
           (double)c->memory_step_bytes / (double)m->memory_bytes, c->calibration_s, c->passes,
           50 * c->spread, c->cores, c->slice_layers, (long long)c->slice_rows / c->slice_seq_len,
           c->slice_seq_len, c->slice_vocab);
    fflush(stdout);
}

// 1 within, 0 not, -1 not measured.
static int bench(const char *path, const char *const *set, int n_set)
{
    struct spec spec;
    struct cost_job *j;
    struct cost_trial *t;
    struct cost_measured m;
    struct err err = ERR_INIT;
    const struct cost *c;
    double ratio = NAN;

    if (load(path, set, n_set, &spec) < 0)
        return -1;
    j = cost_new(&spec, "cpu");
    c = cost_result(j);
    t = cost_step(j, &err) > 0 ? cost_trial_new(&spec, "cpu", &err) : NULL;
    if (t && take_turns(j, t, &err) == 0) {
        cost_trial_result(t, &m);
        print(&spec, c, &m);
        ratio = c->tokens_per_s / m.tokens_per_s;
    } else {
        printf("%-24s %s%s\n", spec.name, c->why, err.text);
    }
    cost_trial_free(t);
    cost_free(j);
    return isnan(ratio) ? -1 : fabs(ratio - 1) <= COST_WITHIN;
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
    {"profiles/C/large-rope-baseline.yaml", {"train.micro_batch_size=1", "train.seq_len=512"}},
    {"profiles/B/dense2.yaml", {"train.micro_batch_size=1", "train.seq_len=512"}},
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
