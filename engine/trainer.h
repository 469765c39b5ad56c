// The engine thread: owns the backend and the model, steps it, evaluates, checkpoints. The host
// thread talks to it only through this header.
#ifndef ENGINE_TRAINER_H
#define ENGINE_TRAINER_H

#include "engine/err.h"
#include "engine/run.h"
#include "engine/runlog.h"
#include "engine/spec.h"

enum trainer_command { TRAINER_PAUSE, TRAINER_RESUME, TRAINER_CHECKPOINT, TRAINER_STOP };

struct trainer;

// Prepares a trainer for run_dir (host thread; nothing is loaded yet). Records go to `log`;
// text for log.txt goes through log_text, called on the engine thread.
struct trainer *trainer_new(const char *run_dir, const struct spec *spec, const char *backend,
                            struct runlog *log, void (*log_text)(void *user, const char *line),
                            void *user);
// Starts the engine thread: audit, model, latest good checkpoint if there is one, steps.
int trainer_start(struct trainer *t, struct err *err);
void trainer_send(struct trainer *t, enum trainer_command cmd); // host thread
void trainer_status(struct trainer *t, struct run_status *st);  // host thread, fills its part
int trainer_fd(struct trainer *t); // eventfd: readable when the status changed
// The thread has ended: state is done, stopped or failed.
int trainer_ended(struct trainer *t);
void trainer_free(struct trainer *t); // joins

#endif
