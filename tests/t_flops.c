// FLOPs as others count them, against published figures and sums by hand.
#include "tests/t.h"

#include <math.h>

#include "engine/flops.h"
#include "engine/profile.h"

static void load(const char *file, const char *const *set, int n_set, struct spec *s,
                 struct count *c)
{
    struct problems p = {0};

    if (profile_load(file, set, n_set, s, &p) < 0) {
        problems_print(&p, stderr);
        fail_msg("%s", file);
    }
    problems_release(&p);
    count_model(s, c);
}

static double forward(const char *name, const struct spec *s, const struct count *c,
                      double sparsity)
{
    const struct flops_convention *f = flops_find(name, strlen(name));

    assert_non_null(f);
    return f->forward(s, c, sparsity);
}

static double training(const char *name, const struct spec *s, const struct count *c)
{
    return flops_find(name, strlen(name))->train_share * forward(name, s, c, 0);
}

// architectures.md §5.2, 1,024 tokens
static void gpt2_without_biases(void **state)
{
    static const char *const set[] = {"model.bias=false"};
    struct spec s;
    struct count c;

    (void)state;
    load("profiles/gpt2/124M.yaml", set, 1, &s, &c);
    assert_int_equal(s.train.seq_len, 1024);
    assert_near(forward("house", &s, &c, 0), 291648307200., 0);
    assert_near(training("house", &s, &c), 874944921600., 0);
    assert_near(training("palm", &s, &c), 875062886400., 0);
    assert_near(forward("chinchilla", &s, &c, 0), 371148718080., 0);
    assert_near(training("chinchilla", &s, &c), 1113446154240., 0);
    assert_near(forward("kaplan", &s, &c, 0), 188743680. * 1024, 0);
}

// An untied table is no matrix product, its output matrix is one: N = 143,273,216 of crown18. Query
// heads add up to 152 of 64, while paper A's code takes 12 in each of 18 layers.
static void paper_a_with_real_and_with_nominal_heads(void **state)
{
    struct spec s;
    struct count c;
    double heads = 0;

    (void)state;
    load("profiles/A/crown18.yaml", NULL, 0, &s, &c);
    for (int i = 0; i < 18; i++)
        heads += s.model.lane[LANE_HEADS][i];
    assert_near(training("palm", &s, &c), 1024. * (6 * 143273216. + 12 * 1024 * 64 * heads), 0);
    assert_near(training("released-a", &s, &c), 1024. * (6 * 143273216. + 12 * 18 * 768. * 1024),
                0);
}

// architectures.md §5.3, in 1e11 FLOPs per sequence; four digits
static void paper_b_reproduces_its_table(void **state)
{
    static const struct {
        const char *file;
        double sparsity, released, corrected;
    } rows[] = {
        {"profiles/B/dense2.yaml", 0, 1.702, 1.246},
        {"profiles/B/dense4.yaml", 0, 2.614, 1.702},
        {"profiles/B/dense6.yaml", 0, 3.526, 2.158},
        {"profiles/B/dense8.yaml", 0, 4.437, 2.614},
        {"profiles/B/dense10.yaml", 0, 5.349, 3.070},
        {"profiles/B/dense12.yaml", 0, 6.261, 3.526},
        {"profiles/B/gated12-0.5.yaml", 0.25, 4.893, 2.842},
        {"profiles/B/gated12-0.1.yaml", 0.45, 3.799, 2.295},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spec s;
        struct count c;

        load(rows[i].file, NULL, 0, &s, &c);
        assert_near(forward("released-b", &s, &c, rows[i].sparsity) / 1e11, rows[i].released,
                    0.0005 / rows[i].released);
        assert_near(forward("corrected-b", &s, &c, rows[i].sparsity) / 1e11, rows[i].corrected,
                    0.0005 / rows[i].corrected);
    }
}

// Twelve blocks of 22,792,413,184, two norms of 1024 (4 768 + 10), the head, the gates; twice as
// released. The dense baselines have gate units too, shut for ever.
static void paper_b_adds_up(void **state)
{
    double rest = 2 * 1024. * (4 * 768 + 10) + 2 * 1024. * 768 * 50257;
    double gates = 12. * 1024 * 768 + 5. * 1024;
    struct spec s;
    struct count c;

    (void)state;
    load("profiles/B/dense12.yaml", NULL, 0, &s, &c);
    assert_near(forward("released-b", &s, &c, 0), rest + gates + 2 * 12 * 22792413184., 0);
    assert_near(forward("corrected-b", &s, &c, 0), rest + gates + 12 * 22792413184., 0);
    assert_near(training("released-b", &s, &c), rest + gates + 2 * 12 * 22792413184.,
                0); // no backward
    load("profiles/B/gated12-0.5.yaml", NULL, 0, &s, &c);
    assert_near(forward("released-b", &s, &c, 0.25), rest + gates + 2 * 0.75 * 12 * 22792413184.,
                1e-14);
}

// Skipped tokens are no keys under gate.attn key: attention falls with the square of what is left.
static void sparsity_in_the_house_standard(void **state)
{
    static const char *const off[] = {"gate.attn=off"};
    double lin = 2 * 768. * 4 * 768 + 6 * 768. * 3072, attn = 4 * 768. * 1024;
    double rest = 2 * 768. * (50257 + 6);
    struct spec s;
    struct count c;

    (void)state;
    load("profiles/B/gated12-0.5.yaml", NULL, 0, &s, &c);
    assert_near(forward("house", &s, &c, 0), 1024 * (rest + 12 * (lin + attn)), 1e-14);
    assert_near(forward("house", &s, &c, 0.25),
                1024 * (rest + 12 * (0.75 * lin + 0.75 * 0.75 * attn)), 1e-14);
    load("profiles/B/gated12-0.5.yaml", off, 1, &s, &c);
    assert_near(forward("house", &s, &c, 0.25),
                1024 * (rest + 12 * (0.75 * (lin - 4 * 768. * 768 + attn) + 4 * 768. * 768)),
                1e-14);
}

// Each run of a layer adds the same; what is left without any is the table, the norm and the gates.
static void repeated_layers_count_once_per_run(void **state)
{
    static const char *const map[] = {"model.reuse=[4,2,1,1]"}, *const twice[] = {
                                                                    "model.block_loops=2"};
    struct spec s[3];
    struct count c[3];

    (void)state;
    load("profiles/C/small-rope-baseline.yaml", NULL, 0, &s[0], &c[0]);
    load("profiles/C/small-rope-baseline.yaml", map, 1, &s[1], &c[1]);
    load("profiles/C/small-rope-baseline.yaml", twice, 1, &s[2], &c[2]);
    for (const struct flops_convention *f = flops_conventions; f->name; f++) {
        double base = f->forward(&s[0], &c[0], 0), mapped = f->forward(&s[1], &c[1], 0);

        assert_near(f->forward(&s[2], &c[2], 0), mapped, 1e-14); // 8 equal layers either way
        assert_true(mapped > base);
        assert_true(mapped <= 2 * base);
    }
    // by hand: 4 more layers of 4 * 128^2 + 3 * 128 * 512 weights, two norms and full attention
    assert_near(forward("palm", &s[1], &c[1], 0) - forward("palm", &s[0], &c[0], 0),
                1024. * 4 * (2 * (4 * 128 * 128 + 3 * 128 * 512 + 2 * 128) + 4 * 1024 * 128),
                1e-12);
}

static void names_are_found_whole(void **state)
{
    (void)state;
    assert_string_equal(flops_find("palm,kaplan", 4)->name, "palm");
    assert_null(flops_find("pal", 3));
    assert_null(flops_find("", 0));
    assert_string_equal(flops_conventions[0].name, "house");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_without_biases),
        cmocka_unit_test(paper_a_with_real_and_with_nominal_heads),
        cmocka_unit_test(paper_b_reproduces_its_table),
        cmocka_unit_test(paper_b_adds_up),
        cmocka_unit_test(sparsity_in_the_house_standard),
        cmocka_unit_test(repeated_layers_count_once_per_run),
        cmocka_unit_test(names_are_found_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
