// lathe against golden numbers of an independent PyTorch implementation in double precision
// (tests/parity/reference.py; make parity compares whole tensors, this their norms and projections).
// Every case is a profile in tests/parity/cases; weights and tokens are drawn as
// tests/parity/draw.py says, and both backends go through the probe.
#include "tests/t.h"

#include <glob.h>
#include <jansson.h>
#include <math.h>

#include "engine/buf.h"
#include "engine/param.h"
#include "engine/probe.h"
#include "engine/profile.h"
#include "engine/safetensors.h"
#include "tests/tiny.h"
#include "tests/tokens.h"

enum { LEAST_CASES = 30 };

struct limits {
    double loss, logits, gradient;
    double zero; // norm of a gradient that is zero in exact arithmetic, of the whole gradient's
};

struct job {
    char label[96], name[SPEC_NAME_SIZE], profile[256], golden[256];
    const char *backend;
    struct limits limits;
};

// ---- the draw -----------------------------------------------------------------------------------

static uint64_t key_of(const char *a, const char *b, const char *c)
{
    const char *part[] = {a, "/", b, *c ? "/" : "", c};
    uint64_t h = 0xcbf29ce484222325; // FNV-1a

    for (int i = 0; i < 5; i++)
        for (const char *s = part[i]; *s; s++)
            h = (h ^ (unsigned char)*s) * 0x100000001b3;
    return h;
}

static uint32_t draw(uint64_t key, int64_t i)
{
    uint64_t z = key + ((uint64_t)i + 1) * 0x9e3779b97f4a7c15; // splitmix64

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (uint32_t)((z ^ (z >> 31)) >> 40);
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && !strcmp(s + n - m, end);
}

static double base_of(const struct param *p)
{
    if (p->n_dims == 2 || ends_with(p->name, ".gate.weight"))
        return 0;
    if (ends_with(p->name, ".gate.bias"))
        return 0.05;
    return ends_with(p->name, ".bias") ? 0 : 1;
}

static double scale_of(const struct param *p)
{
    if (p->n_dims == 2)
        return !strncmp(p->name, "model.embed_", 12) ? 0.5 : 2 / sqrt(p->cols);
    if (ends_with(p->name, ".gate.weight"))
        return 1.5 / sqrt(p->cols);
    return ends_with(p->name, ".gate.bias") ? 0.1 : 0.3;
}

// The gate units of the case b_edge; false for all others.
static bool edge(const char *name, const struct param *p, float *x)
{
    if (strcmp(name, "b_edge") || !strstr(p->name, ".gate."))
        return false;
    for (int64_t i = 0; i < p->size; i++)
        x[i] = p->role != PARAM_SKIP_BIAS ? 0 : p->layer == 0 ? 0.25F : p->layer == 1 ? 0.75F : 0;
    return true;
}

static void draw_weight(const char *name, const struct param *p, float *x)
{
    uint64_t key = key_of(name, p->name, "");
    double base = base_of(p), scale = scale_of(p);

    if (edge(name, p, x))
        return;
    for (int64_t i = 0; i < p->size; i++)
        x[i] = (float)(base + scale * ((draw(key, i) - 0x1p23 + 0.5) / 0x1p23));
}

static void write_weights(const struct job *job, const struct spec *spec, const char *path)
{
    struct param_list list;
    struct st_tensor *t;

    param_list_build(&list, spec);
    t = xcalloc((size_t)list.n, sizeof *t);
    for (int i = 0; i < list.n; i++) {
        const struct param *p = &list.v[i];
        float *x = xcalloc((size_t)p->size, sizeof *x);

        draw_weight(job->name, p, x);
        snprintf(t[i].name, sizeof t[i].name, "%s", p->name);
        t[i].n_dims = p->n_dims;
        t[i].shape[0] = p->n_dims == 2 ? p->rows : p->cols;
        t[i].shape[1] = p->cols;
        t[i].size = p->size;
        t[i].data = x;
    }
    assert_int_equal(safetensors_write(path, t, list.n, NULL, NULL), 0);
    for (int i = 0; i < list.n; i++)
        free((void *)(uintptr_t)t[i].data);
    free(t);
    param_list_release(&list);
}

static void write_tokens(const struct job *job, const struct spec *spec, const char *path)
{
    uint64_t key = key_of(job->name, "tokens", "");
    int64_t n = (int64_t)spec->train.micro_batch_size * spec->train.seq_len + 1;
    uint16_t *ids = xcalloc((size_t)n, sizeof *ids);

    for (int64_t i = 0; i < n; i++)
        ids[i] = (uint16_t)((uint64_t)draw(key, i) * (uint64_t)spec->model.vocab >> 24);
    tokens_write_bytes(path, ids, (size_t)n * sizeof *ids);
    free(ids);
}

// ---- comparisons --------------------------------------------------------------------------------

static void compare(double got, double want, double allowed, const char *what)
{
    if (!(fabs(got - want) <= allowed))
        fail_msg("%s is %.12g, expected %.12g (difference %.3g, allowed %.3g)", what, got, want,
                 got - want, allowed);
}

static const struct st_tensor *tensor(const struct safetensors *f, const char *name)
{
    const struct st_tensor *t = safetensors_find(f, name);

    if (!t)
        fail_msg("the probe wrote no '%s'", name);
    return t;
}

static double number(const json_t *list, size_t i)
{
    const json_t *v = json_array_get(list, i);

    assert_true(json_is_number(v));
    return json_number_value(v);
}

// want: norm, and projections on two vectors of signs
static void compare_summary(const struct job *job, const struct st_tensor *t, const json_t *want,
                            double allowed)
{
    double norm = 0;
    char what[160];

    for (int64_t i = 0; i < t->size; i++)
        norm += (double)t->data[i] * t->data[i];
    snprintf(what, sizeof what, "norm of %s", t->name);
    compare(sqrt(norm), number(want, 0), allowed, what);
    for (int k = 0; k < 2; k++) {
        uint64_t key = key_of(job->name, t->name, k ? "1" : "0");
        double sum = 0;

        for (int64_t i = 0; i < t->size; i++)
            sum += draw(key, i) & 1 ? -(double)t->data[i] : t->data[i];
        snprintf(what, sizeof what, "projection %d of %s", k, t->name);
        compare(sum, number(want, (size_t)k + 1), allowed, what);
    }
}

static void compare_row(const float *got, const json_t *want, double tol, const char *what)
{
    double largest = 0;

    for (size_t i = 0; i < json_array_size(want); i++)
        largest = fmax(largest, fabs(number(want, i)));
    for (size_t i = 0; i < json_array_size(want); i++)
        compare(got[i], number(want, i), tol * largest, what);
}

static void compare_logits(const struct job *job, const struct safetensors *f, const json_t *golden)
{
    const struct st_tensor *t = tensor(f, "logits");
    const json_t *first = json_object_get(golden, "first row");
    int64_t width = (int64_t)json_array_size(first);

    assert_int_equal(t->n_dims, 3);
    assert_int_equal(t->shape[2], width);
    compare_row(t->data, first, job->limits.logits, "a logit of the first row");
    compare_row(t->data + t->size - width, json_object_get(golden, "last row"), job->limits.logits,
                "a logit of the last row");
    compare_summary(job, t, json_object_get(golden, "logits"),
                    job->limits.logits * number(json_object_get(golden, "logits"), 0));
}

static void compare_losses(const struct job *job, const struct safetensors *f, const json_t *golden)
{
    static const char *const losses[] = {"loss", "loss_total"};

    for (int i = 0; i < 2; i++) {
        double want = json_number_value(json_object_get(golden, losses[i]));

        assert_true(want > 0);
        compare(tensor(f, losses[i])->data[0], want, job->limits.loss * want, losses[i]);
    }
}

static void compare_gates(const struct job *job, const struct safetensors *f, const json_t *golden)
{
    static const char *const stats[] = {"gate.mean", "gate.var", "gate.sparsity"};

    for (int i = 0; i < 3; i++) {
        const json_t *want = json_object_get(golden, stats[i]);
        const struct st_tensor *t = safetensors_find(f, stats[i]);

        assert_int_equal(t ? t->size : 0, json_array_size(want));
        for (size_t j = 0; j < json_array_size(want); j++)
            compare(t->data[j], number(want, j), job->limits.loss, stats[i]);
    }
}

// "grad.…" of both sides are the same set; returns the norm of the whole gradient.
static double match_gradients(const struct safetensors *f, json_t *golden)
{
    const char *name;
    json_t *want;
    double sum = 0;
    int n = 0;

    json_object_foreach(golden, name, want) if (!strncmp(name, "grad.", 5))
    {
        sum += number(want, 0) * number(want, 0);
        n++;
    }
    for (int i = 0; i < f->n; i++)
        n -= !strncmp(f->t[i].name, "grad.", 5);
    assert_int_equal(n, 0);
    return sqrt(sum);
}

static void compare_gradients(const struct job *job, const struct safetensors *f, json_t *golden)
{
    double whole = match_gradients(f, golden);
    const char *name;
    json_t *want;

    json_object_foreach(golden, name, want) if (!strncmp(name, "grad.", 5))
    {
        double norm = number(want, 0);
        bool zero = norm < 1e-12 * whole; // but for rounding

        compare_summary(job, tensor(f, name), want,
                        zero ? job->limits.zero * whole : job->limits.gradient * norm);
    }
}

static void run_probe(const struct job *job, const struct spec *spec, const char *out)
{
    const char *tokens = t_path("tokens"), *weights = t_path("weights");
    struct err err = ERR_INIT;
    struct probe p = {.spec = spec, .weights = weights};
    struct probe_result r;
    struct shard shard;

    write_weights(job, spec, weights);
    write_tokens(job, spec, tokens);
    assert_int_equal(shard_open(&shard, tokens, TOKENS_U16, &err), 0);
    p.tokens = &shard;
    p.be = tiny_backend(job->backend, 2);
    if (probe_write(&p, out, &r, &err) < 0)
        fail_msg("%s: %s", job->name, err.text);
    backend_close(p.be);
    shard_close(&shard);
}

static void agrees(void **state)
{
    const struct job *job = *state;
    const char *out = t_path("probe");
    json_t *golden = json_load_file(job->golden, JSON_REJECT_DUPLICATES, NULL);
    struct problems problems = {0};
    struct safetensors f;
    struct spec spec;

    if (!golden)
        fail_msg("%s is missing or broken: tests/parity/parity.py --golden %s", job->golden,
                 job->name);
    assert_int_equal(profile_load(job->profile, NULL, 0, &spec, &problems), 0);
    problems_release(&problems);
    run_probe(job, &spec, out);
    assert_int_equal(safetensors_open(&f, out, NULL), 0);
    compare_losses(job, &f, golden);
    compare_logits(job, &f, golden);
    compare_gates(job, &f, golden);
    compare_gradients(job, &f, golden);
    safetensors_close(&f);
    json_decref(golden);
}

// ---- one test per case and backend --------------------------------------------------------------

// The reference backend computes in double, but its results, RoPE's tables apart, pass through f32.
static const struct {
    const char *name;
    struct limits limits;
} backends[] = {
    {"cpu", {.loss = 1e-6, .logits = 1e-4, .gradient = 1e-4, .zero = 1e-6}},
    {"ref", {.loss = 2e-7, .logits = 1e-6, .gradient = 1e-5, .zero = 1e-9}},
};

static struct job make_job(const char *profile, int backend)
{
    const char *base = strrchr(profile, '/') + 1;
    struct job job = {.backend = backends[backend].name, .limits = backends[backend].limits};

    snprintf(job.profile, sizeof job.profile, "%s", profile);
    snprintf(job.name, sizeof job.name, "%.*s", (int)(strlen(base) - strlen(".yaml")), base);
    snprintf(job.label, sizeof job.label, "%s on %s", job.name, job.backend);
    snprintf(job.golden, sizeof job.golden, "tests/parity/golden/%s.json", job.name);
    return job;
}

int main(void)
{
    struct CMUnitTest *tests;
    struct job *jobs;
    glob_t found;
    size_t n = 0;
    int rc;

    if (glob("tests/parity/cases/*.yaml", 0, NULL, &found) || found.gl_pathc < LEAST_CASES) {
        fprintf(stderr, "tests/parity/cases has fewer than %d profiles\n", LEAST_CASES);
        return 1;
    }
    jobs = xcalloc(2 * found.gl_pathc, sizeof *jobs);
    tests = xcalloc(2 * found.gl_pathc, sizeof *tests);
    for (size_t i = 0; i < found.gl_pathc; i++)
        for (int b = 0; b < 2; b++, n++) {
            jobs[n] = make_job(found.gl_pathv[i], b);
            tests[n] = (struct CMUnitTest){jobs[n].label, agrees, NULL, NULL, &jobs[n]};
        }
    rc = _cmocka_run_group_tests("parity", tests, n, NULL, NULL);
    globfree(&found);
    free(tests);
    free(jobs);
    return rc;
}
