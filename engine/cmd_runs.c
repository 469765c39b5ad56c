// lathe runs, pause, resume, stop, checkpoint, delete: the list of runs and what can be done to one.
#include "engine/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/buf.h"
#include "engine/control.h"
#include "engine/host.h"
#include "engine/run.h"

enum { REPLY_MS = 5000, WAIT_MS = 120000, POLL_MS = 50, HOLD_MS = 2000, SPAWN_TIMEOUT_MS = 15000 };

// ---- runs ---------------------------------------------------------------------------------------

static void number(char *out, size_t size, const char *format, double v)
{
    if (!isfinite(v)) {
        snprintf(out, size, "-");
        return;
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(out, size, format, v);
#pragma GCC diagnostic pop
}

// One row of at most 79 columns.
static void print_row(const struct run_status *st)
{
    char step[UNIT_SIZE], total[UNIT_SIZE], progress[2 * UNIT_SIZE + 2], ppl[24], bpb[24];
    char age[UNIT_SIZE];
    double share = st->total_steps > 0 ? (double)st->step / (double)st->total_steps : NAN;
    char percent[24];

    snprintf(progress, sizeof progress, "%s/%s", unit_count(step, (double)st->step),
             unit_count(total, (double)st->total_steps));
    number(percent, sizeof percent, "%.0f%%", floor(100 * share));
    number(ppl, sizeof ppl, "%.4g", st->val_ppl);
    number(bpb, sizeof bpb, "%.3f", st->val_bpb);
    printf("%-8s %-26.26s %13s %5s %9s %6s %6s\n", run_state_name(st->state), st->id, progress,
           percent, ppl, bpb, unit_duration(age, run_now() - st->started));
}

static void print_table(const struct run_status *list, int n)
{
    if (n == 0) {
        printf("no runs in '%s' yet; start one with: lathe train PROFILE\n", runs_dir());
        return;
    }
    printf("%-8s %-26s %13s %5s %9s %6s %6s\n", "state", "id", "step", "done", "val ppl", "bpb",
           "age");
    for (int i = 0; i < n; i++)
        print_row(&list[i]);
}

static json_t *list_to_json(const struct run_status *list, int n)
{
    json_t *all = json_array();

    for (int i = 0; i < n; i++) {
        json_t *j = run_status_to_json(&list[i]);
        char *dir = xasprintf("%s/%s", runs_dir(), list[i].id);

        json_object_set_new(j, "dir", json_string(dir));
        json_array_append_new(all, j);
        free(dir);
    }
    return all;
}

int cmd_runs(const struct cli_command *cmd, int argc, char **argv)
{
    struct run_status *list = NULL;
    struct err err = ERR_INIT;
    struct cli_args a;
    int n, rc = cli_parse(cmd, argc, argv, &a);

    if (rc)
        return rc;
    if (runs_list(&list, &n, &err) < 0)
        return cli_fail(&err, CLI_INPUT);
    if (cli_has(&a, "json"))
        cli_print_json(list_to_json(list, n));
    else
        print_table(list, n);
    free(list);
    return CLI_OK;
}

// ---- control ------------------------------------------------------------------------------------

static bool is_paused(const struct run_status *st, int64_t step)
{
    (void)step;
    return st->state == RUN_PAUSED;
}

static bool is_running(const struct run_status *st, int64_t step)
{
    (void)step;
    return st->state == RUN_RUNNING;
}

static bool has_checkpoint(const struct run_status *st, int64_t step)
{
    return st->checkpoint_step >= step;
}

static bool has_stopped(const struct run_status *st, int64_t step)
{
    (void)step;
    return st->state == RUN_STOPPED || st->state == RUN_DONE;
}

// What each command waits for after the run has taken it.
static const struct verb {
    const char *name;
    bool (*reached)(const struct run_status *st, int64_t step);
    const char *confirmation;
} verbs[] = {
    {"pause", is_paused, "is paused"},
    {"resume", is_running, "is running"},
    {"checkpoint", has_checkpoint, "has a checkpoint"},
    {"stop", has_stopped, "has stopped with a checkpoint"},
};

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (!strcmp(verbs[i].name, name))
            return &verbs[i];
    BUG("no control command '%s'", name);
}

static int confirm(const struct cli_args *a, const char *dir, const char *what)
{
    struct run_status st;
    struct err err = ERR_INIT;
    char step[UNIT_SIZE], total[UNIT_SIZE];

    if (run_read_status(dir, &st, &err) < 0)
        return cli_fail(&err, CLI_INPUT);
    if (cli_has(a, "json"))
        cli_print_json(run_status_to_json(&st));
    else
        printf("run %s %s, step %s of %s\n", st.id, what, unit_thousands(step, st.step),
               unit_thousands(total, st.total_steps));
    return CLI_OK;
}

// Waits until the run's status shows what was asked for.
static int wait_until(const struct verb *v, const char *dir, int64_t step, struct err *err)
{
    struct run_status st;

    for (int waited = 0; waited < WAIT_MS; waited += POLL_MS) {
        struct timespec t = {0, POLL_MS * 1000000L};

        if (run_read_status(dir, &st, err) < 0)
            return -1;
        if (v->reached(&st, step))
            return 0;
        // a checkpoint that failed holds the run, with the reason; an old reason goes away soon
        if (st.state == RUN_FAILED || st.state == RUN_LOST ||
            (st.state == RUN_PAUSED && st.reason[0] && waited >= HOLD_MS))
            return err_set(err, "run '%s' is %s: %s", st.id, run_state_name(st.state), st.reason);
        if (!run_state_is_live(st.state))
            return err_set(err, "run '%s' is %s meanwhile", st.id, run_state_name(st.state));
        nanosleep(&t, NULL);
    }
    return err_set(err, "run '%s' took the command, but is still busy with '%s'", st.id, st.phase);
}

// Why a run that is not live cannot take the command; what to do instead.
static int not_live(const struct verb *v, const struct run_status *st)
{
    struct err err = ERR_INIT;

    if (run_state_is_live(st->state))
        err_set(&err, "run '%s' is %s on %s: use lathe %s there", st->id, run_state_name(st->state),
                st->host, v->name);
    else if (st->reason[0])
        err_set(&err, "run '%s' is not running, it is %s: %s", st->id, run_state_name(st->state),
                st->reason);
    else
        err_set(&err, "run '%s' is not running, it is %s", st->id, run_state_name(st->state));
    return cli_fail(&err, CLI_INPUT);
}

// Resuming a run without a process starts one, as `lathe train --resume RUN --detach` does.
static int restart(const struct cli_args *a, const char *dir)
{
    struct err err = ERR_INIT;

    if (host_spawn(dir, NULL, SPAWN_TIMEOUT_MS, &err) < 0)
        return cli_fail(&err, cli_start_code(dir));
    return confirm(a, dir, "goes on in a process of its own");
}

int cmd_control(const struct cli_command *cmd, int argc, char **argv)
{
    const struct verb *v = find_verb(cmd->name);
    struct err err = ERR_INIT;
    struct run_status st;
    struct cli_args a;
    char dir[512];
    json_t *reply;
    int rc = cli_parse(cmd, argc, argv, &a);

    if (rc)
        return rc;
    if (run_find(a.operand[0], dir, sizeof dir, &err) < 0 || run_read_status(dir, &st, &err) < 0)
        return cli_fail(&err, CLI_INPUT);
    if (!strcmp(v->name, "resume") && !run_state_is_live(st.state))
        return restart(&a, dir);
    if (!run_state_is_live(st.state) || strcmp(st.host, run_host_name()))
        return not_live(v, &st);
    reply = control_send(dir, v->name, REPLY_MS, &err);
    if (!reply)
        return cli_fail(&err, CLI_INPUT);
    if (!json_is_true(json_object_get(reply, "ok"))) {
        const char *why = json_string_value(json_object_get(reply, "error"));

        err_set(&err, "run '%s' refused: %s", st.id, why ? why : "no reason given");
        rc = -1;
    } else {
        rc = wait_until(v, dir, json_integer_value(json_object_get(reply, "step")), &err);
    }
    json_decref(reply);
    return rc < 0 ? cli_fail(&err, CLI_INPUT) : confirm(&a, dir, v->confirmation);
}

// ---- delete -------------------------------------------------------------------------------------

static bool ask(const struct run_status *st)
{
    char step[UNIT_SIZE], line[16];

    printf("delete run %s (%s, step %s)? [y/N] ", st->id, run_state_name(st->state),
           unit_thousands(step, st->step));
    fflush(stdout);
    return fgets(line, sizeof line, stdin) && (line[0] == 'y' || line[0] == 'Y');
}

int cmd_delete(const struct cli_command *cmd, int argc, char **argv)
{
    struct err err = ERR_INIT;
    struct run_status st;
    struct cli_args a;
    char dir[512];
    int rc = cli_parse(cmd, argc, argv, &a);

    if (rc)
        return rc;
    if (run_find(a.operand[0], dir, sizeof dir, &err) < 0)
        return cli_fail(&err, CLI_INPUT);
    run_read_status(dir, &st, NULL);
    if (!cli_has(&a, "yes") && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))) {
        fprintf(stderr, "lathe delete: give --yes to delete run '%s' without being asked\n", st.id);
        return CLI_USAGE;
    }
    if (!cli_has(&a, "yes") && !ask(&st))
        return CLI_NO;
    if (run_delete(dir, &err) < 0)
        return cli_fail(&err, CLI_INPUT);
    printf("run %s is now in .trash/ beside the runs; remove it there to free its space\n", st.id);
    return CLI_OK;
}
