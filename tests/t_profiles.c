// The shipped profiles: that they read without a complaint, and their published counts; and the
// commands count, check and show.
#include "tests/t.h"

#include <glob.h>
#include <math.h>
#include <sys/wait.h>

#include "engine/buf.h"
#include "engine/count.h"
#include "engine/file.h"
#include "engine/profile.h"

struct shipped {
    const char *file;
    int64_t total, non_embedding;
    double train_mflops; // per token, full attention, one decimal; 0 = not published
};

static const struct shipped shipped[] = {
    // architectures.md §6.1, FLOPs §2.6
    {"profiles/A/base12.yaml", 181107456, 142473984, 967.9},
    {"profiles/A/lws12.yaml", 178751232, 140117760, 982.1},
    {"profiles/A/base18.yaml", 183477504, 144844032, 996.2},
    {"profiles/A/lws18.yaml", 179742976, 141109504, 983.2},
    {"profiles/A/framed18.yaml", 179350272, 140716800, 985.6},
    {"profiles/A/reverse18.yaml", 179350272, 140716800, 985.6},
    {"profiles/A/crown18.yaml", 181906688, 143273216, 1005.7},
    // §6.2; tied: the table is the whole difference
    {"profiles/openelm/270M.yaml", 271527168, 271527168 - 32000 * 1280, 0},
    {"profiles/openelm/450M.yaml", 457179136, 457179136 - 32000 * 1536, 0},
    {"profiles/openelm/1.1B.yaml", 1079891456, 1079891456 - 32000 * 2048, 0},
    {"profiles/openelm/3B.yaml", 3036647424, 3036647424 - 32000 * 3072, 0},
    {"profiles/olmo2/190M.yaml", 267424512, 190354176, 0},
    {"profiles/gpt2/124M.yaml", 124439808, 124439808 - (50257 + 1024) * 768, 3 * 284.8128},
};
enum { N_SHIPPED = sizeof shipped / sizeof shipped[0] };

static struct count load(const char *file, const char *set, struct spec *spec)
{
    struct problems p = {0};
    struct count c;

    if (profile_load(file, &set, set ? 1 : 0, spec, &p) || p.n) {
        problems_print(&p, stderr);
        fail_msg("%s has %d problems", file, p.n);
    }
    problems_release(&p);
    count_model(spec, &c);
    return c;
}

static void shipped_profiles_give_their_published_counts(void **state)
{
    (void)state;
    for (int i = 0; i < N_SHIPPED; i++) {
        struct spec s;
        struct count c = load(shipped[i].file, NULL, &s);

        if (c.total != shipped[i].total || c.non_embedding != shipped[i].non_embedding)
            fail_msg("%s: %lld / %lld, expected %lld / %lld", shipped[i].file, (long long)c.total,
                     (long long)c.non_embedding, (long long)shipped[i].total,
                     (long long)shipped[i].non_embedding);
        if (shipped[i].train_mflops > 0)
            assert_true(fabs(c.train_per_token / 1e6 - shipped[i].train_mflops) <= 0.0501);
        assert_true(spec_total_steps(&s) > 0);
    }
}

static void variants_by_set_give_their_published_counts(void **state)
{
    static const struct {
        const char *file, *set;
        int64_t total;
    } rows[] = {
        {"profiles/A/crown18.yaml", "model.frame=profile_max", 180727040},
        {"profiles/A/crown18.yaml", "model.frame=endpoint_max", 168536320},
        {"profiles/A/crown18.yaml", "model.frame=none", 168536320},
        {"profiles/openelm/270M.yaml", "model.vocab=32128", 271691008},
        {"profiles/openelm/450M.yaml", "model.vocab=32128", 457375744},
        {"profiles/openelm/1.1B.yaml", "model.vocab=32128", 1080153600},
        {"profiles/openelm/3B.yaml", "model.vocab=32128", 3037040640},
        {"profiles/olmo2/190M.yaml", "model.vocab=50280", 190550784},
        {"profiles/gpt2/124M.yaml", "model.vocab_pad=128", 124475904},
        {"profiles/gpt2/124M.yaml", "model.bias=false", 124337664},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spec s;

        assert_int_equal(load(rows[i].file, rows[i].set, &s).total, rows[i].total);
    }
}

// A profile that is added has its row above; the demo is the workbench's own, and papers B and C have
// t_presets.c.
static void every_shipped_profile_is_tested(void **state)
{
    glob_t g;

    (void)state;
    assert_int_equal(glob("profiles/*/*.yaml", 0, NULL, &g), 0);
    for (size_t i = 0; i < g.gl_pathc; i++) {
        bool known = !strncmp(g.gl_pathv[i], "profiles/demo/", 14) ||
                     !strncmp(g.gl_pathv[i], "profiles/B/", 11) ||
                     !strncmp(g.gl_pathv[i], "profiles/C/", 11);
        struct spec s;

        for (int j = 0; j < N_SHIPPED; j++)
            known |= !strcmp(g.gl_pathv[i], shipped[j].file);
        if (!known)
            fail_msg("%s has no row in t_profiles.c", g.gl_pathv[i]);
        load(g.gl_pathv[i], NULL, &s);
    }
    globfree(&g);
}

static void paper_a_trains_as_its_code_did(void **state)
{
    struct spec s;

    (void)state;
    load("profiles/A/crown18.yaml", NULL, &s);
    assert_string_equal(s.name, "crown18");
    assert_int_equal(spec_total_steps(&s), 13000);
    assert_int_equal(spec_tokens_per_step(&s), 393216);
    assert_int_equal(s.optim.schedule, SCHED_CONSTANT);
    assert_int_equal(s.optim.warmup_steps, 0);
    assert_int_equal(s.optim.decay_scope, DECAY_NOT_EMBEDDING);
    assert_int_equal(s.model.init, INIT_TRUNCATED);
    load("profiles/openelm/3B.yaml", NULL, &s);
    assert_int_equal(spec_tokens_per_step(&s), 4194304);
    assert_near(s.optim.lr, 1.2e-3, 1e-12);
}

// ---- commands -----------------------------------------------------------------------------------

// Exit code of `lathe ARGS`; its standard output in out, its standard error in err.txt.
static int lathe(const char *args, struct buf *out)
{
    const char *program = getenv("LATHE");
    char *command = xasprintf("%s %s 2>%s", program ? program : "./lathe", args, t_path("err.txt"));
    FILE *f = popen(command, "r");
    char part[4096];
    size_t n;
    int status;

    assert_non_null(f);
    buf_reset(out);
    while ((n = fread(part, 1, sizeof part, f)) > 0)
        buf_add(out, part, n);
    status = pclose(f);
    free(command);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static json_t *lathe_json(const char *args, int want)
{
    struct buf out = {0};
    json_t *j;

    assert_int_equal(lathe(args, &out), want);
    j = json_loads(out.data ? out.data : "", 0, NULL);
    assert_non_null(j);
    buf_release(&out);
    return j;
}

static void count_prints_the_documented_object(void **state)
{
    json_t *j = lathe_json("count profiles/A/crown18.yaml --json", 0);
    json_t *params = json_object_get(j, "params"), *layers = json_object_get(j, "layers");

    (void)state;
    assert_int_equal(json_integer_value(json_object_get(params, "total")), 181906688);
    assert_int_equal(json_integer_value(json_object_get(params, "non_embedding")), 143273216);
    assert_int_equal(json_array_size(layers), 18);
    json_decref(j);
    j = lathe_json(
        "count --set model.reuse=2 --set model.frame=none profiles/A/crown18.yaml --json", 0);
    params = json_object_get(j, "params");
    assert_int_equal(json_integer_value(json_object_get(params, "total")), 168536320);
    json_decref(j);
}

static void count_prints_lines_that_fit_80_columns(void **state)
{
    static const char *const runs[] = {
        "count profiles/A/crown18.yaml",
        "count profiles/gpt2/124M.yaml",
        "count profiles/openelm/3B.yaml --set model.reuse=64",
        "count profiles/gpt2/124M.yaml --set gate.enabled=true "
        "--set gate.attn=query_noop --set model.n_layers=256 "
        "--set train.recompute=layer --set model.block_loops=64",
        "count profiles/demo/gated.yaml",
        "count profiles/B/gated12-0.5.yaml --flops all --sparsity 0.25",
        "count profiles/openelm/3B.yaml --flops all"};
    struct buf out = {0};

    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        assert_int_equal(lathe(runs[i], &out), 0);
        for (char *line = strtok(out.data, "\n"); line; line = strtok(NULL, "\n"))
            if (strlen(line) > 80 || strchr(line, '\x1b'))
                fail_msg("'%s' prints '%s'", runs[i], line);
    }
    assert_int_equal(lathe("count profiles/A/crown18.yaml", &out), 0);
    assert_non_null(strstr(out.data, "181,906,688  total"));
    assert_non_null(strstr(out.data, "143,273,216  non-embedding"));
    assert_non_null(strstr(out.data, "104,639,744  no head"));
    assert_null(strstr(out.data, "gate"));
    assert_null(strstr(out.data, "applied"));
    assert_int_equal(lathe("count profiles/demo/gated.yaml --set model.block_loops=2", &out), 0);
    assert_non_null(strstr(out.data, "3 gate units, mirrored: layers 0..2 and 5..3"));
    assert_non_null(strstr(out.data, "runs 2 times (block_loops): 12 layers applied"));
    assert_non_null(strstr(out.data, "after the embedding (input_norm)"));
    buf_release(&out);
}

static void count_shows_other_conventions_beside_the_house(void **state)
{
    struct buf out = {0};
    json_t *j = lathe_json("count profiles/B/gated12-0.5.yaml --json --sparsity=0.25 "
                           "--flops=released-b,house",
                           0);
    json_t *alt = json_object_get(j, "flops_alternatives"), *b = json_object_get(alt, "released-b");

    (void)state;
    assert_int_equal(json_object_size(alt), 2);
    assert_near(json_number_value(json_object_get(b, "forward_per_sequence")) / 1e11, 4.893, 1e-4);
    assert_near(json_number_value(json_object_get(b, "sparsity")), 0.25, 0);
    json_decref(j);
    assert_int_equal(
        lathe("count profiles/gpt2/124M.yaml --flops palm --set model.bias=false", &out), 0);
    assert_non_null(strstr(out.data, " 854,553,600 ")); // of 875,062,886,400 for 1,024 tokens
    assert_int_equal(lathe("count profiles/gpt2/124M.yaml", &out), 0);
    assert_null(strstr(out.data, "FLOPs by"));
    buf_release(&out);
}

static void count_refuses_what_a_convention_cannot_say(void **state)
{
    static const struct {
        const char *args;
        int code;
        const char *says;
    } rows[] = {
        {"A/crown18.yaml --flops plam", 2, "released-b"},
        {"A/crown18.yaml --flops palm,", 2, "knows no convention"},
        {"A/crown18.yaml --sparsity 0.5", 1, "has no gates"},
        {"B/gated12-0.5.yaml --sparsity 1.5", 2, "a share from 0 to 1"},
        {"B/gated12-0.5.yaml --sparsity nan", 2, "a share from 0 to 1"},
        {"B/gated12-0.5.yaml --sparsity 0.5 --flops kaplan", 2, "'kaplan' has no term"},
    };
    struct buf out = {0}, err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *args = xasprintf("count profiles/%s", rows[i].args);
        struct err e = ERR_INIT;

        if (lathe(args, &out) != rows[i].code || out.len)
            fail_msg("%s: expected exit %d without output", args, rows[i].code);
        buf_reset(&err);
        assert_int_equal(file_read(t_path("err.txt"), 1 << 20, &err, &e), 0);
        if (!strstr(err.data, rows[i].says))
            fail_msg("%s: says '%s'", args, err.data);
        free(args);
    }
    buf_release(&out);
    buf_release(&err);
}

static void check_lists_every_problem_and_exits_3(void **state)
{
    struct buf out = {0};
    char *args;
    json_t *j;

    (void)state;
    assert_int_equal(lathe("check profiles/A/crown18.yaml", &out), 0);
    assert_string_equal(out.data, "profiles/A/crown18.yaml: ok\n");
    t_write(t_path("bad.yaml"), "model:\n  d_modle: 64\n  n_layers: -3\n");
    args = xasprintf("check %s", t_path("bad.yaml"));
    assert_int_equal(lathe(args, &out), 3);
    assert_non_null(strstr(out.data, "bad.yaml:2:3: "));
    assert_non_null(strstr(out.data, "bad.yaml:3:"));
    free(args);
    args = xasprintf("check --json %s", t_path("bad.yaml"));
    j = lathe_json(args, 3);
    assert_true(json_is_false(json_object_get(j, "ok")));
    assert_true(json_integer_value(json_object_get(j, "errors")) >= 2);
    assert_true(json_array_size(json_object_get(j, "problems")) >= 2);
    json_decref(j);
    free(args);
    assert_int_equal(lathe("check no/such.yaml", &out), 1);
    args = xasprintf("count %s", t_path("bad.yaml"));
    assert_int_equal(lathe(args, &out), 1);
    assert_int_equal(out.len, 0); // problems go to standard error
    free(args);
    buf_release(&out);
}

static void show_prints_a_profile_that_reads_back(void **state)
{
    struct spec a, b;
    struct buf out = {0};
    json_t *j = lathe_json("show profiles/A/crown18.yaml --json", 0);

    (void)state;
    assert_true(json_is_object(json_object_get(j, "model")));
    json_decref(j);
    assert_int_equal(lathe("show profiles/A/crown18.yaml --set train.seed=7", &out), 0);
    t_write(t_path("crown18.yaml"), out.data);
    load("profiles/A/crown18.yaml", "train.seed=7", &a);
    load(t_path("crown18.yaml"), NULL, &b);
    assert_true(spec_equal(&a, &b));
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_profiles_give_their_published_counts),
        cmocka_unit_test(variants_by_set_give_their_published_counts),
        cmocka_unit_test(every_shipped_profile_is_tested),
        cmocka_unit_test(paper_a_trains_as_its_code_did),
        cmocka_unit_test(count_prints_the_documented_object),
        cmocka_unit_test(count_prints_lines_that_fit_80_columns),
        cmocka_unit_test(count_shows_other_conventions_beside_the_house),
        cmocka_unit_test(count_refuses_what_a_convention_cannot_say),
        cmocka_unit_test(check_lists_every_problem_and_exits_3),
        cmocka_unit_test(show_prints_a_profile_that_reads_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
