#include "engine/profile.h"

#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/hub.h"
#include "engine/profile_read.h"

// ---- documents ----------------------------------------------------------------------------------

static struct doc *add_doc(struct reading *r, struct doc *doc)
{
    r->docs = xrealloc(r->docs, (size_t)r->n_docs + 1, sizeof *r->docs);
    r->docs[r->n_docs++] = doc;
    return doc;
}

// The defaults of the key table are the lowest layer, read like every other one.
static void add_defaults(struct reading *r)
{
    struct buf b = {0};
    const char *section = "";

    for (int i = 0; i < spec_key_count; i++) {
        const struct spec_key *k = &spec_keys[i];
        const char *dot = strchr(k->path, '.');
        size_t n = dot ? (size_t)(dot - k->path) : 0;

        if (!k->default_text || !*k->default_text)
            continue;
        BUG_IF(!dot);
        if (strncmp(section, k->path, n + 1)) {
            section = k->path;
            buf_fmt(&b, "%.*s:\n", (int)n, section);
        }
        buf_fmt(&b, "  %s: %s\n", dot + 1, k->default_text);
    }
    add_doc(r, doc_parse("defaults", "", b.data, b.len, r->problems));
    BUG_IF(!r->docs[0]->root);
    slots_add(r, r->docs[0], 0);
    for (int i = 0; i < spec_key_count; i++)
        r->slots[i].layer = 0;
    buf_release(&b);
}

// ---- extends ------------------------------------------------------------------------------------

static void add_file(struct reading *r, const char *name, const char *text, size_t len,
                     bool is_top);

static char *path_beside(const char *file, const char *name)
{
    char *copy = xstrdup(file), *path;

    if (name[0] == '/' || !strchr(file, '/'))
        path = xstrdup(name);
    else
        path = xasprintf("%s/%s", dirname(copy), name);
    free(copy);
    return path;
}

// Only plain files: a base that is a pipe or a device could block or never end.
static int read_base(const char *path, struct buf *text, struct err *err)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return err_sys(err, "cannot open '%s'", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, "'%s' is not a plain file", path);
    return file_read(path, PROFILE_MAX_BYTES, text, err);
}

static bool is_in_chain(const struct reading *r, const char *path)
{
    char *real = realpath(path, NULL);
    bool found = false;

    for (int i = 0; real && i < r->n_chain; i++)
        found |= !strcmp(r->chain[i], real);
    free(real);
    return found;
}

static void add_base(struct reading *r, const struct doc *doc, const struct node *v)
{
    struct buf text = {0};
    struct err err = ERR_INIT;
    char q[QUOTE_SIZE];
    char *path;

    if (v->kind != NODE_SCALAR || !*v->text) {
        reading_error(r, v, "extends", "expected a file name or a list of file names");
        return;
    }
    path = path_beside(doc->name, v->text);
    if (is_in_chain(r, path))
        reading_error(r, v, "extends", "'%s' extends itself through this file", quote(q, v->text));
    else if (r->n_chain > PROFILE_MAX_EXTENDS)
        reading_error(r, v, "extends", "more than %d levels of extends", PROFILE_MAX_EXTENDS);
    else if (r->n_files >= READING_MAX_FILES)
        reading_error(r, v, "extends", "more than %d files in one profile", READING_MAX_FILES);
    else if (read_base(path, &text, &err) < 0)
        reading_error(r, v, "extends", "%s", err.text);
    else
        add_file(r, path, text.data, text.len, false);
    buf_release(&text);
    free(path);
}

static void add_bases(struct reading *r, const struct doc *doc)
{
    const struct node *root = doc->root;

    for (int i = 0; root->kind == NODE_MAP && i < root->n; i++) {
        const struct node *v = root->items[i].value;

        if (strcmp(root->items[i].key->text, "extends"))
            continue;
        if (v->kind == NODE_LIST)
            for (int j = 0; j < v->n; j++)
                add_base(r, doc, v->items[j].value);
        else
            add_base(r, doc, v);
    }
}

static void add_file(struct reading *r, const char *name, const char *text, size_t len, bool is_top)
{
    int before = r->problems->errors;
    struct doc *doc =
        add_doc(r, hub_is_config(text, len) ? doc_of_hub(name, text, len, r->problems)
                                            : doc_parse(name, "", text, len, r->problems));
    char *real = realpath(name, NULL);

    if (is_top)
        r->top = doc;
    r->n_files++;
    if (!doc->root) {
        if (r->problems->errors == before)
            problem_add(r->problems, SEV_ERROR, doc, 1, 1, "", "empty, expected a profile");
        r->is_broken = true;
    } else {
        r->chain[r->n_chain++] = real ? real : name;
        add_bases(r, doc);
        r->n_chain--;
        slots_add(r, doc, r->n_layers + 1);
    }
    free(real);
}

// ---- --set --------------------------------------------------------------------------------------

static void set_error(struct reading *r, const struct doc *doc, const char *set, const char *text)
{
    char q[QUOTE_SIZE];

    problem_add(r->problems, SEV_ERROR, doc, 1, 1, "", "%s, got '%s'", text, quote(q, set));
}

static void set_value(struct reading *r, const char *set, const char *path,
                      const struct doc *key_doc)
{
    const struct spec_key *k = spec_key_find(path);
    const char *value = set + strlen(path) + 1;
    bool is_raw = k && k->type == KEY_STRING && *value && !strchr("'\"", *value);
    char *prefix = xasprintf("%s=", path);
    struct doc *doc;

    // texts are taken as they stand unless quoted: a path may hold what YAML would read
    doc = is_raw ? doc_of_text(key_doc->name, prefix, value, r->problems)
                 : doc_parse(key_doc->name, prefix, value, strlen(value), r->problems);
    doc->set_number = key_doc->set_number;
    add_doc(r, doc);
    if (doc->root)
        slots_set(r, doc, key_doc->root);
    else if (!*value)
        set_error(r, key_doc, set, "has no value");
    else
        r->is_broken = true;
    free(prefix);
}

static void add_set(struct reading *r, const char *set, int number)
{
    char *path = xasprintf("%.*s", (int)strcspn(set, "="), set);
    struct doc *key_doc;
    char name[32];

    snprintf(name, sizeof name, "--set %d", number);
    key_doc = add_doc(r, doc_of_text(name, "", path, r->problems));
    key_doc->set_number = number;
    if (!*path || !set[strlen(path)])
        set_error(r, key_doc, set, "expected key=value, such as train.max_steps=100");
    else if (!strcmp(path, "extends"))
        set_error(r, key_doc, set, "extends stands only in files");
    else if (section_find(path) >= 0)
        set_error(r, key_doc, set, "expected a key inside a section");
    else if (key_doc->root)
        set_value(r, set, path, key_doc);
    else
        r->is_broken = true;
    free(path);
}

// ---- the whole ----------------------------------------------------------------------------------

int reading_run(struct reading *r, const char *name, const char *text, size_t len,
                const char *const *set, int n_set, struct spec *spec, struct problems *p)
{
    int before = p->errors, first = p->n;

    memset(r, 0, sizeof *r);
    memset(spec, 0, sizeof *spec);
    r->problems = p;
    r->spec = spec;
    r->slots = xcalloc((size_t)spec_key_count, sizeof *r->slots);
    add_defaults(r);
    add_file(r, name, text, len, true);
    for (int i = 0; i < n_set; i++)
        add_set(r, set[i], i + 1);
    // after a syntax error most keys would only be reported as missing
    if (!r->is_broken)
        reading_bind(r);
    problems_sort(p, first);
    return p->errors > before ? -1 : 0;
}

void reading_release(struct reading *r)
{
    for (int i = 0; i < r->n_docs; i++)
        doc_free(r->docs[i]);
    free(r->docs);
    free(r->slots);
    memset(r, 0, sizeof *r);
}

int profile_parse(const char *name, const char *text, size_t len, const char *const *set, int n_set,
                  struct spec *spec, struct problems *p)
{
    struct reading *r = xmalloc(sizeof *r);
    int rc;

    if (len > PROFILE_MAX_BYTES) {
        memset(spec, 0, sizeof *spec);
        problem_add(p, SEV_ERROR, NULL, 0, 0, "", "'%s' has %zu bytes, at most %d are read", name,
                    len, PROFILE_MAX_BYTES);
        free(r);
        return -1;
    }
    rc = reading_run(r, name, text, len, set, n_set, spec, p);
    reading_release(r);
    free(r);
    return rc;
}

int profile_load(const char *path, const char *const *set, int n_set, struct spec *spec,
                 struct problems *p)
{
    struct buf text = {0};
    struct err err = ERR_INIT;
    int rc = -1;

    if (file_read(path, PROFILE_MAX_BYTES, &text, &err) < 0) {
        memset(spec, 0, sizeof *spec);
        problem_add(p, SEV_ERROR, NULL, 0, 0, "", "%s", err.text);
    } else {
        rc = profile_parse(path, text.data, text.len, set, n_set, spec, p);
    }
    buf_release(&text);
    return rc;
}
