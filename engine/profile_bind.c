// From the slots to the fields of a spec: one function per type of key, then the values that are
// derived when nothing was given, then the generators.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/profile_read.h"

static void *field(struct reading *r, const struct spec_key *k)
{
    return (char *)r->spec + k->offset;
}

static struct slot *slot_of(struct reading *r, const char *path)
{
    const struct spec_key *k = spec_key_find(path);

    BUG_IF(!k);
    return &r->slots[k - spec_keys];
}

// The defaults are a layer of their own, below every file.
static bool is_given(struct reading *r, const char *path)
{
    const struct slot *s = slot_of(r, path);

    return s->value && s->layer > 0;
}

static void bind_floats(struct reading *r, const struct spec_key *k, const struct node *v)
{
    double *out = field(r, k);
    char path[PATH_SIZE];

    if (v->kind != NODE_LIST || v->n != 2) {
        if (v->kind == NODE_LIST)
            reading_error(r, v, k->path, "has %d values, expected 2", v->n);
        else
            value_wrong_type(r, k->path, v, "a list of two numbers");
        return;
    }
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s[%d]", k->path, i);
        value_float(r, path, v->items[i].value, &out[i]);
    }
}

// Values of one per layer; the table has n_layers before them.
static void layer_list(struct reading *r, const struct spec_key *k, const struct node *v)
{
    double *out = field(r, k);
    char path[PATH_SIZE];

    if (!all_good(r, "model.n_layers", NULL)) {
        mark_bad(r, k->path);
        return;
    }
    if (v->n != r->spec->model.n_layers) {
        reading_error(r, v, k->path,
                      "has %d values, expected a number or one for each of %d layers", v->n,
                      r->spec->model.n_layers);
        return;
    }
    for (int i = 0; i < v->n; i++) {
        snprintf(path, sizeof path, "%s[%d]", k->path, i);
        value_float(r, path, v->items[i].value, &out[i]);
    }
}

static void fill_layers(double *out, double value)
{
    for (int i = 0; i < SPEC_MAX_LAYERS; i++)
        out[i] = value;
}

static void bind_layers(struct reading *r, const struct spec_key *k, const struct node *v)
{
    double value = 0;

    if (v->kind == NODE_LIST)
        layer_list(r, k, v);
    else if (v->kind == NODE_MAP)
        value_wrong_type(r, k->path, v, "a number, or a list with one for each layer");
    else if (value_float(r, k->path, v, &value))
        fill_layers(field(r, k), value);
}

static void bind_bool(struct reading *r, const struct spec_key *k, const struct node *v)
{
    static const char *const others[] = {"yes", "no", "on", "off",  "y",     "n", "t",
                                         "f",   "1",  "0",  "true", "false", NULL};
    bool *out = field(r, k);
    char q[QUOTE_SIZE];

    if (node_is_plain(v) && (!strcmp(v->text, "true") || !strcmp(v->text, "false"))) {
        *out = v->text[0] == 't';
        return;
    }
    for (int i = 0; v->kind == NODE_SCALAR && others[i]; i++)
        if (!strcasecmp(v->text, others[i])) {
            reading_error(r, v, k->path, "expected true or false (written so), got %s%s%s",
                          v->is_quoted ? "\"" : "'", quote(q, v->text), v->is_quoted ? "\"" : "'");
            return;
        }
    value_wrong_type(r, k->path, v, "true or false");
}

static void bind_enum(struct reading *r, const struct spec_key *k, const struct node *v)
{
    struct buf list = {0};
    int i = value_choose(k->choices, v->kind == NODE_SCALAR ? v->text : NULL, &list);

    if (i >= 0)
        memcpy(field(r, k), &i, sizeof i);
    else
        value_wrong_type(r, k->path, v, list.data);
    buf_release(&list);
}

static void bind_string(struct reading *r, const struct spec_key *k, const struct node *v)
{
    if (v->kind != NODE_SCALAR)
        value_wrong_type(r, k->path, v, "a text");
    else if (strlen(v->text) >= k->size)
        reading_error(r, v, k->path, "has %zu bytes, at most %zu", strlen(v->text), k->size - 1);
    else
        memcpy(field(r, k), v->text, strlen(v->text) + 1);
}

static bool tokens_to_sequences(struct reading *r, const struct spec_key *k, const struct node *v,
                                int64_t tokens, int64_t *out)
{
    int seq_len = r->spec->train.seq_len;

    if (!all_good(r, "train.seq_len", NULL))
        return false;
    if (seq_len < 1 || tokens % seq_len) {
        reading_error(r, v, k->path,
                      "%lld tokens are no whole number of sequences, expected a multiple of "
                      "train.seq_len %d",
                      (long long)tokens, seq_len);
        return false;
    }
    *out = tokens / seq_len;
    return true;
}

// Sequences, or tokens with the unit tok. The table has seq_len before the batch sizes.
static bool batch_value(struct reading *r, const struct spec_key *k, const struct node *v,
                        int64_t *out)
{
    size_t len = v->kind == NODE_SCALAR ? strlen(v->text) : 0;
    char text[64];

    if (!node_is_plain(v) || len < 4 || len >= sizeof text || strcmp(v->text + len - 3, "tok"))
        return value_count(r, k->path, v, out);
    memcpy(text, v->text, len - 3);
    text[len - 3] = '\0';
    return value_parse_count(r, k->path, v, text, out) && tokens_to_sequences(r, k, v, *out, out);
}

static void bind_batch(struct reading *r, const struct spec_key *k, const struct node *v)
{
    int64_t n;

    if (!batch_value(r, k, v, &n) || !value_fits_int(r, k, k->path, v, n))
        return;
    if (k->size == sizeof(int))
        *(int *)field(r, k) = (int)n;
    else
        *(int64_t *)field(r, k) = n;
}

static void frame_map(struct reading *r, const struct spec_key *k, const struct node *v)
{
    struct frame *frame = field(r, k);
    const struct node *ffn = node_child(v, "ffn"), *heads = node_child(v, "heads");
    char q[QUOTE_SIZE];

    frame->mode = FRAME_LITERAL;
    for (int i = 0; i < v->n; i++)
        if (v->items[i].value != ffn && v->items[i].value != heads)
            reading_error(r, v->items[i].key, k->path, "unknown key '%s', expected ffn and heads",
                          quote(q, v->items[i].key->text));
    if (!ffn || !heads)
        reading_error(r, v, k->path, "'%s' is missing, expected {ffn: x, heads: y}",
                      ffn ? "heads" : "ffn");
    if (ffn)
        value_float(r, "model.frame.ffn", ffn, &frame->ffn);
    if (heads)
        value_float(r, "model.frame.heads", heads, &frame->heads);
}

static void bind_frame(struct reading *r, const struct spec_key *k, const struct node *v)
{
    struct frame *frame = field(r, k);
    const char *text = v->kind == NODE_SCALAR ? v->text : "";

    *frame = (struct frame){0};
    if (v->kind == NODE_MAP)
        frame_map(r, k, v);
    else if (!strcmp(text, "none"))
        frame->mode = FRAME_NONE;
    else if (!strcmp(text, "endpoint_max"))
        frame->mode = FRAME_ENDPOINT_MAX;
    else if (!strcmp(text, "profile_max"))
        frame->mode = FRAME_PROFILE_MAX;
    else
        value_wrong_type(r, k->path, v, "none, {ffn: x, heads: y}, endpoint_max or profile_max");
}

// ---- derived values -----------------------------------------------------------------------------

// The last part of a path; of a config.json its folder, where all of them have the same name.
static const char *telling_part(const char *file, size_t *len)
{
    const char *base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file, *end, *s;

    *len = strlen(base);
    if (strcmp(base, "config.json") || base - file < 2)
        return base;
    for (end = s = base - 1; s > file && s[-1] != '/';)
        s--;
    if (s[0] == '.' || s == end)
        return base;
    *len = (size_t)(end - s);
    return s;
}

static bool is_ending(const char *s, size_t left)
{
    static const char *const endings[] = {".yaml", ".yml", ".json"};

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (left == strlen(endings[i]) && !memcmp(s, endings[i], left))
            return true;
    return false;
}

char *profile_file_name(const char *file, char *out)
{
    size_t n = 0, len;
    const char *base = telling_part(file, &len);

    for (const char *s = base; s < base + len && !is_ending(s, len - (size_t)(s - base)); s++) {
        bool is_legal = isalnum((unsigned char)*s) || (n && strchr("._-", *s));

        if (n + 1 < SPEC_NAME_SIZE)
            out[n++] = is_legal ? *s : '-';
    }
    out[n] = '\0';
    if (!n || out[0] == '-')
        snprintf(out, SPEC_NAME_SIZE, "profile");
    return out;
}

static void derive_head_step(struct reading *r)
{
    const struct lane_source *kv = &r->lane[LANE_KV].source;

    r->spec->model.head_step = 1;
    if (!all_good(r, "model.n_kv_heads", NULL))
        return;
    if (kv->kv_ratio)
        r->spec->model.head_step = kv->kv_ratio;
    else if (kv->shape == SHAPE_NUMBER && r->lane[LANE_KV].v[0] > 0)
        r->spec->model.head_step = r->lane[LANE_KV].v[0];
}

// Of max_tokens and max_steps the one that a later layer gave wins, so that a run of a profile can
// be cut short with --set train.max_steps=30. In one layer they contradict each other.
static void derive_length(struct reading *r)
{
    struct train_spec *t = &r->spec->train;
    struct slot *tokens = slot_of(r, "train.max_tokens"), *steps = slot_of(r, "train.max_steps");

    if (!all_good(r, "train.max_tokens", "train.max_steps", NULL))
        return;
    if (!is_given(r, "train.max_steps"))
        t->max_steps = t->max_tokens ? 0 : 1000;
    if (!t->max_tokens || !t->max_steps || tokens->group == steps->group)
        return;
    if (tokens->group > steps->group) {
        t->max_steps = 0;
        steps->value = NULL; // no longer what its text says
    } else {
        t->max_tokens = 0;
        tokens->value = NULL;
    }
}

// v/10 without the last binary digits, so that a tenth of 3e-4 is written 3e-05.
static double tenth(double v)
{
    char text[32];

    snprintf(text, sizeof text, "%.12g", v / 10);
    return strtod(text, NULL);
}

// The published settings of each controller (architectures.md §3.5).
static void derive_gate(struct reading *r)
{
    struct gate_spec *g = &r->spec->gate;
    enum gate_controller c = g->controller;

    if (!is_given(r, "gate.gamma"))
        g->gamma = c == CTRL_PD ? 1e-2 : 1e-3;
    if (!is_given(r, "gate.alpha"))
        fill_layers(g->alpha, c == CTRL_FIXED_L2                                 ? 0.1
                              : c == CTRL_FIXED_MEAN || c == CTRL_FIXED_MEAN_VAR ? 0.01
                                                                                 : 0);
    if (!is_given(r, "gate.beta"))
        fill_layers(g->beta, c == CTRL_FIXED_L2 ? 0.1 : c == CTRL_FIXED_MEAN_VAR ? -0.01 : 0);
}

static void derive(struct reading *r)
{
    struct spec *s = r->spec;
    int64_t steps;

    if (!is_given(r, "name"))
        profile_file_name(r->top ? r->top->name : "profile", r->spec->name);
    if (!is_given(r, "model.head_step"))
        derive_head_step(r);
    if (!is_given(r, "train.global_batch_size"))
        s->train.global_batch_size = s->train.micro_batch_size;
    derive_length(r);
    derive_gate(r);
    if (!is_given(r, "optim.min_lr"))
        s->optim.min_lr = tenth(s->optim.lr);
    if (!is_given(r, "optim.warmup_steps") &&
        all_good(r, "train.seq_len", "train.micro_batch_size", "train.global_batch_size",
                 "train.max_tokens", "train.max_steps", NULL)) {
        steps = spec_total_steps(s) / 50;
        s->optim.warmup_steps = steps < 1000 ? steps : 1000;
    }
}

// ---- all keys -----------------------------------------------------------------------------------

static void bind_value(struct reading *r, const struct spec_key *k, const struct node *v)
{
    switch (k->type) {
    case KEY_INT:
        value_int(r, k, k->path, v, field(r, k));
        break;
    case KEY_COUNT:
        value_count(r, k->path, v, field(r, k));
        break;
    case KEY_BATCH:
        bind_batch(r, k, v);
        break;
    case KEY_FLOAT:
        value_float(r, k->path, v, field(r, k));
        break;
    case KEY_FLOATS:
        bind_floats(r, k, v);
        break;
    case KEY_LAYERS:
        bind_layers(r, k, v);
        break;
    case KEY_BOOL:
        bind_bool(r, k, v);
        break;
    case KEY_ENUM:
        bind_enum(r, k, v);
        break;
    case KEY_STRING:
        bind_string(r, k, v);
        break;
    case KEY_LANE:
        bind_lane(r, k, v);
        break;
    case KEY_FRAME:
        bind_frame(r, k, v);
        break;
    }
}

static void bind_key(struct reading *r, const struct spec_key *k)
{
    struct slot *slot = &r->slots[k - spec_keys];

    if (slot->value && !slot->is_bad)
        bind_value(r, k, slot->value);
    else if (!slot->value && !slot->is_bad && k->default_text)
        reading_error(r, NULL, k->path, "is missing and has no default (%s)", k->help);
}

// Index of a file in origin_file[]; the last entry stands for all that do not fit. The names become
// part of comments: plain ASCII only.
static int origin_file(struct spec *s, const char *path)
{
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    char name[SPEC_NAME_SIZE];
    int i = 0;

    snprintf(name, sizeof name, "%s", base);
    for (char *c = name; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    while (i < SPEC_ORIGIN_FILES - 1 && s->origin_file[i][0] && strcmp(s->origin_file[i], name))
        i++;
    snprintf(s->origin_file[i], SPEC_NAME_SIZE, "%s",
             i < SPEC_ORIGIN_FILES - 1 ? name : "further files");
    return i;
}

static void record_origins(struct reading *r)
{
    for (int i = 0; i < spec_key_count; i++) {
        const struct slot *slot = &r->slots[i];
        struct spec_origin *o = &r->spec->origin[i];

        if (!slot->value)
            *o = (struct spec_origin){.kind = ORIGIN_DERIVED};
        else if (slot->layer == 0)
            *o = (struct spec_origin){.kind = ORIGIN_DEFAULT};
        else if (slot->key->doc->set_number)
            *o = (struct spec_origin){.kind = ORIGIN_SET, .line = slot->key->doc->set_number};
        else
            *o = (struct spec_origin){ORIGIN_FILE, origin_file(r->spec, slot->key->doc->name),
                                      slot->key->line};
    }
}

void reading_bind(struct reading *r)
{
    static const enum lane order[] = {LANE_FFN, LANE_HEADS, LANE_KV, LANE_REUSE};

    for (int i = 0; i < spec_key_count; i++)
        bind_key(r, &spec_keys[i]);
    check_scalars(r, true);
    derive(r);
    for (int l = 0; l < LANE_COUNT; l++)
        for (int i = 0; i < spec_key_count; i++)
            if (spec_keys[i].type == KEY_LANE && spec_keys[i].size == (size_t)order[l])
                resolve_lane(r, &spec_keys[i]);
    check_rest(r);
    record_origins(r);
}
