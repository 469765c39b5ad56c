// Colour roles. Screens name what a cell means; term.c turns the role into colours of the level the
// terminal has (256, 16, mono). Every colour has a second sign (letter, texture, word), so nothing
// is lost without it.
#ifndef TUI_THEME_H
#define TUI_THEME_H

enum role {
    ROLE_TEXT,
    ROLE_DIM,        // secondary text, axes
    ROLE_TITLE,      // names, active tab
    ROLE_KEY,        // a key in the bottom bar
    ROLE_CURSOR,     // the focused cell or row (reverse)
    ROLE_SELECTED,   // inside the selection
    ROLE_BAR,        // bars of the drawing
    ROLE_BAR_MARKED, // bars inside the selection
    ROLE_BAR_CURSOR, // the bar of the cursor's layer
    ROLE_BAR_GHOST,  // reference or preview
    ROLE_CURVE_A,
    ROLE_CURVE_B,
    ROLE_CURVE_C,
    ROLE_BETTER,
    ROLE_WORSE, // blue, orange
    ROLE_WARN,
    ROLE_ERROR,
    ROLE_HEAT_1, // shades of heat.h, from little to much; their glyphs differ too
    ROLE_HEAT_2,
    ROLE_HEAT_3,
    ROLE_HEAT_4,
    ROLE_COUNT
};

enum color_level { COLOR_NEVER, COLOR_16, COLOR_256 };

// For the terminal layer: 256-palette and 16-palette foreground (-1 = default) and attributes.
enum { STYLE_BOLD = 1, STYLE_REVERSE = 2, STYLE_DIM = 4, STYLE_UNDERLINE = 8 };
struct style {
    short fg256, fg16;
    unsigned char attrs;      // with colour
    unsigned char mono_attrs; // without
};
const struct style *theme_style(enum role role);

#endif
