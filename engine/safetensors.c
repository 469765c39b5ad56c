#include "engine/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/buf.h"
#include "engine/file.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors files are little-endian and are mapped as they are"
#endif

enum { MAX_HEADER = 100000000, ALIGN = 8 };

// ---- writing ------------------------------------------------------------------------------------

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct st_tensor *)a)->name, ((const struct st_tensor *)b)->name);
}

static json_t *tensor_entry(const struct st_tensor *t, json_int_t begin)
{
    json_t *shape = json_array();

    for (int d = 0; d < t->n_dims; d++)
        json_array_append_new(shape, json_integer(t->shape[d]));
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", "F32", "shape", shape, "data_offsets", begin,
                     begin + (json_int_t)sizeof(float) * t->size);
}

// The length word and the JSON, padded with spaces so that the data starts at a multiple of 8.
static void build_header(const struct st_tensor *t, int n, const json_t *metadata, struct buf *out)
{
    json_t *header = json_object(), *meta = metadata ? json_deep_copy(metadata) : json_object();
    json_int_t at = 0;
    uint64_t length;
    char *text;

    json_object_set_new(meta, "format", json_string("pt")); // loaders refuse files without it
    json_object_set_new(header, "__metadata__", meta);
    for (int i = 0; i < n; i++) {
        json_object_set_new(header, t[i].name, tensor_entry(&t[i], at));
        at += (json_int_t)sizeof(float) * t[i].size;
    }
    text = json_dumps(header, JSON_COMPACT);
    BUG_IF(!text);
    length = (strlen(text) + ALIGN - 1) / ALIGN * ALIGN;
    buf_add(out, &length, sizeof length);
    buf_str(out, text);
    while (out->len < sizeof length + length)
        buf_str(out, " ");
    free(text);
    json_decref(header);
}

static int write_tensors(int fd, const char *path, const struct st_tensor *t, int n,
                         const struct buf *header, struct err *err)
{
    if (write_all(fd, header->data, header->len) < 0)
        return err_sys(err, "cannot write '%s'", path);
    for (int i = 0; i < n; i++)
        if (write_all(fd, t[i].data, sizeof(float) * (size_t)t[i].size) < 0)
            return err_sys(err, "cannot write '%s'", path);
    if (fsync(fd) < 0)
        return err_sys(err, "cannot sync '%s'", path);
    return 0;
}

static void check_shapes(const struct st_tensor *t, int n)
{
    for (int i = 0; i < n; i++) {
        int64_t size = 1;

        BUG_IF(t[i].n_dims < 0 || t[i].n_dims > ST_MAX_DIMS);
        for (int d = 0; d < t[i].n_dims; d++)
            size *= t[i].shape[d];
        BUG_IF(size != t[i].size);
        BUG_IF(i && !strcmp(t[i - 1].name, t[i].name));
    }
}

int safetensors_write(const char *path, const struct st_tensor *t, int n, const json_t *metadata,
                      struct err *err)
{
    struct st_tensor *sorted = xcalloc((size_t)n + 1, sizeof *sorted);
    char *tmp = xasprintf("%s.%d.tmp", path, (int)getpid());
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct buf header = {0};
    int rc = -1;

    if (n)
        memcpy(sorted, t, (size_t)n * sizeof *t);
    qsort(sorted, (size_t)n, sizeof *sorted, by_name); // the reference writer's order
    check_shapes(sorted, n);
    build_header(sorted, n, metadata, &header);
    if (fd < 0)
        err_sys(err, "cannot create '%s'", tmp);
    else
        rc = write_tensors(fd, path, sorted, n, &header, err);
    if (fd >= 0 && close(fd) < 0 && rc == 0)
        rc = err_sys(err, "cannot close '%s'", path);
    if (rc == 0 && rename(tmp, path) < 0)
        rc = err_sys(err, "cannot rename '%s' to '%s'", tmp, path);
    if (rc < 0 && fd >= 0)
        unlink(tmp);
    buf_release(&header);
    free(sorted);
    free(tmp);
    return rc;
}

// ---- reading ------------------------------------------------------------------------------------

struct extent {
    int64_t begin, end;
    const char *name;
};

static int bad(struct err *err, const char *path, const char *name, const char *what)
{
    if (name)
        return err_at(err, path, 0, 0, "tensor '%.80s': %s", name, what);
    return err_at(err, path, 0, 0, "not a valid safetensors file: %s", what);
}

static int read_shape(struct st_tensor *t, const json_t *shape, const char *path, struct err *err)
{
    if (!json_is_array(shape))
        return bad(err, path, t->name, "\"shape\" is not a list");
    if (json_array_size(shape) > ST_MAX_DIMS)
        return bad(err, path, t->name, "has more than 4 dimensions");
    t->n_dims = (int)json_array_size(shape);
    t->size = 1;
    for (int d = 0; d < t->n_dims; d++) {
        const json_t *v = json_array_get(shape, (size_t)d);

        t->shape[d] = json_integer_value(v);
        if (!json_is_integer(v) || t->shape[d] < 0)
            return bad(err, path, t->name, "\"shape\" holds something that is no size");
        if (__builtin_mul_overflow(t->size, t->shape[d], &t->size))
            return bad(err, path, t->name, "\"shape\" is too large");
    }
    return 0;
}

static int read_entry(struct st_tensor *t, struct extent *x, const char *name, const json_t *entry,
                      const char *path, struct err *err)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    int64_t bytes;

    if (strlen(name) >= sizeof t->name)
        return bad(err, path, name, "the name has more than 95 bytes");
    strcpy(t->name, name);
    if (!json_is_object(entry) || json_object_size(entry) != 3 || !dtype)
        return bad(err, path, name, "must have \"dtype\", \"shape\" and \"data_offsets\" only");
    if (strcmp(dtype, "F32"))
        return err_at(err, path, 0, 0, "tensor '%.80s': dtype '%.16s' is not read here, only F32",
                      name, dtype);
    if (read_shape(t, json_object_get(entry, "shape"), path, err) < 0)
        return -1;
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return bad(err, path, name, "\"data_offsets\" is not a pair of integers");
    x->begin = json_integer_value(begin);
    x->end = json_integer_value(end);
    x->name = t->name;
    if (__builtin_mul_overflow(t->size, (int64_t)sizeof(float), &bytes) || x->begin < 0 ||
        x->end < x->begin || x->end - x->begin != bytes)
        return bad(err, path, name, "\"data_offsets\" does not match \"shape\"");
    return 0;
}

static int by_begin(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

// No gaps, no overlaps, and the file ends where the last tensor does.
static int check_extents(struct extent *x, int n, int64_t data_size, const char *path,
                         struct err *err)
{
    int64_t at = 0;

    qsort(x, (size_t)n, sizeof *x, by_begin);
    for (int i = 0; i < n; i++) {
        if (x[i].begin != at)
            return bad(err, path, x[i].name,
                       x[i].begin < at ? "overlaps another tensor" : "leaves a gap before it");
        at = x[i].end;
    }
    if (at > data_size)
        return bad(err, path, NULL, "it is shorter than its header says");
    if (at < data_size)
        return bad(err, path, NULL, "bytes follow the last tensor");
    return 0;
}

static int read_metadata(struct safetensors *f, json_t *meta, const char *path, struct err *err)
{
    const char *key;
    json_t *value;

    if (!json_is_object(meta))
        return bad(err, path, NULL, "\"__metadata__\" is not an object");
    json_object_foreach(meta, key, value) if (!json_is_string(value)) return bad(
        err, path, NULL, "\"__metadata__\" holds a value that is no string");
    json_decref(f->metadata);
    f->metadata = json_incref(meta);
    return 0;
}

static int read_entries(struct safetensors *f, json_t *header, const unsigned char *data,
                        int64_t data_size, const char *path, struct err *err)
{
    struct extent *x = xcalloc(json_object_size(header) + 1, sizeof *x);
    const char *name;
    json_t *entry;
    int rc = 0;

    f->t = xcalloc(json_object_size(header) + 1, sizeof *f->t);
    json_object_foreach(header, name, entry)
    {
        if (!strcmp(name, "__metadata__"))
            rc = read_metadata(f, entry, path, err);
        else if ((rc = read_entry(&f->t[f->n], &x[f->n], name, entry, path, err)) == 0)
            f->n++;
        if (rc < 0)
            break;
    }
    for (int i = 0; rc == 0 && i < f->n; i++) // before x is sorted away from t
        f->t[i].data = (const float *)(const void *)(data + x[i].begin);
    if (rc == 0)
        rc = check_extents(x, f->n, data_size, path, err);
    if (rc == 0)
        qsort(f->t, (size_t)f->n, sizeof *f->t, by_name);
    free(x);
    return rc;
}

// A header whose length is no multiple of 4 leaves the floats unaligned: such files, which other
// writers may make, are copied to an aligned place.
static const unsigned char *aligned_data(struct safetensors *f, size_t offset)
{
    size_t size = f->map_size - offset;
    void *copy;

    if (offset % sizeof(float) == 0 || size == 0)
        return (unsigned char *)f->map + offset;
    copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return NULL;
    memcpy(copy, (unsigned char *)f->map + offset, size);
    munmap(f->map, f->map_size);
    f->map = copy;
    f->map_size = size;
    return copy;
}

static int parse(struct safetensors *f, const char *path, struct err *err)
{
    const unsigned char *file = f->map, *data;
    size_t file_size = f->map_size, data_at;
    json_error_t where;
    uint64_t length;
    json_t *header;
    int rc;

    memcpy(&length, file, sizeof length);
    if (length > MAX_HEADER || length > file_size - sizeof length)
        return bad(err, path, NULL, "the length of its header is impossible");
    if (length == 0 || file[sizeof length] != '{')
        return bad(err, path, NULL, "its header does not start with '{'");
    header = json_loadb((const char *)file + sizeof length, length, JSON_REJECT_DUPLICATES, &where);
    if (!header)
        return bad(err, path, NULL, where.text);
    data_at = sizeof length + length;
    data = aligned_data(f, data_at);
    if (!data)
        rc = err_at(err, path, 0, 0, "no memory for %zu bytes", file_size - data_at);
    else
        rc = read_entries(f, header, data, (int64_t)(file_size - data_at), path, err);
    json_decref(header);
    return rc;
}

static int map_file(struct safetensors *f, const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    int rc = 0;

    if (fd < 0)
        return err_sys(err, "cannot open '%s'", path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        rc = err_set(err, "'%s' is not a regular file", path);
    } else if (st.st_size < (off_t)sizeof(uint64_t)) {
        rc = bad(err, path, NULL, "it is shorter than 8 bytes");
    } else {
        f->map_size = (size_t)st.st_size;
        f->map = mmap(NULL, f->map_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (f->map == MAP_FAILED) {
            f->map = NULL;
            rc = err_sys(err, "cannot map '%s'", path);
        }
    }
    close(fd);
    return rc;
}

int safetensors_open(struct safetensors *f, const char *path, struct err *err)
{
    *f = (struct safetensors){.metadata = json_object()};
    if (map_file(f, path, err) == 0 && parse(f, path, err) == 0)
        return 0;
    safetensors_close(f);
    return -1;
}

const struct st_tensor *safetensors_find(const struct safetensors *f, const char *name)
{
    struct st_tensor key;

    if (!f->n || strlen(name) >= sizeof key.name)
        return NULL;
    strcpy(key.name, name);
    return bsearch(&key, f->t, (size_t)f->n, sizeof *f->t, by_name);
}

void safetensors_close(struct safetensors *f)
{
    if (f->map)
        munmap(f->map, f->map_size);
    json_decref(f->metadata);
    free(f->t);
    *f = (struct safetensors){0};
}
