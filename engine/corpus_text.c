// Reading text, cutting it into documents, choosing the side of the split.
#include "engine/corpus_internal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "engine/buf.h"
#include "engine/rng.h"
#include "engine/shard.h"

// ---- reading ------------------------------------------------------------------------------------

static int grow_text(struct corpus_text *t, size_t need, const char *path, struct err *err)
{
    size_t cap = t->cap ? t->cap : 1 << 20;
    char *data;

    while (cap < need)
        cap += cap / 2;
    if (cap == t->cap)
        return 0;
    data = realloc(t->data, cap);
    if (!data)
        return err_set(err, "out of memory for the text of '%s' (%zu bytes); prepare it in parts",
                       path, cap);
    t->data = data;
    t->cap = cap;
    return 0;
}

static double share_read(gzFile gz, int64_t file_size)
{
    double share = file_size > 0 ? (double)gzoffset(gz) / (double)file_size : 1;

    return share < 1 ? share : 1;
}

// gzip and plain text alike; the file offset stands at the start.
static int read_gz(int fd, const char *path, int64_t file_size, struct corpus_text *t,
                   const struct corpus_options *o, struct err *err)
{
    enum { STEP = 1 << 18 };
    gzFile gz = gzdopen(fd, "rb");
    const char *why;
    int n = -1, code;

    if (!gz) {
        close(fd);
        return err_set(err, "cannot read '%s': out of memory", path);
    }
    gzbuffer(gz, STEP);
    while (grow_text(t, t->len + STEP, path, err) == 0 &&
           (n = gzread(gz, t->data + t->len, STEP))) {
        if (n < 0)
            break;
        t->len += (size_t)n;
        if (corpus_progress(o, "reading", share_read(gz, file_size), err) < 0)
            break;
    }
    why = gzerror(gz, &code);
    if (n == 0 && code != Z_OK && code != Z_STREAM_END) // a truncated member ends without an error
        n = -1;
    if (n < 0 && code != Z_OK)
        err_set(err, "cannot read '%s': %s", path, code == Z_ERRNO ? strerror(errno) : why);
    gzclose_r(gz);
    return n == 0 ? 0 : -1;
}

static int check_file(const char *path, const struct stat *st, const char *head, size_t n,
                      struct err *err)
{
    enum shard_layout layout = shard_sniff(head, n);

    if (S_ISDIR(st->st_mode))
        return err_set(err, "'%s' is a directory; name the text files in it", path);
    if (!S_ISREG(st->st_mode))
        return err_set(err, "'%s' is no regular file", path);
    if (layout != LAYOUT_TEXT && layout != LAYOUT_GZIP && layout != LAYOUT_UNKNOWN)
        return err_set(err, "'%s' is %s, no text; %s", path, shard_layout_name(layout),
                       shard_layout_advice(layout));
    return 0;
}

int corpus_read(const char *path, struct corpus_text *t, const struct corpus_options *o,
                struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t start = t->len;
    struct stat st;
    char head[4096];
    ssize_t n;

    if (fd < 0)
        return err_sys(err, "cannot open '%s'", path);
    if (fstat(fd, &st) < 0) {
        close(fd);
        return err_sys(err, "cannot read '%s'", path);
    }
    n = S_ISREG(st.st_mode) ? pread(fd, head, sizeof head, 0) : 0;
    if (check_file(path, &st, head, n > 0 ? (size_t)n : 0, err) < 0) {
        close(fd);
        return -1;
    }
    if (read_gz(fd, path, st.st_size, t, o, err) < 0) // closes fd
        return -1;
    if (memchr(t->data + start, '\0', t->len - start))
        return err_set(err, "'%s' holds NUL bytes and is no text", path);
    return 0;
}

// ---- cutting ------------------------------------------------------------------------------------

struct cutter {
    const char *text;
    struct corpus_doc *docs;
    int64_t n, cap, entries;
};

static void add_part(struct cutter *c, size_t start, size_t end)
{
    c->entries++;
    while (start < end && (c->text[start] == '\n' || c->text[start] == '\r'))
        start++;
    while (end > start && isspace((unsigned char)c->text[end - 1]))
        end--;
    if (start == end)
        return;
    if (c->n == c->cap) {
        c->cap = c->cap ? c->cap * 2 : 1024;
        c->docs = xrealloc(c->docs, (size_t)c->cap, sizeof *c->docs);
    }
    c->docs[c->n++] = (struct corpus_doc){start, end - start};
}

static void cut_at(struct cutter *c, size_t len, const char *separator)
{
    size_t n = strlen(separator), start = 0;
    const char *hit;

    while ((hit = memmem(c->text + start, len - start, separator, n))) {
        add_part(c, start, (size_t)(hit - c->text));
        start = (size_t)(hit - c->text) + n;
    }
    add_part(c, start, len);
}

// "\n\n" before a byte that is no space, tab or line end.
static void cut_entries(struct cutter *c, size_t len)
{
    size_t start = 0, at = 0;
    const char *hit;

    while ((hit = memchr(c->text + at, '\n', len - at))) {
        size_t i = (size_t)(hit - c->text);

        at = i + 1;
        if (i + 2 >= len || c->text[i + 1] != '\n' || isspace((unsigned char)c->text[i + 2]))
            continue;
        add_part(c, start, i);
        start = at = i + 2;
    }
    add_part(c, start, len);
}

static bool is_blank(const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isspace((unsigned char)line[i]))
            return false;
    return true;
}

static void cut_paragraphs(struct cutter *c, size_t len)
{
    size_t start = 0, at = 0;
    bool inside = false;

    while (at < len) {
        const char *end = memchr(c->text + at, '\n', len - at);
        size_t next = end ? (size_t)(end - c->text) + 1 : len;
        bool blank = is_blank(c->text + at, next - at);

        if (blank && inside)
            add_part(c, start, at);
        if (!blank && !inside)
            start = at;
        inside = !blank;
        at = next;
    }
    if (inside)
        add_part(c, start, len);
}

int64_t corpus_split(const char *text, size_t len, enum corpus_cut cut, const char *separator,
                     struct corpus_doc **docs, int64_t *entries)
{
    struct cutter c = {.text = text};

    BUG_IF(cut == CORPUS_CUT_SEPARATOR && !separator[0]);
    if (cut == CORPUS_CUT_SEPARATOR)
        cut_at(&c, len, separator);
    else if (cut == CORPUS_CUT_ENTRIES)
        cut_entries(&c, len);
    else
        cut_paragraphs(&c, len);
    *docs = c.docs;
    if (entries)
        *entries = c.entries;
    return c.n;
}

// ---- the split ----------------------------------------------------------------------------------

// FNV-1a over the bytes, then the keyed finaliser of the random numbers.
uint64_t corpus_hash(const char *doc, size_t len, int64_t seed)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)doc[i]) * 0x100000001b3u;
    return rng_u64(rng_key((uint64_t)seed, "validation"), h);
}

bool corpus_is_validation(const char *doc, size_t len, int64_t seed, double share)
{
    return (double)(corpus_hash(doc, len, seed) >> 11) * 0x1p-53 < share;
}
