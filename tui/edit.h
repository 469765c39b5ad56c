// A one-line text input: insert, delete, move, paste; scrolls when the text is wider than its
// field. UI thread only.
#ifndef TUI_EDIT_H
#define TUI_EDIT_H

#include <stdbool.h>

#include "tui/canvas.h"

enum { EDIT_SIZE = 4096 };

struct edit {
    char text[EDIT_SIZE]; // UTF-8
    int len, at;          // bytes; at = where the next character goes
    int left;             // first byte shown
};

void edit_set(struct edit *e, const char *text); // the cursor goes to its end
// Takes a key; false when it is none of the editor's (Enter, Esc, Up, …).
bool edit_key(struct edit *e, int key);
void edit_paste(struct edit *e, const char *text); // up to the first line end
// Draws `width` columns and rests the hardware cursor there.
void edit_draw(struct edit *e, struct canvas *c, const struct rect *r, int row, int col, int width);

#endif
