// A scrolling table: columns with priorities that are dropped when the width is short, and a cursor
// that stays on its row. Rows belong to the caller; the list knows only numbers. UI thread only.
#ifndef TUI_LIST_H
#define TUI_LIST_H

#include <stddef.h>

#include "tui/canvas.h"
#include "tui/keys.h"

struct list {   // zero-initialise
    int n;      // rows
    int cursor; // 0 .. n-1
    int top;    // first row on screen
    int page;   // rows on screen at the last drawing
};

enum { LIST_COLUMNS = 16 };

struct list_column {
    const char *title;
    int width;    // columns at least
    int max;      // grows up to this many when there is room; 0 = width
    int priority; // 0 is never dropped; the highest goes first
    bool right;   // right-aligned
};

// Writes the text of one cell (at most `width` columns are shown) and may change its role.
typedef void list_cell(void *user, int row, int column, int width, char *out, size_t size,
                       enum role *role);

// The rows changed: the row under the cursor now has index `cursor` (-1 = it is gone; the nearest
// takes its place). It stays on the same line of the screen as far as the ends allow.
void list_set_rows(struct list *l, int n, int cursor);

// Moves the cursor; false when cmd is no movement.
bool list_command(struct list *l, enum command cmd);

// Draws a heading line and as many rows as fit; the cursor's row is reversed over the whole width.
void list_draw(struct list *l, struct canvas *c, const struct rect *r,
               const struct list_column *columns, int n_columns, list_cell *cell, void *user);

// The layout alone: widths[n], 0 for a dropped column. One blank separates columns.
void list_layout(const struct list_column *columns, int n, int total, int *widths);

#endif
