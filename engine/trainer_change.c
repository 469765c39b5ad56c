// Changes while a run trains: the host thread asks, writes and records them, the engine thread steps
// by them. Both hold the trainer's lock, so that a change is on the disk before a step is taken by it
// and a step is either before it or after it.
#include "engine/trainer_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double max_whole = 9007199254740992; // 2^53: doubles are whole and exact below

// ---- the engine thread --------------------------------------------------------------------------

int trainer_changes_open(struct trainer *t, struct err *err)
{
    int rc;

    pthread_mutex_lock(&t->lock);
    rc = changes_read(t->run_dir, &t->changes, err);
    pthread_mutex_unlock(&t->lock);
    trainer_plan(t);
    return rc < 0 ? -1 : 0;
}

void trainer_changes_save(struct trainer *t, json_t *meta)
{
    json_t *list;
    char *text;

    pthread_mutex_lock(&t->lock);
    list = changes_to_json(&t->changes);
    pthread_mutex_unlock(&t->lock);
    text = json_dumps(list, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (json_array_size(list) > 0)
        json_object_set_new(meta, "changes", json_string(text));
    free(text);
    json_decref(list);
}

// The file of the run knows what came after the checkpoint; where it is missing, the checkpoint's
// list takes its place.
int trainer_changes_restore(struct trainer *t, const json_t *meta, struct err *err)
{
    const char *text = json_string_value(json_object_get(meta, "changes"));
    json_t *list = text ? json_loads(text, 0, NULL) : NULL;
    struct changes known = {0};
    int rc = 0;

    if (text && changes_from_json(list, &known) < 0)
        rc = err_set(err, "train_state.safetensors: 'changes' is damaged");
    pthread_mutex_lock(&t->lock);
    if (rc == 0 && t->changes.n == 0 && known.n > 0) {
        struct changes none = t->changes;

        t->changes = known;
        known = none;
        rc = changes_write(t->run_dir, &t->changes, err);
    } else if (rc == 0 && t->changes.n < known.n) {
        rc = err_set(err, "changes.json has %d changes, the checkpoint %d: it is an older one",
                     t->changes.n, known.n);
    }
    pthread_mutex_unlock(&t->lock);
    trainer_plan(t);
    changes_release(&known);
    json_decref(list);
    return rc;
}

void trainer_changes_ready(struct trainer *t)
{
    pthread_mutex_lock(&t->lock);
    t->begun = t->decided = t->p.step;
    t->changeable = true;
    pthread_mutex_unlock(&t->lock);
}

static int64_t planned_end(const struct trainer *t)
{
    return changes_end(&t->changes, t->planned_steps);
}

void trainer_plan(struct trainer *t)
{
    pthread_mutex_lock(&t->lock);
    t->total_steps = planned_end(t);
    pthread_mutex_unlock(&t->lock);
}

bool trainer_begin_step(struct trainer *t)
{
    bool go;

    pthread_mutex_lock(&t->lock);
    go = t->p.step < planned_end(t);
    if (go)
        t->begun = t->p.step + 1;
    pthread_mutex_unlock(&t->lock);
    return go;
}

// The i-th change that takes effect with update n.
static bool change_at(struct trainer *t, int64_t n, int i, struct change *out)
{
    bool found = false;

    pthread_mutex_lock(&t->lock);
    for (int k = 0; k < t->changes.n && !found; k++)
        if (t->changes.v[k].at == n && i-- == 0) {
            *out = t->changes.v[k];
            found = true;
        }
    pthread_mutex_unlock(&t->lock);
    return found;
}

double trainer_decide_lr(struct trainer *t, int64_t n)
{
    struct change c;
    double lr;

    pthread_mutex_lock(&t->lock);
    t->decided = n;
    lr = changes_lr(&t->changes, &t->spec.optim, t->planned_steps, n);
    pthread_mutex_unlock(&t->lock);
    for (int i = 0; change_at(t, n, i, &c); i++)
        trainer_record_change(t, &c);
    return lr;
}

bool trainer_finish(struct trainer *t)
{
    bool over;

    pthread_mutex_lock(&t->lock);
    over = t->p.step >= planned_end(t);
    if (over)
        t->changeable = false;
    pthread_mutex_unlock(&t->lock);
    return over;
}

// ---- the host thread ----------------------------------------------------------------------------

static json_t *host_record(const struct trainer *t, const char *event)
{
    return json_pack("{s:I, s:I, s:f, s:s}", "step", (json_int_t)t->st.step, "tokens",
                     (json_int_t)t->st.tokens, "time", run_now(), "event", event);
}

void trainer_note(struct trainer *t, const char *command, const char *who)
{
    char text[128];
    json_t *o;

    pthread_mutex_lock(&t->lock);
    o = host_record(t, "command");
    pthread_mutex_unlock(&t->lock);
    snprintf(text, sizeof text, "%s asked by %s", command, who);
    json_object_set_new(o, "text", json_string(text));
    json_object_set_new(o, "command", json_string(command));
    json_object_set_new(o, "who", json_string(who));
    runlog_add(t->log, o);
}

static int check_lr(const struct trainer *t, struct change *c, struct err *err)
{
    if (!(c->value > 0) || !(c->value <= 100))
        return err_set(err, "lr is %g: it must be above 0 and at most 100", c->value);
    if (!(t->spec.optim.lr > 0))
        return err_set(err, "this run was planned with lr 0: there is no schedule to scale");
    if (c->at && c->at <= t->decided)
        return err_set(err, "step %lld is over: the next to be decided is %lld", (long long)c->at,
                       (long long)t->decided + 1);
    if (!c->at)
        c->at = t->decided + 1;
    if (c->at > planned_end(t))
        return err_set(err, "the run ends at step %lld, before step %lld",
                       (long long)planned_end(t), (long long)c->at);
    c->old = changes_peak(&t->changes, &t->spec.optim, c->at);
    return 0;
}

// A new end counts from where the newest one did at the earliest: a run that repeats steps after a
// kill must not meet an older end behind it.
static int check_end(const struct trainer *t, struct change *c, struct err *err)
{
    bool tokens = c->key == CHANGE_MAX_TOKENS;
    int64_t unit = tokens ? t->tokens_per_step : 1;

    if (!(c->value >= 1) || !(c->value < max_whole) || c->value != floor(c->value))
        return err_set(err, "%s is %.17g: it must be a whole number from 1 to 2^53",
                       change_key_names[c->key], c->value);
    if (c->at)
        return err_set(err, "a new end is planned from now on: 'at' goes with lr only");
    c->end = ((int64_t)c->value - 1) / unit + 1;
    if (c->end < t->begun)
        return err_set(err, "%s %lld is before step %lld%s, where the run is",
                       change_key_names[c->key], (long long)c->value, (long long)t->begun,
                       t->begun > t->st.step ? " that was begun" : "");
    c->old = (double)(planned_end(t) * unit);
    c->at = t->decided + 1;
    for (int i = 0; i < t->changes.n; i++)
        if (t->changes.v[i].key != CHANGE_LR && t->changes.v[i].at > c->at)
            c->at = t->changes.v[i].at;
    return 0;
}

static int add_change(struct trainer *t, struct change *c, struct err *err)
{
    int rc = c->key == CHANGE_LR ? check_lr(t, c, err) : check_end(t, c, err);

    if (rc < 0)
        return -1;
    if (t->changes.n == MAX_CHANGES)
        return err_set(err, "this run was changed %d times: that is the limit", MAX_CHANGES);
    c->asked_step = t->st.step;
    c->time = run_now();
    changes_add(&t->changes, c);
    if (changes_write(t->run_dir, &t->changes, err) < 0) {
        t->changes.n--;
        return -1;
    }
    t->st.total_steps = planned_end(t);
    t->st.total_tokens = t->st.total_steps * t->tokens_per_step;
    return 0;
}

// The command, with who and when; the engine records when it takes effect.
static void record_set(struct trainer *t, const struct change *c)
{
    char text[256], what[160];
    json_t *o, *change = change_to_json(c);

    pthread_mutex_lock(&t->lock);
    o = host_record(t, "set");
    pthread_mutex_unlock(&t->lock);
    snprintf(text, sizeof text, "%s, asked by %s", change_to_text(c, what, sizeof what), c->who);
    json_object_set_new(o, "text", json_string(text));
    json_object_update_missing(o, change);
    json_decref(change);
    runlog_add(t->log, o);
}

int trainer_change(struct trainer *t, struct change *c, struct err *err)
{
    int rc;

    pthread_mutex_lock(&t->lock);
    if (t->changeable)
        rc = add_change(t, c, err);
    else if (t->st.state == RUN_STARTING || t->st.state == RUN_NEW)
        rc = err_set(err, "the run is still starting: ask again in a moment");
    else
        rc = err_set(err, "the run has reached its end");
    pthread_mutex_unlock(&t->lock);
    if (rc < 0)
        return -1;
    record_set(t, c);
    trainer_wake(t);
    return 0;
}
