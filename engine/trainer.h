// The engine thread: owns the backend and the model, steps it, evaluates, checkpoints. The host
// thread talks to it only through this header.
//
// Records it adds to the log ("time" is seconds since 1970; unknown numbers are null):
//   every log.interval steps  step tokens time train/loss lr grad_norm tokens_per_s mfu flops
//                             gemm_gflops; with gates also, for the global batch of that step,
//                             [gate/mean] [gate/var] [gate/sparsity], the coefficients it led to
//                             [reg/alpha] [reg/beta], and reg/loss flops_active
//   every eval.interval steps, at step 0 (there over 8 micro-batches at most) and at the end
//                             step tokens time val/loss val/ppl val/bpb val/tokens flops
//                             gemm_gflops [resid/norm]; with gates also [gate/mean] [gate/var]
//                             [gate/sparsity] [gate/closed] [gate/over] val/sparsity flops_active
//   events                    step tokens time event text; event is one of start, resume, pause,
//                             hold, checkpoint, stop, done, failed; start and resume also carry
//                             gemm_gflops gemm_library threads audit; command (command who), set
//                             (asked) and change (before the first update it concerns) carry who
//                             asked, the latter two all of change (changes.h)
// [arrays] hold one number per layer. step counts completed optimizer steps; train/loss is the mean
// cross-entropy over the steps since the last record, reg/loss the regulariser of that step alone;
// flops is cumulative, house standard (count.h), full-square attention, flops_active what of it the
// gates left to do (count_active.h); mfu is that rate over the rate of large matrix products through
// the same backend (gemm_gflops: measured at the start and after each evaluation, the best so far on
// this machine, kept in checkpoints; a record's mfu is against the one it carries, null when the step
// was faster than that); tokens_per_s is a mean over the latest steps without evaluations and pauses.
//
// State "failed" with phase "refused": nothing was trained because data, memory or profile do not
// allow it; any other phase: the run itself failed. The reason is always a sentence. State "paused"
// with phase "checkpoint failed": a checkpoint could not be written (full disk); resume or
// checkpoint tries again, stop tries once more and then gives up.
#ifndef ENGINE_TRAINER_H
#define ENGINE_TRAINER_H

#include "engine/changes.h"
#include "engine/err.h"
#include "engine/model.h"
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
// Starts the engine thread: audit, model, latest good checkpoint if there is one, steps. Fails only
// when there is no thread; everything else becomes state failed with the reason. backend "auto" is
// the fastest there is.
int trainer_start(struct trainer *t, struct err *err);
void trainer_send(struct trainer *t, enum trainer_command cmd); // host thread
void trainer_status(struct trainer *t, struct run_status *st);  // host thread, fills its part
// Changes the learning rate or the end of the run (host thread). In: key, value, who (UTF-8), and
// `at`, the first update it concerns or 0 for the next whose rate is not decided yet (a new end is
// always for now). Out: the rest. It is in changes.json before this returns and steps are taken by
// it; -1 with the reason when it is refused, then nothing has changed.
int trainer_change(struct trainer *t, struct change *c, struct err *err);
// Records that somebody gave a command (host thread): an event "command" with command and who.
void trainer_note(struct trainer *t, const char *command, const char *who);
int trainer_fd(struct trainer *t); // eventfd: readable when the status changed
// The thread has ended: state is done, stopped or failed.
int trainer_ended(struct trainer *t);
void trainer_free(struct trainer *t); // joins

// Fails for a profile that is sound but cannot be trained. trainer_start says so too; before a run
// directory exists it costs nothing. Any thread.
int trainer_check(const struct spec *spec, struct err *err);

// Bytes of memory this process may still take, as the check before training sees it; -1 = unknown.
double trainer_memory_available(void);
// Bytes that check asks for, checkpoints included; plan gets the parts.
double trainer_memory_needed(const struct spec *spec, struct model_sizes sizes,
                             struct model_plan *plan);

// What train.recompute means here: auto becomes layer when all activations do not fit.
enum recompute trainer_recompute(const struct spec *spec, struct model_sizes sizes);

#endif
