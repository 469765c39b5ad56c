// Saving into an existing file by replacing spans of its text. The text is read again after each
// round of edits and compared, so that whatever an edit could not express shows up as a difference
// and the resolved profile is written instead.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/hub.h"
#include "engine/profile_read.h"

enum { MAX_ROUNDS = 4 };

struct edit {
    size_t start, end; // bytes to be replaced
    char *text;
};

struct edits {
    struct edit *v;
    int n;
    bool is_impossible;
};

static void add_edit(struct edits *e, size_t start, size_t end, char *text)
{
    e->v = xrealloc(e->v, (size_t)e->n + 1, sizeof *e->v);
    e->v[e->n++] = (struct edit){start, end, text};
}

static void edits_release(struct edits *e)
{
    for (int i = 0; i < e->n; i++)
        free(e->v[i].text);
    free(e->v);
}

// Keeps the order of edits at one position. There are few, nearly in order.
static void sort_edits(struct edits *e)
{
    for (int i = 1; i < e->n; i++) {
        struct edit now = e->v[i];
        int j = i;

        for (; j > 0 && e->v[j - 1].start > now.start; j--)
            e->v[j] = e->v[j - 1];
        e->v[j] = now;
    }
}

static bool apply_edits(struct edits *e, const struct doc *doc, struct buf *out)
{
    size_t at = 0;

    sort_edits(e);
    buf_reset(out);
    for (int i = 0; i < e->n; i++) {
        const struct edit *edit = &e->v[i];

        if (edit->start < at || edit->end < edit->start || edit->end > doc->len)
            return false;
        buf_add(out, doc->text + at, edit->start - at);
        buf_str(out, edit->text);
        at = edit->end;
    }
    buf_add(out, doc->text + at, doc->len - at);
    return true;
}

// ---- replacing a value --------------------------------------------------------------------------

static char *value_text(const struct spec_key *k, const struct spec *spec, const struct node *old)
{
    struct buf b = {0};

    if (k->type == KEY_LANE && old && old->kind == NODE_SCALAR &&
        lane_is_uniform(&spec->model, (enum lane)k->size))
        buf_fmt(&b, "%d", spec->model.lane[k->size][0]);
    else
        value_to_yaml(k, spec, &b);
    return buf_detach(&b);
}

// A list with one plain number for each layer keeps its layout: only numbers that differ change.
static bool replace_items(struct edits *e, const struct node *list, const int *want, int n)
{
    if (list->kind != NODE_LIST || list->n != n)
        return false;
    for (int i = 0; i < n; i++) {
        const struct place *p = &list->items[i];

        if (p->value->kind != NODE_SCALAR || p->value->is_quoted || p->start != p->value->start ||
            strchr(p->value->text, 'x'))
            return false;
    }
    for (int i = 0; i < n; i++) {
        int64_t old;

        if (!unit_parse_count(list->items[i].value->text, &old) || old != want[i])
            add_edit(e, list->items[i].start, list->items[i].end, xasprintf("%d", want[i]));
    }
    return true;
}

// A block collection starts on a line of its own; its replacement goes behind the colon, unless a
// comment stands there.
static void replace_value(struct edits *e, const struct slot *slot, const char *text)
{
    const struct node *v = slot->value;
    const char *doc = v->doc->text;
    bool is_alias = slot->start != v->start;
    size_t colon = slot->key->end, at;

    while (doc[colon] && doc[colon] != ':')
        colon++;
    for (at = colon + 1; at < slot->start && isspace((unsigned char)doc[at]);)
        at++;
    if (!is_alias && v->kind != NODE_SCALAR && !v->is_flow && at == slot->start)
        add_edit(e, colon + 1, slot->end, xasprintf(" %s", text));
    else
        add_edit(e, slot->start, slot->end, xstrdup(text));
}

// ---- adding a key -------------------------------------------------------------------------------

static size_t line_end(const struct doc *doc, size_t at)
{
    const char *nl = memchr(doc->text + at, '\n', doc->len - at);

    return nl ? (size_t)(nl + 1 - doc->text) : doc->len;
}

static void add_line(struct edits *e, const struct doc *doc, size_t at, char *line)
{
    bool has_end = at == 0 || doc->text[at - 1] == '\n';

    add_edit(e, at, at, has_end ? xasprintf("%s\n", line) : xasprintf("\n%s", line));
    free(line);
}

static const struct place *find_place(const struct node *map, const char *key)
{
    for (int i = 0; i < map->n; i++)
        if (!strcmp(map->items[i].key->text, key))
            return &map->items[i];
    return NULL;
}

static void add_to_map(struct edits *e, const struct doc *doc, const struct place *section,
                       const char *key, const char *text)
{
    const struct node *map = section->value;

    if (map->kind != NODE_MAP || section->start != map->start) {
        e->is_impossible = true;
    } else if (map->is_flow) {
        size_t at = map->n ? map->items[map->n - 1].end : map->start + 1;

        add_edit(e, at, at, xasprintf("%s%s: %s", map->n ? ", " : "", key, text));
    } else {
        add_line(e, doc, line_end(doc, map->end),
                 xasprintf("%*s%s: %s", map->items[0].key->col - 1, "", key, text));
    }
}

// Section that this round has begun already: its keys follow each other in the table.
static void add_key(struct edits *e, const struct reading *r, const struct spec_key *k,
                    const char *text, const char **begun)
{
    const struct doc *doc = r->top;
    const char *dot = strchr(k->path, '.');
    size_t n = dot ? (size_t)(dot - k->path) : 0;
    int indent = doc->root->n ? doc->root->items[0].key->col - 1 : 0;
    char section[16];
    const struct place *place;

    snprintf(section, sizeof section, "%.*s", (int)n, k->path);
    place = dot ? find_place(doc->root, section) : NULL;
    if (place) {
        add_to_map(e, doc, place, dot + 1, text);
        return;
    }
    if (doc->root->is_flow) {
        e->is_impossible = true;
        return;
    }
    if (dot && (!*begun || strncmp(*begun, k->path, n + 1))) {
        add_line(e, doc, doc->len, xasprintf("%*s%s:", indent, "", section));
        *begun = k->path;
    }
    add_line(e, doc, doc->len,
             xasprintf("%*s%s: %s", indent + (dot ? 2 : 0), "", dot ? dot + 1 : k->path, text));
}

// ---- rounds -------------------------------------------------------------------------------------

static void edit_key(struct edits *e, const struct reading *r, const struct spec_key *k,
                     const struct spec *spec, const char **begun)
{
    const struct slot *slot = &r->slots[k - spec_keys];
    bool is_here = slot->value && slot->layer > 0 && slot->key->doc == r->top;
    char *text = value_text(k, spec, is_here ? slot->value : NULL);

    if (!is_here)
        add_key(e, r, k, text, begun);
    else if (k->type != KEY_LANE || slot->start != slot->value->start ||
             !replace_items(e, slot->value, spec->model.lane[k->size], spec->model.n_layers))
        replace_value(e, slot, text);
    free(text);
}

// In the first round keys that no file gives, and forms that may fall into place with the others,
// are left alone.
static void collect_edits(struct edits *e, const struct reading *r, const struct spec *spec,
                          bool is_first)
{
    const char *begun = NULL;

    for (int i = 0; i < spec_key_count; i++) {
        const struct spec_key *k = &spec_keys[i];
        bool is_given = r->slots[i].value && r->slots[i].layer > 0;

        if (spec_key_equal(k, r->spec, spec))
            continue;
        if (is_first && (!is_given || (k->type == KEY_LANE &&
                                       lane_source_holds(&r->spec->model.source[k->size],
                                                         &spec->model, (enum lane)k->size))))
            continue;
        edit_key(e, r, k, spec, &begun);
    }
}

// One round. Returns 1 when text already says *spec, 0 when it was edited, -1 when that failed.
static int edit_round(const char *path, struct buf *text, const struct spec *spec, bool is_first,
                      struct problems *p)
{
    struct spec *old = xmalloc(sizeof *old);
    struct reading *r = xmalloc(sizeof *r);
    struct edits edits = {0};
    struct buf out = {0};
    int rc = reading_run(r, path, text->data, text->len, NULL, 0, old, p);

    if (rc == 0 && spec_equal(old, spec)) {
        rc = 1;
    } else if (rc == 0) {
        collect_edits(&edits, r, spec, is_first);
        if (edits.is_impossible || !apply_edits(&edits, r->top, &out))
            rc = -1;
    }
    if (rc == 0) {
        buf_release(text);
        *text = out;
    } else {
        buf_release(&out);
    }
    edits_release(&edits);
    reading_release(r);
    free(r);
    free(old);
    return rc;
}

static bool edit_text(const char *path, struct buf *text, const struct spec *spec)
{
    int rc = 0;

    for (int round = 0; rc == 0 && round < MAX_ROUNDS; round++) {
        struct problems p = {0};

        rc = edit_round(path, text, spec, round == 0, &p);
        problems_release(&p);
    }
    return rc > 0;
}

// ---- files --------------------------------------------------------------------------------------

static int first_error(const struct problems *p, const char *what, struct err *err)
{
    for (int i = 0; i < p->n; i++) {
        const struct problem *pr = &p->v[i];

        if (pr->severity == SEV_ERROR)
            return err_at(err, pr->err.file, pr->err.line, pr->err.col, "%s: %s%s%s", what,
                          pr->path, pr->path[0] ? ": " : "", pr->err.text);
    }
    BUG("no error among %d problems", p->n);
}

static int check_spec(const struct spec *spec, struct err *err)
{
    struct problems p = {0};
    int rc = 0;

    if (profile_validate(spec, &p) < 0)
        rc = first_error(&p, "not saved", err);
    problems_release(&p);
    return rc;
}

static int check_unprotected(const char *path, struct err *err)
{
    if (!file_is_protected(path))
        return 0;
    return err_set(err, "'%s' is write-protected; save it under another name", path);
}

static int read_old(const char *path, struct buf *text, struct err *err)
{
    struct spec *old = xmalloc(sizeof *old);
    struct problems p = {0};
    int rc = file_read(path, PROFILE_MAX_BYTES, text, err);

    if (rc == 0 && hub_is_config(text->data, text->len)) {
        char name[SPEC_NAME_SIZE];

        rc = err_set(err, "'%s' is a hub configuration and was left alone, save as '%s.yaml'", path,
                     profile_file_name(path, name));
    }
    // an empty file holds nothing that could be lost
    if (rc == 0 && text->len > 0 &&
        profile_parse(path, text->data, text->len, NULL, 0, old, &p) < 0)
        rc = first_error(&p, "the file there is not a valid profile and was left alone", err);
    problems_release(&p);
    free(old);
    return rc;
}

static int read_back(const char *path, const struct spec *spec, struct err *err)
{
    struct spec *now = xmalloc(sizeof *now);
    struct problems p = {0};
    int rc = profile_load(path, NULL, 0, now, &p);

    if (rc < 0)
        first_error(&p, "cannot be read back", err);
    else if (!spec_equal(now, spec))
        rc = err_set(err, "'%s' reads back with other values", path);
    problems_release(&p);
    free(now);
    return rc;
}

static void resolved_text(const struct spec *spec, struct buf *text)
{
    char *yaml = profile_to_yaml(spec, NULL);

    buf_reset(text);
    buf_str(text, yaml);
    free(yaml);
}

int profile_save_changes(const char *path, const struct spec *spec, bool *keeps_text)
{
    struct spec *old = xmalloc(sizeof *old);
    struct problems p = {0};
    struct buf text = {0};
    int changes = -1;

    if (profile_load(path, NULL, 0, old, &p) == 0 && read_old(path, &text, NULL) == 0) {
        changes = 0;
        for (int i = 0; i < spec_key_count; i++)
            changes += !spec_key_equal(&spec_keys[i], old, spec);
        *keeps_text = edit_text(path, &text, spec);
    }
    problems_release(&p);
    buf_release(&text);
    free(old);
    return changes;
}

int profile_restore(const char *path, const char *text, size_t len, const struct spec *spec,
                    struct err *err)
{
    char *real = realpath(path, NULL);
    int rc = check_unprotected(path, err);

    if (rc == 0)
        rc = file_write_shared(real ? real : path, text, len, err);
    free(real);
    return rc < 0 ? rc : read_back(path, spec, err);
}

int profile_save(const char *path, const struct spec *spec, struct err *err)
{
    char *real = realpath(path, NULL); // a link stays a link
    struct buf text = {0};
    int rc = check_spec(spec, err);

    if (rc == 0)
        rc = check_unprotected(path, err);
    if (rc == 0 && file_exists(path)) {
        rc = read_old(path, &text, err);
        if (rc == 0 && !edit_text(path, &text, spec))
            resolved_text(spec, &text);
    } else if (rc == 0) {
        resolved_text(spec, &text);
    }
    if (rc == 0)
        rc = file_write_shared(real ? real : path, text.data, text.len, err);
    if (rc == 0)
        rc = read_back(path, spec, err);
    buf_release(&text);
    free(real);
    return rc;
}
