// The Runs screen: choosing a run to watch, continue, edit or delete.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/buf.h"
#include "tui/app.h"
#include "tui/launch.h"
#include "tui/run_words.h"
#include "tui/runs_state.h"
#include "tui/runs_view.h"

static struct runs_view *state(struct app *app)
{
    if (!app->runs) {
        app->runs = xcalloc(1, sizeof(*app->runs));
        app->runs->detail.log_y[METRIC_PPL] = true;
    }
    return app->runs;
}

struct runs_entry *runs_selected(const struct runs_view *v)
{
    return v->list.cursor < v->index.n ? v->index.entry[v->list.cursor] : NULL;
}

void runs_view_free(struct runs_view *v)
{
    if (!v)
        return;
    monitor_close(&v->detail);
    runs_index_release(&v->index);
    free(v);
}

// ---- keeping up ---------------------------------------------------------------------------------

// The row under the cursor stays under the cursor whatever was added, removed or sorted.
static void keep_cursor(struct runs_view *v, const char *id)
{
    list_set_rows(&v->list, v->index.n, id[0] ? runs_index_find(&v->index, id) : -1);
}

static void selected_id(const struct runs_view *v, char *id, size_t size)
{
    const struct runs_entry *e = runs_selected(v);

    snprintf(id, size, "%s", e ? e->status.id : "");
}

static bool poll_index(struct runs_view *v)
{
    char id[64];
    bool changed;

    selected_id(v, id, sizeof(id));
    changed = runs_index_poll(&v->index);
    keep_cursor(v, id);
    return changed;
}

// The curve follows the cursor between two keys, so that scrolling never waits for a log.
static bool poll_detail(struct runs_view *v)
{
    const struct runs_entry *e = runs_selected(v);
    char dir[512];

    if (!e) {
        monitor_close(&v->detail);
        return false;
    }
    if (v->detail.open && !strcmp(v->detail.follow.status.id, e->status.id))
        return monitor_poll(&v->detail);
    runs_index_dir(e, dir, sizeof(dir));
    monitor_open(&v->detail, dir);
    return true;
}

// ---- orders -------------------------------------------------------------------------------------

static double tree_bytes(const char *path, int depth)
{
    DIR *d = opendir(path);
    struct dirent *de;
    double sum = 0;

    while (d && (de = readdir(d))) {
        char sub[1024];
        struct stat st;

        if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, ".."))
            continue;
        snprintf(sub, sizeof(sub), "%.700s/%.255s", path, de->d_name);
        if (lstat(sub, &st) < 0)
            continue;
        if (S_ISDIR(st.st_mode) && depth < 4)
            sum += tree_bytes(sub, depth + 1);
        else
            sum += (double)st.st_size;
    }
    if (d)
        closedir(d);
    return sum;
}

static void delete_confirmed(struct app *app)
{
    struct runs_view *v = state(app);
    struct err err = ERR_INIT;
    char dir[512], text[1600];

    snprintf(dir, sizeof(dir), "%s/%s", runs_dir(), v->ask_id);
    if (v->detail.open && !strcmp(v->detail.follow.dir, dir))
        monitor_close(&v->detail);
    if (run_delete(dir, &err) < 0)
        app_message(app, ROLE_ERROR, "%s", err_format(&err, text, sizeof(text)));
    else
        app_message(app, ROLE_TEXT, "%s is in %s/.trash now", v->ask_id, runs_dir());
    v->index.listed = 0;
    poll_index(v);
}

static void ask_delete(struct app *app, const struct run_status *st)
{
    struct runs_view *v = state(app);
    char dir[512], size[UNIT_SIZE], step[UNIT_SIZE], ckpt[64] = "no checkpoint";
    char *lines;

    if (run_state_is_live(st->state)) {
        app_message(app, ROLE_WARN, "%s is %s: stop it first (Enter, then S)", st->id,
                    run_state_name(st->state));
        return;
    }
    snprintf(dir, sizeof(dir), "%s/%s", runs_dir(), st->id);
    if (st->checkpoint_step >= 0)
        snprintf(ckpt, sizeof(ckpt), "newest checkpoint step %s",
                 unit_thousands(step, st->checkpoint_step));
    lines = xasprintf("%s, %s, %s\n"
                      "profile, log, metrics up to step %s; %s\n"
                      "moves to %s/.trash, nothing is erased.",
                      st->id, run_state_name(st->state), unit_bytes(size, tree_bytes(dir, 0)),
                      unit_thousands(step, st->step), ckpt, runs_dir());
    snprintf(v->ask_id, sizeof(v->ask_id), "%s", st->id);
    app_confirm(app, "Delete this run?", lines, delete_confirmed);
    free(lines);
}

static void sort(struct runs_view *v, int step)
{
    char id[64];

    selected_id(v, id, sizeof(id));
    runs_index_sort(&v->index, (enum runs_sort)((v->index.sort + SORT_COUNT + step) % SORT_COUNT));
    keep_cursor(v, id);
}

// ---- the screen ---------------------------------------------------------------------------------

static void enter(struct app *app)
{
    struct runs_view *v = state(app);

    poll_index(v);
    sort(v, 0);
}

static void draw(struct app *app, struct canvas *c, const struct rect *body)
{
    state(app)->detail.drawn = run_now();
    runs_draw(state(app), c, body, run_now());
}

static bool entry_command(struct app *app, enum command cmd)
{
    const struct runs_entry *e = runs_selected(state(app));
    char dir[512];

    if (cmd != CMD_WATCH && cmd != CMD_RESUME_RUN && cmd != CMD_EDIT && cmd != CMD_DELETE)
        return false;
    if (!e) {
        app_message(app, ROLE_WARN, "there is no run yet");
        return true;
    }
    runs_index_dir(e, dir, sizeof(dir));
    if (cmd == CMD_WATCH)
        app_watch_run(app, dir);
    else if (cmd == CMD_EDIT)
        app_edit_run(app, dir);
    else if (cmd == CMD_RESUME_RUN)
        launch_resume(app, dir, &e->status);
    else
        ask_delete(app, &e->status);
    return true;
}

static bool command(struct app *app, enum command cmd)
{
    struct runs_view *v = state(app);

    if (cmd == CMD_SORT || cmd == CMD_SORT_BACK) {
        sort(v, cmd == CMD_SORT ? 1 : -1);
        return true;
    }
    return list_command(&v->list, cmd) || entry_command(app, cmd);
}

static bool tick(struct app *app)
{
    struct runs_view *v = state(app);
    bool changed = poll_index(v);

    changed |= poll_detail(v);
    return changed;
}

static int wait_ms(struct app *app)
{
    const struct runs_view *v = state(app);
    const struct runs_entry *e = runs_selected(v);

    if (v->detail.open && v->detail.follow.behind)
        return 5;
    // the cursor moved: its curve soon, but not while keys repeat
    if (e && !(v->detail.open && !strcmp(v->detail.follow.status.id, e->status.id)))
        return 150;
    for (int i = 0; i < v->index.n; i++)
        if (run_state_is_live(v->index.entry[i]->status.state))
            return app->tick_ms;
    return 3000;
}

static const char *shell(struct app *app)
{
    (void)app;
    return "lathe runs";
}

const struct screen screen_runs = {
    .title = "Runs",
    .context = CTX_RUNS,
    .enter = enter,
    .draw = draw,
    .command = command,
    .tick = tick,
    .wait_ms = wait_ms,
    .shell = shell,
};
