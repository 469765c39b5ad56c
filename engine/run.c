#include "engine/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/profile.h"
#include "engine/run_internal.h"

enum { LOCK_TRIES = 50, LOCK_WAIT_MS = 10, MAX_LOCK_TEXT = 4096 };

// ---- this machine -------------------------------------------------------------------------------

const char *run_host_name(void)
{
    static _Thread_local char name[64];

    if (!name[0] && gethostname(name, sizeof name - 1) < 0)
        snprintf(name, sizeof name, "localhost");
    return name;
}

double run_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- the directory of runs ----------------------------------------------------------------------

static char *chosen_dir;

const char *runs_dir(void)
{
    const char *env = getenv("LATHE_RUNS");

    if (chosen_dir)
        return chosen_dir;
    return env && env[0] ? env : "runs";
}

void runs_set_dir(const char *dir)
{
    free(chosen_dir);
    chosen_dir = dir ? xstrdup(dir) : NULL;
}

// ---- creating -----------------------------------------------------------------------------------

static bool is_id_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

static int check_id(const char *id, struct err *err)
{
    size_t n = strlen(id);

    for (size_t i = 0; i < n; i++)
        if (!is_id_char(id[i]))
            return err_set(err, "run id '%.80s' may hold letters, digits, '.', '_' and '-' only",
                           id);
    if (n == 0 || n > 63 || id[0] == '.' || id[0] == '-')
        return err_set(err, "run id '%.80s' must have 1 to 63 characters and not start with '%c'",
                       id, id[0] == '-' ? '-' : '.');
    return 0;
}

// The profile's name as far as it can be part of an id.
static void id_stem(const char *name, char *out, size_t size)
{
    size_t n = 0;

    for (const char *s = name; *s && n + 1 < size; s++)
        out[n++] = is_id_char(*s) ? *s : '-';
    out[n] = '\0';
    if (n == 0)
        snprintf(out, size, "run");
    else if (out[0] == '.' || out[0] == '-')
        out[0] = '_';
}

enum { STEM_SIZE = 44 }; // leaves room for the number

static void numbered(const char *stem, int64_t number, char id[RUN_ID_SIZE])
{
    snprintf(id, RUN_ID_SIZE, "%.43s-%" PRId64, stem, number);
}

void run_next_id(const struct spec *spec, char id[RUN_ID_SIZE])
{
    char stem[RUN_ID_SIZE];

    id_stem(spec->name, stem, STEM_SIZE);
    numbered(stem, runs_next_number(stem), id);
}

static int write_new(const char *dir, const char *id, const struct spec *spec, struct err *err)
{
    char *path = xasprintf("%s/profile.yaml", dir);
    char *yaml = profile_to_yaml(spec, "resolved profile of this run");
    struct run_status st;
    int rc = file_write_atomic(path, yaml, strlen(yaml), err);

    free(yaml);
    free(path);
    if (rc < 0)
        return -1;
    run_status_init(&st);
    snprintf(st.id, sizeof st.id, "%s", id);
    snprintf(st.name, sizeof st.name, "%s", spec->name);
    st.total_steps = spec_total_steps(spec);
    st.total_tokens = st.total_steps * spec_tokens_per_step(spec);
    st.started = run_now();
    snprintf(st.host, sizeof st.host, "%s", run_host_name());
    if (run_write_status(dir, &st, err) < 0)
        return -1;
    return file_sync_dir(runs_dir(), err);
}

// mkdir claims the id: of two that want the same, one sees EEXIST.
static int claim(const char *stem, int64_t number, char *id, char *dir, size_t dir_size)
{
    char *path;
    int rc;

    if (number)
        numbered(stem, number, id);
    else
        snprintf(id, RUN_ID_SIZE, "%s", stem);
    path = xasprintf("%s/%s", runs_dir(), id);
    if ((size_t)snprintf(dir, dir_size, "%s", path) >= dir_size) {
        errno = ENAMETOOLONG;
        rc = -1;
    } else {
        rc = mkdir(path, 0700);
    }
    free(path);
    return rc;
}

int run_create(const struct spec *spec, const char *id, char *dir, size_t dir_size, struct err *err)
{
    int64_t number = 0;
    char stem[RUN_ID_SIZE], name[RUN_ID_SIZE];

    if (id && check_id(id, err) < 0)
        return -1;
    if (file_mkdirs(runs_dir(), 0777, err) < 0)
        return -1;
    if (id) {
        snprintf(stem, sizeof stem, "%s", id);
    } else {
        id_stem(spec->name, stem, STEM_SIZE);
        number = runs_next_number(stem);
    }
    while (claim(stem, number, name, dir, dir_size) < 0) {
        if (errno != EEXIST)
            return err_sys(err, "cannot make the run directory '%s'", dir);
        if (id)
            return err_set(err, "a run '%s' exists already in '%s'", id, runs_dir());
        number++;
    }
    if (write_new(dir, name, spec, err) == 0)
        return 0;
    file_remove_tree(dir, NULL);
    return -1;
}

int run_load_profile(const char *dir, struct spec *spec, struct err *err)
{
    char *path = xasprintf("%s/profile.yaml", dir);
    struct problems p = {0};
    int rc = profile_load(path, NULL, 0, spec, &p);

    for (int i = 0; rc < 0 && i < p.n; i++)
        if (p.v[i].severity == SEV_ERROR) {
            if (err)
                *err = p.v[i].err;
            break;
        }
    problems_release(&p);
    free(path);
    return rc;
}

// ---- the lock -----------------------------------------------------------------------------------

static char *lock_path(const char *dir)
{
    return xasprintf("%s/lock", dir);
}

bool run_is_locked(const char *dir, bool *known, double *heartbeat)
{
    char *path = lock_path(dir);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool locked = false;
    struct stat st;

    *known = fd >= 0 || errno == ENOENT;
    // shared, so that two readers do not take each other for a host; a starting host tries again
    if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0)
        locked = errno == EWOULDBLOCK;
    if (locked && fstat(fd, &st) == 0)
        *heartbeat = (double)st.st_mtim.tv_sec + 1e-9 * (double)st.st_mtim.tv_nsec;
    if (fd >= 0)
        close(fd);
    free(path);
    return locked;
}

static int held(const char *dir, const char *path, struct err *err)
{
    struct buf text = {0};
    int n;

    if (file_read(path, MAX_LOCK_TEXT, &text, NULL) < 0)
        buf_str(&text, "another process");
    n = (int)strcspn(text.data, "\n");
    dir = strrchr(dir, '/') && strrchr(dir, '/')[1] ? strrchr(dir, '/') + 1 : dir;
    err_set(err, "run '%s' is hosted by %.*s already", dir, n, text.data);
    buf_release(&text);
    return -2;
}

int run_lock(const char *dir, struct err *err)
{
    char *path = lock_path(dir), text[160];
    struct timespec wait = {0, LOCK_WAIT_MS * 1000000L};
    int fd = -2, n;

    for (int i = 0; i < LOCK_TRIES && fd == -2; i++) {
        if (i)
            nanosleep(&wait, NULL); // a reader may hold it for a moment
        fd = file_lock(path, err);
    }
    if (fd == -2)
        held(dir, path, err);
    if (fd >= 0) {
        n = snprintf(text, sizeof text, "process %d on %s\n", (int)getpid(), run_host_name());
        // the text only serves messages: a full disk must not keep a run from being resumed
        if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n)
            errno = 0;
    }
    free(path);
    return fd;
}

// ---- deleting -----------------------------------------------------------------------------------

// The directory's real parent and its name there. Caller frees both.
static int split_path(const char *dir, char **parent, char **name, struct err *err)
{
    char *path = xstrdup(dir), *slash;
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        path[--n] = '\0';
    slash = strrchr(path, '/');
    if (!strcmp(slash ? slash + 1 : path, ".") || !strcmp(slash ? slash + 1 : path, "..")) {
        free(path);
        path = realpath(dir, NULL);
        if (!path)
            return err_sys(err, "cannot resolve '%s'", dir);
        slash = strrchr(path, '/');
    }
    *name = xstrdup(slash ? slash + 1 : path);
    if (slash)
        *(slash == path ? slash + 1 : slash) = '\0';
    *parent = xstrdup(slash ? path : ".");
    free(path);
    return 0;
}

static int move_to_trash(const char *dir, struct err *err)
{
    char *parent = NULL, *name = NULL, *trash, *target = NULL;
    int rc;

    if (split_path(dir, &parent, &name, err) < 0)
        return -1;
    trash = xasprintf("%s/.trash", parent);
    rc = file_mkdirs(trash, 0700, err);
    for (int i = 0; rc == 0; i++) {
        free(target);
        target = i ? xasprintf("%s/%s.%d", trash, name, i) : xasprintf("%s/%s", trash, name);
        if (file_exists(target))
            continue;
        if (renameat2(AT_FDCWD, dir, AT_FDCWD, target, RENAME_NOREPLACE) == 0 ||
            (errno == EINVAL && rename(dir, target) == 0))
            break;
        if (errno != EEXIST)
            rc = err_sys(err, "cannot move '%s' to '%s'", dir, target);
    }
    free(parent);
    free(name);
    free(trash);
    free(target);
    return rc;
}

int run_delete(const char *dir, struct err *err)
{
    struct run_status st;
    struct stat sb;
    int fd, rc;

    if (stat(dir, &sb) < 0 || !S_ISDIR(sb.st_mode))
        return err_set(err, "'%s' is no run directory", dir);
    fd = run_lock(dir, err);
    if (fd < 0)
        return -1;
    // a host on another machine may hold a lock that this one cannot see
    if (run_read_status(dir, &st, NULL) == 0 && run_state_is_live(st.state) &&
        strcmp(st.host, run_host_name())) {
        close(fd);
        return err_set(err, "run '%s' is %s in process %d on %s", st.id, run_state_name(st.state),
                       st.pid, st.host);
    }
    rc = move_to_trash(dir, err);
    close(fd);
    return rc;
}
