// Numbers as shades: one cell or several side by side per value, and the scale that explains them.
// The glyph alone tells the level, colour only helps. UI thread only.
#ifndef TUI_HEAT_H
#define TUI_HEAT_H

#include "tui/canvas.h"

// Values from lo (lightest) to hi (darkest); what lies outside takes the end's shade.
struct heat {
    double lo, hi;
};

// 0 to HEAT_LEVELS-1, -1 for NaN. Only lo itself (or less) is level 0.
enum { HEAT_LEVELS = 5 };
int heat_level(const struct heat *h, double v);
void heat_put(struct canvas *c, const struct rect *r, int row, int col, int width,
              const struct heat *h, double v);
enum role heat_role(int level);
// "lo ·░▒▓█ hi"; returns the columns used.
int heat_legend(struct canvas *c, const struct rect *r, int row, int col, const char *lo,
                const char *hi);

#endif
