#include "tui/bars.h"

#include <stdio.h>
#include <string.h>

#include "tui/help.h"
#include "tui/wrap.h"

static const struct screen *const screens[] = {&screen_design, &screen_monitor, &screen_runs};
enum { N_SCREENS = sizeof screens / sizeof *screens };

struct bars bars_layout(int rows, int cols)
{
    struct bars b = {-1, -1, -1, -1, {0, 0, rows, cols}};
    int below = 0;

    if (rows >= 4)
        b.keys = rows - ++below;
    if (rows >= 14)
        b.shell = rows - ++below;
    if (rows >= 8) {
        b.message = rows - ++below;
        b.tabs = 0;
        b.body.row = 1;
    } else {
        b.message = b.keys; // takes the place of the keys while there is one
    }
    if (b.message < 0)
        b.message = rows - 1;
    b.body.rows = rows - below - b.body.row;
    return b;
}

static bool is_over_design(const struct screen *s)
{
    return s == &screen_form || s == &screen_history || s == &screen_compare;
}

static void draw_tabs(struct app *app, struct canvas *c, const struct rect *r)
{
    const char *status = app->screen->status ? app->screen->status(app) : "";
    int col = r->cols >= 50 ? 1 + canvas_text(c, r, 0, 1, ROLE_TITLE, "lathe") + 2 : 0;

    for (int i = 0; i < N_SCREENS; i++) {
        bool active = screens[i] == (is_over_design(app->screen) ? &screen_design : app->screen);

        // brackets and number stand for the colour where there is none
        col += canvas_fmt(c, r, 0, col, active ? ROLE_TITLE : ROLE_DIM,
                          active ? "[%d %s]" : " %d %s ", i + 1, screens[i]->title);
    }
    if (col + 2 + text_width(status) <= r->cols)
        canvas_right(c, r, 0, r->cols - 2, ROLE_TEXT, status);
}

static void first_key(const struct key_binding *b, char *out, size_t size)
{
    snprintf(out, size, "%.*s", (int)strcspn(b->keys, " "), b->keys);
}

static int entry_width(const struct key_binding *b)
{
    char key[16];

    first_key(b, key, sizeof key);
    return text_width(key) + 1 + text_width(b->label) + 2;
}

static int by_rank(enum context context, const struct key_binding **list, int max)
{
    int n = 0;

    for (int i = 0; i < key_table_count && n < max; i++) {
        const struct key_binding *b = &key_table[i];
        int at = n;

        if (!b->label || !help_applies(b, context))
            continue;
        for (; at > 0 && list[at - 1]->rank > b->rank; at--)
            list[at] = list[at - 1];
        list[at] = b;
        n++;
    }
    return n;
}

void bars_keys(struct canvas *c, const struct rect *r, enum context context)
{
    const struct key_binding *list[64];
    int n = by_rank(context, list, 64), col = 1;

    for (int i = 0; i < n; i++) {
        char key[16];

        if (col + entry_width(list[i]) - 2 > r->cols)
            return;
        first_key(list[i], key, sizeof key);
        col += canvas_text(c, r, 0, col, ROLE_KEY, key) + 1;
        col += canvas_text(c, r, 0, col, ROLE_TEXT, list[i]->label) + 2;
    }
}

// What the keys mean while a dialog has them.
static void draw_dialog_keys(struct canvas *c, const struct rect *r, const struct dialog *d)
{
    static const char *const words[][2] = {
        [DIALOG_CONFIRM] = {"Yes", "No"},
        [DIALOG_PROMPT] = {"Apply", "Leave"},
        [DIALOG_HELP] = {"Close", "Close"},
    };
    bool careful = d->kind == DIALOG_CONFIRM && d->careful;
    int col = 1;

    col += canvas_text(c, r, 0, col, ROLE_KEY, careful ? "y" : "Enter") + 1;
    col += canvas_text(c, r, 0, col, ROLE_TEXT, words[d->kind][0]) + 2;
    col += canvas_text(c, r, 0, col, ROLE_KEY, "Esc") + 1;
    canvas_text(c, r, 0, col, ROLE_TEXT, words[d->kind][1]);
}

// A long message takes lines of the body above its own: the advice stands at its end.
static void draw_message(const struct app *app, struct canvas *c, const struct bars *b)
{
    int lines = wrap_lines(app->message, c->cols - 2), most = b->body.rows / 4;
    struct rect r, text;

    lines = lines > most ? most : lines;
    if (lines < 2) {
        r = (struct rect){b->message, 0, 1, c->cols};
        canvas_fill(c, &r, ROLE_TEXT, ' ');
        canvas_cut(c, &r, 0, 1, app->message_role, app->message);
        return;
    }
    r = (struct rect){b->message - lines + 1, 0, lines, c->cols};
    text = (struct rect){r.row, 1, lines, c->cols - 2};
    canvas_fill(c, &r, ROLE_TEXT, ' ');
    wrap_text(c, &text, 0, lines, app->message_role, app->message);
}

void bars_draw(struct app *app, struct canvas *c, const struct bars *b)
{
    struct rect r = {b->tabs, 0, 1, c->cols};

    if (b->tabs >= 0)
        draw_tabs(app, c, &r);
    r.row = b->shell;
    if (b->shell >= 0 && app->screen->shell) {
        int used = canvas_text(c, &r, 0, 1, ROLE_DIM, "same as: ");

        canvas_cut(c, &r, 0, 1 + used, ROLE_TEXT, app->screen->shell(app));
    }
    r.row = b->keys;
    if (b->keys >= 0 && app->dialog.kind != DIALOG_NONE)
        draw_dialog_keys(c, &r, &app->dialog);
    else if (b->keys >= 0)
        bars_keys(c, &r, app->screen->context);
    if (app->message[0])
        draw_message(app, c, b);
}
