// From the slots to the fields of a spec: one function per type of key, then the values that are
// derived when nothing was given, then the generators.
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/gen.h"
#include "engine/profile_read.h"

enum { PATH_SIZE = 128 };

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

static void wrong_type(struct reading *r, const char *path, const struct node *v,
                       const char *expected)
{
    char q[QUOTE_SIZE];

    if (v->kind == NODE_LIST)
        reading_error(r, v, path, "expected %s, got a list", expected);
    else if (v->kind == NODE_MAP)
        reading_error(r, v, path, "expected %s, got a mapping", expected);
    else if (v->is_quoted)
        reading_error(r, v, path, "expected %s, got the text \"%s\" in quotes", expected,
                      quote(q, v->text));
    else
        reading_error(r, v, path, "expected %s, got '%s'", expected, quote(q, v->text));
}

static bool is_plain(const struct node *v)
{
    return v->kind == NODE_SCALAR && !v->is_quoted;
}

// YAML 1.1 reads 010 as eight, YAML 1.2 as ten.
static bool has_leading_zero(const char *s)
{
    s += *s == '-' || *s == '+';
    return s[0] == '0' && (isdigit((unsigned char)s[1]) || s[1] == '_');
}

static bool parse_count(struct reading *r, const char *path, const struct node *v, const char *text,
                        int64_t *out)
{
    char q[QUOTE_SIZE];

    if (has_leading_zero(text)) {
        reading_error(r, v, path, "'%s' starts with 0, which some read as octal: drop the zero",
                      quote(q, text));
        return false;
    }
    if (unit_parse_count(text, out))
        return true;
    wrong_type(r, path, v, "a whole number (1000, 1_000, 180M, 64KiB)");
    return false;
}

static bool count_value(struct reading *r, const char *path, const struct node *v, int64_t *out)
{
    if (is_plain(v))
        return parse_count(r, path, v, v->text, out);
    wrong_type(r, path, v, "a whole number (1000, 1_000, 180M, 64KiB)");
    return false;
}

static bool fits_int(struct reading *r, const struct spec_key *k, const char *path,
                     const struct node *v, int64_t n)
{
    char text[UNIT_SIZE];

    if (n >= INT_MIN && n <= INT_MAX)
        return true;
    snprintf(text, sizeof text, "%lld", (long long)n);
    range_error(r, k, path, v, text);
    return false;
}

static bool int_value(struct reading *r, const struct spec_key *k, const char *path,
                      const struct node *v, int *out)
{
    int64_t n;

    if (!count_value(r, path, v, &n) || !fits_int(r, k, path, v, n))
        return false;
    *out = (int)n;
    return true;
}

static bool float_value(struct reading *r, const char *path, const struct node *v, double *out)
{
    if (is_plain(v) && unit_parse_float(v->text, out))
        return true;
    wrong_type(r, path, v, "a number (0.1, 3e-4, 0.2%)");
    return false;
}

static void bind_floats(struct reading *r, const struct spec_key *k, const struct node *v)
{
    double *out = field(r, k);
    char path[PATH_SIZE];

    if (v->kind != NODE_LIST || v->n != 2) {
        if (v->kind == NODE_LIST)
            reading_error(r, v, k->path, "has %d values, expected 2", v->n);
        else
            wrong_type(r, k->path, v, "a list of two numbers");
        return;
    }
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s[%d]", k->path, i);
        float_value(r, path, v->items[i].value, &out[i]);
    }
}

static void bind_bool(struct reading *r, const struct spec_key *k, const struct node *v)
{
    static const char *const others[] = {"yes", "no", "on", "off",  "y",     "n", "t",
                                         "f",   "1",  "0",  "true", "false", NULL};
    bool *out = field(r, k);
    char q[QUOTE_SIZE];

    if (is_plain(v) && (!strcmp(v->text, "true") || !strcmp(v->text, "false"))) {
        *out = v->text[0] == 't';
        return;
    }
    for (int i = 0; v->kind == NODE_SCALAR && others[i]; i++)
        if (!strcasecmp(v->text, others[i])) {
            reading_error(r, v, k->path, "expected true or false (written so), got %s%s%s",
                          v->is_quoted ? "\"" : "'", quote(q, v->text), v->is_quoted ? "\"" : "'");
            return;
        }
    wrong_type(r, k->path, v, "true or false");
}

// Index of text in choices, -1 if it is none of them. `list` becomes "a, b or c".
static int choose(const char *const *choices, const char *text, struct buf *list)
{
    int found = -1;

    buf_reset(list);
    for (int i = 0; choices[i]; i++) {
        buf_fmt(list, "%s%s", !i ? "" : choices[i + 1] ? ", " : " or ", choices[i]);
        if (text && !strcmp(choices[i], text))
            found = i;
    }
    return found;
}

static void bind_enum(struct reading *r, const struct spec_key *k, const struct node *v)
{
    struct buf list = {0};
    int i = choose(k->choices, v->kind == NODE_SCALAR ? v->text : NULL, &list);

    if (i >= 0)
        memcpy(field(r, k), &i, sizeof i);
    else
        wrong_type(r, k->path, v, list.data);
    buf_release(&list);
}

static void bind_string(struct reading *r, const struct spec_key *k, const struct node *v)
{
    if (v->kind != NODE_SCALAR)
        wrong_type(r, k->path, v, "a text");
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

    if (!is_plain(v) || len < 4 || len >= sizeof text || strcmp(v->text + len - 3, "tok"))
        return count_value(r, k->path, v, out);
    memcpy(text, v->text, len - 3);
    text[len - 3] = '\0';
    return parse_count(r, k->path, v, text, out) && tokens_to_sequences(r, k, v, *out, out);
}

static void bind_batch(struct reading *r, const struct spec_key *k, const struct node *v)
{
    int64_t n;

    if (!batch_value(r, k, v, &n) || !fits_int(r, k, k->path, v, n))
        return;
    if (k->size == sizeof(int))
        *(int *)field(r, k) = (int)n;
    else
        *(int64_t *)field(r, k) = n;
}

static const struct node *map_value(const struct node *map, const char *key)
{
    for (int i = 0; i < map->n; i++)
        if (!strcmp(map->items[i].key->text, key))
            return map->items[i].value;
    return NULL;
}

static void frame_map(struct reading *r, const struct spec_key *k, const struct node *v)
{
    struct frame *frame = field(r, k);
    const struct node *ffn = map_value(v, "ffn"), *heads = map_value(v, "heads");
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
        float_value(r, "model.frame.ffn", ffn, &frame->ffn);
    if (heads)
        float_value(r, "model.frame.heads", heads, &frame->heads);
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
        wrong_type(r, k->path, v, "none, {ffn: x, heads: y}, endpoint_max or profile_max");
}

// ---- lanes --------------------------------------------------------------------------------------

// Cuts "2048 x6" at the x. The count is 1 without one, -1 when it is no number of layers.
static int split_repeat(const char *s, char *value, size_t size)
{
    const char *x = strrchr(s, 'x');
    size_t n = x ? (size_t)(x - s) : strlen(s);
    char *end;
    long times;

    while (x && n && s[n - 1] == ' ')
        n--;
    if (n >= size)
        return -1;
    memcpy(value, s, n);
    value[n] = '\0';
    if (!x)
        return 1;
    for (x++; *x == ' ';)
        x++;
    times = isdigit((unsigned char)*x) ? strtol(x, &end, 10) : -1;
    return times >= 1 && times <= SPEC_MAX_LAYERS && !*end ? (int)times : -1;
}

static bool lane_item(struct reading *r, const struct spec_key *k, const struct node *v)
{
    struct lane_value *lane = &r->lane[k->size];
    char path[PATH_SIZE], text[64];
    int64_t n;
    int times;

    snprintf(path, sizeof path, "%s[%d]", k->path, lane->n);
    times = is_plain(v) ? split_repeat(v->text, text, sizeof text) : -1;
    if (times < 0) {
        wrong_type(r, path, v, "a whole number, or '2048 x6' for six times the same");
        return false;
    }
    if (!parse_count(r, path, v, text, &n) || !fits_int(r, k, path, v, n))
        return false;
    if (lane->n + times > SPEC_MAX_LAYERS) {
        reading_error(r, v, k->path, "has more than %d values", SPEC_MAX_LAYERS);
        return false;
    }
    for (int i = 0; i < times; i++) {
        lane->item[lane->n] = v;
        lane->v[lane->n++] = (int)n;
    }
    return true;
}

static void lane_list(struct reading *r, const struct spec_key *k, const struct node *v)
{
    struct lane_value *lane = &r->lane[k->size];
    bool is_good = true;

    lane->source.shape = SHAPE_LIST;
    for (int i = 0; i < v->n; i++)
        is_good &= lane_item(r, k, v->items[i].value);
    if (is_good && all_good(r, "model.n_layers", k->path, NULL) &&
        lane->n != r->spec->model.n_layers)
        reading_error(r, v, k->path, "has %d values, expected one for each of %d layers", lane->n,
                      r->spec->model.n_layers);
}

static void lane_number(struct reading *r, const struct spec_key *k, const struct node *v)
{
    struct lane_value *lane = &r->lane[k->size];

    lane->source = (struct lane_source){.shape = SHAPE_NUMBER, .n_points = 1};
    if (!int_value(r, k, k->path, v, &lane->v[0]))
        return;
    lane->source.points[0] = lane->v[0];
    lane->n = SPEC_MAX_LAYERS;
    for (int i = 0; i < lane->n; i++) {
        lane->v[i] = lane->v[0];
        lane->item[i] = v;
    }
}

static void lane_points(struct reading *r, const struct spec_key *k, const struct node *v,
                        struct lane_source *src)
{
    int want = gen_points(src->shape);
    char path[PATH_SIZE];

    if (v->kind == NODE_SCALAR && want == 1) {
        snprintf(path, sizeof path, "%s.points", k->path);
        float_value(r, path, v, &src->points[0]);
    } else if (v->kind != NODE_LIST || v->n != want) {
        snprintf(path, sizeof path, "%s.points", k->path);
        reading_error(r, v, path, "shape %s needs %d point%s, such as [%s]",
                      spec_shape_names[src->shape], want, want == 1 ? "" : "s",
                      want == 1   ? "2.5"
                      : want == 2 ? "0.5, 4.0"
                                  : "0.5, 4.0, 0.5");
    } else {
        for (int i = 0; i < want; i++) {
            snprintf(path, sizeof path, "%s.points[%d]", k->path, i);
            float_value(r, path, v->items[i].value, &src->points[i]);
        }
    }
    src->n_points = want;
}

static void lane_generator(struct reading *r, const struct spec_key *k, const struct node *v,
                           const struct node *shape, const struct node *points)
{
    struct lane_source *src = &r->lane[k->size].source;
    struct buf list = {0};
    int i;

    if (!shape || !points) {
        reading_error(r, v, k->path, "'%s' is missing, expected {shape: ..., points: [...]}",
                      shape ? "points" : "shape");
        return;
    }
    // list and number are forms of their own, not shapes
    i = choose(spec_shape_names + SHAPE_UNIFORM, shape->kind == NODE_SCALAR ? shape->text : NULL,
               &list);
    if (i < 0) {
        char path[PATH_SIZE];

        snprintf(path, sizeof path, "%s.shape", k->path);
        wrong_type(r, path, shape, list.data);
    } else {
        src->shape = (enum shape)(SHAPE_UNIFORM + i);
        lane_points(r, k, points, src);
    }
    buf_release(&list);
}

static void kv_ratio(struct reading *r, const struct spec_key *k, const struct node *v)
{
    struct lane_source *src = &r->lane[k->size].source;
    int64_t n;

    src->shape = SHAPE_LIST;
    if (!count_value(r, "model.n_kv_heads.ratio", v, &n))
        return;
    if (n < 1 || n > (int64_t)k->max)
        reading_error(r, v, "model.n_kv_heads.ratio", "%lld is out of range, expected 1 to %g",
                      (long long)n, k->max);
    else
        src->kv_ratio = (int)n;
}

static void lane_key(struct reading *r, const struct spec_key *k, const struct node *key,
                     const char *allowed)
{
    char q[QUOTE_SIZE];

    if (!strcmp(key->text, "frame"))
        reading_error(r, key, k->path, "'frame' is given once, as model.frame");
    else if (!strcmp(key->text, "multiple_of") || !strcmp(key->text, "round_points"))
        reading_error(r, key, k->path,
                      "'%s' is not part of a generator: widths are multiples of model.ffn_step, "
                      "head counts of model.head_step",
                      key->text);
    else
        reading_error(r, key, k->path, "unknown key '%s', expected %s", quote(q, key->text),
                      allowed);
}

static void lane_map(struct reading *r, const struct spec_key *k, const struct node *v)
{
    const struct node *shape = map_value(v, "shape"), *points = map_value(v, "points");
    const struct node *ratio = map_value(v, "ratio");
    bool is_kv = k->size == LANE_KV;

    if (k->size == LANE_REUSE) {
        wrong_type(r, k->path, v, "a number or a list");
        return;
    }
    for (int i = 0; i < v->n; i++) {
        const struct node *value = v->items[i].value;

        if (is_kv ? value != ratio : value != shape && value != points)
            lane_key(r, k, v->items[i].key, is_kv ? "ratio" : "shape and points");
    }
    if (!is_kv)
        lane_generator(r, k, v, shape, points);
    else if (ratio)
        kv_ratio(r, k, ratio);
    else if (!v->n)
        reading_error(r, v, k->path, "empty, expected {ratio: R}");
}

static void bind_lane(struct reading *r, const struct spec_key *k, const struct node *v)
{
    if (v->kind == NODE_MAP)
        lane_map(r, k, v);
    else if (v->kind == NODE_LIST)
        lane_list(r, k, v);
    else if (is_plain(v) && strchr(v->text, 'x') && isdigit((unsigned char)*v->text))
        wrong_type(r, k->path, v, "a number, a list or a generator (repeats stand in lists)");
    else
        lane_number(r, k, v);
}

// Fills the spec's lane. Generators need the scalars, {ratio: R} the heads.
static void resolve_lane(struct reading *r, const struct spec_key *k)
{
    struct model_spec *m = &r->spec->model;
    const struct lane_value *value = &r->lane[k->size];
    struct err err = ERR_INIT;

    if (!all_good(r, k->path, "model.n_layers", NULL))
        return;
    m->source[k->size] = value->source;
    if (value->source.kv_ratio || gen_points(value->source.shape) > 0) {
        if (!all_good(r, "model.d_model", "model.head_dim", "model.ffn_step", "model.head_step",
                      "model.frame", NULL) ||
            (value->source.kv_ratio && !all_good(r, "model.n_heads", NULL)))
            mark_bad(r, k->path);
        else if (gen_apply(m, (enum lane)k->size, &err) < 0)
            reading_error(r, r->slots[k - spec_keys].value, k->path, "%s", err.text);
        return;
    }
    memcpy(m->lane[k->size], value->v, (size_t)m->n_layers * sizeof value->v[0]);
}

// ---- derived values -----------------------------------------------------------------------------

// Name of the file without folders and ending; other characters than a run id may have become '-'.
static void derive_name(struct reading *r)
{
    const char *file = r->top ? r->top->name : "profile";
    const char *base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    char *out = r->spec->name;
    size_t n = 0;

    for (const char *s = base; *s && strcmp(s, ".yaml") && strcmp(s, ".yml"); s++) {
        bool is_legal = isalnum((unsigned char)*s) || (n && strchr("._-", *s));

        if (n + 1 < SPEC_NAME_SIZE)
            out[n++] = is_legal ? *s : '-';
    }
    out[n] = '\0';
    if (!n || out[0] == '-')
        snprintf(out, SPEC_NAME_SIZE, "profile");
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
    const struct slot *tokens = slot_of(r, "train.max_tokens"), *steps;

    steps = slot_of(r, "train.max_steps");
    if (!all_good(r, "train.max_tokens", "train.max_steps", NULL))
        return;
    if (!is_given(r, "train.max_steps"))
        t->max_steps = t->max_tokens ? 0 : 1000;
    if (t->max_tokens && t->max_steps && tokens->group > steps->group)
        t->max_steps = 0;
    else if (t->max_tokens && t->max_steps && tokens->group < steps->group)
        t->max_tokens = 0;
}

// v/10 without the last binary digits, so that a tenth of 3e-4 is written 3e-05.
static double tenth(double v)
{
    char text[32];

    snprintf(text, sizeof text, "%.12g", v / 10);
    return strtod(text, NULL);
}

static void derive(struct reading *r)
{
    struct spec *s = r->spec;
    int64_t steps;

    if (!is_given(r, "name"))
        derive_name(r);
    if (!is_given(r, "model.head_step"))
        derive_head_step(r);
    if (!is_given(r, "train.global_batch_size"))
        s->train.global_batch_size = s->train.micro_batch_size;
    derive_length(r);
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
        int_value(r, k, k->path, v, field(r, k));
        break;
    case KEY_COUNT:
        count_value(r, k->path, v, field(r, k));
        break;
    case KEY_BATCH:
        bind_batch(r, k, v);
        break;
    case KEY_FLOAT:
        float_value(r, k->path, v, field(r, k));
        break;
    case KEY_FLOATS:
        bind_floats(r, k, v);
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
}
