// History: every state of the design with what led to it, above the bars of the one under the
// cursor. Walking through it is undoing and redoing.
#include <stdio.h>
#include <stdlib.h>

#include "engine/buf.h"
#include "engine/count.h"
#include "tui/app.h"
#include "tui/design.h"
#include "tui/design_draw.h"
#include "tui/list.h"

enum { BARS_FROM = 12 }; // rows of the body from which bars stand below the list

static struct list list;
static int came_from; // the state on entering

static const struct list_column columns[] = {
    {"", 1, 0, 0, false},
    {"edit", 5, 0, 1, true},
    {"what was done", 28, 64, 0, false},
    {"parameters", 15, 0, 2, true},
    {"by this edit", 14, 0, 3, true},
};

static int64_t parameters(const struct spec *s)
{
    static struct count count;

    count_model(s, &count);
    return count.total;
}

static void edit_change(const struct design *d, int row, char *out, size_t size)
{
    char number[UNIT_SIZE];
    int64_t change;

    out[0] = 0;
    if (row == 0)
        return;
    change = parameters(&d->undo[row]->spec) - parameters(&d->undo[row - 1]->spec);
    if (change != 0)
        snprintf(out, size, "%s%s", change < 0 ? "-" : "+",
                 unit_thousands(number, change < 0 ? -change : change));
}

static void cell(void *user, int row, int column, int width, char *out, size_t size,
                 enum role *role)
{
    const struct design *d = user;

    (void)width;
    if (row > d->at)
        *role = ROLE_DIM; // undone
    switch (column) {
    case 0:
        snprintf(out, size, "%s", row == came_from ? "*" : "");
        break;
    case 1:
        snprintf(out, size, "%d", row);
        break;
    case 2:
        snprintf(out, size, "%s", d->undo[row]->what);
        break;
    case 3:
        unit_thousands(out, parameters(&d->undo[row]->spec));
        break;
    case 4:
        edit_change(d, row, out, size);
        break;
    }
}

static void enter(struct app *app)
{
    came_from = app->design->at;
    list_set_rows(&list, app->design->n_undo, -1);
    list.cursor = came_from;
}

static void draw(struct app *app, struct canvas *c, const struct rect *body)
{
    struct design *d = app->design;
    struct rect top = *body, below = *body;

    if (body->rows >= BARS_FROM) {
        top.rows = d->n_undo + 1 < body->rows / 2 ? d->n_undo + 1 : body->rows / 2;
        below.row += top.rows;
        below.rows -= top.rows;
        design_draw(d, NULL, NULL, c, &below);
    }
    list_draw(&list, c, &top, columns, (int)(sizeof columns / sizeof *columns), cell, d);
}

static bool command(struct app *app, enum command cmd)
{
    if (list_command(&list, cmd)) {
        design_go(app->design, list.cursor);
        return true;
    }
    if (cmd != CMD_EDIT && cmd != CMD_CANCEL)
        return false;
    if (cmd == CMD_CANCEL)
        design_go(app->design, came_from);
    app_show(app, &screen_design);
    app_message(app, ROLE_DIM, "edit %d of %d", app->design->at, app->design->n_undo - 1);
    return true;
}

static const char *status(struct app *app)
{
    static char line[48];

    int n = app->design->n_undo - 1;

    snprintf(line, sizeof line, "%d edit%s, * where you were", n, n == 1 ? "" : "s");
    return line;
}

static const char *shell(struct app *app)
{
    return screen_design.shell(app);
}

const struct screen screen_history = {
    .title = "History",
    .context = CTX_HISTORY,
    .enter = enter,
    .draw = draw,
    .command = command,
    .shell = shell,
    .status = status,
};
