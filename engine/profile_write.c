// A spec as YAML, as JSON, and the key table as help.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/profile_read.h"

// The shortest decimal text that reads back as the same double, whole numbers without exponent.
static void add_double(struct buf *out, double v)
{
    char text[40];

    if (v == floor(v) && fabs(v) < 1e15) {
        buf_fmt(out, "%.0f", v);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    buf_str(out, text);
}

// In double quotes unless it is a plain word. Control characters are refused by profile_validate.
static void add_string(struct buf *out, const char *s)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
    bool is_word = *s && strspn(s, plain) == strlen(s) && *s != '-' && *s != '.';

    if (is_word && strcmp(s, "null")) {
        buf_str(out, s);
        return;
    }
    buf_str(out, "\"");
    for (; *s; s++)
        buf_fmt(out, "%s%c", *s == '"' || *s == '\\' ? "\\" : "", *s);
    buf_str(out, "\"");
}

static void add_frame(struct buf *out, const struct frame *f)
{
    if (f->mode != FRAME_LITERAL) {
        buf_str(out, spec_frame_names[f->mode]);
        return;
    }
    buf_str(out, "{ffn: ");
    add_double(out, f->ffn);
    buf_str(out, ", heads: ");
    add_double(out, f->heads);
    buf_str(out, "}");
}

static void add_lane(struct buf *out, const struct model_spec *m, enum lane lane)
{
    for (int i = 0; i < m->n_layers; i++)
        buf_fmt(out, "%s%d", i ? ", " : "[", m->lane[lane][i]);
    buf_str(out, "]");
}

static int64_t integer_at(const struct spec_key *k, const void *v)
{
    bool is_int = k->type == KEY_INT || k->size == sizeof(int);

    return is_int ? *(const int *)v : *(const int64_t *)v;
}

static const char *choice_at(const struct spec_key *k, const void *v)
{
    int i;

    memcpy(&i, v, sizeof i);
    return k->choices[i];
}

static bool same_in_all_layers(const double *v, int n)
{
    for (int i = 1; i < n; i++)
        if (v[i] != v[0])
            return false;
    return true;
}

static void add_layers(struct buf *out, const double *v, int n)
{
    if (same_in_all_layers(v, n)) {
        add_double(out, v[0]);
        return;
    }
    for (int i = 0; i < n; i++) {
        buf_str(out, i ? ", " : "[");
        add_double(out, v[i]);
    }
    buf_str(out, "]");
}

void value_to_yaml(const struct spec_key *k, const struct spec *spec, struct buf *out)
{
    const void *v = (const char *)spec + k->offset;

    switch (k->type) {
    case KEY_INT:
    case KEY_COUNT:
    case KEY_BATCH:
        buf_fmt(out, "%lld", (long long)integer_at(k, v));
        break;
    case KEY_FLOAT:
        add_double(out, *(const double *)v);
        break;
    case KEY_FLOATS:
        buf_str(out, "[");
        add_double(out, ((const double *)v)[0]);
        buf_str(out, ", ");
        add_double(out, ((const double *)v)[1]);
        buf_str(out, "]");
        break;
    case KEY_LAYERS:
        add_layers(out, v, spec->model.n_layers);
        break;
    case KEY_BOOL:
        buf_str(out, *(const bool *)v ? "true" : "false");
        break;
    case KEY_ENUM:
        buf_str(out, choice_at(k, v));
        break;
    case KEY_STRING:
        add_string(out, v);
        break;
    case KEY_LANE:
        add_lane(out, &spec->model, (enum lane)k->size);
        break;
    case KEY_FRAME:
        add_frame(out, v);
        break;
    }
}

// "{shape: crown, points: [1, 4, 1]}", "{ratio: 2}", "512" or "[512 x6, 768]".
static void add_lane_source(struct buf *out, const struct model_spec *m, enum lane lane)
{
    const struct lane_source *src = &m->source[lane];
    int same;

    if (lane_source_holds(src, m, lane)) {
        if (src->kv_ratio) {
            buf_fmt(out, "{ratio: %d}", src->kv_ratio);
            return;
        }
        buf_fmt(out, "{shape: %s, points: ", spec_shape_names[src->shape]);
        for (int i = 0; i < src->n_points; i++) {
            buf_str(out, i ? ", " : "[");
            add_double(out, src->points[i]);
        }
        buf_str(out, "]}");
        return;
    }
    if (src->shape == SHAPE_NUMBER && lane_is_uniform(m, lane)) {
        buf_fmt(out, "%d", m->lane[lane][0]);
        return;
    }
    for (int i = 0; i < m->n_layers; i += same) {
        for (same = 1; i + same < m->n_layers && m->lane[lane][i + same] == m->lane[lane][i];)
            same++;
        buf_fmt(out, same > 1 ? "%s%d x%d" : "%s%d", i ? ", " : "[", m->lane[lane][i], same);
    }
    buf_str(out, "]");
}

void profile_value_text(const struct spec_key *key, const struct spec *spec, struct buf *out)
{
    if (key->type == KEY_LANE)
        add_lane_source(out, &spec->model, (enum lane)key->size);
    else
        value_to_yaml(key, spec, out);
}

static void add_generator(struct buf *out, const struct lane_source *src)
{
    if (src->kv_ratio)
        buf_fmt(out, "{ratio: %d}", src->kv_ratio);
    if (src->shape < SHAPE_UNIFORM)
        return;
    buf_str(out, spec_shape_names[src->shape]);
    for (int i = 0; i < src->n_points; i++) {
        buf_str(out, i ? ", " : " [");
        add_double(out, src->points[i]);
    }
    buf_str(out, "]");
}

void profile_origin_text(const struct spec_key *key, const struct spec *spec, struct buf *out)
{
    const struct spec_origin *o = &spec->origin[key - spec_keys];

    if (o->kind == ORIGIN_DEFAULT)
        buf_str(out, "default");
    else if (o->kind == ORIGIN_DERIVED)
        buf_str(out, "derived");
    else if (o->kind == ORIGIN_SET)
        buf_fmt(out, "--set %d", o->line);
    else if (o->kind == ORIGIN_FILE)
        buf_fmt(out, "%s:%d", spec->origin_file[o->file], o->line);
}

// "  # crown [1, 4, 1], crown.yaml:10": what is known of where the value came from.
static void add_origin(struct buf *out, const struct spec *s, const struct spec_key *k)
{
    struct buf text = {0};
    struct buf place = {0};

    if (k->type == KEY_LANE)
        add_generator(&text, &s->model.source[k->size]);
    profile_origin_text(k, s, &place);
    if (text.len || place.len)
        buf_fmt(out, "  # %s%s%s", text.len ? text.data : "", text.len && place.len ? ", " : "",
                place.len ? place.data : "");
    buf_release(&text);
    buf_release(&place);
}

// What YAML would not take in a comment becomes '?'.
static void add_comment(struct buf *out, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    bool at_start = true;

    while (*s) {
        size_t n = utf8_sequence(s, strlen((const char *)s));

        if (at_start)
            buf_str(out, *s == '\n' ? "#" : "# ");
        at_start = *s == '\n';
        if (text_fault(s, n))
            buf_str(out, "?");
        else
            buf_add(out, s, n);
        s += n ? n : 1;
    }
    if (!at_start)
        buf_str(out, "\n");
}

typedef void add_value(struct buf *out, const struct spec *spec, const struct spec_key *k);

static void add_keys(struct buf *out, const struct spec *spec, const bool *left_out, add_value *add)
{
    const char *section = "";

    for (int i = 0; i < spec_key_count; i++) {
        const struct spec_key *k = &spec_keys[i];
        const char *dot = strchr(k->path, '.');
        size_t n = dot ? (size_t)(dot - k->path) + 1 : 0;

        if (left_out && left_out[i])
            continue;
        if (dot && strncmp(section, k->path, n)) {
            section = k->path;
            buf_fmt(out, "%.*s:\n", (int)n - 1, section);
        }
        buf_fmt(out, "%s%s: ", dot ? "  " : "", k->path + n);
        add(out, spec, k);
        buf_str(out, "\n");
    }
}

static void add_resolved(struct buf *out, const struct spec *spec, const struct spec_key *k)
{
    value_to_yaml(k, spec, out);
    add_origin(out, spec, k);
}

char *profile_to_yaml(const struct spec *spec, const char *header_comment)
{
    struct buf out = {0};

    add_comment(&out, header_comment ? header_comment : "");
    add_keys(&out, spec, NULL, add_resolved);
    return buf_detach(&out);
}

static void add_as_given(struct buf *out, const struct spec *spec, const struct spec_key *k)
{
    profile_value_text(k, spec, out);
}

void spec_to_sources(const struct spec *spec, const bool *left_out, struct buf *out)
{
    add_keys(out, spec, left_out, add_as_given);
}

// ---- JSON ---------------------------------------------------------------------------------------

static json_t *lane_to_json(const struct model_spec *m, enum lane lane)
{
    json_t *list = json_array();

    for (int i = 0; i < m->n_layers; i++)
        json_array_append_new(list, json_integer(m->lane[lane][i]));
    return list;
}

static json_t *doubles_to_json(const double *v, int n)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_real(v[i]));
    return list;
}

static json_t *value_to_json(const struct spec_key *k, const struct spec *spec)
{
    const void *v = (const char *)spec + k->offset;
    const struct frame *frame = v;

    switch (k->type) {
    case KEY_INT:
    case KEY_COUNT:
    case KEY_BATCH:
        return json_integer(integer_at(k, v));
    case KEY_FLOAT:
        return json_real(*(const double *)v);
    case KEY_FLOATS:
        return doubles_to_json(v, 2);
    case KEY_LAYERS:
        return doubles_to_json(v, spec->model.n_layers);
    case KEY_BOOL:
        return json_boolean(*(const bool *)v);
    case KEY_ENUM:
        return json_string(choice_at(k, v));
    case KEY_STRING:
        return json_string(v);
    case KEY_LANE:
        return lane_to_json(&spec->model, (enum lane)k->size);
    case KEY_FRAME:
        return frame->mode == FRAME_LITERAL
                   ? json_pack("{sfsf}", "ffn", frame->ffn, "heads", frame->heads)
                   : json_string(spec_frame_names[frame->mode]);
    }
    BUG("key type %d", (int)k->type);
}

json_t *profile_to_json(const struct spec *spec)
{
    json_t *root = json_object();

    for (int i = 0; i < spec_key_count; i++) {
        const struct spec_key *k = &spec_keys[i];
        const char *dot = strchr(k->path, '.');
        char section[16];
        json_t *object = root;

        if (dot) {
            snprintf(section, sizeof section, "%.*s", (int)(dot - k->path), k->path);
            object = json_object_get(root, section);
            if (!object) {
                object = json_object();
                json_object_set_new(root, section, object);
            }
        }
        json_object_set_new(object, dot ? dot + 1 : k->path, value_to_json(k, spec));
    }
    return root;
}

// ---- help ---------------------------------------------------------------------------------------

void profile_range_text(const struct spec_key *k, struct buf *out)
{
    if (k->type == KEY_ENUM)
        for (int i = 0; k->choices[i]; i++)
            buf_fmt(out, "%s%s", i ? " | " : "", k->choices[i]);
    else if (k->type == KEY_BOOL)
        buf_str(out, "true | false");
    else if (k->max >= 9e15)
        buf_fmt(out, "at least %.15g", k->min);
    else if (k->max > k->min && k->type != KEY_FRAME)
        buf_fmt(out, "%.15g to %.15g", k->min, k->max);
}

void profile_print_keys(FILE *out)
{
    struct buf range = {0};

    for (int i = 0; i < spec_key_count; i++) {
        const struct spec_key *k = &spec_keys[i];
        const char *text = k->default_text;

        buf_reset(&range);
        buf_str(&range, "");
        profile_range_text(k, &range);
        fprintf(out, "%-26s %-14s", k->path, !text ? "(derived)" : *text ? text : "(required)");
        fprintf(out, "%s%s%s%s", range.len ? "  " : "", range.data, *k->unit ? " " : "", k->unit);
        fprintf(out, "\n    %s\n", k->help);
    }
    buf_release(&range);
}
