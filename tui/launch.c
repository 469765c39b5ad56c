#include "tui/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/profile.h"
#include "engine/run.h"
#include "engine/trainer.h"
#include "tui/action.h"
#include "tui/app.h"
#include "tui/design.h"
#include "tui/estimate.h"
#include "tui/run_words.h"

struct launch {
    struct action action;
    char id[RUN_ID_SIZE]; // asked about, then started
    char dir[512];        // of a run that is continued
    bool resumes;
};

static struct launch *state(struct app *app)
{
    if (!app->launch)
        app->launch = xcalloc(1, sizeof *app->launch);
    return app->launch;
}

static bool is_free(struct app *app)
{
    if (!launch_busy(app))
        return true;
    app_message(app, ROLE_WARN, "%s is still starting", app->launch->id);
    return false;
}

static void add_size(struct buf *out, const struct spec *s, const struct count *c)
{
    char total[UNIT_SIZE], train[UNIT_SIZE];

    buf_fmt(out, "model     %d layers, d_model %d, %s parameters, train %sF/tok\n",
            s->model.n_layers, s->model.d_model, unit_thousands(total, c->total),
            unit_count(train, c->train_per_token));
}

static void add_length(struct buf *out, const struct spec *s)
{
    char tokens[UNIT_SIZE], steps[UNIT_SIZE], batch[UNIT_SIZE];
    int64_t n = spec_total_steps(s), per_step = spec_tokens_per_step(s);

    buf_fmt(out, "length    %s tokens in %s steps\n",
            unit_count(tokens, (double)n * (double)per_step), unit_thousands(steps, n));
    buf_fmt(out, "batch     %lld sequences of %d = %s tokens, %d at a time\n",
            (long long)s->train.global_batch_size, s->train.seq_len,
            unit_thousands(batch, per_step), s->train.micro_batch_size);
}

static void add_optimizer(struct buf *out, const struct spec *s)
{
    const struct optim_spec *o = &s->optim;

    buf_fmt(out, "lr        %g, warm-up %lld steps", o->lr, (long long)o->warmup_steps);
    if (o->warmup_steps && o->warmup_start > 0)
        buf_fmt(out, " from %g", o->lr * o->warmup_start);
    if (o->schedule == SCHED_COSINE)
        buf_fmt(out, ", cosine to %g", o->min_lr);
    buf_fmt(out, "; weight decay %g\n", o->weight_decay);
}

static void add_memory(struct buf *out, const struct spec *s, const struct count *c)
{
    struct model_plan plan;
    char all[UNIT_SIZE], act[UNIT_SIZE];
    double total = (double)c->weights_bytes + (double)c->gradients_bytes +
                   (double)c->optimizer_bytes + (double)c->activations_bytes;
    struct spec decided = *s;
    double needed, available = trainer_memory_available();

    decided.train.recompute = trainer_recompute(s, model_sizes_cpu);
    needed = trainer_memory_needed(&decided, model_sizes_cpu, &plan);
    total += (double)(plan.activations - c->activations_bytes);
    buf_fmt(out, "memory    about %s, of it %s activations%s\n", unit_bytes(all, total),
            unit_bytes(act, (double)plan.activations),
            decided.train.recompute == RECOMPUTE_LAYER ? " (layers are computed again)" : "");
    if (available >= 0 && needed > available)
        buf_fmt(out, "!         %s with a checkpoint, %s available: will be refused\n",
                unit_bytes(all, needed), unit_bytes(act, available));
}

// What the file does not say: changed keys with their old values, a line each. Lanes whose form is
// as before follow the others.
static void add_edits(struct buf *out, const struct spec *s, const struct spec *saved)
{
    const char *head = "edited    ";
    struct buf now = {0}, before = {0};

    for (int i = 0; i < spec_key_count; i++) {
        const struct spec_key *k = &spec_keys[i];
        char value[256];

        buf_reset(&now);
        buf_reset(&before);
        profile_value_text(k, s, &now);
        profile_value_text(k, saved, &before);
        if (!strcmp(now.data, before.data))
            continue;
        text_cut(now.data, 40, value, sizeof value);
        buf_fmt(out, "%s%s %s", head, k->path, value);
        if (now.len + before.len < 30)
            buf_fmt(out, " (was %s)", before.data);
        buf_str(out, "\n");
        head = "          ";
    }
    buf_release(&now);
    buf_release(&before);
}

static void add_warnings(struct buf *out, const struct spec *s)
{
    struct problems problems = {0};

    profile_validate(s, &problems);
    for (int i = 0; i < problems.n; i++)
        if (problems.v[i].severity == SEV_WARNING)
            buf_fmt(out, "!         %s: %s\n", problems.v[i].path, problems.v[i].err.text);
    problems_release(&problems);
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

void launch_describe(const struct spec *spec, const struct spec *saved, const struct count *count,
                     const char *here, const char *path, const char *run_dir, char *out, size_t size)
{
    char word[SPEC_PATH_SIZE + 16];
    struct buf text = {0};

    buf_fmt(&text, "name      %s -> %s\n", spec->name, run_dir);
    add_size(&text, spec, count);
    buf_fmt(&text, "data      %s, validated on %s\n", spec->data.train, spec->data.val);
    add_length(&text, spec);
    add_optimizer(&text, spec);
    add_memory(&text, spec, count);
    if (here[0])
        buf_fmt(&text, "here      %s\n", here);
    buf_fmt(&text, "saves     every %lld steps, evaluates every %lld\n",
            (long long)spec->save.interval, (long long)spec->eval.interval);
    add_edits(&text, spec, saved);
    add_warnings(&text, spec);
    if (path[0])
        buf_fmt(&text, "command   lathe train %s --run %s --detach\n\n",
                shell_word(path, word, sizeof word), last_part(run_dir));
    else // the run directory gets the profile first
        buf_fmt(&text, "command   lathe train --resume %s --detach\n\n", last_part(run_dir));
    buf_fmt(&text, "It goes on when you quit, hang up or lose the connection.\n");
    snprintf(out, size, "%s", text.data);
    buf_release(&text);
}

static bool valid(struct app *app, const struct spec *spec)
{
    struct problems problems = {0};
    bool ok = profile_validate(spec, &problems) == 0;

    for (int i = 0; i < problems.n && !ok; i++)
        if (problems.v[i].severity == SEV_ERROR) {
            app_message(app, ROLE_ERROR, "%s: %s", problems.v[i].path, problems.v[i].err.text);
            break;
        }
    problems_release(&problems);
    return ok;
}

static bool trainable(struct app *app, const struct spec *spec)
{
    struct err err = ERR_INIT;

    if (trainer_check(spec, &err) == 0)
        return true;
    app_message(app, ROLE_ERROR, "%s", err.text);
    return false;
}

static void start(struct app *app)
{
    const struct spec *spec = &app->design->spec;
    struct launch *l = app->launch;
    struct err err = ERR_INIT;
    char dir[SPEC_PATH_SIZE], text[1600];

    if (run_create(spec, l->id, dir, sizeof dir, &err) < 0) {
        app_message(app, ROLE_ERROR, "%s", err_format(&err, text, sizeof text));
        return;
    }
    if (estimate_busy(app)) // it would measure the run, and slow it down
        estimate_toggle(app);
    l->resumes = false;
    action_start(&l->action, ACTION_SPAWN, dir, "start");
    app_watch_run(app, dir);
    app_message(app, ROLE_DIM, "starting %s", l->id);
}

void launch_ask(struct app *app)
{
    const struct design *d = app->design;
    char dir[SPEC_PATH_SIZE], text[DIALOG_TEXT], here[256];

    if (!is_free(app) || !valid(app, &d->spec) || !trainable(app, &d->spec))
        return;
    if (!d->spec.data.train[0] || !d->spec.data.val[0]) {
        app_message(app, ROLE_ERROR,
                    "set data.train and data.val with e; lathe data prepare gcide makes a pair");
        return;
    }
    run_next_id(&d->spec, state(app)->id);
    snprintf(dir, sizeof dir, "%s/%s", runs_dir(), app->launch->id);
    if (!estimate_words(app, here, sizeof here))
        snprintf(here, sizeof here, "not measured (Esc, then t measures speed and time)");
    launch_describe(&d->spec, &d->saved, &d->count, here, design_dirty(d) ? "" : d->path, dir, text,
                    sizeof text);
    app_confirm(app, "Train this?", text, start);
}

// ---- continuing ---------------------------------------------------------------------------------

static void resume(struct app *app)
{
    struct launch *l = app->launch;

    l->resumes = true;
    action_start(&l->action, ACTION_SPAWN, l->dir, "continue");
    app_message(app, ROLE_DIM, "starting %s …", l->id);
}

static void ask_elsewhere(struct app *app, const struct run_status *st)
{
    char age[WORD_SIZE];
    char *lines = xasprintf("%s was process %d on %s, silent for %s.\n"
                            "Two processes must not continue one run.\n"
                            "Continue it here only if that one is gone.",
                            st->id, st->pid, st->host, word_age(age, run_now() - st->heartbeat));

    app_confirm(app, "Continue a run of another machine?", lines, resume);
    free(lines);
}

void launch_resume(struct app *app, const char *dir, const struct run_status *st)
{
    struct launch *l;

    if (run_state_is_live(st->state)) {
        app_message(app, ROLE_WARN, "%s is %s already", st->id, run_state_name(st->state));
        return;
    }
    if (st->state == RUN_DONE) {
        app_message(app, ROLE_WARN,
                    "%s reached its end; E on Runs makes a new design of its profile", st->id);
        return;
    }
    if (!is_free(app))
        return;
    l = state(app);
    snprintf(l->id, sizeof l->id, "%s", st->id);
    snprintf(l->dir, sizeof l->dir, "%s", dir);
    if (st->state == RUN_LOST && strcmp(st->host, run_host_name()))
        ask_elsewhere(app, st);
    else
        resume(app);
}

bool launch_poll(struct app *app)
{
    struct launch *l = app->launch;
    char text[1600];

    if (!l || !action_poll(&l->action))
        return false;
    if (l->action.ok && l->resumes)
        app_message(app, ROLE_TEXT, "%s goes on", l->id);
    if (l->action.ok)
        return l->resumes;
    app_message(app, ROLE_ERROR, "%s did not start: %s", l->id,
                err_format(&l->action.err, text, sizeof text));
    return true;
}

bool launch_busy(const struct app *app)
{
    return app->launch && app->launch->action.busy;
}

const char *launch_id(const struct app *app)
{
    return app->launch ? app->launch->id : "";
}

void launch_free(struct launch *l)
{
    if (!l)
        return;
    action_release(&l->action);
    free(l);
}
