#define _XOPEN_SOURCE_EXTENDED
#include "engine/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int write_all(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len) {
        ssize_t n = write(fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

static int read_rest(int fd, size_t max_size, struct buf *out)
{
    char chunk[65536];
    ssize_t n;

    while ((n = read(fd, chunk, sizeof chunk)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (out->len + (size_t)n > max_size) {
            errno = EFBIG;
            return -1;
        }
        buf_add(out, chunk, (size_t)n);
    }
    return 0;
}

int file_read(const char *path, size_t max_size, struct buf *out, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    int rc = -1;

    buf_reset(out);
    if (fd < 0)
        return err_sys(err, "cannot open '%s'", path);
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        err_sys(err, "cannot read '%s'", path);
    } else if (S_ISREG(st.st_mode) && (size_t)st.st_size > max_size) {
        err_set(err, "'%s' has %lld bytes, at most %zu are read", path, (long long)st.st_size,
                max_size);
    } else if (read_rest(fd, max_size, out) < 0) {
        err_sys(err, "cannot read '%s'", path);
    } else {
        buf_str(out, ""); // data is never NULL
        rc = 0;
    }
    close(fd);
    return rc;
}

int file_sync_dir(const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 ? -1 : fsync(fd);

    // some file systems cannot sync a directory and say EINVAL: nothing more can be done there
    if (rc < 0 && (fd < 0 || errno != EINVAL)) {
        err_sys(err, "cannot sync directory '%s'", path);
    } else {
        rc = 0;
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

static int write_temporary(const char *tmp, unsigned mode, const void *data, size_t len,
                           struct err *err)
{
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

    if (fd < 0)
        return err_sys(err, "cannot create '%s'", tmp);
    if (write_all(fd, data, len) < 0 || fsync(fd) < 0) {
        err_sys(err, "cannot write '%s'", tmp);
        close(fd);
        return -1;
    }
    if (close(fd) < 0)
        return err_sys(err, "cannot close '%s'", tmp);
    return 0;
}

static int write_atomic(const char *path, unsigned new_mode, const void *data, size_t len,
                        struct err *err)
{
    char *tmp = xasprintf("%s.%d.tmp", path, (int)getpid());
    char *dir = xstrdup(path);
    struct stat st;
    unsigned mode = stat(path, &st) == 0 ? st.st_mode & 0777 : new_mode;
    int rc = write_temporary(tmp, mode, data, len, err);

    if (rc == 0 && rename(tmp, path) < 0)
        rc = err_sys(err, "cannot rename '%s' to '%s'", tmp, path);
    if (rc == 0)
        rc = file_sync_dir(dirname(dir), err);
    if (rc < 0)
        unlink(tmp);
    free(tmp);
    free(dir);
    return rc;
}

int file_write_atomic(const char *path, const void *data, size_t len, struct err *err)
{
    return write_atomic(path, 0600, data, len, err);
}

int file_write_shared(const char *path, const void *data, size_t len, struct err *err)
{
    return write_atomic(path, 0666, data, len, err);
}

bool file_is_protected(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && !(st.st_mode & 0222);
}

int file_mkdirs(const char *path, unsigned mode, struct err *err)
{
    char *p = xstrdup(path);
    int rc = 0;

    for (char *s = p + 1; rc == 0; s++) {
        char c = *s;

        if (c != '/' && c != '\0')
            continue;
        *s = '\0';
        if (mkdir(p, mode) < 0 && errno != EEXIST)
            rc = err_sys(err, "cannot make directory '%s'", p);
        *s = c;
        if (c == '\0')
            break;
    }
    free(p);
    return rc;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

int file_remove_tree(const char *path, struct err *err)
{
    if (!file_exists(path))
        return 0;
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        return err_sys(err, "cannot remove '%s'", path);
    return 0;
}

int file_lock(const char *path, struct err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0)
        return err_sys(err, "cannot open '%s'", path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    if (errno == EWOULDBLOCK) {
        close(fd);
        return -2;
    }
    err_sys(err, "cannot lock '%s'", path);
    close(fd);
    return -1;
}

bool file_exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}
