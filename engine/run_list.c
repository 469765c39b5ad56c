// Finding runs: by id, by prefix, all of them.
#include "engine/run.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/run_internal.h"

struct names {
    char **v;
    int n, cap;
};

static void names_release(struct names *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->v[i]);
    free(l->v);
    *l = (struct names){0};
}

static bool is_directory(const char *parent, const char *name)
{
    char *path = xasprintf("%s/%s", parent, name);
    struct stat st;
    bool yes = stat(path, &st) == 0 && S_ISDIR(st.st_mode);

    free(path);
    return yes;
}

// Directories and links to directories, without hidden ones. A missing parent has none.
static int names_read(const char *parent, struct names *out, struct err *err)
{
    DIR *d = opendir(parent);
    struct dirent *e;

    *out = (struct names){0};
    if (!d)
        return errno == ENOENT ? 0 : err_sys(err, "cannot open '%s'", parent);
    while ((e = readdir(d))) {
        bool maybe = e->d_type == DT_DIR || e->d_type == DT_LNK || e->d_type == DT_UNKNOWN;

        if (e->d_name[0] == '.' || !maybe || strlen(e->d_name) > 63)
            continue;
        if (e->d_type != DT_DIR && !is_directory(parent, e->d_name))
            continue;
        if (out->n == out->cap) {
            out->cap = out->cap ? out->cap * 2 : 64;
            out->v = xrealloc(out->v, (size_t)out->cap, sizeof *out->v);
        }
        out->v[out->n++] = xstrdup(e->d_name);
    }
    closedir(d);
    return 0;
}

static int64_t largest_number(const char *parent, const char *stem)
{
    size_t n = strlen(stem);
    int64_t largest = 0;
    struct names l;

    names_read(parent, &l, NULL);
    for (int i = 0; i < l.n; i++) {
        const char *digits = l.v[i] + n + 1;
        int64_t v;

        if (strncmp(l.v[i], stem, n) || l.v[i][n] != '-' || !*digits)
            continue;
        // in the trash a second "demo-1" is "demo-1.1"
        if (strspn(digits, "0123456789") > 15 || !strchr(".", digits[strspn(digits, "0123456789")]))
            continue;
        v = strtoll(digits, NULL, 10);
        largest = v > largest ? v : largest;
    }
    names_release(&l);
    return largest;
}

int64_t runs_next_number(const char *stem)
{
    char *trash = xasprintf("%s/.trash", runs_dir());
    int64_t a = largest_number(runs_dir(), stem), b = largest_number(trash, stem);

    free(trash);
    return (a > b ? a : b) + 1;
}

// ---- finding ------------------------------------------------------------------------------------

static bool is_run_dir(const char *path)
{
    char *status = xasprintf("%s/status.json", path), *profile = xasprintf("%s/profile.yaml", path);
    bool yes = file_exists(status) || file_exists(profile);

    free(status);
    free(profile);
    return yes;
}

static int give_dir(const char *path, char *dir, size_t dir_size, struct err *err)
{
    if ((size_t)snprintf(dir, dir_size, "%s", path) >= dir_size)
        return err_set(err, "the path '%.200s' is too long", path);
    return 0;
}

static int not_found(const char *id, const struct names *l, struct err *err)
{
    const char *near = NULL;
    int best = 4;

    for (int i = 0; i < l->n; i++) {
        int d = spec_edit_distance(id, l->v[i]);

        if (d < best) {
            best = d;
            near = l->v[i];
        }
    }
    if (near)
        return err_set(err, "no run '%.80s' in '%s', did you mean '%s'?", id, runs_dir(), near);
    return err_set(err, "no run '%.80s' in '%s'", id, runs_dir());
}

static int by_prefix(const char *id, const struct names *l, const char **found, struct err *err)
{
    size_t n = strlen(id);
    int matches = 0;

    for (int i = 0; i < l->n; i++) {
        if (!strcmp(l->v[i], id)) {
            *found = l->v[i];
            return 0;
        }
        if (n && !strncmp(l->v[i], id, n)) {
            if (matches++)
                err_set(err, "'%.80s' fits several runs: %s, %s%s", id, *found, l->v[i],
                        matches > 2 ? ", …" : "");
            else
                *found = l->v[i];
        }
    }
    if (matches == 1)
        return 0;
    return matches ? -1 : not_found(id, l, err);
}

int run_find(const char *id, char *dir, size_t dir_size, struct err *err)
{
    const char *found = NULL;
    struct names l;
    char *path;
    int rc;

    if (strchr(id, '/') || !strcmp(id, ".") || !strcmp(id, "..")) {
        if (!is_run_dir(id))
            return err_set(err, "'%.200s' is no run directory: it has no status.json", id);
        return give_dir(id, dir, dir_size, err);
    }
    if (names_read(runs_dir(), &l, err) < 0)
        return -1;
    rc = by_prefix(id, &l, &found, err);
    if (rc == 0) {
        path = xasprintf("%s/%s", runs_dir(), found);
        rc = give_dir(path, dir, dir_size, err);
        free(path);
    } else if (id[0] && is_run_dir(id)) {
        rc = give_dir(id, dir, dir_size, err); // a directory right here
    }
    names_release(&l);
    return rc;
}

// ---- listing ------------------------------------------------------------------------------------

static int newest_first(const void *a, const void *b)
{
    const struct run_status *x = a, *y = b;
    double s = x->started, t = y->started;

    if (s != t && !(s != s && t != t)) // unknown times last
        return s != s ? 1 : t != t ? -1 : s < t ? 1 : -1;
    return strcmp(x->id, y->id);
}

static void read_one(const char *name, struct run_status *st)
{
    char *path = xasprintf("%s/%s", runs_dir(), name);
    struct err err = ERR_INIT;
    struct stat sb;

    if (run_read_status(path, st, &err) < 0) {
        run_status_init(st);
        snprintf(st->id, sizeof st->id, "%s", name);
        st->state = RUN_FAILED;
        err_format(&err, st->reason, sizeof st->reason);
        if (stat(path, &sb) == 0)
            st->started = (double)sb.st_mtime;
    }
    free(path);
}

int runs_list(struct run_status **list, int *n, struct err *err)
{
    struct names l;

    *list = NULL;
    *n = 0;
    if (names_read(runs_dir(), &l, err) < 0)
        return -1;
    *list = xcalloc((size_t)l.n + 1, sizeof **list);
    for (int i = 0; i < l.n; i++)
        read_one(l.v[i], &(*list)[i]);
    *n = l.n;
    qsort(*list, (size_t)l.n, sizeof **list, newest_first);
    names_release(&l);
    return 0;
}
