// UTF-8 one character at a time, independent of the locale. Any thread.
#ifndef TUI_UTF8_H
#define TUI_UTF8_H

#include <stdint.h>

// The character at *s, which moves past it; *s must not point at the final NUL. Bytes that are no
// UTF-8 give U+FFFD each.
uint32_t utf8_next(const char **s);

// Writes ch into out (room for 4 bytes, no NUL); returns the bytes written.
int utf8_put(char *out, uint32_t ch);

// Columns on a terminal: 0, 1 or 2; -1 for a control character.
int utf8_width(uint32_t ch);

#endif
