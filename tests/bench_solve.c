// Solving a 126-layer profile onto a budget, by every way. Target: 10 ms, less than a frame.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/buf.h"
#include "engine/profile.h"
#include "engine/solve.h"

enum { LAYERS = 126, RUNS = 9 };
static const double target_ms = 10;

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + 1e-6 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

// A crown of 126 layers; with reuse every seventh runs twice, so that layers cost differently.
static int load(struct spec *s, bool reuse)
{
    static const char *const set[] = {"model.n_layers=126", "model.ffn_step=64"};
    struct problems p = {0};
    int rc = profile_load("profiles/A/crown18.yaml", set, 2, s, &p);

    problems_print(&p, stderr);
    problems_release(&p);
    for (int i = 0; i < LAYERS && reuse; i++)
        s->model.lane[LANE_REUSE][i] = i % 7 == 3 ? 2 : 1;
    return rc;
}

// Onto so many times what the profile has. 1 where that was too slow.
static int bench(const struct spec *s, enum solve_by by, enum budget budget, double times)
{
    struct solved *out = xmalloc(sizeof *out);
    struct solve_request r = {.budget = budget, .by = by};
    struct err err = ERR_INIT;
    double ms[RUNS];
    int rc = 0;

    count_model(s, &out->count);
    r.target = times * budget_value(budget, s, &out->count);
    for (int i = 0; i < RUNS && rc == 0; i++) {
        double start = now_ms();

        rc = solve(s, &r, out, &err);
        ms[i] = now_ms() - start;
    }
    if (rc == 0) {
        qsort(ms, RUNS, sizeof *ms, by_value);
        printf("  %-7s %-13s x %-6g %8.3f ms (target %.0f)%s  %+.3f%%\n", solve_names[by],
               budget_rows[budget].name, times, ms[RUNS / 2], target_ms,
               ms[RUNS / 2] > target_ms ? " SLOWER" : "", 100 * out->residual / r.target);
    } else {
        printf("  %-7s %-13s %s\n", solve_names[by], budget_rows[budget].name, err.text);
    }
    free(out);
    return rc == 0 && ms[RUNS / 2] > target_ms;
}

static int bench_all(const struct spec *s)
{
    int slower = 0;

    for (int by = 0; by < SOLVE_TOKENS; by++)
        for (int b = 0; b < BUDGET_KINDS; b++)
            if (b != BUDGET_KV || by != SOLVE_FFN) // which it does not change
                slower += bench(s, (enum solve_by)by, (enum budget)b, 1.137);
    for (int by = 0; by <= SOLVE_HEADS; by++) {
        slower += bench(s, (enum solve_by)by, BUDGET_MEMORY, 0.62);
        slower += bench(s, (enum solve_by)by, BUDGET_MEMORY, 1e-3); // everything at the least
        slower += bench(s, (enum solve_by)by, BUDGET_MEMORY, 1e3);  // and at the most
    }
    return slower + bench(s, SOLVE_TOKENS, BUDGET_TRAIN_FLOPS, 1.137);
}

int main(void)
{
    struct spec s;
    int slower = 0;

    for (int reuse = 0; reuse < 2; reuse++) {
        if (load(&s, reuse) < 0)
            return 1;
        printf("solve, %d layers%s, median of %d\n", LAYERS, reuse ? ", some repeated" : "", RUNS);
        slower += bench_all(&s);
    }
    if (slower)
        printf("%d slower than the target\n", slower);
    return 0;
}
