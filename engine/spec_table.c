// The key table: one row per key of a profile. Reading, validation, defaults, help and forms all
// come from here. Defaults are YAML text; NULL means derived from other keys (see profile_bind.c),
// "" means that the key must be given.
#include "engine/spec.h"

#define AT(field)   offsetof(struct spec, field), sizeof(((struct spec *)0)->field)
#define LANE(lane_) offsetof(struct spec, model.lane[lane_]), (lane_)

static const char *const norms[] = {"rms", "layer", NULL};
static const char *const norm_places[] = {"pre", "reordered", "sandwich", NULL};
static const char *const qk_norms[] = {"none", "full", "head", NULL};
static const char *const acts[] = {"swiglu", "gelu", "gelu_tanh", NULL};
static const char *const positions[] = {"rope", "none", "learned", "alibi", NULL};
static const char *const rope_layouts[] = {"half", "interleaved", NULL};
static const char *const inits[] = {"normal", "truncated", "openelm", NULL};
static const char *const schedules[] = {"cosine", "constant", NULL};
static const char *const decay_scopes[] = {"matrices", "not_embedding", "all", NULL};
static const char *const injects[] = {"none", "add", NULL};
static const char *const recomputes[] = {"none", "layer", "auto", NULL};
static const char *const gate_attns[] = {"key", "query_noop", "off", "hard", NULL};
static const char *const gate_inits[] = {"normal", "zero", NULL};
static const char *const controllers[] = {"none",       "sign",           "proportional", "pd",
                                          "fixed_mean", "fixed_mean_var", "fixed_l2",     NULL};
static const char *const sides[] = {"two", "up_only", "down_only", NULL};
static const char *const reduces[] = {"mean", "sum", NULL};
static const char *const dtypes[] = {"auto", "u16", "u32", NULL};

const char *const spec_shape_names[] = {"list",   "number",  "uniform", "vanilla",
                                        "framed", "reverse", "crown",   NULL};
const char *const spec_frame_names[] = {"none", "literal", "endpoint_max", "profile_max", NULL};

// Largest whole number that a double holds, which is how far counts can be written.
#define COUNT_MAX 9007199254740992.

// clang-format off
const struct spec_key spec_keys[] = {
    {"name", KEY_STRING, AT(name), 0, 0, NULL, NULL, "",
     "name of the profile and of its runs (default: the file's name)"},

    {"model.d_model", KEY_INT, AT(model.d_model), 1, 65536, NULL, "", "",
     "width of the residual stream"},
    {"model.n_layers", KEY_INT, AT(model.n_layers), 1, SPEC_MAX_LAYERS, NULL, "", "layers",
     "number of layers"},
    {"model.head_dim", KEY_INT, AT(model.head_dim), 1, 1024, NULL, "64", "",
     "width of one attention head"},
    {"model.ffn_width", KEY_LANE, LANE(LANE_FFN), 0, 1048576, NULL, "", "",
     "hidden width of the feed-forward part: number, list or generator; 0: the layer has none"},
    {"model.n_heads", KEY_LANE, LANE(LANE_HEADS), 0, 1024, NULL, "", "heads",
     "query heads: number, list or generator; 0: the layer has no attention"},
    {"model.n_kv_heads", KEY_LANE, LANE(LANE_KV), 0, 1024, NULL, "{ratio: 1}", "heads",
     "key/value heads: number, list or {ratio: query heads per key/value head}; 0 where n_heads is"},
    {"model.reuse", KEY_LANE, LANE(LANE_REUSE), 1, 64, NULL, "1", "times",
     "how often a layer is applied in a row: number or list"},
    {"model.ffn_step", KEY_INT, AT(model.ffn_step), 1, 65536, NULL, "256", "",
     "feed-forward widths are multiples of this"},
    {"model.head_step", KEY_INT, AT(model.head_step), 1, 1024, NULL, NULL, "heads",
     "query head counts are multiples of this (default: ratio of n_kv_heads)"},
    {"model.frame", KEY_FRAME, AT(model.frame), 0, 64, NULL, "none", "",
     "what generators put into the first and last layer: none, {ffn: x, heads: y}, "
     "endpoint_max or profile_max"},
    {"model.norm", KEY_ENUM, AT(model.norm), 0, 0, norms, "rms", "",
     "kind of normalization"},
    {"model.norm_place", KEY_ENUM, AT(model.norm_place), 0, 0, norm_places, "pre", "",
     "normalization before a sublayer, of its output (OLMo2), or both (sandwich, paper B)"},
    {"model.input_norm", KEY_BOOL, AT(model.input_norm), 0, 0, NULL, "false", "",
     "one more normalization right after the embedding"},
    {"model.norm_eps", KEY_FLOAT, AT(model.norm_eps), 1e-20, 1, NULL, "1e-6", "",
     "added to the mean square inside a normalization"},
    {"model.qk_norm", KEY_ENUM, AT(model.qk_norm), 0, 0, qk_norms, "none", "",
     "normalization of queries and keys: over all heads, or each head"},
    {"model.act", KEY_ENUM, AT(model.act), 0, 0, acts, "swiglu", "",
     "feed-forward activation"},
    {"model.bias", KEY_BOOL, AT(model.bias), 0, 0, NULL, "false", "",
     "biases in linear layers and normalizations"},
    {"model.tie_embeddings", KEY_BOOL, AT(model.tie_embeddings), 0, 0, NULL, "false", "",
     "output matrix is the embedding table"},
    {"model.vocab", KEY_INT, AT(model.vocab), 2, 16777216, NULL, "", "tokens",
     "number of token ids"},
    {"model.vocab_pad", KEY_INT, AT(model.vocab_pad), 1, 65536, NULL, "1", "tokens",
     "the table is padded up to a multiple of this; padded rows count"},
    {"model.pos", KEY_ENUM, AT(model.pos), 0, 0, positions, "rope", "",
     "position encoding"},
    {"model.rope_theta", KEY_FLOAT, AT(model.rope_theta), 1, 1e12, NULL, "10000", "",
     "base of the RoPE frequencies"},
    {"model.rope_layout", KEY_ENUM, AT(model.rope_layout), 0, 0, rope_layouts, "half", "",
     "which elements of a head RoPE pairs"},
    {"model.init", KEY_ENUM, AT(model.init), 0, 0, inits, "normal", "",
     "initial weights: normal, normal cut at 3 deviations, or by fan-in (OpenELM)"},
    {"model.init_std", KEY_FLOAT, AT(model.init_std), 0, 10, NULL, "0.02", "",
     "standard deviation of initial weights (not used by openelm)"},
    {"model.depth_scale", KEY_BOOL, AT(model.depth_scale), 0, 0, NULL, "false", "",
     "attention's and the FFN's output matrices start smaller by sqrt(2 n_layers) (GPT-2)"},
    {"model.block_loops", KEY_INT, AT(model.block_loops), 1, 64, NULL, "1", "times",
     "passes through the whole stack of layers (block recurrence, paper C)"},
    {"model.block_inject", KEY_ENUM, AT(model.block_inject), 0, 0, injects, "add", "",
     "what a further pass starts from: its input, or input + embedding (paper C)"},
    {"model.reuse_inject", KEY_ENUM, AT(model.reuse_inject), 0, 0, injects, "none", "",
     "add: a repeated layer gets what entered its first repetition added to its input"},

    {"gate.enabled", KEY_BOOL, AT(gate.enabled), 0, 0, NULL, "false", "",
     "skip-the-middle gates: layer i shares its gate with layer n_layers-1-i"},
    {"gate.attn", KEY_ENUM, AT(gate.attn), 0, 0, gate_attns, "key", "",
     "how attention sees skipped tokens: weighted by their gate (key), as the released code "
     "(query_noop), not at all changed (off), dropped (hard, not for training)"},
    {"gate.eps", KEY_FLOAT, AT(gate.eps), 1e-30, 1, NULL, "1e-6", "",
     "least weight of a key in gated attention"},
    {"gate.init", KEY_ENUM, AT(gate.init), 0, 0, gate_inits, "normal", "",
     "initial gate weights: like the matrices, or zero (then the gates stay open)"},
    {"gate.controller", KEY_ENUM, AT(gate.controller), 0, 0, controllers, "proportional", "",
     "what moves alpha and beta after each step"},
    {"gate.gamma", KEY_FLOAT, AT(gate.gamma), 0, 1e6, NULL, NULL, "",
     "step size of the controller (default: 1e-3, with pd 1e-2)"},
    {"gate.delta", KEY_FLOAT, AT(gate.delta), 0, 1, NULL, "0.01", "",
     "dead band: smaller deviations move nothing"},
    {"gate.sided", KEY_ENUM, AT(gate.sided), 0, 0, sides, "two", "",
     "whether coefficients may move in both directions, only up or only down"},
    {"gate.mu_start", KEY_FLOAT, AT(gate.mu_start), 0, 1, NULL, "1", "",
     "target of the mean gate in the first layer"},
    {"gate.mu_end", KEY_FLOAT, AT(gate.mu_end), 0, 1, NULL, "0.5", "",
     "target of the mean gate in the middle"},
    {"gate.var_delta", KEY_FLOAT, AT(gate.var_delta), -1, 1, NULL, "0", "",
     "added to the target of the variance, mu (1 - mu)"},
    {"gate.reduce", KEY_ENUM, AT(gate.reduce), 0, 0, reduces, "mean", "",
     "the regulariser is the mean or the sum over layers"},
    {"gate.alpha", KEY_LAYERS, AT(gate.alpha), -1e9, 1e9, NULL, NULL, "",
     "weight of the mean gate in the loss, at the start: number or list (default: 0; fixed_mean "
     "and fixed_mean_var 0.01, fixed_l2 0.1)"},
    {"gate.beta", KEY_LAYERS, AT(gate.beta), -1e9, 1e9, NULL, NULL, "",
     "weight of the gate's variance in the loss, at the start: number or list (default: 0; "
     "fixed_mean_var -0.01, fixed_l2 0.1)"},

    {"data.train", KEY_STRING, AT(data.train), 0, 0, NULL, "''", "",
     "token file to train on, relative to the data directory"},
    {"data.val", KEY_STRING, AT(data.val), 0, 0, NULL, "''", "",
     "token file to evaluate on"},
    {"data.seed", KEY_COUNT, AT(data.seed), 0, COUNT_MAX, NULL, "0", "",
     "seed of the order of data"},
    {"data.dtype", KEY_ENUM, AT(data.dtype), 0, 0, dtypes, "auto", "",
     "token size in files without a header"},

    {"train.seq_len", KEY_INT, AT(train.seq_len), 1, 262144, NULL, "1024", "tokens",
     "tokens in a sequence"},
    {"train.micro_batch_size", KEY_BATCH, AT(train.micro_batch_size), 1, 1048576, NULL, "8",
     "sequences", "sequences computed at once; 8192tok counts tokens"},
    {"train.global_batch_size", KEY_BATCH, AT(train.global_batch_size), 1, 1073741824, NULL, NULL,
     "sequences", "sequences in an optimizer step (default: micro_batch_size); 524288tok counts tokens"},
    {"train.max_tokens", KEY_COUNT, AT(train.max_tokens), 0, COUNT_MAX, NULL, "0", "tokens",
     "length of the run in tokens, rounded up to whole steps; 0: see max_steps"},
    {"train.max_steps", KEY_COUNT, AT(train.max_steps), 0, COUNT_MAX, NULL, NULL, "steps",
     "length of the run in steps (default: 1000 when max_tokens is 0, else 0)"},
    {"train.seed", KEY_COUNT, AT(train.seed), 0, COUNT_MAX, NULL, "0", "",
     "seed of the initial weights"},
    {"train.recompute", KEY_ENUM, AT(train.recompute), 0, 0, recomputes, "none", "",
     "layer keeps only the input of each layer and computes the rest again in the backward pass; "
     "auto does so when memory is short"},
    {"train.threads", KEY_INT, AT(train.threads), 0, 4096, NULL, "0", "threads",
     "CPU threads, 0: all cores"},

    {"optim.lr", KEY_FLOAT, AT(optim.lr), 0, 100, NULL, "3e-4", "",
     "peak learning rate"},
    {"optim.min_lr", KEY_FLOAT, AT(optim.min_lr), 0, 100, NULL, NULL, "",
     "learning rate at the end of the schedule (default: lr/10)"},
    {"optim.schedule", KEY_ENUM, AT(optim.schedule), 0, 0, schedules, "cosine", "",
     "learning rate after the warm-up"},
    {"optim.warmup_steps", KEY_COUNT, AT(optim.warmup_steps), 0, COUNT_MAX, NULL, NULL, "steps",
     "linear warm-up (default: 2% of the run, at most 1000)"},
    {"optim.warmup_start", KEY_FLOAT, AT(optim.warmup_start), 0, 1, NULL, "0", "",
     "fraction of lr where the warm-up begins (paper B: 0.1)"},
    {"optim.betas", KEY_FLOATS, AT(optim.betas), 0, 1, NULL, "[0.9, 0.95]", "",
     "AdamW decay of the first and second moment"},
    {"optim.eps", KEY_FLOAT, AT(optim.eps), 1e-20, 1, NULL, "1e-8", "",
     "AdamW epsilon"},
    {"optim.weight_decay", KEY_FLOAT, AT(optim.weight_decay), 0, 10, NULL, "0.1", "",
     "AdamW decoupled weight decay"},
    {"optim.decay_scope", KEY_ENUM, AT(optim.decay_scope), 0, 0, decay_scopes, "matrices", "",
     "which weights decay"},
    {"optim.max_norm", KEY_FLOAT, AT(optim.max_norm), 0, 1e9, NULL, "1", "",
     "gradient norm is clipped to this, 0: no clipping"},

    {"eval.interval", KEY_COUNT, AT(eval.interval), 1, COUNT_MAX, NULL, "250", "steps",
     "steps between evaluations"},
    {"eval.max_tokens", KEY_COUNT, AT(eval.max_tokens), 0, COUNT_MAX, NULL, "0", "tokens",
     "tokens of the validation set to use, 0: all"},
    {"log.interval", KEY_COUNT, AT(log.interval), 1, COUNT_MAX, NULL, "1", "steps",
     "steps between logged training records"},
    {"save.interval", KEY_COUNT, AT(save.interval), 1, COUNT_MAX, NULL, "1000", "steps",
     "steps between checkpoints"},
    {"save.keep", KEY_INT, AT(save.keep), 1, 1000000, NULL, "2", "checkpoints",
     "newest checkpoints kept"},
};
// clang-format on

const int spec_key_count = sizeof spec_keys / sizeof spec_keys[0];
_Static_assert(sizeof spec_keys / sizeof spec_keys[0] <= SPEC_MAX_KEYS, "raise SPEC_MAX_KEYS");
