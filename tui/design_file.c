// Profiles as files: opening, saving, and the commands that say what was changed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "tui/design_state.h"

// ---- opening ------------------------------------------------------------------------------------

static int count_of(const struct problems *problems, enum severity severity)
{
    int n = 0;

    for (int i = 0; i < problems->n; i++)
        n += problems->v[i].severity == severity;
    return n;
}

char *design_remarks(const struct design *d, char *out, size_t size)
{
    char path[SPEC_PATH_SIZE + 16];
    char notes[32] = "";

    shell_word(d->path[0] ? d->path : "it", path, sizeof path);
    if (d->notes)
        snprintf(notes, sizeof notes, "%s%d note%s", d->warnings ? ", " : "", d->notes,
                 d->notes == 1 ? "" : "s");
    if (d->warnings)
        snprintf(out, size, "%d warning%s%s: lathe check %s lists them", d->warnings,
                 d->warnings == 1 ? "" : "s", notes, path);
    else
        snprintf(out, size, "%s%s%s%s", notes, d->notes ? ": lathe check " : "",
                 d->notes ? path : "", d->notes ? " lists them" : "");
    return out;
}

static int load(const char *path, struct spec *spec, int *warnings, int *notes, struct err *err)
{
    struct problems problems = {0};
    int rc = path ? profile_load(path, NULL, 0, spec, &problems)
                  : profile_parse("default", profile_default_yaml, strlen(profile_default_yaml),
                                  NULL, 0, spec, &problems);

    *warnings = count_of(&problems, SEV_WARNING);
    *notes = count_of(&problems, SEV_NOTE);
    for (int i = 0; i < problems.n && rc < 0; i++)
        if (problems.v[i].severity == SEV_ERROR) {
            const struct problem *p = &problems.v[i];

            *err = p->err;
            if (p->path[0])
                snprintf(err->text, sizeof err->text, "%s: %.800s", p->path, p->err.text);
            break;
        }
    problems_release(&problems);
    return rc;
}

struct design *design_new(void)
{
    static long last_id;
    struct design *d = xcalloc(1, sizeof *d);
    struct err err = ERR_INIT;
    struct spec *spec = xcalloc(1, sizeof *spec);
    char text[512];
    int warnings, notes;

    if (load(NULL, spec, &warnings, &notes, &err) < 0)
        BUG("the embedded profile: %s", err_format(&err, text, sizeof text));
    d->budget.kind = BUDGET_KINDS;
    d->id = ++last_id;
    design_set_spec(d, spec, "");
    free(spec);
    return d;
}

// ---- texts --------------------------------------------------------------------------------------

void design_forget_texts(struct design *d)
{
    for (int i = 0; i < d->n_texts; i++) {
        buf_release(&d->texts[i]->text);
        free(d->texts[i]);
    }
    d->n_texts = 0;
}

// What stands in the file now is the present profile. A file that cannot be read is not remembered.
static void remember_text(struct design *d)
{
    struct design_text *t = xcalloc(1, sizeof *t);

    t->spec = d->spec;
    if (file_read(d->path, PROFILE_MAX_BYTES, &t->text, NULL) < 0) {
        buf_release(&t->text);
        free(t);
        return;
    }
    d->texts = xrealloc(d->texts, (size_t)d->n_texts + 1, sizeof(struct design_text *));
    d->texts[d->n_texts++] = t;
}

bool design_file_changed(const struct design *d)
{
    const struct design_text *last = d->n_texts > 0 ? d->texts[d->n_texts - 1] : NULL;
    struct buf now = {0};
    bool changed = last && file_exists(d->path) &&
                   (file_read(d->path, PROFILE_MAX_BYTES, &now, NULL) < 0 ||
                    now.len != last->text.len || memcmp(now.data, last->text.data, now.len));

    buf_release(&now);
    return changed;
}

// The text that path had when it was this profile; NULL when there was none, or when somebody else
// changed the file in between.
static const struct design_text *known_text(const struct design *d, const char *path,
                                            const struct spec *spec)
{
    if (strcmp(path, d->path) || design_file_changed(d))
        return NULL;
    for (int i = d->n_texts - 1; i >= 0; i--)
        if (spec_equal(&d->texts[i]->spec, spec))
            return d->texts[i];
    return NULL;
}

int design_open(struct design *d, const char *path, struct err *err)
{
    struct spec *spec = xcalloc(1, sizeof *spec);
    int warnings, notes, rc = load(path, spec, &warnings, &notes, err);

    if (rc == 0) {
        design_set_spec(d, spec, path);
        d->warnings = warnings;
        d->notes = notes;
        remember_text(d);
    }
    free(spec);
    return rc;
}

bool design_dirty(const struct design *d)
{
    return d->unsaved || !spec_equal(&d->undo[d->at]->spec, &d->saved);
}

// Whether the name is only that of the file: nobody chose another.
static bool name_follows_file(const struct design *d)
{
    enum origin_kind kind = d->spec.origin[spec_key_find("name") - spec_keys].kind;
    char file[SPEC_NAME_SIZE];

    if (kind == ORIGIN_DERIVED)
        return true;
    if (!d->path[0])
        return kind != ORIGIN_NONE;
    return !strcmp(d->spec.name, profile_file_name(d->path, file));
}

// In all states: an undo after saving under a new name does not bring the old one back.
static void rename_profile(struct design *d, const char *name)
{
    char old[SPEC_NAME_SIZE];

    snprintf(old, sizeof old, "%s", d->spec.name);
    snprintf(d->spec.name, sizeof d->spec.name, "%s", name);
    for (int i = 0; i < d->n_undo; i++)
        if (!strcmp(d->undo[i]->spec.name, old))
            snprintf(d->undo[i]->spec.name, sizeof d->undo[i]->spec.name, "%s", name);
}

// What is written to path: a name that followed the file follows it there.
static struct spec *spec_for_file(const struct design *d, const char *path)
{
    struct spec *spec = xmalloc(sizeof *spec);

    *spec = d->spec;
    if (strcmp(path, d->path) && name_follows_file(d))
        profile_file_name(path, spec->name);
    return spec;
}

int design_save_changes(const struct design *d, const char *path, bool *keeps_text)
{
    struct spec *spec = spec_for_file(d, path);
    int changes = profile_save_changes(path, spec, keeps_text);

    free(spec);
    return changes;
}

int design_save(struct design *d, const char *path, struct err *err)
{
    struct spec *spec = spec_for_file(d, path);
    const struct design_text *known = known_text(d, path, spec);
    int rc = known ? profile_restore(path, known->text.data, known->text.len, spec, err)
                   : profile_save(path, spec, err);

    if (rc == 0) {
        rename_profile(d, spec->name);
        if (strcmp(path, d->path)) {
            design_forget_texts(d); // they were another file's
            snprintf(d->path, sizeof d->path, "%s", path);
        }
        d->saved = d->spec;
        d->unsaved = false;
        d->changes++;
        remember_text(d);
    }
    free(spec);
    return rc;
}

bool design_key_differs(const struct spec_key *key, const struct spec *a, const struct spec *b)
{
    int lane = key->type == KEY_LANE ? (int)key->size : 0;
    const struct lane_source *x = &a->model.source[lane], *y = &b->model.source[lane];

    if (spec_key_equal(key, a, b))
        return false;
    if (key->type != KEY_LANE || x->shape != SHAPE_NUMBER || y->shape != SHAPE_NUMBER)
        return true;
    return a->model.lane[lane][0] != b->model.lane[lane][0];
}

bool design_sets(const struct design *d, struct buf *out)
{
    const char *space = "";

    for (int i = 0; i < spec_key_count; i++) {
        const struct spec_key *k = &spec_keys[i];
        struct buf text = {0};
        bool is_plain, has_quote;

        if (spec_key_equal(k, &d->saved, &d->spec))
            continue;
        profile_value_text(k, &d->spec, &text);
        is_plain = !strpbrk(text.data, " \t'\"\\$`!*?[]{}()<>|&;#~");
        has_quote = strchr(text.data, '\'') != NULL;
        buf_fmt(out, is_plain ? "%s--set %s=%s" : "%s--set '%s=%s'", space, k->path, text.data);
        buf_release(&text);
        if (has_quote)
            return false;
        space = " ";
    }
    return true;
}

