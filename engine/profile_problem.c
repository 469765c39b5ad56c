#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/profile_read.h"

size_t utf8_sequence(const unsigned char *s, size_t left)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    unsigned min_second = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    unsigned max_second = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;

    if (n == 0 || n > left || s[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return n == 1 || (s[1] >= min_second && s[1] <= max_second) ? n : 0;
}

// Characters that a terminal would take as commands: C0, DEL and C1 (U+0080..U+009F).
static bool is_control(const unsigned char *s, size_t n)
{
    return s[0] < ' ' || s[0] == 0x7f || (n == 2 && s[0] == 0xc2 && s[1] < 0xa0);
}

// Copies the line that starts at text as far as it fits, one blank for what cannot be printed.
// Returns the number of bytes read.
static size_t copy_line(char *out, size_t size, const char *text, const char *end)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t left = (size_t)(end - text), used = 0;

    while (left && *s && *s != '\n' && *s != '\r') {
        size_t n = utf8_sequence(s, left);
        bool is_plain = n && !is_control(s, n);

        n = n ? n : 1;
        if (used + n >= size)
            break;
        if (is_plain)
            memcpy(out + used, s, n);
        else
            out[used] = ' ';
        used += is_plain ? n : 1;
        s += n;
        left -= n;
    }
    out[used] = '\0';
    return (size_t)(end - text) - left;
}

const char *quote(char *out, const char *s)
{
    size_t len = strlen(s);

    if (copy_line(out, QUOTE_SIZE - 4, s, s + len) < len)
        strcat(out, "...");
    return out;
}

// Names of files and parts of them may reach a message unquoted.
static void blank_controls(char *text)
{
    unsigned char *s = (unsigned char *)text;

    while (*s) {
        size_t n = utf8_sequence(s, strlen((char *)s));

        if (!n || is_control(s, n))
            memset(s, ' ', n ? n : 1);
        s += n ? n : 1;
    }
}

// The text of the line, when the column lies in the part that fits.
static void copy_source(struct problem *pr, const struct doc *doc)
{
    const char *s = doc->text, *end = doc->text + doc->len;
    size_t used = 0;

    for (int line = 1; line < pr->err.line && s; line++) {
        s = memchr(s, '\n', (size_t)(end - s));
        s = s ? s + 1 : NULL;
    }
    if (!s || pr->err.col < 1 || pr->err.col > (int)sizeof pr->source / 2)
        return;
    if (pr->err.line == 1) {
        copy_line(pr->source, sizeof pr->source, doc->prefix, doc->prefix + strlen(doc->prefix));
        used = strlen(pr->source);
    }
    copy_line(pr->source + used, sizeof pr->source - used, s, end);
}

void problem_add(struct problems *p, enum severity severity, const struct doc *doc, int line,
                 int col, const char *path, const char *fmt, ...)
{
    char text[sizeof((struct err *)0)->text];
    struct problem *pr;
    va_list ap;

    p->errors += severity == SEV_ERROR;
    if (p->n >= PROFILE_MAX_PROBLEMS)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    p->v = xrealloc(p->v, (size_t)p->n + 1, sizeof *p->v);
    pr = &p->v[p->n++];
    memset(pr, 0, sizeof *pr);
    pr->severity = severity;
    snprintf(pr->path, sizeof pr->path, "%s", path);
    if (p->n == PROFILE_MAX_PROBLEMS) {
        pr->path[0] = '\0';
        snprintf(text, sizeof text, "more than %d problems, the rest is not listed", p->n - 1);
        line = col = 0;
    }
    err_at(&pr->err, doc ? doc->name : NULL, line, col, "%s", text);
    blank_controls(pr->err.file);
    blank_controls(pr->err.text);
    blank_controls(pr->path);
    if (doc && line > 0)
        copy_source(pr, doc);
}

// Where the file of problem i comes first: problems of one file stand together.
static int file_rank(const struct problems *p, int from, int i)
{
    int rank = from;

    while (strcmp(p->v[rank].err.file, p->v[i].err.file))
        rank++;
    return rank;
}

struct order {
    int rank, line, col, index;
};

static int compare_order(const void *a, const void *b)
{
    const struct order *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank - y->rank;
    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    if (x->col != y->col)
        return x->col < y->col ? -1 : 1;
    return x->index - y->index;
}

void problems_sort(struct problems *p, int from)
{
    // the last place may hold the word that there are more
    int n = (p->n == PROFILE_MAX_PROBLEMS ? p->n - 1 : p->n) - from;
    struct order order[PROFILE_MAX_PROBLEMS];
    struct problem *sorted;

    if (n < 2)
        return;
    for (int i = 0; i < n; i++)
        order[i] = (struct order){file_rank(p, from, from + i), p->v[from + i].err.line,
                                  p->v[from + i].err.col, from + i};
    qsort(order, (size_t)n, sizeof order[0], compare_order);
    sorted = xcalloc((size_t)n, sizeof *sorted);
    for (int i = 0; i < n; i++)
        sorted[i] = p->v[order[i].index];
    memcpy(p->v + from, sorted, (size_t)n * sizeof *sorted);
    free(sorted);
}

void problems_release(struct problems *p)
{
    free(p->v);
    *p = (struct problems){0};
}

static void print_source(const struct problem *pr, FILE *out)
{
    // tabs were turned into blanks, so that the caret stands right
    fprintf(out, "    %s\n    %*s\n", pr->source, pr->err.col, "^");
}

void problems_print(const struct problems *p, FILE *out)
{
    static const char *const words[] = {"", "warning: ", "note: "};

    for (int i = 0; i < p->n; i++) {
        const struct problem *pr = &p->v[i];
        const struct err *e = &pr->err;

        if (e->file[0])
            fprintf(out, "%s:", e->file);
        if (e->line > 0)
            fprintf(out, "%d:%d:", e->line, e->col);
        fprintf(out, "%s%s%s%s%s\n", e->file[0] ? " " : "", words[pr->severity], pr->path,
                pr->path[0] ? ": " : "", e->text);
        if (pr->source[0] && pr->severity == SEV_ERROR)
            print_source(pr, out);
    }
}
