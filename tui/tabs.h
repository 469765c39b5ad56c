// Designs that are open at once, at most eight, each with its own undo list, cursor, budget and
// reference. One is in hand: app->design. UI thread only.
#ifndef TUI_TABS_H
#define TUI_TABS_H

#include "tui/design.h"

struct app;

enum { TABS_MAX = 8 };

struct tabs { // zero-initialise
    struct design *v[TABS_MAX];
    int n, at;
};

// A design on the embedded default becomes the one in hand. NULL with a message in the app's line
// when eight are open.
struct design *tabs_new(struct app *app);
void tabs_go(struct app *app, int by);    // to another one, round the ends
void tabs_close(struct app *app);         // the one in hand; never the last one
void tabs_release(struct tabs *t);
int tabs_dirty(const struct tabs *t);     // how many are not saved
// "crown18.yaml [+]", with "2/3 " in front where there are several. out is returned.
char *tabs_words(const struct app *app, char *out, size_t size);
const char *tabs_name(const struct design *d); // its file's name, or the profile's

#endif
