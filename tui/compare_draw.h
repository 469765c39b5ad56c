// Designs beside each other as bars: all in one pane, or a pane each. UI thread only.
#ifndef TUI_COMPARE_DRAW_H
#define TUI_COMPARE_DRAW_H

#include "tui/canvas.h"
#include "tui/tabs.h"

// The lane of the one in hand as bars, the others as letters at their heights. Letters: 'a' is the
// first tab.
void compare_overlay(const struct tabs *t, enum lane lane, int cursor, struct canvas *c,
                     const struct rect *r);
// A pane for each on one scale.
void compare_beside(const struct tabs *t, enum lane lane, int cursor, struct canvas *c,
                    const struct rect *r);
int compare_layers(const struct tabs *t);              // of the deepest
int compare_top(const struct tabs *t, enum lane lane); // the value at the top of all bars

#endif
