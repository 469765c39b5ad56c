// What the files of the trainer share. Nobody else includes this.
#ifndef ENGINE_TRAINER_IMPL_H
#define ENGINE_TRAINER_IMPL_H

#include <pthread.h>

#include "engine/audit.h"
#include "engine/eval.h"
#include "engine/gate.h"
#include "engine/loader.h"
#include "engine/model.h"
#include "engine/optim.h"
#include "engine/shard.h"
#include "engine/trainer.h"

enum { RATE_STEPS = 32 };

enum outcome { GO_ON, STOPPED, FAILED };

// What a checkpoint carries besides tensors, so that a resumed run writes the same records.
struct progress {
    int64_t step;      // completed optimizer steps
    int64_t evaluated; // step of the last evaluation, -1 before the first
    double loss_sum;   // of the steps since the last train record
    int64_t loss_steps;
    double elapsed_s;
    double train_loss, val_loss, val_ppl, val_bpb, best_val_loss, lr, grad_norm;
    int64_t val_tokens;
};

// Sparsity control, of use in runs with gates only.
struct gate_state {
    struct gate_control control;
    struct gate_stat stat[SPEC_MAX_LAYERS / 2]; // of the global batch at hand, then of the last one
    double penalty;                             // mean over its micro-batches
    double flops_active;                        // cumulative
};

struct trainer {
    char run_dir[SPEC_PATH_SIZE];
    char backend_name[16];
    struct spec spec;
    struct runlog *log;
    void (*log_text)(void *user, const char *line);
    void *user;

    pthread_t thread;
    bool started; // host thread only
    int fd;
    pthread_mutex_t lock; // guards from here
    pthread_cond_t wake;
    bool pause, resume, checkpoint, stop, ended;
    struct run_status st;
    struct changes changes;
    int64_t begun, decided; // newest update that was begun, whose learning rate is decided
    bool changeable;        // restored, and the end is not reached for good; to here

    // engine thread only
    struct backend *be;
    struct model *model;
    struct optim *optim;
    struct shard train, val;
    struct loader train_loader, val_loader;
    struct audit train_audit;
    int32_t *tokens, *targets; // one micro-batch each
    int64_t planned_steps;                // by the profile
    int64_t total_steps, tokens_per_step; // by the newest change the engine thread has seen
    double flops_per_token, gemm_gflops;
    double mfu; // of the last step against the ceiling known then; NaN = unknown
    struct progress p;
    struct gate_state gate;
    int64_t saved;             // step of the newest checkpoint, -1 = none
    const char *doing;         // the phase to show while it runs
    enum outcome polled;       // what the last command asked for, set by the model's poll
    double idle_s;             // spent paused or saving inside a step or an evaluation
    double rate_s[RATE_STEPS]; // durations of the latest steps, a ring
    int64_t rate_n;
    double eval_s, save_s; // durations of the last ones
};

double trainer_now(void); // monotonic seconds

// trainer_log.c: records and the status
void trainer_record_train(struct trainer *t);
void trainer_record_eval(struct trainer *t, const struct eval_result *r);
void trainer_record_start(struct trainer *t);
void trainer_event(struct trainer *t, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void trainer_set_state(struct trainer *t, enum run_state state, const char *phase,
                       const char *reason);
void trainer_wake(struct trainer *t);                 // the host thread
void trainer_publish(struct trainer *t);              // progress -> status, wakes the host
double trainer_step_seconds(const struct trainer *t); // mean of the ring, NaN before a step
double trainer_mfu(const struct trainer *t);
json_t *trainer_number(double v); // null when it is not finite

// trainer_gate.c: all but the eval record do nothing without gates
void trainer_gate_init(struct trainer *t);
void trainer_gate_collect(struct trainer *t, int64_t micro); // after micro-batch 0, 1, … of a step
void trainer_gate_step(struct trainer *t);                   // after the weights have moved
void trainer_gate_record_train(const struct trainer *t, json_t *o);
void trainer_layers_record_eval(const struct trainer *t, const struct eval_result *r, json_t *o);
void trainer_gate_save(struct trainer *t, json_t *meta);
int trainer_gate_restore(struct trainer *t, const json_t *meta, struct err *err);

void trainer_record_change(struct trainer *t, const struct change *c); // it takes effect now

// trainer_change.c
int trainer_changes_open(struct trainer *t, struct err *err); // before the first step
void trainer_changes_save(struct trainer *t, json_t *meta);
int trainer_changes_restore(struct trainer *t, const json_t *meta, struct err *err);
void trainer_changes_ready(struct trainer *t); // from now on the run can be changed
void trainer_plan(struct trainer *t);          // takes over the planned end
bool trainer_begin_step(struct trainer *t);    // false: the end has come
double trainer_decide_lr(struct trainer *t, int64_t n);
bool trainer_finish(struct trainer *t); // false: the end was moved away meanwhile

// trainer_setup.c: data, memory, model
int trainer_open(struct trainer *t, struct err *err);
void trainer_close(struct trainer *t);
void trainer_measure_gemm(struct trainer *t, double seconds);

// trainer_ckpt.c
int trainer_save(struct trainer *t, struct err *err);    // also checks that the weights are finite
int trainer_restore(struct trainer *t, struct err *err); // newest checkpoint; 0 if there is none

#endif
