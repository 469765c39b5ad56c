#include "tui/utf8.h"

#include <wchar.h>

enum { REPLACEMENT = 0xfffd };

uint32_t utf8_next(const char **s)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *p = (const unsigned char *)*s;
    int len = p[0] < 0x80   ? 1
              : p[0] < 0xc2 ? 0
              : p[0] < 0xe0 ? 2
              : p[0] < 0xf0 ? 3
              : p[0] < 0xf5 ? 4
                            : 0;
    uint32_t ch;

    *s += 1;
    if (len == 1)
        return p[0];
    if (len == 0)
        return REPLACEMENT;
    ch = p[0] & (0x7f >> len);
    for (int i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return REPLACEMENT; // the next call starts at the byte after the first one
        ch = ch << 6 | (p[i] & 0x3f);
    }
    if (ch < smallest[len] || ch > 0x10ffff || (ch >= 0xd800 && ch < 0xe000))
        return REPLACEMENT;
    *s += len - 1;
    return ch;
}

int utf8_put(char *out, uint32_t ch)
{
    int n = ch < 0x80 ? 1 : ch < 0x800 ? 2 : ch < 0x10000 ? 3 : 4;

    if (n == 1) {
        out[0] = (char)ch;
        return 1;
    }
    for (int i = n - 1; i > 0; i--, ch >>= 6)
        out[i] = (char)(0x80 | (ch & 0x3f));
    out[0] = (char)((0xf00 >> n) | ch);
    return n;
}

int utf8_width(uint32_t ch)
{
    int w;

    if (ch < 0x20 || (ch >= 0x7f && ch < 0xa0))
        return -1;
    if (ch < 0x300)
        return 1;
    w = wcwidth((wchar_t)ch);
    return w < 0 ? 1 : w; // the C locale knows no width above ASCII
}
