#include "tui/design.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/gen.h"

static const char *const shape_names[] = {
    [SHAPE_LIST] = "list",       [SHAPE_NUMBER] = "number", [SHAPE_UNIFORM] = "uniform",
    [SHAPE_VANILLA] = "vanilla", [SHAPE_FRAMED] = "framed", [SHAPE_REVERSE] = "reverse",
    [SHAPE_CROWN] = "crown",
};

const char *lane_name(enum lane lane)
{
    static const char *const names[LANE_COUNT] = {"ffn width", "heads", "kv heads", "reuse"};

    return names[lane];
}

// ---- states -------------------------------------------------------------------------------------

static void recount(struct design *d)
{
    count_model(&d->spec, &d->count);
    d->counts++;
}

static void keep_cursor(struct design *d)
{
    int last = d->spec.model.n_layers - 1;

    d->cursor = d->cursor > last ? last : d->cursor;
    d->anchor = d->anchor > last ? last : d->anchor;
}

static void state_show(struct design *d, const struct spec *s)
{
    d->spec = *s;
    keep_cursor(d);
    recount(d);
}

static void forget_from(struct design *d, int from)
{
    for (int i = from; i < d->n_undo; i++)
        free(d->undo[i]);
    d->n_undo = from;
}

// Makes what spec holds now the newest state.
static void push(struct design *d)
{
    forget_from(d, d->at + 1);
    d->undo = xrealloc(d->undo, (size_t)d->n_undo + 1, sizeof *d->undo);
    d->undo[d->n_undo] = xmalloc(sizeof d->spec);
    *d->undo[d->n_undo] = d->spec;
    d->at = d->n_undo++;
}

// Lanes that were drawn no longer come from where the profile says.
static void forget_origins(struct design *d)
{
    for (int i = 0; i < spec_key_count; i++)
        if (!spec_key_equal(&spec_keys[i], &d->spec, d->undo[d->at]))
            d->spec.origin[i] = (struct spec_origin){.kind = ORIGIN_NONE};
}

static void finish_edit(struct design *d)
{
    if (spec_equal(&d->spec, d->undo[d->at])) {
        state_show(d, d->undo[d->at]); // sources too: a step up and down again is no edit
        return;
    }
    forget_origins(d);
    recount(d);
    push(d);
}

// ---- opening and saving -------------------------------------------------------------------------

void design_set_spec(struct design *d, const struct spec *spec, const char *path)
{
    forget_from(d, 0);
    d->spec = *spec;
    snprintf(d->path, sizeof d->path, "%s", path);
    d->warnings = 0;
    d->lane = LANE_FFN;
    d->cursor = d->anchor = 0;
    d->selecting = d->previewing = false;
    d->at = -1;
    push(d);
    d->saved = d->spec;
    recount(d);
    design_pin(d);
    snprintf(d->reference_name, sizeof d->reference_name, "%s as opened", spec->name);
}

static int load(const char *path, struct spec *spec, int *warnings, struct err *err)
{
    struct problems problems = {0};
    int rc = path ? profile_load(path, NULL, 0, spec, &problems)
                  : profile_parse("default", profile_default_yaml, strlen(profile_default_yaml),
                                  NULL, 0, spec, &problems);

    *warnings = 0;
    for (int i = 0; i < problems.n; i++)
        *warnings += problems.v[i].severity == SEV_WARNING;
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
    struct design *d = xcalloc(1, sizeof *d);
    struct err err = ERR_INIT;
    struct spec *spec = xcalloc(1, sizeof *spec);
    char text[512];
    int warnings;

    if (load(NULL, spec, &warnings, &err) < 0)
        BUG("the embedded profile: %s", err_format(&err, text, sizeof text));
    design_set_spec(d, spec, "");
    free(spec);
    return d;
}

void design_free(struct design *d)
{
    if (!d)
        return;
    forget_from(d, 0);
    free(d->undo);
    free(d);
}

int design_open(struct design *d, const char *path, struct err *err)
{
    struct spec *spec = xcalloc(1, sizeof *spec);
    int warnings, rc = load(path, spec, &warnings, err);

    if (rc == 0) {
        design_set_spec(d, spec, path);
        d->warnings = warnings;
    }
    free(spec);
    return rc;
}

bool design_dirty(const struct design *d)
{
    return !spec_equal(d->undo[d->at], &d->saved);
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
        if (!strcmp(d->undo[i]->name, old))
            snprintf(d->undo[i]->name, sizeof d->undo[i]->name, "%s", name);
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
    int rc;

    rc = profile_save(path, spec, err);
    if (rc == 0) {
        rename_profile(d, spec->name);
        if (path != d->path)
            snprintf(d->path, sizeof d->path, "%s", path);
        d->saved = d->spec;
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

// ---- cursor and selection -----------------------------------------------------------------------

void design_range(const struct design *d, int *first, int *last)
{
    int other = d->selecting ? d->anchor : d->cursor;

    *first = d->cursor < other ? d->cursor : other;
    *last = d->cursor < other ? other : d->cursor;
}

void design_move(struct design *d, int layer)
{
    int last = d->spec.model.n_layers - 1;

    d->cursor = layer < 0 ? 0 : layer > last ? last : layer;
}

// ---- edits --------------------------------------------------------------------------------------

// One layer's part of an edit; false with the reason.
typedef bool edit_layer(struct design *d, int layer, double amount, char *why);

static bool edit_range(struct design *d, edit_layer *edit, double amount, char *why)
{
    char reason[DESIGN_WHY];
    int first, last, moved = 0;

    why[0] = 0;
    design_range(d, &first, &last);
    for (int i = first; i <= last; i++) {
        reason[0] = 0;
        if (edit(d, i, amount, reason))
            moved++;
        else if (!why[0] && first == last)
            snprintf(why, DESIGN_WHY, "%s", reason);
        else if (!why[0])
            snprintf(why, DESIGN_WHY, "layer %d: %.200s", i, reason);
    }
    if (moved > 0)
        finish_edit(d);
    return moved > 0;
}

static bool step_layer(struct design *d, int layer, double steps, char *why)
{
    return gen_step(&d->spec.model, d->lane, layer, (int)steps, why, DESIGN_WHY);
}

static bool set_layer(struct design *d, int layer, double v, char *why)
{
    return gen_set(&d->spec.model, d->lane, layer, v, why, DESIGN_WHY);
}

static bool scale_layer(struct design *d, int layer, double factor, char *why)
{
    return set_layer(d, layer, d->spec.model.lane[d->lane][layer] * factor, why);
}

static bool add_layer(struct design *d, int layer, double sum, char *why)
{
    return set_layer(d, layer, d->spec.model.lane[d->lane][layer] + sum, why);
}

bool design_step(struct design *d, int steps, char *why)
{
    return edit_range(d, step_layer, steps, why);
}

bool design_type(struct design *d, const char *text, char *why)
{
    edit_layer *edit = set_layer;
    double v, sign = 1;

    while (isspace((unsigned char)*text))
        text++;
    if (*text == '*' || *text == '+' || *text == '-') {
        edit = *text == '*' ? scale_layer : add_layer;
        sign = *text == '-' ? -1 : 1;
        text++;
    }
    if (!unit_parse_float(text, &v) || v < 0) {
        snprintf(why, DESIGN_WHY, "'%.100s' is no value, expected a number, *factor, +sum or -sum",
                 text);
        return false;
    }
    return edit_range(d, edit, sign * v, why);
}

// kv heads that stay while query heads change must still divide them.
static bool kv_heads_divide(const struct model_spec *m, char *why)
{
    for (int i = 0; i < m->n_layers; i++) {
        int heads = m->lane[LANE_HEADS][i], kv = m->lane[LANE_KV][i];

        if (heads % kv == 0)
            continue;
        snprintf(why, DESIGN_WHY,
                 "layer %d would have %d heads, which its %d kv heads do not divide", i, heads, kv);
        return false;
    }
    return true;
}

static bool generate(struct design *d, const struct lane_source *source, char *why)
{
    struct err err = ERR_INIT;
    int kv_ratio = d->spec.model.source[d->lane].kv_ratio;
    int shared = spec_kv_ratio(&d->spec.model);

    why[0] = 0;
    state_show(d, d->undo[d->at]);
    d->spec.model.source[d->lane] = *source;
    d->spec.model.source[d->lane].kv_ratio = kv_ratio;
    // query heads carry their kv heads along, as single steps do
    if (d->lane == LANE_HEADS && shared > 0)
        d->spec.model.source[LANE_KV].kv_ratio = shared;
    if (gen_apply(&d->spec.model, d->lane, &err) < 0) {
        snprintf(why, DESIGN_WHY, "%.250s", err.text);
    } else if (kv_heads_divide(&d->spec.model, why)) {
        recount(d);
        return true;
    }
    state_show(d, d->undo[d->at]);
    return false;
}

bool design_preview(struct design *d, const struct lane_source *source, char *why)
{
    d->previewing = generate(d, source, why);
    return d->previewing;
}

void design_preview_end(struct design *d)
{
    if (d->previewing)
        state_show(d, d->undo[d->at]);
    d->previewing = false;
}

bool design_generate(struct design *d, const struct lane_source *source, char *why)
{
    d->previewing = false;
    if (!generate(d, source, why))
        return false;
    forget_origins(d);
    push(d); // even when no value changed: the lane has a generator now
    return true;
}

// ---- keys ---------------------------------------------------------------------------------------

static void add_reason(char *why, const struct spec_key *key, const struct problem *p)
{
    size_t n = strlen(why);
    const char *gap = n ? "; " : "";

    if (!p->path[0] || !strcmp(p->path, key->path))
        snprintf(why + n, DESIGN_WHY - n, "%s%s", gap, p->err.text);
    else
        snprintf(why + n, DESIGN_WHY - n, "%s%s: %s", gap, p->path, p->err.text);
}

// Of errors the one about the key itself, else the first; without errors all that is said.
static void reasons(char *why, const struct spec_key *key, const struct problems *problems)
{
    const struct problem *error = NULL;

    why[0] = 0;
    for (int i = 0; i < problems->n; i++) {
        const struct problem *p = &problems->v[i];

        if (p->severity != SEV_ERROR)
            continue;
        if (!error || (!strncmp(p->path, key->path, strlen(key->path)) &&
                       strncmp(error->path, key->path, strlen(key->path))))
            error = p;
    }
    for (int i = 0; i < problems->n && !error; i++)
        add_reason(why, key, &problems->v[i]);
    if (error)
        add_reason(why, key, error);
}

bool design_preview_key(struct design *d, const struct spec_key *key, const char *text, char *why)
{
    struct problems problems = {0};
    bool done;

    d->spec = *d->undo[d->at];
    done = profile_set(&d->spec, key->path, text, &problems) == 0;
    reasons(why, key, &problems);
    problems_release(&problems);
    d->previewing = done;
    keep_cursor(d);
    recount(d);
    return done;
}

bool design_set_key(struct design *d, const struct spec_key *key, const char *text, char *why)
{
    bool done = design_preview_key(d, key, text, why);

    d->previewing = false;
    if (done && memcmp(&d->spec, d->undo[d->at], sizeof d->spec) != 0)
        push(d);
    return done;
}

// ---- undo and reference -------------------------------------------------------------------------

static bool go_to(struct design *d, int at)
{
    design_preview_end(d);
    if (at < 0 || at >= d->n_undo)
        return false;
    d->at = at;
    state_show(d, d->undo[at]);
    return true;
}

bool design_undo(struct design *d)
{
    return go_to(d, d->at - 1);
}

bool design_redo(struct design *d)
{
    return go_to(d, d->at + 1);
}

void design_pin(struct design *d)
{
    d->reference = d->spec;
    d->reference_count = d->count;
    snprintf(d->reference_name, sizeof d->reference_name, "%s, edit %d", d->spec.name, d->at);
}

// ---- the shape that a lane has or had ------------------------------------------------------------

static double multiple(const struct model_spec *m, enum lane lane, int layer)
{
    double unit = lane == LANE_HEADS ? m->head_dim : 1;
    double v = rint(100 * m->lane[lane][layer] * unit / m->d_model) / 100;

    return v > 0.01 ? v : 0.01;
}

// The simplest shape through the first, the middle and the last layer.
static void fit_shape(const struct model_spec *m, enum lane lane, struct lane_source *out)
{
    int last = m->n_layers - 1;
    double a = multiple(m, lane, 0), b = multiple(m, lane, last / 2), c = multiple(m, lane, last);

    *out = (struct lane_source){.shape = SHAPE_CROWN, .points = {a, b, c}};
    if (a == b && b == c)
        *out = (struct lane_source){.shape = SHAPE_UNIFORM, .points = {a}};
    else if ((a <= b && b <= c) || (a >= b && b >= c))
        *out = (struct lane_source){.shape = SHAPE_VANILLA, .points = {a, c}};
    out->n_points = gen_points(out->shape);
}

void design_shape(const struct design *d, struct lane_source *out)
{
    for (int i = d->at; i >= 0; i--)
        if (d->undo[i]->model.source[d->lane].shape >= SHAPE_UNIFORM) {
            *out = d->undo[i]->model.source[d->lane];
            return;
        }
    fit_shape(&d->spec.model, d->lane, out);
}

// ---- shapes as text -----------------------------------------------------------------------------

static bool known_shape(const char *word, size_t len, enum shape *shape)
{
    for (int i = SHAPE_UNIFORM; i <= SHAPE_CROWN && len > 0; i++)
        if (!strncmp(shape_names[i], word, len) && strlen(shape_names[i]) >= len) {
            *shape = (enum shape)i; // a prefix is enough
            return true;
        }
    return false;
}

bool shape_parse(const char *text, struct lane_source *source, char *why)
{
    const char *separators = " ,;[]:\t";
    size_t len;

    memset(source, 0, sizeof *source);
    text += strspn(text, separators);
    len = strcspn(text, separators);
    if (!known_shape(text, len, &source->shape)) {
        snprintf(why, DESIGN_WHY,
                 "'%.*s' is no shape, expected uniform, vanilla, framed, reverse or crown",
                 len > 40 ? 40 : (int)len, text);
        return false;
    }
    for (text += len; *(text += strspn(text, separators)); text += len) {
        char number[64];

        len = strcspn(text, separators);
        snprintf(number, sizeof number, "%.*s", len > 60 ? 60 : (int)len, text);
        if (source->n_points >= SPEC_POINTS ||
            !unit_parse_float(number, &source->points[source->n_points])) {
            snprintf(why, DESIGN_WHY, "'%s' is one number too many or none", number);
            return false;
        }
        source->n_points++;
    }
    if (source->n_points == gen_points(source->shape))
        return true;
    snprintf(why, DESIGN_WHY, "%s takes %d multiplier%s", shape_names[source->shape],
             gen_points(source->shape), gen_points(source->shape) == 1 ? "" : "s");
    return false;
}

char *shape_format(const struct lane_source *source, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "%s", shape_names[source->shape]);

    for (int i = 0; i < source->n_points && source->shape >= SHAPE_UNIFORM && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, " %g", source->points[i]);
    return out;
}
