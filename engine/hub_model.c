// From the facts of a hub configuration to the lines of a profile. Each line keeps the place of the
// field it came from, so that what is wrong with a value is reported in the configuration.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/hub_internal.h"

// ---- lines --------------------------------------------------------------------------------------

__attribute__((format(printf, 3, 4))) static void put(struct hub *hub, struct hub_place at,
                                                      const char *fmt, ...)
{
    char line[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    buf_fmt(&hub->yaml, "%s\n", line);
    hub->line = xrealloc(hub->line, (size_t)hub->n_lines + 1, sizeof *hub->line);
    hub->line[hub->n_lines++] = at;
}

static struct hub_place place(const struct hub_file *f, enum hub_fact fact)
{
    return f->at[fact].line ? f->at[fact] : (struct hub_place){1, 1};
}

static void put_whole(struct hub_file *f, const char *key, int64_t v, enum hub_fact from)
{
    put(f->hub, place(f, from), "  %s: %lld", key, (long long)v);
}

static bool is_uniform(const struct hub_lane *lane, int64_t n)
{
    for (int i = 1; i < n; i++)
        if (lane->v[i] != lane->v[0])
            return false;
    return true;
}

static void put_lane(struct hub_file *f, const char *key, const struct hub_lane *lane, int64_t n)
{
    struct buf list = {0};

    if (!lane->is_list && is_uniform(lane, n)) {
        put_whole(f, key, lane->v[0], lane->from);
        return;
    }
    for (int i = 0; i < n; i++)
        buf_fmt(&list, "%s%lld", i ? ", " : "", (long long)lane->v[i]);
    buf_fmt(&f->hub->yaml, "  %s: [%s", key, list.data);
    put(f->hub, place(f, lane->from), "]");
    buf_release(&list);
}

// A number of the file, in its own digits as far as a double holds them.
static void put_number(struct hub_file *f, const char *key, enum hub_fact fact,
                       const char *default_text)
{
    const json_t *v = f->fact[fact];
    char q[HUB_QUOTE];

    if (!v && default_text)
        put(f->hub, place(f, fact), "  %s: %s", key, default_text);
    else if (v && !json_is_number(v))
        hub_say_fact(f, HUB_ERROR, fact, "", "expected a number, got %s", hub_quote(q, v));
    else if (v)
        put(f->hub, place(f, fact), "  %s: %.17g", key, json_number_value(v));
}

// ---- flags --------------------------------------------------------------------------------------

static bool flag(struct hub_file *f, enum hub_fact fact, bool absent)
{
    const json_t *v = f->fact[fact];
    char q[HUB_QUOTE];

    if (v && !json_is_boolean(v))
        hub_say_fact(f, HUB_ERROR, fact, "", "expected true or false, got %s", hub_quote(q, v));
    return v ? json_is_true(v) : absent;
}

static void put_flag(struct hub_file *f, const char *key, bool on, enum hub_fact from)
{
    put(f->hub, place(f, from), "  %s: %s", key, on ? "true" : "false");
}

static bool has_key(const struct hub_family *family, const char *line)
{
    for (int i = 0; i < 5 && family->keys[i]; i++)
        if (!strcmp(family->keys[i], line))
            return true;
    return false;
}

// A profile has biases in all linear layers or in none.
static void put_bias(struct hub_file *f)
{
    bool always = has_key(f->family, "bias: true");
    bool attn = flag(f, FACT_ATTN_BIAS, always), mlp = flag(f, FACT_MLP_BIAS, always);

    if (attn != mlp) {
        enum hub_fact from = attn ? FACT_ATTN_BIAS : FACT_MLP_BIAS;

        hub_say_fact(f, HUB_ERROR, from, "",
                     "biases in %s alone; a profile's model.bias is for all linear layers",
                     attn ? "attention" : "the FFN");
    } else if (attn && !always) {
        put_flag(f, "bias", true, FACT_ATTN_BIAS);
    }
}

static const char *profile_act(const char *theirs)
{
    static const char *const same[][2] = {
        {"silu", "swiglu"},        {"swish", "swiglu"},        {"gelu", "gelu"},
        {"gelu_new", "gelu_tanh"}, {"gelu_fast", "gelu_tanh"}, {"gelu_pytorch_tanh", "gelu_tanh"},
    };

    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        if (!strcmp(same[i][0], theirs))
            return same[i][1];
    return NULL;
}

// Whether the FFN has a gate is the family's; its activation is the file's.
static void put_act(struct hub_file *f)
{
    const json_t *v = f->fact[FACT_ACT];
    const char *act = f->family->act, *theirs;
    char q[HUB_QUOTE];

    if (v && !json_is_string(v)) {
        hub_say_fact(f, HUB_ERROR, FACT_ACT, "", "expected a name, got %s", hub_quote(q, v));
        return;
    }
    theirs = v ? profile_act(json_string_value(v)) : act;
    if (!theirs || !strcmp(theirs, "swiglu") != !strcmp(act, "swiglu"))
        hub_say_fact(f, HUB_WARNING, FACT_ACT, "", "%s; here %s, the tensors are the same",
                     hub_quote(q, v), !strcmp(act, "swiglu") ? "silu" : act);
    else
        act = theirs;
    put(f->hub, place(f, FACT_ACT), "  act: %s", act);
}

static void put_qk_norm(struct hub_file *f)
{
    if (flag(f, FACT_QK_NORM, false))
        put(f->hub, place(f, FACT_QK_NORM), "  qk_norm: head");
}

// ---- positions ----------------------------------------------------------------------------------

// The newer form: {"rope_theta": 10000.0, "rope_type": "default"}.
static void read_rope(struct hub_file *f)
{
    const json_t *v = f->fact[FACT_ROPE], *theta = json_object_get(v, "rope_theta");
    const char *type = json_string_value(json_object_get(v, "rope_type"));
    char q[HUB_QUOTE];

    if (!v)
        return;
    if (!json_is_object(v)) {
        hub_say_fact(f, HUB_ERROR, FACT_ROPE, "", "expected an object, got %s", hub_quote(q, v));
        return;
    }
    if (theta && !f->fact[FACT_THETA]) {
        f->fact[FACT_THETA] = theta;
        f->name[FACT_THETA] = "rope_parameters.rope_theta";
        f->at[FACT_THETA] = f->at[FACT_ROPE];
    }
    if (!theta || (type && strcmp(type, "default")) || json_object_get(v, "partial_rotary_factor"))
        hub_say_fact(f, HUB_WARNING, FACT_ROPE, "",
                     "RoPE is more than one base here; a profile has model.rope_theta alone");
}

static void check_query_scale(struct hub_file *f, const struct hub_shape *s)
{
    const json_t *v = f->fact[FACT_QUERY_SCALE];
    char q[HUB_QUOTE];

    if (v && json_number_value(v) != (double)s->head_dim)
        hub_say_fact(f, HUB_WARNING, FACT_QUERY_SCALE, "",
                     "attention scores are scaled by 1/sqrt(%s), here by 1/sqrt(head_dim)",
                     hub_quote(q, v));
}

// A table of positions has a row for each; otherwise the longest context says nothing about the
// length of training sequences, which stays the profile's default unless that is too long.
static void put_context(struct hub_file *f)
{
    int usual = atoi(spec_key_find("train.seq_len")->default_text);
    bool is_table = has_key(f->family, "pos: learned");
    int64_t n;

    if (!f->fact[FACT_CONTEXT] || !hub_whole(f, FACT_CONTEXT, "", f->fact[FACT_CONTEXT], &n))
        return;
    if (is_table || n < usual) {
        put(f->hub, place(f, FACT_CONTEXT), "train:");
        put_whole(f, "seq_len", n, FACT_CONTEXT);
    } else if (n > usual) {
        hub_say_fact(f, HUB_NOTE, FACT_CONTEXT, "",
                     "the longest context is %lld; FLOPs and memory are those of train.seq_len, "
                     "%d by default",
                     (long long)n, usual);
    }
}

// ---- the whole ----------------------------------------------------------------------------------

static void check_needs(struct hub_file *f)
{
    for (int fact = 0; fact < FACT_COUNT; fact++) {
        const struct hub_field *row = NULL;

        if (!(f->family->needs >> fact & 1) || f->fact[fact])
            continue;
        for (int i = hub_field_count - 1; i >= 0; i--)
            if (hub_fields[i].use == USE_FACT && hub_fields[i].fact == (enum hub_fact)fact &&
                (hub_fields[i].families & f->family->bit))
                row = &hub_fields[i];
        hub_say(f->hub, HUB_ERROR, (struct hub_place){1, 1}, row->name,
                "is missing, which model_type %s needs", f->family->type);
    }
    if (f->family->bit == HUB_DECI && !f->fact[FACT_BLOCKS] &&
        !(f->fact[FACT_FFN] && f->fact[FACT_KV]))
        hub_say(f->hub, HUB_ERROR, (struct hub_place){1, 1}, "block_configs",
                "is missing, as are intermediate_size and num_key_value_heads_per_layer");
}

static int64_t step_of(const struct hub_lane *ffn, int64_t n)
{
    int64_t step = 256;

    for (int i = 0; i < n; i++)
        while (ffn->v[i] % step)
            step /= 2;
    return step;
}

// Query heads per key/value head when all layers with attention have the same, else 0.
static int64_t ratio_of(const struct hub_shape *s)
{
    int64_t ratio = 0;

    for (int i = 0; i < s->n_layers; i++) {
        if (s->heads.v[i] == 0)
            continue;
        if (!ratio)
            ratio = s->heads.v[i] / s->kv.v[i];
        if (s->heads.v[i] != ratio * s->kv.v[i])
            return 0;
    }
    return ratio;
}

static void put_lanes(struct hub_file *f, const struct hub_shape *s)
{
    int64_t ratio = ratio_of(s);

    put_lane(f, "ffn_width", &s->ffn, s->n_layers);
    put_whole(f, "ffn_step", step_of(&s->ffn, s->n_layers), s->ffn.from);
    put_lane(f, "n_heads", &s->heads, s->n_layers);
    if (ratio)
        put(f->hub, place(f, s->kv.from), "  n_kv_heads: {ratio: %lld}", (long long)ratio);
    else
        put_lane(f, "n_kv_heads", &s->kv, s->n_layers);
}

static void put_model(struct hub_file *f, const struct hub_shape *s, int64_t vocab)
{
    bool is_rotary = !has_key(f->family, "pos: learned");

    put(f->hub, (struct hub_place){1, 1}, "model:");
    put_whole(f, "d_model", s->d_model, FACT_D_MODEL);
    put_whole(f, "n_layers", s->n_layers, FACT_LAYERS);
    put_whole(f, "head_dim", s->head_dim, f->fact[FACT_HEAD_DIM] ? FACT_HEAD_DIM : FACT_HEADS);
    put_lanes(f, s);
    put_whole(f, "vocab", vocab, FACT_VOCAB);
    put_flag(f, "tie_embeddings", flag(f, FACT_TIE, f->family->is_tied), FACT_TIE);
    put_number(f, "norm_eps", FACT_EPS, f->family->eps);
    put_number(f, "init_std", FACT_STD, NULL);
    if (is_rotary)
        put_number(f, "rope_theta", FACT_THETA, NULL);
    put_act(f);
    put_bias(f);
    put_qk_norm(f);
    for (int i = 0; i < 5 && f->family->keys[i]; i++)
        put(f->hub, place(f, FACT_TYPE), "  %s", f->family->keys[i]);
}

void hub_write(struct hub_file *f)
{
    struct hub_shape *s;
    int64_t vocab = 0;
    bool is_good;

    check_needs(f);
    if (f->hub->errors)
        return;
    s = xcalloc(1, sizeof *s);
    is_good = hub_whole(f, FACT_VOCAB, "", f->fact[FACT_VOCAB], &vocab);
    if (hub_shape_read(f, s) && is_good) {
        read_rope(f);
        check_query_scale(f, s);
        put_model(f, s, vocab);
        put_context(f);
    }
    free(s);
}
