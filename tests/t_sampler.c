// The choice of the next token: against exact probabilities and by hand.
#include "tests/t.h"

#include <math.h>

#include "engine/sampler.h"

static int next(const struct sampler *s, const float *logits, int64_t position)
{
    struct err err = ERR_INIT;
    int id = sampler_next(s, logits, position, NULL, &err);

    if (id < 0)
        fail_msg("%s", err.text);
    return id;
}

static void temperature_0_takes_the_largest(void **state)
{
    static const float logits[] = {1, 5, -2, 5, 4.999f};
    struct sampler s = {.vocab = 5, .seed = 1};

    (void)state;
    for (int i = 0; i < 20; i++)
        assert_int_equal(next(&s, logits, i), 1); // the lower id of two equal ones
    s.vocab = 1;
    assert_int_equal(next(&s, logits, 0), 0);
}

// Counts of many draws against softmax(logits / temperature) over the ids in `keep`.
static void check_counts(const struct sampler *s, const float *logits, const int *keep)
{
    enum { DRAWS = 40000 };
    int counts[8] = {0};
    double sum = 0, chi2 = 0;
    int kinds = 0;

    for (int i = 0; i < DRAWS; i++)
        counts[next(s, logits, i)]++;
    for (int v = 0; v < s->vocab; v++)
        sum += keep[v] ? exp(logits[v] / s->temperature) : 0;
    for (int v = 0; v < s->vocab; v++) {
        double expected = keep[v] ? DRAWS * exp(logits[v] / s->temperature) / sum : 0;

        if (!keep[v]) {
            assert_int_equal(counts[v], 0);
            continue;
        }
        chi2 += (counts[v] - expected) * (counts[v] - expected) / expected;
        kinds++;
    }
    if (chi2 > 30) // 4 degrees of freedom: one in 10^5
        fail_msg("chi square %g over %d ids", chi2, kinds);
}

static void draws_follow_the_softmax(void **state)
{
    static const float logits[] = {0, 1, -1, 2, 0.5f};
    static const int all[] = {1, 1, 1, 1, 1};

    (void)state;
    for (double t = 0.5; t < 4; t *= 2)
        check_counts(&(struct sampler){.vocab = 5, .temperature = t, .seed = 7}, logits, all);
}

static void top_k_keeps_the_largest_and_of_equals_the_lowest_ids(void **state)
{
    static const float logits[] = {0, 1, -1, 2, 1};
    static const int two[] = {0, 1, 0, 1, 0}, three[] = {0, 1, 0, 1, 1};
    struct sampler s = {.vocab = 5, .temperature = 1, .top_k = 2, .seed = 3};

    (void)state;
    check_counts(&s, logits, two);
    s.top_k = 3;
    check_counts(&s, logits, three);
    s.top_k = 1;
    for (int i = 0; i < 50; i++)
        assert_int_equal(next(&s, logits, i), 3);
}

static void a_k_of_the_vocabulary_or_more_changes_nothing(void **state)
{
    static const float logits[] = {0, 1, -1, 2, 1};
    struct sampler a = {.vocab = 5, .temperature = 1, .seed = 3}, b = a;

    (void)state;
    for (b.top_k = 5; b.top_k < 8; b.top_k++)
        for (int i = 0; i < 500; i++)
            assert_int_equal(next(&a, logits, i), next(&b, logits, i));
}

static void padded_rows_are_never_drawn(void **state)
{
    static const float logits[] = {0, 0, 50, 60}; // the last two pad the table
    struct sampler s = {.vocab = 2, .temperature = 1, .seed = 3};
    double logprob;

    (void)state;
    for (int i = 0; i < 500; i++)
        assert_true(next(&s, logits, i) < 2);
    assert_true(sampler_next(&s, logits, 0, &logprob, NULL) >= 0);
    assert_near(logprob, -M_LN2, 1e-12);
}

static void the_log_probability_is_the_models_own(void **state)
{
    static const float logits[] = {0, 1, 3};
    struct sampler s = {.vocab = 3, .temperature = 0, .top_k = 1, .seed = 3};
    double logprob;

    (void)state;
    assert_int_equal(sampler_next(&s, logits, 0, &logprob, NULL), 2);
    assert_near(logprob, 3 - log(1 + exp(1) + exp(3)), 1e-12);
}

static void the_draw_depends_on_seed_and_position_alone(void **state)
{
    static const float logits[] = {0, 0, 0, 0, 0, 0, 0, 0};
    struct sampler a = {.vocab = 8, .temperature = 1, .seed = 1}, b = {8, 1, 0, 2};
    int same = 0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(next(&a, logits, i), next(&a, logits, i));
        same += next(&a, logits, i) == next(&b, logits, i);
    }
    assert_in_range(same, 60, 200); // an eighth by chance
}

static void huge_logits_do_not_overflow(void **state)
{
    static const float logits[] = {3e38f, -3e38f, 3e38f, -INFINITY};
    struct sampler s = {.vocab = 4, .temperature = 0.01, .seed = 1};
    int seen[4] = {0};

    (void)state;
    for (int i = 0; i < 200; i++)
        seen[next(&s, logits, i)]++;
    assert_int_equal(seen[1] + seen[3], 0);
    assert_true(seen[0] > 0 && seen[2] > 0);
}

static void what_is_no_logit_is_an_error(void **state)
{
    static const float bad[][2] = {{0, NAN}, {INFINITY, 0}, {-INFINITY, -INFINITY}};
    struct sampler s = {.vocab = 2, .temperature = 1, .seed = 1};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct err err = ERR_INIT;

        assert_int_equal(sampler_next(&s, bad[i], 0, NULL, &err), -1);
        assert_true(err.text[0] != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temperature_0_takes_the_largest),
        cmocka_unit_test(draws_follow_the_softmax),
        cmocka_unit_test(top_k_keeps_the_largest_and_of_equals_the_lowest_ids),
        cmocka_unit_test(a_k_of_the_vocabulary_or_more_changes_nothing),
        cmocka_unit_test(padded_rows_are_never_drawn),
        cmocka_unit_test(the_log_probability_is_the_models_own),
        cmocka_unit_test(the_draw_depends_on_seed_and_position_alone),
        cmocka_unit_test(huge_logits_do_not_overflow),
        cmocka_unit_test(what_is_no_logit_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
