#include "tui/form.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "tui/app.h"
#include "tui/design.h"
#include "tui/design_panel.h"
#include "tui/wrap.h"

// ---- rows ---------------------------------------------------------------------------------------

static const char *leaf(const struct spec_key *k)
{
    const char *dot = strchr(k->path, '.');

    return dot ? dot + 1 : k->path;
}

static int section_length(const struct spec_key *k)
{
    return (int)(leaf(k) - k->path);
}

static bool same_section(const struct spec_key *a, const struct spec_key *b)
{
    return section_length(a) == section_length(b) &&
           !strncmp(a->path, b->path, (size_t)section_length(a));
}

static bool found(const struct form *f, const struct spec_key *k)
{
    return strcasestr(k->path, f->filter) || strcasestr(k->help, f->filter);
}

static const struct spec_key *key_at(const struct form *f, int row)
{
    return row >= 0 && row < f->list.n && f->row[row] >= 0 ? &spec_keys[f->row[row]] : NULL;
}

// Headings are passed over in the direction of the movement.
static void leave_heading(struct form *f, int dir)
{
    struct list *l = &f->list;

    if (l->n == 0 || key_at(f, l->cursor))
        return;
    list_command(l, dir < 0 && l->cursor > 0 ? CMD_UP : CMD_DOWN);
}

// A key that stands first on the screen brings its heading along.
static void show_heading(struct form *f)
{
    struct list *l = &f->list;

    if (l->cursor > 0 && l->top == l->cursor && !key_at(f, l->cursor - 1))
        l->top--;
}

// The rows that the filter leaves; the cursor stays on its key as far as that is there.
static void make_rows(struct form *f)
{
    const struct spec_key *at = key_at(f, f->list.cursor), *last = NULL;
    int n = 0, cursor = 0;

    for (int i = 0; i < spec_key_count; i++) {
        const struct spec_key *k = &spec_keys[i];

        if (!found(f, k))
            continue;
        if (section_length(k) && (!last || !same_section(k, last)))
            f->row[n++] = (short)~i;
        if (k == at)
            cursor = n;
        f->row[n++] = (short)i;
        last = k;
    }
    list_set_rows(&f->list, n, cursor);
    leave_heading(f, 1);
    show_heading(f);
}

static void enter(struct app *app)
{
    struct form *f = &app->form;

    f->filter[0] = f->hint[0] = 0;
    make_rows(f);
}

// ---- the list -----------------------------------------------------------------------------------

enum column { COL_MARK, COL_KEY, COL_VALUE, COL_UNIT, COL_ORIGIN, COL_REFERENCE };

enum { WIDE = 74 }; // columns from which a value has room for a generator

static const struct list_column columns[] = {
    [COL_MARK] = {"", 1, 0, 0, false},         [COL_KEY] = {"key", 18, 0, 0, false},
    [COL_VALUE] = {"value", 40, 72, 0, false}, [COL_UNIT] = {"unit", 11, 0, 1, false},
    [COL_ORIGIN] = {"from", 15, 24, 2, false}, [COL_REFERENCE] = {"reference", 34, 56, 3, false},
};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

static void value_cell(const struct spec_key *k, const struct spec *s, int width, char *out,
                       size_t size)
{
    struct buf text = {0};

    profile_value_text(k, s, &text);
    text_cut(text.data, width, out, size);
    buf_release(&text);
}

static void origin_words(const struct spec_key *k, const struct spec *s, struct buf *out)
{
    profile_origin_text(k, s, out);
    if (!out->len)
        buf_str(out, "edited");
}

static void cell(void *user, int row, int column, int width, char *out, size_t size,
                 enum role *role)
{
    const struct app *app = user;
    const struct design *d = app->design;
    const struct spec_key *k = key_at(&app->form, row);
    bool differs = k && design_key_differs(k, &d->reference, &d->spec);
    struct buf text = {0};

    out[0] = 0;
    if (!k) {
        const struct spec_key *first = &spec_keys[~app->form.row[row]];

        if (column == COL_KEY)
            snprintf(out, size, "%.*s", section_length(first) - 1, first->path);
        *role = ROLE_TITLE;
        return;
    }
    if (column == COL_MARK)
        snprintf(out, size, "%s", differs ? "*" : "");
    else if (column == COL_KEY)
        snprintf(out, size, "%s%s", section_length(k) ? " " : "", leaf(k));
    else if (column == COL_VALUE)
        value_cell(k, &d->spec, width, out, size);
    else if (column == COL_UNIT)
        snprintf(out, size, "%s", k->unit);
    else if (column == COL_REFERENCE && differs)
        value_cell(k, &d->reference, width, out, size);
    if (column == COL_ORIGIN) {
        origin_words(k, &d->spec, &text);
        text_cut(text.data, width, out, size);
        buf_release(&text);
    }
    *role = column >= COL_UNIT ? ROLE_DIM : differs ? ROLE_TITLE : ROLE_TEXT;
}

// ---- the key under the cursor -------------------------------------------------------------------

// "1 to 65536   default 64   from crown.yaml:8": parts that do not fit are left out, the last first.
static void draw_facts(const struct app *app, struct canvas *c, const struct rect *r, int row,
                       const struct spec_key *k)
{
    struct buf range = {0}, from = {0}, text = {0};

    profile_range_text(k, &range);
    origin_words(k, &app->design->spec, &from);
    if (range.len)
        buf_fmt(&text, "%s   ", range.data);
    if (!k->default_text)
        buf_str(&text, "default: derived");
    else if (!*k->default_text)
        buf_str(&text, "has no default");
    else
        buf_fmt(&text, "default %s", k->default_text);
    if (strcmp(from.data, "default") && strcmp(from.data, "derived"))
        buf_fmt(&text, "   %s%s", strcmp(from.data, "edited") ? "from " : "", from.data);
    canvas_cut(c, r, row, 0, ROLE_DIM, text.data);
    buf_release(&range);
    buf_release(&from);
    buf_release(&text);
}

static void draw_key(const struct app *app, struct canvas *c, const struct rect *r)
{
    const struct form *f = &app->form;
    const struct spec_key *k = key_at(f, f->list.cursor);
    int help_rows = r->rows > 1 ? r->rows - 1 : 1, used = 1;
    struct buf text = {0};

    if (f->hint[0]) {
        wrap_text(c, r, 0, r->rows, f->hint_is_error ? ROLE_WARN : ROLE_TEXT, f->hint);
    } else if (k) {
        buf_fmt(&text, "%s: %s", k->path, k->help);
        if (help_rows == 1)
            canvas_cut(c, r, 0, 0, ROLE_TEXT, k->help);
        else
            used = wrap_text(c, r, 0, help_rows, ROLE_TEXT, text.data);
        if (used < r->rows)
            draw_facts(app, c, r, used, k);
    }
    buf_release(&text);
}

// ---- the page -----------------------------------------------------------------------------------

static int lines_below(const struct form *f, const struct rect *body)
{
    int rows = body->rows, lines = rows >= 14 ? 4 : rows >= 10 ? 3 : rows >= 6 ? 2 : rows >= 4;
    int most = rows - 3, hint = text_width(f->hint) / (body->cols > 20 ? body->cols - 12 : 8) + 1;

    if (f->hint[0] && hint > lines) // words are shown in full, at the list's expense
        lines = hint < most ? hint : most > 1 ? most : 1;
    return lines < rows ? lines : 0;
}

static void draw_filter(const struct form *f, struct canvas *c, const struct rect *r)
{
    if (f->filter[0])
        canvas_fmt(c, r, 0, 28, ROLE_WARN, "only '%s'", f->filter);
    if (f->filter[0] && f->list.n == 0)
        canvas_text(c, r, 1, 2, ROLE_DIM, "no key has that; Esc shows all");
}

static void draw(struct app *app, struct canvas *c, const struct rect *body)
{
    struct form *f = &app->form;
    int below = lines_below(f, body), rows = body->rows;
    bool has_rule = rows >= 18;
    int top = rows >= 14 ? 2 : rows >= 5;
    struct list_column fitted[N_COLUMNS];
    struct rect totals = {body->row, body->col, top, body->cols};
    struct rect list = {body->row + top, body->col + 1, rows - top - below - has_rule,
                        body->cols - 1};
    struct rect rule = {list.row + list.rows, body->col, 1, body->cols};
    struct rect key = {body->row + rows - below, body->col + 1, below, body->cols - 2};

    panel_totals(app->design, c, &totals);
    memcpy(fitted, columns, sizeof fitted);
    if (list.cols < WIDE)
        fitted[COL_VALUE].width = 17;
    list_draw(&f->list, c, &list, fitted, N_COLUMNS, cell, app);
    draw_filter(f, c, &list);
    if (has_rule)
        canvas_hline(c, &rule, 0, ROLE_DIM);
    draw_key(app, c, &key);
    if (f->list.n > 0 && list.rows > 1) {
        c->cursor_row = list.row + 1 + f->list.cursor - f->list.top;
        c->cursor_col = list.col;
    }
}

// ---- values -------------------------------------------------------------------------------------

static void hint(struct form *f, bool is_error, const char *text)
{
    snprintf(f->hint, sizeof f->hint, "%s", text);
    f->hint_is_error = is_error;
}

static void report(struct app *app, const struct spec_key *k, int64_t before, const char *moved)
{
    double change = (double)(app->design->count.total - before);
    char number[UNIT_SIZE], value[64];

    value_cell(k, &app->design->spec, 40, value, sizeof value);
    if (change == 0)
        app_message(app, ROLE_DIM, "%s is %s", k->path, value);
    else
        app_message(app, ROLE_DIM, "%s is %s: %s%s parameters", k->path, value,
                    change < 0 ? "-" : "+", unit_count(number, change < 0 ? -change : change));
    hint(&app->form, false, moved);
}

static void ask_value(struct app *app, const struct spec_key *k, const char *text);

static void value_changed(struct app *app, const char *text)
{
    const struct spec_key *k = key_at(&app->form, app->form.list.cursor);
    char why[DESIGN_WHY] = "";
    bool good = true;

    design_preview_end(app->design);
    if (text)
        good = design_preview_key(app->design, k, text, why);
    hint(&app->form, !good, why);
}

static void value_typed(struct app *app, const char *text)
{
    const struct spec_key *k = key_at(&app->form, app->form.list.cursor);
    char why[DESIGN_WHY] = "";
    int64_t before;

    design_preview_end(app->design);
    before = app->design->count.total;
    if (design_set_key(app->design, k, text, why))
        report(app, k, before, why);
    else
        ask_value(app, k, text); // what was typed can be corrected; the old value stands
}

static void ask_value(struct app *app, const struct spec_key *k, const char *text)
{
    char label[64];

    snprintf(label, sizeof label, "%s:", app->cols >= 60 ? k->path : leaf(k));
    app_prompt_live(app, label, text, value_typed, value_changed);
}

static void edit_value(struct app *app)
{
    const struct spec_key *k = key_at(&app->form, app->form.list.cursor);
    struct buf text = {0};

    if (!k)
        return;
    profile_value_text(k, &app->design->spec, &text);
    ask_value(app, k, text.data);
    buf_release(&text);
}

static int choices_of(const struct spec_key *k, const char *const **choices)
{
    static const char *const truths[] = {"false", "true", NULL};
    int n = 0;

    *choices = k->type == KEY_BOOL ? truths : k->type == KEY_ENUM ? k->choices : NULL;
    while (*choices && (*choices)[n])
        n++;
    return n;
}

static int present_choice(const struct app *app, const struct spec_key *k,
                          const char *const *choices)
{
    struct buf text = {0};
    int i = 0;

    profile_value_text(k, &app->design->spec, &text);
    while (strcmp(choices[i], text.data))
        i++;
    buf_release(&text);
    return i;
}

// The next choice that the rest of the profile allows; what is passed over is said.
static void cycle(struct app *app, int dir)
{
    const struct spec_key *k = key_at(&app->form, app->form.list.cursor);
    const char *const *choices = NULL;
    int n = k ? choices_of(k, &choices) : 0, now;
    int64_t before = app->design->count.total;
    char refused[FORM_HINT] = "";

    if (n == 0) {
        app_message(app, ROLE_DIM, "Enter edits this value; only words have choices to go through");
        return;
    }
    now = present_choice(app, k, choices);
    for (int i = 1; i < n; i++) {
        const char *choice = choices[(now + dir * i + n * i) % n];
        char why[DESIGN_WHY];

        if (design_set_key(app->design, k, choice, why)) {
            report(app, k, before, refused[0] ? refused : why);
            app->form.hint_is_error = refused[0];
            return;
        }
        if (!refused[0])
            snprintf(refused, sizeof refused, "not %s: %.200s", choice, why);
    }
    hint(&app->form, true, refused);
}

// ---- keys ---------------------------------------------------------------------------------------

static void filter_changed(struct app *app, const char *text)
{
    struct form *f = &app->form;

    snprintf(f->filter, sizeof f->filter, "%s", text ? text : "");
    make_rows(f);
}

static void filter_typed(struct app *app, const char *text)
{
    filter_changed(app, text);
}

static void go_back(struct app *app)
{
    struct form *f = &app->form;

    if (!f->filter[0]) {
        app_show(app, &screen_design);
        return;
    }
    f->filter[0] = 0;
    make_rows(f);
}

// First key of the section after or before the one of the cursor.
static void next_section(struct form *f, int dir)
{
    int row = f->list.cursor, headings = 0;

    for (int i = 0; i < f->list.n; i++)
        headings += !key_at(f, i);
    if (headings == 0)
        return;
    if (dir < 0) // from inside a section its own heading is the first
        while (row > 0 && key_at(f, row))
            row--;
    do
        row = (row + dir + f->list.n) % f->list.n;
    while (key_at(f, row));
    list_set_rows(&f->list, f->list.n, row + 1);
}

static bool movement(struct form *f, enum command cmd)
{
    int before = f->list.cursor;

    if (cmd == CMD_NEXT_LANE || cmd == CMD_PREV_LANE) {
        next_section(f, cmd == CMD_NEXT_LANE ? 1 : -1);
        show_heading(f);
        return true;
    }
    if (!list_command(&f->list, cmd))
        return false;
    leave_heading(f, f->list.cursor < before ? -1 : 1);
    leave_heading(f, 1); // above the first heading there is nothing
    show_heading(f);
    return true;
}

static bool command(struct app *app, enum command cmd)
{
    app->form.hint[0] = 0;
    if (movement(&app->form, cmd))
        return true;
    switch (cmd) {
    case CMD_EDIT:
        edit_value(app);
        return true;
    case CMD_RIGHT:
        cycle(app, 1);
        return true;
    case CMD_LEFT:
        cycle(app, -1);
        return true;
    case CMD_FILTER:
        app_prompt_live(app, "find:", app->form.filter, filter_typed, filter_changed);
        return true;
    case CMD_CANCEL:
        go_back(app);
        return true;
    case CMD_UNDO:
    case CMD_REDO:
    case CMD_SAVE:
    case CMD_SAVE_AS:
    case CMD_PIN:
        return screen_design.command(app, cmd);
    default:
        return false;
    }
}

static const char *shell(struct app *app)
{
    return screen_design.shell(app);
}

static const char *status(struct app *app)
{
    return screen_design.status(app);
}

const struct screen screen_form = {
    .title = "the form",
    .context = CTX_FORM,
    .enter = enter,
    .draw = draw,
    .command = command,
    .shell = shell,
    .status = status,
};
