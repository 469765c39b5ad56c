// lathe train: one run, in the foreground with a progress line or detached.
#include "engine/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/host.h"
#include "engine/model.h"
#include "engine/run.h"
#include "engine/trainer.h"

enum { SPAWN_TIMEOUT_MS = 15000, PLAIN_PERIOD_S = 10, MAX_WIDTH = 400 };

// ---- progress -----------------------------------------------------------------------------------

struct progress {
    bool on, tty, open; // open: an unfinished line is on the terminal
    double last;        // seconds, of the last plain line
    int64_t last_step, val_step;
    double val_loss;
    enum run_state state;
    char phase[64];
};

static double monotonic(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int terminal_width(void)
{
    struct winsize w;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 || w.ws_col < 20)
        return 80;
    return w.ws_col < MAX_WIDTH ? w.ws_col : MAX_WIDTH;
}

static void add_number(struct buf *b, const char *label, const char *format, double v)
{
    if (!isfinite(v))
        return;
    buf_fmt(b, "  %s ", label);
    // the formats are literals of this file
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    buf_fmt(b, format, v);
#pragma GCC diagnostic pop
}

// The most important numbers first: a narrow terminal cuts the end.
static void progress_text(const struct run_status *st, struct buf *b)
{
    char step[UNIT_SIZE], total[UNIT_SIZE], rate[UNIT_SIZE], eta[UNIT_SIZE];
    double share = st->total_steps > 0 ? (double)st->step / (double)st->total_steps : 0;

    buf_fmt(b, "%s/%s %.0f%%", unit_thousands(step, st->step),
            unit_thousands(total, st->total_steps), floor(100 * share));
    add_number(b, "loss", "%.4f", st->train_loss);
    add_number(b, "val ppl", "%.4g", st->val_ppl);
    add_number(b, "bpb", "%.3f", st->val_bpb);
    if (isfinite(st->tokens_per_s))
        buf_fmt(b, "  %s tok/s", unit_count(rate, st->tokens_per_s));
    if (isfinite(st->eta_s) && st->state == RUN_RUNNING)
        buf_fmt(b, "  ETA %s", unit_duration(eta, st->eta_s));
    if (st->state == RUN_STARTING || st->state == RUN_PAUSED ||
        (st->phase[0] && strcmp(st->phase, "step")))
        buf_fmt(b, "  %s", st->phase[0] ? st->phase : run_state_name(st->state));
}

static void end_line(struct progress *p)
{
    if (p->open)
        putchar('\n');
    p->open = false;
}

static void show_on_terminal(struct progress *p, const struct buf *text)
{
    printf("\r\033[K%.*s", terminal_width() - 1, text->data);
    p->open = true;
    fflush(stdout);
}

// A line for each evaluation, each change of state, and every ten seconds.
static void show_plain(struct progress *p, const struct run_status *st, const struct buf *text)
{
    bool evaluated = isfinite(st->val_loss) && !(st->val_loss == p->val_loss);
    bool due = monotonic() - p->last >= PLAIN_PERIOD_S && st->step != p->last_step;

    if (!evaluated && !due && st->state == p->state)
        return;
    p->last = monotonic();
    p->last_step = st->step;
    p->val_loss = st->val_loss;
    printf("step %s\n", text->data);
    fflush(stdout);
}

// A run that holds would look like one that hangs: said at once, whatever else is shown.
static void say_hold(struct progress *p, const struct run_status *st)
{
    end_line(p);
    fprintf(stderr,
            "lathe: checkpoint failed: %s; the run holds. Make room, then: lathe resume %s "
            "(or: lathe stop %s)\n",
            st->reason, st->id, st->id);
}

static void on_progress(void *user, const struct run_status *st)
{
    struct progress *p = user;
    struct buf text = {0};
    bool live = run_state_is_live(st->state);

    if (p->on && live) {
        progress_text(st, &text);
        if (p->tty)
            show_on_terminal(p, &text);
        else
            show_plain(p, st, &text);
    }
    if (st->state == RUN_PAUSED && p->state != RUN_PAUSED && st->reason[0])
        say_hold(p, st);
    p->state = st->state;
    buf_release(&text);
}

// ---- the end ------------------------------------------------------------------------------------

static void print_result(const struct run_status *st)
{
    char tokens[UNIT_SIZE], over[UNIT_SIZE], steps[UNIT_SIZE], time[UNIT_SIZE], rate[UNIT_SIZE];

    printf("%s: step %s, %s tokens in %s", run_state_name(st->state),
           unit_thousands(steps, st->step), unit_count(tokens, (double)st->tokens),
           unit_duration(time, st->elapsed_s));
    if (st->elapsed_s > 0 && st->tokens > 0)
        printf(", %s tokens/s", unit_count(rate, (double)st->tokens / st->elapsed_s));
    putchar('\n');
    if (isfinite(st->val_loss))
        printf("validation: loss %.4f, PPL %.4g over %s tokens", st->val_loss, st->val_ppl,
               unit_thousands(over, st->val_tokens));
    if (isfinite(st->val_loss) && isfinite(st->val_bpb))
        printf(", %.4f bits per byte", st->val_bpb);
    if (isfinite(st->val_loss))
        putchar('\n');
}

static void print_end(const char *dir, int code, bool json)
{
    struct run_status st;
    json_t *j;

    if (run_read_status(dir, &st, NULL) < 0)
        return;
    if (json) {
        j = run_status_to_json(&st);
        json_object_set_new(j, "dir", json_string(dir));
        cli_print_json(j);
        return;
    }
    print_result(&st);
    printf("run %s is in %s\n", st.id, dir);
    if (code == CLI_STOPPED)
        printf("continue it with: lathe train --resume %s\n", st.id);
}

// ---- the command --------------------------------------------------------------------------------

// What the run will take, before it takes it.
static void print_start(const char *dir)
{
    char total[UNIT_SIZE], acts[UNIT_SIZE], moments[UNIT_SIZE];
    struct model_plan plan;
    struct spec spec;

    printf("run %s\n", dir);
    if (run_load_profile(dir, &spec, NULL) < 0)
        return; // host_run will say why
    spec.train.recompute = trainer_recompute(&spec, model_sizes_cpu);
    model_plan(&spec, model_sizes_cpu, &plan);
    printf("memory: %s, of it %s activations%s and %s optimizer\n",
           unit_bytes(total, (double)plan.total), unit_bytes(acts, (double)plan.activations),
           spec.train.recompute == RECOMPUTE_LAYER ? " (layers are computed again)" : "",
           unit_bytes(moments, (double)plan.moments));
}

static int run_here(const char *dir, const struct cli_args *a)
{
    struct progress p = {.on = !cli_has(a, "quiet") && !cli_has(a, "json"),
                         .tty = isatty(STDOUT_FILENO),
                         .last_step = -1,
                         .val_loss = NAN,
                         .state = RUN_NEW};
    struct err err = ERR_INIT;
    int code;

    if (p.on)
        print_start(dir);
    fflush(stdout);
    code = host_run(dir, cli_value(a, "backend"), on_progress, &p, &err);
    end_line(&p);
    if (!cli_has(a, "quiet") && code != CLI_INPUT)
        print_end(dir, code, cli_has(a, "json"));
    return code == CLI_OK || code == CLI_STOPPED ? code : cli_fail(&err, code);
}

int cli_start_code(const char *dir)
{
    struct run_status st;
    bool known = run_read_status(dir, &st, NULL) == 0;

    return known && st.state == RUN_FAILED && strcmp(st.phase, "refused") ? CLI_RUN_FAILED
                                                                          : CLI_INPUT;
}

static int run_detached(const char *dir, const struct cli_args *a)
{
    struct err err = ERR_INIT;
    const char *id = strrchr(dir, '/') ? strrchr(dir, '/') + 1 : dir;
    struct run_status st;

    if (host_spawn(dir, cli_value(a, "backend"), SPAWN_TIMEOUT_MS, &err) < 0)
        return cli_fail(&err, cli_start_code(dir));
    if (cli_has(a, "json")) {
        print_end(dir, CLI_OK, true);
        return CLI_OK;
    }
    run_read_status(dir, &st, NULL);
    printf("run %s trains in process %d\nwatch it with: lathe watch %s\n", dir, st.pid, id);
    return CLI_OK;
}

static int check_data_is_named(const struct spec *spec)
{
    const char *missing = !spec->data.train[0] ? "train" : !spec->data.val[0] ? "val" : NULL;
    struct err err = ERR_INIT;

    if (!missing)
        return 0;
    err_set(&err,
            "the profile names no data.%s: add it, or --set data.%s=FILE "
            "(lathe data prepare gcide makes gcide/train.bin and gcide/val.bin)",
            missing, missing);
    return cli_fail(&err, CLI_INPUT);
}

// What was refused before its first step leaves nothing behind; why was said.
static void discard_refused(const char *dir)
{
    struct run_status st;

    if (run_read_status(dir, &st, NULL) == 0 && st.state == RUN_FAILED &&
        !strcmp(st.phase, "refused") && st.step == 0 && st.checkpoint_step < 0)
        file_remove_tree(dir, NULL);
}

static int check_trainable(const struct spec *spec)
{
    struct err err = ERR_INIT;

    return trainer_check(spec, &err) < 0 ? cli_fail(&err, CLI_INPUT) : 0;
}

static int new_run(const struct cli_args *a, char *dir, size_t size)
{
    struct spec *spec = xcalloc(1, sizeof *spec);
    struct err err = ERR_INIT;
    int rc = cli_profile(a, a->operand[0], spec);

    if (rc == 0)
        rc = check_data_is_named(spec);
    if (rc == 0)
        rc = check_trainable(spec);
    if (rc == 0 && run_create(spec, cli_value(a, "run"), dir, size, &err) < 0)
        rc = cli_fail(&err, CLI_INPUT);
    free(spec);
    return rc;
}

static int check_backend(const struct cli_args *a)
{
    const char *b = cli_value(a, "backend");
    struct err err = ERR_INIT;

    if (!b || !strcmp(b, "auto") || !strcmp(b, "cpu"))
        return 0;
    err_set(&err, "backend '%s' is not known here: it must be auto or cpu", b);
    return cli_fail(&err, CLI_INPUT);
}

int cmd_train(const struct cli_command *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct err err = ERR_INIT;
    char dir[512];
    int rc = cli_parse(cmd, argc, argv, &a);

    if (rc || (rc = check_backend(&a)))
        return rc;
    if (!cli_has(&a, "resume") == !a.n_operands) {
        fprintf(stderr, "lathe train: give a PROFILE, or --resume RUN, one of them\n");
        return CLI_USAGE;
    }
    if (cli_has(&a, "resume") && (a.n_set || cli_has(&a, "run"))) {
        fprintf(stderr, "lathe train: a run continues with the profile and id it was started "
                        "with; --set and --run are for new runs\n");
        return CLI_USAGE;
    }
    if (cli_has(&a, "resume")) {
        if (run_find(cli_value(&a, "resume"), dir, sizeof dir, &err) < 0)
            return cli_fail(&err, CLI_INPUT);
    } else if ((rc = new_run(&a, dir, sizeof dir))) {
        return rc;
    }
    rc = cli_has(&a, "detach") ? run_detached(dir, &a) : run_here(dir, &a);
    if (rc == CLI_INPUT && !cli_has(&a, "resume"))
        discard_refused(dir);
    return rc;
}
