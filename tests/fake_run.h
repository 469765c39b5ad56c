// Run directories as a host leaves them, made by a test: profile, metrics, status, log.
#ifndef TESTS_FAKE_RUN_H
#define TESTS_FAKE_RUN_H

#include "engine/run.h"

enum { FAKE_TOTAL_STEPS = 1099, FAKE_TOKENS_PER_STEP = 4096 };

// Makes runs_dir()/id of the embedded default profile with records of steps 1..step (a falling loss
// with noise, an evaluation each 100 steps over 262,144 tokens) and a status in that state.
// When it is live the lock is held until fake_run_unlock(). dir: at least 512 bytes.
void fake_run_make(const char *id, enum run_state state, int64_t step, char *dir);
// The same of another profile.
void fake_run_make_of(const struct spec *spec, const char *id, enum run_state state, int64_t step,
                      char *dir);
// Appends one record to the log; takes the reference.
void fake_run_record(const char *dir, json_t *line);
// Appends records of steps from+1 .. to and writes the status anew.
void fake_run_grow(const char *dir, enum run_state state, int64_t from, int64_t to);
void fake_run_unlock(void); // all locks of this process
double fake_run_loss(int64_t step);

#endif
