#include "tui/estimate.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/trainer.h"
#include "tui/app.h"

struct estimate {
    pthread_t thread;
    struct cost_job *job;
    atomic_bool ended;
    int rc;         // of the job, once it has ended
    struct err err;
    bool busy, has; // a thread is under way; cost holds a result
    int shown;      // percent, at the last poll
    struct spec spec; // what is or was measured
    struct cost cost;
};

static void *work(void *arg)
{
    struct estimate *e = arg;

    do
        e->rc = cost_step(e->job, &e->err);
    while (e->rc > 0);
    atomic_store(&e->ended, true);
    return NULL;
}

static void begin(struct app *app, struct estimate *e)
{
    e->spec = app->design->spec;
    e->err = (struct err)ERR_INIT;
    e->has = false;
    e->shown = 0;
    atomic_store(&e->ended, false);
    e->job = cost_new(&e->spec, "auto");
    e->busy = pthread_create(&e->thread, NULL, work, e) == 0;
    if (e->busy) {
        app_message(app, ROLE_DIM, "measuring on this machine for some seconds; t stops it");
        return;
    }
    cost_free(e->job);
    e->job = NULL;
    app_message(app, ROLE_ERROR, "cannot start a thread to measure on");
}

static void end(struct estimate *e)
{
    pthread_join(e->thread, NULL);
    e->busy = false;
    e->has = e->rc == 0;
    if (e->has)
        e->cost = *cost_result(e->job);
    cost_free(e->job);
    e->job = NULL;
}

void estimate_toggle(struct app *app)
{
    struct estimate *e = app->estimate;
    struct err err = ERR_INIT;

    if (!e)
        e = app->estimate = xcalloc(1, sizeof *e);
    if (e->busy) {
        cost_cancel(e->job);
        end(e);
        app_message(app, ROLE_DIM, "not measured");
    } else if (trainer_check(&app->design->spec, &err) < 0) {
        app_message(app, ROLE_WARN, "%s", err.text);
    } else {
        begin(app, e);
    }
}

static void say_result(struct app *app, const struct estimate *e)
{
    char text[1600], line[256];

    if (!e->has)
        app_message(app, ROLE_WARN, "not measured: %s", err_format(&e->err, text, sizeof text));
    else if (!e->cost.fits)
        app_message(app, ROLE_WARN, "%s", e->cost.why);
    else if (estimate_words(app, line, sizeof line))
        app_message(app, ROLE_TEXT, "%s", line);
}

bool estimate_poll(struct app *app)
{
    struct estimate *e = app->estimate;
    int percent;

    if (!e || !e->busy)
        return false;
    if (atomic_load(&e->ended)) {
        end(e);
        say_result(app, e);
        return true;
    }
    percent = (int)(100 * cost_progress(e->job));
    if (percent == e->shown)
        return false;
    e->shown = percent;
    return true;
}

bool estimate_busy(const struct app *app)
{
    return app->estimate && app->estimate->busy;
}

void estimate_free(struct estimate *e)
{
    if (!e)
        return;
    if (e->busy) {
        cost_cancel(e->job);
        end(e);
    }
    free(e);
}

static void result_words(const struct cost *c, char *out, size_t size)
{
    char speed[UNIT_SIZE], total[UNIT_SIZE], most[UNIT_SIZE], have[UNIT_SIZE];

    if (!c->fits) {
        snprintf(out, size, "does not fit: needs %s of %s",
                 unit_bytes(most, (double)c->memory_bytes), unit_bytes(have, c->memory_available));
        return;
    }
    snprintf(out, size, "%s tok/s  run %s  memory %s of %s  %s, +-%.0f%%",
             unit_thousands(speed, llround(c->tokens_per_s)), unit_duration(total, c->seconds_total),
             unit_bytes(most, (double)c->memory_bytes), unit_bytes(have, c->memory_available),
             c->backend, 100 * COST_WITHIN);
}

bool estimate_words(const struct app *app, char *out, size_t size)
{
    const struct estimate *e = app->estimate;
    bool same = e && (e->busy || e->has) && spec_equal(&e->spec, &app->design->spec);

    if (e && e->busy)
        snprintf(out, size, "measuring%s, %d %%   t stops it", same ? "" : " an earlier state",
                 e->shown);
    else if (same)
        result_words(&e->cost, out, size);
    else
        snprintf(out, size, "t measures speed, time and memory on this machine");
    return same && !e->busy;
}
