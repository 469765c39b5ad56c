// Counts against published and hand-computed numbers, for models built in code. The shipped
// profiles are counted in t_profiles.c.
#include "tests/t.h"

#include <math.h>

#include "engine/count.h"
#include "engine/gen.h"
#include "engine/model.h"
#include "engine/optim.h"
#include "tests/tiny.h"

static struct lane_source points(enum shape shape, double a, double b, double c)
{
    return (struct lane_source){shape, gen_points(shape), {a, b, c}, 0};
}

static void apply(struct spec *s)
{
    struct err err = ERR_INIT;

    if (gen_apply(&s->model, LANE_FFN, &err) || gen_apply(&s->model, LANE_HEADS, &err))
        fail_msg("%s", err.text);
}

static void uniform(struct spec *s, int ffn, int heads, int kv)
{
    for (int i = 0; i < s->model.n_layers; i++) {
        s->model.lane[LANE_FFN][i] = ffn;
        s->model.lane[LANE_HEADS][i] = heads;
        s->model.lane[LANE_KV][i] = kv;
    }
}

static void reuse(struct spec *s, const int *map)
{
    for (int i = 0; i < s->model.n_layers; i++)
        s->model.lane[LANE_REUSE][i] = map ? map[i] : 1;
}

// Paper A's architecture: OLMo2 with n layers and query:kv ratio 3, all widths still 0.
static struct spec paper_a(int n)
{
    struct spec s = {.model = {.d_model = 768,
                               .n_layers = n,
                               .block_loops = 1,
                               .head_dim = 64,
                               .ffn_step = 256,
                               .head_step = 3,
                               .norm_place = PLACE_REORDERED,
                               .qk_norm = QK_FULL,
                               .vocab = 50280,
                               .vocab_pad = 128},
                     .train = {.seq_len = 1024, .micro_batch_size = 48}};

    s.model.source[LANE_KV].kv_ratio = 3;
    reuse(&s, NULL);
    return s;
}

static struct spec crown18(enum frame_mode mode)
{
    struct spec s = paper_a(18);

    s.model.source[LANE_FFN] = points(SHAPE_CROWN, 0.5, 3.8, 0.5);
    s.model.source[LANE_HEADS] = points(SHAPE_CROWN, 0.5, 1.0, 0.5);
    s.model.frame = (struct frame){mode, 4.0, 1.0};
    apply(&s);
    return s;
}

static struct spec gpt2(bool bias)
{
    struct spec s = {.model = {.d_model = 768,
                               .n_layers = 12,
                               .block_loops = 1,
                               .head_dim = 64,
                               .norm = NORM_LAYER,
                               .act = ACT_GELU_TANH,
                               .bias = bias,
                               .tie_embeddings = true,
                               .pos = POS_LEARNED,
                               .vocab = 50257,
                               .vocab_pad = 1},
                     .train = {.seq_len = 1024, .micro_batch_size = 4}};

    uniform(&s, 3072, 12, 12);
    reuse(&s, NULL);
    return s;
}

// Paper C's models: Llama-like, tied.
static struct spec ilr(bool large, const int *map)
{
    struct spec s = {.model = {.d_model = large ? 768 : 128,
                               .n_layers = large ? 8 : 4,
                               .block_loops = 1,
                               .head_dim = large ? 96 : 32,
                               .tie_embeddings = true,
                               .vocab = large ? 32000 : 1024,
                               .vocab_pad = 1},
                     .train = {.seq_len = 1024, .micro_batch_size = 32}};

    uniform(&s, 4 * s.model.d_model, large ? 8 : 4, large ? 8 : 4);
    reuse(&s, map);
    return s;
}

static struct count count_of(struct spec s)
{
    struct count c;

    count_model(&s, &c);
    return c;
}

// ---- parameters ---------------------------------------------------------------------------------

static void crown18_and_its_frames(void **state)
{
    struct count c = count_of(crown18(FRAME_LITERAL));

    (void)state;
    assert_int_equal(c.total, 181906688);
    assert_int_equal(c.non_embedding, 143273216);
    assert_int_equal(c.non_embedding_no_head, 143273216 - 50304 * 768);
    c = count_of(crown18(FRAME_PROFILE_MAX));
    assert_int_equal(c.total, 180727040);
    assert_int_equal(c.non_embedding, 142093568);
    c = count_of(crown18(FRAME_ENDPOINT_MAX));
    assert_int_equal(c.total, 168536320);
    assert_int_equal(c.non_embedding, 129902848);
}

static void layers_and_the_rest_add_up(void **state)
{
    struct spec s = crown18(FRAME_LITERAL);
    struct count c = count_of(s);
    int64_t sum = 2 * 50304 * 768 + 768;
    double flops = 2.0 * 768 * 50304, causal = flops;

    (void)state;
    for (int i = 0; i < 18; i++) {
        int64_t f = s.model.lane[LANE_FFN][i], q = s.model.lane[LANE_HEADS][i] * 64, k = q / 3;

        // architectures.md §2.4
        assert_int_equal(c.layer[i].params,
                         3 * 768 * f + 2 * 768 * q + 2 * 768 * k + q + k + 2 * 768);
        sum += c.layer[i].params;
        flops += c.layer[i].forward_flops;
        causal += c.layer[i].forward_flops_causal;
    }
    assert_int_equal(sum, c.total);
    assert_near(flops, c.forward_per_token, 0);
    assert_near(causal, c.forward_per_token_causal, 0);
    assert_near(c.head_flops, 2.0 * 768 * 50304, 0);
}

static void other_published_counts(void **state)
{
    struct spec olmo2 = paper_a(12), p = gpt2(true);
    struct count c;

    (void)state;
    c = count_of(gpt2(true));
    assert_int_equal(c.total, 124439808);
    assert_int_equal(c.non_embedding, 124439808 - (50257 + 1024) * 768);
    assert_int_equal(c.non_embedding_no_head, c.non_embedding); // tied
    assert_int_equal(count_of(gpt2(false)).total, 124337664);
    p.model.vocab_pad = 128;
    assert_int_equal(count_of(p).total, 124475904);
    uniform(&olmo2, 3072, 12, 12);
    assert_int_equal(count_of(olmo2).total, 190550784);
    olmo2.model.vocab = 100278;
    assert_int_equal(count_of(olmo2).total, 267424512);
    assert_int_equal(count_of(olmo2).non_embedding, 190354176);
    assert_int_equal(count_of(ilr(false, NULL)).total, 1180800);
    assert_int_equal(count_of(ilr(true, NULL)).total, 100086528);
    p = ilr(false, NULL);
    p.model.pos = POS_LEARNED;
    assert_int_equal(count_of(p).total, 1180800 + 131072);
}

// architectures.md §6.4: widths through the generator, totals in units of 0.1 M.
static void uniform_neighbours_of_18_layers(void **state)
{
    static const double betas[] = {2.0, 2.5, 3.0, 3.5}, alphas[] = {0.5, 0.75, 1.0};
    static const int ffn[] = {1536, 2048, 2304, 2816}, heads[] = {6, 9, 12};
    static const int total[4][3] = {
        {1552, 1622, 1693}, {1764, 1835, 1906}, {1870, 1941, 2012}, {2082, 2153, 2224}};

    (void)state;
    for (int b = 0; b < 4; b++)
        for (int a = 0; a < 3; a++) {
            struct spec s = paper_a(18);

            s.model.source[LANE_FFN] = points(SHAPE_UNIFORM, betas[b], 0, 0);
            s.model.source[LANE_HEADS] = points(SHAPE_UNIFORM, alphas[a], 0, 0);
            apply(&s);
            assert_int_equal(s.model.lane[LANE_FFN][17], ffn[b]);
            assert_int_equal(s.model.lane[LANE_HEADS][17], heads[a]);
            assert_int_equal(lround((double)count_of(s).total / 1e5), total[b][a]);
        }
}

static void iso_parameter_grid(void **state)
{
    static const struct {
        int layers, ffn[3], total[3];
    } rows[] = {
        {12, {3392, 3200, 3008}, {1805, 1799, 1793}}, {14, {2816, 2688, 2496}, {1791, 1805, 1798}},
        {16, {2432, 2304, 2112}, {1795, 1811, 1803}}, {18, {2112, 1984, 1792}, {1790, 1808, 1799}},
        {20, {1856, 1728, 1536}, {1786, 1805, 1796}}, {24, {1536, 1344, 1152}, {1811, 1800, 1788}}};

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int a = 0; a < 3; a++) {
            struct spec s = paper_a(rows[r].layers);

            uniform(&s, rows[r].ffn[a], 6 + 3 * a, 2 + a);
            assert_int_equal(lround((double)count_of(s).total / 1e5), rows[r].total[a]);
        }
}

// ---- FLOPs --------------------------------------------------------------------------------------

static void gpt2_forward_and_training_flops(void **state)
{
    struct count c = count_of(gpt2(false));

    (void)state;
    assert_int_equal(llround(c.forward_per_token * 1024), 291648307200);
    assert_int_equal(llround(c.train_per_token * 1024), 874944921600);
    assert_near(count_of(gpt2(true)).forward_per_token, c.forward_per_token, 0); // matmuls only
}

static void repeated_layers_multiply_flops_not_parameters(void **state)
{
    static const int plain[] = {1, 1, 1, 1, 1, 1, 1, 1}, second[] = {1, 2, 1, 1, 1, 1, 1, 1};
    static const int early[] = {4, 2, 1, 1}, late[] = {1, 1, 2, 4};
    static const struct {
        bool large;
        const int *map;
        double full, causal, train; // M per token, architectures.md §5.4
    } rows[] = {{false, plain, 4.456, 3.409, 13.37}, {false, second, 5.505, 4.196, 16.52},
                {false, early, 8.651, 6.556, 25.95}, {false, late, 8.651, 6.556, 25.95},
                {true, plain, 225.3, 212.7, 675.9},  {true, second, 247.3, 233.2, 742.0}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct count c = count_of(ilr(rows[i].large, rows[i].map));
        double digit = rows[i].large ? 0.05 : 0.0005;

        assert_true(fabs(c.forward_per_token / 1e6 - rows[i].full) <= digit);
        assert_true(fabs(c.forward_per_token_causal / 1e6 - rows[i].causal) <= digit);
        assert_true(fabs(c.train_per_token / 1e6 - rows[i].train) <=
                    (rows[i].large ? 0.05 : 0.005));
        assert_int_equal(c.total, count_of(ilr(rows[i].large, plain)).total);
    }
}

// By hand, forward per token with S = 5:
//   layer 0: q 8, k 4, f 10: lin = 2*8*(16 + 8) + 6*8*10 = 864, attn 4*8*5 = 160, causal 2*8*6 = 96
//   layer 1: q 4, k 4, f 6:  lin = 2*8*(8 + 8) + 6*8*6 = 544, attn 80, causal 48; runs twice
//   head 2*8*32 = 512, one gate unit 2*8 = 16, which runs once whatever the layer does
static void gates_and_loops_add_their_flops(void **state)
{
    struct spec s = {.model = {.d_model = 8,
                               .n_layers = 2,
                               .block_loops = 1,
                               .head_dim = 4,
                               .lane = {{10, 6}, {2, 1}, {1, 1}, {1, 2}},
                               .vocab = 30,
                               .vocab_pad = 16},
                     .train = {.seq_len = 5, .micro_batch_size = 1}};
    int64_t params = count_of(s).total;
    struct count c;

    (void)state;
    assert_near(count_of(s).forward_per_token, 1024 + 2 * 624 + 512, 0);
    assert_near(count_of(s).forward_per_token_causal, 960 + 2 * 592 + 512, 0);
    s.gate.enabled = true;
    c = count_of(s);
    assert_near(c.forward_per_token, 1024 + 2 * 624 + 512 + 16, 0);
    assert_near(c.gate_flops, 16, 0);
    assert_int_equal(c.total, params + 8 + 1);
    s.model.block_loops = 3;
    c = count_of(s);
    assert_near(c.forward_per_token, 3 * 1024 + 6 * 624 + 512 + 16, 0);
    assert_near(c.forward_per_token_causal, 3 * 960 + 6 * 592 + 512 + 16, 0);
    assert_near(c.train_per_token, 3 * (3 * 1024 + 6 * 624 + 512 + 16), 0);
    assert_near(c.layer[1].forward_flops, 6 * 624, 0);
    assert_int_equal(c.kv_bytes_per_token, 4 * 2 * (3 * 4 + 6 * 4));
    assert_int_equal(c.total, params + 8 + 1);
}

// ---- memory -------------------------------------------------------------------------------------

static void memory_of_weights_and_kv_cache(void **state)
{
    static const int early[] = {4, 2, 1, 1};
    struct count c = count_of(ilr(false, early));

    (void)state;
    assert_int_equal(c.weights_bytes, 4 * 1180800);
    assert_int_equal(c.gradients_bytes, 4 * 1180800);
    assert_int_equal(c.optimizer_bytes, 8 * 1180800);
    assert_int_equal(c.kv_bytes_per_token, 8 * 2 * 128 * 4); // one cache per repetition
    c = count_of(crown18(FRAME_LITERAL));
    assert_int_equal(c.kv_bytes_per_token, 2 * 64 * 4 * (10 * 3 + 8 * 4));
}

// Every term for one row of two layers of different width, by hand: kept by every repetition
//   4 d                     stream and normalized stream, twice
//   (q + 2 k) + q + n_q     q, k, v; attention's output; log-sum-exp
//   w + f + 2               FFN input (w = 2 f for SwiGLU) and activation; 1/rms of the two norms
//   (q + k) + n_q + n_kv    QK-norm's output and 1/rms, per head
// once 5 d (embedded, final norm, three gradients), 1/rms and 4 (token, target, position, loss), RoPE
// tables and a norm per layer; the largest of what the backward pass of attention, of the FFN and
// of the logits needs. Every number is a multiple of 64 bytes already, but for the norms per layer.
static void activations_by_hand(void **state)
{
    struct spec s = {.model = {.d_model = 512,
                               .n_layers = 2,
                               .block_loops = 1,
                               .head_dim = 64,
                               .lane = {{1024, 2048}, {8, 4}, {4, 2}, {2, 1}},
                               .tie_embeddings = true,
                               .vocab = 257,
                               .vocab_pad = 1},
                     .train = {.seq_len = 16, .micro_batch_size = 2}};
    int64_t first = 4 * 512 + (512 + 2 * 256) + 512 + 8 + 2048 + 1024 + 2;
    int64_t second = 4 * 512 + (256 + 2 * 128) + 256 + 4 + 4096 + 2048 + 2;
    int64_t rows = 2 * first + second + 5 * 512 + 1 + 4 + (4096 + 2048), once = 16 * 64 + 16;

    (void)state;
    assert_int_equal(count_of(s).activations_bytes, 4 * (32 * rows + once));
    s.model.block_loops = 3;
    assert_int_equal(count_of(s).activations_bytes,
                     4 * (32 * (rows + 2 * (2 * first + second)) + once));
    s.model.block_loops = 1;
    s.model.qk_norm = QK_HEAD;
    rows += 2 * (512 + 256 + 8 + 4) + (256 + 128 + 4 + 2);
    assert_int_equal(count_of(s).activations_bytes, 4 * (32 * rows + once));
    s.model.vocab = 1000000; // one chunk holds all 32 rows of logits
    rows -= 4096 + 2048;
    assert_int_equal(count_of(s).activations_bytes, 4 * (32 * (rows + 1000000) + once));
}

// With recompute every repetition keeps the stream that leaves it, and one at a time the rest.
static void recomputed_activations_by_hand(void **state)
{
    static const int plain[] = {2, 1, 1, 1}, twice[] = {2, 2, 2, 2};
    struct spec s = ilr(false, plain);
    int64_t inner = 3 * 128 + 3 * 128 + 128 + 4 + 1024 + 512 + 2, N = 32 * 1024;
    // kept: embedded, final, 3 gradients; 5 numbers a row; FFN gradients against logits of all rows
    int64_t rest = 5 * 128 + 1 + 4, logits = 4096 * 1024, ffn = N * (1024 + 512);
    int64_t once = 1024 * 32 + 16 + (logits > ffn ? logits : ffn);

    (void)state;
    assert_int_equal(count_of(s).activations_bytes, 4 * (N * (5 * (inner + 128) + rest) + once));
    assert_int_equal(count_of(s).activations_recompute_bytes,
                     4 * (N * (5 * 128 + inner + rest) + once));
    s = ilr(false, twice);
    assert_int_equal(count_of(s).activations_recompute_bytes,
                     4 * (N * (8 * 128 + inner + rest) + once));
    s.train.recompute = RECOMPUTE_LAYER;
    assert_int_equal(count_of(s).activations_bytes, count_of(s).activations_recompute_bytes);
    s.train.recompute = RECOMPUTE_AUTO;
    assert_int_equal(count_of(s).activations_bytes, 4 * (N * (8 * (inner + 128) + rest) + once));
}

// A valid profile can ask for more bytes than 64 bits hold.
static void absurd_sizes_stay_numbers(void **state)
{
    struct spec s = ilr(true, NULL);
    struct count c;

    (void)state;
    s.model.d_model = 65536;
    s.model.block_loops = SPEC_MAX_STEPS / 8;
    s.train.micro_batch_size = 8191;
    s.train.seq_len = 262144;
    c = count_of(s);
    assert_true(c.activations_bytes >= INT64_MAX / 8);
    assert_true(c.activations_recompute_bytes >= INT64_MAX / 8);
}

// ---- memory against the allocations of a model --------------------------------------------------

static const struct ops *inner_ops;
static size_t allocated;

static void *counting_alloc(struct backend *be, size_t bytes)
{
    allocated += bytes;
    return inner_ops->alloc(be, bytes);
}

// Bytes that a model and its optimizer take from the backend, without the optimizer's one norm.
static size_t allocated_by(struct backend *be, const struct spec *s)
{
    struct err err = ERR_INIT;
    struct model *m;
    struct optim *o;

    allocated = 0;
    m = model_new(be, s, &err);
    o = m ? optim_new(m, &s->optim, &err) : NULL;
    if (!o)
        fail_msg("%s", err.text);
    optim_free(o);
    model_free(m);
    return allocated - sizeof(float);
}

// Every way in which models differ, one or two at a time; 2 layers where there are gates.
static struct spec variant(int v)
{
    struct spec s = tiny_spec();
    struct model_spec *m = &s.model;

    m->tie_embeddings = v % 2;
    m->norm_place = (enum norm_place)(v % 3);
    m->qk_norm = (enum qk_norm)(v / 3 % 3);
    m->norm = v % 4 == 3 ? NORM_LAYER : NORM_RMS;
    m->bias = v % 4 >= 2;
    m->act = v % 5 == 4 ? ACT_GELU : ACT_SWIGLU;
    m->pos = (enum pos)(v % 4);
    m->input_norm = v % 3 == 2;
    m->block_loops = 1 + v % 3;
    m->block_inject = v % 2 ? INJECT_ADD : INJECT_NONE;
    m->reuse_inject = v / 2 % 2 ? INJECT_ADD : INJECT_NONE;
    s.gate.enabled = v % 3 == 0;
    m->n_layers = s.gate.enabled ? 2 : 3;
    return s;
}

static void memory_is_what_a_model_allocates(void **state)
{
    struct backend *be = tiny_backend("cpu", 1);
    struct ops ops = *be->op;

    (void)state;
    inner_ops = be->op;
    ops.alloc = counting_alloc;
    be->op = &ops;
    for (int v = 0; v < 16; v++) {
        struct spec s = variant(v);
        struct count c = count_of(s);
        int64_t others = c.weights_bytes + c.gradients_bytes + c.optimizer_bytes;

        assert_int_equal(allocated_by(be, &s), others + c.activations_bytes);
        s.train.recompute = RECOMPUTE_LAYER;
        assert_int_equal(allocated_by(be, &s), others + c.activations_recompute_bytes);
    }
    be->op = inner_ops;
    backend_close(be);
}

// ---- JSON ---------------------------------------------------------------------------------------

static int64_t number(const json_t *j, const char *a, const char *b)
{
    const json_t *v = json_object_get(json_object_get(j, a), b);

    assert_true(json_is_integer(v));
    return json_integer_value(v);
}

static void json_has_the_documented_members(void **state)
{
    struct spec s = crown18(FRAME_LITERAL);
    struct count c = count_of(s);
    json_t *j = count_to_json(&s, &c), *layer = json_array_get(json_object_get(j, "layers"), 1);

    (void)state;
    assert_int_equal(number(j, "params", "total"), 181906688);
    assert_int_equal(number(j, "params", "non_embedding"), 143273216);
    assert_int_equal(number(j, "params", "non_embedding_no_head"), c.non_embedding_no_head);
    assert_int_equal(number(j, "flops", "train_per_token"), llround(c.train_per_token));
    assert_int_equal(number(j, "flops", "forward_per_token"), llround(c.forward_per_token));
    assert_int_equal(number(j, "flops", "forward_per_token_causal"),
                     llround(c.forward_per_token_causal));
    assert_int_equal(number(j, "memory", "weights_bytes"), 4 * 181906688);
    assert_int_equal(number(j, "memory", "optimizer_bytes"), 8 * 181906688);
    assert_int_equal(number(j, "memory", "activations_bytes"), c.activations_bytes);
    assert_int_equal(number(j, "memory", "activations_recompute_bytes"),
                     c.activations_recompute_bytes);
    assert_int_equal(number(j, "memory", "kv_bytes_per_token"), c.kv_bytes_per_token);
    assert_int_equal(json_array_size(json_object_get(j, "layers")), 18);
    assert_int_equal(json_integer_value(json_object_get(layer, "ffn_width")), 768);
    assert_int_equal(json_integer_value(json_object_get(layer, "n_heads")), 9);
    assert_int_equal(json_integer_value(json_object_get(layer, "n_kv_heads")), 3);
    assert_int_equal(json_integer_value(json_object_get(layer, "reuse")), 1);
    assert_true(json_is_false(json_object_get(layer, "gate")));
    assert_int_equal(json_integer_value(json_object_get(layer, "params")), c.layer[1].params);
    assert_int_equal(json_integer_value(json_object_get(layer, "forward_flops")),
                     llround(c.layer[1].forward_flops));
    assert_int_equal(json_integer_value(json_object_get(j, "gate_units")), 0);
    json_decref(j);
    s.gate.enabled = true;
    s.model.block_loops = 2;
    j = count_to_json(&s, &c);
    assert_int_equal(json_integer_value(json_object_get(j, "gate_units")), 9);
    assert_int_equal(json_integer_value(json_object_get(j, "block_loops")), 2);
    layer = json_array_get(json_object_get(j, "layers"), 17);
    assert_true(json_is_true(json_object_get(layer, "gate")));
    json_decref(j);
    strcpy(s.name, "\xff"); // no UTF-8
    j = count_to_json(&s, &c);
    assert_non_null(j);
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crown18_and_its_frames),
        cmocka_unit_test(layers_and_the_rest_add_up),
        cmocka_unit_test(other_published_counts),
        cmocka_unit_test(uniform_neighbours_of_18_layers),
        cmocka_unit_test(iso_parameter_grid),
        cmocka_unit_test(gpt2_forward_and_training_flops),
        cmocka_unit_test(repeated_layers_multiply_flops_not_parameters),
        cmocka_unit_test(gates_and_loops_add_their_flops),
        cmocka_unit_test(memory_of_weights_and_kv_cache),
        cmocka_unit_test(activations_by_hand),
        cmocka_unit_test(recomputed_activations_by_hand),
        cmocka_unit_test(absurd_sizes_stay_numbers),
        cmocka_unit_test(memory_is_what_a_model_allocates),
        cmocka_unit_test(json_has_the_documented_members),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
