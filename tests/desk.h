// The workbench without a terminal: one app and one canvas that the tests of Design share. A test
// opens a profile, types keys and looks at the picture.
#ifndef TESTS_DESK_H
#define TESTS_DESK_H

#include "tui/app.h"
#include "tui/canvas.h"

extern struct app desk_app;
extern struct canvas desk_canvas;

void desk_open(const char *profile); // a fresh app on it; NULL: the embedded default
void desk_draw(int rows, int cols, bool utf8);
const char *desk_screen(void); // the last picture as text, valid until the next call
bool desk_shows(const char *text);
void desk_keys(const char *text); // \n Enter, \t Tab, \033 Esc, the rest as typed

uint32_t desk_random(uint32_t *seed);
void desk_random_edit(uint32_t *seed); // some keys that change the design

// For main(): UTF-8 and a runs directory of the test's own; the group's tear-down.
void desk_setup(void);
int desk_release(void **state);

#endif
