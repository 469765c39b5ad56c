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
    int here;                // the cost on this machine
    int note;                // lane, step, shape, selection
    struct rect ffn, heads;  // bars; heads.rows 0 = one pane for the lane in hand
    int axis;                // layer numbers
    int value[LANE_COUNT];   // rows of numbers; LANE_FFN has none
    int gate;                // which layers have one
    int bracket;             // the selection and the locks, below their layers
    int detail;              // the cursor's layer in one line
    struct rect panel;       // the cursor's layer in full, cols 0 = none
    struct rect table;       // all layers, cols 0 = none
    int layer_cols, gap;     // a layer takes layer_cols columns of bar and gap blanks
    int visible;             // layers that fit
};

struct design_layout design_layout(int rows, int cols, int n_layers);

// What lies at a place of the body.
struct design_spot {
    enum { SPOT_NONE, SPOT_PANE, SPOT_VALUE, SPOT_AXIS } kind;
    enum lane lane; // of a pane or a row of values
    int layer;      // the nearest one that is shown
    double value;   // that a bar to this height has, in a pane; above 0
    int top;        // the pane's scale
    bool scrolls;   // not all layers are shown: another cursor would move them
};

// While the pen is down the pane is the pen's wherever the pointer is.
struct design_spot design_spot_at(const struct design *d, const struct rect *body, int row, int col);

int design_scale(const struct design *d, enum lane lane); // the value at the top of its bars

// hint: what stands in place of the lane line while something is typed, NULL = nothing. here: what
// training costs on this machine, NULL = no such line.
void design_draw(const struct design *d, const char *hint, const char *here, struct canvas *c,
                 const struct rect *body);

#endif
