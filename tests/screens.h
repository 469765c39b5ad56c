// One screen drawn without the workbench around it, over a runs directory of the test's own.
#ifndef TESTS_SCREENS_H
#define TESTS_SCREENS_H

#include "tui/app.h"
#include "tui/screen.h"

enum { SCREEN_SIZES = 4 };
extern const struct screen_size { // the body of 40x10, 80x24, 100x30 and 200x60
    int rows, cols;
} screen_sizes[SCREEN_SIZES];

int screen_setup(void **state); // a test's set-up: *state is a zeroed struct app

char *screen_text(const struct screen *s, struct app *app, int rows, int cols,
                  bool utf8); // to free
// Fails when `want` is on the screen and should not be, or the other way round.
void screen_expect(const struct screen *s, struct app *app, int rows, int cols, bool utf8,
                   const char *want, bool there);

#endif
