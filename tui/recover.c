#include "tui/recover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/profile.h"
#include "engine/run.h"
#include "tui/app.h"
#include "tui/design_state.h"

static const char file_mark[] = "# file: ", sum_mark[] = "# its text: ";

// ---- where --------------------------------------------------------------------------------------

// "" when there is no home. Caller frees.
char *recover_directory(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

    if (state && state[0] == '/')
        return xasprintf("%s/lathe/unsaved", state);
    return home && home[0] == '/' ? xasprintf("%s/.local/state/lathe/unsaved", home) : xstrdup("");
}

// What this process's files begin with. A lock of that name says that it lives: pids come again, and
// other machines' mean nothing here.
static const char *token(void)
{
    static char text[96];

    if (!text[0])
        snprintf(text, sizeof text, "%.32s-%d-%.0f", run_host_name(), (int)getpid(),
                 1e3 * run_now());
    return text;
}

static char *file_of(const struct design *d)
{
    char *dir = recover_directory();
    char *path = dir[0] ? xasprintf("%s/%s-%ld.yaml", dir, token(), d->id) : xstrdup("");

    free(dir);
    return path;
}

static char *lock_of(const char *dir, const char *name)
{
    return xasprintf("%s/%s.lock", dir, name);
}

// ---- keeping ------------------------------------------------------------------------------------

static bool is_due(const struct design *d)
{
    return d->kept != d->changes && (design_dirty(d) || d->kept > 0);
}

bool recover_due(const struct app *app)
{
    for (int i = 0; i < app->tabs.n; i++)
        if (is_due(app->tabs.v[i]))
            return true;
    return false;
}

// Which text the changes are of.
static unsigned long checksum(const struct design *d)
{
    const struct buf *b = d->n_texts > 0 ? &d->texts[d->n_texts - 1]->text : NULL;

    return b ? crc32(0, (const unsigned char *)b->data, (unsigned)b->len) : 0;
}

static char *text_of(const struct design *d)
{
    char *real = d->path[0] ? realpath(d->path, NULL) : NULL;
    char *header = xasprintf("changes that were not saved, kept by lathe\n%s%s\n%s%08lx",
                             real ? file_mark + 2 : "in no file yet", real ? real : "",
                             sum_mark + 2, checksum(d));
    char *text = profile_to_yaml(&d->undo[d->at]->spec, header);

    free(header);
    free(real);
    return text;
}

static int write_file(const char *path, const char *text)
{
    char *tmp = xasprintf("%s.tmp", path);
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), rc = -1;

    if (fd >= 0) {
        rc = write_all(fd, text, strlen(text));
        rc = close(fd) < 0 ? -1 : rc;
    }
    if (rc == 0)
        rc = rename(tmp, path);
    if (rc < 0)
        unlink(tmp);
    free(tmp);
    return rc;
}

// Held until the process ends; -1 while there is none.
static int lock_fd = -1;

static int make_place(const char *dir)
{
    struct err err = ERR_INIT;
    char *lock;

    if (!dir[0] || file_mkdirs(dir, 0700, &err) < 0)
        return -1;
    if (lock_fd < 0) {
        lock = lock_of(dir, token());
        lock_fd = file_lock(lock, &err);
        free(lock);
    }
    return lock_fd < 0 ? -1 : 0;
}

static int keep(struct design *d)
{
    char *dir = recover_directory(), *path = file_of(d), *text = text_of(d);
    int rc = make_place(dir) < 0 ? -1 : write_file(path, text);

    free(text);
    free(path);
    free(dir);
    return rc;
}

void recover_remove(const struct design *d)
{
    char *path = file_of(d);

    if (d->kept > 0 && path[0])
        unlink(path);
    free(path);
}

void recover_keep(struct app *app)
{
    for (int i = 0; i < app->tabs.n; i++) {
        struct design *d = app->tabs.v[i];

        if (!is_due(d))
            continue;
        if (!design_dirty(d))
            recover_remove(d);
        else if (keep(d) < 0 && !app->cannot_keep) {
            app->cannot_keep = true;
            app_message(app, ROLE_WARN, "unsaved changes are not kept outside this program: %s",
                        strerror(errno));
        }
        d->kept = d->changes;
    }
}

void recover_forget(struct app *app)
{
    char *dir = recover_directory(), *lock = lock_of(dir, token());

    for (int i = 0; i < app->tabs.n; i++)
        recover_remove(app->tabs.v[i]);
    if (lock_fd >= 0) {
        unlink(lock);
        close(lock_fd);
        lock_fd = -1;
    }
    free(lock);
    free(dir);
}

// ---- coming back --------------------------------------------------------------------------------

// Files are named TOKEN-N.yaml. The token when it is such a name.
static bool token_of(const char *name, char *out, size_t size)
{
    const char *end = strrchr(name, '-');
    size_t len = strlen(name);

    if (!end || len < 6 || strcmp(name + len - 5, ".yaml") || (size_t)(end - name) >= size)
        return false;
    snprintf(out, size, "%.*s", (int)(end - name), name);
    return true;
}

// Where it came from; "" = nowhere, or it is gone. Below the working directory as a short path.
static void origin_of(const char *text, char *out, size_t size)
{
    const char *at = strstr(text, file_mark);
    char here[SPEC_PATH_SIZE];
    size_t n;

    out[0] = 0;
    if (!at)
        return;
    at += sizeof file_mark - 1;
    snprintf(out, size, "%.*s", (int)strcspn(at, "\n"), at);
    n = getcwd(here, sizeof here) ? strlen(here) : 0;
    if (n > 1 && !strncmp(out, here, n) && out[n] == '/')
        memmove(out, out + n + 1, strlen(out + n + 1) + 1);
    if (!file_exists(out))
        out[0] = 0;
}

// Over what its file holds now, as an edit: undo goes back to the file. When that is another text than
// the changes were made to, a save asks first.
static void put_back(struct design *d, const struct spec *spec, const char *path, const char *text)
{
    const char *sum = strstr(text, sum_mark);
    struct err err = ERR_INIT;

    if (path[0] && design_open(d, path, &err) == 0) {
        if (sum && strtoul(sum + sizeof sum_mark - 1, NULL, 16) != checksum(d))
            buf_reset(&d->texts[d->n_texts - 1]->text);
        d->spec = *spec;
        design_keep_cursor(d);
        design_commit(d, "changes that were not saved");
        return;
    }
    design_set_spec(d, spec, "");
    d->unsaved = true;
    d->changes++;
}

// 1 when it is a tab now, -1 when it cannot be read and stays, 0 when there is no room.
static int adopt(struct app *app, const char *file)
{
    struct spec *spec = xcalloc(1, sizeof *spec);
    struct problems problems = {0};
    struct buf text = {0};
    char path[SPEC_PATH_SIZE];
    bool good = file_read(file, PROFILE_MAX_BYTES, &text, NULL) == 0 &&
                profile_parse(file, text.data, text.len, NULL, 0, spec, &problems) == 0;
    int rc = !good ? -1 : tabs_new(app) ? 1 : 0;

    if (rc > 0) {
        origin_of(text.data, path, sizeof path);
        put_back(app->design, spec, path, text.data);
        if (keep(app->design) == 0) {
            app->design->kept = app->design->changes;
            unlink(file);
        }
    }
    problems_release(&problems);
    buf_release(&text);
    free(spec);
    return rc;
}

// A file of a process that is gone, while its lock is held here.
static int adopt_orphan(struct app *app, const char *dir, const char *name)
{
    char owner[128], *lock, *file;
    struct err err = ERR_INIT;
    int fd, rc = 0;

    if (!token_of(name, owner, sizeof owner) || !strcmp(owner, token()))
        return 0;
    lock = lock_of(dir, owner);
    file = xasprintf("%s/%s", dir, name);
    fd = file_lock(lock, &err);
    if (fd >= 0) {
        rc = adopt(app, file);
        unlink(lock);
        close(fd);
    }
    free(file);
    free(lock);
    return rc;
}

int recover_adopt(struct app *app, int *unreadable)
{
    char *dir = recover_directory();
    DIR *entries = dir[0] ? opendir(dir) : NULL;
    struct dirent *e;
    int n = 0;

    *unreadable = 0;
    while (entries && app->tabs.n < TABS_MAX && (e = readdir(entries))) {
        int rc = adopt_orphan(app, dir, e->d_name);

        n += rc > 0;
        *unreadable += rc < 0;
    }
    if (entries)
        closedir(entries);
    free(dir);
    return n;
}
