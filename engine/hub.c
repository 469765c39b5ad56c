// Reading a hub configuration: where its fields stand, which family it is of, and what each field
// says; hub_lanes.c and hub_model.c make a profile of that.
#include "engine/hub.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/hub_internal.h"

enum { MAX_NOTES = 200 }; // more than anyone reads; whoever shows them says that there are more

// ---- messages -----------------------------------------------------------------------------------

static void add_message(struct hub *hub, enum hub_level level, struct hub_place at,
                        const char *field, const char *fmt, va_list ap)
{
    struct hub_message *m;

    hub->errors += level == HUB_ERROR;
    if (hub->n >= MAX_NOTES)
        return;
    hub->v = xrealloc(hub->v, (size_t)hub->n + 1, sizeof *hub->v);
    m = &hub->v[hub->n++];
    *m = (struct hub_message){.level = level, .at = at};
    snprintf(m->field, sizeof m->field, "%s", field);
    vsnprintf(m->text, sizeof m->text, fmt, ap);
}

void hub_say(struct hub *hub, enum hub_level level, struct hub_place at, const char *field,
             const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_message(hub, level, at, field, fmt, ap);
    va_end(ap);
}

void hub_say_fact(struct hub_file *f, enum hub_level level, enum hub_fact fact, const char *part,
                  const char *fmt, ...)
{
    char field[96];
    va_list ap;

    snprintf(field, sizeof field, "%s%s", f->name[fact] ? f->name[fact] : "", part);
    va_start(ap, fmt);
    add_message(f->hub, level, f->at[fact], field, fmt, ap);
    va_end(ap);
}

// Errors first: what is shown may end before the last one.
static int compare_messages(const void *a, const void *b)
{
    const struct hub_message *x = a, *y = b;

    if (x->level != y->level)
        return (int)x->level - (int)y->level;
    if (x->at.line != y->at.line)
        return x->at.line - y->at.line;
    return x->at.col - y->at.col;
}

const char *hub_quote(char *out, const json_t *v)
{
    static const char *const kinds[] = {[JSON_OBJECT] = "an object",
                                        [JSON_ARRAY] = "a list",
                                        [JSON_TRUE] = "true",
                                        [JSON_FALSE] = "false",
                                        [JSON_NULL] = "null"};

    if (json_is_string(v))
        snprintf(out, HUB_QUOTE, "\"%.40s\"", json_string_value(v));
    else if (json_is_integer(v))
        snprintf(out, HUB_QUOTE, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(out, HUB_QUOTE, "%.15g", json_real_value(v));
    else
        snprintf(out, HUB_QUOTE, "%s", v ? kinds[json_typeof(v)] : "nothing");
    return out;
}

// ---- where fields stand -------------------------------------------------------------------------

// Walks over text that need not be JSON, as far as strings and brackets go.
struct scan {
    const char *text;
    size_t len, at;
    int depth;
    struct hub_place place;
};

static void step(struct scan *s)
{
    char c = s->text[s->at++];

    if (c == '\n') {
        s->place.line++;
        s->place.col = 1;
    } else if (((unsigned char)c & 0xc0) != 0x80) {
        s->place.col++;
    }
}

static void skip_blanks(struct scan *s)
{
    while (s->at < s->len && strchr(" \t\r\n", s->text[s->at]) && s->text[s->at])
        step(s);
}

static void scan_string(struct scan *s, struct hub_key *key)
{
    key->at = s->place;
    step(s);
    key->name = s->text + s->at;
    while (s->at < s->len && s->text[s->at] != '"') {
        if (s->text[s->at] == '\\' && s->at + 1 < s->len)
            step(s);
        step(s);
    }
    key->len = (size_t)(s->text + s->at - key->name);
    if (s->at < s->len)
        step(s);
}

// The next key of the outermost object.
static bool next_key(struct scan *s, struct hub_key *key)
{
    while (s->at < s->len) {
        char c = s->text[s->at];

        if (c == '"') {
            scan_string(s, key);
            skip_blanks(s);
            if (s->depth == 1 && s->at < s->len && s->text[s->at] == ':')
                return true;
            continue;
        }
        s->depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        step(s);
    }
    return false;
}

static struct scan scan_start(const char *text, size_t len)
{
    return (struct scan){.text = text, .len = len, .place = {1, 1}};
}

static bool key_is(const struct hub_key *key, const char *name)
{
    return key->len == strlen(name) && !memcmp(key->name, name, key->len);
}

bool hub_is_config(const char *text, size_t len)
{
    struct scan s = scan_start(text, len);
    struct hub_key key;

    skip_blanks(&s);
    if (s.at == len || text[s.at] != '{')
        return false;
    while (next_key(&s, &key))
        if (key_is(&key, "model_type") || key_is(&key, "architectures") ||
            key_is(&key, "block_configs"))
            return true;
    return false;
}

static void find_keys(struct hub_file *f, const char *text, size_t len)
{
    struct scan s = scan_start(text, len);
    struct hub_key key;
    int room = 0;

    while (next_key(&s, &key)) {
        if (f->n_keys == room) {
            room = room ? 2 * room : 64;
            f->keys = xrealloc(f->keys, (size_t)room, sizeof *f->keys);
        }
        f->keys[f->n_keys++] = key;
    }
}

struct hub_place hub_place_of(const struct hub_file *f, const char *name)
{
    for (int i = 0; i < f->n_keys; i++)
        if (key_is(&f->keys[i], name))
            return f->keys[i].at;
    return (struct hub_place){1, 1};
}

// ---- the family ---------------------------------------------------------------------------------

static const struct hub_family *by_type(const char *type)
{
    for (int i = 0; i < hub_family_count; i++)
        if (!strcmp(hub_families[i].type, type))
            return &hub_families[i];
    return NULL;
}

static const struct hub_family *by_class(const char *name)
{
    for (int i = 0; i < hub_family_count; i++)
        if (!strcasecmp(hub_families[i].class_name, name))
            return &hub_families[i];
    return NULL;
}

static void family_unknown(struct hub_file *f, const char *field, const json_t *v)
{
    struct buf known = {0};
    char q[HUB_QUOTE];

    for (int i = 0; i < hub_family_count; i++)
        if (!hub_families[i].refused)
            buf_fmt(&known, "%s%s", known.len ? ", " : "", hub_families[i].type);
    hub_say(f->hub, HUB_ERROR, hub_place_of(f, field), field, "%s is not read, expected one of %s",
            hub_quote(q, v), known.data);
    buf_release(&known);
}

// What stands under architectures must be the whole model with its output matrix, or the tensors
// are others than the family's.
static void check_class(struct hub_file *f, const json_t *name)
{
    char q[HUB_QUOTE];

    if (name &&
        (!json_is_string(name) || strcasecmp(json_string_value(name), f->family->class_name)))
        hub_say(f->hub, HUB_ERROR, hub_place_of(f, "architectures"), "architectures",
                "%s is not read, expected %s for model_type %s", hub_quote(q, name),
                f->family->class_name, f->family->type);
}

static void find_family(struct hub_file *f)
{
    const json_t *type = json_object_get(f->root, "model_type");
    const json_t *names = json_object_get(f->root, "architectures");
    const json_t *name = json_is_array(names) ? json_array_get(names, 0) : names;
    const char *field = "model_type";

    if (json_is_null(name))
        name = NULL;
    if (type && !json_is_null(type)) {
        f->family = json_is_string(type) ? by_type(json_string_value(type)) : NULL;
    } else if (name) {
        field = "architectures";
        f->family = json_is_string(name) ? by_class(json_string_value(name)) : NULL;
        type = name;
    } else {
        f->family = by_type("nemotron-nas"); // no other has block_configs
    }
    if (!f->family)
        family_unknown(f, field, type);
    else if (f->family->refused)
        hub_say(f->hub, HUB_ERROR, hub_place_of(f, field), field, "'%s' cannot be a profile: %s",
                f->family->type, f->family->refused);
    else
        check_class(f, name);
}

// ---- fields -------------------------------------------------------------------------------------

static bool is_list_of(const json_t *list, const char *text)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *s = json_string_value(json_array_get(list, i));

        if (!s || strcmp(s, text))
            return false;
    }
    return true;
}

// Newer files say in so many words that RoPE is plain and attention full.
static bool is_plain_rope(const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "rope_type"));

    type = type ? type : json_string_value(json_object_get(v, "type"));
    return json_object_size(v) == 0 || (type && !strcmp(type, "default"));
}

static bool is_neutral(const struct hub_field *row, const json_t *v)
{
    const char *neutral = row->neutral ? row->neutral : "";

    switch (json_typeof(v)) {
    case JSON_NULL:
        return true;
    case JSON_TRUE:
    case JSON_FALSE:
        return !strcmp(json_is_true(v) ? "true" : "false", neutral);
    case JSON_INTEGER:
    case JSON_REAL:
        return *neutral && json_number_value(v) == strtod(neutral, NULL);
    case JSON_STRING:
        return !strcmp(json_string_value(v), neutral);
    case JSON_ARRAY:
        return is_list_of(v, "full_attention");
    case JSON_OBJECT:
        return is_plain_rope(v);
    }
    return false;
}

static void take_fact(struct hub_file *f, const struct hub_field *row, const json_t *v)
{
    if (f->fact[row->fact] || json_is_null(v))
        return;
    f->fact[row->fact] = v;
    f->name[row->fact] = row->name;
    f->at[row->fact] = hub_place_of(f, row->name);
}

static void complain(struct hub_file *f, const struct hub_field *row, const json_t *v)
{
    enum hub_level level = row->use == USE_REFUSE ? HUB_ERROR : HUB_WARNING;
    char q[HUB_QUOTE];

    if (json_is_object(v) || json_is_array(v))
        hub_say(f->hub, level, hub_place_of(f, row->name), row->name, "%s", row->text);
    else
        hub_say(f->hub, level, hub_place_of(f, row->name), row->name, "%s: %s", hub_quote(q, v),
                row->text);
}

// In the table's order: of two fields for one fact the first row wins.
static void read_known(struct hub_file *f)
{
    for (int i = 0; i < hub_field_count; i++) {
        const struct hub_field *row = &hub_fields[i];
        const json_t *v = json_object_get(f->root, row->name);

        if (!(row->families & f->family->bit) || row->use == USE_NOTHING)
            continue;
        if (!v && row->absent)
            hub_say(f->hub, HUB_WARNING, (struct hub_place){1, 1}, row->name,
                    "not given, which means %s: %s", row->absent, row->text);
        else if (v && row->use == USE_FACT)
            take_fact(f, row, v);
        else if (v && !is_neutral(row, v))
            complain(f, row, v);
    }
}

static void list_unknown(struct hub_file *f)
{
    const char *name;
    json_t *v;

    // a file of nothing else must not take its square to list
    json_object_foreach((json_t *)f->root, name,
                        v) if (f->hub->n < MAX_NOTES && !hub_field_find(name, f->family->bit))
        hub_say(f->hub, HUB_NOTE, hub_place_of(f, name), name,
                "unknown field of %s, not taken into account", f->family->type);
}

static void read_object(struct hub_file *f, const char *text, size_t len)
{
    find_keys(f, text, len);
    find_family(f);
    if (f->hub->errors)
        return;
    read_known(f);
    if (f->family->warning)
        hub_say(f->hub, HUB_WARNING, hub_place_of(f, "model_type"), "model_type", "%s: %s",
                f->family->type, f->family->warning);
    hub_write(f);
    list_unknown(f);
}

int hub_read(const char *text, size_t len, struct hub *hub)
{
    struct hub_file *f = xcalloc(1, sizeof *f);
    json_error_t bad;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &bad);

    *hub = (struct hub){0};
    f->hub = hub;
    f->root = root;
    if (!root)
        hub_say(hub, HUB_ERROR, (struct hub_place){bad.line, bad.column > 0 ? bad.column : 1}, "",
                "not valid JSON: %s", bad.text);
    else if (!json_is_object(root))
        hub_say(hub, HUB_ERROR, (struct hub_place){1, 1}, "", "expected a JSON object");
    else
        read_object(f, text, len);
    if (hub->errors)
        buf_reset(&hub->yaml);
    if (hub->n)
        qsort(hub->v, (size_t)hub->n, sizeof *hub->v, compare_messages);
    json_decref(root);
    free(f->keys);
    free(f);
    return hub->errors ? -1 : 0;
}

void hub_release(struct hub *hub)
{
    buf_release(&hub->yaml);
    free(hub->line);
    free(hub->v);
    *hub = (struct hub){0};
}
