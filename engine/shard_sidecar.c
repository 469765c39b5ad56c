// What stands beside a token file: lathe's sidecar, and the index of datatrove or Megatron, which
// tell how wide the ids of a headerless file are.
#include "engine/shard_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "engine/buf.h"
#include "engine/file.h"

enum { SIDECAR_MAX = 1 << 20 };

static bool is_regular(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

// *out is NULL when there is no sidecar.
static int load_sidecar(const char *path, json_t **out, struct err *err)
{
    char *name = xasprintf("%s.json", path);
    struct buf text = {0};
    json_error_t bad;
    int rc = 0;

    *out = NULL;
    if (is_regular(name)) {
        rc = file_read(name, SIDECAR_MAX, &text, err);
        if (rc == 0 && !(*out = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &bad)))
            rc = err_at(err, name, bad.line, bad.column, "the sidecar is no JSON: %s", bad.text);
        if (rc == 0 && !json_is_object(*out)) {
            json_decref(*out);
            *out = NULL;
            rc = err_set(err, "sidecar '%s' is no JSON object", name);
        }
    }
    buf_release(&text);
    free(name);
    return rc;
}

struct number {
    const char *key;
    int64_t min, max;
};

// Leaves *out alone when the member is absent.
static int get_number(const char *path, const json_t *j, const struct number *n, int64_t *out,
                      struct err *err)
{
    const json_t *v = json_object_get(j, n->key);

    if (!v || json_is_null(v))
        return 0;
    if (!json_is_integer(v) || json_integer_value(v) < n->min || json_integer_value(v) > n->max)
        return err_set(err, "sidecar '%s.json': '%s' must be an integer from %lld to %lld", path,
                       n->key, (long long)n->min, (long long)n->max);
    *out = json_integer_value(v);
    return 0;
}

static void get_text(const json_t *j, const char *key, char *out, size_t size)
{
    const char *s = json_string_value(json_object_get(j, key));

    snprintf(out, size, "%s", s ? s : "");
}

static int get_dtype(const char *path, const json_t *j, enum token_dtype *out, struct err *err)
{
    char text[16];

    get_text(j, "dtype", text, sizeof text);
    if (!strcmp(text, "uint16"))
        *out = TOKENS_U16;
    else if (!strcmp(text, "uint32"))
        *out = TOKENS_U32;
    else if (json_object_get(j, "dtype"))
        return err_set(err, "sidecar '%s.json': 'dtype' must be \"uint16\" or \"uint32\"", path);
    return 0;
}

static int get_crc(const char *path, const json_t *j, struct shard_sidecar *c, struct err *err)
{
    char text[16], *end;

    get_text(j, "crc32", text, sizeof text);
    if (!text[0])
        return 0;
    c->crc = (uint32_t)strtoul(text, &end, 16);
    c->has_crc = true;
    if (strlen(text) != 8 || *end)
        return err_set(err, "sidecar '%s.json': 'crc32' must be eight hexadecimal digits", path);
    return 0;
}

int shard_read_sidecar(const char *path, struct shard_sidecar *c, struct err *err)
{
    static const struct number numbers[] = {{"vocab", 1, SHARD_MAX_VOCAB},
                                            {"eot", -1, SHARD_MAX_VOCAB - 1},
                                            {"tokens", 0, INT64_MAX},
                                            {"documents", 0, INT64_MAX},
                                            {"source_bytes", 0, INT64_MAX}};
    int64_t *const values[] = {&c->vocab, &c->eot, &c->tokens, &c->documents, &c->source_bytes};
    json_t *j;
    int rc;

    *c = (struct shard_sidecar){.eot = -1, .tokens = -1};
    if (load_sidecar(path, &j, err) < 0)
        return -1;
    if (!j)
        return 0;
    rc = get_dtype(path, j, &c->dtype, err);
    for (size_t i = 0; rc == 0 && i < sizeof numbers / sizeof numbers[0]; i++)
        rc = get_number(path, j, &numbers[i], values[i], err);
    if (rc == 0)
        rc = get_crc(path, j, c, err);
    get_text(j, "tokenizer", c->tokenizer, sizeof c->tokenizer);
    get_text(j, "source", c->source, sizeof c->source);
    json_decref(j);
    return rc;
}

int shard_sidecar_text(const char *path, const char *key, char *out, size_t out_size)
{
    json_t *j;

    out[0] = '\0';
    if (load_sidecar(path, &j, NULL) < 0 || !j)
        return -1;
    get_text(j, key, out, out_size);
    json_decref(j);
    return 0;
}

// Reads up to size bytes at offset; returns how many, 0 on any trouble.
static size_t read_at(const char *path, int64_t offset, void *out, size_t size, int64_t *file_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    ssize_t n = 0;

    if (fd < 0)
        return 0;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        *file_size = st.st_size;
        n = pread(fd, out, size, offset < 0 ? st.st_size + offset : offset);
    }
    close(fd);
    return n > 0 ? (size_t)n : 0;
}

// datatrove: FILE.index holds uint64 running document ends; the last one is the token count.
static int datatrove_width(const char *path, int64_t size)
{
    char *name = xasprintf("%s.index", path);
    int64_t index_size = 0;
    uint64_t last = 0;
    size_t n = read_at(name, -(int64_t)sizeof last, &last, sizeof last, &index_size);

    free(name);
    if (n != sizeof last || index_size % 8 || last == 0 || last > (uint64_t)size)
        return 0;
    for (int width = 2; width <= 8; width *= 2)
        if (last * (uint64_t)width == (uint64_t)size)
            return width;
    return 0;
}

// Megatron: NAME.idx beside NAME.bin; byte 16 is the type code. -1 = a type lathe cannot read.
static int megatron_width(const char *path)
{
    size_t len = strlen(path);
    unsigned char head[17];
    int64_t idx_size;
    char *name;
    size_t n;

    if (len < 4 || strcmp(path + len - 4, ".bin"))
        return 0;
    name = xasprintf("%.*s.idx", (int)(len - 4), path);
    n = read_at(name, 0, head, sizeof head, &idx_size);
    free(name);
    if (n != sizeof head || shard_sniff(head, n) != LAYOUT_MEGATRON_INDEX)
        return 0;
    return head[16] == 8 ? 2 : head[16] == 4 ? 4 : -1;
}

static const char *dtype_of_width(int width)
{
    return width == 2 ? "u16" : "u32";
}

int shard_check_siblings(const char *path, int64_t size, enum token_dtype declared, struct err *err)
{
    int want = declared == TOKENS_U16 ? 2 : declared == TOKENS_U32 ? 4 : 0;
    int width = megatron_width(path);
    const char *kind = width ? "a Megatron token file ('.idx' beside it)"
                             : "a datatrove token file ('.index' beside it)";

    if (width == 0)
        width = datatrove_width(path, size);
    if (width == 0 || (want && width == want))
        return 0;
    if (width != 2 && width != 4)
        return err_set(err,
                       "'%s' is %s whose ids are not 16 or 32 bits wide; write them again as "
                       "uint16 or uint32",
                       path, kind);
    if (want)
        return err_set(err, "'%s' is %s with %d-bit ids but was declared %s; set data.dtype to %s",
                       path, kind, 8 * width, dtype_of_width(want), dtype_of_width(width));
    return err_set(err, "'%s' is %s with %d-bit ids; declare that with data.dtype %s to read it",
                   path, kind, 8 * width, dtype_of_width(width));
}
