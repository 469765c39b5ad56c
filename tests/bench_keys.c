// From a key to the picture, with the real program on a pseudo terminal: every view at two sizes and two
// depths. The time runs from writing the key to having read and drawn the end of the frame it leads to.
// usage: bench_keys, with the program in $LATHE (default ./lathe)
#include <stdlib.h>
#include <unistd.h>

#include "engine/run.h"
#include "tests/key_views.h"
#include "tests/pty.h"
#include "tests/t.h"

enum { KEYS = 40, WAIT_MS = 400 };
static const double target_ms = 16;
static const char frame_end[] = "\033[?2026l";

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

// ---- one key ------------------------------------------------------------------------------------

// Milliseconds; -1 when no frame came.
static double press(struct pty *p, const char *key)
{
    double start, end;

    while (pty_pump(p, 0) && pty_raw(p)->len)
        buf_reset(pty_raw(p)); // what came by itself
    start = t_now();
    end = start + WAIT_MS * 1e-3;
    pty_send(p, key);
    while (t_now() < end && pty_pump(p, 20)) {
        struct buf *raw = pty_raw(p);

        if (raw->len && memmem(raw->data, raw->len, frame_end, sizeof frame_end - 1))
            return 1e3 * (t_now() - start);
    }
    return -1;
}

// 1 when the median is above the target.
static int report(const struct key_view *v, double *ms, int n)
{
    if (n == 0) {
        printf("  %-18s no frame\n", v->name);
        return 1;
    }
    qsort(ms, (size_t)n, sizeof *ms, by_value);
    printf("  %-18s median %6.2f ms, p95 %6.2f ms, max %6.2f ms (target %.0f)%s", v->name,
           ms[n / 2], ms[n * 95 / 100], ms[n - 1], target_ms,
           ms[n / 2] > target_ms ? " SLOWER" : "");
    printf(n < KEYS ? "; %d keys without a frame\n" : "\n", KEYS - n);
    return ms[n / 2] > target_ms;
}

static int bench_view(const struct key_view *v, const char *profile, const char *run, int rows,
                      int cols)
{
    const char *program = getenv("LATHE") ? getenv("LATHE") : "./lathe";
    const char *const on_profile[] = {program, profile, NULL};
    const char *const on_run[] = {program, "--run", run, NULL};
    struct pty *p = pty_start(v->on_run ? on_run : on_profile, NULL, rows, cols);
    double ms[KEYS];
    int n = 0, at = 0;

    key_view_open(p, v);
    for (int i = 0; i < KEYS; i++) {
        ms[n] = press(p, v->keys[at]);
        n += ms[n] >= 0;
        at = v->keys[at + 1] ? at + 1 : 0;
    }
    pty_free(p);
    return report(v, ms, n);
}

int main(void)
{
    static const int sizes[][2] = {{24, 80}, {60, 200}}, depths[] = {18, 126};
    int slower = 0;

    setenv("LATHE_RUNS", t_path("runs"), 1);
    runs_set_dir(NULL);
    for (int d = 0; d < 2; d++) {
        char profile[512], run[32];

        snprintf(profile, sizeof profile, "%s/bench%d.yaml", t_dir(), depths[d]);
        snprintf(run, sizeof run, "bench%d-1", depths[d]);
        key_views_profile(profile, depths[d]);
        key_views_runs(profile, depths[d]);
        for (int s = 0; s < 2; s++) {
            printf("key to screen, %d layers, %dx%d, %d keys a view\n", depths[d], sizes[s][1],
                   sizes[s][0], KEYS);
            for (int v = 0; v < key_view_count; v++)
                slower += bench_view(&key_views[v], profile, run, sizes[s][0], sizes[s][1]);
            fflush(stdout);
        }
    }
    if (slower)
        printf("%d views slower than the target\n", slower);
    return 0;
}
