// Decoding with a cache per repetition against the whole forward pass.
#include "tests/t.h"

#include <math.h>
#include <string.h>

#include "tests/arch.h"
#include "tests/tiny.h"
// ---- decoding -----------------------------------------------------------------------------------

// Logits of one sequence, prompt of `first` tokens at once and the rest one by one.
static double decoding_error(struct backend *be, struct spec s, int first)
{
    struct model *whole, *parts;
    float all[5 * 16], one[16];
    struct arch_batch x;
    double sum, worst = 0, largest = 0;

    s.train.micro_batch_size = 1;
    whole = arch_model(be, &s, MODEL_EVAL);
    parts = arch_model(be, &s, MODEL_DECODE);
    tiny_batch(whole, 11, 3, x.tokens, x.targets);
    assert_int_equal(model_logits(whole, x.tokens, x.targets, all, &sum, NULL), 0);
    for (int t = 0; t < 5; t += t ? 1 : first) {
        int n = t ? 1 : first;

        assert_int_equal(model_decoded(parts), t);
        assert_int_equal(model_decode(parts, x.tokens + t, n, one, NULL), 0);
        for (int v = 0; v < 16; v++) {
            worst = fmax(worst, fabs(one[v] - all[(t + n - 1) * 16 + v]));
            largest = fmax(largest, fabs(one[v]));
        }
    }
    model_free(whole);
    model_free(parts);
    return worst / largest;
}

// Logits pass through float; cpu adds up in another order, which deep models amplify.
static void check_decoding(const char *name, const struct spec *s)
{
    struct backend *ref = tiny_backend("ref", 2), *cpu = tiny_backend("cpu", 2);

    for (int first = 1; first <= 5; first += 2) {
        double exact = decoding_error(ref, *s, first), fast = decoding_error(cpu, *s, first);

        if (!(exact < 1e-7 && fast < 5e-5))
            fail_msg("%s: decoding differs by %g (ref), %g (cpu)", name, exact, fast);
    }
    backend_close(cpu);
    backend_close(ref);
}

static void decoding_equals_the_whole_forward(void **state)
{
    (void)state;
    for (int v = 0; v < arch_count; v++) {
        struct spec s = arch_spec(&arch_variants[v]);

        check_decoding(arch_variants[v].name, &s);
    }
}

// hard has no gradient, so it is no variant of the table.
static void decoding_knows_every_attention_of_gates(void **state)
{
    (void)state;
    for (int attn = GATE_ATTN_KEY; attn <= GATE_ATTN_HARD; attn++) {
        struct spec s = arch_named("mixture");

        s.gate.attn = (enum gate_attn)attn;
        check_decoding("mixture with another gate.attn", &s);
    }
}

static void decoding_can_go_back(void **state)
{
    struct backend *be = tiny_backend("cpu", 2);
    struct spec s = arch_named("mixture"); // mixture
    float a[16], b[16];
    struct model *m;

    (void)state;
    s.train.micro_batch_size = 1;
    m = arch_model(be, &s, MODEL_DECODE);
    assert_int_equal(model_decode(m, (int32_t[]){3, 1, 4}, 3, a, NULL), 0);
    model_decode_from(m, 1);
    assert_int_equal(model_decode(m, (int32_t[]){5, 9}, 2, b, NULL), 0);
    assert_true(memcmp(a, b, sizeof a) != 0);
    model_decode_from(m, 1);
    assert_int_equal(model_decode(m, (int32_t[]){1, 4}, 2, b, NULL), 0);
    for (int v = 0; v < 16; v++)
        assert_near(a[v], b[v], 1e-5);
    model_free(m);
    backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoding_equals_the_whole_forward),
        cmocka_unit_test(decoding_knows_every_attention_of_gates),
        cmocka_unit_test(decoding_can_go_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
