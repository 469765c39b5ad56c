// Units, files and random numbers.
#include "tests/t.h"

#include <math.h>
#include <unistd.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/rng.h"

static void shell_words_are_quoted_where_they_must(void **state)
{
    static const char *const cases[][2] = {
        {"a/b-1.yaml", "a/b-1.yaml"}, {"sp ace.yaml", "'sp ace.yaml'"}, {"it's", "'it'\\''s'"},
        {"", "''"},                   {"$HOME", "'$HOME'"},
    };
    char out[64], tiny[12];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(shell_word(cases[i][0], out, sizeof out), cases[i][1]);
    assert_in_range(strlen(shell_word("a b c d e f g h i j", tiny, sizeof tiny)), 1, 11);
}

static void counts_parse_with_units(void **state)
{
    int64_t n = -1;

    (void)state;
    assert_true(unit_parse_count("180M", &n) && n == 180000000);
    assert_true(unit_parse_count("5B", &n) && n == 5000000000);
    assert_true(unit_parse_count("64KiB", &n) && n == 65536);
    assert_true(unit_parse_count("1_000", &n) && n == 1000);
    assert_true(unit_parse_count("1e9", &n) && n == 1000000000);
    assert_true(unit_parse_count("4.5M", &n) && n == 4500000);
    n = 7;
    assert_false(unit_parse_count("", &n));
    assert_false(unit_parse_count("12x", &n));
    assert_false(unit_parse_count("0x10", &n));
    assert_false(unit_parse_count("1.5", &n));
    assert_false(unit_parse_count("nan", &n));
    assert_false(unit_parse_count("1e300", &n));
    assert_false(unit_parse_count("_1", &n));
    assert_int_equal(n, 7);
}

static void floats_parse_without_surprises(void **state)
{
    double v = 0;

    (void)state;
    assert_true(unit_parse_float("1e-4", &v) && v == 1e-4);
    assert_true(unit_parse_float("0.2%", &v) && fabs(v - 0.002) < 1e-15);
    assert_false(unit_parse_float("inf", &v));
    assert_false(unit_parse_float("1e999", &v));
    assert_false(unit_parse_float("1,5", &v));
}

static void units_print_what_people_read(void **state)
{
    char s[UNIT_SIZE];

    (void)state;
    assert_string_equal(unit_count(s, 181906688), "181.9M");
    assert_string_equal(unit_count(s, 0), "0");
    assert_string_equal(unit_count(s, 2.674e22), "26.74Z"); // FLOPs of a 3B run
    assert_string_equal(unit_count(s, 999.9996), "1k");
    assert_string_equal(unit_bytes(s, 4.2 * 1073741824), "4.2GiB");
    assert_string_equal(unit_duration(s, 3 * 3600 + 12 * 60), "3h12m");
    assert_string_equal(unit_duration(s, NAN), "-");
    assert_string_equal(unit_thousands(s, 181906688), "181,906,688");
    assert_string_equal(unit_thousands(s, -1234), "-1,234");
    assert_string_equal(unit_thousands(s, INT64_MIN), "-9,223,372,036,854,775,808");
}

static void atomic_write_replaces_and_leaves_no_temporary(void **state)
{
    struct buf b = {0};
    struct err err = ERR_INIT;

    (void)state;
    assert_int_equal(file_write_atomic(t_path("a"), "one", 3, &err), 0);
    assert_int_equal(file_write_atomic(t_path("a"), "two!", 4, &err), 0);
    assert_int_equal(file_read(t_path("a"), 100, &b, &err), 0);
    assert_string_equal(b.data, "two!");
    assert_int_equal(file_read(t_path("a"), 3, &b, &err), -1);
    assert_non_null(strstr(err.text, "has 4 bytes"));
    assert_int_equal(file_write_atomic(t_path("no/such"), "x", 1, &err), -1);
    assert_int_equal(file_read(t_dir(), 100, &b, &err), -1);
    buf_release(&b);
}

static void lock_excludes_a_second_holder(void **state)
{
    struct err err = ERR_INIT;
    int a = file_lock(t_path("lock"), &err);

    (void)state;
    assert_true(a >= 0);
    assert_int_equal(file_lock(t_path("lock"), &err), -2);
    close(a);
    a = file_lock(t_path("lock"), &err);
    assert_true(a >= 0);
    close(a);
}

static void permutation_is_a_bijection(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 200; n += 13) {
        bool seen[200] = {false};

        for (uint64_t i = 0; i < n; i++) {
            uint64_t j = rng_permute(rng_key(3, "epoch"), i, n);

            assert_true(j < n && !seen[j]);
            seen[j] = true;
        }
    }
}

static void normal_numbers_have_their_moments(void **state)
{
    enum { N = 200000 };
    uint64_t key = rng_key(1, "w");
    double sum = 0, sum2 = 0, cut = 0;

    (void)state;
    for (int i = 0; i < N; i++) {
        double x = rng_normal(key, (uint64_t)i);

        sum += x;
        sum2 += x * x;
        cut = fmax(cut, fabs(rng_truncated_normal(key, (uint64_t)i, 3)));
    }
    assert_near(sum / N, 0, 0.01);
    assert_near(sum2 / N, 1, 0.01);
    assert_true(cut <= 3 && cut > 2.9);
    assert_true(rng_key(1, "w") != rng_key(1, "v") && rng_key(1, "w") != rng_key(2, "w"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shell_words_are_quoted_where_they_must),
        cmocka_unit_test(counts_parse_with_units),
        cmocka_unit_test(floats_parse_without_surprises),
        cmocka_unit_test(units_print_what_people_read),
        cmocka_unit_test(atomic_write_replaces_and_leaves_no_temporary),
        cmocka_unit_test(lock_excludes_a_second_holder),
        cmocka_unit_test(permutation_is_a_bijection),
        cmocka_unit_test(normal_numbers_have_their_moments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
