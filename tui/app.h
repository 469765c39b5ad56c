// The workbench: which screen is shown, the message line, dialogs, and the poll loop.
#ifndef TUI_APP_H
#define TUI_APP_H

#include "engine/spec.h"
#include "tui/screen.h"

struct design;    // design.h
struct monitor;   // scr_monitor.c
struct runs_view; // scr_runs.c

struct app {
    const struct screen *screen;
    struct design *design;
    struct monitor *monitor;
    struct runs_view *runs;
    char message[256]; // shown above the key bar until the next key
    enum role message_role;
    bool quit, redraw;
};

// Opens the workbench on a profile file (NULL: the embedded default), or watching run_id.
// Returns the process's exit code.
int app_run(const char *profile_path, const char *run_id);

// For the screens.
void app_message(struct app *app, enum role role, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void app_show(struct app *app, const struct screen *s);
void app_watch_run(struct app *app, const char *run_dir); // Monitor on that run
void app_edit_run(struct app *app, const char *run_dir);  // Design on that run's profile

// A modal question drawn over the screen. `lines` is free text (\n separated); yes() runs when the
// person confirms with y or Enter.
void app_confirm(struct app *app, const char *title, const char *lines,
                 void (*yes)(struct app *app));
// A one-line input; done() runs on Enter with the text.
void app_prompt(struct app *app, const char *label, const char *initial,
                void (*done)(struct app *app, const char *text));

#endif
