#include "tests/key_views.h"

#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/profile.h"
#include "tests/fake_run.h"
#include "tests/t.h"

enum { RUNS = 30 };

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

const struct key_view key_views[] = {
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
const int key_view_count = sizeof key_views / sizeof *key_views;

void key_views_profile(const char *path, int n_layers)
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

void key_views_runs(const char *profile, int n_layers)
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

void key_view_open(struct pty *p, const struct key_view *v)
{
    pty_wait(p, v->on_run ? "bench" : "total");
    for (const char *key = v->open; *key; key++) {
        char one[2] = {*key, 0};

        buf_reset(pty_raw(p));
        pty_send(p, one);
        for (int i = 0; i < 20 && !pty_raw(p)->len; i++)
            pty_pump(p, 20);
    }
    pty_wait(p, v->shows);
}
