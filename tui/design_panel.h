// The numbers of the Design screen: totals with their difference to the reference, the cursor's
// layer, the table of all layers. UI thread only.
#ifndef TUI_DESIGN_PANEL_H
#define TUI_DESIGN_PANEL_H

#include "tui/canvas.h"
#include "tui/design.h"

void panel_totals(const struct design *d, struct canvas *c, const struct rect *r);
// Target, how far it is filled, Δ% to it and to the reference, and whether it is held.
void panel_budget(const struct design *d, struct canvas *c, const struct rect *r);
void panel_line(const struct design *d, struct canvas *c, const struct rect *r);  // one line
void panel_layer(const struct design *d, struct canvas *c, const struct rect *r); // a column
void panel_table(const struct design *d, struct canvas *c, const struct rect *r);

#endif
