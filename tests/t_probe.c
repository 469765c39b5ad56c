// The probe: which sequences it reads, what its file holds, that it is reproducible, and what it
// refuses. Whether its numbers are right is t_parity's question.
#include "tests/t.h"

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/probe.h"
#include "engine/profile.h"
#include "engine/rng.h"
#include "engine/safetensors.h"
#include "tests/tiny.h"
#include "tests/tokens.h"

static struct spec gated_spec(void)
{
    struct spec s = tiny_spec();

    s.model.n_layers = 2;
    s.gate.enabled = true;
    s.gate.eps = 1e-6;
    s.gate.alpha[0] = s.gate.alpha[1] = 0.25;
    return s;
}

// n ids of the tiny vocabulary.
static void open_tokens(struct shard *shard, int n)
{
    const char *path = t_path("tokens");

    tokens_write_u16(path, n, 11);
    assert_int_equal(shard_open(shard, path, TOKENS_U16, NULL), 0);
}

// 0, or -1 with the reason in err. n tokens, 0 = only the weights.
static int probe(const struct spec *spec, int n, const char *weights, const char *out,
                 struct err *err)
{
    struct probe p = {.spec = spec, .weights = weights};
    struct probe_result r;
    struct shard shard;
    int rc;

    if (n)
        open_tokens(&shard, n);
    p.tokens = n ? &shard : NULL;
    p.be = tiny_backend("cpu", 2);
    rc = probe_write(&p, out, &r, err);
    backend_close(p.be);
    if (n)
        shard_close(&shard);
    return rc;
}

static void refuses(const struct spec *spec, int n, const char *weights, const char *expect)
{
    const char *out = t_path("refused");
    struct err err = ERR_INIT;
    char text[2048];

    assert_int_equal(probe(spec, n, weights, out, &err), -1);
    err_format(&err, text, sizeof text);
    if (!strstr(text, expect))
        fail_msg("'%s' does not say '%s'", text, expect);
    assert_false(file_exists(out));
}

static void assert_same_file(const char *a, const char *b)
{
    struct buf x = {0}, y = {0};

    assert_int_equal(file_read(a, 1 << 24, &x, NULL), 0);
    assert_int_equal(file_read(b, 1 << 24, &y, NULL), 0);
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    buf_release(&x);
    buf_release(&y);
}

static int tensors_that_start_with(const struct safetensors *f, const char *prefix)
{
    int n = 0;

    for (int i = 0; i < f->n; i++)
        n += !strncmp(f->t[i].name, prefix, strlen(prefix));
    return n;
}

static void open_probe(struct safetensors *f, const struct spec *spec, int n)
{
    const char *out = t_path("probe");

    assert_int_equal(probe(spec, n, NULL, out, NULL), 0);
    assert_int_equal(safetensors_open(f, out, NULL), 0);
}

// ---- tests --------------------------------------------------------------------------------------

static void two_probes_are_the_same_bytes(void **state)
{
    const char *a = t_path("a"), *b = t_path("b"), *c = t_path("c");
    struct spec s = tiny_spec();

    (void)state;
    assert_int_equal(probe(&s, 11, NULL, a, NULL), 0);
    assert_int_equal(probe(&s, 11, NULL, b, NULL), 0);
    assert_same_file(a, b);
    // its output is good as the next one's weights
    assert_int_equal(probe(&s, 11, a, c, NULL), 0);
    assert_same_file(a, c);
}

static void file_holds_results_weights_and_gradients(void **state)
{
    struct spec s = tiny_spec();
    struct safetensors f;
    const struct st_tensor *logits;
    struct param_list list;

    (void)state;
    open_probe(&f, &s, 11);
    param_list_build(&list, &s);
    assert_int_equal(tensors_that_start_with(&f, "model."), list.n);
    assert_int_equal(tensors_that_start_with(&f, "grad.model."), list.n);
    assert_int_equal(f.n, 2 * list.n + 3);
    logits = safetensors_find(&f, "logits");
    assert_int_equal(logits->n_dims, 3);
    assert_int_equal(logits->shape[0], 2);
    assert_int_equal(logits->shape[1], 5);
    assert_int_equal(logits->shape[2], 16);
    assert_int_equal(safetensors_find(&f, "loss")->shape[0], 1);
    assert_null(safetensors_find(&f, "gate.mean"));
    assert_true(safetensors_find(&f, "loss")->data[0] ==
                safetensors_find(&f, "loss_total")->data[0]);
    param_list_release(&list);
    safetensors_close(&f);
}

static void metadata_is_the_resolved_profile(void **state)
{
    struct spec s = gated_spec();
    json_t *read, *want = profile_to_json(&s);
    struct safetensors f;

    (void)state;
    open_probe(&f, &s, 11);
    read = json_loads(json_string_value(json_object_get(f.metadata, "profile")), 0, NULL);
    assert_non_null(read);
    assert_true(json_equal(read, want));
    json_decref(read);
    json_decref(want);
    safetensors_close(&f);
}

// loss_total = loss + 1/L sum alpha_i mean_i; both layers have the one gate
static void gates_add_their_statistics_and_their_cost(void **state)
{
    struct spec s = gated_spec();
    struct safetensors f;
    const struct st_tensor *mean;

    (void)state;
    open_probe(&f, &s, 11);
    mean = safetensors_find(&f, "gate.mean");
    assert_int_equal(mean->size, 1);
    assert_int_equal(safetensors_find(&f, "gate.var")->size, 1);
    assert_int_equal(safetensors_find(&f, "gate.sparsity")->size, 1);
    assert_near(safetensors_find(&f, "loss_total")->data[0],
                safetensors_find(&f, "loss")->data[0] + 0.25 * mean->data[0], 1e-6);
    assert_non_null(safetensors_find(&f, "grad.model.layers.0.gate.bias"));
    safetensors_close(&f);
}

static void hard_gates_have_no_gradients(void **state)
{
    struct spec s = gated_spec();
    struct safetensors f;

    (void)state;
    s.gate.attn = GATE_ATTN_HARD;
    open_probe(&f, &s, 11);
    assert_int_equal(tensors_that_start_with(&f, "grad."), 0);
    assert_non_null(safetensors_find(&f, "logits"));
    assert_non_null(safetensors_find(&f, "loss_total"));
    safetensors_close(&f);
}

static void without_tokens_only_the_initial_weights(void **state)
{
    struct spec s = tiny_spec();
    struct safetensors f;
    struct param_list list;
    float *x;

    (void)state;
    open_probe(&f, &s, 0);
    param_list_build(&list, &s);
    assert_int_equal(f.n, list.n);
    for (int i = 0; i < list.n; i++) {
        const struct param *p = &list.v[i];

        x = xcalloc((size_t)p->size, sizeof *x);
        param_init(p, (uint64_t)s.train.seed, x);
        assert_memory_equal(safetensors_find(&f, p->name)->data, x, (size_t)p->size * sizeof *x);
        free(x);
    }
    param_list_release(&list);
    safetensors_close(&f);
}

// Sequence b is tokens b T .. b T + T: the second one alone, from a file that starts there, gives the
// logits that it had in the batch.
static void sequences_advance_by_their_length(void **state)
{
    struct spec two = tiny_spec(), one = two;
    const char *path = t_path("second");
    struct safetensors f, g;
    struct shard shard;
    struct probe p = {.spec = &one, .tokens = &shard};
    struct probe_result r;
    uint16_t ids[6];

    (void)state;
    one.train.micro_batch_size = one.train.global_batch_size = 1;
    for (int i = 0; i < 6; i++)
        ids[i] = (uint16_t)tokens_word(7, i + 5, 11); // see tokens_write_u16
    tokens_write_bytes(path, ids, sizeof ids);
    assert_int_equal(shard_open(&shard, path, TOKENS_U16, NULL), 0);
    p.be = tiny_backend("cpu", 2);
    assert_int_equal(probe_write(&p, t_path("alone"), &r, NULL), 0);
    backend_close(p.be);
    shard_close(&shard);
    open_probe(&f, &two, 11);
    assert_int_equal(safetensors_open(&g, t_path("alone"), NULL), 0);
    for (int i = 0; i < 5 * 16; i++)
        assert_near(safetensors_find(&f, "logits")->data[5 * 16 + i],
                    safetensors_find(&g, "logits")->data[i], 1e-6);
    safetensors_close(&f);
    safetensors_close(&g);
}

static void tokens_are_checked(void **state)
{
    struct spec s = tiny_spec();

    (void)state;
    refuses(&s, 10, NULL, "has 10 tokens, 2 sequences of 5 and the last target need 11");
    s.model.vocab = 2;
    refuses(&s, 11, NULL, "beyond model.vocab 2");
}

static void weights_are_checked(void **state)
{
    const char *w = t_path("weights");
    struct spec s = tiny_spec(), other;

    (void)state;
    assert_int_equal(probe(&s, 0, NULL, w, NULL), 0);
    other = s;
    other.model.tie_embeddings = false;
    refuses(&other, 11, w, "has no tensor 'lm_head.weight' [16, 12]");
    other = s;
    other.model.n_layers = 2;
    refuses(&other, 11, w, "'model.layers.2.input_layernorm.weight' of");
    other = s;
    other.model.lane[LANE_FFN][1] = 9;
    refuses(&other, 11, w, "is [8, 12], the profile's is [9, 12]");
    refuses(&s, 11, t_path("no-such-file"), "no-such-file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_probes_are_the_same_bytes),
        cmocka_unit_test(file_holds_results_weights_and_gradients),
        cmocka_unit_test(metadata_is_the_resolved_profile),
        cmocka_unit_test(gates_add_their_statistics_and_their_cost),
        cmocka_unit_test(hard_gates_have_no_gradients),
        cmocka_unit_test(without_tokens_only_the_initial_weights),
        cmocka_unit_test(sequences_advance_by_their_length),
        cmocka_unit_test(tokens_are_checked),
        cmocka_unit_test(weights_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
