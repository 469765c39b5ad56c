#include "tui/canvas.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "tui/utf8.h"

enum {
    REPLACEMENT = 0xfffd, // drawn for what must not reach a terminal
    BLOCK_FULL = 0x2588,
    BLOCK_BASE = 0x2580, // + n is the lower n eighths
    SHADE_LIGHT = 0x2591,
};

// What stands for a character when only ASCII is drawn.
static const struct {
    uint32_t first, last;
    char ascii;
} look_alikes[] = {
    {0xa0, 0xa0, ' '},     {0xb0, 0xb0, 'o'},     {0xb1, 0xb1, '~'},      {0xb7, 0xb7, '.'},
    {0xd7, 0xd7, 'x'},     {0x394, 0x394, 'd'},   {0x3a3, 0x3a3, 'S'},    {0x3b1, 0x3b1, 'a'},
    {0x3b2, 0x3b2, 'b'},   {0x2010, 0x2015, '-'}, {0x2018, 0x2019, '\''}, {0x201c, 0x201d, '"'},
    {0x2022, 0x2022, '*'}, {0x2026, 0x2026, '~'}, {0x2190, 0x2190, '<'},  {0x2191, 0x2191, '^'},
    {0x2192, 0x2192, '>'}, {0x2193, 0x2193, 'v'}, {0x2212, 0x2212, '-'},  {0x2248, 0x2248, '~'},
    {0x2264, 0x2264, '<'}, {0x2265, 0x2265, '>'}, {0x2500, 0x2501, '-'},  {0x2502, 0x2503, '|'},
    {0x2504, 0x2505, '.'}, {0x2506, 0x2507, ':'}, {0x250c, 0x254b, '+'},  {0x2550, 0x2550, '='},
    {0x2551, 0x2551, '|'}, {0x2552, 0x256c, '+'}, {0x256d, 0x2570, '+'},  {0x2574, 0x2574, '-'},
    {0x2576, 0x2576, '-'}, {0x2581, 0x2582, '.'}, {0x2583, 0x2584, '-'},  {0x2585, 0x2585, '='},
    {0x2586, 0x2586, '+'}, {0x2587, 0x2588, '#'}, {0x2589, 0x258f, '#'},  {0x2580, 0x2580, '#'},
    {0x2590, 0x2590, '#'}, {0x2591, 0x2591, '.'}, {0x2592, 0x2592, ':'},  {0x2593, 0x2593, '='},
    {0x2594, 0x2594, '-'}, {0x25b2, 0x25b3, '^'}, {0x25b6, 0x25b8, '>'},  {0x25bc, 0x25bd, 'v'},
    {0x25c0, 0x25c2, '<'}, {0x25cb, 0x25cb, 'o'}, {0x25cf, 0x25cf, '*'},  {0x2713, 0x2714, 'x'},
    {0x2717, 0x2718, 'x'}, {0x2800, 0x2800, ' '}, {0x2801, 0x28ff, '*'},
};

static uint32_t to_ascii(uint32_t ch)
{
    if (ch < 0x80)
        return ch;
    for (size_t i = 0; i < sizeof look_alikes / sizeof *look_alikes; i++)
        if (ch >= look_alikes[i].first && ch <= look_alikes[i].last)
            return (unsigned char)look_alikes[i].ascii;
    return '?';
}

// Control characters must never reach a terminal through a name or a message.
static uint32_t printable(uint32_t ch, int *width)
{
    *width = utf8_width(ch);
    if (*width >= 0)
        return ch;
    *width = 1;
    return REPLACEMENT;
}

int text_width(const char *utf8)
{
    int total = 0, w;

    while (*utf8) {
        printable(utf8_next(&utf8), &w);
        total += w;
    }
    return total;
}

void canvas_init(struct canvas *c, int rows, int cols, bool utf8)
{
    c->rows = rows > 0 ? rows : 0;
    c->cols = cols > 0 ? cols : 0;
    c->utf8 = utf8;
    c->cell = xcalloc((size_t)c->rows * (size_t)c->cols + 1, sizeof *c->cell);
    canvas_clear(c);
}

void canvas_release(struct canvas *c)
{
    free(c->cell);
    memset(c, 0, sizeof *c);
}

void canvas_clear(struct canvas *c)
{
    for (int i = 0; i < c->rows * c->cols; i++)
        c->cell[i] = (struct cell){' ', ROLE_TEXT};
    c->cursor_row = c->cursor_col = -1;
}

static struct rect whole(const struct canvas *c, const struct rect *r)
{
    return r ? *r : (struct rect){0, 0, c->rows, c->cols};
}

// The cell at (row, col) of r, NULL when it is outside r or the grid.
static struct cell *cell_at(struct canvas *c, const struct rect *r, int row, int col)
{
    if (row < 0 || col < 0 || row >= r->rows || col >= r->cols)
        return NULL;
    row += r->row;
    col += r->col;
    if (row < 0 || col < 0 || row >= c->rows || col >= c->cols)
        return NULL;
    return &c->cell[row * c->cols + col];
}

static void set_cell(struct canvas *c, struct cell *p, uint32_t ch, enum role role)
{
    struct cell *end = c->cell + c->rows * c->cols;

    if (p->ch == 0 && p > c->cell) // half of a wide character must not stay alone
        p[-1].ch = ' ';
    if (p + 1 < end && p[1].ch == 0 && ch != 0)
        p[1].ch = ' ';
    *p = (struct cell){ch, (uint8_t)role};
}

// Draws one character of `width` columns when it fits whole.
static void put_wide(struct canvas *c, const struct rect *r, int row, int col, enum role role,
                     uint32_t ch, int width)
{
    struct cell *p = cell_at(c, r, row, col);
    struct cell *second = width == 2 ? cell_at(c, r, row, col + 1) : NULL;

    if (!p)
        return;
    if (width == 2 && !second) {
        set_cell(c, p, ' ', role);
        return;
    }
    if (!c->utf8)
        ch = to_ascii(ch);
    set_cell(c, p, ch, role);
    if (second)
        set_cell(c, second, c->utf8 ? ' ' : ch, role);
    if (second && c->utf8)
        *second = (struct cell){0, (uint8_t)role};
}

int canvas_text(struct canvas *c, const struct rect *r, int row, int col, enum role role,
                const char *text)
{
    struct rect in = whole(c, r);
    int start = col, width;

    while (*text && col < in.cols) {
        uint32_t ch = printable(utf8_next(&text), &width);

        if (width > 0)
            put_wide(c, &in, row, col, role, ch, width);
        col += width;
    }
    return (col > in.cols ? in.cols : col) - start;
}

int canvas_fmt(struct canvas *c, const struct rect *r, int row, int col, enum role role,
               const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return canvas_text(c, r, row, col, role, text);
}

int canvas_cut(struct canvas *c, const struct rect *r, int row, int col, enum role role,
               const char *text)
{
    struct rect in = whole(c, r);
    int used = canvas_text(c, &in, row, col, role, text);

    if (col + text_width(text) > in.cols)
        canvas_put(c, &in, row, in.cols - 1, role, 0x2026);
    return used;
}

int canvas_right(struct canvas *c, const struct rect *r, int row, int col, enum role role,
                 const char *text)
{
    int width = text_width(text);

    canvas_text(c, r, row, col - width + 1, role, text);
    return width;
}

void canvas_put(struct canvas *c, const struct rect *r, int row, int col, enum role role,
                uint32_t ch)
{
    struct rect in = whole(c, r);
    int width;

    ch = printable(ch, &width);
    if (width > 0)
        put_wide(c, &in, row, col, role, ch, width);
}

bool canvas_is_blank(const struct canvas *c, const struct rect *r)
{
    return r->row < 0 || r->row >= c->rows || r->col < 0 || r->col >= c->cols ||
           c->cell[r->row * c->cols + r->col].ch == ' ';
}

void canvas_fill(struct canvas *c, const struct rect *r, enum role role, uint32_t ch)
{
    struct rect in = whole(c, r);

    for (int row = 0; row < in.rows; row++)
        for (int col = 0; col < in.cols; col++)
            canvas_put(c, &in, row, col, role, ch);
}

void canvas_hline(struct canvas *c, const struct rect *r, int row, enum role role)
{
    struct rect in = whole(c, r);

    for (int col = 0; col < in.cols; col++)
        canvas_put(c, &in, row, col, role, 0x2500);
}

void canvas_box(struct canvas *c, const struct rect *r, const char *title)
{
    struct rect in = whole(c, r);
    struct rect top = {in.row, in.col + 2, 1, in.cols - 4};
    int last_row = in.rows - 1, last_col = in.cols - 1;

    for (int col = 1; col < last_col; col++) {
        canvas_put(c, &in, 0, col, ROLE_DIM, 0x2500);
        canvas_put(c, &in, last_row, col, ROLE_DIM, 0x2500);
    }
    for (int row = 1; row < last_row; row++) {
        canvas_put(c, &in, row, 0, ROLE_DIM, 0x2502);
        canvas_put(c, &in, row, last_col, ROLE_DIM, 0x2502);
    }
    canvas_put(c, &in, 0, 0, ROLE_DIM, 0x250c);
    canvas_put(c, &in, 0, last_col, ROLE_DIM, 0x2510);
    canvas_put(c, &in, last_row, 0, ROLE_DIM, 0x2514);
    canvas_put(c, &in, last_row, last_col, ROLE_DIM, 0x2518);
    if (title && *title)
        canvas_fmt(c, &top, 0, 0, ROLE_TITLE, " %s ", title);
}

void canvas_bar(struct canvas *c, const struct rect *r, int col, int width, int eighths,
                enum role role)
{
    struct rect in = whole(c, r);
    uint32_t full = role == ROLE_BAR_GHOST ? SHADE_LIGHT : c->utf8 ? BLOCK_FULL : '#';
    bool whole_cells = !c->utf8 || role == ROLE_BAR_GHOST;
    int rows, rest;

    if (eighths <= 0)
        return;
    rows = whole_cells ? (eighths + 4) / 8 : eighths / 8;
    rest = whole_cells ? 0 : eighths % 8;
    if (whole_cells && rows == 0)
        rows = 1;
    for (int i = 0; i < width; i++) {
        for (int row = 0; row < rows; row++)
            canvas_put(c, &in, in.rows - 1 - row, col + i, role, full);
        if (rest)
            canvas_put(c, &in, in.rows - 1 - rows, col + i, role, BLOCK_BASE + (uint32_t)rest);
    }
}

void canvas_role(struct canvas *c, const struct rect *r, enum role role)
{
    struct rect in = whole(c, r);

    for (int row = 0; row < in.rows; row++)
        for (int col = 0; col < in.cols; col++) {
            struct cell *p = cell_at(c, &in, row, col);

            if (p)
                p->role = (uint8_t)role;
        }
}

char *canvas_dump(const struct canvas *c)
{
    struct buf out = {0};
    char utf8[4];

    buf_str(&out, "");
    for (int row = 0; row < c->rows; row++) {
        const struct cell *line = c->cell + row * c->cols;
        int end = c->cols;

        while (end > 0 && line[end - 1].ch == ' ')
            end--;
        for (int col = 0; col < end; col++)
            if (line[col].ch)
                buf_add(&out, utf8, (size_t)utf8_put(utf8, line[col].ch));
        buf_str(&out, "\n");
    }
    return buf_detach(&out);
}

char *canvas_dump_roles(const struct canvas *c)
{
    static const char letters[ROLE_COUNT + 1] = "tdTkCS#+@gabcBWwe1234";
    struct buf out = {0};

    buf_str(&out, "");
    for (int row = 0; row < c->rows; row++) {
        for (int col = 0; col < c->cols; col++)
            buf_add(&out, &letters[c->cell[row * c->cols + col].role], 1);
        buf_str(&out, "\n");
    }
    return buf_detach(&out);
}

void text_cut(const char *text, int width, char *out, size_t size)
{
    const char *at = text;
    int used = 0;

    if (text_width(text) <= width) {
        snprintf(out, size, "%s", text);
        return;
    }
    while (*at) {
        const char *before = at;
        int w = utf8_width(utf8_next(&at));

        if (used + (w > 0 ? w : 0) > width - 1) {
            at = before;
            break;
        }
        used += w > 0 ? w : 0;
    }
    snprintf(out, size, "%.*s\u2026", (int)(at - text), text);
}
