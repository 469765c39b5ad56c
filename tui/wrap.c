#include "tui/wrap.h"

#include <string.h>

// Bytes of the longest start of text that fits into `cols` columns and ends before a blank, or in
// the middle of a word when that is wider than half a line.
static int break_at(const char *text, int cols)
{
    int len = (int)strlen(text), cut = 0, used = 0;

    for (int i = 0; i < len && used <= cols; i++) {
        if (((unsigned char)text[i] & 0xc0) == 0x80)
            continue;
        if (used == cols || text[i] == ' ')
            cut = i;
        if (used == cols && text[i] != ' ') {
            int word = i;

            while (word > 0 && text[word - 1] != ' ')
                word--;
            return word > i / 2 ? word - 1 : i;
        }
        used++;
    }
    return used <= cols ? len : cut;
}

int wrap_lines(const char *text, int cols)
{
    int lines = 0;

    for (; *text && cols >= 1; lines++) {
        text += break_at(text, cols);
        text += strspn(text, " ");
    }
    return lines;
}

int wrap_text(struct canvas *c, const struct rect *r, int row, int lines, enum role role,
              const char *text)
{
    int used = 0;

    if (r->cols < 1)
        return 0;
    while (*text && used < lines && row + used < r->rows) {
        int cut = break_at(text, r->cols);

        canvas_fmt(c, r, row + used++, 0, role, "%.*s", cut, text);
        text += cut;
        text += strspn(text, " ");
    }
    return used;
}
