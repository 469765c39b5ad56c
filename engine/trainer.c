// The engine thread: one loop that does whatever is due next, and the commands it obeys between the
// layers of any pass.
#include "engine/trainer_impl.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "engine/buf.h"

double trainer_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- failing and holding ------------------------------------------------------------------------

static void checkpoint_text(const struct trainer *t, char *out, size_t size)
{
    if (t->saved < 0)
        snprintf(out, size, "there is no checkpoint");
    else
        snprintf(out, size, "last good checkpoint: step %lld", (long long)t->saved);
}

static enum outcome fail(struct trainer *t, const char *phase, const char *reason)
{
    struct err err = ERR_INIT;

    trainer_event(t, "failed", "%s", reason);
    if (runlog_flush(t->log, &err) < 0 && t->log_text)
        t->log_text(t->user, err.text);
    trainer_set_state(t, RUN_FAILED, phase, reason);
    return FAILED;
}

static enum outcome fail_err(struct trainer *t, const char *phase, const struct err *err)
{
    char text[1600];

    return fail(t, phase, err_format(err, text, sizeof text));
}

// The step that met the bad value is not applied and nothing is written over a checkpoint.
static enum outcome fail_nonfinite(struct trainer *t, const char *what, double value, int64_t step)
{
    char tensor[160], ckpt[80], reason[512];

    if (!model_first_nonfinite(t->model, tensor, sizeof tensor))
        snprintf(tensor, sizeof tensor, "none alone (the sum overflows)");
    checkpoint_text(t, ckpt, sizeof ckpt);
    snprintf(reason, sizeof reason, "%s is %s at step %lld; first bad tensor: %s; %s", what,
             isnan(value) ? "nan" : "infinite", (long long)step, tensor, ckpt);
    return fail(t, "step", reason);
}

// Waits for a command while a checkpoint cannot be written; true when it is to give up.
static bool hold(struct trainer *t, const char *why)
{
    double start = trainer_now();
    bool stop;

    trainer_event(t, "hold", "checkpoint of step %lld failed: %s", (long long)t->p.step, why);
    trainer_set_state(t, RUN_PAUSED, "checkpoint failed", why);
    pthread_mutex_lock(&t->lock);
    t->resume = t->checkpoint = t->stop = false;
    while (!t->resume && !t->checkpoint && !t->stop)
        pthread_cond_wait(&t->wake, &t->lock);
    stop = t->stop;
    t->checkpoint = false;
    pthread_mutex_unlock(&t->lock);
    t->idle_s += trainer_now() - start;
    return stop;
}

static bool flag(struct trainer *t, bool *which, bool value)
{
    bool old;

    pthread_mutex_lock(&t->lock);
    old = *which;
    *which = value;
    pthread_mutex_unlock(&t->lock);
    return old;
}

static bool flag_is_set(struct trainer *t, const bool *which)
{
    bool v;

    pthread_mutex_lock(&t->lock);
    v = *which;
    pthread_mutex_unlock(&t->lock);
    return v;
}

static enum outcome give_up(struct trainer *t, const char *why)
{
    char ckpt[80], reason[512];

    checkpoint_text(t, ckpt, sizeof ckpt);
    snprintf(reason, sizeof reason, "stopped without a checkpoint of step %lld: %.300s; %s",
             (long long)t->p.step, why, ckpt);
    return fail(t, "checkpoint", reason);
}

// A failure (full disk) holds the run; resume or checkpoint tries again, stop tries once more.
static enum outcome save(struct trainer *t)
{
    bool stopping = flag(t, &t->stop, false), last_try = false;
    double norm = optim_weight_norm(t->optim), start = trainer_now(), idle = t->idle_s;

    if (!isfinite(norm))
        return fail_nonfinite(t, "the norm of the weights", norm, t->p.step);
    for (;;) {
        struct err err = ERR_INIT;
        char why[400];

        trainer_set_state(t, RUN_RUNNING, "checkpoint", "");
        if (!trainer_save(t, &err))
            break;
        snprintf(why, sizeof why, "%.390s", err.text);
        if (last_try)
            return give_up(t, why);
        last_try = hold(t, why);
    }
    if (stopping || last_try)
        flag(t, &t->stop, true);
    t->save_s = trainer_now() - start - (t->idle_s - idle);
    trainer_event(t, "checkpoint", "step %lld", (long long)t->p.step);
    trainer_publish(t);
    return GO_ON;
}

// ---- commands -----------------------------------------------------------------------------------

static void wait_while_paused(struct trainer *t)
{
    double start = trainer_now();

    trainer_event(t, "pause", "paused");
    runlog_flush(t->log, NULL); // kept in memory and tried again at the next flush
    trainer_set_state(t, RUN_PAUSED, "paused", "");
    pthread_mutex_lock(&t->lock);
    while (t->pause && !t->stop && !t->checkpoint)
        pthread_cond_wait(&t->wake, &t->lock);
    pthread_mutex_unlock(&t->lock);
    t->idle_s += trainer_now() - start;
}

static void take_commands(struct trainer *t, bool *pause, bool *checkpoint, bool *stop)
{
    pthread_mutex_lock(&t->lock);
    *pause = t->pause;
    *stop = t->stop;
    *checkpoint = t->checkpoint;
    t->checkpoint = false;
    pthread_mutex_unlock(&t->lock);
}

static enum outcome save_between(struct trainer *t)
{
    double start = trainer_now(), idle = t->idle_s;
    enum outcome got = save(t);

    t->idle_s = idle + trainer_now() - start;
    return got;
}

// What a pause, checkpoint or stop command asks for. Weights only change at the end of a step, so
// a checkpoint may be written at any point: it is the state after the last completed step.
static enum outcome obey(struct trainer *t)
{
    bool pause, checkpoint, stop, paused = false;

    for (;;) {
        take_commands(t, &pause, &checkpoint, &stop);
        if (stop)
            return STOPPED;
        if (checkpoint) {
            if (save_between(t) == FAILED)
                return FAILED;
        } else if (pause) {
            wait_while_paused(t);
            paused = true;
        } else {
            break;
        }
        if (!flag_is_set(t, &t->pause))
            trainer_set_state(t, RUN_RUNNING, t->doing, "");
    }
    if (paused)
        trainer_event(t, "resume", "resumed");
    return GO_ON;
}

static bool poll_commands(void *user)
{
    struct trainer *t = user;

    t->polled = obey(t);
    return t->polled != GO_ON;
}

// ---- evaluation and steps -----------------------------------------------------------------------

static void begin(struct trainer *t, const char *doing)
{
    t->doing = doing;
    trainer_set_state(t, RUN_RUNNING, doing, "");
}

static void keep_eval(struct trainer *t, const struct eval_result *r)
{
    struct progress *p = &t->p;

    p->evaluated = p->step;
    p->val_loss = r->loss;
    p->val_ppl = r->ppl;
    p->val_bpb = r->bpb;
    p->val_tokens = r->tokens;
    p->best_val_loss = fmin(p->best_val_loss, r->loss); // fmin ignores the NaN of the start
}

// Before the first step a few batches tell whether the loss is that of a guess; nobody should wait
// for the whole set to see the first step.
static int64_t eval_tokens(const struct trainer *t)
{
    int64_t most = t->spec.eval.max_tokens, few = 8 * model_rows(t->model);

    return t->p.step == 0 && (most == 0 || most > few) ? few : most;
}

static enum outcome evaluate(struct trainer *t)
{
    struct eval_options o = {.max_tokens = eval_tokens(t), .norm_layers = t->spec.model.n_layers};
    struct eval_result r = {0};
    struct err err = ERR_INIT;
    double start = trainer_now(), idle = t->idle_s;
    int rc = shard_check(&t->val, &err);

    begin(t, "evaluating");
    if (!rc)
        rc = eval_score(t->model, &t->val_loader, &o, &r, &err);
    if (rc < 0)
        return fail_err(t, "evaluating", &err);
    if (rc > 0)
        return t->polled;
    if (!isfinite(r.loss))
        return fail_nonfinite(t, "validation loss", r.loss, t->p.step);
    keep_eval(t, &r);
    t->eval_s = trainer_now() - start - (t->idle_s - idle);
    t->p.elapsed_s += t->eval_s;
    trainer_measure_gemm(t, 0.1);
    trainer_record_eval(t, &r);
    trainer_publish(t);
    return GO_ON;
}

static int fill_micro_batch(struct trainer *t, int64_t micro, struct err *err)
{
    int B = t->spec.train.micro_batch_size, T = t->spec.train.seq_len;
    int64_t first = t->p.step * t->spec.train.global_batch_size + micro * B;

    if (shard_check(&t->train, err) < 0)
        return -1;
    for (int b = 0; b < B; b++)
        loader_train(&t->train_loader, first + b, t->tokens + b * T, t->targets + b * T);
    return 0;
}

// Gradients of the mean loss over the whole batch; GO_ON with the mean, or why not.
static enum outcome accumulate(struct trainer *t, double *mean)
{
    int64_t n = t->spec.train.global_batch_size / t->spec.train.micro_batch_size;
    double scale = 1 / (double)t->tokens_per_step;

    *mean = 0;
    model_zero_gradients(t->model);
    for (int64_t i = 0; i < n; i++) {
        struct err err = ERR_INIT;
        double sum = 0;
        int rc = fill_micro_batch(t, i, &err);

        if (!rc)
            rc = model_forward_backward(t->model, t->tokens, t->targets, scale, &sum, &err);
        if (rc < 0)
            return fail_err(t, "step", &err);
        if (rc > 0)
            return t->polled;
        if (!isfinite(sum))
            return fail_nonfinite(t, "loss", sum, t->p.step + 1);
        *mean += sum * scale;
        trainer_gate_collect(t, i);
    }
    return GO_ON;
}

static enum outcome train_step(struct trainer *t)
{
    double start = trainer_now(), idle = t->idle_s, mean, norm, took;
    int64_t n = t->p.step + 1;
    enum outcome got;

    if (!trainer_begin_step(t))
        return GO_ON;
    begin(t, "step");
    got = accumulate(t, &mean);
    if (got != GO_ON)
        return got;
    norm = optim_grad_norm(t->optim);
    if (!isfinite(norm))
        return fail_nonfinite(t, "gradient norm", norm, n);
    t->p.lr = trainer_decide_lr(t, n);
    t->p.grad_norm = norm;
    optim_step(t->optim, n, t->p.lr, norm);
    trainer_gate_step(t);
    t->p.step = n;
    t->p.loss_sum += mean;
    t->p.loss_steps++;
    took = trainer_now() - start - (t->idle_s - idle);
    t->rate_s[t->rate_n++ % RATE_STEPS] = took;
    t->p.elapsed_s += took;
    t->mfu = trainer_mfu(t);
    if (n % t->spec.log.interval == 0 || n == t->total_steps)
        trainer_record_train(t);
    trainer_publish(t);
    return GO_ON;
}

static bool is_due(const struct trainer *t, int64_t interval, int64_t done)
{
    bool last = t->p.step >= t->total_steps;

    return done != t->p.step && (t->p.step % interval == 0 || last);
}

static enum outcome run(struct trainer *t)
{
    for (;;) {
        enum outcome got = obey(t);
        bool last;

        if (got != GO_ON)
            return got;
        trainer_plan(t);
        last = t->p.step >= t->total_steps;
        if (last && t->p.loss_steps > 0) // the end was moved to here
            trainer_record_train(t);
        if (t->val.n > 0 && is_due(t, t->spec.eval.interval, t->p.evaluated))
            got = evaluate(t);
        else if (t->p.step > 0 && is_due(t, t->spec.save.interval, t->saved))
            got = save(t);
        else if (!last)
            got = train_step(t);
        else if (trainer_finish(t))
            return GO_ON;
        if (got != GO_ON)
            return got;
    }
}

// ---- the thread ---------------------------------------------------------------------------------

static void end_stopped(struct trainer *t)
{
    flag(t, &t->stop, false);
    if (save(t) == FAILED)
        return;
    trainer_event(t, "stop", "stopped with a checkpoint");
    runlog_flush(t->log, NULL);
    trainer_set_state(t, RUN_STOPPED, "stopped", "");
}

static void end_done(struct trainer *t)
{
    trainer_event(t, "done", "reached the planned end");
    runlog_flush(t->log, NULL);
    trainer_set_state(t, RUN_DONE, "done", "");
}

static void *engine_main(void *arg)
{
    struct trainer *t = arg;
    struct err err = ERR_INIT;

    trainer_set_state(t, RUN_STARTING, "loading data", "");
    if (trainer_open(t, &err) < 0) {
        fail_err(t, "refused", &err);
    } else {
        enum outcome got;

        model_set_poll(t->model, poll_commands, t);
        trainer_record_start(t);
        trainer_publish(t);
        got = run(t);
        if (got == STOPPED)
            end_stopped(t);
        else if (got == GO_ON)
            end_done(t);
    }
    trainer_publish(t);
    trainer_close(t);
    flag(t, &t->ended, true);
    trainer_wake(t);
    return NULL;
}

struct trainer *trainer_new(const char *run_dir, const struct spec *spec, const char *backend,
                            struct runlog *log, void (*log_text)(void *user, const char *line),
                            void *user)
{
    struct trainer *t = xcalloc(1, sizeof *t);

    snprintf(t->run_dir, sizeof t->run_dir, "%s", run_dir);
    snprintf(t->backend_name, sizeof t->backend_name, "%s",
             !backend || !strcmp(backend, "auto") ? "cpu" : backend);
    t->spec = *spec;
    t->log = log;
    t->log_text = log_text;
    t->user = user;
    trainer_gate_init(t);
    t->saved = -1;
    t->mfu = NAN;
    t->train.fd = t->val.fd = -1;
    t->p = (struct progress){.evaluated = -1,
                             .train_loss = NAN,
                             .val_loss = NAN,
                             .val_ppl = NAN,
                             .val_bpb = NAN,
                             .best_val_loss = NAN,
                             .lr = NAN,
                             .grad_norm = NAN};
    run_status_init(&t->st);
    t->st.checkpoint_step = -1;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    t->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return t;
}

// Signals are the host thread's business: the engine and its workers block them all.
int trainer_start(struct trainer *t, struct err *err)
{
    sigset_t all, old;
    int rc;

    if (t->fd < 0)
        return err_set(err, "cannot make an event descriptor for the engine thread");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&t->thread, NULL, engine_main, t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc) {
        errno = rc;
        return err_sys(err, "cannot start the engine thread");
    }
    t->started = true;
    return 0;
}

void trainer_send(struct trainer *t, enum trainer_command cmd)
{
    pthread_mutex_lock(&t->lock);
    switch (cmd) {
    case TRAINER_PAUSE:
        t->pause = true;
        break;
    case TRAINER_RESUME:
        t->pause = false;
        t->resume = true;
        break;
    case TRAINER_CHECKPOINT:
        t->checkpoint = true;
        break;
    case TRAINER_STOP:
        t->stop = true;
        break;
    }
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

void trainer_status(struct trainer *t, struct run_status *st)
{
    struct run_status mine;

    pthread_mutex_lock(&t->lock);
    mine = t->st;
    pthread_mutex_unlock(&t->lock);
    memcpy(mine.id, st->id, sizeof mine.id);
    memcpy(mine.name, st->name, sizeof mine.name);
    memcpy(mine.host, st->host, sizeof mine.host);
    mine.pid = st->pid;
    mine.heartbeat = st->heartbeat;
    mine.heartbeat_period = st->heartbeat_period;
    mine.started = st->started;
    *st = mine;
}

int trainer_fd(struct trainer *t)
{
    return t->fd;
}

int trainer_ended(struct trainer *t)
{
    return flag_is_set(t, &t->ended);
}

void trainer_free(struct trainer *t)
{
    if (!t)
        return;
    if (t->started) {
        trainer_send(t, TRAINER_STOP);
        pthread_join(t->thread, NULL);
    }
    if (t->fd >= 0)
        close(t->fd);
    changes_release(&t->changes);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    free(t);
}
