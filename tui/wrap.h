// Text over several lines. UI thread only.
#ifndef TUI_WRAP_H
#define TUI_WRAP_H

#include "tui/canvas.h"

// Draws text from line `row` of r, broken at blanks, as far down as r reaches (at most `lines`).
// Returns the lines used.
int wrap_text(struct canvas *c, const struct rect *r, int row, int lines, enum role role,
              const char *text);

// Lines that text takes in `cols` columns.
int wrap_lines(const char *text, int cols);

#endif
