// Sparsity control: targets, regulariser, statistics over micro-batches, every controller against
// trajectories worked out by hand, convergence, and the FLOPs that gates leave to do.
#include "tests/t.h"

#include <math.h>

#include "engine/count_active.h"
#include "engine/gate.h"
#include "engine/rng.h"

static struct spec gated(int n_layers)
{
    struct spec s = {.name = "gated"};

    s.model.n_layers = n_layers;
    s.gate.enabled = true;
    s.gate.controller = CTRL_PROPORTIONAL;
    s.gate.mu_start = 1;
    s.gate.mu_end = 0.5;
    s.gate.delta = 0.01;
    s.gate.gamma = 1e-3;
    return s;
}

static void set_coefficients(struct spec *s, double alpha, double beta)
{
    for (int i = 0; i < s->model.n_layers; i++) {
        s->gate.alpha[i] = alpha;
        s->gate.beta[i] = beta;
    }
}

// ---- targets ------------------------------------------------------------------------------------

static void assert_targets(const struct spec *s, const double *mu, const double *sigma)
{
    double m[SPEC_MAX_LAYERS], v[SPEC_MAX_LAYERS];

    gate_targets(s, m, v);
    for (int i = 0; i < s->model.n_layers; i++) {
        assert_near(m[i], mu[i], 1e-15);
        assert_near(v[i], sigma[i], 1e-15);
    }
}

static void targets_fall_to_the_middle_and_mirror(void **state)
{
    struct spec s = gated(2);

    (void)state;
    assert_targets(&s, (double[]){1, 1}, (double[]){0, 0});
    s = gated(6);
    assert_targets(&s, (double[]){1, 0.75, 0.5, 0.5, 0.75, 1},
                   (double[]){0, 0.1875, 0.25, 0.25, 0.1875, 0});
    s = gated(12);
    assert_targets(&s, (double[]){1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.5, 0.6, 0.7, 0.8, 0.9, 1},
                   (double[]){0, 0.09, 0.16, 0.21, 0.24, 0.25, 0.25, 0.24, 0.21, 0.16, 0.09, 0});
    s.gate.mu_end = 0.1; // the deepest target of the released sweep
    s.gate.var_delta = -0.1;
    assert_targets(
        &s, (double[]){1, 0.82, 0.64, 0.46, 0.28, 0.1, 0.1, 0.28, 0.46, 0.64, 0.82, 1},
        (double[]){0, 0.0476, 0.1304, 0.1484, 0.1016, 0, 0, 0.1016, 0.1484, 0.1304, 0.0476, 0});
    s = gated(2);
    s.gate.mu_start = 0.25;
    s.gate.var_delta = 0.0625;
    assert_targets(&s, (double[]){0.25, 0.25}, (double[]){0.25, 0.25});
}

// ---- the regulariser ----------------------------------------------------------------------------

static const struct gate_stat stats[] = {
    {.mean = 0.9, .var = 0.04}, {.mean = 0.55, .var = 0.2}, {.mean = 0.3, .var = 0.11}};

// Six layers with other coefficients in each pair.
static struct spec penalised(enum gate_controller controller, enum gate_reduce reduce)
{
    static const double alpha[] = {0.3, -0.2, 0.7}, beta[] = {-0.5, 0.4, 0.1};
    struct spec s = gated(6);

    s.gate.controller = controller;
    s.gate.reduce = reduce;
    for (int i = 0; i < 3; i++) {
        s.gate.alpha[i] = s.gate.alpha[5 - i] = alpha[i];
        s.gate.beta[i] = s.gate.beta[5 - i] = beta[i];
    }
    return s;
}

static double penalty(const struct spec *s, const struct gate_stat *stat, int64_t n,
                      double *slope_mean, double *slope_var)
{
    return gate_penalty(s, s->gate.alpha, s->gate.beta, stat, n, slope_mean, slope_var);
}

static void penalty_has_the_value_of_its_formula(void **state)
{
    struct spec s = penalised(CTRL_PROPORTIONAL, REDUCE_MEAN);
    double a[3], b[3], v = 8. / 7; // unbiased variance of 8 tokens
    double linear =
        2 * (0.3 * 0.9 - 0.2 * 0.55 + 0.7 * 0.3) + 2 * v * (-0.5 * 0.04 + 0.4 * 0.2 + 0.1 * 0.11);

    (void)state;
    assert_near(penalty(&s, stats, 8, a, b), linear / 6, 1e-15);
    s.gate.reduce = REDUCE_SUM;
    assert_near(penalty(&s, stats, 8, a, b), linear, 1e-15);
    s.gate.controller = CTRL_FIXED_L2; // targets 1, .75, .5 and 0, .1875, .25
    set_coefficients(&s, 0.1, 0.2);
    assert_near(
        penalty(&s, stats, 8, a, b),
        0.1 * sqrt(2 * (0.1 * 0.1 + 0.2 * 0.2 + 0.2 * 0.2)) +
            0.2 * sqrt(2 * (pow(0.04 * v, 2) + pow(0.2 * v - 0.1875, 2) + pow(0.11 * v - 0.25, 2))),
        1e-15);
}

static double value(const struct spec *s, const struct gate_stat *stat, int64_t n)
{
    double slope_mean[3], slope_var[3];

    return penalty(s, stat, n, slope_mean, slope_var);
}

// Central differences by every gate's mean and unbiased variance.
static void assert_slopes(const struct spec *s, int64_t n)
{
    double a[3], b[3], h = 1e-5;
    double per_var = (double)(n - 1) / (double)n; // population per unbiased variance

    penalty(s, stats, n, a, b);
    for (int i = 0; i < 3; i++) {
        struct gate_stat up[3], down[3];

        memcpy(up, stats, sizeof up);
        memcpy(down, stats, sizeof down);
        up[i].mean += h;
        down[i].mean -= h;
        assert_near((value(s, up, n) - value(s, down, n)) / (2 * h), a[i], 1e-9);
        memcpy(up, stats, sizeof up);
        memcpy(down, stats, sizeof down);
        up[i].var += h * per_var;
        down[i].var -= h * per_var;
        if (n > 1)
            assert_near((value(s, up, n) - value(s, down, n)) / (2 * h), b[i], 1e-9);
    }
}

static void penalty_slopes_are_its_derivatives(void **state)
{
    struct spec l2 = penalised(CTRL_FIXED_L2, REDUCE_MEAN);

    (void)state;
    set_coefficients(&l2, 0.3, -0.6);
    for (int64_t n = 1; n <= 9; n += 4) {
        struct spec mean = penalised(CTRL_SIGN, REDUCE_MEAN), sum = penalised(CTRL_PD, REDUCE_SUM);

        assert_slopes(&mean, n);
        assert_slopes(&sum, n);
        assert_slopes(&l2, n);
    }
}

static void one_token_has_no_variance(void **state)
{
    struct spec s = penalised(CTRL_PROPORTIONAL, REDUCE_SUM);
    double a[3], b[3];

    (void)state;
    assert_near(penalty(&s, stats, 1, a, b), 2 * (0.3 * 0.9 - 0.2 * 0.55 + 0.7 * 0.3), 1e-15);
    s.gate.controller = CTRL_FIXED_L2;
    set_coefficients(&s, 0, 1);
    assert_near(penalty(&s, stats, 1, a, b), sqrt(2 * (0.1875 * 0.1875 + 0.25 * 0.25)), 1e-15);
}

static void norm_at_its_target_has_no_slope(void **state)
{
    struct spec s = gated(6);
    struct gate_stat stat[] = {{.mean = 1}, {.mean = 0.75}, {.mean = 0.5}};
    double a[3], b[3];

    (void)state;
    s.gate.controller = CTRL_FIXED_L2;
    s.gate.var_delta = -1; // every target of the variance is 0
    set_coefficients(&s, 0.1, 0.1);
    assert_near(penalty(&s, stat, 5, a, b), 0, 0);
    for (int i = 0; i < 3; i++)
        assert_true(a[i] == 0 && b[i] == 0);
}

// ---- statistics over micro-batches --------------------------------------------------------------

static struct gate_stat measure(const double *g, int n)
{
    struct gate_stat s = {0};

    for (int i = 0; i < n; i++) {
        s.mean += g[i] / n;
        s.zero += (g[i] == 0) / (double)n;
        s.closed += (g[i] > 0.8) / (double)n; // any other shares of the tokens will do
        s.over += (g[i] < 0.3) / (double)n;
    }
    for (int i = 0; i < n; i++)
        s.var += (g[i] - s.mean) * (g[i] - s.mean) / n;
    return s;
}

static void statistics_of_parts_are_those_of_the_whole(void **state)
{
    enum { N = 60 };
    static const int cut[] = {0, 1, 8, 28, N}; // parts of unequal size
    double g[N];
    struct gate_stat sum = {.mean = 99, .var = 99, .zero = 99, .closed = 99, .over = 99}, all;

    (void)state;
    for (int i = 0; i < N; i++) // differs from part to part
        g[i] = i % 5 == 3 ? 0 : fmin(1, rng_uniform(7, (uint64_t)i) * (1 + i) / 30);
    for (int k = 0; k < 4; k++) {
        struct gate_stat part = measure(g + cut[k], cut[k + 1] - cut[k]);

        gate_stat_add(&sum, cut[k], &part, cut[k + 1] - cut[k]);
    }
    all = measure(g, N);
    assert_near(sum.mean, all.mean, 1e-15);
    assert_near(sum.var, all.var, 1e-15);
    assert_near(sum.zero, all.zero, 1e-15);
    assert_near(sum.closed, all.closed, 1e-15);
    assert_near(sum.over, all.over, 1e-15);
    assert_true(all.zero > 0 && all.closed > 0 && all.over > 0 && all.var > 0.01);
}

// ---- controllers --------------------------------------------------------------------------------

// Deviations in units of 1/128, all exact in binary, as are the targets (1/2, 3/4; 1/4, 3/16) and
// the dead band of 2 units, so that the trajectories are compared bit by bit.
enum { STEPS = 20, DELTA = 2 };
static const int falling[STEPS] = {64, 40, 24, 12,  6,   3,  2,   1, 0,  -1,
                                   -2, -3, -6, -12, -24, 12, -40, 3, -2, 2};
static const int rising[STEPS] = {2,  -2, 3, -40, 12, -24, -12, -6, -3, -2,
                                  -1, 0,  1, 2,   3,  6,   12,  24, 40, 64};

// The sum of moves after each step, worked out by hand: sign in gammas, the others in gamma units.
// pd by hand: E follows D with decay 0.9 from the first D; `falling` stays below E until it turns
// negative (step 11), is below E once more at step 15 (12 against 12.797), and above it at none.
struct trajectory {
    enum gate_controller rule;
    enum gate_sided side;
    int falling[STEPS], rising[STEPS];
};
static const struct trajectory trajectories[] = {
    {CTRL_SIGN,
     SIDED_TWO,
     {1, 2, 3, 4, 5, 6, 6, 6, 6, 6, 6, 5, 4, 3, 2, 3, 2, 3, 3, 3},
     {0, 0, 1, 0, 1, 0, -1, -2, -3, -3, -3, -3, -3, -3, -2, -1, 0, 1, 2, 3}},
    {CTRL_SIGN,
     SIDED_UP_ONLY,
     {1, 2, 3, 4, 5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 7, 7, 8, 8, 8},
     {0, 0, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 4, 5, 6, 7, 8}},
    {CTRL_SIGN,
     SIDED_DOWN_ONLY,
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -2, -3, -4, -4, -5, -5, -5, -5},
     {0, 0, 0, -1, -1, -2, -3, -4, -5, -5, -5, -5, -5, -5, -5, -5, -5, -5, -5, -5}},
    {CTRL_PROPORTIONAL,
     SIDED_TWO,
     {64,  104, 128, 140, 146, 149, 149, 149, 149, 149,
      149, 146, 140, 128, 104, 116, 76,  79,  79,  79},
     {0, 0, 3, -37, -25, -49, -61, -67, -70, -70, -70, -70, -70, -70, -67, -61, -49, -25, 15, 79}},
    {CTRL_PROPORTIONAL,
     SIDED_UP_ONLY,
     {64,  104, 128, 140, 146, 149, 149, 149, 149, 149,
      149, 149, 149, 149, 149, 161, 161, 164, 164, 164},
     {0, 0, 3, 3, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 18, 24, 36, 60, 100, 164}},
    {CTRL_PROPORTIONAL,
     SIDED_DOWN_ONLY,
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -3, -9, -21, -45, -45, -85, -85, -85, -85},
     {0,   0,   0,   -40, -40, -64, -76, -82, -85, -85,
      -85, -85, -85, -85, -85, -85, -85, -85, -85, -85}},
    {CTRL_PD,
     SIDED_TWO,
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -3, -9, -21, -45, -45, -85, -85, -85, -85},
     {0, 0, 3, -37, -25, -49, -61, -67, -67, -67, -67, -67, -67, -67, -64, -58, -46, -22, 18, 82}},
    {CTRL_PD, SIDED_UP_ONLY, {0}, {0,  0,  3,  3,  15, 15, 15, 15, 15,  15,
                                   15, 15, 15, 15, 18, 24, 36, 60, 100, 164}},
    {CTRL_PD,
     SIDED_DOWN_ONLY,
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -3, -9, -21, -45, -45, -85, -85, -85, -85},
     {0,   0,   0,   -40, -40, -64, -76, -82, -82, -82,
      -82, -82, -82, -82, -82, -82, -82, -82, -82, -82}},
    {CTRL_NONE, SIDED_TWO, {0}, {0}},
    {CTRL_NONE, SIDED_UP_ONLY, {0}, {0}},
    {CTRL_NONE, SIDED_DOWN_ONLY, {0}, {0}},
    {CTRL_FIXED_MEAN, SIDED_TWO, {0}, {0}},
    {CTRL_FIXED_MEAN, SIDED_UP_ONLY, {0}, {0}},
    {CTRL_FIXED_MEAN, SIDED_DOWN_ONLY, {0}, {0}},
    {CTRL_FIXED_MEAN_VAR, SIDED_TWO, {0}, {0}},
    {CTRL_FIXED_MEAN_VAR, SIDED_UP_ONLY, {0}, {0}},
    {CTRL_FIXED_MEAN_VAR, SIDED_DOWN_ONLY, {0}, {0}},
    {CTRL_FIXED_L2, SIDED_TWO, {0}, {0}},
    {CTRL_FIXED_L2, SIDED_UP_ONLY, {0}, {0}},
    {CTRL_FIXED_L2, SIDED_DOWN_ONLY, {0}, {0}},
};

static struct spec controlled(const struct trajectory *t)
{
    struct spec s = gated(4);

    s.gate.mu_start = 0.5; // targets 1/2 and 3/4, variances 1/4 and 3/16
    s.gate.mu_end = 0.75;
    s.gate.gamma = 0.25;
    s.gate.delta = DELTA / 128.;
    s.gate.controller = t->rule;
    s.gate.sided = t->side;
    set_coefficients(&s, 0.25, -0.5);
    return s;
}

static void assert_mirrored(const double *c, double outer, double inner)
{
    assert_true(c[0] == outer);
    assert_true(c[1] == inner);
    assert_true(c[2] == inner);
    assert_true(c[3] == outer);
}

// Gate 0 has its mean above target as `falling` says and its variance as `rising`; gate 1 the other
// way round.
static void follow(const struct trajectory *t)
{
    struct spec s = controlled(t);
    double unit = s.gate.gamma / (t->rule == CTRL_SIGN ? 1 : 128);
    struct gate_control c;

    gate_control_init(&c, &s);
    assert_mirrored(c.alpha, 0.25, 0.25);
    for (int n = 0; n < STEPS; n++) {
        double f = falling[n] / 128., r = rising[n] / 128.;
        struct gate_stat stat[] = {{.mean = 0.5 + f, .var = 0.25 + r},
                                   {.mean = 0.75 + r, .var = 0.1875 + f}};

        gate_control_update(&c, &s, stat);
        assert_mirrored(c.alpha, 0.25 + unit * t->falling[n], 0.25 + unit * t->rising[n]);
        assert_mirrored(c.beta, -0.5 + unit * t->rising[n], -0.5 + unit * t->falling[n]);
    }
}

static void controllers_follow_the_hand_computed_trajectories(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof trajectories / sizeof trajectories[0]; i++)
        follow(&trajectories[i]);
}

// The pd rule once more, in a straight line and with the opposite signs.
static void growing_deviations_of_either_sign_move_pd(void **state)
{
    struct trajectory t = {.rule = CTRL_PD, .side = SIDED_TWO};
    struct spec s = controlled(&t);
    double d[4] = {0}, average[4], c[4] = {0.25, 0.25, -0.5, -0.5};
    struct gate_control control;

    (void)state;
    s.gate.gamma = 0.01;
    s.gate.delta = 0.03;
    gate_control_init(&control, &s);
    for (int n = 0; n < STEPS; n++) {
        for (int k = 0; k < 4; k++) { // alpha of two gates, beta of two gates
            d[k] = 0.4 * (rng_uniform(3, (uint64_t)(4 * n + k)) - 0.5) - d[k] / 2;
            average[k] = n ? 0.9 * average[k] + 0.1 * d[k] : d[k];
            if (fabs(d[k]) > 0.03 && (d[k] - average[k]) * d[k] > 0)
                c[k] += 0.01 * d[k];
        }
        gate_control_update(&control, &s,
                            (struct gate_stat[]){{.mean = 0.5 + d[0], .var = 0.25 + d[2]},
                                                 {.mean = 0.75 + d[1], .var = 0.1875 + d[3]}});
        assert_near(control.alpha[0], c[0], 1e-14);
        assert_near(control.alpha[2], c[1], 1e-14);
        assert_near(control.beta[3], c[2], 1e-14);
        assert_near(control.beta[1], c[3], 1e-14);
    }
    for (int k = 0; k < 4; k++)
        assert_true(fabs(c[k] - (k < 2 ? 0.25 : -0.5)) > 1e-4);
}

static void controllers_forget_a_state_that_is_begun_anew(void **state)
{
    struct spec s = controlled(&trajectories[6]);
    struct gate_stat stat[2] = {{.mean = 0.9}, {.mean = 0.1}};
    struct gate_control c;

    (void)state;
    gate_control_init(&c, &s);
    gate_control_update(&c, &s, stat);
    gate_control_init(&c, &s);
    assert_int_equal(c.updates, 0);
    gate_control_update(&c, &s, stat);
    assert_mirrored(c.alpha, 0.25, 0.25); // the first deviation does not grow
}

// ---- convergence --------------------------------------------------------------------------------

enum { POINTS = 6, L = 4 };

struct history {
    double mean[POINTS][L], var[POINTS][L], alpha[POINTS][L], beta[POINTS][L];
    struct gate_point p[POINTS];
};

// Evaluations every 500 steps, at their targets (1, .5 and 0, .25) with resting coefficients.
static void settle(struct history *h)
{
    static const double mu[] = {1, 0.5, 0.5, 1}, sigma[] = {0, 0.25, 0.25, 0};

    for (int k = 0; k < POINTS; k++) {
        for (int i = 0; i < L; i++) {
            h->mean[k][i] = mu[i];
            h->var[k][i] = sigma[i];
            h->alpha[k][i] = 0.3;
            h->beta[k][i] = -0.1;
        }
        h->p[k] = (struct gate_point){.step = 500 * (k + 1),
                                      .mean = h->mean[k],
                                      .var = h->var[k],
                                      .alpha = h->alpha[k],
                                      .beta = h->beta[k]};
    }
}

static void assert_verdict(const struct history *h, int n, unsigned expected)
{
    struct spec s = gated(L);
    struct gate_limits limits = {.evaluations = 4, .delta = 0.05, .drift = 0.02};
    unsigned why[L];
    bool all = gate_converged(&s, limits, h->p, n, why);

    assert_int_equal(why[2], expected);
    assert_int_equal(why[0], n < 4 ? GATE_TOO_FEW : 0);
    assert_int_equal(all, n >= 4 && !expected);
}

static void layers_converge_when_they_stay_near_their_targets(void **state)
{
    struct history h;

    (void)state;
    settle(&h);
    assert_verdict(&h, POINTS, 0);
    assert_verdict(&h, 3, GATE_TOO_FEW);
    assert_verdict(&h, 0, GATE_TOO_FEW);
    h.mean[1][2] = 0.9; // before the last four
    h.alpha[1][2] = 7;
    assert_verdict(&h, POINTS, 0);
    h.mean[2][2] = 0.4375;
    assert_verdict(&h, POINTS, GATE_MEAN_OFF);
    h.var[5][2] = 0.19;
    assert_verdict(&h, POINTS, GATE_MEAN_OFF | GATE_VAR_OFF);
    settle(&h);
    h.mean[5][2] = 0.5 + 0.0499;
    h.var[5][2] = 0.25 - 0.0499;
    assert_verdict(&h, POINTS, 0);
    h.mean[5][2] = NAN;
    assert_verdict(&h, POINTS, GATE_MEAN_OFF);
}

static void drifting_coefficients_have_not_converged(void **state)
{
    struct history h;

    (void)state;
    settle(&h);
    for (int k = 0; k < POINTS; k++) // 0.018 per 1,000 steps
        h.alpha[k][2] += 0.009 * k;
    assert_verdict(&h, POINTS, 0);
    for (int k = 0; k < POINTS; k++) // 0.022
        h.beta[k][2] -= 0.011 * k;
    assert_verdict(&h, POINTS, GATE_DRIFTS);
    settle(&h);
    h.alpha[4][2] += 0.035; // there and back again
    assert_verdict(&h, POINTS, GATE_DRIFTS);
    h.alpha[4][2] = NAN;
    assert_verdict(&h, POINTS, GATE_DRIFTS);
}

static void usual_limits_follow_the_controller(void **state)
{
    struct spec s = gated(6);
    struct gate_limits limits = gate_limits_default(&s);

    (void)state;
    assert_int_equal(limits.evaluations, 10);
    assert_near(limits.delta, 0.01, 0);
    assert_near(limits.drift, 0.01, 1e-15); // 1,000 steps of 1e-3 times 0.01
}

// ---- active FLOPs -------------------------------------------------------------------------------

// d 8, head 4; layer 0: 2 heads, 1 key/value head, FFN 10, once; layer 1: 3, 3, 16, twice.
static struct spec counted(enum gate_attn attn)
{
    struct spec s = gated(2);

    s.gate.attn = attn;
    s.model.d_model = 8;
    s.model.head_dim = 4;
    s.model.block_loops = 1;
    s.model.vocab = 30;
    s.model.vocab_pad = 16;
    s.train.seq_len = 5;
    memcpy(s.model.lane[LANE_HEADS], (int[]){2, 3}, 2 * sizeof(int));
    memcpy(s.model.lane[LANE_KV], (int[]){1, 3}, 2 * sizeof(int));
    memcpy(s.model.lane[LANE_FFN], (int[]){10, 16}, 2 * sizeof(int));
    memcpy(s.model.lane[LANE_REUSE], (int[]){1, 2}, 2 * sizeof(int));
    return s;
}

// By hand, forward per token:
//   layer 0: q 8, k 4, f 10: lin = 2*8*(16 + 8) + 6*8*10 = 864, of it K,V 4*8*4 = 128; attn 160
//   layer 1: q 12, k 12, f 16: lin = 2*8*(24 + 24) + 6*8*16 = 1536, of it K,V 384; attn 240
//   head 2*8*32 = 512, one gate 16
static void active_flops_follow_the_hand_computed_case(void **state)
{
    struct spec s = counted(GATE_ATTN_KEY);
    const double none[] = {0, 0}, all[] = {1, 1}, some[] = {0.25, 0.5};
    double dense = 3 * (864 + 160 + 2 * (1536 + 240) + 512 + 16);
    double key = 3 * (0.75 * 864 + 0.5625 * 160 + 2 * (0.5 * 1536 + 0.25 * 240) + 528);
    double off = 3 * (0.75 * (736 + 160) + 128 + 2 * (0.5 * (1152 + 240) + 384) + 528);

    (void)state;
    for (enum gate_attn attn = GATE_ATTN_KEY; attn <= GATE_ATTN_HARD; attn++) {
        bool keys = attn == GATE_ATTN_KEY || attn == GATE_ATTN_HARD;

        s.gate.attn = attn;
        assert_near(count_active_train_flops(&s, none), dense, 0);
        assert_near(count_active_train_flops(&s, some), keys ? key : off, 0);
        assert_near(count_active_train_flops(&s, all), 3 * (528 + (keys ? 0 : 128 + 2 * 384)), 0);
    }
    s.gate.attn = GATE_ATTN_KEY;
    s.model.act = ACT_GELU; // 2 d f less each
    assert_near(count_active_train_flops(&s, some), key - 3 * (0.75 * 160 + 2 * 0.5 * 256), 0);
    s.model.act = ACT_SWIGLU;
    s.model.block_loops = 3;
    assert_near(count_active_train_flops(&s, some), 3 * key - 2 * 3 * 528, 0);
    s.gate.enabled = false; // no gate units
    s.model.block_loops = 1;
    assert_near(count_active_train_flops(&s, none), dense - 3 * 16, 0);
}

// Paper B's shape: house standard 341.4 M forward per token (architectures.md §5.3).
static void active_flops_of_the_paper_are_its_dense_count(void **state)
{
    struct spec s = gated(12);
    double sparsity[12] = {0};

    (void)state;
    s.gate.attn = GATE_ATTN_OFF;
    s.model.d_model = 768;
    s.model.head_dim = 64;
    s.model.block_loops = 1;
    s.model.vocab = 50257;
    s.model.vocab_pad = 1;
    s.train.seq_len = 1024;
    for (int i = 0; i < 12; i++) {
        s.model.lane[LANE_HEADS][i] = s.model.lane[LANE_KV][i] = 12;
        s.model.lane[LANE_FFN][i] = 3072;
        s.model.lane[LANE_REUSE][i] = 1;
    }
    assert_near(count_active_train_flops(&s, sparsity) / 3e6, 341.4, 2e-4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_fall_to_the_middle_and_mirror),
        cmocka_unit_test(penalty_has_the_value_of_its_formula),
        cmocka_unit_test(penalty_slopes_are_its_derivatives),
        cmocka_unit_test(one_token_has_no_variance),
        cmocka_unit_test(norm_at_its_target_has_no_slope),
        cmocka_unit_test(statistics_of_parts_are_those_of_the_whole),
        cmocka_unit_test(controllers_follow_the_hand_computed_trajectories),
        cmocka_unit_test(growing_deviations_of_either_sign_move_pd),
        cmocka_unit_test(controllers_forget_a_state_that_is_begun_anew),
        cmocka_unit_test(layers_converge_when_they_stay_near_their_targets),
        cmocka_unit_test(drifting_coefficients_have_not_converged),
        cmocka_unit_test(usual_limits_follow_the_controller),
        cmocka_unit_test(active_flops_follow_the_hand_computed_case),
        cmocka_unit_test(active_flops_of_the_paper_are_its_dense_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
