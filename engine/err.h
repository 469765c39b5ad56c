// One failure of the outside world (file, YAML, memory, device): where and what.
// Functions that can fail take `struct err *err` last and return -1 or NULL; the deepest place
// that knows the subject fills it once. Messages: lower case, problem first, subject in quotes,
// no full stop, the expected range included. Impossible states are BUG() instead.
#ifndef ENGINE_ERR_H
#define ENGINE_ERR_H

#include "kernels/bug.h"

struct err {
    char file[512]; // "" when no file is concerned
    int line, col;  // 1-based, 0 = unknown
    char text[1024];
};

#define ERR_INIT                                                                                   \
    {                                                                                              \
        .line = 0                                                                                  \
    }

// All return -1, so that callers can `return err_set(err, …)`. err may be NULL.
int err_set(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int err_at(struct err *err, const char *file, int line, int col, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
// Appends ": " and the text of errno.
int err_sys(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// "file:line:col: text", leaving out what is unknown. Returns out.
char *err_format(const struct err *err, char *out, unsigned long out_size);

#endif
