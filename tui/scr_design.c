// Design: keys to edits of the profile. What it looks like is in design_draw.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "tui/app.h"
#include "tui/design.h"
#include "tui/design_draw.h"
#include "tui/design_mouse.h"
#include "tui/design_prompt.h"
#include "tui/estimate.h"
#include "tui/launch.h"

enum { SHELL_MARGIN = 11 }; // columns around the command in the bottom line

static void draw(struct app *app, struct canvas *c, const struct rect *body)
{
    char here[256];

    estimate_words(app, here, sizeof here);
    design_draw(app->design, design_hint(), here, c, body);
}

// ---- edits --------------------------------------------------------------------------------------

static void step(struct app *app, int steps)
{
    int64_t before = app->design->count.total;
    char why[DESIGN_WHY];
    bool done = design_step(app->design, steps, why);

    design_report(app, done, why, before);
}

static void go_in_time(struct app *app, bool moved, const char *what)
{
    const struct design *d = app->design;

    int edit = what[0] == 'u' ? d->at + 1 : d->at; // undone or done again

    if (moved)
        app_message(app, ROLE_DIM, "%s %s (at edit %d of %d)", what, d->undo[edit]->what, d->at,
                    d->n_undo - 1);
    else
        app_message(app, ROLE_DIM, "nothing to %s", what);
}

// ---- spans --------------------------------------------------------------------------------------

static struct design_copy copied; // whatever design it came from

// What was done, or why not; what could not be done beside.
static void say(struct app *app, bool done, const char *why)
{
    const struct design *d = app->design;

    if (!done)
        app_message(app, ROLE_WARN, "%s", why);
    else
        app_message(app, why[0] ? ROLE_WARN : ROLE_DIM, "%s%s%s", d->undo[d->at]->what,
                    why[0] ? "; but " : "", why);
}

static void copy(struct app *app)
{
    char where[48];

    design_copy(app->design, &copied);
    design_range_words(app->design, where, sizeof where);
    app_message(app, ROLE_DIM, "copied the %s of %s; p pastes", lane_name(copied.lane), where);
}

static void paste(struct app *app)
{
    char why[DESIGN_WHY];
    bool done = design_paste(app->design, &copied, why);

    say(app, done, why);
}

static void span(struct app *app, enum span_op op)
{
    char why[DESIGN_WHY];
    bool done = design_span(app->design, op, why);

    say(app, done, why);
}

static void toggle_gates(struct app *app)
{
    struct design *d = app->design;
    char why[DESIGN_WHY] = "";
    bool on = !d->spec.gate.enabled;

    if (!design_set_key(d, spec_key_find("gate.enabled"), on ? "true" : "false", why))
        app_message(app, ROLE_WARN, "no gates: %s", why);
    else
        app_message(app, ROLE_DIM, "gates %s%s%s", on ? "on" : "off", why[0] ? ": " : "", why);
}

static bool spanning(struct app *app, enum command cmd)
{
    switch (cmd) {
    case CMD_COPY:
        copy(app);
        return true;
    case CMD_PASTE:
        paste(app);
        return true;
    case CMD_REVERSE:
        span(app, SPAN_REVERSE);
        return true;
    case CMD_MIRROR:
        span(app, SPAN_MIRROR);
        return true;
    case CMD_RAMP:
        span(app, SPAN_RAMP);
        return true;
    case CMD_SMOOTH:
        span(app, SPAN_SMOOTH);
        return true;
    case CMD_DIGITS:
        design_ask_digits(app);
        return true;
    case CMD_GATES:
        toggle_gates(app);
        return true;
    case CMD_HISTORY:
        app_show(app, &screen_history);
        return true;
    default:
        return false;
    }
}

// ---- budget -------------------------------------------------------------------------------------

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
        design_ask_match(app);
        return true;
    case CMD_BUDGET:
        design_ask_budget(app);
        return true;
    case CMD_HOLD:
        hold(app);
        return true;
    default:
        return false;
    }
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
        design_ask_value(app);
        return true;
    case CMD_GENERATOR:
        design_ask_shape(app);
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
        design_ask_to_save(app);
        return true;
    case CMD_SAVE_AS:
        design_ask_save(app);
        return true;
    case CMD_OPEN:
        design_ask_open(app);
        return true;
    case CMD_FORM:
        app_show(app, &screen_form);
        return true;
    case CMD_ESTIMATE:
        estimate_toggle(app);
        return true;
    case CMD_LAUNCH:
        launch_ask(app);
        return true;
    default:
        return false;
    }
}

static void close_tab(struct app *app)
{
    if (app->tabs.n == 1)
        app_message(app, ROLE_DIM, "the only design stays; O opens another in its place");
    else if (design_dirty(app->design))
        app_confirm_careful(app, "Close this design?", "Its changes are not saved (w saves).",
                            tabs_close);
    else
        tabs_close(app);
}

static bool several(struct app *app, enum command cmd)
{
    switch (cmd) {
    case CMD_PREV_TAB:
        tabs_go(app, -1);
        return true;
    case CMD_NEXT_TAB:
        tabs_go(app, 1);
        return true;
    case CMD_NEW_TAB:
        design_ask_tab(app);
        return true;
    case CMD_CLOSE_TAB:
        close_tab(app);
        return true;
    case CMD_CONTROLS:
        design_ask_controls(app);
        return true;
    case CMD_COMPARE:
        app_show(app, &screen_compare);
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
    return movement(app->design, cmd) || editing(app, cmd) || spanning(app, cmd) ||
           budgeting(app, cmd) || several(app, cmd) || keeping(app, cmd);
}

// With the edits as --set when that is a command that can be read here as a whole.
static const char *shell(struct app *app)
{
    static char line[4 * SPEC_PATH_SIZE];
    const struct design *d = app->design;
    char path[SPEC_PATH_SIZE + 16];
    struct buf sets = {0};

    shell_word(d->path, path, sizeof path);
    if (!d->path[0]) {
        snprintf(line, sizeof line, "lathe count PROFILE, once w saved it");
    } else if (!design_dirty(d)) {
        snprintf(line, sizeof line, "lathe count %s", path);
    } else {
        bool has_sets = design_sets(d, &sets);
        int n =
            snprintf(line, sizeof line, "lathe count %s %s", path, sets.len ? sets.data : "");

        if (!has_sets || n >= (int)sizeof line || text_width(line) + SHELL_MARGIN > app->cols)
            snprintf(line, sizeof line, "lathe count %s   (once w saved it)", path);
    }
    buf_release(&sets);
    return line;
}

static const char *status(struct app *app)
{
    static char line[SPEC_NAME_SIZE + SPEC_PATH_SIZE + 16];

    return tabs_words(app, line, sizeof line);
}

const struct screen screen_design = {
    .title = "Design",
    .context = CTX_DESIGN,
    .draw = draw,
    .command = command,
    .mouse = design_mouse,
    .paste = design_pasted,
    .shell = shell,
    .status = status,
};
