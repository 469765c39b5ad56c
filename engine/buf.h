// Checked allocation, a growable byte buffer, and human units in both directions.
// Small host allocations abort on failure (xmalloc family); large blocks use plain malloc and
// report an error with the size asked. Any thread.
#ifndef ENGINE_BUF_H
#define ENGINE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *xmalloc(size_t size);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n, size_t size); // n * size, overflow checked
char *xstrdup(const char *s);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

// Bytes with a terminating NUL that is not counted in len. Zero-initialise; buf_release frees.
struct buf {
    char *data; // NULL while nothing was added
    size_t len, cap;
};
void buf_add(struct buf *b, const void *data, size_t len);
void buf_str(struct buf *b, const char *s);
void buf_fmt(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_reset(struct buf *b);             // len = 0, memory kept
void buf_consume(struct buf *b, size_t n); // drops the first n bytes
char *buf_detach(struct buf *b);           // caller frees; b is empty afterwards
void buf_release(struct buf *b);

// Human units. Each writes into out (at least UNIT_SIZE bytes) and returns it.
enum { UNIT_SIZE = 32 };
char *unit_count(char *out, double n);      // 181.907M, 1.2k, 17 (decimal K M B T)
char *unit_bytes(char *out, double n);      // 4.2GiB
// now against before in at most seven columns: "+1.25%", "-37.5%", "x12.4" from ten times on, "~0%",
// "new" where there was nothing, "" when equal. out: 16 bytes, returned.
char *change_text(char *out, double now, double before);

// A word of a shell command: as it is, or quoted where the shell would read it otherwise. Cut, never
// overrun; out is returned.
char *shell_word(const char *word, char *out, size_t size);

char *unit_duration(char *out, double s);   // 3h12m, 41s; "-" when unknown (negative, inf, nan)
char *unit_thousands(char *out, int64_t n); // 181,906,688

// The whole text must be a number with an optional unit; false otherwise (out untouched).
bool unit_parse_count(const char *s, int64_t *out); // 180M, 5B, 1_000, 1e9, 64KiB
bool unit_parse_float(const char *s, double *out);  // 1e-4, 0.2%, 3; finite only, no hex

#endif
