// The Monitor screen: following a run and acting on it. Watching changes nothing; what reaches the
// run (checkpoint, pause, stop) goes over its socket on a thread of its own (action.h).
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/profile.h"
#include "tui/app.h"
#include "tui/launch.h"
#include "tui/monitor.h"
#include "tui/monitor_state.h"
#include "tui/run_words.h"

// A long log is read in steps this long (some 10 ms), the picture follows now and then.
enum { LINES_PER_STEP = 2000 };
static const double partial_seconds = 0.4;

static struct monitor *state(struct app *app)
{
    if (!app->monitor) {
        app->monitor = xcalloc(1, sizeof(*app->monitor));
        app->monitor->log_y[METRIC_PPL] = true;
        app->monitor->metric = METRIC_PPL;
        monitor_view_whole(app->monitor);
    }
    return app->monitor;
}

// ---- which run ----------------------------------------------------------------------------------

void monitor_close(struct monitor *m)
{
    if (!m->open)
        return;
    for (int i = 0; i < TRAIN_COLUMNS; i++)
        pyramid_release(&m->train[i]);
    for (int i = 0; i < EVAL_COLUMNS; i++)
        pyramid_release(&m->eval[i]);
    follow_release(&m->follow);
    free(m->spec);
    m->spec = NULL;
    m->open = false;
}

// The run's profile, for what its gates aim at.
static struct spec *read_spec(const char *dir)
{
    char *path = xasprintf("%s/profile.yaml", dir);
    struct spec *s = xcalloc(1, sizeof *s);
    struct problems p = {0};

    if (profile_load(path, NULL, 0, s, &p) < 0) {
        free(s);
        s = NULL;
    }
    problems_release(&p);
    free(path);
    return s;
}

void monitor_open(struct monitor *m, const char *dir)
{
    monitor_close(m);
    follow_init(&m->follow, dir);
    m->follow.reader.max_lines = LINES_PER_STEP;
    follow_poll(&m->follow);
    m->spec = read_spec(dir);
    run_tail_open(&m->tail, dir);
    m->frozen_at = 0;
    monitor_view_whole(m);
    m->open = true;
}

bool monitor_poll(struct monitor *m)
{
    m->unseen |= follow_poll(&m->follow);
    if (!m->unseen || (m->follow.behind && run_now() - m->drawn < partial_seconds))
        return false;
    m->unseen = false;
    return true;
}

// Newest first; finds where the followed run stands. The caller frees *list.
static int place(struct monitor *m, struct run_status **list)
{
    struct err err = ERR_INIT;

    m->run_index = m->n_runs = 0;
    if (runs_list(list, &m->n_runs, &err) < 0) {
        *list = NULL;
        return -1;
    }
    for (int i = 0; i < m->n_runs; i++)
        if (!strcmp((*list)[i].id, m->follow.status.id)) {
            m->run_index = i;
            return i;
        }
    return -1;
}

void monitor_watch(struct app *app, const char *run_dir)
{
    struct monitor *m = state(app);
    struct run_status *list = NULL;

    if (m->open && !strcmp(m->follow.dir, run_dir))
        return;
    monitor_open(m, run_dir);
    if (place(m, &list) < 0)
        m->n_runs = 0; // a run from elsewhere
    free(list);
}

const char *monitor_run_dir(const struct app *app)
{
    return app->monitor && app->monitor->open ? app->monitor->follow.dir : "";
}

void monitor_free(struct monitor *m)
{
    if (!m)
        return;
    monitor_close(m);
    run_tail_release(&m->tail);
    action_release(&m->action);
    free(m);
}

static bool watch_id(struct app *app, const char *id)
{
    struct err err = ERR_INIT;
    char dir[512];

    if (run_find(id, dir, sizeof(dir), &err) < 0) {
        app_message(app, ROLE_ERROR, "%s", err.text);
        return false;
    }
    monitor_watch(app, dir);
    return true;
}

// The newest live run, else the newest.
static bool open_any(struct app *app)
{
    struct run_status *list = NULL;
    struct err err = ERR_INIT;
    int n = 0, best = 0;
    bool opened = false;

    if (runs_list(&list, &n, &err) == 0 && n > 0) {
        for (int i = n - 1; i >= 0; i--)
            if (run_state_is_live(list[i].state))
                best = i;
        opened = watch_id(app, list[best].id);
    }
    free(list);
    return opened;
}

static void other_run(struct app *app, int step)
{
    struct monitor *m = state(app);
    struct run_status *list = NULL;
    int at = place(m, &list), next = at < 0 ? 0 : at + step;

    if (m->n_runs == 0)
        app_message(app, ROLE_WARN, "no runs in '%s'", runs_dir());
    else if (next < 0 || next >= m->n_runs)
        app_message(app, ROLE_DIM, "%s",
                    next < 0 ? "this is the newest run" : "this is the oldest run");
    else
        watch_id(app, list[next].id);
    free(list);
}

// ---- orders to the run --------------------------------------------------------------------------

static void order(struct app *app, const char *dir, const char *command, const char *doing)
{
    struct monitor *m = state(app);

    if (!action_start(&m->action, ACTION_CONTROL, dir, command))
        app_message(app, ROLE_WARN, "still waiting for the answer to '%s'", m->action.command);
    else
        app_message(app, ROLE_DIM, "%s %s …", doing, m->follow.status.id);
}

// Says why a run that has no host cannot be told anything; true when it has one.
static bool answers(struct app *app, const char *wish)
{
    const struct run_status *st = &state(app)->follow.status;

    if (run_state_is_live(st->state))
        return true;
    app_message(app, ROLE_WARN, "cannot %s %s: it is %s%s", wish, st->id, run_state_name(st->state),
                st->state == RUN_STOPPED || st->state == RUN_LOST || st->state == RUN_FAILED
                    ? "; R continues it"
                    : "");
    return false;
}

static void stop_confirmed(struct app *app)
{
    order(app, state(app)->ask_dir, "stop", "stopping");
}

static void ask_stop(struct app *app)
{
    struct monitor *m = state(app);
    const struct run_status *st = &m->follow.status;
    char step[UNIT_SIZE], total[UNIT_SIZE];
    char *lines;

    snprintf(m->ask_dir, sizeof(m->ask_dir), "%s", m->follow.dir);
    lines =
        xasprintf("%s is at step %s of %s.\n"
                  "It writes a checkpoint after this step and ends.\n"
                  "R continues it from there.",
                  st->id, unit_thousands(step, st->step), unit_thousands(total, st->total_steps));
    app_confirm(app, "Stop this run?", lines, stop_confirmed);
    free(lines);
}

static void report(struct app *app)
{
    struct monitor *m = state(app);
    const char *id = strrchr(m->action.run_dir, '/');
    char text[512];

    id = id ? id + 1 : m->action.run_dir;
    if (!m->action.ok)
        app_message(app, ROLE_ERROR, "%s %s: %s", m->action.command, id,
                    err_format(&m->action.err, text, sizeof(text)));
    else
        app_message(app, ROLE_TEXT, "%s: %s%s%s", id, m->action.command,
                    m->action.state[0] ? " taken, now " : " taken", m->action.state);
}

// ---- the screen ---------------------------------------------------------------------------------

static void enter(struct app *app)
{
    if (!state(app)->open)
        open_any(app);
}

static void draw(struct app *app, struct canvas *c, const struct rect *body)
{
    state(app)->drawn = run_now();
    monitor_draw(state(app), c, body, run_now());
}

static void freeze(struct app *app)
{
    struct monitor *m = state(app);

    m->frozen_at = m->frozen_at > 0 ? 0 : run_now();
    app_message(app, ROLE_DIM,
                m->frozen_at > 0 ? "the picture stands still, the run goes on" : "following again");
}

static void smooth(struct app *app)
{
    struct monitor *m = state(app);

    m->smooth = (m->smooth + 1) % SMOOTH_COUNT;
    if (m->smooth)
        app_message(app, ROLE_DIM, "s: the mean of the last %d records, beside the raw curve",
                    monitor_smooth_window(m));
    else
        app_message(app, ROLE_DIM, "the raw curve alone");
}

static void toggle_tail(struct monitor *m)
{
    m->show_tail = !m->show_tail;
    m->tail.back = 0;
    if (m->show_tail)
        run_tail_poll(&m->tail);
}

static bool view_command(struct app *app, enum command cmd)
{
    struct monitor *m = state(app);

    switch (cmd) {
    case CMD_PREV_RUN:
        other_run(app, 1);
        return true;
    case CMD_NEXT_RUN:
        other_run(app, -1);
        return true;
    case CMD_LAYERS:
        m->show_layers = !m->show_layers;
        m->show_tail = false;
        return true;
    case CMD_METRIC:
        if (m->show_layers)
            monitor_layers_next(m);
        else
            m->metric = (m->metric + 1) % METRIC_COUNT;
        return true;
    case CMD_AXIS:
        m->axis = (m->axis + 1) % AXIS_COUNT;
        return true;
    case CMD_LOG_Y:
        m->log_y[m->metric] = !m->log_y[m->metric];
        return true;
    case CMD_ZOOM:
        m->zoom = (m->zoom + 1) % ZOOM_COUNT;
        return true;
    case CMD_SMOOTH_LINE:
        smooth(app);
        return true;
    case CMD_FREEZE:
        freeze(app);
        return true;
    case CMD_LOG:
        toggle_tail(m);
        return true;
    default:
        return false;
    }
}

static bool layer_command(struct monitor *m, enum command cmd)
{
    int by = cmd == CMD_LEFT ? -1 : cmd == CMD_RIGHT ? 1 : 0;

    if (!m->show_layers || m->show_tail || !by)
        return false;
    monitor_layers_move(m, by);
    return true;
}

static bool chart_command(struct monitor *m, enum command cmd)
{
    double now = run_now();

    if (m->show_tail || m->show_layers)
        return false;
    switch (cmd) {
    case CMD_LEFT:
        monitor_view_cursor(m, -1, now);
        return true;
    case CMD_RIGHT:
        monitor_view_cursor(m, 1, now);
        return true;
    case CMD_FIRST:
    case CMD_LAST:
        monitor_view_ends(m, cmd == CMD_LAST, now);
        return true;
    case CMD_ZOOM_IN:
        monitor_view_zoom(m, 0.5, now);
        return true;
    case CMD_ZOOM_OUT:
        monitor_view_zoom(m, 2, now);
        return true;
    case CMD_PAN_LEFT:
        monitor_view_pan(m, -0.25);
        return true;
    case CMD_PAN_RIGHT:
        monitor_view_pan(m, 0.25);
        return true;
    default:
        return false;
    }
}

// One step back: the cursor, then the part of the axis.
static bool back(struct monitor *m)
{
    if (m->show_tail)
        m->show_tail = false;
    else if (isfinite(m->view.cursor))
        m->view.cursor = NAN;
    else if (!monitor_view_is_whole(m))
        monitor_view_whole(m);
    else
        return false;
    return true;
}

static bool scroll_command(struct monitor *m, enum command cmd)
{
    int lines = cmd == CMD_UP          ? 1
                : cmd == CMD_DOWN      ? -1
                : cmd == CMD_PAGE_UP   ? 10
                : cmd == CMD_PAGE_DOWN ? -10
                : cmd == CMD_FIRST     ? 1 << 20
                : cmd == CMD_LAST      ? -(1 << 20)
                                       : 0;

    if (!m->show_tail || lines == 0)
        return false;
    run_tail_scroll(&m->tail, lines);
    return true;
}

static bool control_command(struct app *app, enum command cmd)
{
    struct monitor *m = state(app);
    bool paused = m->follow.status.state == RUN_PAUSED;

    switch (cmd) {
    case CMD_CHECKPOINT:
        if (answers(app, "checkpoint"))
            order(app, m->follow.dir, "checkpoint", "asking for a checkpoint of");
        return true;
    case CMD_PAUSE:
        if (answers(app, "pause"))
            order(app, m->follow.dir, paused ? "resume" : "pause",
                  paused ? "continuing" : "pausing");
        return true;
    case CMD_STOP:
        if (answers(app, "stop"))
            ask_stop(app);
        return true;
    case CMD_RESUME_RUN:
        launch_resume(app, m->follow.dir, &m->follow.status);
        return true;
    default:
        return false;
    }
}

static bool command(struct app *app, enum command cmd)
{
    struct monitor *m = state(app);

    if (cmd == CMD_CANCEL && back(m))
        return true;
    if (!m->open) {
        if (cmd != CMD_CHECKPOINT && cmd != CMD_PAUSE && cmd != CMD_STOP && cmd != CMD_RESUME_RUN)
            return false;
        app_message(app, ROLE_WARN, "no run is watched");
        return true;
    }
    return view_command(app, cmd) || layer_command(m, cmd) || scroll_command(m, cmd) ||
           chart_command(m, cmd) || control_command(app, cmd);
}

// The words that change with the clock alone.
static bool aged(struct monitor *m)
{
    char text[sizeof(m->age_text)];
    enum role role;

    if (m->frozen_at > 0)
        snprintf(text, sizeof(text), "%.0f", floor(run_now() - m->frozen_at));
    else
        monitor_heartbeat(m, run_now(), text, sizeof(text), &role);
    if (!strcmp(text, m->age_text))
        return false;
    snprintf(m->age_text, sizeof(m->age_text), "%s", text);
    return true;
}

static bool tick(struct app *app)
{
    struct monitor *m = state(app);
    bool changed = false;

    if (action_poll(&m->action)) {
        report(app); // its message redraws by itself
        changed = true;
    }
    if (!m->open)
        return open_any(app) || changed;
    if (m->frozen_at <= 0) {
        changed |= monitor_poll(m);
        if (m->show_tail)
            changed |= run_tail_poll(&m->tail);
    }
    return aged(m) || changed;
}

static int wait_ms(struct app *app)
{
    const struct monitor *m = state(app);

    if (m->open && m->follow.behind && m->frozen_at <= 0)
        return 1;
    if (m->action.busy)
        return 100;
    if (m->frozen_at > 0)
        return 1000; // its age
    if (m->open && run_state_is_live(m->follow.status.state))
        return app->tick_ms;
    // a finished run never moves again; the others may be continued from elsewhere
    return m->open && m->follow.status.state == RUN_DONE ? -1 : 3000;
}

static const char *shell(struct app *app)
{
    static char line[160];
    const struct monitor *m = state(app);

    if (m->open)
        snprintf(line, sizeof(line), "lathe watch %s", m->follow.status.id);
    else
        snprintf(line, sizeof(line), "lathe runs");
    return line;
}

const struct screen screen_monitor = {
    .title = "Monitor",
    .context = CTX_MONITOR,
    .enter = enter,
    .draw = draw,
    .command = command,
    .tick = tick,
    .wait_ms = wait_ms,
    .shell = shell,
};
