#include "tui/list.h"

#include <string.h>

static int clamp(int v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

static void keep_visible(struct list *l)
{
    int page = l->page > 0 ? l->page : 1;

    l->cursor = clamp(l->cursor, 0, l->n > 0 ? l->n - 1 : 0);
    l->top = clamp(l->top, l->cursor - page + 1, l->cursor);
    l->top = clamp(l->top, 0, l->n > page ? l->n - page : 0);
}

void list_set_rows(struct list *l, int n, int cursor)
{
    int line = l->cursor - l->top;

    l->n = n;
    if (cursor >= 0) {
        l->cursor = cursor;
        l->top = cursor - line;
    }
    keep_visible(l);
}

bool list_command(struct list *l, enum command cmd)
{
    int page = l->page > 1 ? l->page - 1 : 1;

    switch (cmd) {
    case CMD_UP:
        l->cursor--;
        break;
    case CMD_DOWN:
        l->cursor++;
        break;
    case CMD_PAGE_UP:
        l->cursor -= page;
        break;
    case CMD_PAGE_DOWN:
        l->cursor += page;
        break;
    case CMD_FIRST:
        l->cursor = 0;
        break;
    case CMD_LAST:
        l->cursor = l->n - 1;
        break;
    default:
        return false;
    }
    keep_visible(l);
    return true;
}

static int used_width(const struct list_column *columns, int n, int limit)
{
    int used = -1;

    for (int i = 0; i < n; i++)
        if (columns[i].priority <= limit)
            used += columns[i].width + 1;
    return used;
}

void list_layout(const struct list_column *columns, int n, int total, int *widths)
{
    int limit = 0, spare;

    for (int i = 0; i < n; i++)
        limit = columns[i].priority > limit ? columns[i].priority : limit;
    while (limit > 0 && used_width(columns, n, limit) > total)
        limit--;
    spare = total - used_width(columns, n, limit);
    for (int i = 0; i < n; i++)
        widths[i] = columns[i].priority <= limit ? columns[i].width : 0;
    // what is left goes column by column to those that can use it, one at a time
    for (bool given = true; spare > 0 && given;) {
        given = false;
        for (int i = 0; i < n && spare > 0; i++)
            if (widths[i] > 0 && widths[i] < columns[i].max) {
                widths[i]++;
                spare--;
                given = true;
            }
    }
}

static void draw_cell(struct canvas *c, const struct rect *r, int line, int col, int width,
                      bool right, enum role role, const char *text)
{
    struct rect cell = {r->row + line, r->col + col, 1, width};

    if (col + width > r->cols)
        cell.cols = r->cols - col;
    if (cell.cols <= 0)
        return;
    if (right && text_width(text) <= cell.cols)
        canvas_right(c, &cell, 0, cell.cols - 1, role, text);
    else
        canvas_text(c, &cell, 0, 0, role, text);
}

void list_draw(struct list *l, struct canvas *c, const struct rect *r,
               const struct list_column *columns, int n_columns, list_cell *cell, void *user)
{
    int widths[LIST_COLUMNS], n = n_columns < LIST_COLUMNS ? n_columns : LIST_COLUMNS;

    list_layout(columns, n, r->cols, widths);
    l->page = r->rows > 1 ? r->rows - 1 : 1;
    keep_visible(l);
    for (int line = 0; line < r->rows; line++) {
        int row = l->top + line - 1, col = 0;

        if (line > 0 && row >= l->n)
            break;
        for (int i = 0; i < n; i++) {
            char text[256] = "";
            enum role role = line == 0 ? ROLE_DIM : ROLE_TEXT;

            if (widths[i] == 0)
                continue;
            if (line > 0)
                cell(user, row, i, widths[i], text, sizeof(text), &role);
            draw_cell(c, r, line, col, widths[i], columns[i].right, role,
                      line == 0 ? columns[i].title : text);
            col += widths[i] + 1;
        }
        if (line > 0 && row == l->cursor) {
            struct rect whole = {r->row + line, r->col, 1, r->cols};

            canvas_role(c, &whole, ROLE_CURSOR);
        }
    }
}
