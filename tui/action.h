// One order to a run at a time, carried out on a thread of its own, so that a host that answers
// slowly never holds up the screen. The caller polls for the outcome. UI thread only.
#ifndef TUI_ACTION_H
#define TUI_ACTION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "engine/err.h"

enum action_kind {
    ACTION_CONTROL, // one command over the run's socket
    ACTION_SPAWN,   // a host process that continues the run
};

struct action { // zero-initialise
    pthread_t thread;
    bool busy;
    atomic_int done;
    enum action_kind kind;
    char run_dir[512], command[32];
    // filled by the thread, valid once action_poll() said true
    bool ok;
    char state[32]; // as the host answered, "" if it named none
    struct err err; // when !ok
};

enum { ACTION_TIMEOUT_MS = 2000, ACTION_SPAWN_TIMEOUT_MS = 20000 };

// False when the last one has not ended yet. command: "pause", "resume", "checkpoint", "stop";
// unused for ACTION_SPAWN.
bool action_start(struct action *a, enum action_kind kind, const char *run_dir,
                  const char *command);
bool action_poll(struct action *a);    // true once, when it ended
void action_release(struct action *a); // waits for the thread

#endif
