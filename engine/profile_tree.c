// YAML text to nodes on libyaml's events. libyaml does not report duplicate keys and hands every
// alias over as an event; both are dealt with here, with limits on everything that can grow.
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "engine/buf.h"
#include "engine/profile_read.h"

struct anchor {
    char *name;
    struct node *node; // NULL while the node is still open
};

struct builder {
    yaml_parser_t parser;
    struct doc *doc;
    struct problems *problems;
    struct anchor anchors[DOC_MAX_ANCHORS];
    int n_anchors;
    int64_t weight;
    size_t chars, bytes; // a known pair of positions: libyaml counts characters
    bool has_failed;
};

static void fail_at(struct builder *b, int line, int col, const char *text)
{
    problem_add(b->problems, SEV_ERROR, b->doc, line, col, "", "%s", text);
    b->has_failed = true;
}

static int mark_line(yaml_mark_t m)
{
    return m.line < INT_MAX ? (int)m.line + 1 : INT_MAX;
}

static int mark_col(const struct builder *b, yaml_mark_t m)
{
    return (int)m.column + 1 + (m.line == 0 ? b->doc->col0 : 0);
}

static void fail_event(struct builder *b, const yaml_event_t *ev, const char *text)
{
    fail_at(b, mark_line(ev->start_mark), mark_col(b, ev->start_mark), text);
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

static size_t byte_offset(struct builder *b, size_t chars)
{
    const char *s = b->doc->text;

    while (b->chars < chars && b->bytes < b->doc->len) {
        do
            b->bytes++;
        while (b->bytes < b->doc->len && is_continuation(s[b->bytes]));
        b->chars++;
    }
    while (b->chars > chars && b->bytes > 0) {
        do
            b->bytes--;
        while (b->bytes > 0 && is_continuation(s[b->bytes]));
        b->chars--;
    }
    return b->bytes;
}

// ---- text that libyaml shall not see ----

// Line breaks other than LF and CR LF are refused, so that line numbers mean one thing.
const char *text_fault(const unsigned char *s, size_t n)
{
    if (n == 0)
        return "not valid UTF-8";
    if (s[0] == 0)
        return "a NUL byte, this is not a text file";
    if ((s[0] < ' ' && !strchr("\t\n\r", s[0])) || s[0] == 0x7f)
        return "a control character";
    if (s[0] == '\r' && s[1] != '\n')
        return "a carriage return without a line feed";
    if (n == 2 && s[0] == 0xc2 && s[1] < 0xa0)
        return "a control character";
    if (n == 3 && (!memcmp(s, "\xe2\x80\xa8", 3) || !memcmp(s, "\xe2\x80\xa9", 3)))
        return "a Unicode line separator";
    if (n == 3 && !memcmp(s, "\xef\xbb\xbf", 3))
        return "a byte order mark, save the file as UTF-8 without one";
    if (n == 3 && s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe)
        return "not a character (U+FFFE or U+FFFF)";
    return NULL;
}

static void check_text(struct builder *b)
{
    const unsigned char *s = (const unsigned char *)b->doc->text;
    size_t len = b->doc->len;
    int line = 1, col = 1 + b->doc->col0;

    if (len >= 2 && (!memcmp(s, "\xff\xfe", 2) || !memcmp(s, "\xfe\xff", 2))) {
        fail_at(b, 1, 1, "UTF-16 text, save the file as UTF-8");
        return;
    }
    for (size_t i = 0; i < len;) {
        size_t n = utf8_sequence(s + i, len - i);
        const char *wrong = text_fault(s + i, n);

        if (wrong) {
            fail_at(b, line, col, wrong);
            return;
        }
        col = s[i] == '\n' ? 1 : col + 1;
        line += s[i] == '\n';
        i += n;
    }
}

// ---- nodes ----

static struct node *push_node(struct doc *d, enum node_kind kind)
{
    struct node *node = xcalloc(1, sizeof *node);

    if (d->n_nodes == d->cap_nodes) {
        d->cap_nodes = d->cap_nodes ? 2 * d->cap_nodes : 64;
        d->nodes = xrealloc(d->nodes, (size_t)d->cap_nodes, sizeof *d->nodes);
    }
    d->nodes[d->n_nodes++] = node;
    node->kind = kind;
    node->doc = d;
    node->weight = 1;
    return node;
}

static struct node *new_node(struct builder *b, enum node_kind kind, const yaml_event_t *ev)
{
    struct node *node = push_node(b->doc, kind);

    node->line = mark_line(ev->start_mark);
    node->col = mark_col(b, ev->start_mark);
    node->start = byte_offset(b, ev->start_mark.index);
    node->end = byte_offset(b, ev->end_mark.index);
    if (++b->weight > PROFILE_MAX_NODES)
        fail_event(b, ev, "too many values (with aliases expanded)");
    return node;
}

// libyaml reports the end of a text without a final line feed on a line that is not there.
static void syntax_error(struct builder *b, yaml_mark_t mark, const char *text)
{
    const char *s = b->doc->text, *last = s;
    size_t lines = 0;

    for (const char *p = s; (p = strchr(p, '\n')); last = ++p)
        lines++;
    if (mark.line > lines) {
        mark.line = lines;
        mark.column = 0;
        for (; *last; last++)
            mark.column += !is_continuation(*last);
    }
    fail_at(b, mark_line(mark), mark_col(b, mark), text);
}

static bool next_event(struct builder *b, yaml_event_t *ev)
{
    const yaml_parser_t *p = &b->parser;
    char text[300];

    if (b->has_failed)
        return false;
    if (yaml_parser_parse(&b->parser, ev))
        return true;
    if (b->doc->text[byte_offset(b, p->problem_mark.index)] == '\t')
        snprintf(text, sizeof text, "a tab, which YAML does not take here: indent with blanks");
    else
        snprintf(text, sizeof text, "%s%s%s", p->problem ? p->problem : "cannot be parsed",
                 p->context ? " " : "", p->context ? p->context : "");
    syntax_error(b, p->problem_mark, text);
    return false;
}

static struct anchor *find_anchor(struct builder *b, const char *name)
{
    for (int i = b->n_anchors - 1; i >= 0; i--)
        if (!strcmp(b->anchors[i].name, name))
            return &b->anchors[i];
    return NULL;
}

// Index of the new anchor, -1 when the event has none.
static int open_anchor(struct builder *b, const yaml_event_t *ev, const yaml_char_t *name)
{
    if (!name)
        return -1;
    if (b->n_anchors == DOC_MAX_ANCHORS) {
        fail_event(b, ev, "too many anchors, at most 256");
        return -1;
    }
    b->anchors[b->n_anchors] = (struct anchor){xstrdup((const char *)name), NULL};
    return b->n_anchors++;
}

static struct node *expand_alias(struct builder *b, const yaml_event_t *ev, int depth)
{
    const struct anchor *a = find_anchor(b, (const char *)ev->data.alias.anchor);

    if (!a)
        fail_event(b, ev, "alias without an anchor of that name before it");
    else if (!a->node)
        fail_event(b, ev, "alias inside the value that its anchor names");
    else if ((b->weight += a->node->weight) > PROFILE_MAX_NODES)
        fail_event(b, ev, "aliases expand to too many values, at most 100000");
    else if (depth + a->node->height > PROFILE_MAX_DEPTH)
        fail_event(b, ev, "nested too deeply (through an alias), at most 16 levels");
    return b->has_failed ? NULL : a->node;
}

static bool has_tag(const yaml_event_t *ev)
{
    return (ev->type == YAML_SCALAR_EVENT && ev->data.scalar.tag) ||
           (ev->type == YAML_SEQUENCE_START_EVENT && ev->data.sequence_start.tag) ||
           (ev->type == YAML_MAPPING_START_EVENT && ev->data.mapping_start.tag);
}

static struct node *scalar_node(struct builder *b, const yaml_event_t *ev)
{
    struct node *node = new_node(b, NODE_SCALAR, ev);
    int anchor = open_anchor(b, ev, ev->data.scalar.anchor);

    if (memchr(ev->data.scalar.value, '\0', ev->data.scalar.length))
        fail_event(b, ev, "a NUL character in a text");
    node->text = xstrdup((const char *)ev->data.scalar.value);
    node->is_quoted = ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    if (anchor >= 0)
        b->anchors[anchor].node = node;
    return node;
}

static void add_item(struct node *parent, struct node *key, const struct place *value)
{
    if ((parent->n & (parent->n - 1)) == 0) // full at 0, 1, 2, 4, 8, ...
        parent->items =
            xrealloc(parent->items, parent->n ? 2 * (size_t)parent->n : 1, sizeof *parent->items);
    parent->items[parent->n] = *value;
    parent->items[parent->n++].key = key;
    parent->weight += value->value->weight + (key != NULL);
    if (parent->height <= value->value->height)
        parent->height = value->value->height + 1;
    // the end mark of a block collection is where the next token starts: take the last leaf's
    if (!parent->is_flow)
        parent->end = value->end;
}

static bool parse_place(struct builder *b, yaml_event_t *ev, int depth, struct place *out);

static void parse_list(struct builder *b, struct node *list, int depth)
{
    yaml_event_t ev;
    struct place item;

    while (next_event(b, &ev)) {
        if (ev.type == YAML_SEQUENCE_END_EVENT) {
            if (list->is_flow)
                list->end = byte_offset(b, ev.end_mark.index);
            yaml_event_delete(&ev);
            return;
        }
        if (parse_place(b, &ev, depth, &item))
            add_item(list, NULL, &item);
    }
}

static const struct node *first_with_key(const struct node *map, const char *text)
{
    for (int i = 0; i < map->n; i++)
        if (!strcmp(map->items[i].key->text, text))
            return map->items[i].key;
    return NULL;
}

static bool key_is_good(struct builder *b, const struct node *map, const struct node *key)
{
    const struct node *first;
    char q[QUOTE_SIZE];

    if (!strcmp(key->text, "<<") && !key->is_quoted) {
        problem_add(b->problems, SEV_ERROR, key->doc, key->line, key->col, "",
                    "merge key '<<' is not supported, use 'extends' or repeat the keys");
        return false;
    }
    first = first_with_key(map, key->text);
    if (first)
        problem_add(b->problems, SEV_ERROR, key->doc, key->line, key->col, "",
                    "duplicate key '%s', first at line %d", quote(q, key->text), first->line);
    return !first;
}

static void parse_map(struct builder *b, struct node *map, int depth)
{
    yaml_event_t ev;
    struct place value;
    struct node *key;

    while (next_event(b, &ev)) {
        if (ev.type == YAML_MAPPING_END_EVENT) {
            if (map->is_flow)
                map->end = byte_offset(b, ev.end_mark.index);
            yaml_event_delete(&ev);
            return;
        }
        if (map->n == DOC_MAX_KEYS)
            fail_event(b, &ev, "too many keys in one mapping, at most 1000");
        else if (ev.type != YAML_SCALAR_EVENT)
            fail_event(b, &ev, "a key must be a word");
        key = b->has_failed ? NULL : scalar_node(b, &ev);
        yaml_event_delete(&ev);
        if (!key || !next_event(b, &ev))
            return;
        if (parse_place(b, &ev, depth, &value) && key_is_good(b, map, key))
            add_item(map, key, &value);
    }
}

static struct node *collection(struct builder *b, yaml_event_t *ev, int depth)
{
    bool is_map = ev->type == YAML_MAPPING_START_EVENT;
    struct node *node = new_node(b, is_map ? NODE_MAP : NODE_LIST, ev);
    int anchor =
        open_anchor(b, ev, is_map ? ev->data.mapping_start.anchor : ev->data.sequence_start.anchor);

    node->is_flow = is_map ? ev->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE
                           : ev->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
    if (depth > PROFILE_MAX_DEPTH)
        fail_event(b, ev, "nested too deeply, at most 16 levels");
    else if (is_map)
        parse_map(b, node, depth + 1);
    else
        parse_list(b, node, depth + 1);
    if (anchor >= 0)
        b->anchors[anchor].node = node;
    return node;
}

// Consumes the event. False when parsing has failed.
static bool parse_place(struct builder *b, yaml_event_t *ev, int depth, struct place *out)
{
    *out = (struct place){0};
    if (has_tag(ev)) {
        fail_event(b, ev, "tags ('!...') are not used in profiles");
    } else if (ev->type == YAML_ALIAS_EVENT) {
        out->value = expand_alias(b, ev, depth);
        out->start = byte_offset(b, ev->start_mark.index);
        out->end = byte_offset(b, ev->end_mark.index);
    } else {
        out->value = ev->type == YAML_SCALAR_EVENT ? scalar_node(b, ev) : collection(b, ev, depth);
        out->start = out->value->start;
        out->end = out->value->end;
    }
    yaml_event_delete(ev);
    return !b->has_failed;
}

static void parse_stream(struct builder *b)
{
    yaml_event_t ev;
    struct place root;

    while (next_event(b, &ev)) {
        yaml_event_type_t type = ev.type;

        if (type == YAML_DOCUMENT_START_EVENT && b->doc->root)
            fail_event(b, &ev, "a second document, a profile is one");
        if (type == YAML_STREAM_START_EVENT || type == YAML_DOCUMENT_START_EVENT ||
            type == YAML_DOCUMENT_END_EVENT || type == YAML_STREAM_END_EVENT)
            yaml_event_delete(&ev);
        else if (parse_place(b, &ev, 1, &root))
            b->doc->root = root.value;
        if (type == YAML_STREAM_END_EVENT)
            return;
    }
}

static void builder_init(struct builder *b, const char *name, const char *prefix, const char *text,
                         size_t len, struct problems *p)
{
    struct doc *doc = xcalloc(1, sizeof *doc);

    doc->name = xstrdup(name);
    doc->prefix = xstrdup(prefix);
    doc->col0 = 0;
    for (const char *s = prefix; *s; s++)
        doc->col0 += !is_continuation(*s);
    doc->text = xmalloc(len + 1);
    memcpy(doc->text, text, len);
    doc->text[len] = '\0';
    doc->len = len;
    *b = (struct builder){.doc = doc, .problems = p};
    check_text(b);
}

struct doc *doc_parse(const char *name, const char *prefix, const char *text, size_t len,
                      struct problems *p)
{
    struct builder *b = xmalloc(sizeof *b);
    struct doc *doc;

    builder_init(b, name, prefix, text, len, p);
    doc = b->doc;
    if (!b->has_failed) {
        if (!yaml_parser_initialize(&b->parser))
            BUG("out of memory for a YAML parser");
        yaml_parser_set_encoding(&b->parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&b->parser, (const unsigned char *)doc->text, len);
        parse_stream(b);
        yaml_parser_delete(&b->parser);
    }
    if (b->has_failed)
        doc->root = NULL;
    for (int i = 0; i < b->n_anchors; i++)
        free(b->anchors[i].name);
    free(b);
    return doc;
}

struct doc *doc_of_text(const char *name, const char *prefix, const char *text, struct problems *p)
{
    struct builder *b = xmalloc(sizeof *b);
    struct doc *doc;

    builder_init(b, name, prefix, text, strlen(text), p);
    doc = b->doc;
    if (!b->has_failed) {
        doc->root = push_node(doc, NODE_SCALAR);
        doc->root->line = 1;
        doc->root->col = doc->col0 + 1;
        doc->root->is_quoted = true;
        doc->root->text = xstrdup(text);
    }
    free(b);
    return doc;
}

void doc_free(struct doc *doc)
{
    if (!doc)
        return;
    for (int i = 0; i < doc->n_nodes; i++) {
        free((char *)doc->nodes[i]->text);
        free(doc->nodes[i]->items);
        free(doc->nodes[i]);
    }
    free(doc->nodes);
    free(doc->text);
    free(doc->prefix);
    free(doc->name);
    free(doc);
}
