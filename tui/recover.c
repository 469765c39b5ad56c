#include "tui/recover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/profile.h"
#include "engine/run.h"
#include "tui/app.h"
#include "tui/design_state.h"

static const char file_mark[] = "# file: ";

// ---- where --------------------------------------------------------------------------------------

// "" when there is no home. Caller frees.
static char *directory(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

    if (state && state[0] == '/')
        return xasprintf("%s/lathe/unsaved", state);
    return home && home[0] == '/' ? xasprintf("%s/.local/state/lathe/unsaved", home) : xstrdup("");
}

static char *file_of(const struct design *d)
{
    char *dir = directory();
    char *path = dir[0] ? xasprintf("%s/%s-%d-%ld.yaml", dir, run_host_name(), (int)getpid(), d->id)
                        : xstrdup("");

    free(dir);
    return path;
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

static char *text_of(const struct design *d)
{
    char *real = d->path[0] ? realpath(d->path, NULL) : NULL;
    char *header = xasprintf("changes that were not saved, kept by lathe\n%s%s",
                             real ? file_mark + 2 : "in no file yet", real ? real : "");
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

static int keep(struct design *d)
{
    struct err err = ERR_INIT;
    char *dir = directory(), *path = file_of(d), *text = text_of(d);
    int rc = path[0] && file_mkdirs(dir, 0700, &err) == 0 ? write_file(path, text) : -1;

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
    for (int i = 0; i < app->tabs.n; i++)
        recover_remove(app->tabs.v[i]);
}

// ---- coming back --------------------------------------------------------------------------------

// Files are named HOST-PID-N.yaml; those of other hosts and of live processes are not ours to take.
static bool is_orphan(const char *name)
{
    const char *host = run_host_name();
    size_t n = strlen(host), len = strlen(name);
    char *end;
    long pid;

    if (strncmp(name, host, n) || name[n] != '-' || len < 6 || strcmp(name + len - 5, ".yaml"))
        return false;
    pid = strtol(name + n + 1, &end, 10);
    return *end == '-' && pid > 0 && pid != (long)getpid() && kill((pid_t)pid, 0) < 0 &&
           errno == ESRCH;
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

// Over what its file holds now, as an edit: undo goes back to the file.
static void put_back(struct design *d, const struct spec *spec, const char *path)
{
    if (path[0] && design_open(d, path, NULL) == 0) {
        d->spec = *spec;
        design_keep_cursor(d);
        design_commit(d, "changes that were not saved");
        return;
    }
    design_set_spec(d, spec, "");
    d->unsaved = true;
    d->changes++;
}

static bool adopt(struct app *app, const char *file)
{
    struct spec *spec = xcalloc(1, sizeof *spec);
    struct problems problems = {0};
    struct buf text = {0};
    char path[SPEC_PATH_SIZE];
    bool done = file_read(file, PROFILE_MAX_BYTES, &text, NULL) == 0 &&
                profile_parse(file, text.data, text.len, NULL, 0, spec, &problems) == 0 &&
                tabs_new(app);

    if (done) {
        origin_of(text.data, path, sizeof path);
        put_back(app->design, spec, path);
        if (keep(app->design) == 0) {
            app->design->kept = app->design->changes;
            unlink(file);
        }
    }
    problems_release(&problems);
    buf_release(&text);
    free(spec);
    return done;
}

int recover_adopt(struct app *app)
{
    char *dir = directory();
    DIR *entries = dir[0] ? opendir(dir) : NULL;
    struct dirent *e;
    int n = 0;

    while (entries && app->tabs.n < TABS_MAX && (e = readdir(entries))) {
        char *file;

        if (!is_orphan(e->d_name))
            continue;
        file = xasprintf("%s/%s", dir, e->d_name);
        n += adopt(app, file);
        free(file);
    }
    if (entries)
        closedir(entries);
    free(dir);
    return n;
}
