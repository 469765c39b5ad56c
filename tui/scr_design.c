// Design: keys to edits of the profile. What it looks like is in design_draw.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "tui/app.h"
#include "tui/design.h"
#include "tui/design_draw.h"
#include "tui/design_mouse.h"
#include "tui/launch.h"

enum { SHELL_MARGIN = 11 }; // columns around the command in the bottom line

static char hint[DESIGN_WHY]; // below the totals while a shape is typed

static void draw(struct app *app, struct canvas *c, const struct rect *body)
{
    design_draw(app->design, hint[0] ? hint : NULL, c, body);
}

// ---- edits --------------------------------------------------------------------------------------

// After an edit: what it did to the total, or why not.
static void report(struct app *app, bool done, const char *why, int64_t before)
{
    const struct design *d = app->design;
    double change = (double)(d->count.total - before);
    char where[48], number[UNIT_SIZE];

    if (!done) {
        app_message(app, ROLE_WARN, "%s", why);
        return;
    }
    design_range_words(d, where, sizeof where);
    app_message(app, why[0] ? ROLE_WARN : ROLE_DIM, "%s of %s: %s%s parameters%s%s",
                lane_name(d->lane), where, change < 0 ? "-" : "+",
                unit_count(number, change < 0 ? -change : change), why[0] ? "; but " : "", why);
}

static void step(struct app *app, int steps)
{
    int64_t before = app->design->count.total;
    char why[DESIGN_WHY];
    bool done = design_step(app->design, steps, why);

    report(app, done, why, before);
}

static void value_typed(struct app *app, const char *text)
{
    int64_t before = app->design->count.total;
    char why[DESIGN_WHY] = "";

    if (text[0])
        report(app, design_type(app->design, text, why), why, before);
}

static void ask_value(struct app *app)
{
    char label[128], where[48];

    design_range_words(app->design, where, sizeof where);
    snprintf(label, sizeof label, "%s of %s (2304, *1.1, +256):", lane_name(app->design->lane),
             where);
    app_prompt(app, label, "", value_typed);
}

static void go_in_time(struct app *app, bool moved, const char *what)
{
    const struct design *d = app->design;

    if (moved)
        app_message(app, ROLE_DIM, "%s: edit %d of %d", what, d->at, d->n_undo - 1);
    else
        app_message(app, ROLE_DIM, "nothing to %s", what);
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

static void ask_shape(struct app *app)
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
        app, d->lane == LANE_FFN ? "shape, times d_model:" : "shape, times d_model/head:", initial,
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
static void ask_match(struct app *app)
{
    const struct design *d = app->design;
    bool has = d->budget.kind != BUDGET_KINDS;
    char initial[64];

    snprintf(initial, sizeof initial, "%s %s%s", solve_names[d->lane == LANE_HEADS],
             budget_rows[has ? d->budget.kind : BUDGET_PARAMS].name, has ? "" : " reference");
    app_prompt_live(app, "match (ffn heads depth width tokens):", initial, match_typed,
                    match_changed);
}

static void budget_typed(struct app *app, const char *text)
{
    char why[DESIGN_WHY] = "";

    if (!design_set_budget(app->design, text, why))
        app_message(app, ROLE_WARN, "%s", why);
    else if (app->design->budget.kind == BUDGET_KINDS)
        app_message(app, ROLE_DIM, "no budget");
    else
        app_message(app, ROLE_DIM, "m matches it, B holds it while you draw");
}

static void ask_budget(struct app *app)
{
    app_prompt(app, "budget (params non-embedding flops train-flops memory kv; none):", "params reference",
               budget_typed);
}

static void hold(struct app *app)
{
    char why[DESIGN_WHY];

    if (!design_hold(app->design, why))
        app_message(app, ROLE_WARN, "%s", why);
    else
        app_message(app, ROLE_DIM, "%s",
                    app->design->hold ? "the budget is held: other layers' FFN widths give and take"
                                      : "the budget is not held any more");
}

static void lock(struct app *app)
{
    char where[48];

    design_lock(app->design);
    design_range_words(app->design, where, sizeof where);
    app_message(app, ROLE_DIM, "%s: %s", where,
                app->design->locked[app->design->cursor] ? "locked" : "free");
}

static bool budgeting(struct app *app, enum command cmd)
{
    switch (cmd) {
    case CMD_LOCK:
        lock(app);
        return true;
    case CMD_MATCH:
        ask_match(app);
        return true;
    case CMD_BUDGET:
        ask_budget(app);
        return true;
    case CMD_HOLD:
        hold(app);
        return true;
    default:
        return false;
    }
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

static void save_as_typed(struct app *app, const char *path)
{
    bool keeps_text = false;
    char *lines;
    int changes;

    if (!path[0])
        return;
    if (!file_exists(path) || !strcmp(path, app->design->path)) {
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

static void ask_save(struct app *app)
{
    const struct design *d = app->design;
    char initial[SPEC_PATH_SIZE];

    if (d->path[0])
        snprintf(initial, sizeof initial, "%s", d->path);
    else
        snprintf(initial, sizeof initial, "%s.yaml", d->spec.name);
    app_prompt(app, "save as:", initial, save_as_typed);
}

static void save(struct app *app)
{
    if (app->design->path[0])
        save_to(app, app->design->path);
    else
        ask_save(app);
}

static void open_typed(struct app *app, const char *path)
{
    struct err err = ERR_INIT;
    char text[1600];

    if (!path[0])
        return;
    if (design_open(app->design, path, &err) < 0)
        app_message(app, ROLE_ERROR, "%s", err_format(&err, text, sizeof text));
    else if (app->design->warnings > 0)
        app_message(app, ROLE_WARN, "opened %s; lathe check %s lists %d warning%s", path, path,
                    app->design->warnings, app->design->warnings == 1 ? "" : "s");
    else
        app_message(app, ROLE_TEXT, "opened %s", path);
}

static void ask_open(struct app *app)
{
    app_prompt(app, "open profile:", app->design->path[0] ? app->design->path : "profiles/",
               open_typed);
}

static void open_profile(struct app *app)
{
    if (design_dirty(app->design))
        app_confirm(app, "Open another profile?",
                    "The changes of this one are not saved (w saves).", ask_open);
    else
        ask_open(app);
}

// ---- keys ---------------------------------------------------------------------------------------

static void select_range(struct design *d)
{
    d->selecting = !d->selecting;
    d->anchor = d->cursor;
}

static void select_all(struct design *d)
{
    d->selecting = true;
    d->anchor = 0;
    d->cursor = d->spec.model.n_layers - 1;
}

static bool movement(struct design *d, enum command cmd)
{
    switch (cmd) {
    case CMD_LEFT:
        design_move(d, d->cursor - 1);
        return true;
    case CMD_RIGHT:
        design_move(d, d->cursor + 1);
        return true;
    case CMD_FIRST:
        design_move(d, 0);
        return true;
    case CMD_LAST:
        design_move(d, d->spec.model.n_layers - 1);
        return true;
    case CMD_NEXT_LANE:
        d->lane = (enum lane)((d->lane + 1) % LANE_COUNT);
        return true;
    case CMD_PREV_LANE:
        d->lane = (enum lane)((d->lane + LANE_COUNT - 1) % LANE_COUNT);
        return true;
    case CMD_SELECT:
        select_range(d);
        return true;
    case CMD_SELECT_ALL:
        select_all(d);
        return true;
    case CMD_CANCEL:
        d->selecting = false;
        return true;
    default:
        return false;
    }
}

static bool editing(struct app *app, enum command cmd)
{
    struct design *d = app->design;

    switch (cmd) {
    case CMD_STEP_UP:
        step(app, 1);
        return true;
    case CMD_STEP_DOWN:
        step(app, -1);
        return true;
    case CMD_STEP_UP4:
        step(app, 4);
        return true;
    case CMD_STEP_DOWN4:
        step(app, -4);
        return true;
    case CMD_SET_VALUE:
        ask_value(app);
        return true;
    case CMD_GENERATOR:
        ask_shape(app);
        return true;
    case CMD_UNDO:
        go_in_time(app, design_undo(d), "undo");
        return true;
    case CMD_REDO:
        go_in_time(app, design_redo(d), "redo");
        return true;
    default:
        return false;
    }
}

static bool keeping(struct app *app, enum command cmd)
{
    switch (cmd) {
    case CMD_PIN:
        design_pin(app->design);
        app_message(app, ROLE_DIM, "all differences are against this profile now");
        return true;
    case CMD_SAVE:
        save(app);
        return true;
    case CMD_SAVE_AS:
        ask_save(app);
        return true;
    case CMD_OPEN:
        open_profile(app);
        return true;
    case CMD_FORM:
        app_show(app, &screen_form);
        return true;
    case CMD_LAUNCH:
        launch_ask(app);
        return true;
    default:
        return false;
    }
}

static bool command(struct app *app, enum command cmd)
{
    if (app->design->pen.down && cmd == CMD_CANCEL)
        design_pen_cancel(app->design);
    else
        design_pen_up(app->design); // a key ends the line
    return movement(app->design, cmd) || editing(app, cmd) || budgeting(app, cmd) ||
           keeping(app, cmd);
}

// With the edits as --set when that is a command that can be read here as a whole.
static const char *shell(struct app *app)
{
    static char line[4 * SPEC_PATH_SIZE];
    const struct design *d = app->design;
    struct buf sets = {0};

    if (!d->path[0]) {
        snprintf(line, sizeof line, "lathe count PROFILE, once w saved it");
    } else if (!design_dirty(d)) {
        snprintf(line, sizeof line, "lathe count %s", d->path);
    } else {
        bool has_sets = design_sets(d, &sets);
        int n =
            snprintf(line, sizeof line, "lathe count %s %s", d->path, sets.len ? sets.data : "");

        if (!has_sets || n >= (int)sizeof line || text_width(line) + SHELL_MARGIN > app->cols)
            snprintf(line, sizeof line, "lathe count %s   (once w saved it)", d->path);
    }
    buf_release(&sets);
    return line;
}

static const char *status(struct app *app)
{
    static char line[SPEC_NAME_SIZE + SPEC_PATH_SIZE + 8];
    const struct design *d = app->design;
    const char *slash = strrchr(d->path, '/');

    snprintf(line, sizeof line, "%s%s", d->path[0] ? slash ? slash + 1 : d->path : d->spec.name,
             design_dirty(d) ? " [+]" : "");
    return line;
}

const struct screen screen_design = {
    .title = "Design",
    .context = CTX_DESIGN,
    .draw = draw,
    .command = command,
    .mouse = design_mouse,
    .shell = shell,
    .status = status,
};
