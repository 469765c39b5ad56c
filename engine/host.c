#include "engine/host.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/control.h"
#include "engine/file.h"
#include "engine/runlog.h"
#include "engine/trainer.h"

// Seconds.
static const double status_period = 2;    // heartbeat
static const double tick_period = 1;      // metrics flush, progress
static const double news_gap = 0.05;      // the trainer is looked at no more often than this
static const double status_min_gap = 0.2; // between two status.json without a change of state

enum { EXIT_DONE = 0, EXIT_REFUSED = 1, EXIT_FAILED = 4, EXIT_STOPPED = 143 };
enum { FD_SIGNAL, FD_TRAINER, FD_CONTROL, MAX_FDS = FD_CONTROL + 1 + CONTROL_MAX_CLIENTS };

struct host {
    char dir[512];
    struct spec spec;
    int lock_fd, log_fd, signal_fd;
    struct runlog *log;
    struct control_server *control; // NULL: the file system has no sockets
    struct trainer *trainer;
    host_progress *progress;
    void *user;
    struct run_status before, st; // at the start, now
    char flush_problem[256];      // "" while the metrics reach the disk
    char status_problem[256];
    bool stopping, has_run; // asked to stop; the trainer came past its start
    double next_tick, next_news, last_write;
    bool dirty, urgent; // st differs from status.json; in a way that does not wait
    sigset_t old_mask;
    struct sigaction old_pipe, old_hup, old_xfsz;
};

static double monotonic(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- log.txt ------------------------------------------------------------------------------------

// "2026-12-01T03:32:10Z text": one write, so lines of two threads never mix. A full disk loses them.
static void log_line(void *user, const char *text)
{
    struct host *h = user;
    time_t now = time(NULL);
    struct buf line = {0};
    char stamp[32];
    struct tm tm;

    gmtime_r(&now, &tm);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &tm);
    buf_fmt(&line, "%s %s", stamp, text);
    for (size_t i = 0; i < line.len; i++)
        if ((unsigned char)line.data[i] < ' ')
            line.data[i] = ' ';
    buf_str(&line, "\n");
    if (write_all(h->log_fd, line.data, line.len) < 0)
        errno = 0;
    buf_release(&line);
}

static void log_fmt(struct host *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void log_fmt(struct host *h, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    log_line(h, text);
}

// ---- status -------------------------------------------------------------------------------------

// Before the first step a resumed run still shows the numbers it ended with.
static void keep_numbers(const struct run_status *old, struct run_status *st)
{
    struct run_status now = *st;

    *st = *old;
    st->state = now.state;
    memcpy(st->phase, now.phase, sizeof st->phase);
    memcpy(st->reason, now.reason, sizeof st->reason);
    st->pid = now.pid;
    memcpy(st->host, now.host, sizeof st->host);
    st->heartbeat = now.heartbeat;
    st->heartbeat_period = now.heartbeat_period;
    st->tokens_per_s = st->eta_s = st->mfu = NAN;
    if (now.params)
        st->params = now.params;
    if (now.total_steps) {
        st->total_steps = now.total_steps;
        st->total_tokens = now.total_tokens;
    }
}

static void read_trainer(struct host *h)
{
    struct run_status now = h->st;

    trainer_status(h->trainer, &now);
    h->has_run = h->has_run || now.state == RUN_RUNNING || now.state == RUN_PAUSED;
    if (!h->has_run && h->before.step > 0)
        keep_numbers(&h->before, &now);
    if (h->flush_problem[0] && !now.reason[0])
        snprintf(now.reason, sizeof now.reason, "%s", h->flush_problem);
    if (memcmp(&now, &h->st, sizeof now)) {
        h->dirty = true;
        h->urgent = h->urgent || now.state != h->st.state || strcmp(now.reason, h->st.reason) ||
                    now.checkpoint_step != h->st.checkpoint_step;
    }
    h->st = now;
}

static void write_status(struct host *h)
{
    struct err err = ERR_INIT;

    h->st.heartbeat = run_now();
    futimens(h->lock_fd, NULL); // the heartbeat that needs no space
    if (run_write_status(h->dir, &h->st, &err) == 0) {
        h->status_problem[0] = '\0';
    } else if (strcmp(h->status_problem, err.text)) { // said once, tried again with each heartbeat
        snprintf(h->status_problem, sizeof h->status_problem, "%.255s", err.text);
        log_line(h, err.text);
    }
    h->dirty = h->urgent = false;
    h->last_write = monotonic();
}

static void flush_log(struct host *h)
{
    struct err err = ERR_INIT;

    if (runlog_flush(h->log, &err) == 0) {
        if (h->flush_problem[0])
            log_line(h, "metrics are written again, nothing was lost");
        h->flush_problem[0] = '\0';
    } else if (!h->flush_problem[0]) {
        snprintf(h->flush_problem, sizeof h->flush_problem, "%.255s", err.text);
        log_line(h, err.text);
    }
}

// ---- commands -----------------------------------------------------------------------------------

static json_t *refuse(const char *text)
{
    return json_pack("{s:b, s:s}", "ok", 0, "error", text);
}

// Who asks, as a short text without control characters that is UTF-8.
static const char *read_who(const json_t *request, char out[CHANGE_WHO_SIZE])
{
    const char *who = json_string_value(json_object_get(request, "who"));
    json_t *valid;

    snprintf(out, CHANGE_WHO_SIZE, "%s", who && *who ? who : "someone");
    valid = json_string(out); // cutting may have split a character
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f || (!valid && (unsigned char)*p >= 0x80))
            *p = '?';
    json_decref(valid);
    return out;
}

static void stop(struct host *h, const char *who)
{
    if (h->stopping) {
        log_fmt(h, "stop asked again by %s: already stopping", who);
        return;
    }
    log_fmt(h, "stop asked by %s: checkpoint, then end", who);
    h->stopping = true;
    if (!h->trainer)
        return;
    trainer_note(h->trainer, "stop", who);
    trainer_send(h->trainer, TRAINER_STOP);
}

static int read_change(const json_t *request, struct change *c, struct err *err)
{
    const char *key = json_string_value(json_object_get(request, "key"));
    const json_t *value = json_object_get(request, "value"), *at = json_object_get(request, "at");

    *c = (struct change){.key = CHANGE_KEYS};
    for (int k = 0; key && k < CHANGE_KEYS; k++)
        if (!strcmp(key, change_key_names[k]))
            c->key = (enum change_key)k;
    if (c->key == CHANGE_KEYS)
        return err_set(err, "\"key\" must be lr, max_steps or max_tokens");
    if (!json_is_number(value))
        return err_set(err, "\"value\" must be a number");
    if (at && (!json_is_integer(at) || json_integer_value(at) < 1))
        return err_set(err, "\"at\" must be a step from 1 on; without it the change is for now");
    c->value = json_number_value(value);
    c->at = json_integer_value(at);
    return 0;
}

static json_t *set(struct host *h, const char *who, const json_t *request)
{
    struct err err = ERR_INIT;
    struct change c;
    char text[160];

    if (read_change(request, &c, &err) < 0)
        return refuse(err.text);
    snprintf(c.who, sizeof c.who, "%s", who);
    if (trainer_change(h->trainer, &c, &err) < 0) {
        log_fmt(h, "set %s=%.17g asked by %s: refused, %s", change_key_names[c.key], c.value, who,
                err.text);
        return refuse(err.text);
    }
    log_fmt(h, "set %s, asked by %s", change_to_text(&c, text, sizeof text), who);
    return json_pack("{s:b, s:s, s:I, s:s, s:o}", "ok", 1, "state", run_state_name(h->st.state),
                     "step", (json_int_t)h->st.step, "text", text, "change", change_to_json(&c));
}

static json_t *on_command(void *user, const char *cmd, const json_t *request)
{
    static const struct {
        const char *name;
        enum trainer_command command;
    } table[] = {
        {"pause", TRAINER_PAUSE}, {"resume", TRAINER_RESUME}, {"checkpoint", TRAINER_CHECKPOINT}};
    struct host *h = user;
    char who[CHANGE_WHO_SIZE];

    read_who(request, who);
    read_trainer(h);
    if (!strcmp(cmd, "status"))
        return json_pack("{s:b, s:o}", "ok", 1, "status", run_status_to_json(&h->st));
    if (h->stopping && strcmp(cmd, "stop"))
        return refuse("the run is stopping");
    if (!strcmp(cmd, "set"))
        return set(h, who, request);
    if (!strcmp(cmd, "stop"))
        stop(h, who);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (!strcmp(cmd, table[i].name)) {
            log_fmt(h, "%s asked by %s", cmd, who);
            trainer_note(h->trainer, cmd, who);
            trainer_send(h->trainer, table[i].command);
        }
    return json_pack("{s:b, s:s, s:I}", "ok", 1, "state", run_state_name(h->st.state), "step",
                     (json_int_t)h->st.step);
}

static void on_signal(struct host *h)
{
    struct signalfd_siginfo info;
    char who[CHANGE_WHO_SIZE];

    while (read(h->signal_fd, &info, sizeof info) == sizeof info) {
        snprintf(who, sizeof who, "%s from process %u of user %u",
                 info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM", info.ssi_pid, info.ssi_uid);
        stop(h, who);
    }
}

// ---- the loop -----------------------------------------------------------------------------------

static int wait_ms(const struct host *h, double now)
{
    double until = fmin(h->next_tick, h->last_write + status_period);

    if (h->dirty)
        until = fmin(until, h->last_write + status_min_gap);
    if (h->next_news > now) // the trainer is left alone until then
        until = fmin(until, h->next_news);
    return until <= now ? 0 : (int)ceil((until - now) * 1000);
}

static void wait_for_events(struct host *h)
{
    double now = monotonic();
    struct pollfd fds[MAX_FDS] = {
        [FD_SIGNAL] = {.fd = h->signal_fd, .events = POLLIN},
        [FD_TRAINER] = {.fd = now < h->next_news ? -1 : trainer_fd(h->trainer), .events = POLLIN},
    };
    int n = FD_CONTROL;
    uint64_t count;

    if (h->control)
        n += control_pollfds(h->control, fds + FD_CONTROL, MAX_FDS - FD_CONTROL);
    if (poll(fds, (nfds_t)n, wait_ms(h, now)) < 0)
        return;
    if (fds[FD_SIGNAL].revents)
        on_signal(h);
    if (fds[FD_TRAINER].revents && read(trainer_fd(h->trainer), &count, sizeof count) > 0)
        h->next_news = monotonic() + news_gap;
    if (h->control)
        control_step(h->control);
}

static void tick(struct host *h)
{
    double now = monotonic();
    bool report;

    read_trainer(h);
    report = h->urgent;
    if (now >= h->next_tick) {
        h->next_tick = now + tick_period;
        flush_log(h);
        report = true;
    }
    if (h->urgent || now - h->last_write >= status_period ||
        (h->dirty && now - h->last_write >= status_min_gap))
        write_status(h);
    if (report && h->progress)
        h->progress(h->user, &h->st);
}

static int finish(struct host *h)
{
    struct err err = ERR_INIT;

    read_trainer(h);
    trainer_free(h->trainer);
    h->trainer = NULL;
    if (runlog_close(h->log, &err) < 0) {
        // the run's results are in its checkpoint; what is missing is the end of its history
        h->st.state = RUN_FAILED;
        snprintf(h->st.reason, sizeof h->st.reason, "the end of the metrics is lost: %.400s",
                 err.text);
    }
    h->log = NULL;
    log_fmt(h, "%s at step %lld%s%s", run_state_name(h->st.state), (long long)h->st.step,
            h->st.reason[0] ? ": " : "", h->st.reason);
    control_close(h->control);
    h->control = NULL;
    write_status(h);
    if (h->progress)
        h->progress(h->user, &h->st);
    if (h->st.state == RUN_DONE || h->st.state == RUN_STOPPED)
        return h->st.state == RUN_DONE ? EXIT_DONE : EXIT_STOPPED;
    return strcmp(h->st.phase, "refused") ? EXIT_FAILED : EXIT_REFUSED;
}

// ---- start and end ------------------------------------------------------------------------------

static int open_signals(struct host *h, struct err *err)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t mask;

    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    pthread_sigmask(SIG_BLOCK, &mask, &h->old_mask);
    sigaction(SIGPIPE, &ignore, &h->old_pipe);
    sigaction(SIGHUP, &ignore, &h->old_hup);   // losing the terminal does not end a run
    sigaction(SIGXFSZ, &ignore, &h->old_xfsz); // a file size limit is an error like a full disk
    h->signal_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    return h->signal_fd < 0 ? err_sys(err, "cannot wait for signals") : 0;
}

static void close_signals(struct host *h)
{
    if (h->signal_fd < 0)
        return;
    on_signal(h); // one that came late would otherwise end the process when the mask is lifted
    close(h->signal_fd);
    sigaction(SIGPIPE, &h->old_pipe, NULL);
    sigaction(SIGHUP, &h->old_hup, NULL);
    sigaction(SIGXFSZ, &h->old_xfsz, NULL);
    pthread_sigmask(SIG_SETMASK, &h->old_mask, NULL);
}

// What stands in the directory: refused when there is nothing left to do.
static int read_before(struct host *h, struct err *err)
{
    if (run_load_profile(h->dir, &h->spec, err) < 0)
        return -1;
    if (run_read_status(h->dir, &h->before, NULL) < 0) {
        // a power cut may have taken the status; profile and checkpoints are what counts
        h->before.total_steps = spec_total_steps(&h->spec);
        h->before.total_tokens = h->before.total_steps * spec_tokens_per_step(&h->spec);
        h->before.started = run_now();
    }
    if (h->before.state == RUN_DONE)
        return err_set(err, "run '%s' is done: it reached step %lld", h->before.id,
                       (long long)h->before.step);
    if (run_state_is_live(h->before.state) && strcmp(h->before.host, run_host_name()))
        return err_set(err, "run '%s' is %s in process %d on %s", h->before.id,
                       run_state_name(h->before.state), h->before.pid, h->before.host);
    h->st = h->before;
    h->st.state = RUN_STARTING;
    h->st.reason[0] = '\0';
    snprintf(h->st.phase, sizeof h->st.phase, "starting");
    snprintf(h->st.name, sizeof h->st.name, "%s", h->spec.name);
    snprintf(h->st.host, sizeof h->st.host, "%s", run_host_name());
    h->st.pid = (int)getpid();
    h->st.heartbeat_period = status_period;
    return 0;
}

static int open_files(struct host *h, struct err *err)
{
    char *log = xasprintf("%s/log.txt", h->dir),
         *metrics = xasprintf("%s/metrics.jsonl.gz", h->dir);
    struct err why = ERR_INIT;
    int rc = -1;

    h->log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0600);
    if (h->log_fd < 0)
        err_sys(err, "cannot open '%s'", log);
    else
        h->log = runlog_open(metrics, err);
    if (h->log) {
        rc = 0;
        log_fmt(h, "process %d on %s hosts this run", h->st.pid, h->st.host);
        h->control = control_listen(h->dir, on_command, h, &why);
        if (!h->control) // some network file systems have no sockets; signals still work
            log_fmt(h, "no control socket: %s", why.text);
    }
    free(log);
    free(metrics);
    return rc;
}

static int start(struct host *h, const char *backend, struct err *err)
{
    if (open_files(h, err) < 0)
        return -1;
    h->trainer = trainer_new(h->dir, &h->spec, backend, h->log, log_line, h);
    write_status(h);
    if (h->status_problem[0]) // a directory that takes no status takes no checkpoint either
        return err_set(err, "%s", h->status_problem);
    return trainer_start(h->trainer, err);
}

// The reason a run could not be started belongs into its status, except when another host has it.
static void fail_start(struct host *h, const struct err *err)
{
    h->st.state = RUN_FAILED;
    err_format(err, h->st.reason, sizeof h->st.reason);
    if (h->log_fd >= 0)
        log_line(h, h->st.reason);
    write_status(h);
}

int host_run(const char *run_dir, const char *backend, host_progress *fn, void *user,
             struct err *err)
{
    struct host *h = xcalloc(1, sizeof *h);
    int code = EXIT_REFUSED;

    h->log_fd = h->signal_fd = h->lock_fd = -1;
    h->progress = fn;
    h->user = user;
    if ((size_t)snprintf(h->dir, sizeof h->dir, "%s", run_dir) >= sizeof h->dir)
        err_set(err, "the path '%.100s…' is too long", run_dir);
    else
        h->lock_fd = run_lock(h->dir, err);
    if (h->lock_fd >= 0 && read_before(h, err) == 0 && open_signals(h, err) == 0) {
        if (start(h, backend, err) == 0) {
            do {
                wait_for_events(h);
                tick(h);
            } while (!trainer_ended(h->trainer));
            code = finish(h);
            if (code == EXIT_FAILED)
                err_set(err, "run '%s' failed: %s", h->st.id, h->st.reason);
            else if (code == EXIT_REFUSED)
                err_set(err, "run '%s' was refused: %s", h->st.id, h->st.reason);
        } else {
            fail_start(h, err);
        }
    }
    trainer_free(h->trainer);
    runlog_close(h->log, NULL);
    control_close(h->control);
    close_signals(h);
    if (h->log_fd >= 0)
        close(h->log_fd);
    if (h->lock_fd >= 0)
        close(h->lock_fd);
    free(h);
    return code;
}
