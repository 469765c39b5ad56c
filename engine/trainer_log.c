// What the trainer tells: metrics records, events, and the status the host thread reads.
#include "engine/trainer_impl.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double unix_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

json_t *trainer_number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static void set_number(json_t *o, const char *name, double v)
{
    json_object_set_new(o, name, trainer_number(v));
}

static int64_t tokens_of(const struct trainer *t)
{
    return t->p.step * t->tokens_per_step;
}

static double flops_of(const struct trainer *t)
{
    return (double)tokens_of(t) * t->flops_per_token;
}

static json_t *new_record(const struct trainer *t)
{
    json_t *o = json_object();

    json_object_set_new(o, "step", json_integer(t->p.step));
    json_object_set_new(o, "tokens", json_integer(tokens_of(t)));
    set_number(o, "time", unix_time());
    return o;
}

double trainer_step_seconds(const struct trainer *t)
{
    int n = t->rate_n < RATE_STEPS ? (int)t->rate_n : RATE_STEPS;
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += t->rate_s[i];
    return n ? sum / n : NAN;
}

static double tokens_per_s(const struct trainer *t)
{
    return (double)t->tokens_per_step / trainer_step_seconds(t);
}

// Unknown while the step beats the ceiling: then the ceiling was measured on a busy machine.
double trainer_mfu(const struct trainer *t)
{
    double share = tokens_per_s(t) * t->flops_per_token / (t->gemm_gflops * 1e9);

    return t->gemm_gflops > 0 && share <= 1 ? share : NAN;
}

// How many multiples of interval lie in (from, to], plus the last step when it is none.
static double times_due(int64_t interval, int64_t from, int64_t to)
{
    return (double)(to / interval - from / interval + (to % interval != 0 && to > from));
}

static double eta(const struct trainer *t)
{
    int64_t left = t->total_steps - t->p.step;

    if (left <= 0)
        return 0;
    return (double)left * trainer_step_seconds(t) +
           t->eval_s * times_due(t->spec.eval.interval, t->p.step, t->total_steps) +
           t->save_s * times_due(t->spec.save.interval, t->p.step, t->total_steps);
}

void trainer_record_train(struct trainer *t)
{
    json_t *o = new_record(t);

    t->p.train_loss = t->p.loss_sum / (double)t->p.loss_steps;
    t->p.loss_sum = 0;
    t->p.loss_steps = 0;
    set_number(o, "train/loss", t->p.train_loss);
    set_number(o, "lr", t->p.lr);
    set_number(o, "grad_norm", t->p.grad_norm);
    set_number(o, "tokens_per_s", tokens_per_s(t));
    set_number(o, "mfu", t->mfu);
    set_number(o, "gemm_gflops", t->gemm_gflops);
    set_number(o, "flops", flops_of(t));
    trainer_gate_record_train(t, o);
    runlog_add(t->log, o);
}

void trainer_record_eval(struct trainer *t, const struct eval_result *r)
{
    json_t *o = new_record(t);

    set_number(o, "val/loss", t->p.val_loss);
    set_number(o, "val/ppl", t->p.val_ppl);
    set_number(o, "val/bpb", t->p.val_bpb);
    json_object_set_new(o, "val/tokens", json_integer(t->p.val_tokens));
    set_number(o, "flops", flops_of(t));
    set_number(o, "gemm_gflops", t->gemm_gflops);
    trainer_layers_record_eval(t, r, o);
    runlog_add(t->log, o);
}

static void add_event(struct trainer *t, const char *event, const char *text, json_t *o)
{
    char line[1200];

    json_object_set_new(o, "event", json_string(event));
    json_object_set_new(o, "text", json_string(text));
    runlog_add(t->log, o);
    if (!t->log_text)
        return;
    snprintf(line, sizeof line, "step %lld: %s: %s", (long long)t->p.step, event, text);
    t->log_text(t->user, line);
}

void trainer_event(struct trainer *t, const char *event, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    add_event(t, event, text, new_record(t));
}

void trainer_record_change(struct trainer *t, const struct change *c)
{
    char text[256], what[160];
    json_t *o = new_record(t), *change = change_to_json(c);

    json_object_del(change, "time"); // that of the record is of the event, the other of the request
    json_object_set_new(o, "asked_time", json_real(c->time));
    json_object_update(o, change);
    json_decref(change);
    snprintf(text, sizeof text, "%s, asked by %s", change_to_text(c, what, sizeof what), c->who);
    add_event(t, "change", text, o);
}

void trainer_record_start(struct trainer *t)
{
    char text[256];
    json_t *o = new_record(t);

    snprintf(text, sizeof text, "%s, %s, %d threads, %.0f GFLOP/s matrix products",
             t->p.step ? "resumed from its checkpoint" : "from initial weights", t->be->name,
             t->be->threads, t->gemm_gflops);
    set_number(o, "gemm_gflops", t->gemm_gflops);
    json_object_set_new(o, "gemm_library", json_string(backend_gemm_library()));
    json_object_set_new(o, "threads", json_integer(t->be->threads));
    json_object_set_new(o, "audit", audit_to_json(&t->train, &t->train_audit));
    add_event(t, t->p.step ? "resume" : "start", text, o);
}

void trainer_wake(struct trainer *t)
{
    uint64_t one = 1;

    // a full counter means that the host has news to read already
    if (write(t->fd, &one, sizeof one) < 0)
        return;
}

void trainer_set_state(struct trainer *t, enum run_state state, const char *phase,
                       const char *reason)
{
    bool same;

    pthread_mutex_lock(&t->lock);
    same = t->st.state == state && !strcmp(t->st.phase, phase) && !strcmp(t->st.reason, reason);
    t->st.state = state;
    snprintf(t->st.phase, sizeof t->st.phase, "%s", phase);
    snprintf(t->st.reason, sizeof t->st.reason, "%s", reason);
    pthread_mutex_unlock(&t->lock);
    if (!same)
        trainer_wake(t);
}

void trainer_publish(struct trainer *t)
{
    struct run_status *st = &t->st;

    pthread_mutex_lock(&t->lock);
    st->step = t->p.step;
    st->total_steps = changes_end(&t->changes, t->planned_steps);
    st->tokens = tokens_of(t);
    st->total_tokens = st->total_steps * t->tokens_per_step;
    st->flops = flops_of(t);
    st->train_loss = t->p.train_loss;
    st->val_loss = t->p.val_loss;
    st->val_ppl = t->p.val_ppl;
    st->val_bpb = t->p.val_bpb;
    st->best_val_loss = t->p.best_val_loss;
    st->val_tokens = t->p.val_tokens;
    st->lr = t->p.lr;
    st->grad_norm = t->p.grad_norm;
    st->tokens_per_s = tokens_per_s(t);
    st->mfu = t->mfu;
    st->eta_s = eta(t);
    st->params = t->model ? model_params(t->model)->total : st->params;
    st->checkpoint_step = t->saved;
    st->elapsed_s = t->p.elapsed_s;
    pthread_mutex_unlock(&t->lock);
    trainer_wake(t);
}
