// The lines that frame every screen: tabs above; message, shell equivalent and keys below. Which of
// them there are is a function of the height alone. UI thread only.
#ifndef TUI_BARS_H
#define TUI_BARS_H

#include "tui/app.h"

struct bars { // rows of the canvas, -1 = not there
    int tabs, message, shell, keys;
    struct rect body;
};

struct bars bars_layout(int rows, int cols);
void bars_draw(struct app *app, struct canvas *c, const struct bars *b);

// The key bar alone: bindings with a label, the least important left out until the rest fits.
void bars_keys(struct canvas *c, const struct rect *r, enum context context);

#endif
