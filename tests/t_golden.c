// A fixed tiny model trained for 20 steps: losses near the committed numbers on every backend, and
// the same bits twice on one machine.
#include "tests/t.h"

#include <math.h>

#include "engine/model.h"
#include "engine/optim.h"
#include "tests/tiny.h"

enum { STEPS = 20, N = 10 };

// Computed in double by the reference backend. Mean loss per scored token before each update.
static const double golden[STEPS] = {
    5.022068554629, 3.446936202272, 3.837750997157, 3.010172107698, 2.827116674803,
    2.209603527566, 2.898109959360, 2.523158568478, 2.280979137938, 1.911532487454,
    2.378358291653, 2.297754199361, 2.118981718443, 1.673046106164, 2.139503685436,
    2.178844630238, 1.990310550014, 1.565683444536, 2.027784441267, 2.125783034834};

static void train(const char *backend, double *losses)
{
    struct backend *be = tiny_backend(backend, 2);
    struct spec s = tiny_spec();
    struct model *m;
    struct optim *o;
    int32_t tokens[N], targets[N];

    s.model.qk_norm = QK_FULL;
    m = model_new(be, &s, NULL);
    o = optim_new(m, &s.optim, NULL);
    tiny_fill(m, 7);
    for (int n = 1; n <= STEPS; n++) {
        int scored = 0;
        double sum;

        tiny_batch(m, 11, (uint64_t)(n % 4), tokens, targets); // four batches in turn
        for (int i = 0; i < N; i++)
            scored += targets[i] >= 0;
        model_zero_gradients(m);
        assert_int_equal(model_forward_backward(m, tokens, targets, 1.0 / scored, &sum, NULL), 0);
        optim_step(o, n, optim_lr(&s.optim, n, STEPS), optim_grad_norm(o));
        losses[n - 1] = sum / scored;
    }
    optim_free(o);
    model_free(m);
    backend_close(be);
}

static void check(const char *backend, double tol)
{
    double losses[STEPS];

    train(backend, losses);
    for (int i = 0; i < STEPS; i++)
        assert_near(losses[i], golden[i], tol);
}

static void reference_reproduces_the_golden_losses(void **state)
{
    (void)state;
    check("ref", 1e-9);
}

// f32 against double over 20 updates; other instruction sets round differently.
static void cpu_stays_near_the_golden_losses(void **state)
{
    (void)state;
    check("cpu", 2e-5);
}

static void two_runs_give_the_same_bits(void **state)
{
    double a[STEPS], b[STEPS];

    (void)state;
    train("cpu", a);
    train("cpu", b);
    assert_memory_equal(a, b, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_reproduces_the_golden_losses),
        cmocka_unit_test(cpu_stays_near_the_golden_losses),
        cmocka_unit_test(two_runs_give_the_same_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
