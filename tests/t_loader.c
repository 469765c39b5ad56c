// Order and contents of batches.
#include "tests/t.h"

#include "engine/loader.h"

// Ids 0..n-1, so that a batch says where it came from.
static struct shard counting(uint32_t *ids, int64_t n)
{
    struct shard s = {.path = "memory", .fd = -1, .u32 = ids, .n = n, .eot = -1};

    for (int64_t i = 0; i < n; i++)
        ids[i] = (uint32_t)i;
    return s;
}

static void an_epoch_reads_every_window_once(void **state)
{
    enum { T = 7, WINDOWS = 101, N = T * WINDOWS + 5 };
    uint32_t ids[N];
    struct shard s = counting(ids, N);
    struct err err = ERR_INIT;
    int32_t x[T], y[T], first_epoch[WINDOWS];
    struct loader l;
    int same = 0;

    (void)state;
    assert_int_equal(loader_init(&l, &s, T, 1, &err), 0);
    assert_int_equal(l.windows, WINDOWS);
    for (int epoch = 0; epoch < 3; epoch++) {
        bool seen[WINDOWS] = {false};

        for (int i = 0; i < WINDOWS; i++) {
            assert_int_equal(loader_train(&l, epoch * WINDOWS + i, x, y), 0);
            assert_int_equal(x[0] % T, 0);
            assert_false(seen[x[0] / T]);
            seen[x[0] / T] = true;
            for (int t = 0; t < T; t++) {
                assert_int_equal(x[t], x[0] + t);
                assert_int_equal(y[t], x[0] + t + 1);
            }
            if (epoch == 0)
                first_epoch[i] = x[0];
            else
                same += first_epoch[i] == x[0];
        }
    }
    assert_true(same < 20); // another order each time: about 2 by chance
}

static void a_batch_depends_on_seed_and_index_only(void **state)
{
    enum { T = 4, N = 4 * 50 + 1 };
    uint32_t ids[N];
    struct shard s = counting(ids, N);
    struct err err = ERR_INIT;
    int32_t x[T], y[T], order[150];
    struct loader l, again, other;
    int same = 0;

    (void)state;
    assert_int_equal(loader_init(&l, &s, T, 1, &err), 0);
    for (int i = 0; i < 150; i++) {
        loader_train(&l, i, x, y);
        order[i] = x[0];
    }
    assert_int_equal(loader_init(&again, &s, T, 1, &err), 0);
    assert_int_equal(loader_init(&other, &s, T, 2, &err), 0);
    for (int i = 149; i >= 0; i--) { // backwards, across the ends of epochs
        loader_train(&again, i, x, y);
        assert_int_equal(x[0], order[i]);
        loader_train(&other, i, x, y);
        same += x[0] == order[i];
    }
    assert_true(same < 20);
}

static void evaluation_scores_every_target_once(void **state)
{
    enum { T = 8, N = 43 };
    uint32_t ids[N];
    struct shard s = counting(ids, N);
    struct err err = ERR_INIT;
    int32_t x[T], y[T];
    struct loader l;
    int next = 1;

    (void)state;
    assert_int_equal(loader_init(&l, &s, T, 1, &err), 0);
    assert_int_equal(loader_eval_windows(&l, 0), 6);
    for (int w = 0; w < 6; w++) {
        int n = loader_eval(&l, w, 0, x, y);

        assert_int_equal(n, w < 5 ? T : 2);
        for (int t = 0; t < T; t++) {
            assert_int_equal(x[t], t < n ? w * T + t : 0);
            assert_int_equal(y[t], t < n ? next++ : -1);
        }
    }
    assert_int_equal(next, N);
    assert_int_equal(loader_eval_windows(&l, 16), 2);
    assert_int_equal(loader_eval_windows(&l, 17), 3);
    assert_int_equal(loader_eval(&l, 2, 17, x, y), 1);
    assert_int_equal(loader_eval_windows(&l, 1000000), 6);
}

static void short_shards_and_stray_ids_are_caught(void **state)
{
    uint32_t ids[9];
    struct shard s = counting(ids, 9);
    struct err err = ERR_INIT;
    int32_t x[8], y[8];
    struct loader l;

    (void)state;
    assert_int_equal(loader_init(&l, &s, 9, 1, &err), -1);
    assert_non_null(strstr(err.text, "has 9 tokens, a window of train.seq_len 9 needs 10"));
    assert_int_equal(loader_init(&l, &s, 8, 1, &err), 0);
    ids[3] = 4000000000u;
    assert_int_equal(loader_train(&l, 0, x, y), 1);
    assert_int_equal(x[3], 0);
    assert_int_equal(y[2], 0);
    l.vocab = 8; // the last target, 8, is beyond it too
    assert_int_equal(loader_train(&l, 0, x, y), 2);
    assert_int_equal(y[7], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_reads_every_window_once),
        cmocka_unit_test(a_batch_depends_on_seed_and_index_only),
        cmocka_unit_test(evaluation_scores_every_target_once),
        cmocka_unit_test(short_shards_and_stray_ids_are_caught),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
