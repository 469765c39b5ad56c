#include "tests/cases.h"

#include <math.h>
#include <string.h>

#include "tests/t.h"

// Elements before and after each array; odd, so that arrays start at any address an engine's
// offsets may give.
enum { GUARD = 37 };
static const double guard_value = 12345.5;

struct tensor *fixture_tensor(struct fixture *f, const char *name)
{
    for (int i = 0; i < f->count; i++)
        if (strcmp(f->t[i].name, name) == 0)
            return &f->t[i];
    return NULL;
}

static void store(struct backend *be, struct tensor *t)
{
    int64_t n = t->n + 2 * GUARD;
    double *all = malloc((size_t)n * sizeof *all);
    int32_t *ints = malloc((size_t)n * sizeof *ints);
    size_t size = t->kind == ACT ? be->act_size : t->kind == F32 ? be->f32_size : sizeof *ints;

    for (int64_t i = 0; i < n; i++) {
        bool inside = i >= GUARD && i < GUARD + t->n;

        all[i] = inside ? t->before[i - GUARD] : guard_value;
        ints[i] = t->kind == I32 ? (int32_t)all[i] : 0;
    }
    t->block = be->op->alloc(be, (size_t)n * size);
    assert_non_null(t->block);
    t->dev = (char *)t->block + GUARD * size;
    if (t->kind == I32) {
        be->op->upload_i32(be, t->block, ints, n);
    } else if (t->kind == F32 || be->act_is_f32) {
        be->op->upload_f64(be, t->block, all, n);
    } else {
        void *tmp = be->op->alloc(be, (size_t)n * be->f32_size);

        be->op->upload_f64(be, tmp, all, n);
        be->op->cast_to_act(be, t->block, tmp, n);
        be->op->release(be, tmp);
    }
    free(all);
    free(ints);
}

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void check_untouched(const struct fixture *f, const struct tensor *t, const double *all)
{
    for (int i = 0; i < GUARD; i++)
        if (all[i] != guard_value || all[GUARD + t->n + i] != guard_value)
            fail_msg("%s wrote outside of %s", f->c->op, t->name);
    for (int64_t i = 0; t->role == IN && i < t->n; i++)
        if (!same((float)t->after[i], (float)t->before[i]))
            fail_msg("%s changed its input %s", f->c->op, t->name);
}

static void load(struct backend *be, struct fixture *f, struct tensor *t)
{
    int64_t n = t->n + 2 * GUARD;
    double *all = malloc((size_t)n * sizeof *all);
    void *tmp = NULL;

    if (t->kind == I32) {
        memcpy(t->after, t->before, (size_t)t->n * sizeof *t->after);
    } else {
        if (t->kind == ACT && !be->act_is_f32) {
            tmp = be->op->alloc(be, (size_t)n * be->f32_size);
            be->op->cast_to_f32(be, tmp, t->block, n);
        }
        be->op->download_f64(be, all, tmp ? tmp : t->block, n);
        memcpy(t->after, all + GUARD, (size_t)t->n * sizeof *all);
        check_untouched(f, t, all);
        be->op->release(be, tmp);
    }
    be->op->release(be, t->block);
    t->block = t->dev = NULL;
    free(all);
}

void fixture_run(struct fixture *f, struct backend *be)
{
    char why[200];

    for (int i = 0; i < f->count; i++)
        store(be, &f->t[i]);
    case_call(f, be);
    if (be->op->sync(be, why, sizeof why) < 0)
        fail_msg("%s: %s", f->c->op, why);
    for (int i = 0; i < f->count; i++)
        load(be, f, &f->t[i]);
}

void fixture_release(struct fixture *f)
{
    for (int i = 0; i < f->count; i++) {
        free(f->t[i].before);
        free(f->t[i].after);
    }
    f->count = 0;
}

bool fixture_forward_of(struct fixture *f, const struct op_case *c, struct op_case *storage)
{
    static char names[8][40];
    static int at;
    const char *tail = strstr(c->op, "_backward");
    char *name = names[at = (at + 1) % 8];

    if (!tail)
        return false;
    snprintf(name, sizeof names[0], "%.*s_forward", (int)(tail - c->op), c->op);
    *storage = *c;
    storage->op = name;
    f->c = storage;
    case_setup(f);
    return true;
}

static void take_from_forward(struct fixture *f, struct backend *ref)
{
    struct op_case c;
    struct fixture fwd;

    if (!fixture_forward_of(&fwd, f->c, &c))
        return;
    fixture_run(&fwd, ref);
    for (int i = 0; i < f->count; i++) {
        struct tensor *from = fixture_tensor(&fwd, f->t[i].name);

        if (from && f->t[i].role == IN)
            memcpy(f->t[i].before, from->after, (size_t)from->n * sizeof(double));
    }
    fixture_release(&fwd);
}

void fixture_init(struct fixture *f, const struct op_case *c, struct backend *ref, bool rounded)
{
    f->c = c;
    case_setup(f);
    take_from_forward(f, ref);
    for (int i = 0; rounded && i < f->count; i++)
        for (int64_t j = 0; j < f->t[i].n; j++)
            f->t[i].before[j] = (float)f->t[i].before[j];
}

static double clip_nan(double x)
{
    return isnan(x) ? INFINITY : fabs(x);
}

struct op_error fixture_compare(const struct fixture *got, const struct fixture *want)
{
    struct op_error e = {0, 0, ""};

    for (int i = 0; i < want->count; i++) {
        const struct tensor *g = &got->t[i], *w = &want->t[i];
        double diff2 = 0, norm2 = 0, worst = 0, scale, rms;

        if (w->role == IN || w->is_null)
            continue;
        for (int64_t j = 0; j < w->n; j++) {
            bool equal = same(g->after[j], w->after[j]);
            double d = equal ? 0 : clip_nan(g->after[j] - w->after[j]);

            diff2 += d * d;
            norm2 += isnan(w->after[j]) ? 0 : w->after[j] * w->after[j];
            worst = fmax(worst, d);
        }
        // values of cases are of order one: below a tenth, rounding of terms that cancel is left
        scale = fmax(sqrt(norm2 / (double)w->n), 0.1);
        rms = sqrt(diff2 / (double)w->n) / scale;
        if (rms > e.rms)
            e.where = w->name;
        e.rms = fmax(e.rms, rms);
        e.max = fmax(e.max, worst / scale);
    }
    return e;
}
