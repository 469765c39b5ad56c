// Writing a token file with its index and sidecar.
#include "engine/shard.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>
#include <zlib.h>

#include "engine/buf.h"
#include "engine/file.h"

enum { CHUNK = 1 << 20 }; // bytes collected before a write

// One file under its temporary name.
struct part {
    char *tmp, *path;
    int fd;
    struct buf pending;
};

enum { PART_INDEX, PART_SIDECAR, PART_TOKENS, N_PARTS }; // the order of the renames

struct shard_writer {
    struct part part[N_PARTS];
    int width; // bytes per id
    bool finished;
    int vocab, eot;
    int64_t tokens, documents, source_bytes, seed;
    uint32_t crc;
    char *tokenizer, *source, *license, *split, *recipe;
};

static int part_open(struct part *p, const char *path, const char *suffix, struct err *err)
{
    p->path = xasprintf("%s%s", path, suffix);
    p->tmp = xasprintf("%s.%d.tmp", p->path, (int)getpid());
    p->fd = open(p->tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (p->fd < 0)
        return err_sys(err, "cannot create '%s'", p->tmp);
    return 0;
}

static int part_flush(struct part *p, struct err *err)
{
    if (p->pending.len && write_all(p->fd, p->pending.data, p->pending.len) < 0)
        return err_sys(err, "cannot write '%s'", p->path);
    buf_reset(&p->pending);
    return 0;
}

static int part_add(struct part *p, const void *data, size_t n, struct err *err)
{
    buf_add(&p->pending, data, n);
    return p->pending.len >= CHUNK ? part_flush(p, err) : 0;
}

static int part_finish(struct part *p, struct err *err)
{
    int fd = p->fd;

    if (part_flush(p, err) < 0)
        return -1;
    if (fsync(fd) < 0)
        return err_sys(err, "cannot write '%s'", p->path);
    p->fd = -1;
    if (close(fd) < 0)
        return err_sys(err, "cannot close '%s'", p->path);
    return 0;
}

static int part_rename(struct part *p, struct err *err)
{
    if (rename(p->tmp, p->path) < 0)
        return err_sys(err, "cannot rename '%s' to '%s'", p->tmp, p->path);
    free(p->tmp);
    p->tmp = NULL;
    return 0;
}

static void part_release(struct part *p)
{
    if (p->fd >= 0)
        close(p->fd);
    if (p->tmp)
        unlink(p->tmp);
    free(p->tmp);
    free(p->path);
    buf_release(&p->pending);
}

static char *copy(const char *s)
{
    return xstrdup(s ? s : "");
}

struct shard_writer *shard_create(const char *path, const struct shard_meta *meta, struct err *err)
{
    static const char *const suffix[N_PARTS] = {".index", ".json", ""};
    static const int32_t no_header[SHARD_HEADER_INTS]; // filled in at commit
    struct shard_writer *w;

    BUG_IF(meta->vocab < 1 || meta->vocab > SHARD_MAX_VOCAB);
    BUG_IF(meta->eot < 0 || meta->eot >= meta->vocab);
    w = xcalloc(1, sizeof *w);
    *w = (struct shard_writer){.width = meta->vocab > 65536 ? 4 : 2,
                               .vocab = meta->vocab,
                               .eot = meta->eot,
                               .seed = meta->seed,
                               .crc = (uint32_t)crc32(0, NULL, 0),
                               .tokenizer = copy(meta->tokenizer),
                               .source = copy(meta->source),
                               .license = copy(meta->license),
                               .split = copy(meta->split),
                               .recipe = copy(meta->recipe)};
    for (int i = 0; i < N_PARTS; i++)
        w->part[i].fd = -1;
    for (int i = 0; i < N_PARTS; i++)
        if (part_open(&w->part[i], path, suffix[i], err) < 0)
            goto fail;
    if (part_add(&w->part[PART_TOKENS], no_header, SHARD_HEADER_SIZE, err) < 0)
        goto fail;
    return w;
fail:
    shard_abort(w);
    return NULL;
}

void shard_abort(struct shard_writer *w)
{
    if (!w)
        return;
    for (int i = 0; i < N_PARTS; i++)
        part_release(&w->part[i]);
    free(w->tokenizer);
    free(w->source);
    free(w->license);
    free(w->split);
    free(w->recipe);
    free(w);
}

static int put_ids(struct shard_writer *w, const void *ids, int64_t n, struct err *err)
{
    size_t size = (size_t)n * (size_t)w->width;

    w->crc = (uint32_t)crc32_z(w->crc, ids, size);
    w->tokens += n;
    return part_add(&w->part[PART_TOKENS], ids, size, err);
}

static int end_document(struct shard_writer *w, int64_t source_bytes, struct err *err)
{
    uint32_t eot32 = (uint32_t)w->eot;
    uint16_t eot16 = (uint16_t)w->eot;
    uint64_t end;

    if (put_ids(w, w->width == 2 ? (void *)&eot16 : (void *)&eot32, 1, err) < 0)
        return -1;
    w->documents++;
    w->source_bytes += source_bytes;
    end = (uint64_t)w->tokens;
    return part_add(&w->part[PART_INDEX], &end, sizeof end, err);
}

// The count in the header is an int32.
static int check_room(const struct shard_writer *w, int64_t n, struct err *err)
{
    if (n <= INT32_MAX - 1 - w->tokens)
        return 0;
    return err_set(err,
                   "'%s' would exceed 2147483647 tokens, the most one token file can hold; "
                   "prepare the text in several parts",
                   w->part[PART_TOKENS].path);
}

static int check_id(const struct shard_writer *w, uint32_t id, struct err *err)
{
    if (id < (uint32_t)w->vocab && id != (uint32_t)w->eot)
        return 0;
    return err_set(err, "id %u of document %lld is %s (expected 0..%d, end-of-text %d apart)", id,
                   (long long)w->documents, id == (uint32_t)w->eot ? "end-of-text" : "too large",
                   w->vocab - 1, w->eot);
}

int shard_add(struct shard_writer *w, const uint16_t *ids, int64_t n, int64_t source_bytes,
              struct err *err)
{
    uint32_t *wide;
    int rc;

    if (w->width == 4) {
        wide = xmalloc((size_t)n * sizeof *wide + 1);
        for (int64_t i = 0; i < n; i++)
            wide[i] = ids[i];
        rc = shard_add32(w, wide, n, source_bytes, err);
        free(wide);
        return rc;
    }
    if (check_room(w, n, err) < 0)
        return -1;
    for (int64_t i = 0; i < n; i++)
        if (check_id(w, ids[i], err) < 0)
            return -1;
    if (put_ids(w, ids, n, err) < 0)
        return -1;
    return end_document(w, source_bytes, err);
}

int shard_add32(struct shard_writer *w, const uint32_t *ids, int64_t n, int64_t source_bytes,
                struct err *err)
{
    uint16_t *narrow;
    int rc = 0;

    if (check_room(w, n, err) < 0)
        return -1;
    for (int64_t i = 0; i < n; i++)
        if (check_id(w, ids[i], err) < 0)
            return -1;
    if (w->width == 4) {
        rc = put_ids(w, ids, n, err);
    } else {
        narrow = xmalloc((size_t)n * sizeof *narrow + 1);
        for (int64_t i = 0; i < n; i++)
            narrow[i] = (uint16_t)ids[i];
        rc = put_ids(w, narrow, n, err);
        free(narrow);
    }
    return rc < 0 ? -1 : end_document(w, source_bytes, err);
}

static int write_header(struct shard_writer *w, struct err *err)
{
    struct part *p = &w->part[PART_TOKENS];
    int32_t header[SHARD_HEADER_INTS] = {
        [SHARD_AT_MAGIC] = w->width == 2 ? SHARD_MAGIC_U16 : SHARD_MAGIC_U32,
        [SHARD_AT_VERSION] = w->width == 2 ? 1 : 7,
        [SHARD_AT_COUNT] = (int32_t)w->tokens,
        [SHARD_AT_MARK] = SHARD_MARK,
        [SHARD_AT_REVISION] = 1,
        [SHARD_AT_VOCAB] = w->vocab,
        [SHARD_AT_EOT] = w->eot,
    };

    if (part_flush(p, err) < 0)
        return -1;
    if (pwrite(p->fd, header, sizeof header, 0) != (ssize_t)sizeof header)
        return err_sys(err, "cannot write '%s'", p->path);
    return 0;
}

// Text that is no UTF-8 (a file name, say) is left out rather than failing the sidecar.
static void put_text(json_t *j, const char *key, const char *text)
{
    if (text[0])
        json_object_set_new(j, key, json_string(text));
}

static int write_sidecar(struct shard_writer *w, struct err *err)
{
    json_t *j = json_pack("{s:s s:s s:i s:i s:s}", "format", "lathe tokens 1", "dtype",
                          w->width == 2 ? "uint16" : "uint32", "vocab", w->vocab, "eot", w->eot,
                          "eot_placement", "appended");
    char crc[16], *text;
    int rc;

    put_text(j, "tokenizer", w->tokenizer);
    put_text(j, "source", w->source);
    put_text(j, "license", w->license);
    put_text(j, "split", w->split);
    put_text(j, "recipe", w->recipe);
    snprintf(crc, sizeof crc, "%08x", w->crc);
    json_object_set_new(j, "seed", json_integer(w->seed));
    json_object_set_new(j, "tokens", json_integer(w->tokens));
    json_object_set_new(j, "documents", json_integer(w->documents));
    json_object_set_new(j, "source_bytes", json_integer(w->source_bytes));
    json_object_set_new(j, "crc32", json_string(crc));
    text = json_dumps(j, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    json_decref(j);
    BUG_IF(!text);
    rc = part_add(&w->part[PART_SIDECAR], text, strlen(text), err);
    if (rc == 0)
        rc = part_add(&w->part[PART_SIDECAR], "\n", 1, err);
    free(text);
    return rc;
}

int shard_finish(struct shard_writer *w, struct err *err)
{
    if (w->finished)
        return 0;
    if (write_header(w, err) < 0 || write_sidecar(w, err) < 0)
        return -1;
    for (int i = 0; i < N_PARTS; i++)
        if (part_finish(&w->part[i], err) < 0)
            return -1;
    w->finished = true;
    return 0;
}

int shard_commit(struct shard_writer *w, struct err *err)
{
    char *dir = xstrdup(w->part[PART_TOKENS].path);
    int rc = shard_finish(w, err);

    for (int i = 0; rc == 0 && i < N_PARTS; i++)
        rc = part_rename(&w->part[i], err);
    if (rc == 0)
        rc = file_sync_dir(dirname(dir), err);
    free(dir);
    shard_abort(w); // only the files still under a temporary name go
    return rc;
}
