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

// Every layer its own widths, some repeated, so that no two cost the same.
static int load(struct spec *s)
{
    static const char *const set[] = {"model.n_layers=126", "model.ffn_step=64"};
    struct problems p = {0};
    int rc = profile_load("profiles/A/crown18.yaml", set, 2, s, &p);

    problems_print(&p, stderr);
    problems_release(&p);
    for (int i = 0; i < LAYERS; i++)
        s->model.lane[LANE_REUSE][i] = i % 7 == 3 ? 2 : 1;
    return rc;
}

// Above what the profile has, so that all layers must move. 1 where that was too slow.
static int bench(const struct spec *s, enum solve_by by, enum budget budget)
{
    struct solved *out = xmalloc(sizeof *out);
    struct solve_request r = {.budget = budget, .by = by};
    struct err err = ERR_INIT;
    double ms[RUNS];
    int rc = 0;

    count_model(s, &out->count);
    r.target = 1.137 * budget_value(budget, s, &out->count);
    for (int i = 0; i < RUNS && rc == 0; i++) {
        double start = now_ms();

        rc = solve(s, &r, out, &err);
        ms[i] = now_ms() - start;
    }
    if (rc == 0) {
        qsort(ms, RUNS, sizeof *ms, by_value);
        printf("  %-7s %-13s %8.3f ms (target %.0f)%s  %+.3f%%\n", solve_names[by],
               budget_rows[budget].name, ms[RUNS / 2], target_ms,
               ms[RUNS / 2] > target_ms ? " SLOWER" : "", 100 * out->residual / r.target);
    } else {
        printf("  %-7s %-13s %s\n", solve_names[by], budget_rows[budget].name, err.text);
    }
    free(out);
    return rc == 0 && ms[RUNS / 2] > target_ms;
}

int main(void)
{
    struct spec s;
    int slower = 0;

    if (load(&s) < 0)
        return 1;
    printf("solve, %d layers, median of %d\n", LAYERS, RUNS);
    for (int by = 0; by < SOLVE_TOKENS; by++)
        for (int b = 0; b < BUDGET_KINDS; b++)
            if (b != BUDGET_KV || by != SOLVE_FFN) // which it does not change
                slower += bench(&s, (enum solve_by)by, (enum budget)b);
    slower += bench(&s, SOLVE_TOKENS, BUDGET_TRAIN_FLOPS);
    if (slower)
        printf("%d slower than the target\n", slower);
    return 0;
}
