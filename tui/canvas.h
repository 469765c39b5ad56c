// The grid every screen draws into: cells with a character and a role. No terminal is involved, so
// a screen can be drawn and compared as text in a test. UTF-8 input is decoded here; in an ASCII
// canvas, characters outside ASCII are replaced by their look-alikes (block -> '#', …).
// UI thread only. Drawing outside the grid is clipped.
#ifndef TUI_CANVAS_H
#define TUI_CANVAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tui/theme.h"

struct cell {
    uint32_t ch; // Unicode; 0 is the right half of a wide character
    uint8_t role;
};

struct canvas {
    int rows, cols;
    struct cell *cell; // rows * cols
    bool utf8;
    int cursor_row, cursor_col; // where the hardware cursor rests; -1 = hidden
};

struct rect {
    int row, col, rows, cols;
};

void canvas_init(struct canvas *c, int rows, int cols, bool utf8);
void canvas_release(struct canvas *c);
void canvas_clear(struct canvas *c);

// Draws text from (row, col) inside r (coordinates relative to r), clipped; returns the columns
// used. r NULL = whole canvas.
int canvas_text(struct canvas *c, const struct rect *r, int row, int col, enum role role,
                const char *text);
int canvas_fmt(struct canvas *c, const struct rect *r, int row, int col, enum role role,
               const char *fmt, ...) __attribute__((format(printf, 6, 7)));
// Text that may be longer than r: cut with an ellipsis at the last column.
int canvas_cut(struct canvas *c, const struct rect *r, int row, int col, enum role role,
               const char *text);
// Right-aligned: the last column used is `col`.
int canvas_right(struct canvas *c, const struct rect *r, int row, int col, enum role role,
                 const char *text);
void canvas_put(struct canvas *c, const struct rect *r, int row, int col, enum role role,
                uint32_t ch);
bool canvas_is_blank(const struct canvas *c, const struct rect *r); // its first cell
void canvas_fill(struct canvas *c, const struct rect *r, enum role role, uint32_t ch);
void canvas_hline(struct canvas *c, const struct rect *r, int row, enum role role);
void canvas_box(struct canvas *c, const struct rect *r, const char *title);
// A vertical bar growing upwards from the bottom row of r: `eighths` of a cell high (8 per row).
// ASCII rounds to whole cells of '#', never to nothing for a value above 0.
void canvas_bar(struct canvas *c, const struct rect *r, int col, int width, int eighths,
                enum role role);
void canvas_role(struct canvas *c, const struct rect *r, enum role role); // recolours r

int text_width(const char *utf8); // columns
// At most `width` columns of text; what is longer ends in an ellipsis.
void text_cut(const char *text, int width, char *out, size_t size);

// For tests: rows as text with trailing blanks cut, newline after each. Caller frees.
char *canvas_dump(const struct canvas *c);
// The roles of all cells, one letter each, a line per row. Caller frees.
char *canvas_dump_roles(const struct canvas *c);

#endif
