// The run directory: everything a run needs to be watched, continued, audited or deleted.
// runs/README.md specifies the files. This module names, creates, locks, lists and deletes run
// directories and writes their status and log.
#ifndef ENGINE_RUN_H
#define ENGINE_RUN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/err.h"
#include "engine/spec.h"

enum run_state {
    RUN_NEW,      // created, not started
    RUN_STARTING, // reading data, first step
    RUN_RUNNING,
    RUN_PAUSED,
    RUN_STOPPED, // ended early with a checkpoint; can be resumed
    RUN_DONE,
    RUN_FAILED,
    RUN_LOST, // never written: derived by readers from a missing lock or an old heartbeat
};
const char *run_state_name(enum run_state s); // "running"

// What status.json holds, replaced atomically about every two seconds and at every change.
// Unknown numbers are NaN (JSON null), never 0.
struct run_status {
    char id[64], name[SPEC_NAME_SIZE];
    enum run_state state;
    char phase[64];   // "loading data", "step", "evaluating", "checkpoint"
    char reason[512]; // failure or refusal in words
    int64_t step, total_steps, tokens, total_tokens;
    double flops; // cumulative, house standard
    double train_loss, val_loss, val_ppl, val_bpb, best_val_loss;
    int64_t val_tokens; // scored by the last evaluation
    double lr, grad_norm, tokens_per_s, mfu, eta_s;
    int64_t params, checkpoint_step; // -1 = no checkpoint
    double elapsed_s;                // of training, over all resumes
    double heartbeat, started;       // seconds since 1970
    double heartbeat_period;         // seconds
    int pid;
    char host[64];
};
void run_status_init(struct run_status *st); // numbers unknown, texts empty, state new
bool run_state_is_live(enum run_state s);    // a process hosts it: starting, running, paused
json_t *run_status_to_json(const struct run_status *st);
int run_status_from_json(const json_t *j, struct run_status *st); // tolerant of missing members

// $LATHE_RUNS or ./runs, unless set by --runs.
const char *runs_dir(void);
void runs_set_dir(const char *dir);

// Resolves an id, a unique prefix of one, or a directory path to the directory. 0 or -1 with the
// nearest id suggested.
int run_find(const char *id, char *dir, size_t dir_size, struct err *err);

// Creates runs/<id>/ (0700) with profile.yaml and a status "new". id NULL: "<name>-<n>", the next
// free number (numbers in the trash are not used again). Writes the directory to dir.
int run_create(const struct spec *spec, const char *id, char *dir, size_t dir_size,
               struct err *err);

// The id is the directory's name. Derives RUN_LOST and its reason: the file says that the run is
// live, but nothing on this host holds its lock, or the heartbeat (here also the time of the lock
// file) is older than three periods.
// The id that run_create(spec, NULL) would choose now; another process may still take it first.
enum { RUN_ID_SIZE = 64 };
void run_next_id(const struct spec *spec, char id[RUN_ID_SIZE]);

int run_read_status(const char *dir, struct run_status *st, struct err *err);
// Atomic; synced to the disk in the states that last (new, stopped, done, failed).
int run_write_status(const char *dir, const struct run_status *st, struct err *err);
const char *run_host_name(void); // of this machine
double run_now(void);            // seconds since 1970

// Takes the run's lock for this process, which dies with it, and writes who holds it into the file.
// Returns the descriptor (close it to give the lock back), -1 on an error, -2 when another process
// hosts the run: err names it.
int run_lock(const char *dir, struct err *err);
int run_load_profile(const char *dir, struct spec *spec, struct err *err);

// All runs below runs_dir(), newest first. Directories without a readable status are listed with
// state failed and the reason. Caller frees *list.
int runs_list(struct run_status **list, int *n, struct err *err);

// Moves the directory to .trash/ beside it (runs/.trash/<id>, or <id>.<n> when that is taken);
// refuses while a host holds the lock.
int run_delete(const char *dir, struct err *err);

#endif
