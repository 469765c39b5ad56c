// From a key to the picture, with the real program on a pseudo terminal: every view at two sizes and two
// depths. The time runs from writing the key to having read and drawn the end of the frame it leads to.
// usage: bench_keys, with the program in $LATHE (default ./lathe)
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/profile.h"
#include "engine/run.h"
#include "tests/fake_run.h"
#include "tests/pty.h"
#include "tests/t.h"

enum { KEYS = 40, RUNS = 30, WAIT_MS = 400 };
static const double target_ms = 16;
static const char frame_end[] = "\033[?2026l";

struct view {
    const char *name;
    bool on_run;             // opened on a run, else on the profile
    const char *open;        // keys that lead to it
    const char *shows;       // then on the screen
    const char *const *keys; // that change the picture, in turn
};

static const char *const design[] = {"k", "l", "k", "j", "h", "K", NULL};
static const char *const drag[] = {"\033[<0;20;9M", "\033[<32;40;7M", "\033[<32;24;12M",
                                   "\033[<32;60;8M", "\033[<0;60;8m", NULL};
static const char *const states[] = {"k", "k", "j", NULL};
static const char *const compared[] = {"l", "l", "]", "h", NULL};
static const char *const tabled[] = {"j", "]", "k", NULL};
static const char *const form[] = {"j", "j", "k", NULL};
static const char *const match[] = {"\177", "M", NULL};
static const char *const match_memory[] = {"\177", "G", NULL};
static const char *const monitor[] = {"m", "x", "o", NULL};
static const char *const layers[] = {"\033[C", "\033[C", "\033[D", NULL};
static const char *const list[] = {"j", "j", "k", NULL};

static const struct view views[] = {
    {"Design", false, "", "total", design},
    {"Design, drag", false, "", "total", drag},
    {"Design, held", false, "b\025params reference\rB", "held", design},
    {"Design, held drag", false, "b\025params reference\rB", "held", drag},
    {"History", false, "klklklU", "as opened", states},
    {"Compare, overlay", false, "T\rkT\rklkT\rKC", "overlay", compared},
    {"Compare, beside", false, "T\rkT\rklkT\rKC\t", "side by side", compared},
    {"Compare, layers", false, "T\rkT\rklkT\rKC\t\t", "layers", tabled},
    {"Compare, ledger", false, "T\rkT\rklkT\rKC\t\t\t", "ledger", tabled},
    {"Design, form", false, "e", "d_model", form},
    {"match, params", false, "m\025ffn params 190M", "190M", match},
    {"match, memory", false, "m\025ffn memory 90G", "90G", match_memory},
    {"Monitor", true, "", "bench", monitor},
    {"Monitor, layers", true, "g", "bench", layers},
    {"Runs", true, "3", "bench", list},
};
enum { VIEWS = sizeof views / sizeof *views };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

// ---- what is looked at --------------------------------------------------------------------------

static void write_profile(const char *path, int n_layers)
{
    char here[PATH_MAX], text[PATH_MAX + 200];

    assert_non_null(getcwd(here, sizeof here));
    snprintf(text, sizeof text,
             "extends: %s/profiles/A/crown18.yaml\nname: bench%d\nmodel:\n  n_layers: %d\n"
             "  ffn_step: 64\n",
             here, n_layers, n_layers);
    t_write(path, text);
}

// What the layers did, as evaluations record it.
static void add_layers(const char *dir, int n_layers)
{
    for (int step = 0; step <= 1000; step += 50) {
        json_t *norms = json_array();

        for (int i = 0; i < n_layers; i++)
            json_array_append_new(norms, json_real(1 + 0.01 * i + 0.001 * step));
        fake_run_record(dir, json_pack("{s:i, s:i, s:f, s:f, s:o}", "step", step, "tokens",
                                       step * FAKE_TOKENS_PER_STEP, "time", 1e9 + step, "val/loss",
                                       3.0, "resid/norm", norms));
    }
}

static void make_runs(const char *profile, int n_layers)
{
    struct spec *spec = calloc(1, sizeof *spec);
    struct problems p = {0};

    assert_int_equal(profile_load(profile, NULL, 0, spec, &p), 0);
    problems_release(&p);
    for (int i = 0; i < RUNS; i++) {
        char id[32], dir[512];

        snprintf(id, sizeof id, "bench%d-%d", n_layers, i + 1);
        fake_run_make_of(spec, id, RUN_DONE, i == 0 ? 1099 : 200, dir);
        if (i == 0)
            add_layers(dir, n_layers);
    }
    free(spec);
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

static void open_view(struct pty *p, const struct view *v)
{
    pty_wait(p, v->on_run ? "bench" : "total");
    for (const char *key = v->open; *key; key++) {
        char one[2] = {*key, 0};

        press(p, one);
    }
    pty_wait(p, v->shows);
}

// 1 when the median is above the target.
static int report(const struct view *v, double *ms, int n)
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

static int bench_view(const struct view *v, const char *profile, const char *run, int rows,
                      int cols)
{
    const char *program = getenv("LATHE") ? getenv("LATHE") : "./lathe";
    const char *const on_profile[] = {program, profile, NULL};
    const char *const on_run[] = {program, "--run", run, NULL};
    struct pty *p = pty_start(v->on_run ? on_run : on_profile, NULL, rows, cols);
    double ms[KEYS];
    int n = 0, at = 0;

    open_view(p, v);
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
        write_profile(profile, depths[d]);
        make_runs(profile, depths[d]);
        for (int s = 0; s < 2; s++) {
            printf("key to screen, %d layers, %dx%d, %d keys a view\n", depths[d], sizes[s][1],
                   sizes[s][0], KEYS);
            for (int v = 0; v < VIEWS; v++)
                slower += bench_view(&views[v], profile, run, sizes[s][0], sizes[s][1]);
            fflush(stdout);
        }
    }
    if (slower)
        printf("%d views slower than the target\n", slower);
    return 0;
}
