#include "engine/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void fill(struct err *err, const char *file, int line, int col, const char *fmt, va_list ap)
{
    if (!err)
        return;
    snprintf(err->file, sizeof err->file, "%s", file ? file : "");
    err->line = line;
    err->col = col;
    vsnprintf(err->text, sizeof err->text, fmt, ap);
}

int err_set(struct err *err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fill(err, NULL, 0, 0, fmt, ap);
    va_end(ap);
    return -1;
}

int err_at(struct err *err, const char *file, int line, int col, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fill(err, file, line, col, fmt, ap);
    va_end(ap);
    return -1;
}

int err_sys(struct err *err, const char *fmt, ...)
{
    const char *why = strerror(errno);
    va_list ap;
    size_t used;

    va_start(ap, fmt);
    fill(err, NULL, 0, 0, fmt, ap);
    va_end(ap);
    if (err) {
        used = strlen(err->text);
        snprintf(err->text + used, sizeof err->text - used, ": %s", why);
    }
    return -1;
}

char *err_format(const struct err *err, char *out, unsigned long out_size)
{
    if (!err->file[0])
        snprintf(out, out_size, "%s", err->text);
    else if (err->line <= 0)
        snprintf(out, out_size, "%s: %s", err->file, err->text);
    else if (err->col <= 0)
        snprintf(out, out_size, "%s:%d: %s", err->file, err->line, err->text);
    else
        snprintf(out, out_size, "%s:%d:%d: %s", err->file, err->line, err->col, err->text);
    return out;
}
