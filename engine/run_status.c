// status.json: the newest state of a run in one small object.
#include "engine/run.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/buf.h"
#include "engine/file.h"
#include "engine/run_internal.h"

enum { MAX_STATUS = 1 << 16, LOST_PERIODS = 3 };

// ---- names --------------------------------------------------------------------------------------

static const char *const state_names[] = {
    [RUN_NEW] = "new",       [RUN_STARTING] = "starting", [RUN_RUNNING] = "running",
    [RUN_PAUSED] = "paused", [RUN_STOPPED] = "stopped",   [RUN_DONE] = "done",
    [RUN_FAILED] = "failed", [RUN_LOST] = "lost",
};
enum { N_STATES = sizeof state_names / sizeof state_names[0] };

const char *run_state_name(enum run_state s)
{
    return (int)s < (int)N_STATES ? state_names[s] : "unknown";
}

bool run_state_is_live(enum run_state s)
{
    return s == RUN_STARTING || s == RUN_RUNNING || s == RUN_PAUSED;
}

// ---- JSON ---------------------------------------------------------------------------------------

enum field_type { FIELD_TEXT, FIELD_INT64, FIELD_INT, FIELD_DOUBLE };

// Every member of the object: its name in JSON and where it lives.
static const struct field {
    const char *name;
    enum field_type type;
    size_t offset, size;
} fields[] = {
#define AT(field) offsetof(struct run_status, field), sizeof(((struct run_status *)0)->field)
    {"id", FIELD_TEXT, AT(id)},
    {"name", FIELD_TEXT, AT(name)},
    {"phase", FIELD_TEXT, AT(phase)},
    {"reason", FIELD_TEXT, AT(reason)},
    {"step", FIELD_INT64, AT(step)},
    {"total_steps", FIELD_INT64, AT(total_steps)},
    {"tokens", FIELD_INT64, AT(tokens)},
    {"total_tokens", FIELD_INT64, AT(total_tokens)},
    {"flops", FIELD_DOUBLE, AT(flops)},
    {"train/loss", FIELD_DOUBLE, AT(train_loss)},
    {"val/loss", FIELD_DOUBLE, AT(val_loss)},
    {"val/ppl", FIELD_DOUBLE, AT(val_ppl)},
    {"val/bpb", FIELD_DOUBLE, AT(val_bpb)},
    {"val/tokens", FIELD_INT64, AT(val_tokens)},
    {"best/val/loss", FIELD_DOUBLE, AT(best_val_loss)},
    {"lr", FIELD_DOUBLE, AT(lr)},
    {"grad_norm", FIELD_DOUBLE, AT(grad_norm)},
    {"tokens_per_s", FIELD_DOUBLE, AT(tokens_per_s)},
    {"mfu", FIELD_DOUBLE, AT(mfu)},
    {"eta_s", FIELD_DOUBLE, AT(eta_s)},
    {"params", FIELD_INT64, AT(params)},
    {"checkpoint_step", FIELD_INT64, AT(checkpoint_step)},
    {"elapsed_s", FIELD_DOUBLE, AT(elapsed_s)},
    {"heartbeat", FIELD_DOUBLE, AT(heartbeat)},
    {"heartbeat_period", FIELD_DOUBLE, AT(heartbeat_period)},
    {"started", FIELD_DOUBLE, AT(started)},
    {"pid", FIELD_INT, AT(pid)},
    {"host", FIELD_TEXT, AT(host)},
#undef AT
};
enum { N_FIELDS = sizeof fields / sizeof fields[0] };

void run_status_init(struct run_status *st)
{
    *st = (struct run_status){.state = RUN_NEW, .checkpoint_step = -1};
    for (int i = 0; i < N_FIELDS; i++)
        if (fields[i].type == FIELD_DOUBLE)
            *(double *)(void *)((char *)st + fields[i].offset) = NAN;
    st->elapsed_s = 0;
    st->heartbeat_period = 2;
}

static json_t *number_to_json(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

// Texts may come from foreign files: what is no UTF-8 becomes '?'.
static json_t *text_to_json(const char *s)
{
    json_t *j = json_string(s);
    char *ascii;

    if (j)
        return j;
    ascii = xstrdup(s);
    for (char *p = ascii; *p; p++)
        if ((unsigned char)*p >= 0x80)
            *p = '?';
    j = json_string(ascii);
    free(ascii);
    return j;
}

json_t *run_status_to_json(const struct run_status *st)
{
    json_t *j = json_pack("{s:i}", "v", 1);

    for (int i = 0; i < N_FIELDS; i++) {
        const void *p = (const char *)st + fields[i].offset;
        json_t *v = NULL;

        switch (fields[i].type) {
        case FIELD_TEXT:
            v = text_to_json(p);
            break;
        case FIELD_INT64:
            v = json_integer(*(const int64_t *)p);
            break;
        case FIELD_INT:
            v = json_integer(*(const int *)p);
            break;
        case FIELD_DOUBLE:
            v = number_to_json(*(const double *)p);
            break;
        }
        json_object_set_new(j, fields[i].name, v);
        if (!strcmp(fields[i].name, "name"))
            json_object_set_new(j, "state", json_string(run_state_name(st->state)));
    }
    if (st->checkpoint_step < 0)
        json_object_set_new(j, "checkpoint_step", json_null());
    if (st->val_tokens <= 0)
        json_object_set_new(j, "val/tokens", json_null());
    return j;
}

static void read_field(const struct field *f, const json_t *v, struct run_status *st)
{
    void *p = (char *)st + f->offset;

    if (f->type == FIELD_TEXT && json_is_string(v))
        snprintf(p, f->size, "%s", json_string_value(v));
    else if (f->type == FIELD_INT64 && json_is_integer(v))
        *(int64_t *)p = json_integer_value(v);
    else if (f->type == FIELD_INT && json_is_integer(v))
        *(int *)p = (int)json_integer_value(v);
    else if (f->type == FIELD_DOUBLE && json_is_number(v))
        *(double *)p = json_number_value(v);
}

int run_status_from_json(const json_t *j, struct run_status *st)
{
    const char *state = json_string_value(json_object_get(j, "state"));

    run_status_init(st);
    if (!json_is_object(j))
        return -1;
    for (int i = 0; i < N_FIELDS; i++)
        read_field(&fields[i], json_object_get(j, fields[i].name), st);
    for (int i = 0; state && i < N_STATES; i++)
        if (!strcmp(state, state_names[i])) {
            st->state = (enum run_state)i;
            return 0;
        }
    return -1;
}

// ---- the file -----------------------------------------------------------------------------------

// A power cut may lose the last seconds of a running status, which is rewritten soon and rebuilt
// from the checkpoint on resume; it never leaves half a file. What a run ended with is synced.
static int write_plain(const char *path, const char *text, struct err *err)
{
    char *tmp = xasprintf("%s.%d.tmp", path, (int)getpid());
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int rc = fd < 0 ? -1 : write_all(fd, text, strlen(text));

    if (fd >= 0 && close(fd) < 0)
        rc = -1;
    if (rc == 0)
        rc = rename(tmp, path);
    if (rc < 0) {
        err_sys(err, "cannot write '%s'", path);
        unlink(tmp);
    }
    free(tmp);
    return rc;
}

int run_write_status(const char *dir, const struct run_status *st, struct err *err)
{
    json_t *j = run_status_to_json(st);
    char *text = json_dumps(j, JSON_INDENT(1)), *path = xasprintf("%s/status.json", dir);
    int rc;

    BUG_IF(!text || st->state == RUN_LOST);
    if (run_state_is_live(st->state))
        rc = write_plain(path, text, err);
    else
        rc = file_write_atomic(path, text, strlen(text), err);
    free(text);
    free(path);
    json_decref(j);
    return rc;
}

static void set_id(const char *dir, struct run_status *st)
{
    char *path = xstrdup(dir), *name = basename(path), *real;

    if (!strcmp(name, ".") || !strcmp(name, "..")) {
        real = realpath(dir, NULL);
        free(path);
        path = real ? real : xstrdup("?");
        name = basename(path);
    }
    snprintf(st->id, sizeof st->id, "%s", name);
    free(path);
}

// Clocks of two machines differ; a sign of life from further ahead than this is no sign.
enum { CLOCK_SKEW_S = 3600 };

// "lost" is never written by anyone: it is what a reader concludes.
static void derive_lost(const char *dir, struct run_status *st)
{
    bool here = !strcmp(st->host, run_host_name()), known, locked;
    double touched = NAN, age;

    if (!run_state_is_live(st->state))
        return;
    locked = run_is_locked(dir, &known, &touched);
    if (here && locked) // the lock's time goes on when a full disk keeps this file from it
        st->heartbeat = fmax(st->heartbeat, touched);
    age = run_now() - st->heartbeat;
    if (here && known && !locked) {
        snprintf(st->reason, sizeof st->reason,
                 "process %d ended without a word; its checkpoints are kept", st->pid);
    } else if (age < 0 && here && locked) {
        return; // the clock was set back
    } else if (!(age <= LOST_PERIODS * st->heartbeat_period) || age < -CLOCK_SKEW_S) {
        char ago[UNIT_SIZE];

        snprintf(st->reason, sizeof st->reason, "no sign of life from process %d on %s for %s",
                 st->pid, st->host, unit_duration(ago, age));
    } else {
        return;
    }
    st->state = RUN_LOST;
    st->tokens_per_s = st->eta_s = NAN;
}

int run_read_status(const char *dir, struct run_status *st, struct err *err)
{
    char *path = xasprintf("%s/status.json", dir);
    struct buf text = {0};
    struct stat sb;
    json_t *j = NULL;
    int rc = -1;

    run_status_init(st);
    if (stat(path, &sb) < 0)
        err_sys(err, "cannot read '%s'", path);
    else if (!S_ISREG(sb.st_mode)) // a pipe would block
        err_set(err, "'%s' is not a regular file", path);
    else
        rc = file_read(path, MAX_STATUS, &text, err);
    if (rc == 0) {
        j = json_loadb(text.data, text.len, 0, NULL);
        rc = run_status_from_json(j, st);
        if (rc < 0)
            err_set(err, "'%s' is damaged", path);
        json_decref(j);
    }
    set_id(dir, st);
    if (rc == 0)
        derive_lost(dir, st);
    buf_release(&text);
    free(path);
    return rc;
}
