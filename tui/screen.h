// A screen: state in, cells out. Screens never touch the terminal; app.c owns the loop.
#ifndef TUI_SCREEN_H
#define TUI_SCREEN_H

#include <stdbool.h>

#include "tui/canvas.h"
#include "tui/keys.h"

struct app;

struct screen {
    const char *title; // "Design"
    enum context context;
    void (*enter)(struct app *app); // becomes visible; may be NULL
    void (*draw)(struct app *app, struct canvas *c, const struct rect *body);
    bool (*command)(struct app *app, enum command cmd); // false: not handled
    void (*paste)(struct app *app, const char *text); // NULL: pasted text does nothing
    // A mouse report, row and column relative to the body; NULL: a wheel is Up and Down, the rest
    // does nothing.
    void (*mouse)(struct app *app, const struct mouse *m, const struct rect *body);
    bool (*tick)(struct app *app);         // new data? true = redraw; NULL: never changes by itself
    const char *(*shell)(struct app *app); // the command that does the same, for the bottom line
    // Milliseconds until tick() is wanted next, -1 = not before a key; NULL: app->tick_ms (when there is a
    // tick). A screen on which nothing can move must say -1, so that an idle workbench never wakes.
    int (*wait_ms)(struct app *app);
    const char *(*status)(struct app *app); // at the right of the top line; may be NULL
};

// screen_form, screen_history and screen_compare stand over Design and count as it.
extern const struct screen screen_form, screen_history, screen_compare, screen_design, screen_monitor, screen_runs;

#endif
