// The presets of papers B and C: that the generator writes what is shipped, that each reads without
// a complaint, and that its size, work, architecture and training are the paper's
// (architectures.md §3, §4, §5, §6.2).
#include "tests/t.h"

#include <glob.h>
#include <math.h>

#include "engine/buf.h"
#include "engine/count.h"
#include "engine/file.h"
#include "engine/optim.h"
#include "engine/profile.h"

// The header's lines as one, since it may be wrapped anywhere.
static char *unwrapped(const char *file)
{
    struct buf raw = {0}, out = {0};
    struct err err = ERR_INIT;

    assert_int_equal(file_read(file, 1 << 16, &raw, &err), 0);
    for (const char *at = raw.data; *at; at++)
        if (strncmp(at, "\n# ", 3))
            buf_add(&out, at, 1);
        else
            at++; // the blank stays
    buf_release(&raw);
    return out.data;
}

// Reads profiles/<name>.yaml; its text, to look for what the header says, in *text (free it).
static struct count load(const char *name, struct spec *s, char **text)
{
    char *file = xasprintf("profiles/%s.yaml", name);
    struct problems p = {0};
    struct count c;

    if (profile_load(file, NULL, 0, s, &p) || p.n) {
        problems_print(&p, stderr);
        fail_msg("%s has %d problems", file, p.n);
    }
    problems_release(&p);
    *text = unwrapped(file);
    assert_string_equal(s->name, name + 2);
    count_model(s, &c);
    free(file);
    return c;
}

static void expect_said(const char *name, const char *text, const char *what)
{
    if (!strstr(text, what))
        fail_msg("%s does not say '%s'", name, what);
}

static void expect_total(const char *name, int64_t total, int64_t want, const char *text)
{
    char words[UNIT_SIZE];

    if (total != want)
        fail_msg("%s has %lld parameters, expected %lld", name, (long long)total, (long long)want);
    expect_said(name, text, unit_thousands(words, want));
}

static int n_files(const char *pattern)
{
    glob_t g;
    int n;

    assert_int_equal(glob(pattern, 0, NULL, &g), 0);
    n = (int)g.gl_pathc;
    globfree(&g);
    return n;
}

// ---- the generator ------------------------------------------------------------------------------

static void the_generator_writes_what_is_shipped(void **state)
{
    static const char *const folders[] = {"B", "C"};
    char *command = xasprintf("profiles/generate %s", t_path("out"));

    (void)state;
    assert_int_equal(system(command), 0);
    free(command);
    for (int i = 0; i < 2; i++) {
        command = xasprintf("diff -r profiles/%s %s/%s", folders[i], t_path("out"), folders[i]);
        assert_int_equal(system(command), 0);
        free(command);
    }
}

// ---- paper B ------------------------------------------------------------------------------------

// §6.2; §5.3, house standard with full attention, without the gates.
static const struct {
    int layers;
    int64_t total;
    double forward_mflops;
} depths[] = {
    {2, 96077569, 121.2},  {4, 114958850, 165.3},  {6, 133840131, 209.3},
    {8, 152721412, 253.4}, {10, 171602693, 297.4}, {12, 190483974, 341.4},
};
enum { N_DEPTHS = sizeof depths / sizeof *depths };

static void expect_b(const struct spec *s)
{
    const struct model_spec *m = &s->model;

    for (int i = 0; i < m->n_layers; i++)
        assert_true(m->lane[LANE_FFN][i] == 3072 && m->lane[LANE_HEADS][i] == 12 &&
                    m->lane[LANE_KV][i] == 12 && m->lane[LANE_REUSE][i] == 1);
    assert_true(m->d_model == 768 && m->head_dim == 64 && m->vocab == 50257);
    assert_true(m->norm == NORM_RMS && m->norm_place == PLACE_SANDWICH && m->input_norm);
    assert_true(m->norm_eps == 1e-5 && m->qk_norm == QK_NONE && m->act == ACT_SWIGLU);
    assert_true(m->pos == POS_ROPE && m->rope_theta == 1e4 && m->rope_layout == ROPE_INTERLEAVED);
    assert_true(m->init == INIT_NORMAL && m->init_std == 0.02 && !m->depth_scale);
    assert_true(!m->bias && !m->tie_embeddings && s->gate.enabled && s->train.seed == 0);
    assert_int_equal(s->train.seq_len, 1024);
    assert_int_equal(spec_tokens_per_step(s), 524288);
    assert_int_equal(spec_total_steps(s), 19560);
    assert_int_equal(s->eval.interval, 100);
}

static void expect_b_optimizer(const struct optim_spec *o)
{
    assert_true(o->betas[0] == 0.8 && o->betas[1] == 0.95 && o->eps == 1e-10);
    assert_true(o->weight_decay == 0 && o->max_norm == 0);
    assert_near(optim_lr(o, 0, 19560), 1e-4, 1e-12);
    assert_near(optim_lr(o, 978, 19560), 5.5e-4, 1e-12); // half way up from a tenth
    assert_near(optim_lr(o, 1956, 19560), 1e-3, 1e-12);
    assert_near(optim_lr(o, (1956 + 19560) / 2, 19560), 5e-4, 1e-12);
    assert_near(optim_lr(o, 19560, 19560), 0, 1e-12);
}

// 2 V d + 2 d + L (4 d^2 + 3 d f + 4 d) + (L/2) (d + 1), §3.1
static int64_t b_formula(int64_t layers)
{
    int64_t V = 50257, d = 768, f = 3072;

    return 2 * V * d + 2 * d + layers * (4 * d * d + 3 * d * f + 4 * d) + layers / 2 * (d + 1);
}

static void b_preset(const char *name, int depth, struct spec *s)
{
    char *text;
    struct count c = load(name, s, &text);
    double gates = 2.0 * 768 * depths[depth].layers / 2; // FLOPs

    assert_int_equal(s->model.n_layers, depths[depth].layers);
    assert_int_equal(b_formula(depths[depth].layers), depths[depth].total);
    expect_total(name, c.total, depths[depth].total, text);
    assert_true(fabs((c.forward_per_token - gates) / 1e6 - depths[depth].forward_mflops) < 0.0501);
    expect_said(name, text, "Paper B");
    expect_said(name, text, "Figure 2");
    expect_b(s);
    expect_b_optimizer(&s->optim);
    free(text);
}

static void dense_and_uncontrolled_presets_of_b(void **state)
{
    (void)state;
    for (int i = 0; i < N_DEPTHS; i++) {
        char *dense = xasprintf("B/dense%d", depths[i].layers);
        char *open = xasprintf("B/nocontrol%d", depths[i].layers);
        struct spec s;

        b_preset(dense, i, &s);
        assert_true(s.gate.init == GATE_INIT_ZERO && s.gate.controller == CTRL_NONE);
        b_preset(open, i, &s);
        assert_true(s.gate.init == GATE_INIT_NORMAL && s.gate.controller == CTRL_NONE);
        assert_int_equal(s.gate.attn, GATE_ATTN_KEY);
        for (int l = 0; l < s.model.n_layers; l++)
            assert_true(s.gate.alpha[l] == 0 && s.gate.beta[l] == 0);
        free(dense);
        free(open);
    }
}

static void expect_b_control(const struct gate_spec *g, double mu_end)
{
    assert_true(g->init == GATE_INIT_NORMAL && g->controller == CTRL_PROPORTIONAL);
    assert_true(g->gamma == 1e-3 && g->delta == 0.01 && g->sided == SIDED_TWO);
    assert_true(g->mu_start == 1 && g->mu_end == mu_end && g->var_delta == 0);
    assert_true(g->reduce == REDUCE_MEAN && g->alpha[0] == 0 && g->beta[0] == 0);
}

static void gated_presets_of_b(void **state)
{
    static const double mu_end[] = {0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};
    struct spec s;

    (void)state;
    for (size_t i = 0; i < sizeof mu_end / sizeof *mu_end; i++) {
        char *name = xasprintf("B/gated12-%g", mu_end[i]);

        b_preset(name, N_DEPTHS - 1, &s);
        expect_b_control(&s.gate, mu_end[i]);
        assert_int_equal(s.gate.attn, GATE_ATTN_KEY);
        free(name);
    }
    b_preset("B/gated12-0.5-query_noop", N_DEPTHS - 1, &s);
    expect_b_control(&s.gate, 0.5);
    assert_int_equal(s.gate.attn, GATE_ATTN_QUERY_NOOP);
    assert_int_equal(n_files("profiles/B/*.yaml"), 2 * N_DEPTHS + 10 + 1);
}

// ---- paper C ------------------------------------------------------------------------------------

static const struct {
    const char *name;
    enum pos pos;
} encodings[] = {
    {"nope", POS_NONE}, {"rope", POS_ROPE}, {"learned", POS_LEARNED}, {"alibi", POS_ALIBI}};

// §4.6: test perplexity for each encoding; the map; passes through a layer; whether in two loops
static const struct strategy {
    const char *size, *name;
    double ppl[4];
    int reuse[8], passes, loops;
} strategies[] = {
    {"small", "baseline", {16.57, 15.56, 14.98, 14.38}, {1, 1, 1, 1}, 4, 1},
    {"small", "block2", {15.29, 14.27, 14.27, 14.23}, {1, 1, 1, 1}, 8, 2},
    {"small", "2111", {15.17, 14.40, 14.42, 14.32}, {2, 1, 1, 1}, 5, 1},
    {"small", "1211", {15.14, 13.93, 14.39, 14.20}, {1, 2, 1, 1}, 5, 1},
    {"small", "1121", {16.54, 14.13, 14.54, 14.34}, {1, 1, 2, 1}, 5, 1},
    {"small", "1112", {16.98, 15.12, 14.84, 14.65}, {1, 1, 1, 2}, 5, 1},
    {"small", "1124", {17.54, 14.24, 14.66, 14.25}, {1, 1, 2, 4}, 8, 1},
    {"small", "1223", {15.59, 13.96, 14.25, 14.13}, {1, 2, 2, 3}, 8, 1},
    {"small", "2222", {15.07, 14.15, 14.17, 13.76}, {2, 2, 2, 2}, 8, 1},
    {"small", "3221", {14.62, 13.92, 14.37, 13.73}, {3, 2, 2, 1}, 8, 1},
    {"small", "4211", {14.64, 13.77, 14.28, 13.63}, {4, 2, 1, 1}, 8, 1},
    {"large", "baseline", {18.09, 16.77, 17.64, 17.16}, {1, 1, 1, 1, 1, 1, 1, 1}, 8, 1},
    {"large", "12111111", {17.97, 16.64, 17.54, 16.98}, {1, 2, 1, 1, 1, 1, 1, 1}, 9, 1},
};
enum { N_STRATEGIES = sizeof strategies / sizeof *strategies };

// What differs between the two sizes, §4.1 and §4.5.
static const struct size {
    int d_model, n_layers, n_heads, head_dim, ffn, vocab;
    int64_t total; // §6.2, without learned positions
    int64_t steps, warmup;
    double lr;
    int micro;
} sizes[] = {{128, 4, 4, 32, 512, 1024, 1180800, 7629, 763, 3e-3, 32},
             {768, 8, 8, 96, 3072, 32000, 100086528, 45777, 916, 1e-3, 8}};

// §5.4, full attention
static double c_mflops(int passes, bool is_large)
{
    if (is_large)
        return passes == 8 ? 225.3 : 247.3;
    return passes == 4 ? 4.456 : passes == 5 ? 5.505 : 8.651;
}

static void expect_c(const struct spec *s, const struct size *z)
{
    const struct model_spec *m = &s->model;
    const struct optim_spec *o = &s->optim;

    assert_true(m->d_model == z->d_model && m->n_layers == z->n_layers);
    assert_true(m->head_dim == z->head_dim && m->vocab == z->vocab);
    for (int i = 0; i < z->n_layers; i++)
        assert_true(m->lane[LANE_FFN][i] == z->ffn && m->lane[LANE_HEADS][i] == z->n_heads &&
                    m->lane[LANE_KV][i] == z->n_heads);
    assert_true(m->norm == NORM_RMS && m->norm_place == PLACE_PRE && !m->input_norm);
    assert_true(m->norm_eps == 1e-6 && m->qk_norm == QK_NONE && m->act == ACT_SWIGLU && !m->bias);
    assert_true(m->tie_embeddings && m->init == INIT_NORMAL && m->init_std == 0.02);
    assert_true(m->rope_theta == 1e4 && m->rope_layout == ROPE_HALF && !s->gate.enabled);
    assert_true(o->betas[0] == 0.9 && o->betas[1] == 0.999 && o->eps == 1e-8);
    assert_true(o->weight_decay == 0.01 && o->decay_scope == DECAY_ALL && o->max_norm == 1);
    assert_true(o->lr == z->lr && o->min_lr == 0 && o->warmup_steps == z->warmup);
    assert_true(o->warmup_start == 0 && o->schedule == SCHED_COSINE);
    assert_true(s->train.seq_len == 1024 && s->train.seed == 42 && s->data.seed == 42);
    assert_int_equal(s->train.micro_batch_size, z->micro);
    assert_int_equal(spec_tokens_per_step(s), 65536);
    assert_int_equal(spec_total_steps(s), z->steps);
}

// V d + L (4 d^2 + 3 d 4d + 2 d) + d, and 1,024 d for learned positions, §4.1
static int64_t c_formula(const struct size *z, enum pos pos)
{
    int64_t V = z->vocab, d = z->d_model, L = z->n_layers;

    return V * d + L * (4 * d * d + 3 * d * 4 * d + 2 * d) + d + (pos == POS_LEARNED ? 1024 * d : 0);
}

static void c_preset(const struct strategy *y, int encoding)
{
    bool is_large = !strcmp(y->size, "large");
    const struct size *z = &sizes[is_large];
    enum pos pos = encodings[encoding].pos;
    char *name = xasprintf("C/%s-%s-%s", y->size, encodings[encoding].name, y->name), *text;
    char *ppl = xasprintf("perplexity %.2f", y->ppl[encoding]);
    struct spec s;
    struct count c = load(name, &s, &text);

    expect_total(name, c.total, c_formula(z, pos), text);
    assert_int_equal(c_formula(z, POS_NONE), z->total);
    assert_int_equal(s.model.pos, pos);
    assert_memory_equal(s.model.lane[LANE_REUSE], y->reuse, (size_t)z->n_layers * sizeof(int));
    assert_int_equal(s.model.block_loops, y->loops);
    assert_int_equal(s.model.block_inject, INJECT_ADD);
    assert_int_equal(s.model.reuse_inject, INJECT_NONE);
    assert_true(fabs(c.forward_per_token / 1e6 - c_mflops(y->passes, is_large)) <
                (is_large ? 0.0501 : 0.000501));
    expect_said(name, text, ppl);
    expect_said(name, text, "Table 1, one run");
    expect_c(&s, z);
    free(ppl);
    free(text);
    free(name);
}

static void presets_of_c(void **state)
{
    (void)state;
    for (int i = 0; i < N_STRATEGIES; i++)
        for (int j = 0; j < 4; j++)
            c_preset(&strategies[i], j);
    assert_int_equal(n_files("profiles/C/*.yaml"), 4 * N_STRATEGIES + 2);
}

static void reinjection_presets_of_c(void **state)
{
    static const struct {
        const char *name;
        int reuse[4];
    } rows[] = {{"C/small-nope-4211-reinject", {4, 2, 1, 1}},
                {"C/small-nope-3221-reinject", {3, 2, 2, 1}}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct spec s;
        char *text;
        struct count c = load(rows[i].name, &s, &text);

        expect_total(rows[i].name, c.total, sizes[0].total, text);
        assert_memory_equal(s.model.lane[LANE_REUSE], rows[i].reuse, sizeof rows[i].reuse);
        assert_int_equal(s.model.reuse_inject, INJECT_ADD);
        assert_int_equal(s.model.pos, POS_NONE);
        expect_said(rows[i].name, text, "nothing is published");
        expect_c(&s, &sizes[0]);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_generator_writes_what_is_shipped),
        cmocka_unit_test(dense_and_uncontrolled_presets_of_b),
        cmocka_unit_test(gated_presets_of_b),
        cmocka_unit_test(presets_of_c),
        cmocka_unit_test(reinjection_presets_of_c),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
