// Hosting one run: the host thread of the process. Takes the lock, opens the log, starts the
// trainer, answers the control socket, keeps status.json fresh, turns signals into commands
// (TERM, INT: checkpoint and stop; HUP is ignored).
#ifndef ENGINE_HOST_H
#define ENGINE_HOST_H

#include "engine/err.h"
#include "engine/run.h"

// Called about once a second and at changes with the newest status (progress line); may be NULL.
typedef void host_progress(void *user, const struct run_status *st);

// Runs until the trainer ends. Returns the exit code: 0 done, 4 failed, 143 stopped, 1 refused
// (another process hosts it, it is done already, its data or memory do not allow it). err says why
// for 1 and 4. Losing the terminal does not end it; a second TERM while it stops changes nothing.
int host_run(const char *run_dir, const char *backend, host_progress *fn, void *user,
             struct err *err);

// Starts `lathe train --resume RUN` as a process of its own: own session, no terminal, stdout and
// stderr to log.txt, no descriptor of the caller. Returns 0 once it runs (or has been starting for
// a second), -1 with its own reason when it ended before, at most timeout_ms later. It is not a
// child of the caller: nothing has to be waited for.
int host_spawn(const char *run_dir, const char *backend, int timeout_ms, struct err *err);

// The program host_spawn starts; main() names itself. Without it host_spawn refuses, so that
// a test program never starts copies of itself by accident. The text must stay.
void host_set_program(const char *path);

#endif
