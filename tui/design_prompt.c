#include "tui/design_prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "tui/design.h"
#include "tui/design_draw.h"

static char hint[DESIGN_WHY];

const char *design_hint(void)
{
    return hint[0] ? hint : NULL;
}

// ---- values -------------------------------------------------------------------------------------

// "; 7 other layers made up for it" where the budget is held.
static const char *made_up(const struct design *d, char *out, size_t size)
{
    const struct model_spec *was = d->at > 0 ? &d->undo[d->at - 1]->spec.model : NULL;
    int first, last, n = 0;

    design_range(d, &first, &last);
    for (int i = 0; d->hold && was && i < d->spec.model.n_layers && i < was->n_layers; i++)
        n += (i < first || i > last) &&
             d->spec.model.lane[LANE_FFN][i] != was->lane[LANE_FFN][i];
    snprintf(out, size, "; %d other layer%s made up for it", n, n == 1 ? "" : "s");
    return d->hold ? out : "";
}

// After an edit: what it did to the total, or why not.
void design_report(struct app *app, bool done, const char *why, int64_t before)
{
    const struct design *d = app->design;
    double change = (double)(d->count.total - before);
    char where[48], number[UNIT_SIZE], others[64];

    if (!done) {
        app_message(app, ROLE_WARN, "%s", why);
        return;
    }
    design_range_words(d, where, sizeof where);
    app_message(app, why[0] ? ROLE_WARN : ROLE_DIM, "%s of %s: %s%s parameters%s%s%s",
                lane_name(d->lane), where, change < 0 ? "-" : "+",
                unit_count(number, change < 0 ? -change : change), made_up(d, others, sizeof others),
                why[0] ? "; but " : "", why);
}

static void value_typed(struct app *app, const char *text)
{
    int64_t before = app->design->count.total;
    char why[DESIGN_WHY] = "";

    if (text[0])
        design_report(app, design_type(app->design, text, why), why, before);
}

void design_ask_value(struct app *app)
{
    char label[128], where[48];

    design_range_words(app->design, where, sizeof where);
    snprintf(label, sizeof label, "%s of %s (2304, *1.1, +256):", lane_name(app->design->lane),
             where);
    app_prompt(app, label, "", value_typed);
}

static void digits_changed(struct app *app, const char *text)
{
    struct design *d = app->design;
    char why[DESIGN_WHY] = "";

    design_preview_end(d);
    hint[0] = 0;
    if (!text || !text[0])
        return;
    if (design_preview_digits(d, text, design_scale(d, d->lane), why) && !why[0])
        snprintf(hint, sizeof hint, "preview: o   Enter applies, Esc leaves");
    else
        snprintf(hint, sizeof hint, "%s", why);
}

static void digits_typed(struct app *app, const char *text)
{
    struct design *d = app->design;
    int64_t before;
    char why[DESIGN_WHY] = "";
    bool done;

    design_preview_end(d);
    hint[0] = 0;
    before = d->count.total;
    done = text[0] && design_digits(d, text, design_scale(d, d->lane), why);
    if (text[0])
        design_report(app, done, why, before);
}

void design_ask_digits(struct app *app)
{
    const struct design *d = app->design;
    char label[DIALOG_TITLE];
    int first, last;

    design_range(d, &first, &last);
    snprintf(label, sizeof label, "tenths of %d from layer %d on (0-9, . stays):",
             design_scale(d, d->lane), first);
    app_prompt_live(app, label, "", digits_typed, digits_changed);
}

// ---- shapes -------------------------------------------------------------------------------------

static void shape_changed(struct app *app, const char *text)
{
    struct design *d = app->design;
    struct lane_source source;
    char why[DESIGN_WHY] = "";

    design_preview_end(d);
    hint[0] = 0;
    if (!text)
        return;
    if (!shape_parse(text, &source, why) || !design_preview(d, &source, why))
        snprintf(hint, sizeof hint, "%s", why);
    else if (d->spec.model.frame.mode != FRAME_NONE)
        snprintf(hint, sizeof hint,
                 "preview: o   (the profile's frame sets both ends)   Enter applies");
    else
        snprintf(hint, sizeof hint, "preview: o   Enter applies, Esc leaves");
}

static void shape_typed(struct app *app, const char *text)
{
    struct design *d = app->design;
    int64_t before;
    struct lane_source source;
    char why[DESIGN_WHY] = "", number[UNIT_SIZE];
    double change;

    design_preview_end(d);
    hint[0] = 0;
    before = d->count.total;
    if (!shape_parse(text, &source, why) || !design_generate(d, &source, why)) {
        app_message(app, ROLE_WARN, "%s", why);
        return;
    }
    change = (double)(d->count.total - before);
    app_message(app, ROLE_DIM, "%s is %s now: %s%s parameters", lane_name(d->lane), text,
                change < 0 ? "-" : "+", unit_count(number, change < 0 ? -change : change));
}

void design_ask_shape(struct app *app)
{
    const struct design *d = app->design;
    struct lane_source shape;
    char initial[96];

    if (d->lane != LANE_FFN && d->lane != LANE_HEADS) {
        app_message(app, ROLE_WARN, "%s takes no shape; = sets a value, V selects all layers",
                    lane_name(d->lane));
        return;
    }
    design_shape(d, &shape);
    shape_format(&shape, initial, sizeof initial);
    app_prompt_live(
        app, d->lane == LANE_FFN ? "uniform vanilla framed reverse crown, times d_model:"
                             : "uniform vanilla framed reverse crown, times d_model/head:", initial,
        shape_typed, shape_changed);
}

// ---- budget -------------------------------------------------------------------------------------

static void match_changed(struct app *app, const char *text)
{
    char why[DESIGN_WHY] = "";

    design_preview_end(app->design);
    hint[0] = 0;
    if (!text)
        return;
    design_preview_match(app->design, text, why);
    snprintf(hint, sizeof hint, "%s", why);
}

static void match_typed(struct app *app, const char *text)
{
    char why[DESIGN_WHY] = "";
    bool done;

    design_preview_end(app->design);
    hint[0] = 0;
    done = design_match(app->design, text, why);
    app_message(app, done ? ROLE_TEXT : ROLE_WARN, "%s", why);
}

// The budget line's target, or else the reference's parameters.
void design_ask_match(struct app *app)
{
    const struct design *d = app->design;
    bool has = d->budget.kind != BUDGET_KINDS;
    bool by_heads = d->lane == LANE_HEADS || d->budget.kind == BUDGET_KV; // FFN has no keys
    char initial[64];

    snprintf(initial, sizeof initial, "%s %s%s", solve_names[by_heads ? SOLVE_HEADS : SOLVE_FFN],
             budget_rows[has ? d->budget.kind : BUDGET_PARAMS].name, has ? "" : " reference");
    app_prompt_live(app, "match (ffn heads depth width tokens):", initial, match_typed,
                    match_changed);
}

static void budget_typed(struct app *app, const char *text)
{
    char why[DESIGN_WHY] = "";

    hint[0] = 0;
    if (!design_set_budget(app->design, text, why))
        app_message(app, ROLE_WARN, "%s", why);
    else if (app->design->budget.kind == BUDGET_KINDS)
        app_message(app, ROLE_DIM, "no budget");
    else
        app_message(app, ROLE_DIM, "m matches it, B holds it while you draw");
}

static void budget_changed(struct app *app, const char *text)
{
    hint[0] = 0;
    if (text)
        snprintf(hint, sizeof hint,
                 "params, non-embedding, flops, train-flops, memory or kv, then a number (180M, 8GiB) "
                 "or 'reference'; or none");
    app->redraw = true;
}

void design_ask_budget(struct app *app)
{
    app_prompt_live(app, "budget:", "params reference", budget_typed, budget_changed);
}

// ---- files --------------------------------------------------------------------------------------

static void save_to(struct app *app, const char *path)
{
    struct err err = ERR_INIT;
    char text[1600], name[SPEC_NAME_SIZE];

    snprintf(name, sizeof name, "%s", app->design->spec.name);
    if (design_save(app->design, path, &err) < 0)
        app_message(app, ROLE_ERROR, "%s", err_format(&err, text, sizeof text));
    else if (strcmp(name, app->design->spec.name))
        app_message(app, ROLE_TEXT, "saved %s; its name, and its runs', is %s now", path,
                    app->design->spec.name);
    else
        app_message(app, ROLE_TEXT, "saved %s", path);
}

static void replace(struct app *app)
{
    save_to(app, app->dialog.edit.text);
}

static void save_over(struct app *app)
{
    save_to(app, app->design->path);
}

// To the file it came from. What somebody else wrote there meanwhile is not overwritten unasked.
static void save_back(struct app *app)
{
    const struct design *d = app->design;
    bool keeps_text;
    char *lines;
    int changes;

    if (!design_file_changed(d)) {
        save_to(app, d->path);
        return;
    }
    changes = design_save_changes(d, d->path, &keeps_text);
    lines = xasprintf("Somebody else changed %s since you opened or saved it.\n"
                      "! Saving sets %d of its keys to what they are here.\n"
                      "W saves under another name, O opens it as it is now.",
                      d->path, changes < 0 ? 0 : changes);
    if (changes < 0)
        save_to(app, d->path); // no profile any more: says so
    else
        app_confirm_careful(app, "Overwrite what is there?", lines, save_over);
    free(lines);
}

static void save_as_typed(struct app *app, const char *path)
{
    bool keeps_text = false;
    char *lines;
    int changes;

    if (!path[0])
        return;
    if (!strcmp(path, app->design->path)) {
        save_back(app);
        return;
    }
    if (!file_exists(path)) {
        save_to(app, path);
        return;
    }
    changes = design_save_changes(app->design, path, &keeps_text);
    if (changes < 0) {
        save_to(app, path); // says why it does not
        return;
    }
    if (keeps_text)
        lines = xasprintf("%s exists.\nIts values of %d key%s change; the rest of its text stays.",
                          path, changes, changes == 1 ? "" : "s");
    else
        lines = xasprintf("%s is another profile, %d key%s differ%s.\n"
                          "! The whole file is replaced by this profile;\n"
                          "! its comments and layout are lost.",
                          path, changes, changes == 1 ? "" : "s", changes == 1 ? "s" : "");
    app_confirm_careful(app, "Replace this file?", lines, replace);
    free(lines);
}

// A hub configuration stays what it is.
static bool is_json(const char *path)
{
    size_t n = strlen(path);

    return n > 5 && !strcmp(path + n - 5, ".json");
}

void design_ask_save(struct app *app)
{
    const struct design *d = app->design;
    char initial[SPEC_PATH_SIZE];

    if (d->path[0] && !is_json(d->path))
        snprintf(initial, sizeof initial, "%s", d->path);
    else
        snprintf(initial, sizeof initial, "%s.yaml", d->spec.name);
    app_prompt(app, "save as:", initial, save_as_typed);
}

void design_ask_to_save(struct app *app)
{
    if (app->design->path[0] && !is_json(app->design->path))
        save_back(app);
    else
        design_ask_save(app);
}

static void open_typed(struct app *app, const char *path)
{
    struct err err = ERR_INIT;
    char text[1600], remarks[SPEC_PATH_SIZE + 80];

    if (!path[0])
        return;
    if (design_open(app->design, path, &err) < 0)
        app_message(app, ROLE_ERROR, "%s", err_format(&err, text, sizeof text));
    else if (design_remarks(app->design, remarks, sizeof remarks)[0])
        app_message(app, ROLE_WARN, "opened; %s", remarks);
    else
        app_message(app, ROLE_TEXT, "opened %s", path);
}

static void ask_open(struct app *app)
{
    app_prompt(app, "open profile:", app->design->path[0] ? app->design->path : "profiles/",
               open_typed);
}

void design_ask_open(struct app *app)
{
    if (design_dirty(app->design))
        app_confirm(app, "Open another profile?",
                    "The changes of this one are not saved (w saves).", ask_open);
    else
        ask_open(app);
}
