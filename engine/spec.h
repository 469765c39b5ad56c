// A resolved profile: the architecture, how it is trained, evaluated and saved. Plain data, copied
// by assignment (the workbench's undo keeps copies). Every key of the YAML form is one row of
// spec_keys[] in spec_table.c; that table drives reading, validation, defaults, help and forms.
#ifndef ENGINE_SPEC_H
#define ENGINE_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SPEC_MAX_LAYERS = 256,
    SPEC_MAX_STEPS = 16384, // applications of a layer in one forward pass
    SPEC_NAME_SIZE = 64,
    SPEC_PATH_SIZE = 512,
    SPEC_POINTS = 3,
    SPEC_MAX_KEYS = 96,
    SPEC_ORIGIN_FILES = 8,
};

enum norm { NORM_RMS, NORM_LAYER };
enum norm_place { PLACE_PRE, PLACE_REORDERED, PLACE_SANDWICH };
enum qk_norm { QK_NONE, QK_FULL, QK_HEAD };
enum act_fn { ACT_SWIGLU, ACT_GELU, ACT_GELU_TANH };
enum pos { POS_ROPE, POS_NONE, POS_LEARNED, POS_ALIBI };
enum rope_layout { ROPE_HALF, ROPE_INTERLEAVED };
enum init { INIT_NORMAL, INIT_TRUNCATED, INIT_OPENELM };
enum schedule { SCHED_COSINE, SCHED_CONSTANT };
enum decay_scope { DECAY_MATRICES, DECAY_NOT_EMBEDDING, DECAY_ALL };
// What is added to the stream where a pass over the same weights begins again (paper C).
enum inject { INJECT_NONE, INJECT_ADD };
enum recompute { RECOMPUTE_NONE, RECOMPUTE_LAYER, RECOMPUTE_AUTO };
// Skip-the-middle gates (paper B, architectures §3.2 to §3.5)
enum gate_attn { GATE_ATTN_KEY, GATE_ATTN_QUERY_NOOP, GATE_ATTN_OFF, GATE_ATTN_HARD };
enum gate_init { GATE_INIT_NORMAL, GATE_INIT_ZERO };
enum gate_controller {
    CTRL_NONE,
    CTRL_SIGN,
    CTRL_PROPORTIONAL,
    CTRL_PD,
    CTRL_FIXED_MEAN,
    CTRL_FIXED_MEAN_VAR,
    CTRL_FIXED_L2
};
enum gate_sided { SIDED_TWO, SIDED_UP_ONLY, SIDED_DOWN_ONLY };
enum gate_reduce { REDUCE_MEAN, REDUCE_SUM };
enum token_dtype { TOKENS_AUTO, TOKENS_U16, TOKENS_U32 };

// The per-layer quantities that can be drawn; one lane of the Design screen each.
enum lane { LANE_FFN, LANE_HEADS, LANE_KV, LANE_REUSE, LANE_COUNT };

enum shape {
    SHAPE_LIST,
    SHAPE_NUMBER,
    SHAPE_UNIFORM,
    SHAPE_VANILLA,
    SHAPE_FRAMED,
    SHAPE_REVERSE,
    SHAPE_CROWN
};

extern const char *const spec_shape_names[]; // index = enum shape, NULL at the end
extern const char *const spec_frame_names[]; // index = enum frame_mode, NULL at the end

// What overwrites the first and last layer after interpolation (paper A, architectures §2.2).
enum frame_mode { FRAME_NONE, FRAME_LITERAL, FRAME_ENDPOINT_MAX, FRAME_PROFILE_MAX };
struct frame {
    enum frame_mode mode;
    double ffn, heads; // multipliers beta, alpha of FRAME_LITERAL
};

// Where a lane's values came from. Generators hold multipliers: beta of d_model for the FFN lane,
// alpha of d_model/head_dim for the heads lane.
struct lane_source {
    enum shape shape;
    int n_points;
    double points[SPEC_POINTS];
    int kv_ratio; // LANE_KV only: n_heads / n_kv_heads when given as {ratio: R}, else 0
};

struct model_spec {
    int d_model, n_layers, head_dim;
    int lane[LANE_COUNT][SPEC_MAX_LAYERS]; // first n_layers entries are valid
    struct lane_source source[LANE_COUNT];
    int ffn_step;  // legal FFN widths are multiples of this
    int head_step; // legal query-head counts are multiples of this
    struct frame frame;
    enum norm norm;
    enum norm_place norm_place;
    double norm_eps;
    bool input_norm; // one more norm, right after the embedding
    enum qk_norm qk_norm;
    enum act_fn act;
    bool bias;
    bool tie_embeddings;
    int vocab, vocab_pad;
    enum pos pos;
    double rope_theta;
    enum rope_layout rope_layout;
    enum init init;
    double init_std;
    bool depth_scale;         // output matrices' deviation / sqrt(2 n_layers) (GPT-2)
    int block_loops;          // passes through the whole stack
    enum inject block_inject; // at the start of each further pass: x = h + e
    enum inject reuse_inject; // at repetitions after a layer's first: x += what entered the first
};

// One value per layer for alpha and beta; mirrored layers i and L-1-i hold the same.
struct gate_spec {
    bool enabled;
    enum gate_attn attn;
    double eps;
    enum gate_init init;
    enum gate_controller controller;
    double gamma, delta;
    enum gate_sided sided;
    double mu_start, mu_end, var_delta;
    enum gate_reduce reduce;
    double alpha[SPEC_MAX_LAYERS], beta[SPEC_MAX_LAYERS];
};

struct train_spec {
    int seq_len;
    int micro_batch_size;      // sequences
    int64_t global_batch_size; // sequences per optimizer step, a multiple of micro_batch_size
    int64_t max_tokens;        // 0 = given by max_steps
    int64_t max_steps;         // 0 = given by max_tokens
    int64_t seed;
    enum recompute recompute;
    int threads; // 0 = all cores
};

struct data_spec {
    char train[SPEC_PATH_SIZE], val[SPEC_PATH_SIZE];
    int64_t seed;
    enum token_dtype dtype; // of headerless files
};

struct optim_spec {
    double lr, min_lr;
    enum schedule schedule;
    int64_t warmup_steps;
    double warmup_start; // fraction of lr where the warm-up begins
    double betas[2], eps, weight_decay;
    enum decay_scope decay_scope;
    double max_norm; // 0 = no clipping
};

// Where a key's value came from, for people: kept through copies, never compared. An edit in memory
// sets the kind to ORIGIN_NONE or leaves it.
enum origin_kind { ORIGIN_NONE, ORIGIN_DEFAULT, ORIGIN_DERIVED, ORIGIN_FILE, ORIGIN_SET };
struct spec_origin {
    enum origin_kind kind;
    int file; // ORIGIN_FILE: index in origin_file
    int line; // ORIGIN_FILE: 1-based; ORIGIN_SET: number of the --set, from 1
};

struct spec {
    char name[SPEC_NAME_SIZE];
    struct model_spec model;
    struct gate_spec gate;
    struct train_spec train;
    struct data_spec data;
    struct optim_spec optim;
    struct {
        int64_t interval;   // steps between evaluations
        int64_t max_tokens; // of the validation set, 0 = all
    } eval;
    struct {
        int64_t interval; // steps between logged training records
    } log;
    struct {
        int64_t interval; // steps between checkpoints
        int keep;         // newest checkpoints kept
    } save;
    struct spec_origin origin[SPEC_MAX_KEYS];            // parallel to spec_keys[]
    char origin_file[SPEC_ORIGIN_FILES][SPEC_NAME_SIZE]; // names without folders
};

// ---- the key table ------------------------------------------------------------------------------

enum key_type {
    KEY_INT,    // int
    KEY_COUNT,  // int64_t with units: 180M, 1_000
    KEY_BATCH,  // sequences, int or int64_t by `size`; "524288tok" is divided by seq_len
    KEY_FLOAT,  // double
    KEY_FLOATS, // double[2]
    KEY_LAYERS, // double[SPEC_MAX_LAYERS], one per layer: number | list
    KEY_BOOL,
    KEY_ENUM,   // int-sized enum, choices
    KEY_STRING, // char[size]
    KEY_LANE,   // number | list | generator, lane number in `size`
    KEY_FRAME,
};

struct spec_key {
    const char *path; // "model.d_model"
    enum key_type type;
    size_t offset; // in struct spec
    size_t size;   // bytes of the field; KEY_LANE: enum lane
    double min, max;
    const char *const *choices; // KEY_ENUM: NULL-terminated, index = value
    const char *default_text;   // YAML text, "" = must be given, NULL = derived
    const char *unit;           // "steps", "tokens", ""
    const char *help;           // one line
};

extern const struct spec_key spec_keys[];
extern const int spec_key_count;

const struct spec_key *spec_key_find(const char *path); // NULL if unknown
// Nearest known path in the section of `path` by edit distance (at the top level also section
// names), or the same word in another section; NULL if none is near.
const char *spec_key_nearest(const char *path);
int spec_edit_distance(const char *a, const char *b);

// Whether both hold the same value of this key, of all keys. Where a lane's values came from
// (source) is not compared.
bool spec_key_equal(const struct spec_key *key, const struct spec *a, const struct spec *b);
bool spec_equal(const struct spec *a, const struct spec *b);

// ---- derived facts ------------------------------------------------------------------------------

static inline int spec_padded_vocab(const struct model_spec *m)
{
    return (m->vocab + m->vocab_pad - 1) / m->vocab_pad * m->vocab_pad;
}
// Whether the input, the output of attention and FFN is normalised.
static inline bool spec_norm_before(const struct model_spec *m)
{
    return m->norm_place != PLACE_REORDERED;
}
static inline bool spec_norm_after(const struct model_spec *m)
{
    return m->norm_place != PLACE_PRE;
}
// A layer without query heads has no attention and none of its norms; one without FFN width has no
// FFN. What the layer lacks passes the stream unchanged.
static inline bool spec_has_attention(const struct model_spec *m, int layer)
{
    return m->lane[LANE_HEADS][layer] > 0;
}
static inline bool spec_has_ffn(const struct model_spec *m, int layer)
{
    return m->lane[LANE_FFN][layer] > 0;
}
// n_heads / n_kv_heads when it is the same in every layer that has attention, else 0.
int spec_kv_ratio(const struct model_spec *m);
int64_t spec_total_steps(const struct spec *s); // optimizer steps to the planned end
int64_t spec_tokens_per_step(const struct spec *s);
int spec_reuse_total(const struct model_spec *m); // sum of r_i, in one pass through the stack
int spec_step_count(const struct model_spec *m);  // layers applied: spec_reuse_total * block_loops
// Number of gates: L/2, or 0 without them. Gate i acts on layers i and L-1-i.
int spec_gate_count(const struct spec *s);
static inline int spec_gate_of(const struct model_spec *m, int layer)
{
    return layer < m->n_layers / 2 ? layer : m->n_layers - 1 - layer;
}

#endif
