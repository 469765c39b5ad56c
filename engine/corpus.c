#include "engine/corpus_internal.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <zlib.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/rng.h"
#include "engine/shard.h"

enum { REVISION = 1 }; // of cutting, splitting and ordering: part of the recipe

struct byte_map {
    unsigned char from, to;
};

// A text that a Debian package brings.
struct built_in {
    const char *name, *path, *package, *source, *license;
    enum corpus_cut cut;
    struct byte_map map[4]; // stray bytes that are no UTF-8; ends with {0, 0}
};

static const struct built_in built_ins[] = {
    {"gcide",
     "/usr/share/dictd/gcide.dict.dz",
     "dict-gcide",
     "The Collaborative International Dictionary of English (Debian package dict-gcide)",
     "GPL-2.0-or-later",
     CORPUS_CUT_ENTRIES,
     {{0x92, '\''}, {0xe7, 'c'}, {0xb9, '\''}, {0, 0}}},
};
enum { N_BUILT_INS = sizeof built_ins / sizeof built_ins[0] };

// One preparation under way.
struct prepare {
    const struct corpus_options *o;
    const struct built_in *built_in;
    struct corpus_report *r;
    struct corpus_text text;
    struct corpus_doc *docs;
    int64_t n_docs;
    bool *in_val; // per document
    char *dir, *source;
    char recipe[256];
    bool made_dir;
};

const char *corpus_built_in(int i)
{
    return i >= 0 && i < N_BUILT_INS ? built_ins[i].name : NULL;
}

static const char *built_in_path(const struct prepare *p)
{
    return p->o->built_in_path ? p->o->built_in_path : p->built_in->path;
}

static int find_built_in(struct prepare *p, struct err *err)
{
    for (int i = 0; p->o->name && i < N_BUILT_INS; i++)
        if (!strcmp(built_ins[i].name, p->o->name))
            p->built_in = &built_ins[i];
    if (p->o->name && !p->built_in)
        return err_set(err, "no built-in corpus '%s' (there is: %s)", p->o->name,
                       built_ins[0].name);
    return 0;
}

static int check_options(const struct corpus_options *o, struct err *err)
{
    if (!(o->val_share >= 0 && o->val_share <= 0.5))
        return err_set(err, "validation share %g is out of range (expected 0..50 %%)",
                       o->val_share);
    if (o->separator && !o->separator[0])
        return err_set(err, "the separator is empty (expected some text, or leave it out to cut at "
                            "blank lines)");
    if (o->separator && o->name)
        return err_set(err, "'%s' has its own document ends; a separator is for files", o->name);
    return 0;
}

// ---- names --------------------------------------------------------------------------------------

static char *default_dir(const struct prepare *p)
{
    static const char *const endings[] = {".gz", ".txt", ".text", ".md"};
    char *path, *name, *out;

    if (p->built_in)
        return xasprintf("%s/%s", shard_data_dir(), p->built_in->name);
    path = xstrdup(p->o->files[0]);
    name = basename(path);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t n = strlen(name), e = strlen(endings[i]);

        if (n > e && !strcmp(name + n - e, endings[i]))
            name[n - e] = '\0';
    }
    out = xasprintf("%s/%s", shard_data_dir(), name);
    free(path);
    return out;
}

static char *describe_source(const struct prepare *p)
{
    struct buf b = {0};

    if (p->built_in)
        return xstrdup(p->built_in->source);
    for (int i = 0; i < p->o->n_files; i++)
        buf_fmt(&b, "%s%s", i ? ", " : "", p->o->files[i]);
    return buf_detach(&b);
}

// Everything that decides what is written, in one line. Files count by name, size and time: reading
// them again would cost as much as preparing.
static void write_recipe(struct prepare *p)
{
    const struct corpus_options *o = p->o;
    uLong crc = crc32(0, NULL, 0);
    struct stat st;

    for (int i = 0; i < o->n_files; i++) {
        crc = crc32_z(crc, (const void *)o->files[i], strlen(o->files[i]) + 1);
        if (stat(o->files[i], &st) == 0) {
            int64_t id[3] = {st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};

            crc = crc32_z(crc, (const void *)id, sizeof id);
        }
    }
    if (o->separator)
        crc = crc32_z(crc, (const void *)o->separator, strlen(o->separator));
    if (p->built_in)
        snprintf(p->recipe, sizeof p->recipe, "%s, seed %lld, validation %.9g, revision %d",
                 p->built_in->name, (long long)o->seed, o->val_share, REVISION);
    else
        snprintf(p->recipe, sizeof p->recipe,
                 "%d files %08lx cut at %s, seed %lld, validation %.9g, revision %d", o->n_files,
                 crc, o->separator ? "a separator" : "blank lines", (long long)o->seed,
                 o->val_share, REVISION);
}

static bool path_fits(struct corpus_part *part, const char *dir, const char *name)
{
    return snprintf(part->path, sizeof part->path, "%s/%s", dir, name) < (int)sizeof part->path;
}

static int name_parts(struct prepare *p, struct err *err)
{
    p->dir = p->o->out_dir ? xstrdup(p->o->out_dir) : default_dir(p);
    p->source = describe_source(p);
    write_recipe(p);
    p->r->no_val = p->o->val_share == 0;
    if (!path_fits(&p->r->train, p->dir, "train.bin") || !path_fits(&p->r->val, p->dir, "val.bin"))
        return err_set(err, "directory name '%s' is too long", p->dir);
    return 0;
}

// ---- what is there already ----------------------------------------------------------------------

enum present { ABSENT, INTACT, DAMAGED, OTHER };

static enum present look(const struct prepare *p, struct corpus_part *part)
{
    enum present found = DAMAGED;
    char recipe[256];
    struct shard s;

    if (!file_exists(part->path))
        return ABSENT;
    if (shard_sidecar_text(part->path, "recipe", recipe, sizeof recipe) < 0 ||
        strcmp(recipe, p->recipe))
        return OTHER;
    if (shard_open(&s, part->path, TOKENS_AUTO, NULL) < 0)
        return DAMAGED;
    if (shard_verify(&s, NULL) == 0)
        found = INTACT;
    part->documents = s.documents;
    part->tokens = s.n;
    part->source_bytes = s.source_bytes;
    shard_close(&s);
    return found;
}

// 1 = nothing to do, 0 = go on.
static int look_around(struct prepare *p, struct err *err)
{
    enum present train = look(p, &p->r->train);
    enum present val = p->r->no_val ? INTACT : look(p, &p->r->val);

    if (train == INTACT && val == INTACT) {
        p->r->already = true;
        return 1;
    }
    if (train != OTHER && val != OTHER)
        return 0;
    return err_set(err,
                   "'%s' is there and was prepared from other text or with other options; --force "
                   "replaces it, --out DIR writes elsewhere",
                   train == OTHER ? p->r->train.path : p->r->val.path);
}

// ---- text ---------------------------------------------------------------------------------------

static void add_docs(struct prepare *p, struct corpus_doc *docs, int64_t n, size_t offset)
{
    p->docs = xrealloc(p->docs, (size_t)(p->n_docs + n), sizeof *p->docs);
    for (int64_t i = 0; i < n; i++)
        p->docs[p->n_docs + i] = (struct corpus_doc){docs[i].start + offset, docs[i].len};
    p->n_docs += n;
    free(docs);
}

static int read_one(struct prepare *p, const char *path, enum corpus_cut cut, struct err *err)
{
    size_t start = p->text.len;
    struct corpus_doc *docs;
    int64_t n, entries;

    if (corpus_read(path, &p->text, p->o, err) < 0)
        return -1;
    n = corpus_split(p->text.data + start, p->text.len - start, cut, p->o->separator, &docs,
                     &entries);
    add_docs(p, docs, n, start);
    p->r->entries += entries;
    p->r->empty += entries - n;
    return 0;
}

static void map_bytes(struct prepare *p)
{
    for (const struct byte_map *m = p->built_in->map; m->from; m++) {
        char *at = p->text.data, *end = p->text.data + p->text.len;

        while ((at = memchr(at, m->from, (size_t)(end - at)))) {
            *at++ = (char)m->to;
            p->r->replaced_bytes++;
        }
    }
}

static int read_built_in(struct prepare *p, struct err *err)
{
    const char *path = built_in_path(p);

    if (access(path, F_OK) < 0 && errno == ENOENT)
        return err_set(err,
                       "corpus '%s' is not installed ('%s' is missing); as root run: apt-get "
                       "install -y --no-install-recommends %s",
                       p->built_in->name, path, p->built_in->package);
    if (read_one(p, path, p->built_in->cut, err) < 0)
        return -1;
    map_bytes(p);
    return 0;
}

static int read_all(struct prepare *p, struct err *err)
{
    enum corpus_cut cut = p->o->separator ? CORPUS_CUT_SEPARATOR : CORPUS_CUT_PARAGRAPHS;

    if (p->built_in && read_built_in(p, err) < 0)
        return -1;
    for (int i = 0; !p->built_in && i < p->o->n_files; i++)
        if (read_one(p, p->o->files[i], cut, err) < 0)
            return -1;
    if (p->n_docs == 0)
        return err_set(err, "there is no text in '%s'", p->built_in ? built_in_path(p) : p->source);
    return 0;
}

// ---- split --------------------------------------------------------------------------------------

static uint64_t hash_of(const struct prepare *p, int64_t i)
{
    return corpus_hash(p->text.data + p->docs[i].start, p->docs[i].len, p->o->seed);
}

// Moves the document with the smallest hash, and its equals, to the side that is empty.
static void give_one(struct prepare *p, bool to_val)
{
    uint64_t best = UINT64_MAX;

    for (int64_t i = 0; i < p->n_docs; i++) {
        uint64_t h = to_val ? hash_of(p, i) : ~hash_of(p, i);

        best = h < best ? h : best;
    }
    for (int64_t i = 0; i < p->n_docs; i++)
        if ((to_val ? hash_of(p, i) : ~hash_of(p, i)) == best)
            p->in_val[i] = to_val;
}

static int64_t count_val(const struct prepare *p)
{
    int64_t n = 0;

    for (int64_t i = 0; i < p->n_docs; i++)
        n += p->in_val[i];
    return n;
}

static int choose_sides(struct prepare *p, struct err *err)
{
    int64_t val;

    p->in_val = xcalloc((size_t)p->n_docs, sizeof *p->in_val);
    if (p->r->no_val)
        return 0;
    for (int64_t i = 0; i < p->n_docs; i++)
        p->in_val[i] = corpus_is_validation(p->text.data + p->docs[i].start, p->docs[i].len,
                                            p->o->seed, p->o->val_share);
    val = count_val(p);
    if (val == 0 || val == p->n_docs)
        give_one(p, val == 0);
    val = count_val(p);
    if (val == 0 || val == p->n_docs)
        return err_set(err,
                       "'%s' is one document (or the same one again), so none can be held out; "
                       "cut it with --separator TEXT, or use --val-share 0",
                       p->source);
    return 0;
}

// ---- writing ------------------------------------------------------------------------------------

static int check_space(const struct prepare *p, struct err *err)
{
    double need = 1 << 16, room;
    char a[UNIT_SIZE], b[UNIT_SIZE];
    struct statvfs fs;

    for (int64_t i = 0; i < p->n_docs; i++)
        need += 2 * (double)(p->docs[i].len + 1) + 8;
    if (statvfs(p->dir, &fs) < 0)
        return 0; // the writes will tell
    room = (double)fs.f_bavail * (double)fs.f_frsize;
    if (room >= need)
        return 0;
    return err_set(err, "not enough room in '%s': %s needed, %s free", p->dir, unit_bytes(a, need),
                   unit_bytes(b, room));
}

static struct shard_writer *create(const struct prepare *p, const struct corpus_part *part,
                                   const char *split, struct err *err)
{
    struct shard_meta meta = {.vocab = CORPUS_VOCAB,
                              .eot = CORPUS_EOT,
                              .tokenizer = "bytes",
                              .source = p->source,
                              .license = p->built_in ? p->built_in->license : NULL,
                              .split = split,
                              .recipe = p->recipe,
                              .seed = p->o->seed};

    return shard_create(part->path, &meta, err);
}

static int add_bytes(struct shard_writer *w, const char *text, size_t len, uint16_t **ids,
                     size_t *room, struct err *err)
{
    if (len > *room) {
        *room = len * 2;
        *ids = xrealloc(*ids, *room, sizeof **ids);
    }
    for (size_t i = 0; i < len; i++)
        (*ids)[i] = (unsigned char)text[i];
    return shard_add(w, *ids, (int64_t)len, (int64_t)len, err);
}

// In the order of a permutation drawn from the seed.
static int write_docs(struct prepare *p, struct shard_writer *train, struct shard_writer *val,
                      struct err *err)
{
    uint64_t key = rng_key((uint64_t)p->o->seed, "documents");
    uint16_t *ids = NULL;
    size_t room = 0;
    int rc = 0;

    for (int64_t k = 0; rc == 0 && k < p->n_docs; k++) {
        int64_t i = (int64_t)rng_permute(key, (uint64_t)k, (uint64_t)p->n_docs);
        struct corpus_part *part = p->in_val[i] ? &p->r->val : &p->r->train;
        size_t len = p->docs[i].len;

        rc = add_bytes(p->in_val[i] ? val : train, p->text.data + p->docs[i].start, len, &ids,
                       &room, err);
        part->documents++;
        part->tokens += (int64_t)len + 1;
        part->source_bytes += (int64_t)len;
        if (rc == 0 && k % 1024 == 0)
            rc = corpus_progress(p->o, "writing", (double)k / (double)p->n_docs, err);
    }
    free(ids);
    return rc;
}

// A validation file of an earlier preparation must not stand beside a new training file.
static void remove_old_val(const struct prepare *p)
{
    static const char *const suffix[] = {"", ".json", ".index"};

    for (int i = 0; i < 3; i++) {
        char *path = xasprintf("%s%s", p->r->val.path, suffix[i]);

        unlink(path);
        free(path);
    }
}

static int write_parts(struct prepare *p, struct err *err)
{
    struct shard_writer *train = NULL, *val = NULL;
    int rc = -1;

    p->r->train.documents = p->r->train.tokens = p->r->train.source_bytes = 0;
    p->r->val.documents = p->r->val.tokens = p->r->val.source_bytes = 0;
    if (!(train = create(p, &p->r->train, "train", err)))
        goto out;
    if (!p->r->no_val && !(val = create(p, &p->r->val, "val", err)))
        goto out;
    if (write_docs(p, train, val, err) < 0)
        goto out;
    if ((val && shard_finish(val, err) < 0) || shard_finish(train, err) < 0)
        goto out;
    // the training file last: whoever finds it finds everything
    rc = val ? shard_commit(val, err) : 0;
    val = NULL;
    if (rc < 0)
        goto out;
    rc = shard_commit(train, err);
    train = NULL;
    if (rc == 0 && p->r->no_val)
        remove_old_val(p);
out:
    shard_abort(val);
    shard_abort(train);
    return rc;
}

static int make_dir(struct prepare *p, struct err *err)
{
    p->made_dir = !file_exists(p->dir);
    return file_mkdirs(p->dir, 0777, err);
}

static int run(struct prepare *p, struct err *err)
{
    int rc;

    if (check_options(p->o, err) < 0 || find_built_in(p, err) < 0 || name_parts(p, err) < 0)
        return -1;
    rc = p->o->force ? 0 : look_around(p, err);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    if (read_all(p, err) < 0 || choose_sides(p, err) < 0)
        return -1;
    if (make_dir(p, err) < 0)
        return -1;
    if (check_space(p, err) == 0 && write_parts(p, err) == 0)
        return 0;
    if (p->made_dir)
        rmdir(p->dir); // fails when it is not empty, which is as well
    return -1;
}

int corpus_prepare(const struct corpus_options *o, struct corpus_report *r, struct err *err)
{
    struct prepare p = {.o = o, .r = r};
    int rc;

    BUG_IF(!o->name && o->n_files < 1);
    *r = (struct corpus_report){.already = false};
    rc = run(&p, err);
    free(p.text.data);
    free(p.docs);
    free(p.in_val);
    free(p.dir);
    free(p.source);
    return rc;
}
