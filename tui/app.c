#include "tui/app.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/buf.h"
#include "engine/cli.h"
#include "engine/run.h"
#include "tui/bars.h"
#include "tui/design.h"
#include "tui/estimate.h"
#include "tui/launch.h"
#include "tui/monitor.h"
#include "tui/recover.h"
#include "tui/runs_view.h"
#include "tui/term.h"


// ---- for the screens ----------------------------------------------------------------------------

void app_message(struct app *app, enum role role, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(app->message, sizeof app->message, fmt, ap);
    va_end(ap);
    app->message_role = role;
    app->redraw = true;
}

void app_show(struct app *app, const struct screen *s)
{
    app->screen = s;
    app->redraw = true;
    if (s->enter)
        s->enter(app);
}

void app_watch_run(struct app *app, const char *run_dir)
{
    monitor_watch(app, run_dir);
    app_show(app, &screen_monitor);
}

void app_edit_run(struct app *app, const char *run_dir)
{
    struct spec *spec = xcalloc(1, sizeof *spec);
    struct err err = ERR_INIT;
    char text[1600];

    if (run_load_profile(run_dir, spec, &err) < 0) {
        app_message(app, ROLE_ERROR, "%s", err_format(&err, text, sizeof text));
    } else if ((!app->design->path[0] && !design_dirty(app->design)) || tabs_new(app)) {
        design_set_spec(app->design, spec, "");
        app_show(app, &screen_design);
        app_message(app, ROLE_TEXT, "the profile of %s, as a new design; [ goes back to the others",
                    run_dir);
    }
    free(spec);
}

void app_confirm(struct app *app, const char *title, const char *lines,
                 void (*yes)(struct app *app))
{
    struct dialog *d = &app->dialog;

    d->kind = DIALOG_CONFIRM;
    d->careful = false;
    d->top = 0;
    d->yes = yes;
    snprintf(d->title, sizeof d->title, "%s", title);
    snprintf(d->text, sizeof d->text, "%s", lines);
    app->redraw = true;
}

void app_confirm_careful(struct app *app, const char *title, const char *lines,
                         void (*yes)(struct app *app))
{
    app_confirm(app, title, lines, yes);
    app->dialog.careful = true;
}

void app_prompt(struct app *app, const char *label, const char *initial,
                void (*done)(struct app *app, const char *text))
{
    app_prompt_live(app, label, initial, done, NULL);
}

void app_prompt_live(struct app *app, const char *label, const char *initial,
                     void (*done)(struct app *app, const char *text),
                     void (*changed)(struct app *app, const char *text))
{
    struct dialog *d = &app->dialog;

    d->kind = DIALOG_PROMPT;
    d->done = done;
    d->changed = changed;
    snprintf(d->title, sizeof d->title, "%s", label);
    edit_set(&d->edit, initial);
    app->redraw = true;
    if (changed)
        changed(app, d->edit.text);
}

// ---- state in, cells out ------------------------------------------------------------------------

void app_init(struct app *app)
{
    memset(app, 0, sizeof *app);
    app->tick_ms = APP_TICK_MS;
    tabs_new(app);
    app_show(app, &screen_design);
}

void app_release(struct app *app)
{
    launch_free(app->launch);
    estimate_free(app->estimate);
    monitor_free(app->monitor);
    runs_view_free(app->runs);
    tabs_release(&app->tabs);
    memset(app, 0, sizeof *app);
}

void app_draw(struct app *app, struct canvas *c)
{
    struct bars b = bars_layout(c->rows, c->cols);
    struct rect line = {b.message, 0, 1, c->cols};

    app->cols = c->cols;
    app->body = b.body;
    canvas_clear(c);
    app->screen->draw(app, c, &b.body);
    bars_draw(app, c, &b);
    dialog_draw(&app->dialog, c, &b.body, &line);
    app->redraw = false;
}

static void quit_now(struct app *app)
{
    app->quit = true;
}

static void quit(struct app *app)
{
    int n = tabs_dirty(&app->tabs);
    char lines[160];

    if (n == 0) {
        quit_now(app);
        return;
    }
    snprintf(lines, sizeof lines, "%s changes that are not saved (w saves).\nRuns go on in any case.",
             app->tabs.n == 1 ? "The design has"
             : n == 1         ? "One of the designs has"
                              : "Some of the designs have");
    app_confirm_careful(app, "Leave without saving?", lines, quit_now);
}

static bool global_command(struct app *app, enum command cmd)
{
    switch (cmd) {
    case CMD_SCREEN_DESIGN:
        app_show(app, &screen_design);
        return true;
    case CMD_SCREEN_MONITOR:
        app_show(app, &screen_monitor);
        return true;
    case CMD_SCREEN_RUNS:
        app_show(app, &screen_runs);
        return true;
    case CMD_HELP:
        help_open(&app->dialog.help, app->screen->context, app->screen->title);
        app->dialog.kind = DIALOG_HELP;
        return true;
    case CMD_QUIT:
        quit(app);
        return true;
    case CMD_REPAINT:
        app->repaint = true;
        return true;
    case CMD_SUSPEND:
        app->suspend = true;
        return true;
    case CMD_MOUSE:
        app->toggle_mouse = true;
        return true;
    default:
        return cmd != CMD_NONE; // movement where nothing moves
    }
}

void app_key(struct app *app, int key, const char *paste)
{
    const struct screen *s = app->screen;
    enum command cmd;
    char name[16];

    app->message[0] = 0;
    app->redraw = true;
    if (app->dialog.kind != DIALOG_NONE && keys_find(CTX_GLOBAL, key) == CMD_REPAINT) {
        app->repaint = true;
        return;
    }
    if (app->dialog.kind != DIALOG_NONE) {
        dialog_key(app, key, paste);
        return;
    }
    if (key == K_PASTE && s->paste) {
        s->paste(app, paste);
        return;
    }
    cmd = keys_find(s->context, key);
    if (cmd != CMD_NONE && s->command(app, cmd))
        return;
    if (!global_command(app, cmd))
        app_message(app, ROLE_DIM, "%s does nothing here; ? lists the keys",
                    key == K_PASTE ? "pasted text" : keys_name(key, name));
}

void app_mouse(struct app *app, const struct mouse *m)
{
    struct mouse inside = *m;

    if (app->dialog.kind != DIALOG_NONE || !app->screen->mouse) {
        if (m->kind == MOUSE_WHEEL)
            app_key(app, m->wheel > 0 ? K_UP : K_DOWN, "");
        return;
    }
    if (m->kind == MOUSE_PRESS || m->kind == MOUSE_WHEEL)
        app->message[0] = 0;
    app->redraw = true;
    inside.row -= app->body.row;
    inside.col -= app->body.col;
    app->screen->mouse(app, &inside, &app->body);
}

bool app_tick(struct app *app)
{
    bool changed = launch_poll(app);

    changed |= estimate_poll(app);
    if (app->screen->tick && app->screen->tick(app))
        changed = true;
    return changed || app->redraw;
}

int app_wait_ms(struct app *app)
{
    int wait = -1;

    if (app->screen->tick)
        wait = app->screen->wait_ms ? app->screen->wait_ms(app) : app->tick_ms;
    if ((launch_busy(app) || estimate_busy(app)) && (wait < 0 || wait > app->tick_ms))
        wait = app->tick_ms;
    return wait;
}

// ---- the loop -----------------------------------------------------------------------------------

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int sooner(int a, int b)
{
    return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

// Waits for keys, signals, room on the line, or until `ms` have passed (-1 = for ever).
static void wait_for_something(int ms)
{
    struct pollfd fds[2] = {{term_fd(), POLLIN, 0}, {term_signal_fd(), POLLIN, 0}};

    if (term_pending())
        fds[0].events |= POLLOUT;
    poll(fds, 2, sooner(ms, term_key_wait_ms()));
    if (fds[0].revents & POLLOUT)
        term_flush();
}

static void answer_signals(struct app *app, struct canvas *c)
{
    int rows, cols;

    if (term_interrupted()) {
        if (app->dialog.kind == DIALOG_CONFIRM && app->dialog.yes == quit_now)
            quit_now(app); // asked already
        else
            quit(app);
    }
    if (term_wants_suspend() || app->suspend) {
        app->suspend = false;
        term_suspend();
    }
    if (term_resized()) {
        term_size(&rows, &cols);
        canvas_release(c);
        canvas_init(c, rows, cols, term_is_utf8());
        app->redraw = true;
    }
}

static void answer_wishes(struct app *app)
{
    if (!app->toggle_mouse)
        return;
    app->toggle_mouse = false;
    term_mouse(!term_has_mouse());
    app_message(app, ROLE_DIM, "%s",
                term_has_mouse() ? "the mouse draws; Ctrl-T gives it back to the terminal"
                                 : "the mouse is the terminal's; Ctrl-T takes it");
}

static int next_key(const struct app *app)
{
    term_expect_line(app->dialog.kind == DIALOG_PROMPT || app->dialog.kind == DIALOG_HELP);
    return term_read_key();
}

// When keys came, and since when there is something to keep (recover.h); seconds.
struct keeping {
    double last_key, due;
};

static void read_keys(struct app *app, struct keeping *k)
{
    int key;

    while (!app->quit && (key = next_key(app))) {
        k->last_key = now_s();
        if (key == K_MOUSE)
            app_mouse(app, term_mouse_event());
        else
            app_key(app, key, term_paste());
    }
    answer_wishes(app);
}

// Milliseconds until what was drawn is to be kept: when the hands rest, but not later than a second
// after it was drawn. -1 = it is.
static int keep_wait_ms(const struct app *app, struct keeping *k)
{
    double now = now_s(), left;

    if (!recover_due(app)) {
        k->due = 0;
        return -1;
    }
    if (k->due == 0)
        k->due = now;
    left = fmin(RECOVER_MS - 1e3 * (now - k->last_key), RECOVER_LATEST_MS - 1e3 * (now - k->due));
    return left > 0 ? (int)left + 1 : 0;
}

static void loop(struct app *app, struct canvas *c)
{
    struct keeping keeping = {0, 0};
    double next_tick = 0;

    while (!app->quit && !term_lost() && !term_end_signal()) {
        int wait = app_wait_ms(app);

        if (app->repaint)
            term_repaint();
        if ((app->redraw || app->repaint) && !term_pending()) {
            app_draw(app, c);
            term_draw(c);
            app->repaint = false;
        }
        if (wait >= 0) {
            double left = next_tick - now_s();

            wait = left > 0 && left * 1000 < wait ? (int)(left * 1000) + 1 : left <= 0 ? 0 : wait;
        }
        wait_for_something(sooner(wait, keep_wait_ms(app, &keeping)));
        answer_signals(app, c);
        read_keys(app, &keeping);
        if (keep_wait_ms(app, &keeping) == 0)
            recover_keep(app);
        if (wait >= 0 && now_s() >= next_tick) {
            app->redraw = app_tick(app);
            wait = app_wait_ms(app);
            next_tick = now_s() + (wait > 0 ? wait : 0) / 1000.0;
        }
    }
}

static int fail(const struct err *err, int code)
{
    char text[1600];

    fprintf(stderr, "lathe: %s\n", err_format(err, text, sizeof text));
    return code;
}

static void greet(struct app *app, int n_profiles)
{
    char remarks[SPEC_PATH_SIZE + 80];
    int unreadable, n = recover_adopt(app, &unreadable);
    char *place = recover_directory();

    if (unreadable > 0)
        app_message(app, ROLE_WARN, "%d file%s of changes that were not saved cannot be read: see %s%s",
                    unreadable, unreadable == 1 ? "" : "s", place,
                    n > 0 ? "; others are back as tabs" : "");
    else if (n > 0)
        app_message(app, ROLE_WARN,
                    "%d design%s not saved when lathe ended last: back as %s; w saves, X lets go", n,
                    n == 1 ? " was" : "s were", n == 1 ? "this tab" : "tabs, [ and ] go round");
    else if (design_remarks(app->design, remarks, sizeof remarks)[0])
        app_message(app, ROLE_WARN, "%s", remarks);
    else if (n_profiles > 1)
        app_message(app, ROLE_DIM, "[ and ] go from design to design, C compares them");
    else
        app_message(app, ROLE_DIM, "move with h l, change with j k, Enter trains it");
    free(place);
}

static int open_profiles(struct app *app, const char *const *profiles, int n, struct err *err)
{
    for (int i = 0; i < n; i++) {
        if (i > 0 && !tabs_new(app))
            return err_set(err, "%d profiles are more than the %d that can be open at once", n,
                           TABS_MAX);
        if (design_open(app->design, profiles[i], err) < 0)
            return -1;
    }
    if (n > 1)
        tabs_go(app, 1); // to the first
    return 0;
}

static int open_what_was_asked(struct app *app, const char *const *profiles, int n_profiles,
                               const char *run_id, struct err *err)
{
    char dir[SPEC_PATH_SIZE];

    if (open_profiles(app, profiles, n_profiles, err) < 0)
        return -1;
    if (!run_id) {
        greet(app, n_profiles);
        return 0;
    }
    if (run_find(run_id, dir, sizeof dir, err) < 0)
        return -1;
    app_watch_run(app, dir);
    return 0;
}

// Leaving ends nothing; who was watching a live run is told how to come back.
static void say_goodbye(const struct app *app)
{
    const char *dir = monitor_run_dir(app);
    struct run_status st;

    if (launch_busy(app))
        fprintf(stderr, "waiting until %s has started …\n", launch_id(app));
    if (dir[0] && run_read_status(dir, &st, NULL) == 0 &&
        (st.state == RUN_RUNNING || st.state == RUN_STARTING || st.state == RUN_PAUSED))
        printf("%s is %s and goes on; back to it with: lathe --run %s\n", st.id,
               run_state_name(st.state), st.id);
}

int app_run(const char *const *profiles, int n_profiles, const char *run_id,
            const struct term_options *options)
{
    struct app app;
    struct canvas canvas;
    struct err err = ERR_INIT;
    int rows, cols, rc = 0;

    app_init(&app);
    if (options->fps > 0)
        app.tick_ms = (int)(1000 / options->fps);
    if (open_what_was_asked(&app, profiles, n_profiles, run_id, &err) < 0) {
        rc = fail(&err, CLI_INPUT);
    } else if (term_open(options, &err) < 0) {
        rc = fail(&err, CLI_USAGE);
    } else {
        term_size(&rows, &cols);
        canvas_init(&canvas, rows, cols, term_is_utf8());
        loop(&app, &canvas);
        if (app.quit)
            recover_forget(&app);
        else
            recover_keep(&app); // the terminal is gone, or a signal came
        term_close();
        canvas_release(&canvas);
        say_goodbye(&app);
    }
    app_release(&app);
    if (term_end_signal()) { // it ends the process as it would have
        signal(term_end_signal(), SIG_DFL);
        raise(term_end_signal());
    }
    return rc;
}
