// Hosting one run: the host thread of the process. Takes the lock, opens the log, starts the
// trainer, answers the control socket, keeps status.json fresh, turns signals into commands
// (TERM, INT: checkpoint and stop; HUP is ignored).
#ifndef ENGINE_HOST_H
#define ENGINE_HOST_H

#include "engine/err.h"
#include "engine/run.h"

// Called about once a second and at changes with the newest status (progress line); may be NULL.
typedef void host_progress(void *user, const struct run_status *st);

// Runs until the trainer ends. Returns the exit code: 0 done, 4 failed, 143 stopped, 1 refused.
int host_run(const char *run_dir, const char *backend, host_progress *fn, void *user,
             struct err *err);

// Starts `lathe train --resume RUN` as a process of its own: own session, no terminal, stdout and
// stderr to log.txt. Returns once its status left "new" or it failed (at most timeout_ms). 0 or -1.
int host_spawn(const char *run_dir, const char *backend, int timeout_ms, struct err *err);

#endif
