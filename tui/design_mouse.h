// The mouse on Design: drag draws, the right button (or Shift) lays a straight line, the wheel steps
// the layer below it, a press on a number or on the layers' row moves the cursor, a drag there
// selects. UI thread only.
#ifndef TUI_DESIGN_MOUSE_H
#define TUI_DESIGN_MOUSE_H

#include "tui/app.h"

void design_mouse(struct app *app, const struct mouse *m, const struct rect *body);

#endif
