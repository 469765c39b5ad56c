#include "tui/run_tail.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TAIL_BYTES = 65536 };

void run_tail_open(struct run_tail *t, const char *run_dir)
{
    snprintf(t->path, sizeof(t->path), "%.500s/log.txt", run_dir);
    t->size = -1;
    t->back = 0;
    buf_reset(&t->text);
}

// Control characters would move the terminal's cursor; a first line that was cut is dropped.
static void clean(struct run_tail *t)
{
    for (size_t i = 0; i < t->text.len; i++) {
        unsigned char ch = (unsigned char)t->text.data[i];

        if (ch == '\t' || ch == '\r')
            t->text.data[i] = ' ';
        else if ((ch < 0x20 && ch != '\n') || ch == 0x7f)
            t->text.data[i] = '?';
    }
    if (t->cut && t->text.len > 0) {
        const char *nl = memchr(t->text.data, '\n', t->text.len);

        buf_consume(&t->text, nl ? (size_t)(nl + 1 - t->text.data) : 0);
    }
}

static void read_end(struct run_tail *t, int fd, int64_t size)
{
    char chunk[8192];
    int64_t at = size > TAIL_BYTES ? size - TAIL_BYTES : 0;

    t->cut = at > 0;
    buf_reset(&t->text);
    while (at < size) {
        int64_t left = size - at;
        size_t want = left < (int64_t)sizeof(chunk) ? (size_t)left : sizeof(chunk);
        ssize_t got = pread(fd, chunk, want, at);

        if (got <= 0)
            break;
        buf_add(&t->text, chunk, (size_t)got);
        at += got;
    }
    clean(t);
}

bool run_tail_poll(struct run_tail *t)
{
    int fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    bool fresh = false;

    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size != t->size) {
        t->size = st.st_size;
        read_end(t, fd, t->size);
        fresh = true;
    }
    close(fd);
    return fresh;
}

void run_tail_scroll(struct run_tail *t, int lines)
{
    t->back += lines;
    if (t->back < 0)
        t->back = 0;
}

static int count_lines(const struct buf *b)
{
    int n = 0;

    for (size_t i = 0; i < b->len; i++)
        n += b->data[i] == '\n';
    return n + (b->len > 0 && b->data[b->len - 1] != '\n');
}

void run_tail_draw(struct run_tail *t, struct canvas *c, const struct rect *r)
{
    int lines = count_lines(&t->text), first;
    const char *at = t->text.data, *end = at ? at + t->text.len : at;

    if (lines == 0) {
        canvas_text(c, r, 0, 0, ROLE_DIM, "log.txt is empty");
        return;
    }
    if (t->back > lines - r->rows)
        t->back = lines > r->rows ? lines - r->rows : 0;
    first = lines - t->back - r->rows;
    for (int i = 0; at < end; i++) {
        const char *nl = memchr(at, '\n', (size_t)(end - at));
        int len = (int)((nl ? nl : end) - at);

        if (i >= first && i - (first > 0 ? first : 0) < r->rows)
            canvas_fmt(c, r, i - (first > 0 ? first : 0), 0, ROLE_TEXT, "%.*s",
                       len > 500 ? 500 : len, at);
        at = nl ? nl + 1 : end;
    }
}

void run_tail_release(struct run_tail *t)
{
    buf_release(&t->text);
}
