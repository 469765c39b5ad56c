#include "engine/shard_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "engine/buf.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "token files are little-endian");

const char *shard_data_dir(void)
{
    const char *dir = getenv("LATHE_DATA");

    return dir && dir[0] ? dir : "data";
}

// ---- opening the file ---------------------------------------------------------------------------

static int open_path(struct shard *s, const char *path, struct err *err)
{
    // not blocking: opening a FIFO must not wait for a writer
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
    int n = snprintf(s->path, sizeof s->path, "%s", path);

    if (n >= (int)sizeof s->path)
        return err_set(err, "token file name of %d bytes is too long (at most %zu)", n,
                       sizeof s->path - 1);
    s->fd = open(path, flags);
    if (s->fd < 0 && errno == ENOENT && path[0] != '/') {
        n = snprintf(s->path, sizeof s->path, "%s/%s", shard_data_dir(), path);
        if (n < (int)sizeof s->path)
            s->fd = open(s->path, flags);
        if (s->fd < 0 && errno == ENOENT)
            return err_set(err,
                           "token file '%s' not found, neither here nor in '%s'; make one with "
                           "'lathe data prepare'",
                           path, shard_data_dir());
    }
    if (s->fd < 0)
        return err_sys(err, "cannot open token file '%s'", path);
    return 0;
}

static int map_file(struct shard *s, struct err *err)
{
    struct stat st;
    void *map;

    if (fstat(s->fd, &st) < 0)
        return err_sys(err, "cannot read '%s'", s->path);
    if (S_ISDIR(st.st_mode))
        return err_set(err, "'%s' is a directory; name the token file in it", s->path);
    if (!S_ISREG(st.st_mode))
        return err_set(err,
                       "'%s' is no regular file; tokens are mapped, so a pipe or device "
                       "cannot be read",
                       s->path);
    if (st.st_size == 0)
        return err_set(err, "'%s' is empty", s->path);
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, s->fd, 0);
    if (map == MAP_FAILED)
        return err_sys(err, "cannot map '%s'", s->path);
    s->map = map;
    s->map_size = (size_t)st.st_size;
    return 0;
}

int shard_check(const struct shard *s, struct err *err)
{
    struct stat st;

    if (s->fd < 0) // tokens in memory
        return 0;
    if (fstat(s->fd, &st) < 0)
        return err_sys(err, "cannot read '%s'", s->path);
    if ((size_t)st.st_size < s->map_size)
        return err_set(err, "'%s' shrank from %zu to %lld bytes while it was in use", s->path,
                       s->map_size, (long long)st.st_size);
    return 0;
}

void shard_close(struct shard *s)
{
    if (s->map)
        munmap((void *)(uintptr_t)s->map, s->map_size);
    if (s->fd >= 0)
        close(s->fd);
    *s = (struct shard){.fd = -1, .eot = -1};
}

// ---- layouts ------------------------------------------------------------------------------------

static void set_ids(struct shard *s, int width, size_t offset)
{
    const void *ids = (const char *)s->map + offset;

    s->u16 = width == 2 ? ids : NULL;
    s->u32 = width == 4 ? ids : NULL;
    s->n = (int64_t)((s->map_size - offset) / (size_t)width);
}

static int check_count(const struct shard *s, int32_t count, int width, struct err *err)
{
    size_t need = SHARD_HEADER_SIZE + (size_t)width * (size_t)(count < 0 ? 0 : count);
    size_t other = SHARD_HEADER_SIZE + (size_t)(6 - width) * (size_t)(count < 0 ? 0 : count);

    if (count < 1)
        return err_set(err, "'%s': the header's token count is %d (expected 1..2147483647)",
                       s->path, count);
    if (s->map_size == other)
        return err_set(err,
                       "'%s': the header says %d-bit ids but the size is that of %d-bit ids; it "
                       "was written with the wrong magic",
                       s->path, 8 * width, 8 * (6 - width));
    if (s->map_size < need)
        return err_set(err,
                       "'%s' is truncated: the header promises %d tokens (%zu bytes), it has "
                       "%zu bytes",
                       s->path, count, need, s->map_size);
    if (s->map_size > need)
        return err_set(err, "'%s': %zu bytes follow the %d tokens its header promises", s->path,
                       s->map_size - need, count);
    return 0;
}

static int read_header(struct shard *s, int width, enum token_dtype declared, struct err *err)
{
    int32_t h[SHARD_HEADER_INTS], version = width == 2 ? 1 : 7;

    if (s->map_size < SHARD_HEADER_SIZE)
        return err_set(err, "'%s' is truncated: %zu bytes, but an llm.c header alone has %d",
                       s->path, s->map_size, SHARD_HEADER_SIZE);
    memcpy(h, s->map, sizeof h);
    if (h[SHARD_AT_VERSION] != version)
        return err_set(err, "'%s': llm.c token file version %d, only version %d is known", s->path,
                       h[SHARD_AT_VERSION], version);
    if (check_count(s, h[SHARD_AT_COUNT], width, err) < 0)
        return -1;
    if (declared != TOKENS_AUTO && (declared == TOKENS_U16) != (width == 2))
        return err_set(err,
                       "'%s' has a header that says %d-bit ids but was declared %s; leave out "
                       "data.dtype",
                       s->path, 8 * width, declared == TOKENS_U16 ? "u16" : "u32");
    set_ids(s, width, SHARD_HEADER_SIZE);
    s->has_header = true;
    if (h[SHARD_AT_MARK] != SHARD_MARK)
        return 0;
    if (h[SHARD_AT_REVISION] != 1)
        return err_set(err, "'%s' was written by a newer lathe (revision %d, known is 1)", s->path,
                       h[SHARD_AT_REVISION]);
    if (h[SHARD_AT_VOCAB] < 1 || h[SHARD_AT_VOCAB] > SHARD_MAX_VOCAB || h[SHARD_AT_EOT] < -1 ||
        h[SHARD_AT_EOT] >= h[SHARD_AT_VOCAB])
        return err_set(err, "'%s': the header's vocabulary %d or end-of-text %d is damaged",
                       s->path, h[SHARD_AT_VOCAB], h[SHARD_AT_EOT]);
    s->vocab = h[SHARD_AT_VOCAB];
    s->eot = h[SHARD_AT_EOT];
    return 0;
}

static int read_headerless(struct shard *s, enum token_dtype declared, enum token_dtype sidecar,
                           struct err *err)
{
    int width;

    if (declared != TOKENS_AUTO && sidecar != TOKENS_AUTO && declared != sidecar)
        return err_set(err, "'%s' was declared %s but its sidecar says %s", s->path,
                       declared == TOKENS_U16 ? "u16" : "u32",
                       sidecar == TOKENS_U16 ? "u16" : "u32");
    if (declared == TOKENS_AUTO)
        declared = sidecar;
    if (shard_check_siblings(s->path, (int64_t)s->map_size, declared, err) < 0)
        return -1;
    if (declared == TOKENS_AUTO)
        return err_set(err,
                       "'%s' has no header, so the type of its ids must be declared: data.dtype "
                       "u16 (nanoGPT) or u32",
                       s->path);
    width = declared == TOKENS_U16 ? 2 : 4;
    if (s->map_size % (size_t)width)
        return err_set(err,
                       "'%s' has %zu bytes, no multiple of %d: it is truncated or does not "
                       "hold %d-bit ids",
                       s->path, s->map_size, width, 8 * width);
    set_ids(s, width, 0);
    return 0;
}

static int read_layout(struct shard *s, enum token_dtype declared, enum token_dtype sidecar,
                       struct err *err)
{
    enum shard_layout layout = shard_sniff(s->map, s->map_size < 4096 ? s->map_size : 4096);

    switch (layout) {
    case LAYOUT_LLMC_U16:
        return read_header(s, 2, declared, err);
    case LAYOUT_LLMC_U32:
        return read_header(s, 4, declared, err);
    case LAYOUT_UNKNOWN:
        return read_headerless(s, declared, sidecar, err);
    default:
        return err_set(err, "'%s' is %s, no token file; %s", s->path, shard_layout_name(layout),
                       shard_layout_advice(layout));
    }
}

// ---- content against declaration ----------------------------------------------------------------

enum { SAMPLE = 1 << 16, RESIDUES = 4 };

// Ids looked at, by position modulo four.
struct sample {
    int64_t n[RESIDUES];
    int64_t zero[RESIDUES]; // ids 0
    int64_t low[RESIDUES];  // ids a high half of a 32-bit id can have: below 2^21 / 2^16
    uint32_t max;
};

// Up to 2^16 ids from the start, the middle and the end.
static void take_sample(const struct shard *s, struct sample *a)
{
    int64_t starts[3] = {0, s->n / 2, s->n - SAMPLE};

    *a = (struct sample){.max = 0};
    for (int k = 0; k < 3; k++) {
        int64_t from = starts[k] < 0 ? 0 : starts[k] & ~(int64_t)3;
        int64_t to = from + SAMPLE < s->n ? from + SAMPLE : s->n;

        for (int64_t i = from; i < to; i++) {
            uint32_t id = shard_token(s, i);

            a->n[i % RESIDUES]++;
            a->zero[i % RESIDUES] += id == 0;
            a->low[i % RESIDUES] += id < SHARD_MAX_VOCAB >> 16;
            a->max = id > a->max ? id : a->max;
        }
    }
}

static double share(const int64_t *count, const int64_t *of, int first, int step)
{
    int64_t a = 0, b = 0;

    for (int i = first; i < RESIDUES; i += step) {
        a += count[i];
        b += of[i];
    }
    return b ? (double)a / (double)b : 0;
}

// Do the ids at `high`, high + 2, … look like the upper halves of wider ids?
static bool looks_split(const struct sample *a, int high)
{
    bool zeros = share(a->zero, a->n, high, 2) > 0.999 && share(a->zero, a->n, 1 - high, 2) < 0.8;
    bool lows = share(a->low, a->n, high, 2) > 0.999 && share(a->low, a->n, 1 - high, 2) < 0.5;

    return zeros || lows;
}

static int check_content(const struct shard *s, struct err *err)
{
    const int bits = s->u16 ? 16 : 32;
    int wider = bits * 2;
    struct sample a;

    take_sample(s, &a);
    if (s->u32 && a.max >= SHARD_MAX_VOCAB)
        return err_set(err,
                       "'%s' read as 32-bit ids holds id %u, far above any vocabulary: it holds "
                       "16-bit ids%s",
                       s->path, a.max, s->has_header ? "" : "; declare data.dtype u16");
    if (s->n < 16)
        return 0;
    for (int high = 0; high < 2; high++) {
        if (!looks_split(&a, high))
            continue;
        if (a.zero[1] == a.n[1] && a.zero[2] == a.n[2] && a.zero[3] == a.n[3])
            wider = bits * 4;
        return err_set(err,
                       "'%s' read as %d-bit ids has almost only %s in its %s positions: it holds "
                       "%d-bit ids%s%s",
                       s->path, bits, share(a.zero, a.n, high, 2) > 0.999 ? "zeros" : "small ids",
                       high ? "odd" : "even", wider, high ? "" : " with the high bytes first",
                       wider == 32 && high && !s->has_header ? "; declare data.dtype u32"
                                                             : "; write them again");
    }
    return 0;
}

// ---- sidecar ------------------------------------------------------------------------------------

static int apply_sidecar(struct shard *s, const struct shard_sidecar *c, struct err *err)
{
    enum token_dtype here = s->u16 ? TOKENS_U16 : TOKENS_U32;

    if (c->dtype != TOKENS_AUTO && c->dtype != here)
        return err_set(err, "'%s' holds %d-bit ids but its sidecar says otherwise", s->path,
                       s->u16 ? 16 : 32);
    if (c->tokens >= 0 && c->tokens != s->n)
        return err_set(err, "'%s' holds %lld tokens but its sidecar was written for %lld", s->path,
                       (long long)s->n, (long long)c->tokens);
    if (s->vocab && c->vocab && c->vocab != s->vocab)
        return err_set(err, "'%s': the header says vocabulary %d, the sidecar %lld", s->path,
                       s->vocab, (long long)c->vocab);
    s->vocab = c->vocab ? (int)c->vocab : s->vocab;
    s->eot = c->eot >= 0 ? (int)c->eot : s->eot;
    if (s->vocab && s->eot >= s->vocab)
        return err_set(err, "'%s': end-of-text %d is beyond the vocabulary of %d", s->path, s->eot,
                       s->vocab);
    s->documents = c->documents;
    s->source_bytes = c->source_bytes;
    s->has_crc = c->has_crc;
    s->crc = c->crc;
    memcpy(s->tokenizer, c->tokenizer, sizeof s->tokenizer);
    memcpy(s->source, c->source, sizeof s->source);
    s->bytes_are_tokens = !strcmp(s->tokenizer, "bytes");
    return 0;
}

int shard_open(struct shard *s, const char *path, enum token_dtype dtype, struct err *err)
{
    struct shard_sidecar sidecar;
    char path_tried[SPEC_PATH_SIZE];

    *s = (struct shard){.fd = -1, .eot = -1};
    if (open_path(s, path, err) < 0 || map_file(s, err) < 0)
        goto fail;
    if (shard_read_sidecar(s->path, &sidecar, err) < 0)
        goto fail;
    if (read_layout(s, dtype, sidecar.dtype, err) < 0)
        goto fail;
    if (apply_sidecar(s, &sidecar, err) < 0 || check_content(s, err) < 0)
        goto fail;
    if (shard_check(s, err) < 0)
        goto fail;
    return 0;
fail:
    memcpy(path_tried, s->path, sizeof path_tried);
    shard_close(s);
    memcpy(s->path, path_tried, sizeof s->path);
    return -1;
}

int shard_verify(const struct shard *s, struct err *err)
{
    enum { CHUNK = 1 << 24 };
    const unsigned char *ids = s->u16 ? (const void *)s->u16 : s->u32;
    size_t size = (size_t)s->n * (s->u16 ? 2 : 4);
    uLong crc = crc32(0, NULL, 0);

    if (!s->has_crc)
        return err_set(err, "'%s' has no checksum to compare with", s->path);
    for (size_t at = 0; at < size; at += CHUNK) {
        if (shard_check(s, err) < 0)
            return -1;
        crc = crc32_z(crc, ids + at, size - at < CHUNK ? size - at : CHUNK);
    }
    if (crc != s->crc)
        return err_set(err, "'%s' is damaged: checksum %08lx, its sidecar says %08x", s->path, crc,
                       s->crc);
    return 0;
}

// The ids' bytes, whatever header stood before them.
void shard_fingerprint(const struct shard *s, char out[SHARD_FINGERPRINT])
{
    enum { BLOCKS = 256, BLOCK = 4096 };
    const unsigned char *ids = s->u16 ? (const void *)s->u16 : s->u32;
    size_t size = (size_t)s->n * (s->u16 ? 2 : 4), last = size > BLOCK ? size - BLOCK : 0;
    uLong crc = crc32(0, NULL, 0);

    for (size_t i = 0; i < BLOCKS; i++) {
        size_t at = (size_t)((double)last * (double)i / (BLOCKS - 1));

        crc = crc32_z(crc, ids + at, size < BLOCK ? size : BLOCK);
    }
    snprintf(out, SHARD_FINGERPRINT, "%lld x %d, %08lx", (long long)s->n, s->u16 ? 2 : 4, crc);
}
