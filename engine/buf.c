#include "engine/buf.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/bug.h"

static void *check(void *p, size_t size)
{
    if (!p && size)
        BUG("out of memory asking for %zu bytes", size);
    return p;
}

void *xmalloc(size_t size)
{
    return check(malloc(size), size);
}

void *xcalloc(size_t n, size_t size)
{
    return check(calloc(n, size), n && size);
}

void *xrealloc(void *p, size_t n, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(n, size, &total))
        BUG("size overflow: %zu * %zu", n, size);
    return check(realloc(p, total ? total : 1), total);
}

char *xstrdup(const char *s)
{
    return check(strdup(s), strlen(s) + 1);
}

char *xasprintf(const char *fmt, ...)
{
    va_list ap;
    char *s;

    va_start(ap, fmt);
    if (vasprintf(&s, fmt, ap) < 0)
        BUG("out of memory formatting '%s'", fmt);
    va_end(ap);
    return s;
}

static void grow(struct buf *b, size_t extra)
{
    size_t need = b->len + extra + 1;

    if (need <= b->cap)
        return;
    b->cap = need < 64 ? 64 : need + need / 2;
    b->data = xrealloc(b->data, b->cap, 1);
}

void buf_add(struct buf *b, const void *data, size_t len)
{
    grow(b, len);
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void buf_str(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_fmt(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    BUG_IF(n < 0);
    grow(b, (size_t)n);
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

void buf_consume(struct buf *b, size_t n)
{
    BUG_IF(n > b->len);
    if (!b->data)
        return;
    memmove(b->data, b->data + n, b->len - n + 1);
    b->len -= n;
}

char *buf_detach(struct buf *b)
{
    char *data = b->data ? b->data : xstrdup("");

    *b = (struct buf){0};
    return data;
}

void buf_release(struct buf *b)
{
    free(b->data);
    *b = (struct buf){0};
}

struct unit {
    double size;
    const char *name;
};

// Four significant digits at most, so that columns keep their width while a value grows.
static char *with_unit(char *out, double n, const struct unit *units, int last)
{
    int i = last;

    while (i > 0 && fabs(n) < units[i].size * 0.9995)
        i--;
    if (units[i].size == 1 && n == floor(n) && fabs(n) < 1e4)
        snprintf(out, UNIT_SIZE, "%.0f%s", n, units[i].name);
    else
        snprintf(out, UNIT_SIZE, "%.4g%s", n / units[i].size, units[i].name);
    return out;
}

char *unit_count(char *out, double n)
{
    static const struct unit units[] = {{1, ""},     {1e3, "k"},  {1e6, "M"},
                                        {1e9, "G"},  {1e12, "T"}, {1e15, "P"},
                                        {1e18, "E"}, {1e21, "Z"}, {1e24, "Y"}};

    return with_unit(out, n, units, 8);
}

char *unit_bytes(char *out, double n)
{
    static const struct unit units[] = {
        {1, "B"}, {1024., "KiB"}, {1048576., "MiB"}, {1073741824., "GiB"}, {1099511627776., "TiB"}};

    return with_unit(out, n, units, 4);
}

char *unit_duration(char *out, double s)
{
    if (!isfinite(s) || s < 0)
        snprintf(out, UNIT_SIZE, "-");
    else if (s < 10)
        snprintf(out, UNIT_SIZE, "%.1fs", s);
    else if (s < 60)
        snprintf(out, UNIT_SIZE, "%.0fs", s);
    else if (s < 3600)
        snprintf(out, UNIT_SIZE, "%dm%02ds", (int)s / 60, (int)s % 60);
    else if (s < 86400)
        snprintf(out, UNIT_SIZE, "%dh%02dm", (int)s / 3600, (int)s / 60 % 60);
    else
        snprintf(out, UNIT_SIZE, "%.0fd%02dh", floor(s / 86400), (int)fmod(s / 3600, 24));
    return out;
}

char *unit_thousands(char *out, int64_t n)
{
    char digits[UNIT_SIZE];
    uint64_t size = n < 0 ? -(uint64_t)n : (uint64_t)n; // the least number has no positive one
    int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)size);
    char *p = out;

    if (n < 0)
        *p++ = '-';
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            *p++ = ',';
        *p++ = digits[i];
    }
    *p = '\0';
    return out;
}

// Copies s without '_' between digits and without a 0x prefix or "inf"/"nan", which strtod takes.
static bool plain_number(const char *s, char *out, size_t size)
{
    size_t n = 0;

    for (const char *p = s; *p; p++) {
        if (*p == '_' && p > s && isdigit((unsigned char)p[-1]) && isdigit((unsigned char)p[1]))
            continue;
        if (*p == '_' || n + 1 >= size || (unsigned char)*p < ' ')
            return false;
        out[n++] = *p;
    }
    out[n] = '\0';
    if (!isdigit((unsigned char)out[0]) && !strchr("+-.", out[0]))
        return false;
    return n > 0 && !strpbrk(out, "xX") && !strpbrk(out, "nN");
}

bool unit_parse_float(const char *s, double *out)
{
    char text[64], *end;
    double v;

    if (!plain_number(s, text, sizeof text))
        return false;
    v = strtod(text, &end);
    if (end == text)
        return false;
    if (!strcmp(end, "%"))
        v /= 100;
    else if (*end)
        return false;
    if (!isfinite(v))
        return false;
    *out = v;
    return true;
}

bool unit_parse_count(const char *s, int64_t *out)
{
    static const struct unit units[] = {
        {1, ""},    {1e3, "k"},  {1e3, "K"},     {1e6, "M"},        {1e9, "B"},
        {1e9, "G"}, {1e12, "T"}, {1024., "KiB"}, {1048576., "MiB"}, {1073741824., "GiB"}};
    char text[64], *end;
    double v;

    if (!plain_number(s, text, sizeof text))
        return false;
    v = strtod(text, &end);
    if (end == text)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].name))
            continue;
        v *= units[i].size;
        // beyond 2^53 a double no longer holds every integer
        if (fabs(v) > 9007199254740992. || fabs(v - nearbyint(v)) > 1e-6 * (1 + fabs(v)) * 1e-6)
            return false;
        *out = (int64_t)nearbyint(v);
        return true;
    }
    return false;
}

char *shell_word(const char *word, char *out, size_t size)
{
    size_t n = 0;

    if (word[0] && !strpbrk(word, " \t\n'\"\\$`!*?[]{}()<>|&;#~")) {
        snprintf(out, size, "%s", word);
        return out;
    }
    for (const char *at = word; *at && n + 8 < size; at++) {
        if (n == 0)
            out[n++] = '\'';
        if (*at == '\'')
            n += (size_t)snprintf(out + n, size - n, "'\\''");
        else
            out[n++] = *at;
    }
    snprintf(out + n, size - n, n ? "'" : "''");
    return out;
}

char *change_text(char *out, double now, double before)
{
    double change = 100 * (now - before) / before, times = now / before;

    if (now == before)
        out[0] = 0;
    else if (before == 0)
        strcpy(out, "new");
    else if (fabs(change) < 0.005)
        strcpy(out, "~0%");
    else if (times < 10)
        snprintf(out, 16, "%+.*f%%", fabs(change) < 9.995 ? 2 : fabs(change) < 99.95 ? 1 : 0,
                 change);
    else
        snprintf(out, 16, times < 999.5 ? "x%.3g" : times < 99999.5 ? "x%.0f" : "x%.0e", times);
    return out;
}
