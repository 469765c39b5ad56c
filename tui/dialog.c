#include "tui/dialog.h"

#include <stdio.h>
#include <string.h>

#include "tui/app.h"

enum { LABEL_COLS = 8, VALUE_COLS = 27 }; // of an input, at least

static void scroll(struct dialog *d, int by)
{
    int most = d->lines > d->page ? d->lines - d->page : 0;

    d->top += by;
    d->top = d->top > most ? most : d->top;
    d->top = d->top < 0 ? 0 : d->top;
}

static void confirm_key(struct app *app, int key)
{
    struct dialog *d = &app->dialog;

    switch (key) {
    case 'y':
    case 'Y':
    case K_ENTER:
        d->kind = DIALOG_NONE;
        if (d->yes && !(d->careful && key == K_ENTER))
            d->yes(app);
        return;
    case 'j':
    case K_DOWN:
        scroll(d, 1);
        return;
    case 'k':
    case K_UP:
        scroll(d, -1);
        return;
    case K_PGDN:
        scroll(d, d->page);
        return;
    case K_PGUP:
        scroll(d, -d->page);
        return;
    case 'n':
    case 'N':
    case 'q':
    case K_ESC:
        d->kind = DIALOG_NONE;
    }
}

static void prompt_key(struct app *app, int key, const char *paste)
{
    struct dialog *d = &app->dialog;
    char text[EDIT_SIZE];

    if (key == K_ESC) {
        d->kind = DIALOG_NONE;
        if (d->changed)
            d->changed(app, NULL);
        return;
    }
    if (key == K_ENTER) {
        snprintf(text, sizeof text, "%s", d->edit.text);
        d->kind = DIALOG_NONE; // done() may open the next one
        d->done(app, text);
        return;
    }
    if (key == K_PASTE)
        edit_paste(&d->edit, paste);
    else
        edit_key(&d->edit, key);
    if (d->changed)
        d->changed(app, d->edit.text);
}

void dialog_key(struct app *app, int key, const char *paste)
{
    struct dialog *d = &app->dialog;

    switch (d->kind) {
    case DIALOG_NONE:
        return;
    case DIALOG_CONFIRM:
        confirm_key(app, key);
        return;
    case DIALOG_PROMPT:
        prompt_key(app, key, paste);
        return;
    case DIALOG_HELP:
        if (!help_key(&d->help, key))
            d->kind = DIALOG_NONE;
    }
}

static const char *line_at(const char *text, int n)
{
    while (n > 0 && (text = strchr(text, '\n'))) {
        text++;
        n--;
    }
    return text;
}

static void size_of(const char *text, int *lines, int *width)
{
    *lines = *width = 0;
    for (const char *at = text; at && *at; at = line_at(at, 1)) {
        char line[512];
        int w;

        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        w = text_width(line);
        *width = w > *width ? w : *width;
        ++*lines;
    }
}

// The text with its lines broken at blanks where they are wider than the screen.
static void reflow(const char *text, int cols, char *out, size_t size)
{
    int col = 0;
    char *blank = NULL;
    size_t n = 0;

    for (; *text && n + 1 < size; text++) {
        bool starts = ((unsigned char)*text & 0xc0) != 0x80; // of a character

        out[n] = *text;
        if (*text == ' ')
            blank = out + n;
        col = *text == '\n' ? 0 : col + starts;
        if (*text == '\n')
            blank = NULL;
        n++;
        if (col > cols && blank) {
            *blank = '\n';
            col = (int)(out + n - blank) - 1;
            blank = NULL;
        }
    }
    out[n] = 0;
}

static void draw_text(const struct dialog *d, const char *text, struct canvas *c,
                      const struct rect *r)
{
    for (int row = 0; row < r->rows; row++) {
        const char *at = line_at(text, d->top + row);
        char line[512];

        if (!at || !*at)
            return;
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        canvas_text(c, r, row, 0, *line == '!' ? ROLE_WARN : ROLE_TEXT, line);
    }
}

static void draw_confirm(struct dialog *d, struct canvas *c, const struct rect *body)
{
    const char *answers = d->careful ? "y yes   Enter Esc no" : "Enter yes   Esc no";
    bool framed = body->rows >= 6 && body->cols >= 24;
    int edge = framed ? 1 : 0, margin = framed ? 2 : 0, width;
    char text[DIALOG_TEXT];
    struct rect box, in;

    reflow(d->text, body->cols - 2 * margin, text, sizeof text);
    size_of(text, &d->lines, &width);
    width = width < 40 ? 40 : width;
    box.cols = width + 2 * margin > body->cols ? body->cols : width + 2 * margin;
    box.rows = d->lines + 2 + 2 * edge > body->rows ? body->rows : d->lines + 2 + 2 * edge;
    box.row = body->row + (body->rows - box.rows) / 2;
    box.col = body->col + (body->cols - box.cols) / 2;
    in = (struct rect){box.row + edge, box.col + margin, box.rows - 2 * edge - 2,
                       box.cols - 2 * margin};
    if (in.rows < 1)
        in.rows = box.rows - 1;
    canvas_fill(c, &box, ROLE_TEXT, ' ');
    if (framed)
        canvas_box(c, &box, d->title);
    d->page = in.rows;
    scroll(d, 0);
    draw_text(d, text, c, &in);
    in.row = box.row + box.rows - 1 - edge;
    in.rows = 1;
    canvas_text(c, &in, 0, 0, ROLE_KEY, answers);
    c->cursor_row = in.row;
    c->cursor_col = in.col;
    if (d->lines > d->page)
        canvas_right(c, &in, 0, in.cols - 1, ROLE_DIM,
                     d->top + d->page < d->lines ? "j k scroll, more below" : "j k scroll");
}

static void draw_prompt(struct dialog *d, struct canvas *c, const struct rect *line)
{
    int most = line->cols - VALUE_COLS, used;
    char title[DIALOG_TITLE];

    text_cut(d->title, most < LABEL_COLS ? LABEL_COLS : most, title, sizeof title);
    canvas_fill(c, line, ROLE_TEXT, ' ');
    used = canvas_text(c, line, 0, 1, ROLE_TITLE, title) + 2;
    edit_draw(&d->edit, c, line, 0, used, line->cols - used);
}

void dialog_draw(struct dialog *d, struct canvas *c, const struct rect *body,
                 const struct rect *line)
{
    if (d->kind == DIALOG_CONFIRM)
        draw_confirm(d, c, body);
    else if (d->kind == DIALOG_PROMPT)
        draw_prompt(d, c, line);
    else if (d->kind == DIALOG_HELP)
        help_draw(&d->help, c, body);
}
