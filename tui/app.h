// The workbench: which screen is shown, the message line, dialogs, and the poll loop.
#ifndef TUI_APP_H
#define TUI_APP_H

#include "engine/spec.h"
#include "tui/dialog.h"
#include "tui/form.h"
#include "tui/screen.h"
#include "tui/tabs.h"
#include "tui/term.h"

struct monitor;   // scr_monitor.c
struct runs_view; // scr_runs.c
struct launch;    // launch.h
struct estimate;  // estimate.h

enum { APP_TICK_MS = 500 }; // streams are drawn at most twice a second, unless --fps says otherwise

struct app {
    const struct screen *screen;
    int tick_ms;
    struct tabs tabs;
    struct design *design; // the tab in hand
    struct monitor *monitor;
    struct runs_view *runs;
    struct launch *launch;
    struct estimate *estimate;
    char message[600]; // shown above the key bar until the next key
    enum role message_role;
    struct form form;
    int cols; // of the last drawing
    struct rect body; // of the screen, then
    bool quit, redraw;
    bool cannot_keep; // unsaved changes, as was said
    bool suspend, repaint, toggle_mouse; // wishes for the loop, which owns the terminal
    struct dialog dialog;
};

// Opens the workbench on profile files, each a tab (none: the embedded default), or watching run_id.
// Returns the process's exit code: 2 when there is no usable terminal, 1 when the profile or the
// run cannot be read.
int app_run(const char *const *profiles, int n_profiles, const char *run_id,
            const struct term_options *options);

// The workbench without a terminal, as tests drive it: app_run() is these in a loop.
void app_init(struct app *app); // Design on the embedded default
void app_release(struct app *app);
void app_draw(struct app *app, struct canvas *c);
void app_key(struct app *app, int key, const char *paste); // paste: the text of K_PASTE
void app_mouse(struct app *app, const struct mouse *m);
bool app_tick(struct app *app);                            // true = something to draw
int app_wait_ms(struct app *app); // until app_tick() is wanted, -1 = nothing moves

// For the screens.
void app_message(struct app *app, enum role role, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void app_show(struct app *app, const struct screen *s);
void app_watch_run(struct app *app, const char *run_dir); // Monitor on that run
void app_edit_run(struct app *app, const char *run_dir);  // that run's profile in a tab of its own

// A modal question drawn over the screen. `lines` is free text (\n separated); yes() runs when the
// person confirms with y or Enter.
void app_confirm(struct app *app, const char *title, const char *lines,
                 void (*yes)(struct app *app));
// The same for what cannot be taken back: Enter is no, only y is yes.
void app_confirm_careful(struct app *app, const char *title, const char *lines,
                         void (*yes)(struct app *app));
// A one-line input; done() runs on Enter with the text.
void app_prompt(struct app *app, const char *label, const char *initial,
                void (*done)(struct app *app, const char *text));
// The same with a look at every stage of the text; changed() gets NULL when it is left with Esc.
void app_prompt_live(struct app *app, const char *label, const char *initial,
                     void (*done)(struct app *app, const char *text),
                     void (*changed)(struct app *app, const char *text));

#endif
