#include "engine/follow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"

enum { LINES_PER_POLL = 20000 };

static const char *const train_names[TRAIN_COLUMNS] = {
    [TRAIN_STEP] = "step",
    [TRAIN_TOKENS] = "tokens",
    [TRAIN_TIME] = "time",
    [TRAIN_LOSS] = "train/loss",
    [TRAIN_LR] = "lr",
    [TRAIN_GRAD_NORM] = "grad_norm",
    [TRAIN_TOKENS_PER_S] = "tokens_per_s",
    [TRAIN_MFU] = "mfu",
    [TRAIN_FLOPS] = "flops",
};
static const char *const eval_names[EVAL_COLUMNS] = {
    [EVAL_STEP] = "step",
    [EVAL_TOKENS] = "tokens",
    [EVAL_TIME] = "time",
    [EVAL_LOSS] = "val/loss",
    [EVAL_PPL] = "val/ppl",
    [EVAL_BPB] = "val/bpb",
    [EVAL_VAL_TOKENS] = "val/tokens",
    [EVAL_FLOPS] = "flops",
    [EVAL_SPARSITY] = "val/sparsity",
    [EVAL_REG] = "reg/loss",
};

// ---- tables -------------------------------------------------------------------------------------

int follow_find(const struct follow_table *t, double step)
{
    int low = -1, high = t->n; // col[0][low] <= step < col[0][high]

    while (high - low > 1) {
        int mid = low + (high - low) / 2;

        if (t->col[0][mid] <= step)
            low = mid;
        else
            high = mid;
    }
    return low;
}

// Index of the row for `step`: a new one at the end, or the one that is replaced. A step that falls
// between two old ones shows that the run took another way since then: the rows after it go.
static int row_for(struct follow_table *t, double step)
{
    int at = t->n && step <= t->col[0][t->n - 1] ? follow_find(t, step) : t->n;

    if (at < t->n && at >= 0 && t->col[0][at] == step)
        return at;
    at = at < t->n ? at + 1 : at;
    if (at == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 1024;
        for (int c = 0; c < t->columns; c++)
            t->col[c] = xrealloc(t->col[c], (size_t)t->cap, sizeof **t->col);
    }
    t->n = at + 1;
    return at;
}

static void table_add(struct follow_table *t, const char *const *names, double step,
                      const json_t *line)
{
    int row = row_for(t, step);

    for (int c = 0; c < t->columns; c++) {
        const json_t *v = json_object_get(line, names[c]);

        t->col[c][row] = json_is_number(v) ? json_number_value(v) : NAN;
    }
    t->col[0][row] = step;
    t->dirty = row < t->dirty ? row : t->dirty;
}

static void table_release(struct follow_table *t)
{
    for (int c = 0; c < FOLLOW_MAX_COLUMNS; c++)
        free(t->col[c]);
    *t = (struct follow_table){.columns = t->columns};
}

// ---- records ------------------------------------------------------------------------------------

static void add_event(struct follow *f, const char *kind, int64_t step, const json_t *line)
{
    const char *text = json_string_value(json_object_get(line, "text"));
    const json_t *time = json_object_get(line, "time");
    struct follow_event *e;

    if (f->n_events == FOLLOW_MAX_EVENTS) {
        memmove(f->event, f->event + 1, (FOLLOW_MAX_EVENTS - 1) * sizeof *f->event);
        f->n_events--;
    }
    if (!f->event)
        f->event = xcalloc(FOLLOW_MAX_EVENTS, sizeof *f->event);
    e = &f->event[f->n_events++];
    *e = (struct follow_event){
        .step = step,
        .tokens = json_integer_value(json_object_get(line, "tokens")),
        .time = json_is_number(time) ? json_number_value(time) : NAN,
    };
    snprintf(e->kind, sizeof e->kind, "%s", kind);
    snprintf(e->text, sizeof e->text, "%s", text ? text : "");
}

// One line may be several kinds of record at once.
static void take_line(void *user, const json_t *line)
{
    struct follow *f = user;
    const json_t *step = json_object_get(line, "step");
    const char *event = json_string_value(json_object_get(line, "event"));

    if (!json_is_number(step) || !(json_number_value(step) >= 0)) {
        f->bad++;
        return;
    }
    if (json_object_get(line, "train/loss")) {
        table_add(&f->train, train_names, json_number_value(step), line);
        f->bad += layer_log_add(&f->train_layers, json_number_value(step), line);
    }
    if (json_object_get(line, "val/loss")) {
        table_add(&f->eval, eval_names, json_number_value(step), line);
        f->bad += layer_log_add(&f->eval_layers, json_number_value(step), line);
    }
    if (event)
        add_event(f, event, (int64_t)json_number_value(step), line);
}

// ---- following ----------------------------------------------------------------------------------

static void forget(struct follow *f)
{
    table_release(&f->train);
    table_release(&f->eval);
    layer_log_release(&f->train_layers);
    layer_log_release(&f->eval_layers);
    f->train.columns = TRAIN_COLUMNS;
    f->eval.columns = EVAL_COLUMNS;
    free(f->event);
    f->event = NULL;
    f->n_events = f->bad = 0;
}

void follow_init(struct follow *f, const char *run_dir)
{
    char *log = xasprintf("%s/metrics.jsonl.gz", run_dir);

    *f = (struct follow){.train.columns = TRAIN_COLUMNS, .eval.columns = EVAL_COLUMNS};
    BUG_IF(strlen(log) >= sizeof f->reader.path || strlen(run_dir) >= sizeof f->dir);
    strcpy(f->dir, run_dir);
    run_status_init(&f->status);
    runlog_reader_init(&f->reader, log);
    f->reader.max_lines = LINES_PER_POLL;
    free(log);
}

static bool poll_status(struct follow *f)
{
    struct run_status old = f->status, now;
    struct err err = ERR_INIT;
    bool had = f->has_status;

    if (run_read_status(f->dir, &now, &err) < 0) {
        err_format(&err, f->problem, sizeof f->problem);
        return false;
    }
    f->status = now;
    f->has_status = true;
    old.heartbeat = now.heartbeat;
    return !had || memcmp(&old, &now, sizeof now) != 0;
}

bool follow_poll(struct follow *f)
{
    struct err err = ERR_INIT;
    int restarts = f->reader.restarts, bad = f->bad, lines;
    char problem[sizeof f->problem];
    bool changed;

    memcpy(problem, f->problem, sizeof problem);
    f->problem[0] = '\0';
    changed = poll_status(f);
    lines = runlog_poll(&f->reader, take_line, f, &f->bad, &err);
    if (f->reader.restarts != restarts) {
        // the log is not the one that was read so far: read it again into empty tables
        forget(f);
        runlog_reader_rewind(&f->reader);
        lines = runlog_poll(&f->reader, take_line, f, &f->bad, &err);
        changed = true;
    }
    if (lines < 0)
        err_format(&err, f->problem, sizeof f->problem);
    f->behind = f->reader.behind;
    return changed || lines > 0 || f->bad != bad || strcmp(problem, f->problem) != 0;
}

void follow_release(struct follow *f)
{
    forget(f);
    runlog_reader_release(&f->reader);
}
