// Inside of the hub reader, shared by hub*.c only:
//   JSON -> family -> facts (which field gives what) -> lanes and flags -> lines of a profile
#ifndef ENGINE_HUB_INTERNAL_H
#define ENGINE_HUB_INTERNAL_H

#include <jansson.h>

#include "engine/hub.h"
#include "engine/spec.h"

// What a field can say; each family has its own names for them.
enum hub_fact {
    FACT_TYPE,  // model_type
    FACT_CLASS, // architectures
    FACT_D_MODEL,
    FACT_LAYERS,
    FACT_HEADS, // number, or one per layer
    FACT_KV,    // likewise
    FACT_HEAD_DIM,
    FACT_FFN,
    FACT_FFN_FACTORS, // multiples of d_model, rounded onto FACT_FFN_DIVISOR
    FACT_FFN_DIVISOR,
    FACT_BLOCKS, // block_configs
    FACT_VOCAB,
    FACT_TIE,
    FACT_ACT,
    FACT_ATTN_BIAS,
    FACT_MLP_BIAS,
    FACT_QK_NORM,
    FACT_EPS,
    FACT_STD,
    FACT_THETA,
    FACT_ROPE, // rope_parameters
    FACT_QUERY_SCALE,
    FACT_CONTEXT,
    FACT_COUNT
};

enum hub_use {
    USE_FACT,
    USE_NOTHING, // says nothing about the model's tensors and what they compute
    USE_WARN,    // matters, but not for the tensors
    USE_REFUSE,  // changes the tensors
};

// One bit per family; fields say which families know them.
enum {
    HUB_LLAMA = 1 << 0,
    HUB_MISTRAL = 1 << 1,
    HUB_QWEN3 = 1 << 2,
    HUB_OLMO2 = 1 << 3,
    HUB_GEMMA = 1 << 4,
    HUB_GEMMA2 = 1 << 5,
    HUB_GEMMA3 = 1 << 6,
    HUB_GPT2 = 1 << 7,
    HUB_NEOX = 1 << 8,
    HUB_OPENELM = 1 << 9,
    HUB_DECI = 1 << 10,
    HUB_GEMMAS = HUB_GEMMA | HUB_GEMMA2 | HUB_GEMMA3,
    HUB_ROTARY = HUB_LLAMA | HUB_MISTRAL | HUB_QWEN3 | HUB_OLMO2 | HUB_GEMMAS | HUB_DECI,
    HUB_ALL = (1 << 11) - 1,
};

struct hub_family {
    const char *type;       // model_type
    const char *class_name; // architectures
    unsigned bit;
    const char *refused; // why none of them can be said in a profile; the rest is then unused
    unsigned needs;      // bits 1 << enum hub_fact that have no default
    bool is_tied;        // without tie_word_embeddings
    const char *act;     // profile's activation without FACT_ACT
    const char *eps;     // without FACT_EPS
    const char *keys[5]; // lines of the profile's model section that hold for all of them
    const char *warning; // what the profile computes otherwise in all of them, or NULL
};

struct hub_field {
    const char *name;
    unsigned families;
    enum hub_use use;
    enum hub_fact fact;  // USE_FACT
    const char *neutral; // USE_WARN, USE_REFUSE: the value that changes nothing, besides null
    const char *absent;  // what a missing field stands for, when that is not neutral
    const char *text;    // USE_WARN, USE_REFUSE
};

extern const struct hub_family hub_families[];
extern const int hub_family_count;
extern const struct hub_field hub_fields[];
extern const int hub_field_count;

// The field `name` as this family has it; NULL: unknown.
const struct hub_field *hub_field_find(const char *name, unsigned family);

struct hub_key {
    const char *name; // points into the text, `len` bytes, escapes unread
    size_t len;
    struct hub_place at;
};

struct hub_file {
    struct hub *hub;
    const json_t *root;
    struct hub_key *keys; // of the top level
    int n_keys;
    const struct hub_family *family;
    const json_t *fact[FACT_COUNT]; // NULL: not given, or null
    const char *name[FACT_COUNT];   // of the field that gave it
    struct hub_place at[FACT_COUNT];
};

// ---- hub.c ----
void hub_say(struct hub *hub, enum hub_level level, struct hub_place at, const char *field,
             const char *fmt, ...) __attribute__((format(printf, 5, 6)));
// At the field that gave the fact; `part` goes behind its name ("[5].ffn").
void hub_say_fact(struct hub_file *f, enum hub_level level, enum hub_fact fact, const char *part,
                  const char *fmt, ...) __attribute__((format(printf, 5, 6)));
// The value in words for messages; out has HUB_QUOTE bytes, returned.
enum { HUB_QUOTE = 64 };
const char *hub_quote(char *out, const json_t *v);
struct hub_place hub_place_of(const struct hub_file *f, const char *name);

// ---- hub_lanes.c ----
struct hub_lane {
    int64_t v[SPEC_MAX_LAYERS]; // first n_layers entries are set
    bool is_list;
    enum hub_fact from;
};
struct hub_shape {
    int64_t d_model, n_layers, head_dim;
    struct hub_lane ffn, heads, kv;
};
// A whole number from 1 to 2^31-1; reports anything else.
bool hub_whole(struct hub_file *f, enum hub_fact fact, const char *part, const json_t *v,
               int64_t *out);
// Sizes and per-layer values. False when something was reported.
bool hub_shape_read(struct hub_file *f, struct hub_shape *s);

// ---- hub_model.c ----
// Facts to hub->yaml; reports what cannot be said.
void hub_write(struct hub_file *f);

#endif
