#include "tui/action.h"

#include <stdio.h>
#include <string.h>

#include "engine/control.h"
#include "engine/host.h"

static void control(struct action *a)
{
    json_t *reply = control_send(a->run_dir, a->command, ACTION_TIMEOUT_MS, &a->err);
    const char *state = json_string_value(json_object_get(reply, "state"));
    const char *error = json_string_value(json_object_get(reply, "error"));

    a->ok = json_is_true(json_object_get(reply, "ok"));
    snprintf(a->state, sizeof(a->state), "%s", state ? state : "");
    if (reply && !a->ok)
        err_set(&a->err, "%s", error ? error : "the run refused without a reason");
    json_decref(reply);
}

static void *run(void *arg)
{
    struct action *a = arg;

    if (a->kind == ACTION_CONTROL)
        control(a);
    else
        a->ok = host_spawn(a->run_dir, NULL, ACTION_SPAWN_TIMEOUT_MS, &a->err) == 0;
    atomic_store(&a->done, 1);
    return NULL;
}

bool action_start(struct action *a, enum action_kind kind, const char *run_dir, const char *command)
{
    if (a->busy)
        return false;
    a->kind = kind;
    a->ok = false;
    a->state[0] = '\0';
    a->err = (struct err)ERR_INIT;
    snprintf(a->run_dir, sizeof(a->run_dir), "%s", run_dir);
    snprintf(a->command, sizeof(a->command), "%s", command);
    atomic_store(&a->done, 0);
    a->busy = pthread_create(&a->thread, NULL, run, a) == 0;
    if (!a->busy)
        run(a);
    return true;
}

bool action_poll(struct action *a)
{
    if (!atomic_load(&a->done))
        return false;
    action_release(a);
    return true;
}

void action_release(struct action *a)
{
    if (a->busy)
        pthread_join(a->thread, NULL);
    a->busy = false;
    atomic_store(&a->done, 0);
}
