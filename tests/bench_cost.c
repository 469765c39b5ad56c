// Predicted against measured training speed of shipped presets: the ratio of each, and how many are
// within 20 %. Large presets run with fewer sequences at once, as a machine like this would.
// usage: bench_cost [PROFILE [key=value]…]
#include <math.h>
#include <stdio.h>

#include "engine/buf.h"
#include "engine/cost.h"
#include "engine/profile.h"

static const double measure_s = 3;

static int load(const char *path, const char *const *set, int n_set, struct spec *spec)
{
    struct problems problems = {0};
    int rc = profile_load(path, set, n_set, spec, &problems);

    problems_print(&problems, stderr);
    problems_release(&problems);
    return rc;
}

// 1 within, 0 not, -1 not measured.
static int bench(const char *path, const char *const *set, int n_set)
{
    struct spec spec;
    struct cost c;
    struct cost_measured m;
    struct err err = ERR_INIT;
    double ratio;

    if (load(path, set, n_set, &spec) < 0)
        return -1;
    if (cost_predict(&spec, "cpu", &c, &err) < 0 ||
        (c.fits && cost_measure(&spec, "cpu", measure_s, &m, &err) < 0)) {
        printf("%-24s %s\n", spec.name, err.text);
        return -1;
    }
    if (!c.fits) {
        printf("%-24s %s\n", spec.name, c.why);
        return -1;
    }
    ratio = c.tokens_per_s / m.tokens_per_s;
    printf("%-24s %9.0f %9.0f  %5.3f  %6.0f %6.0f  %5.3f  %4.1fs %2d passes +-%.0f%% %.2f cores, %dx%lld V%d T%d\n",
           spec.name, c.tokens_per_s, m.tokens_per_s, ratio, (double)c.memory_step_bytes / (1 << 20),
           (double)m.memory_bytes / (1 << 20),
           (double)c.memory_step_bytes / (double)m.memory_bytes, c.calibration_s, c.passes,
           50 * c.spread, c.cores, c.slice_layers, (long long)c.slice_rows, c.slice_vocab,
           c.slice_seq_len);
    fflush(stdout);
    return fabs(ratio - 1) <= COST_WITHIN;
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
    {"profiles/C/large-rope-baseline.yaml", {"train.micro_batch_size=1"}},
    {"profiles/B/dense2.yaml", {"train.micro_batch_size=1"}},
    {"profiles/B/gated12-0.5.yaml", {"train.micro_batch_size=1"}},
    {"profiles/A/crown18.yaml",
     {"train.seq_len=256", "train.micro_batch_size=4", "train.recompute=layer"}},
    {"profiles/gpt2/124M.yaml", {"train.seq_len=64", "train.micro_batch_size=4"}},
};
enum { PRESETS = sizeof presets / sizeof *presets };

int main(int argc, char **argv)
{
    int tally[3] = {0}; // not within, within, not measured

    printf("%-24s predicted  measured  ratio  MiB predicted, measured, ratio; calibration\n",
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
