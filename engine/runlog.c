#include "engine/runlog.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/file.h"

enum {
    GZIP = 15 + 16,             // zlib's windowBits for a gzip member
    MAX_MEMBER = 64 << 20,      // bytes of text in one member; more is no log of ours
    READ_CHUNK = 1 << 20,       // compressed bytes read at a time, grows for larger members
    MAX_COMPRESSED = 128 << 20, // an "incomplete" member larger than this is garbage
};

// ---- members ------------------------------------------------------------------------------------

enum member { MEMBER_COMPLETE, MEMBER_TORN, MEMBER_BAD };

// Inflates the member at the start of data into text (reset first) and says how long it is.
static enum member member_read(const unsigned char *data, size_t len, struct buf *text,
                               size_t *used)
{
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)data, .avail_in = (uInt)len};
    char chunk[16384];
    int rc = Z_OK;

    buf_reset(text);
    if (inflateInit2(&z, GZIP) != Z_OK)
        BUG("out of memory for zlib");
    while (rc == Z_OK && text->len <= MAX_MEMBER) {
        z.next_out = (unsigned char *)chunk;
        z.avail_out = sizeof chunk;
        rc = inflate(&z, Z_NO_FLUSH);
        if (rc == Z_OK || rc == Z_STREAM_END)
            buf_add(text, chunk, sizeof chunk - z.avail_out);
    }
    *used = len - z.avail_in;
    inflateEnd(&z);
    if (rc == Z_STREAM_END)
        return MEMBER_COMPLETE;
    return rc == Z_BUF_ERROR ? MEMBER_TORN : MEMBER_BAD;
}

// Offset of the first complete member at or after `from`, len if there is none. Its text is left
// in `text` and its length in *used.
static size_t member_find(const unsigned char *data, size_t len, size_t from, struct buf *text,
                          size_t *used)
{
    while (from < len) {
        const unsigned char *p = memchr(data + from, 0x1f, len - from);

        if (!p)
            break;
        from = (size_t)(p - data);
        if (len - from >= 3 && p[1] == 0x8b && p[2] == 8 &&
            member_read(p, len - from, text, used) == MEMBER_COMPLETE)
            return from;
        from++;
    }
    return len;
}

static int member_write(const struct buf *lines, struct buf *out)
{
    z_stream z = {.next_in = (unsigned char *)lines->data, .avail_in = (uInt)lines->len};
    char chunk[16384];
    int rc;

    buf_reset(out);
    if (deflateInit2(&z, 6, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        BUG("out of memory for zlib");
    do {
        z.next_out = (unsigned char *)chunk;
        z.avail_out = sizeof chunk;
        rc = deflate(&z, Z_FINISH);
        buf_add(out, chunk, sizeof chunk - z.avail_out);
    } while (rc == Z_OK);
    deflateEnd(&z);
    return rc == Z_STREAM_END ? 0 : -1;
}

// ---- writer -------------------------------------------------------------------------------------

struct runlog {
    char *path;
    int fd;
    off_t end;                   // after the last complete member; flush_lock
    bool has_tail;               // an incomplete member follows; flush_lock
    struct buf flushing, member; // lines being written, their gzip member; flush_lock
    struct buf lines;            // added since; add_lock
    pthread_mutex_t add_lock, flush_lock;
};

// Where the last complete member ends. What follows is a torn tail: a crash or a full disk left it.
static int find_end(struct runlog *log, size_t size, struct err *err)
{
    const unsigned char *p = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, log->fd, 0) : NULL;
    size_t at = 0, used, start;
    struct buf text = {0};
    int rc = 0;

    if (p == MAP_FAILED)
        return err_sys(err, "cannot map '%s'", log->path);
    while (at < size) {
        start = at;
        if (member_read(p + at, size - at, &text, &used) != MEMBER_COMPLETE)
            start = member_find(p, size, at + 1, &text, &used);
        if (start == size)
            break;
        at = start + used;
    }
    // a power cut may leave zeros; anything else at the start was never a log of ours
    if (at == 0 && size && p[0] != 0x1f && p[0] != 0)
        rc = err_set(err, "'%s' is no gzip file; it is left as it is", log->path);
    if (size)
        munmap((void *)(uintptr_t)p, size);
    log->end = (off_t)at;
    log->has_tail = rc == 0 && at < size;
    buf_release(&text);
    return rc;
}

static int cut_tail(struct runlog *log)
{
    if (log->has_tail && ftruncate(log->fd, log->end) < 0)
        return -1;
    log->has_tail = false;
    return 0;
}

struct runlog *runlog_open(const char *path, struct err *err)
{
    struct runlog *log = xcalloc(1, sizeof *log);
    struct stat st;

    log->path = xstrdup(path);
    pthread_mutex_init(&log->add_lock, NULL);
    pthread_mutex_init(&log->flush_lock, NULL);
    log->fd = open(path, O_RDWR | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0600);
    if (log->fd < 0 || fstat(log->fd, &st) < 0)
        err_sys(err, "cannot open '%s'", path);
    else if (!S_ISREG(st.st_mode))
        err_set(err, "'%s' is not a regular file", path);
    else if (find_end(log, (size_t)st.st_size, err) == 0 && cut_tail(log) == 0)
        return log;
    else if (log->has_tail)
        err_sys(err, "cannot cut the torn tail of '%s'", path);
    if (log->fd >= 0)
        close(log->fd);
    log->fd = -1;
    runlog_close(log, NULL);
    return NULL;
}

void runlog_add(struct runlog *log, json_t *line)
{
    char *text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(17));

    BUG_IF(!text);
    pthread_mutex_lock(&log->add_lock);
    buf_str(&log->lines, text);
    buf_str(&log->lines, "\n");
    pthread_mutex_unlock(&log->add_lock);
    free(text);
    json_decref(line);
}

static int append(struct runlog *log, struct err *err)
{
    if (cut_tail(log) < 0 || lseek(log->fd, log->end, SEEK_SET) < 0)
        return err_sys(err, "cannot write '%s'", log->path);
    log->has_tail = true;
    if (write_all(log->fd, log->member.data, log->member.len) < 0 || fdatasync(log->fd) < 0) {
        err_sys(err, "cannot write '%s'", log->path);
        cut_tail(log); // if even that fails, the next flush tries again before it writes
        return -1;
    }
    log->has_tail = false;
    log->end += (off_t)log->member.len;
    return 0;
}

int runlog_flush(struct runlog *log, struct err *err)
{
    int rc = 0;

    pthread_mutex_lock(&log->flush_lock);
    pthread_mutex_lock(&log->add_lock);
    buf_add(&log->flushing, log->lines.data, log->lines.len); // after lines of a failed flush
    buf_reset(&log->lines);
    pthread_mutex_unlock(&log->add_lock);
    if (log->flushing.len) {
        BUG_IF(member_write(&log->flushing, &log->member) < 0);
        rc = append(log, err);
        if (rc == 0)
            buf_reset(&log->flushing);
    }
    pthread_mutex_unlock(&log->flush_lock);
    return rc;
}

int runlog_close(struct runlog *log, struct err *err)
{
    int rc = 0;

    if (!log)
        return 0;
    if (log->fd >= 0) {
        rc = runlog_flush(log, err);
        if (close(log->fd) < 0 && rc == 0)
            rc = err_sys(err, "cannot close '%s'", log->path);
    }
    pthread_mutex_destroy(&log->add_lock);
    pthread_mutex_destroy(&log->flush_lock);
    buf_release(&log->flushing);
    buf_release(&log->member);
    buf_release(&log->lines);
    free(log->path);
    free(log);
    return rc;
}

// ---- reader -------------------------------------------------------------------------------------

struct poll {
    void (*fn)(void *user, const json_t *line);
    void *user;
    int lines, bad;
};

static void give_line(struct poll *p, const char *text, size_t len)
{
    json_t *line = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);

    if (json_is_object(line)) {
        p->lines++;
        p->fn(p->user, line);
    } else {
        p->bad++;
    }
    json_decref(line);
}

static void give_member(struct poll *p, const struct buf *text)
{
    const char *s = text->data, *end = s + text->len;

    while (s < end) {
        const char *newline = memchr(s, '\n', (size_t)(end - s));
        const char *stop = newline ? newline : end;

        if (stop > s)
            give_line(p, s, (size_t)(stop - s));
        s = stop + 1;
    }
}

// Gives the complete members in data; returns how many bytes are done with.
static size_t give_members(struct runlog_reader *r, struct poll *p, const unsigned char *data,
                           size_t len)
{
    struct buf text = {0};
    size_t at = 0, used, start;

    r->behind = false;
    while (at < len) {
        start = at;
        if (member_read(data + at, len - at, &text, &used) != MEMBER_COMPLETE) {
            // torn, still being written, or garbage: it is skipped once something good follows
            start = member_find(data, len, at + 1, &text, &used);
            if (start == len)
                break;
            p->bad++;
        }
        give_member(p, &text);
        at = start + used;
        if (r->max_lines && p->lines >= r->max_lines) {
            r->behind = at < len;
            break;
        }
    }
    buf_release(&text);
    return at;
}

static ssize_t read_at(int fd, struct buf *data, off_t offset, size_t want)
{
    char chunk[65536];
    ssize_t n = 1;

    buf_reset(data);
    while (data->len < want && n > 0) {
        size_t room = want - data->len < sizeof chunk ? want - data->len : sizeof chunk;

        n = pread(fd, chunk, room, offset + (off_t)data->len);
        if (n > 0)
            buf_add(data, chunk, (size_t)n);
    }
    return n < 0 ? -1 : (ssize_t)data->len;
}

static int poll_file(struct runlog_reader *r, struct poll *p, int fd, struct err *err)
{
    struct buf data = {0};
    size_t want = READ_CHUNK, done;
    ssize_t n;
    int rc = 0;

    for (;;) {
        n = read_at(fd, &data, r->offset, want);
        if (n < 0)
            rc = err_sys(err, "cannot read '%s'", r->path);
        if (n <= 0)
            break;
        done = give_members(r, p, (const unsigned char *)data.data, (size_t)n);
        r->offset += (long long)done;
        if (r->behind)
            break;
        if (done == 0 && want >= MAX_COMPRESSED) { // endless garbage
            r->offset += n;
            p->bad++;
        } else if ((size_t)n < want) { // the end of the file: perhaps an incomplete member
            break;
        }
        want = done ? READ_CHUNK : want * 2;
        if (r->max_lines && p->lines >= r->max_lines) {
            r->behind = true;
            break;
        }
    }
    buf_release(&data);
    return rc;
}

void runlog_reader_init(struct runlog_reader *r, const char *path)
{
    *r = (struct runlog_reader){0};
    BUG_IF(strlen(path) >= sizeof r->path);
    strcpy(r->path, path);
}

int runlog_poll(struct runlog_reader *r, void (*fn)(void *user, const json_t *line), void *user,
                int *bad, struct err *err)
{
    struct poll p = {.fn = fn, .user = user};
    int fd = open(r->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    int rc = 0;

    r->behind = false;
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(err, "cannot open '%s'", r->path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return err_set(err, "'%s' is not a regular file", r->path);
    }
    if (r->offset && ((unsigned long long)st.st_ino != r->inode || st.st_size < r->offset)) {
        r->offset = 0;
        r->restarts++;
    }
    r->inode = (unsigned long long)st.st_ino;
    if (st.st_size > r->offset)
        rc = poll_file(r, &p, fd, err);
    close(fd);
    if (bad)
        *bad += p.bad;
    return rc < 0 ? -1 : p.lines;
}

void runlog_reader_rewind(struct runlog_reader *r)
{
    r->offset = 0;
    r->behind = false;
}

void runlog_reader_release(struct runlog_reader *r)
{
    *r = (struct runlog_reader){0};
}
