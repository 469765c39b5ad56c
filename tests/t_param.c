// The parameter list: names, order, offsets, initial values, weight decay.
#include "tests/t.h"

#include <math.h>

#include "engine/gen.h"
#include "engine/param.h"

// d 6, head_dim 2, two layers of different shape; nothing is a multiple of 16.
static struct spec tiny(void)
{
    struct spec s = {.model = {.d_model = 6,
                               .n_layers = 2,
                               .block_loops = 1,
                               .head_dim = 2,
                               .lane = {{5, 7}, {4, 6}, {2, 3}, {1, 1}},
                               .ffn_step = 1,
                               .head_step = 1,
                               .vocab = 11,
                               .vocab_pad = 4,
                               .init_std = 0.02},
                     .train = {.seq_len = 9, .micro_batch_size = 1}};

    return s;
}

static void assert_names(const struct param_list *list, const char *const *names)
{
    int i = 0;

    for (; names[i]; i++) {
        assert_true(i < list->n);
        assert_string_equal(list->v[i].name, names[i]);
    }
    assert_int_equal(i, list->n);
}

static void llama_like_names_and_shapes(void **state)
{
    static const char *const names[] = {"model.embed_tokens.weight",
                                        "model.layers.0.input_layernorm.weight",
                                        "model.layers.0.self_attn.q_proj.weight",
                                        "model.layers.0.self_attn.k_proj.weight",
                                        "model.layers.0.self_attn.v_proj.weight",
                                        "model.layers.0.self_attn.o_proj.weight",
                                        "model.layers.0.post_attention_layernorm.weight",
                                        "model.layers.0.mlp.gate_proj.weight",
                                        "model.layers.0.mlp.up_proj.weight",
                                        "model.layers.0.mlp.down_proj.weight",
                                        "model.norm.weight",
                                        "lm_head.weight",
                                        NULL};
    struct spec s = tiny();
    struct param_list list;
    const struct param *p;

    (void)state;
    s.model.n_layers = 1;
    param_list_build(&list, &s);
    assert_names(&list, names);
    p = param_find(&list, PARAM_EMBED, -1);
    assert_true(p->rows == 12 && p->cols == 6 && p->n_dims == 2); // 11 padded to 12
    p = param_find(&list, PARAM_Q, 0);
    assert_true(p->rows == 8 && p->cols == 6);
    p = param_find(&list, PARAM_K, 0);
    assert_true(p->rows == 4 && p->cols == 6);
    p = param_find(&list, PARAM_O, 0);
    assert_true(p->rows == 6 && p->cols == 8);
    p = param_find(&list, PARAM_DOWN, 0);
    assert_true(p->rows == 6 && p->cols == 5);
    p = param_find(&list, PARAM_FINAL_NORM, -1);
    assert_true(p->rows == 1 && p->cols == 6 && p->n_dims == 1);
    assert_null(param_find(&list, PARAM_Q_NORM, 0));
    assert_null(param_find(&list, PARAM_Q, 1));
    param_list_release(&list);
}

static void olmo2_names_for_reordered_norms(void **state)
{
    struct spec s = tiny();
    struct param_list list;

    (void)state;
    s.model.norm_place = PLACE_REORDERED;
    s.model.qk_norm = QK_FULL;
    s.model.tie_embeddings = true;
    param_list_build(&list, &s);
    assert_string_equal(param_find(&list, PARAM_ATTN_OUT_NORM, 1)->name,
                        "model.layers.1.post_attention_layernorm.weight");
    assert_string_equal(param_find(&list, PARAM_FFN_OUT_NORM, 1)->name,
                        "model.layers.1.post_feedforward_layernorm.weight");
    assert_string_equal(param_find(&list, PARAM_Q_NORM, 1)->name,
                        "model.layers.1.self_attn.q_norm.weight");
    assert_int_equal(param_find(&list, PARAM_Q_NORM, 1)->size, 12);
    assert_int_equal(param_find(&list, PARAM_K_NORM, 1)->size, 6);
    assert_null(param_find(&list, PARAM_HEAD, -1));
    param_list_release(&list);
    s.model.qk_norm = QK_HEAD;
    param_list_build(&list, &s);
    assert_int_equal(param_find(&list, PARAM_Q_NORM, 1)->size, 2);
    assert_int_equal(param_find(&list, PARAM_K_NORM, 1)->size, 2);
    param_list_release(&list);
}

static void gpt2_names_with_biases_and_positions(void **state)
{
    static const char *const names[] = {"model.embed_tokens.weight",
                                        "model.embed_positions.weight",
                                        "model.layers.0.input_layernorm.weight",
                                        "model.layers.0.input_layernorm.bias",
                                        "model.layers.0.self_attn.q_proj.weight",
                                        "model.layers.0.self_attn.k_proj.weight",
                                        "model.layers.0.self_attn.v_proj.weight",
                                        "model.layers.0.self_attn.q_proj.bias",
                                        "model.layers.0.self_attn.k_proj.bias",
                                        "model.layers.0.self_attn.v_proj.bias",
                                        "model.layers.0.self_attn.o_proj.weight",
                                        "model.layers.0.self_attn.o_proj.bias",
                                        "model.layers.0.post_attention_layernorm.weight",
                                        "model.layers.0.post_attention_layernorm.bias",
                                        "model.layers.0.mlp.up_proj.weight",
                                        "model.layers.0.mlp.up_proj.bias",
                                        "model.layers.0.mlp.down_proj.weight",
                                        "model.layers.0.mlp.down_proj.bias",
                                        "model.norm.weight",
                                        "model.norm.bias",
                                        NULL};
    struct spec s = tiny();
    struct param_list list;

    (void)state;
    s.model.n_layers = 1;
    s.model.norm = NORM_LAYER;
    s.model.act = ACT_GELU_TANH;
    s.model.bias = s.model.tie_embeddings = true;
    s.model.pos = POS_LEARNED;
    param_list_build(&list, &s);
    assert_names(&list, names);
    assert_int_equal(param_find(&list, PARAM_POSITION, -1)->rows, 9);
    param_list_release(&list);
}

// Every tensor starts after the one before it; a group has no gap, everything else is aligned.
static void assert_layout(const struct param_list *list)
{
    int64_t end = 0, total = 0;

    for (int i = 0; i < list->n; i++) {
        const struct param *p = &list->v[i];
        bool joined = p->role == PARAM_K || p->role == PARAM_V || p->role == PARAM_K_BIAS ||
                      p->role == PARAM_V_BIAS ||
                      (p->role == PARAM_UP && i && p[-1].role == PARAM_GATE) ||
                      (p->role == PARAM_UP_BIAS && i && p[-1].role == PARAM_GATE_BIAS);

        assert_true(joined ? p->offset == end : p->offset % 16 == 0);
        assert_true(p->offset >= end && p->offset < end + 16);
        assert_true(p->size == (int64_t)p->rows * p->cols);
        end = p->offset + p->size;
        total += p->size;
    }
    assert_int_equal(list->total, total);
    assert_int_equal(list->block_size, end);
}

static void groups_are_contiguous_and_aligned(void **state)
{
    (void)state;
    for (int variant = 0; variant < 12; variant++) {
        struct spec s = tiny();
        struct param_list list;

        s.model.bias = variant & 1;
        s.model.norm = variant & 2 ? NORM_LAYER : NORM_RMS;
        s.model.act = (enum act_fn)(variant / 4);
        s.model.qk_norm = variant & 1 ? QK_HEAD : QK_NONE;
        param_list_build(&list, &s);
        assert_layout(&list);
        assert_true(!!param_find(&list, PARAM_GATE, 0) == (s.model.act == ACT_SWIGLU));
        assert_true(!!param_find(&list, PARAM_GATE_BIAS, 0) ==
                    (s.model.act == ACT_SWIGLU && s.model.bias));
        param_list_release(&list);
    }
}

static bool decay_of(const struct spec *s, enum param_role role, int layer)
{
    struct param_list list;
    bool decay;

    param_list_build(&list, s);
    decay = param_find(&list, role, layer)->decay;
    param_list_release(&list);
    return decay;
}

static void weight_decay_follows_its_scope(void **state)
{
    static const struct {
        enum decay_scope scope;
        bool embed, position, matrix, norm, bias, head;
    } cases[] = {{DECAY_MATRICES, true, true, true, false, false, true},
                 {DECAY_NOT_EMBEDDING, false, false, true, true, true, true},
                 {DECAY_ALL, true, true, true, true, true, true}};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct spec s = tiny();

        s.model.bias = true;
        s.model.pos = POS_LEARNED;
        s.optim.decay_scope = cases[i].scope;
        assert_true(decay_of(&s, PARAM_EMBED, -1) == cases[i].embed);
        assert_true(decay_of(&s, PARAM_POSITION, -1) == cases[i].position);
        assert_true(decay_of(&s, PARAM_DOWN, 1) == cases[i].matrix);
        assert_true(decay_of(&s, PARAM_FFN_IN_NORM, 1) == cases[i].norm);
        assert_true(decay_of(&s, PARAM_O_BIAS, 1) == cases[i].bias);
        assert_true(decay_of(&s, PARAM_HEAD, -1) == cases[i].head);
    }
}

static double std_of(const struct spec *s, enum param_role role, int layer)
{
    struct param_list list;
    double std;

    param_list_build(&list, s);
    std = param_find(&list, role, layer)->init_std;
    param_list_release(&list);
    return std;
}

static void openelm_init_goes_by_fan_in_and_depth(void **state)
{
    struct spec s = tiny();

    (void)state;
    s.model.init = INIT_OPENELM;
    assert_near(std_of(&s, PARAM_EMBED, -1), 1 / sqrt(6), 1e-6);
    assert_near(std_of(&s, PARAM_Q, 1), 1 / sqrt(6), 1e-6);
    assert_near(std_of(&s, PARAM_GATE, 1), 1 / sqrt(6), 1e-6);
    assert_near(std_of(&s, PARAM_O, 1), 1 / sqrt(6) / sqrt(2 * 2), 1e-6);
    assert_near(std_of(&s, PARAM_DOWN, 0), 1 / sqrt(6) / sqrt(2 * 2), 1e-6);
    assert_near(std_of(&s, PARAM_ATTN_IN_NORM, 0), 0, 0);
}

// Mean, standard deviation and largest value of one tensor's initial values.
static void moments(const struct param *p, uint64_t seed, double *mean, double *std, double *most)
{
    float *x = malloc((size_t)p->size * sizeof *x);
    double sum = 0, sum2 = 0;

    *most = 0;
    param_init(p, seed, x);
    for (int64_t i = 0; i < p->size; i++) {
        sum += x[i];
        sum2 += (double)x[i] * x[i];
        *most = fmax(*most, fabs(x[i]));
    }
    *mean = sum / (double)p->size;
    *std = sqrt(sum2 / (double)p->size - *mean * *mean);
    free(x);
}

static void initial_values_have_their_distribution(void **state)
{
    struct spec s = tiny();
    struct param_list list;
    double mean, std, most;

    (void)state;
    s.model.vocab = 40000; // 240,000 numbers: the error of sd is 0.15 %
    param_list_build(&list, &s);
    moments(&list.v[0], 1, &mean, &std, &most);
    assert_near(mean / 0.02, 0, 0.01);
    assert_near(std / 0.02, 1, 0.01);
    assert_true(most > 3.5 * 0.02);
    param_list_release(&list);
    s.model.init = INIT_TRUNCATED;
    param_list_build(&list, &s);
    moments(&list.v[0], 1, &mean, &std, &most);
    assert_true(most <= 3.0001 * 0.02 && most > 2.9 * 0.02);
    assert_near(std / 0.02, 0.98658, 0.01); // sd of a normal cut at 3
    moments(param_find(&list, PARAM_ATTN_IN_NORM, 0), 1, &mean, &std, &most);
    assert_true(mean == 1 && most == 1);
    param_list_release(&list);
}

static void initial_values_depend_on_seed_and_name_only(void **state)
{
    struct spec s = tiny();
    struct param_list a, b;
    float x[64], y[64];

    (void)state;
    param_list_build(&a, &s);
    s.model.qk_norm = QK_FULL; // moves every offset
    s.model.lane[LANE_FFN][0] = 3;
    param_list_build(&b, &s);
    assert_true(param_find(&a, PARAM_K, 1)->offset != param_find(&b, PARAM_K, 1)->offset);
    param_init(param_find(&a, PARAM_K, 1), 5, x);
    param_init(param_find(&b, PARAM_K, 1), 5, y);
    assert_memory_equal(x, y, 36 * sizeof x[0]);
    param_init(param_find(&a, PARAM_K, 1), 6, y);
    assert_memory_not_equal(x, y, 36 * sizeof x[0]);
    param_init(param_find(&a, PARAM_V, 1), 5, y);
    assert_memory_not_equal(x, y, 36 * sizeof x[0]);
    param_list_release(&a);
    param_list_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_like_names_and_shapes),
        cmocka_unit_test(olmo2_names_for_reordered_norms),
        cmocka_unit_test(gpt2_names_with_biases_and_positions),
        cmocka_unit_test(groups_are_contiguous_and_aligned),
        cmocka_unit_test(weight_decay_follows_its_scope),
        cmocka_unit_test(openelm_init_goes_by_fan_in_and_depth),
        cmocka_unit_test(initial_values_have_their_distribution),
        cmocka_unit_test(initial_values_depend_on_seed_and_name_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
