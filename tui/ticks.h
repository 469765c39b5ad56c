// Round numbers for axes: where the ticks of an axis of a given length stand and what is written
// there. Pure functions; any thread.
#ifndef TUI_TICKS_H
#define TUI_TICKS_H

#include <stdbool.h>

enum { TICKS_MAX = 24, TICK_TEXT = 16 };

enum tick_kind {
    TICKS_LINEAR,
    TICKS_LOG,  // lo > 0
    TICKS_TIME, // seconds; labels 30s, 5m, 2h, 3d
};

struct tick {
    double value;
    int at; // cell on the axis, 0 = where lo is
    char text[TICK_TEXT];
};

// Position of v on an axis from lo to hi as a fraction, not clamped.
double tick_fraction(enum tick_kind kind, double lo, double hi, double v);

// The axis length is `cells`; labels are at most `width` columns wide. Along a vertical axis
// (horizontal = false) labels are one cell high and stand at least `gap` cells apart; along a
// horizontal one there are at least `gap` free cells between the texts, which start at `at`.
// Chooses the densest set of round numbers that fits. Returns how many, ascending; may be 0.
int ticks_make(enum tick_kind kind, double lo, double hi, int cells, bool horizontal, int gap,
               int width, struct tick *out);

// Widens lo..hi outwards to round numbers of about a tenth of the range, so that an axis fitted
// to growing data moves rarely. Handles lo == hi; for TICKS_LOG both must be positive.
void ticks_snap(enum tick_kind kind, double *lo, double *hi);

// A number in at most `width` columns, precise to about `step`: 2.25, 120k, 1e-5.
void tick_number(char *out, int width, double v, double step);

#endif
