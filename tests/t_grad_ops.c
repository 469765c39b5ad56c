// Backward ops of the reference against central differences of its forward ops, in double.
#include "tests/t.h"

#include <math.h>

#include "kernels/backend.h"
#include "kernels/oplist.h"
#include "tests/cases.h"

enum { SAMPLES = 24, SAMPLES_OF_LARGE = 6, LARGE = 2000 }; // of each input
static const double step = 1e-5, tolerance = 1e-7;

static struct backend *ref;

// The gradient of tensor `name` is called "d" + name. That of `prev` leaves as `dsum`, because
// sum = prev + relu(pre).
static struct tensor *gradient(struct fixture *bwd, const char *name)
{
    char dname[32];

    if (strcmp(name, "prev") == 0)
        return fixture_tensor(bwd, "dsum");
    snprintf(dname, sizeof dname, "d%s", name);
    return fixture_tensor(bwd, dname);
}

// sum over the outputs of (incoming gradient . output)
static double objective(struct fixture *fwd, struct fixture *bwd)
{
    double sum = 0;

    fixture_run(fwd, ref);
    for (int i = 0; i < fwd->count; i++) {
        struct tensor *out = &fwd->t[i], *g = gradient(bwd, out->name);

        if (out->role == IN || !g || g->is_null)
            continue;
        for (int64_t j = 0; j < out->n; j++)
            sum += isnan(out->after[j]) ? 0 : g->before[j] * out->after[j];
    }
    return sum;
}

static double difference(struct fixture *fwd, struct fixture *bwd, double *x)
{
    double was = *x, up, down;

    *x = was + step;
    up = objective(fwd, bwd);
    *x = was - step;
    down = objective(fwd, bwd);
    *x = was;
    return (up - down) / (2 * step);
}

// Gradients that accumulate start from what was there; those of in-place ops do not.
static bool starts_from_before(const struct tensor *g)
{
    return g->role == INOUT && strcmp(g->name, "dqk") != 0 && strcmp(g->name, "dsum") != 0;
}

static double rms_of(const struct tensor *t)
{
    double sum = 0;

    for (int64_t i = 0; i < t->n; i++)
        sum += isnan(t->after[i]) ? 0 : t->after[i] * t->after[i];
    return sqrt(sum / (double)t->n);
}

static int check_input(struct fixture *fwd, struct fixture *bwd, struct tensor *x, struct tensor *g)
{
    int most = x->n > LARGE ? SAMPLES_OF_LARGE : SAMPLES, checked = 0;
    int samples = x->n < most ? (int)x->n : most;
    double scale = fmax(1, rms_of(g));

    for (int s = 0; s < samples; s++) {
        int64_t at = x->n <= most ? s : (int64_t)(s * 0.618033988 * (double)x->n) % x->n;
        double analytic = g->after[at], numeric;

        if (isnan(analytic)) // a gap between strided rows
            continue;
        analytic -= starts_from_before(g) ? g->before[at] : 0;
        numeric = difference(fwd, bwd, &x->before[at]);
        if (!(fabs(analytic - numeric) <= tolerance * scale))
            fail_msg("%s, case %ld: d%s[%ld] is %.12g, differences give %.12g", bwd->c->op,
                     (long)(bwd->c - op_cases), x->name, (long)at, analytic, numeric);
        checked++;
    }
    return checked;
}

static void check_case(const struct op_case *c)
{
    struct fixture fwd, bwd;
    struct op_case storage;
    int checked = 0;

    fixture_init(&bwd, c, ref, false);
    fixture_run(&bwd, ref);
    assert_true(fixture_forward_of(&fwd, c, &storage));
    for (int i = 0; i < fwd.count; i++) {
        struct tensor *x = &fwd.t[i], *g = gradient(&bwd, x->name);

        if (x->role != OUT && x->kind != I32 && !x->is_null && g && !g->is_null)
            checked += check_input(&fwd, &bwd, x, g);
    }
    if (checked == 0)
        fail_msg("%s, case %ld: no gradient was checked", c->op, (long)(c - op_cases));
    fixture_release(&fwd);
    fixture_release(&bwd);
}

static void backward_is_the_derivative_of_forward(void **state)
{
    const char *op = *state;

    for (int i = 0; i < op_cases_count; i++)
        if (strcmp(op_cases[i].op, op) == 0)
            check_case(&op_cases[i]);
}

static double scaled_loss(struct fixture *f)
{
    const struct tensor *loss = fixture_tensor(f, "loss");
    double sum = 0;

    fixture_run(f, ref);
    for (int64_t i = 0; i < loss->n; i++)
        sum += 0.25 * loss->after[i];
    return sum;
}

static void xent_gradient_is_the_derivative_of_the_loss(void **state)
{
    static const struct op_case c = {"softmax_xent", {5, 9, 12}, 0};
    struct fixture f;
    double *x, analytic[5 * 12];

    (void)state;
    fixture_init(&f, &c, ref, false);
    fixture_tensor(&f, "target")->before[2] = -1;
    fixture_run(&f, ref);
    memcpy(analytic, fixture_tensor(&f, "logits")->after, sizeof analytic);
    x = fixture_tensor(&f, "logits")->before;
    for (int i = 0; i < 5 * 12; i++) {
        double was = x[i], up, down;

        x[i] = was + step;
        up = scaled_loss(&f);
        x[i] = was - step;
        down = scaled_loss(&f);
        x[i] = was;
        assert_near(analytic[i], (up - down) / (2 * step), tolerance);
    }
    fixture_release(&f);
}

static int open_ref(void **state)
{
    char why[200];

    (void)state;
    ref = backend_open("ref", 1, why, sizeof why);
    return ref ? 0 : -1;
}

static int close_ref(void **state)
{
    (void)state;
    backend_close(ref);
    return 0;
}

#define GRAD(op)                                                                                   \
    {                                                                                              \
#op, backward_is_the_derivative_of_forward, NULL, NULL, (void *)(uintptr_t) #op            \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        GRAD(embedding_backward),
        GRAD(rmsnorm_backward),
        GRAD(layernorm_backward),
        GRAD(linear_backward),
        GRAD(rope_backward),
        GRAD(attention_backward),
        GRAD(swiglu_backward),
        GRAD(gelu_backward),
        GRAD(residual_backward),
        GRAD(gate_backward),
        cmocka_unit_test(xent_gradient_is_the_derivative_of_the_loss),
    };

    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
