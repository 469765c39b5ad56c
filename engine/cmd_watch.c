// lathe watch: follow a run from its directory. Nothing of the run is changed.
#include "engine/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/buf.h"
#include "engine/changes.h"
#include "engine/profile.h"
#include "engine/run.h"
#include "engine/runlog.h"
#include "engine/verdict.h"

enum { HISTORY = 20, POLL_MS = 300 };

// The newest HISTORY lines until the log was read to its end, then each line as it comes.
struct watch {
    bool json, live;
    char *ring[HISTORY];
    int n;
};

static const char *clock_text(const json_t *line, char *out, size_t size)
{
    const json_t *time = json_object_get(line, "time");
    time_t t = (time_t)json_number_value(time);
    struct tm tm;

    if (!json_is_number(time) || !localtime_r(&t, &tm) || !strftime(out, size, "%H:%M:%S", &tm))
        snprintf(out, size, "--:--:--");
    return out;
}

// Every member that is a number, in the order of this table.
static void add_members(struct buf *b, const json_t *line)
{
    static const struct {
        const char *name, *label, *format;
    } members[] = {
        {"train/loss", "loss", "%.4f"}, {"val/loss", "val loss", "%.4f"},
        {"val/ppl", "ppl", "%.4g"},     {"val/bpb", "bpb", "%.4f"},
        {"val/sparsity", "sparsity", "%.3f"},
        {"lr", "lr", "%.3g"},           {"grad_norm", "grad norm", "%.3g"},
    };
    const json_t *rate = json_object_get(line, "tokens_per_s"),
                 *over = json_object_get(line, "val/tokens");
    char unit[UNIT_SIZE];

    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const json_t *v = json_object_get(line, members[i].name);
        char text[64];

        if (!json_is_number(v))
            continue;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof text, members[i].format, json_number_value(v));
#pragma GCC diagnostic pop
        buf_fmt(b, "  %s %s", members[i].label, text);
    }
    if (json_is_integer(over))
        buf_fmt(b, "  over %s tokens", unit_thousands(unit, json_integer_value(over)));
    if (json_is_number(rate))
        buf_fmt(b, "  %s tok/s", unit_count(unit, json_number_value(rate)));
}

static char *line_text(const json_t *line)
{
    const char *event = json_string_value(json_object_get(line, "event"));
    const char *text = json_string_value(json_object_get(line, "text"));
    char when[16], step[UNIT_SIZE];
    struct buf b = {0};

    buf_fmt(&b, "%s  step %s", clock_text(line, when, sizeof when),
            unit_thousands(step, json_integer_value(json_object_get(line, "step"))));
    add_members(&b, line);
    if (event)
        buf_fmt(&b, "  %s%s%s", event, text && *text ? ": " : "", text ? text : "");
    for (size_t i = 0; i < b.len; i++) // a terminal must not obey what stands in a file
        if ((unsigned char)b.data[i] < ' ' || b.data[i] == 0x7f)
            b.data[i] = ' ';
    return buf_detach(&b);
}

static void on_line(void *user, const json_t *line)
{
    struct watch *w = user;
    char *text = w->json ? json_dumps(line, JSON_COMPACT) : line_text(line);

    if (w->json || w->live) {
        puts(text);
        free(text);
        return;
    }
    free(w->ring[w->n % HISTORY]);
    w->ring[w->n++ % HISTORY] = text;
}

static void print_history(struct watch *w)
{
    int first = w->n > HISTORY ? w->n - HISTORY : 0;

    if (first)
        printf("… %d earlier records (--json prints all)\n", first);
    for (int i = first; i < w->n; i++)
        puts(w->ring[i % HISTORY]);
    for (int i = 0; i < HISTORY; i++) {
        free(w->ring[i]);
        w->ring[i] = NULL;
    }
    w->n = 0;
}

static void print_number(const char *label, const char *text)
{
    printf("  %-14s %s\n", label, text);
}

// Of a gated run: how much it skips, and whether the control has come to rest.
static void print_gates(const char *dir, const struct spec *s)
{
    struct follow *f = xcalloc(1, sizeof *f);
    struct verdict v;
    char text[240];
    double sparsity = NAN;

    follow_init(f, dir);
    do
        follow_poll(f);
    while (f->behind);
    if (f->eval.n)
        sparsity = f->eval.col[EVAL_SPARSITY][f->eval.n - 1];
    if (isfinite(sparsity)) {
        snprintf(text, sizeof text, "%.3f of (token, layer) pairs skipped", sparsity);
        print_number("sparsity", text);
    }
    verdict_of(s, f, &v);
    print_number("control", verdict_text(s, &v, text, sizeof text));
    follow_release(f);
    free(f);
}

static void print_gates_of(const char *dir)
{
    char *path = xasprintf("%s/profile.yaml", dir);
    struct spec *s = xcalloc(1, sizeof *s);
    struct problems p = {0};

    if (profile_load(path, NULL, 0, s, &p) == 0 && spec_gate_count(s))
        print_gates(dir, s);
    problems_release(&p);
    free(s);
    free(path);
}

static void print_changes(const char *dir)
{
    struct changes c = {0};
    char what[160];

    if (changes_read(dir, &c, NULL) < 0)
        print_number("changed", "changes.json is damaged");
    for (int i = 0; i < c.n; i++)
        printf("  %-14s %s, by %s\n", i ? "" : "changed",
               change_to_text(&c.v[i], what, sizeof what), c.v[i].who);
    changes_release(&c);
}

static void print_status_as_json(const char *dir, const struct run_status *st)
{
    json_t *j = run_status_to_json(st);
    struct changes c = {0};

    changes_read(dir, &c, NULL);
    json_object_set_new(j, "changes", changes_to_json(&c));
    changes_release(&c);
    cli_print_json(j);
}

static void print_status(const char *dir, const struct run_status *st)
{
    char a[UNIT_SIZE], b[UNIT_SIZE], text[160];

    printf("%s: %s%s%s\n", st->id, run_state_name(st->state), st->reason[0] ? ", " : "",
           st->reason);
    snprintf(text, sizeof text, "%s of %s", unit_thousands(a, st->step),
             unit_thousands(b, st->total_steps));
    print_number("step", text);
    snprintf(text, sizeof text, "%s of %s", unit_count(a, (double)st->tokens),
             unit_count(b, (double)st->total_tokens));
    print_number("tokens", text);
    if (isfinite(st->train_loss)) {
        snprintf(text, sizeof text, "%.4f", st->train_loss);
        print_number("train loss", text);
    }
    if (isfinite(st->val_loss)) {
        snprintf(text, sizeof text, "%.4f, PPL %.4g over %s tokens", st->val_loss, st->val_ppl,
                 unit_thousands(a, st->val_tokens));
        print_number("validation", text);
    }
    if (isfinite(st->val_bpb)) {
        snprintf(text, sizeof text, "%.4f", st->val_bpb);
        print_number("bits per byte", text);
    }
    if (st->state == RUN_RUNNING && isfinite(st->tokens_per_s)) {
        snprintf(text, sizeof text, "%s tokens/s, ETA %s", unit_count(a, st->tokens_per_s),
                 unit_duration(b, st->eta_s));
        print_number("speed", text);
    }
    print_gates_of(dir);
    print_changes(dir);
    if (st->checkpoint_step >= 0)
        print_number("checkpoint", unit_thousands(a, st->checkpoint_step));
    print_number("directory", dir);
}

static int end_code(const struct run_status *st)
{
    return st->state == RUN_FAILED || st->state == RUN_LOST ? CLI_RUN_FAILED : CLI_OK;
}

static int follow_to_the_end(const char *dir, struct watch *w)
{
    char *path = xasprintf("%s/metrics.jsonl.gz", dir);
    struct runlog_reader r;
    struct run_status st;
    struct err err = ERR_INIT;
    bool over = false;
    int rc = 0;

    runlog_reader_init(&r, path);
    while (rc >= 0 && !over) {
        struct timespec t = {0, POLL_MS * 1000000L};

        // the status first: once it says that the run has ended, the log read after it is complete
        rc = run_read_status(dir, &st, &err);
        over = rc == 0 && !run_state_is_live(st.state) && st.state != RUN_NEW;
        if (rc == 0)
            rc = runlog_poll(&r, on_line, w, NULL, &err);
        if (!w->live && !w->json)
            print_history(w);
        w->live = true;
        if (fflush(stdout) == EOF) // nobody reads any more
            break;
        if (rc >= 0 && !over)
            nanosleep(&t, NULL);
    }
    runlog_reader_release(&r);
    free(path);
    if (rc < 0)
        return cli_fail(&err, CLI_INPUT);
    if (!w->json)
        print_status(dir, &st);
    return end_code(&st);
}

int cmd_watch(const struct cli_command *cmd, int argc, char **argv)
{
    struct err err = ERR_INIT;
    struct run_status st;
    struct watch w = {0};
    struct cli_args a;
    char dir[512];
    int rc = cli_parse(cmd, argc, argv, &a);

    if (rc)
        return rc;
    if (run_find(a.operand[0], dir, sizeof dir, &err) < 0 || run_read_status(dir, &st, &err) < 0)
        return cli_fail(&err, CLI_INPUT);
    w.json = cli_has(&a, "json");
    if (!cli_has(&a, "once"))
        return follow_to_the_end(dir, &w);
    if (w.json)
        print_status_as_json(dir, &st);
    else
        print_status(dir, &st);
    return CLI_OK;
}
