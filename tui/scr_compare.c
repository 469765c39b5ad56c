// Compare: the open designs beside each other before anything is trained. The one in hand is the
// base: confounds, differences and percents are against it.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/confound.h"
#include "engine/ledger.h"
#include "tui/app.h"
#include "tui/compare_draw.h"
#include "tui/design_prompt.h"
#include "tui/list.h"

enum view { VIEW_OVERLAY, VIEW_BESIDE, VIEW_LAYERS, VIEW_LEDGER, VIEWS };
static const char *const view_names[VIEWS] = {"overlay", "side by side", "layers", "ledger"};

enum {
    BANNER_MOST = 3, // lines of the banner, while the screen is low
    NAME_COLS = 13,  // of the tables' first column
    VALUE_COLS = 14,
    CELL_COLS = VALUE_COLS + 10, // a value, its change and a mark
};

static enum view view;
static enum lane lane;
static struct list layers, ledger;
static int shift; // other designs left out at the left of a table

// ---- the banner ---------------------------------------------------------------------------------

// As many of the confounds, most severe first, as fit a line, and how many there are besides.
static void add_confounds(const struct confounds *f, int width, char *out, size_t size)
{
    int i = 0;

    for (; i < f->n; i++) {
        size_t n = strlen(out);

        if (i > 0 && text_width(out) + 2 + text_width(f->v[i].text) > width - 14)
            break;
        snprintf(out + n, size - n, "%s%s", i ? "; " : "", f->v[i].text);
    }
    if (i < f->n) {
        size_t n = strlen(out);

        snprintf(out + n, size - n, "; and %d more", f->n - i);
    }
}

// What differs besides the shape.
static void banner_line(const struct tabs *t, int tab, int width, char *out, size_t size,
                        bool *severe)
{
    const struct design *base = t->v[t->at], *d = t->v[tab];
    struct confounds *f = xmalloc(sizeof *f);
    size_t n;

    confounds_between(&base->spec, &base->count, &d->spec, &d->count, f);
    *severe = f->severe > 0;
    n = (size_t)snprintf(out, size, "%c %c: ", f->severe ? '!' : ' ', 'a' + tab);
    if (f->n == 0)
        snprintf(out + n, size - n, "nothing%s differs from %c",
                 f->same_shape ? "" : " but the shape", 'a' + t->at);
    add_confounds(f, width, out, size);
    free(f);
}

static int banner_rows(const struct tabs *t, const struct rect *body)
{
    int most = body->rows >= 40 ? TABS_MAX - 1 : BANNER_MOST;
    int n = t->n - 1;

    return body->rows < 10 ? (n > 0) : n > most ? most : n;
}

static void draw_banner(const struct tabs *t, struct canvas *c, const struct rect *r)
{
    int row = 0, left = t->n - 1;

    for (int i = 0; i < t->n && row < r->rows; i++) {
        char text[800];
        bool severe, is_last = row == r->rows - 1 && left > 1;

        if (i == t->at)
            continue;
        banner_line(t, i, r->cols - 1, text, sizeof text, &severe);
        if (is_last)
            snprintf(text, sizeof text, view == VIEW_LEDGER ? "  and %d more designs"
                                                            : "  and %d more designs: see the ledger",
                     left);
        canvas_cut(c, r, row++, 1, severe && !is_last ? ROLE_WARN : ROLE_DIM, text);
        left--;
    }
}

static void draw_legend(const struct tabs *t, struct canvas *c, const struct rect *r)
{
    int col = 1;

    if (view == VIEW_OVERLAY || view == VIEW_BESIDE)
        col += canvas_fmt(c, r, 0, col, ROLE_TITLE, "%s, %s to %d  ", view_names[view],
                          lane_name(lane), compare_top(t, lane));
    else
        col += canvas_fmt(c, r, 0, col, ROLE_TITLE, "%s%s  ", view_names[view],
                          view == VIEW_LEDGER ? ", ! over 1% apart" : "");
    for (int i = 0; i < t->n && col < r->cols; i++) {
        char text[SPEC_NAME_SIZE + 8];

        snprintf(text, sizeof text, i == t->at ? "[%c %s]" : " %c %s ", 'a' + i,
                 t->v[i]->spec.name);
        if (col + text_width(text) > r->cols) {
            canvas_fmt(c, r, 0, r->cols - 4, ROLE_DIM, " +%d", t->n - i);
            return;
        }
        col += canvas_text(c, r, 0, col, i == t->at ? ROLE_TITLE : ROLE_DIM, text) + 1;
    }
}

// ---- the tables ---------------------------------------------------------------------------------

// The base first, then the others in their order from the shifted one on.
static int tab_of_column(const struct tabs *t, int column)
{
    int tab;

    if (column == 1 || t->n == 1)
        return t->at;
    tab = (column - 2 + shift) % (t->n - 1);
    return tab < t->at ? tab : tab + 1;
}

static void layer_cell(const struct tabs *t, int row, int tab, char *out, size_t size)
{
    const struct model_spec *m = &t->v[tab]->spec.model, *base = &t->v[t->at]->spec.model;
    char values[64], change[16] = "";

    if (row >= m->n_layers) {
        snprintf(out, size, "-");
        return;
    }
    snprintf(values, sizeof values, "%d %d/%d x%d", m->lane[LANE_FFN][row],
             m->lane[LANE_HEADS][row], m->lane[LANE_KV][row], m->lane[LANE_REUSE][row]);
    if (row < base->n_layers && m->lane[LANE_FFN][row] != base->lane[LANE_FFN][row])
        snprintf(change, sizeof change, "%+d", m->lane[LANE_FFN][row] - base->lane[LANE_FFN][row]);
    snprintf(out, size, "%*s %7s", VALUE_COLS, values, change);
}

static bool same_layer(const struct tabs *t, int row, int tab)
{
    const struct model_spec *m = &t->v[tab]->spec.model, *base = &t->v[t->at]->spec.model;

    for (int k = 0; k < LANE_COUNT; k++)
        if (row < m->n_layers && row < base->n_layers && m->lane[k][row] != base->lane[k][row])
            return false;
    return (row < m->n_layers) == (row < base->n_layers);
}

static void layers_cell(void *user, int row, int column, int width, char *out, size_t size,
                        enum role *role)
{
    const struct tabs *t = user;

    (void)width;
    if (column == 0) {
        snprintf(out, size, "layer %d", row);
        return;
    }
    layer_cell(t, row, tab_of_column(t, column), out, size);
    if (column > 1 && same_layer(t, row, tab_of_column(t, column)))
        *role = ROLE_DIM;
}

static void ledger_cell(void *user, int row, int column, int width, char *out, size_t size,
                        enum role *role)
{
    const struct tabs *t = user;
    const struct design *base = t->v[t->at], *d;
    char text[UNIT_SIZE], change[16];
    double now, before = ledger_value(row, &base->spec, &base->count);

    (void)width;
    if (column == 0) {
        snprintf(out, size, "%s", ledger_name(row));
        return;
    }
    d = t->v[tab_of_column(t, column)];
    now = ledger_value(row, &d->spec, &d->count);
    change_text(change, now, before);
    ledger_text(row, now, text);
    if (text_width(text) > VALUE_COLS)
        unit_count(text, now);
    snprintf(out, size, "%*s %7s%s", VALUE_COLS, text, change,
             ledger_confounds(row) && fabs(now - before) > CONFOUND_TOLERANCE * before ? " !" : "");
    if (column > 1 && now == before)
        *role = ROLE_DIM;
}

// "b base18", right-aligned as the values below it.
static void column_title(const struct tabs *t, int tab, char *out, size_t size)
{
    char name[SPEC_NAME_SIZE + 4], cut[3 * VALUE_COLS + 1];

    snprintf(name, sizeof name, "%c %s", 'a' + tab, t->v[tab]->spec.name);
    text_cut(name, VALUE_COLS, cut, sizeof cut);
    snprintf(out, size, "%*s%s", VALUE_COLS - text_width(cut), "", cut);
}

// Columns that do not fit are left out from the right; which designs these are is said below.
static void draw_table(const struct tabs *t, struct list *l, list_cell *cell, struct canvas *c,
                       const struct rect *r)
{
    struct list_column columns[1 + TABS_MAX] = {{"", NAME_COLS, 0, 0, false}};
    char titles[TABS_MAX][4 * VALUE_COLS];
    int fit = 1 + (r->cols - NAME_COLS - 1 - VALUE_COLS) / (CELL_COLS + 1);
    struct rect table = *r;

    fit = fit < 1 ? 1 : fit > t->n ? t->n : fit;
    for (int i = 1; i <= fit; i++) {
        int tab = tab_of_column(t, i);

        column_title(t, tab, titles[i - 1], sizeof titles[0]);
        columns[i] =
            (struct list_column){titles[i - 1], i == 1 ? VALUE_COLS : CELL_COLS, 0, 0, false};
    }
    if (fit < t->n)
        canvas_fmt(c, r, --table.rows, 1, ROLE_DIM,
                   r->cols >= 78
                       ? "%d of %d designs fit: h l show the others, a wider terminal shows more"
                       : "%d of %d fit: h l show the others",
                   fit, t->n);
    list_draw(l, c, &table, columns, 1 + fit, cell, (void *)t);
}

// All confounds of every design, with what removes them.
static int draw_confounds(const struct tabs *t, struct canvas *c, const struct rect *r)
{
    const struct design *base = t->v[t->at];
    struct confounds *f = xmalloc(sizeof *f);
    int row = 0;

    for (int i = 0; i < t->n; i++) {
        if (i == t->at)
            continue;
        confounds_between(&base->spec, &base->count, &t->v[i]->spec, &t->v[i]->count, f);
        for (int k = 0; k < f->n && row < r->rows; k++) {
            char text[400];

            snprintf(text, sizeof text, "%c %c: %s   (%s)", f->v[k].severe ? '!' : '-', 'a' + i,
                     f->v[k].text, f->v[k].remedy);
            canvas_cut(c, r, row++, 1, f->v[k].severe ? ROLE_WARN : ROLE_DIM, text);
        }
    }
    free(f);
    return row;
}

static void draw_ledger(const struct tabs *t, struct canvas *c, const struct rect *r)
{
    struct rect table = *r, rest = *r;

    ledger.n = LEDGER_ROWS;
    table.rows = LEDGER_ROWS + 2 < r->rows ? LEDGER_ROWS + 2 : r->rows;
    draw_table(t, &ledger, ledger_cell, c, &table);
    rest.row += table.rows;
    rest.rows -= table.rows;
    if (rest.rows > 1)
        draw_confounds(t, c, &rest);
}

// ---- the screen ---------------------------------------------------------------------------------

static void draw(struct app *app, struct canvas *c, const struct rect *body)
{
    const struct tabs *t = &app->tabs;
    struct rect legend = {body->row, body->col, 1, body->cols};
    struct rect banner = {body->row + 1, body->col, banner_rows(t, body), body->cols};
    struct rect rest = {banner.row + banner.rows, body->col, body->rows - 1 - banner.rows,
                        body->cols};

    draw_legend(t, c, &legend);
    draw_banner(t, c, &banner);
    list_set_rows(&layers, compare_layers(t), -1);
    if (rest.rows < 1)
        return;
    switch (view) {
    case VIEW_OVERLAY:
        compare_overlay(t, lane, layers.cursor, c, &rest);
        break;
    case VIEW_BESIDE:
        compare_beside(t, lane, layers.cursor, c, &rest);
        break;
    case VIEW_LAYERS:
        draw_table(t, &layers, layers_cell, c, &rest);
        break;
    case VIEW_LEDGER:
        draw_ledger(t, c, &rest);
        break;
    case VIEWS:
        break;
    }
}

static void enter(struct app *app)
{
    lane = app->design->lane;
    list_set_rows(&layers, compare_layers(&app->tabs), app->design->cursor);
    if (app->tabs.n == 1)
        app_message(app, ROLE_WARN, "one design is open: T adds another, c its controls");
}

// The cursor's layer, or in a table the designs that are shown.
static void sideways(struct app *app, int by)
{
    int others = app->tabs.n - 1;

    if (view == VIEW_OVERLAY || view == VIEW_BESIDE)
        list_command(&layers, by > 0 ? CMD_DOWN : CMD_UP);
    else if (others > 0)
        shift = (shift % others + by + others) % others;
}

static bool move(struct app *app, enum command cmd)
{
    switch (cmd) {
    case CMD_LEFT:
    case CMD_RIGHT:
        sideways(app, cmd == CMD_RIGHT ? 1 : -1);
        return true;
    case CMD_PREV_TAB:
        tabs_go(app, -1);
        return true;
    case CMD_NEXT_TAB:
        tabs_go(app, 1);
        return true;
    default:
        return list_command(view == VIEW_LEDGER ? &ledger : &layers, cmd);
    }
}

static bool command(struct app *app, enum command cmd)
{
    switch (cmd) {
    case CMD_NEXT_LANE:
        view = (enum view)((view + 1) % VIEWS);
        return true;
    case CMD_PREV_LANE:
        view = (enum view)((view + VIEWS - 1) % VIEWS);
        return true;
    case CMD_METRIC:
        lane = (enum lane)((lane + 1) % LANE_COUNT);
        return true;
    case CMD_CONTROLS:
        design_ask_controls(app);
        return true;
    case CMD_NEW_TAB:
        design_ask_tab(app);
        return true;
    case CMD_CANCEL:
        app_show(app, &screen_design);
        return true;
    default:
        return move(app, cmd);
    }
}

static const char *shell(struct app *app)
{
    static char line[2 * SPEC_PATH_SIZE + 64];
    char a[SPEC_PATH_SIZE + 16], b[SPEC_PATH_SIZE + 16];
    const struct tabs *t = &app->tabs;
    const struct design *base = t->v[t->at], *other = t->v[tab_of_column(t, 2) % t->n];

    if (t->n == 1)
        snprintf(line, sizeof line, "lathe diff A.yaml B.yaml");
    else if (base->path[0] && other->path[0] && !design_dirty(base) && !design_dirty(other))
        snprintf(line, sizeof line, "lathe diff %s %s", shell_word(base->path, a, sizeof a),
                 shell_word(other->path, b, sizeof b));
    else
        snprintf(line, sizeof line, "lathe diff A.yaml B.yaml   (once w saved them)");
    return line;
}

static const char *status(struct app *app)
{
    return screen_design.status(app);
}

const struct screen screen_compare = {
    .title = "Compare",
    .context = CTX_COMPARE,
    .enter = enter,
    .draw = draw,
    .command = command,
    .shell = shell,
    .status = status,
};
