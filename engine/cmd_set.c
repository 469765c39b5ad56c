// lathe set: change the learning rate or the end of a run that trains.
#include "engine/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/buf.h"
#include "engine/changes.h"
#include "engine/control.h"
#include "engine/run.h"

enum { REPLY_MS = 10000, START_MS = 60000, POLL_MS = 50 };

// What may stand before '='; the profile's names are known too.
static const struct {
    const char *name, *key;
} words[] = {
    {"lr", "lr"},
    {"max_steps", "max_steps"},
    {"max_tokens", "max_tokens"},
    {"at", "at"},
    {"optim.lr", "lr"},
    {"train.max_steps", "max_steps"},
    {"train.max_tokens", "max_tokens"},
};
enum { N_WORDS = sizeof words / sizeof words[0] };

static const char *find_key(const char *name, size_t len, struct err *err)
{
    char *given = xasprintf("%.*s", (int)len, name);
    const char *near = NULL, *key = NULL;
    int best = len < 6 ? 3 : (int)len / 2 + 1;

    for (int i = 0; i < N_WORDS; i++) {
        int d = spec_edit_distance(given, words[i].name);

        if (d == 0)
            key = words[i].key;
        if (d < best) {
            best = d;
            near = words[i].name;
        }
    }
    if (!key && near)
        err_set(err, "'%.100s' cannot be set, did you mean '%s'?", given, near);
    else if (!key)
        err_set(err, "'%.100s' cannot be set: a run takes lr, max_steps and max_tokens", given);
    free(given);
    return key;
}

static int put_step(json_t *request, const char *key, const char *text, struct err *err)
{
    int64_t n;

    if (!unit_parse_count(text, &n) || n < 1)
        return err_set(err, "%s is '%s': it must be a number from 1 on", key, text);
    json_object_set_new(request, key, json_integer(n));
    return 0;
}

// One KEY=VALUE or at=STEP becomes a member or two of the request.
static int put_word(json_t *request, const char *word, struct err *err)
{
    const char *eq = strchr(word, '='), *key;
    double lr;

    if (!eq)
        return err_set(err, "'%s' is not KEY=VALUE", word);
    if (!(key = find_key(word, (size_t)(eq - word), err)))
        return -1;
    if (!strcmp(key, "at"))
        return strcmp(eq + 1, "now") ? put_step(request, "at", eq + 1, err) : 0;
    if (json_object_get(request, "key"))
        return err_set(err, "one change at a time: '%s' is the second", word);
    json_object_set_new(request, "key", json_string(key));
    if (strcmp(key, "lr"))
        return put_step(request, "value", eq + 1, err);
    if (!unit_parse_float(eq + 1, &lr))
        return err_set(err, "lr is '%s': it must be a number", eq + 1);
    json_object_set_new(request, "value", json_real(lr));
    return 0;
}

static json_t *read_request(const struct cli_args *a, struct err *err)
{
    json_t *request = json_object();
    int rc = 0;

    for (int i = 1; i < a->n_operands && rc == 0; i++)
        rc = put_word(request, a->operand[i], err);
    if (rc == 0 && !json_object_get(request, "key"))
        rc = err_set(err, "what is to be set? lr, max_steps or max_tokens");
    if (rc == 0)
        return request;
    json_decref(request);
    return NULL;
}

// A run that reads its data yet can be changed in a moment.
static int wait_for_start(const char *dir, struct run_status *st, struct err *err)
{
    for (int waited = 0; waited < START_MS; waited += POLL_MS) {
        struct timespec t = {0, POLL_MS * 1000000L};

        if (run_read_status(dir, st, err) < 0)
            return -1;
        if (st->state != RUN_STARTING)
            break;
        nanosleep(&t, NULL);
    }
    if (!run_state_is_live(st->state))
        return err_set(err, "run '%s' is not running, it is %s%s", st->id,
                       run_state_name(st->state),
                       st->state == RUN_DONE ? "" : "; resume it first");
    if (strcmp(st->host, run_host_name()))
        return err_set(err, "run '%s' is %s on %s: use lathe set there", st->id,
                       run_state_name(st->state), st->host);
    return 0;
}

static int report(const struct cli_args *a, const struct run_status *st, const json_t *reply)
{
    const char *text = json_string_value(json_object_get(reply, "text"));

    if (cli_has(a, "json"))
        cli_print_json(json_incref(json_object_get(reply, "change")));
    else
        printf("run %s: %s\n", st->id, text ? text : "changed");
    return CLI_OK;
}

int cmd_set(const struct cli_command *cmd, int argc, char **argv)
{
    json_t *request, *reply = NULL;
    struct err err = ERR_INIT;
    struct run_status st;
    struct cli_args a;
    char dir[512];
    int rc = cli_parse(cmd, argc, argv, &a);

    if (rc)
        return rc;
    if (!(request = read_request(&a, &err)))
        return cli_fail(&err, CLI_USAGE);
    if (run_find(a.operand[0], dir, sizeof dir, &err) == 0 && wait_for_start(dir, &st, &err) == 0)
        reply = control_request(dir, "set", request, REPLY_MS, &err);
    if (reply && !json_is_true(json_object_get(reply, "ok"))) {
        const char *why = json_string_value(json_object_get(reply, "error"));

        err_set(&err, "run '%s' refused: %s", st.id, why ? why : "no reason given");
        rc = -1;
    }
    rc = !reply || rc < 0 ? cli_fail(&err, CLI_INPUT) : report(&a, &st, reply);
    json_decref(reply);
    json_decref(request);
    return rc;
}
