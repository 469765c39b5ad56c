// Line plots drawn into a canvas: braille dots (2x4 per cell) or ASCII. A column shows the whole
// range of its points as a vertical stroke and their mean as the line, so a spike is never lost,
// however many points there are. The x axis is fixed by the caller (to the planned end of a run),
// so a growing curve changes a few cells only. UI thread only.
#ifndef TUI_PLOT_H
#define TUI_PLOT_H

#include "tui/canvas.h"
#include "tui/pyramid.h"
#include "tui/ticks.h"

enum plot_style {
    PLOT_LINE,  // means joined by a line over strokes from minimum to maximum
    PLOT_MARKS, // one letter per point: few points that were measured apart (evaluations); a line
                // too where they stand so close that letters would hide everything else
};

enum plot_scale {
    PLOT_AS_IS, // y * factor
    PLOT_EXP,   // exp(y * factor): perplexity of a loss
};

struct plot_series {
    const double *x, *y; // x ascending; NaN and inf in y are marked '!' at the top
    int64_t n;
    const struct pyramid *pyramid; // of y, NULL: the points are walked
    enum plot_style style;
    enum plot_scale scale;
    double factor; // 0 = 1
    char letter;   // second sign beside the colour: at the line's end, and the mark
    enum role role;
};

struct plot {
    const struct plot_series *series; // later ones are drawn on top
    int n_series;
    int n_raw;    // of these, the first ones that are as logged; for the caller's own use
    double whole; // the end of the whole axis after x_origin, likewise
    double x_origin;       // subtracted from every x (a start time); the labels count from there
    double x_min, x_max;   // after that
    enum tick_kind x_kind; // TICKS_LINEAR or TICKS_TIME
    bool log_y;            // falls back to linear when a value is not positive
    double fit_from;       // the y axis fits the points from this x on (after x_origin); what lies
                           // above or below it as a whole is left out. 0 = everything
    bool from_zero;  // a linear y axis starts at 0: a speed, where small changes should look small
    bool no_axes;    // the curve alone
    int label_width; // columns left of the axis, 0 = by the width of r
};

struct plot_info { // what was drawn
    double y_min, y_max;
    bool log_y, empty;
    struct rect area; // the cells of the curve, on the canvas
};

// Works from 10x3 cells up, below without axes. info may be NULL.
void plot_draw(const struct plot *p, struct canvas *c, const struct rect *r,
               struct plot_info *info);

double plot_value(const struct plot_series *s, double y); // as scaled for drawing

#endif
