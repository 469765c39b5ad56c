// Evaluation: which tokens count and how much, against the loss of single windows; statistics of
// gates over many batches against one.
#include "tests/t.h"

#include <math.h>

#include "engine/eval.h"
#include "engine/rng.h"
#include "tests/tiny.h"

enum { T = 5, N_IDS = 43 };

static uint32_t ids[N_IDS];

// Ids below 11 in memory, as a byte-level file of 11 letters.
static struct shard small_shard(void)
{
    for (int i = 0; i < N_IDS; i++)
        ids[i] = (uint32_t)(rng_u64(rng_key(1, "ids"), (uint64_t)i) % 11);
    return (struct shard){
        .fd = -1, .u32 = ids, .n = N_IDS, .vocab = 11, .eot = -1, .bytes_are_tokens = true};
}

static struct spec gated_spec(void)
{
    struct spec s = tiny_spec();

    s.model.n_layers = 2;
    s.gate = (struct gate_spec){.enabled = true, .attn = GATE_ATTN_KEY, .eps = 1e-6};
    return s;
}

static struct model *new_model(struct backend *be, struct spec s, int batch, enum model_use use)
{
    struct err err = ERR_INIT;
    struct model *m;

    s.train.micro_batch_size = batch;
    m = model_new_for(be, &s, use, &err);
    if (!m)
        fail_msg("%s", err.text);
    tiny_fill(m, 7);
    return m;
}

// Mean loss of ids[at .. at + n], the first one an input only.
static double window_loss(struct model *one, int at, int n)
{
    int32_t x[T] = {0}, y[T];
    double sum = NAN;

    for (int i = 0; i < T; i++)
        y[i] = -1;
    for (int i = 0; i < n; i++) {
        x[i] = (int32_t)ids[at + i];
        y[i] = (int32_t)ids[at + i + 1];
    }
    assert_int_equal(model_loss(one, x, y, &sum, NULL), 0);
    return sum / n;
}

struct wanted {
    int64_t stride, max_tokens;
    enum eval_avg avg;
    int windows, last; // expected: all but the last window have T targets
};

static void check(struct model *m, struct model *one, const struct shard *shard,
                  const struct wanted *w)
{
    struct eval_options o = {.max_tokens = w->max_tokens, .avg = w->avg};
    double sum = 0, weight = 0, nats = 0;
    struct eval_result r;
    struct loader l;

    assert_int_equal(loader_init(&l, shard, T, 1, NULL), 0);
    l.stride = w->stride;
    assert_int_equal(eval_score(m, &l, &o, &r, NULL), 0);
    for (int i = 0; i < w->windows; i++) {
        int n = i < w->windows - 1 ? T : w->last;
        double loss = window_loss(one, i * (int)w->stride, n);

        nats += n * loss;
        sum += w->avg == EVAL_AVG_CHUNK ? loss : n * loss;
        weight += w->avg == EVAL_AVG_CHUNK ? 1 : n;
    }
    assert_int_equal(r.windows, w->windows);
    assert_int_equal(r.tokens, (w->windows - 1) * T + w->last);
    assert_near(r.loss, sum / weight, 1e-12);
    assert_near(r.ppl, exp(sum / weight), 1e-12);
    assert_near(r.bpb, nats / log(2) / (double)r.tokens, 1e-12);
}

static void scored_tokens_and_their_weights_are_as_asked(void **state)
{
    static const struct wanted wanted[] = {
        {T, 0, EVAL_AVG_TOKEN, 9, 2},       // 42 targets
        {T, 0, EVAL_AVG_CHUNK, 9, 2},       //
        {T, 20, EVAL_AVG_CHUNK, 4, T},      // whole windows: both averages are the same
        {T, 20, EVAL_AVG_TOKEN, 4, T},      //
        {T, 3, EVAL_AVG_CHUNK, 1, 3},       //
        {20, 0, EVAL_AVG_CHUNK, 3, 2},      // the first 5 of each 20
        {20, 0, EVAL_AVG_TOKEN, 3, 2},      //
        {12, 0, EVAL_AVG_TOKEN, 4, T},      // begins at 36, ends before 42
        {20, 7, EVAL_AVG_CHUNK, 2, 2},      //
        {20, 1000000, EVAL_AVG_CHUNK, 3, 2} //
    };
    struct backend *be = tiny_backend("ref", 1);
    struct shard shard = small_shard();
    struct model *one = new_model(be, tiny_spec(), 1, MODEL_EVAL);

    (void)state;
    for (int batch = 1; batch <= 4; batch++) {
        struct model *m = new_model(be, tiny_spec(), batch, batch % 2 ? MODEL_EVAL : MODEL_TRAIN);

        for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
            check(m, one, &shard, &wanted[i]);
        model_free(m);
    }
    model_free(one);
    backend_close(be);
}

static struct gate_stat stat_of(struct backend *be, const struct shard *shard, int batch,
                                int64_t max_tokens)
{
    struct model *m = new_model(be, gated_spec(), batch, MODEL_EVAL);
    struct eval_result r;
    struct loader l;

    assert_int_equal(loader_init(&l, shard, T, 1, NULL), 0);
    assert_int_equal(eval_run(m, &l, max_tokens, &r, NULL), 0);
    model_free(m);
    return r.gate[0];
}

static void gates_are_measured_over_all_batches(void **state)
{
    struct backend *be = tiny_backend("ref", 1);
    struct shard shard = small_shard();
    struct gate_stat all = stat_of(be, &shard, 8, 8 * T), part, padded;

    (void)state;
    assert_true(all.mean > 0.01 && all.mean < 0.99 && all.var > 1e-3);
    for (int batch = 1; batch < 8; batch *= 2) {
        part = stat_of(be, &shard, batch, 8 * T);
        assert_near(part.mean, all.mean, 1e-12);
        assert_near(part.var, all.var, 1e-12);
        assert_near(part.zero, all.zero, 1e-12);
        assert_near(part.closed, all.closed, 1e-12);
        assert_near(part.over, all.over, 1e-12);
    }
    // a last, padded batch does not count
    padded = stat_of(be, &shard, 4, 8 * T + 2);
    assert_near(padded.mean, all.mean, 1e-12);
    // a set that fills half a batch is there twice; the others are not measured on padding either
    all = stat_of(be, &shard, 2, 2 * T);
    padded = stat_of(be, &shard, 4, 2 * T);
    assert_near(padded.mean, all.mean, 1e-12);
    assert_near(padded.var, all.var, 1e-12);
    backend_close(be);
}

static void norms_are_those_of_all_batches(void **state)
{
    struct backend *be = tiny_backend("ref", 1);
    struct shard shard = small_shard();
    struct eval_options o = {.max_tokens = 8 * T + 1, .norm_layers = 3};
    struct eval_result all, r;
    struct loader l;

    (void)state;
    assert_int_equal(loader_init(&l, &shard, T, 1, NULL), 0);
    for (int batch = 8; batch > 0; batch /= 2) {
        struct model *m = new_model(be, tiny_spec(), batch, MODEL_TRAIN);

        assert_int_equal(eval_score(m, &l, &o, &r, NULL), 0);
        all = batch == 8 ? r : all;
        for (int i = 0; i < 3; i++) {
            assert_true(r.norm[i] > 0 && (i == 0 || r.norm[i] != r.norm[i - 1]));
            assert_near(r.norm[i], all.norm[i], 1e-12);
        }
        model_free(m);
    }
    backend_close(be);
}

static void note_share(void *user, double share)
{
    double *shares = user; // count, then the shares

    shares[1 + (int)shares[0]++] = share;
}

static void progress_reaches_one(void **state)
{
    struct backend *be = tiny_backend("ref", 1);
    struct shard shard = small_shard();
    double shares[8] = {0};
    struct eval_options o = {.progress = note_share, .user = shares};
    struct model *m = new_model(be, tiny_spec(), 4, MODEL_EVAL);
    struct eval_result r;
    struct loader l;

    (void)state;
    assert_int_equal(loader_init(&l, &shard, T, 1, NULL), 0);
    assert_int_equal(eval_score(m, &l, &o, &r, NULL), 0);
    assert_near(shares[0], 3, 0);
    assert_near(shares[1], 4. / 9, 1e-15);
    assert_near(shares[2], 8. / 9, 1e-15);
    assert_near(shares[3], 1, 0);
    model_free(m);
    backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scored_tokens_and_their_weights_are_as_asked),
        cmocka_unit_test(gates_are_measured_over_all_batches),
        cmocka_unit_test(norms_are_those_of_all_batches),
        cmocka_unit_test(progress_reaches_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
