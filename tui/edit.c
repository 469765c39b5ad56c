#include "tui/edit.h"

#include <stdio.h>
#include <string.h>

#include "tui/keys.h"
#include "tui/utf8.h"

static bool continues(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

static int before(const struct edit *e, int at)
{
    if (at > 0)
        at--;
    while (at > 0 && continues(e->text[at]))
        at--;
    return at;
}

static int after(const struct edit *e, int at)
{
    if (at < e->len)
        at++;
    while (at < e->len && continues(e->text[at]))
        at++;
    return at;
}

static void insert(struct edit *e, const char *bytes, int n)
{
    if (e->len + n >= EDIT_SIZE)
        return;
    memmove(e->text + e->at + n, e->text + e->at, (size_t)(e->len - e->at + 1));
    memcpy(e->text + e->at, bytes, (size_t)n);
    e->len += n;
    e->at += n;
}

static void erase(struct edit *e, int from, int to)
{
    memmove(e->text + from, e->text + to, (size_t)(e->len - to + 1));
    e->len -= to - from;
    e->at = from;
}

static int word_before(const struct edit *e)
{
    int at = e->at;

    while (at > 0 && e->text[at - 1] == ' ')
        at--;
    while (at > 0 && e->text[at - 1] != ' ')
        at--;
    return at;
}

void edit_set(struct edit *e, const char *text)
{
    memset(e, 0, sizeof *e);
    edit_paste(e, text);
}

bool edit_key(struct edit *e, int key)
{
    char bytes[4];

    switch (key) {
    case K_LEFT:
        e->at = before(e, e->at);
        return true;
    case K_RIGHT:
        e->at = after(e, e->at);
        return true;
    case K_HOME:
    case K_CTRL('A'):
        e->at = 0;
        return true;
    case K_END:
    case K_CTRL('E'):
        e->at = e->len;
        return true;
    case K_BACKSPACE:
        erase(e, before(e, e->at), e->at);
        return true;
    case K_DELETE:
        erase(e, e->at, after(e, e->at));
        return true;
    case K_CTRL('U'):
        erase(e, 0, e->at);
        return true;
    case K_CTRL('K'):
        erase(e, e->at, e->len);
        return true;
    case K_CTRL('W'):
        erase(e, word_before(e), e->at);
        return true;
    }
    if (key < ' ' || key >= KEYCODE_BASE || utf8_width((uint32_t)key) < 0)
        return false;
    insert(e, bytes, utf8_put(bytes, (uint32_t)key));
    return true;
}

void edit_paste(struct edit *e, const char *text)
{
    while (*text && *text != '\n' && *text != '\r') {
        char bytes[4];
        uint32_t ch = utf8_next(&text);

        if (utf8_width(ch) >= 0)
            insert(e, bytes, utf8_put(bytes, ch));
    }
}

static int columns_between(const struct edit *e, int from, int to)
{
    char part[EDIT_SIZE];

    snprintf(part, sizeof part, "%.*s", to - from, e->text + from);
    return text_width(part);
}

void edit_draw(struct edit *e, struct canvas *c, const struct rect *r, int row, int col, int width)
{
    struct rect in = r ? *r : (struct rect){0, 0, c->rows, c->cols};
    struct rect field = {in.row + row, in.col + col, 1, width};

    if (width < 1)
        return;
    if (e->at < e->left)
        e->left = e->at;
    while (e->left < e->at && columns_between(e, e->left, e->at) > width - 1)
        e->left = after(e, e->left);
    canvas_fill(c, &field, ROLE_TEXT, ' ');
    canvas_text(c, &field, 0, 0, ROLE_TEXT, e->text + e->left);
    c->cursor_row = field.row;
    c->cursor_col = field.col + columns_between(e, e->left, e->at);
}
