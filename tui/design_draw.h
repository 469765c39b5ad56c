// What the Design screen looks like: a layout, which is a pure function of size and layer count,
// and the drawing of a design into it. UI thread only.
#ifndef TUI_DESIGN_DRAW_H
#define TUI_DESIGN_DRAW_H

#include "tui/canvas.h"
#include "tui/design.h"

// Rows relative to the body, -1 = there is no room for it.
struct design_layout {
    int totals, totals_rows; // first row of the totals, and how many
    int budget;              // the budget line
    int note;                // lane, step, shape, selection
    struct rect ffn, heads;  // bars; heads.rows 0 = one pane for the lane in hand
    int axis;                // layer numbers
    int value[LANE_COUNT];   // rows of numbers; LANE_FFN has none
    int bracket;             // the selection and the locks, below their layers
    int detail;              // the cursor's layer in one line
    struct rect panel;       // the cursor's layer in full, cols 0 = none
    struct rect table;       // all layers, cols 0 = none
    int layer_cols, gap;     // a layer takes layer_cols columns of bar and gap blanks
    int visible;             // layers that fit
};

struct design_layout design_layout(int rows, int cols, int n_layers);

// hint: what stands in place of the lane line while something is typed, NULL = nothing.
void design_draw(const struct design *d, const char *hint, struct canvas *c,
                 const struct rect *body);

#endif
