// Every op of the cpu backend against the reference: all cases, plus what holds for any backend.
#include "tests/t.h"

#include <math.h>
#include <time.h>

#include "kernels/backend.h"
#include "kernels/cpu.h"
#include "kernels/oplist.h"
#include "kernels/trace.h"
#include "tests/cases.h"

static struct backend *ref, *cpu, *traced;

static struct backend *open_backend(const char *name, int threads)
{
    char why[200] = "";
    struct backend *be = backend_open(name, threads, why, sizeof why);

    if (!be)
        fail_msg("%s: %s", name, why);
    return be;
}

static void compare_case(const struct op_case *c, struct backend *be)
{
    const struct op_limit *limit = op_limit(c->op);
    struct fixture want, got;
    struct op_error e;

    fixture_init(&want, c, ref, true);
    fixture_init(&got, c, ref, true);
    fixture_run(&want, ref);
    fixture_run(&got, be);
    e = fixture_compare(&got, &want);
    if (e.rms > limit->warn || getenv("LATHE_OP_ERRORS"))
        printf("# %s %s[%ld]: rms error %.2e, largest %.2e\n", c->op, e.where, (long)(c - op_cases),
               e.rms, e.max);
    if (!(e.rms <= limit->pass && e.max <= limit->pass_max))
        fail_msg("%s, case %ld (%d %d %d): %s has rms error %.3g (limit %.3g), largest %.3g "
                 "(limit %.3g)",
                 c->op, (long)(c - op_cases), c->dim[0], c->dim[1], c->dim[2], e.where, e.rms,
                 limit->pass, e.max, limit->pass_max);
    fixture_release(&want);
    fixture_release(&got);
}

static void compare_op(const char *op, struct backend *be)
{
    int n = 0;

    for (int i = 0; i < op_cases_count; i++) {
        if (strcmp(op_cases[i].op, op) != 0)
            continue;
        compare_case(&op_cases[i], be);
        n++;
    }
    if (n == 0)
        fail_msg("op %s has no case", op);
}

static void cpu_op_matches_reference(void **state)
{
    compare_op(*state, cpu);
}

static int op_index(const char *op)
{
    int i = 0;

    while (strcmp(backend_op_name(i), op) != 0)
        i++;
    return i;
}

static void trace_counts_and_changes_nothing(void **state)
{
    const char *op = *state;
    uint64_t cases = 0;

    trace_reset(traced);
    compare_op(op, traced);
    for (int i = 0; i < op_cases_count; i++)
        cases += strcmp(op_cases[i].op, op) == 0;
    assert_int_equal(trace_row(traced, op_index(op))->calls, cases);
    assert_true(trace_row(traced, op_index(op))->bytes >= 4 * cases);
    assert_true(trace_row(traced, op_index(op))->ns > 0);
    assert_null(trace_first_bad(traced).op);
}

// The output that goes bad is named, and stays the first although later ones are bad too.
static void trace_names_the_op_that_went_bad(void **state)
{
    static const struct op_case good = {"gelu_forward", {33}, 0};
    static const struct op_case bad = {"rmsnorm_backward", {5, 3, 24, 48, 7}, 0};
    struct fixture f;

    (void)state;
    trace_reset(traced);
    for (int pass = 0; pass < 3; pass++) {
        fixture_init(&f, pass == 0 ? &good : &bad, ref, true);
        if (pass > 0)
            fixture_tensor(&f, pass == 1 ? "dw" : "dy")->before[0] = NAN;
        fixture_run(&f, traced);
        fixture_release(&f);
    }
    assert_string_equal(trace_first_bad(traced).op, "rmsnorm_backward");
    assert_string_equal(trace_first_bad(traced).output, "dw");
    trace_reset(traced);
    assert_null(trace_first_bad(traced).op);
}

static void run_twice(struct backend *a, struct backend *b, void (*between)(struct backend *))
{
    for (int i = 0; i < op_cases_count; i++) {
        struct fixture one, two;

        fixture_init(&one, &op_cases[i], ref, true);
        fixture_init(&two, &op_cases[i], ref, true);
        fixture_run(&one, a);
        if (between)
            between(b);
        fixture_run(&two, b);
        for (int t = 0; t < one.count; t++)
            if (memcmp(one.t[t].after, two.t[t].after, (size_t)one.t[t].n * sizeof(double)) != 0)
                fail_msg("%s, case %d: %s differs between two runs", op_cases[i].op, i,
                         one.t[t].name);
        fixture_release(&one);
        fixture_release(&two);
    }
}

static void same_thread_count_gives_same_bits(void **state)
{
    struct backend *again = open_backend("cpu", 2);

    (void)state;
    run_twice(cpu, again, NULL);
    backend_close(again);
}

static void scratch_contents_never_matter(void **state)
{
    (void)state;
    run_twice(cpu, cpu, cpu_poison_scratch);
}

static void any_thread_count_is_right(void **state)
{
    static const int counts[] = {1, 3, 7};

    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct backend *be = open_backend("cpu", counts[i]);

        assert_int_equal(be->threads, counts[i]);
        for (int c = 0; c < op_cases_count; c++)
            compare_case(&op_cases[c], be);
        backend_close(be);
    }
}

// Every instruction set this processor has, not only the one backend_open picks.
static void every_instruction_set_is_right(void **state)
{
    struct backend *be = open_backend("cpu", 2);
    int tried = 0;

    (void)state;
    for (int i = 0; cpu_vec_tables[i]; i++) {
        if (!cpu_vec_tables[i]->runs_here())
            continue;
        ((struct cpu *)be->state)->vec = cpu_vec_tables[i];
        for (int c = 0; c < op_cases_count; c++)
            compare_case(&op_cases[c], be);
        printf("# %s checked\n", cpu_vec_tables[i]->name);
        tried++;
    }
    assert_true(tried > 0);
    backend_close(be);
}

static void exponential_is_right_to_two_ulp(void **state)
{
    enum { N = 200000 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);

    (void)state;
    for (int t = 0; cpu_vec_tables[t]; t++) {
        double worst = 0;

        if (!cpu_vec_tables[t]->runs_here())
            continue;
        for (int i = 0; i < N; i++)
            x[i] = -87.3f + 175.6f * (float)i / N;
        cpu_vec_tables[t]->exp(y, x, N);
        for (int i = 0; i < N; i++) {
            double right = exp((double)x[i]), ulp = ldexp(1, ilogb(right) - 23);

            worst = fmax(worst, fabs(y[i] - right) / ulp);
        }
        printf("# exp, %s: largest error %.2f ulp\n", cpu_vec_tables[t]->name, worst);
        assert_true(worst < 2);
        memcpy(x, (float[]){NAN, -INFINITY, INFINITY, 0, -1e30f, 1e30f, -0.0f}, 7 * sizeof *x);
        cpu_vec_tables[t]->exp(y, x, 7);
        assert_true(isnan(y[0]) && y[1] == 0 && y[2] == INFINITY && y[3] == 1 && y[4] == 0);
        assert_true(y[5] == INFINITY && y[6] == 1);
    }
    free(x);
    free(y);
}

// From the far left, where it must be 0, over the seam of the two polynomials, to the far right.
static void gelu_is_right_over_its_whole_range(void **state)
{
    enum { N = 40001 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);

    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = -20 + (float)i / 1000;
    for (int t = 0; cpu_vec_tables[t]; t++) {
        if (!cpu_vec_tables[t]->runs_here())
            continue;
        cpu_vec_tables[t]->gelu_erf(y, x, N);
        for (int i = 0; i < N; i++)
            assert_near(y[i], x[i] / 2.0 * (1 + erf(x[i] / M_SQRT2)), 2e-7);
        cpu_vec_tables[t]->gelu_tanh(y, x, N);
        for (int i = 0; i < N; i++)
            assert_near(y[i],
                        x[i] / 2.0 * (1 + tanh(sqrt(2 / M_PI) * (x[i] + 0.044715 * pow(x[i], 3)))),
                        4e-7);
        x[0] = NAN;
        cpu_vec_tables[t]->gelu_erf(y, x, 1);
        assert_true(isnan(y[0]));
        x[0] = -20;
    }
    free(x);
    free(y);
}

// ---- NaN -------------------------------------------------------------------------------------

static bool is_read(struct fixture *f, const struct tensor *t)
{
    if (t->kind == I32 || t->role == OUT || t->is_null)
        return false;
    if (strcmp(f->c->op, "embedding_forward") == 0)
        return false; // which rows are read depends on the tokens
    if (strcmp(t->name, "w") == 0 && f->c->flags & NO_DX)
        return false;
    if (strcmp(f->c->op, "gate_stats") == 0)
        return strcmp(t->name, "g") == 0; // the others show in the shares, behind the first output
    if (strcmp(f->c->op, "residual_backward") == 0 && f->c->flags & NO_GATE)
        return strcmp(t->name, "s") != 0;
    return !(strcmp(t->name, "x") == 0 && f->c->flags & NO_DW);
}

// One NaN, or many where single elements may rightly go unread: tables, and the gradients of a
// clamped gate.
static void put_nan(struct tensor *t)
{
    static const char *const partly_read[] = {"cos", "sin", "dg", "dlogg"};
    int64_t n = 1;

    for (size_t i = 0; i < sizeof partly_read / sizeof partly_read[0]; i++)
        if (strcmp(t->name, partly_read[i]) == 0)
            n = t->n;
    for (int64_t i = 0; i < n; i++)
        t->before[i] = NAN;
}

// Puts NaN into each floating input in turn; some output must show it.
static void a_nan_is_never_hidden(void **state)
{
    (void)state;
    for (int i = 0; i < op_cases_count; i++) {
        for (int t = 0; t < CASE_TENSORS; t++) {
            struct fixture f;
            bool seen = false;

            fixture_init(&f, &op_cases[i], ref, true);
            // an element that is read whatever the strides: the first
            if (t < f.count && is_read(&f, &f.t[t])) {
                struct tensor *target = fixture_tensor(&f, "target");

                if (target)
                    target->before[0] = 0;
                put_nan(&f.t[t]);
                fixture_run(&f, cpu);
                for (int o = 0; o < f.count; o++)
                    for (int64_t j = 0; f.t[o].role != IN && !f.t[o].is_null && j < f.t[o].n; j++)
                        seen = seen || (isnan(f.t[o].after[j]) && !isnan(f.t[o].before[j])) ||
                               (f.t[o].role == OUT && j == 0 && isnan(f.t[o].after[j])) ||
                               (o == t && isnan(f.t[o].after[0]));
                if (!seen)
                    fail_msg("%s, case %d: a NaN in %s is not seen", f.c->op, i, f.t[t].name);
            }
            fixture_release(&f);
        }
    }
}

static void nan_logit_anywhere_gives_nan_loss(void **state)
{
    static const struct op_case c = {"softmax_xent", {1, 257, 320}, 0};

    (void)state;
    for (int at = 0; at < 257; at++) {
        struct fixture f;

        fixture_init(&f, &c, ref, true);
        fixture_tensor(&f, "target")->before[0] = 3;
        fixture_tensor(&f, "logits")->before[at] = NAN;
        fixture_run(&f, cpu);
        assert_true(isnan(fixture_tensor(&f, "loss")->after[0]));
        fixture_release(&f);
    }
}

static void extreme_logits_stay_exact(void **state)
{
    static const struct op_case c = {"softmax_xent", {1, 3, 3}, 0};
    struct fixture f;

    (void)state;
    fixture_init(&f, &c, ref, true);
    fixture_tensor(&f, "target")->before[0] = 0;
    for (int i = 0; i < 3; i++)
        fixture_tensor(&f, "logits")->before[i] = i == 0 ? 1e4 : -1e30;
    fixture_run(&f, cpu);
    assert_true(fixture_tensor(&f, "loss")->after[0] == 0);
    assert_true(fixture_tensor(&f, "logits")->after[1] == 0);
    fixture_tensor(&f, "target")->before[0] = 1;
    fixture_run(&f, cpu);
    assert_near(fixture_tensor(&f, "loss")->after[0] / 1e30, 1, 1e-6);
    fixture_release(&f);
}

// ---- the bias of the keys, which carries log g -----------------------------------------------

static const struct op_case attention = {"attention_forward", {2, 33, 33, 2, 1, 24, 0}, NO_SLOPES};

static void attend(struct fixture *f, struct backend *be, double bias, int only_key)
{
    struct tensor *t;

    fixture_init(f, &attention, ref, true);
    t = fixture_tensor(f, "kbias");
    for (int64_t i = 0; i < t->n; i++)
        t->before[i] = only_key < 0 || i % 33 == only_key ? bias : 0;
    fixture_run(f, be);
}

static void constant_key_bias_changes_nothing(void **state)
{
    struct fixture plain, biased;
    struct backend *be = *(struct backend **)*state;

    attend(&plain, be, 0, -1);
    attend(&biased, be, log(0.25), -1);
    for (int64_t i = 0; i < fixture_tensor(&plain, "y")->n; i++)
        assert_near(fixture_tensor(&biased, "y")->after[i], fixture_tensor(&plain, "y")->after[i],
                    2e-6);
    for (int64_t i = 0; i < fixture_tensor(&plain, "lse")->n; i++)
        assert_near(fixture_tensor(&biased, "lse")->after[i],
                    fixture_tensor(&plain, "lse")->after[i] + log(0.25), 2e-6);
    fixture_release(&plain);
    fixture_release(&biased);
}

// With weights e_s and bias log g at key 5: exp(lse) falls by (1 - g) e_5 where key 5 is visible
// and stays where it is not. e_5 comes from v = one at key 5, zero elsewhere.
static void bias_of_one_key_scales_its_weight(void **state)
{
    struct fixture plain, biased;
    struct backend *be = *(struct backend **)*state;
    double g = 0.25;

    for (int pass = 0; pass < 2; pass++) {
        struct fixture *f = pass ? &biased : &plain;

        fixture_init(f, &attention, ref, true);
        for (int64_t i = 0; i < fixture_tensor(f, "v")->n; i++)
            fixture_tensor(f, "v")->before[i] = i / 24 % 33 == 5;
        for (int64_t i = 0; i < fixture_tensor(f, "kbias")->n; i++)
            fixture_tensor(f, "kbias")->before[i] = pass && i % 33 == 5 ? (float)log(g) : 0;
        fixture_run(f, be);
    }
    for (int t = 0; t < 33; t++) {
        double was = exp(fixture_tensor(&plain, "lse")->after[t]);
        double now = exp(fixture_tensor(&biased, "lse")->after[t]);
        double p_was = fixture_tensor(&plain, "y")->after[t * 48];
        double p_now = fixture_tensor(&biased, "y")->after[t * 48];

        assert_true(t < 5 ? p_was == 0 : p_was > 0);
        assert_near(p_now * now / (p_was * was + (t < 5)), t < 5 ? 0 : g, 1e-5);
        assert_near((now - was) / was, -(1 - g) * p_was, 1e-5);
    }
    fixture_release(&plain);
    fixture_release(&biased);
}

static void gate_stays_finite_when_everything_is_skipped(void **state)
{
    static const struct op_case gate = {"gate_forward", {33, 24}, 0};
    struct backend *be = *(struct backend **)*state;
    struct fixture f, a;

    fixture_init(&f, &gate, ref, true);
    fixture_tensor(&f, "b")->before[0] = 100;
    fixture_run(&f, be);
    fixture_init(&a, &attention, ref, true);
    for (int i = 0; i < 33; i++) {
        assert_true(fixture_tensor(&f, "g")->after[i] == 0);
        assert_true(isfinite(fixture_tensor(&f, "logg")->after[i]));
        fixture_tensor(&a, "kbias")->before[i] = fixture_tensor(&f, "logg")->after[i];
    }
    fixture_run(&a, be);
    for (int64_t i = 0; i < fixture_tensor(&a, "y")->n; i++)
        assert_true(isfinite(fixture_tensor(&a, "y")->after[i]));
    fixture_release(&f);
    fixture_release(&a);
}

// ---- opening ---------------------------------------------------------------------------------

static void unknown_backends_are_refused_in_words(void **state)
{
    char why[200] = "";

    (void)state;
    assert_null(backend_open("tpu", 0, why, sizeof why));
    assert_string_equal(why, "this build has no backend 'tpu', expected cpu or ref");
    assert_null(backend_open("cpu", -1, why, sizeof why));
    assert_non_null(strstr(why, "threads -1"));
    backend_close(NULL);
}

static void zero_threads_means_the_cores_of_the_process(void **state)
{
    struct backend *be = open_backend("cpu", 0);

    (void)state;
    assert_int_equal(be->threads, cpu_default_threads());
    backend_close(be);
}

// The default of GNU OpenMP costs more than a second of processor time per second here.
static void idle_workers_sleep(void **state)
{
    struct timespec cpu_before, cpu_after;
    double wall = t_now(), used;

    (void)state;
    t_needs_gnu_openmp();
    assert_true(!getenv("GOMP_SPINCOUNT") || strcmp(getenv("GOMP_SPINCOUNT"), "1000") != 0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_before);
    for (int i = 0; i < 40; i++) {
        struct fixture f;
        static const struct op_case c = {"fill", {133}, 0};

        fixture_init(&f, &c, ref, true);
        fixture_run(&f, cpu);
        fixture_release(&f);
        t_sleep_ms(5);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_after);
    used = (double)(cpu_after.tv_sec - cpu_before.tv_sec) +
           1e-9 * (double)(cpu_after.tv_nsec - cpu_before.tv_nsec);
    wall = t_now() - wall;
    printf("# %.3f s of processor time in %.3f s\n", used, wall);
    if (getenv("_") || getenv("PWD"))
        assert_true(used < wall / 3);
}

static void op_names_are_in_the_order_of_the_table(void **state)
{
    (void)state;
    assert_string_equal(backend_op_name(0), "alloc");
    assert_string_equal(backend_op_name(OP_linear_backward), "linear_backward");
    assert_string_equal(backend_op_name((int)OPS_COUNT - 1), "cast_to_f32");
    assert_true(strlen(backend_gemm_library()) > 5);
}

static int open_all(void **state)
{
    (void)state;
    ref = open_backend("ref", 1);
    cpu = open_backend("cpu", 2);
    traced = trace_open(open_backend("cpu", 2), true);
    return traced ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    backend_close(ref);
    backend_close(cpu);
    backend_close(traced);
    return 0;
}

#define TEST_OP(op) {"cpu: " #op, cpu_op_matches_reference, NULL, NULL, (void *)(uintptr_t) #op},
#define TEST_TRACE(op)                                                                             \
    {"trace: " #op, trace_counts_and_changes_nothing, NULL, NULL, (void *)(uintptr_t) #op},
#define TEST_ON(test, be)                                                                          \
    {                                                                                              \
#be ": " #test, test, NULL, NULL, &be                                                      \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        COMPUTE_OPS(TEST_OP) COMPUTE_OPS(TEST_TRACE) //
        cmocka_unit_test(trace_names_the_op_that_went_bad),
        cmocka_unit_test(same_thread_count_gives_same_bits),
        cmocka_unit_test(scratch_contents_never_matter),
        cmocka_unit_test(any_thread_count_is_right),
        cmocka_unit_test(every_instruction_set_is_right),
        cmocka_unit_test(gelu_is_right_over_its_whole_range),
        cmocka_unit_test(exponential_is_right_to_two_ulp),
        cmocka_unit_test(a_nan_is_never_hidden),
        cmocka_unit_test(nan_logit_anywhere_gives_nan_loss),
        cmocka_unit_test(extreme_logits_stay_exact),
        TEST_ON(constant_key_bias_changes_nothing, ref),
        TEST_ON(constant_key_bias_changes_nothing, cpu),
        TEST_ON(bias_of_one_key_scales_its_weight, ref),
        TEST_ON(bias_of_one_key_scales_its_weight, cpu),
        TEST_ON(gate_stays_finite_when_everything_is_skipped, ref),
        TEST_ON(gate_stays_finite_when_everything_is_skipped, cpu),
        cmocka_unit_test(unknown_backends_are_refused_in_words),
        cmocka_unit_test(zero_threads_means_the_cores_of_the_process),
        cmocka_unit_test(idle_workers_sleep),
        cmocka_unit_test(op_names_are_in_the_order_of_the_table),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
