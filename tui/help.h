// The help page, made from the key table: groups of keys for one screen, narrowed by typing.
// UI thread only.
#ifndef TUI_HELP_H
#define TUI_HELP_H

#include <stdbool.h>

#include "tui/canvas.h"
#include "tui/edit.h"
#include "tui/keys.h"

struct help {
    enum context context;
    const char *title; // of the screen
    struct edit search;
    bool searching;       // begun: all letters go to the search, q and ? too
    int top, lines, page; // scrolling; lines and page are known after drawing
};

void help_open(struct help *h, enum context context, const char *title);
bool help_key(struct help *h, int key); // false: the page closes
void help_draw(struct help *h, struct canvas *c, const struct rect *r);

// True when a binding applies in a context: the context's own, and the global ones it does not
// replace (same command or same key).
bool help_applies(const struct key_binding *b, enum context context);

#endif
