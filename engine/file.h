// Files written so that a crash or a full disk leaves either the old or the new content, plus the
// few helpers around them. Any thread.
#ifndef ENGINE_FILE_H
#define ENGINE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/buf.h"
#include "engine/err.h"

// Reads a whole file into out (reset first). Fails when it is larger than max_size bytes, before
// reading it. Returns 0 or -1.
int file_read(const char *path, size_t max_size, struct buf *out, struct err *err);

// Replaces path atomically: temporary name in the same directory, fsync, rename, fsync of the
// directory. Mode 0600 & ~umask unless the file exists. Returns 0 or -1 (path untouched).
int file_write_atomic(const char *path, const void *data, size_t len, struct err *err);
// The same for files that are meant for others too, such as profiles: mode 0666 & ~umask.
int file_write_shared(const char *path, const void *data, size_t len, struct err *err);
// No write bit is set for anybody: somebody meant it to stay, whatever root may do.
bool file_is_protected(const char *path);

// Like mkdir -p. mode applies to the directories that are made.
int file_mkdirs(const char *path, unsigned mode, struct err *err);

// Removes a directory tree; a missing one is fine.
int file_remove_tree(const char *path, struct err *err);

// fsync of a directory, so that names inside it survive a power cut.
int file_sync_dir(const char *path, struct err *err);

// Opens (creating) path and takes an exclusive lock that dies with the process.
// Returns the descriptor, -1 on an error, or -2 when another process holds it.
int file_lock(const char *path, struct err *err);

bool file_exists(const char *path);

// Writes all of it, retrying short writes and EINTR. Returns 0 or -1 with errno set.
int write_all(int fd, const void *data, size_t len);

#endif
