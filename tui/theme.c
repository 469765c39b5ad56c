#include "tui/theme.h"

// Hues of Okabe and Ito, nearest in the 256 palette; better is blue and worse is orange, never
// green and red. In 16 colours there is no bright black: dim text keeps the normal weight there.
static const struct style styles[ROLE_COUNT] = {
    [ROLE_TEXT] = {-1, -1, 0, 0},
    [ROLE_DIM] = {245, -1, 0, 0},
    [ROLE_TITLE] = {-1, -1, STYLE_BOLD, STYLE_BOLD},
    [ROLE_KEY] = {74, 6, STYLE_BOLD, STYLE_BOLD},
    [ROLE_CURSOR] = {-1, -1, STYLE_REVERSE, STYLE_REVERSE},
    [ROLE_SELECTED] = {214, 3, 0, STYLE_UNDERLINE},
    [ROLE_BAR] = {32, 6, 0, 0},
    [ROLE_BAR_MARKED] = {214, 3, 0, STYLE_BOLD},
    [ROLE_BAR_CURSOR] = {-1, -1, STYLE_BOLD, STYLE_BOLD},
    [ROLE_BAR_GHOST] = {245, -1, 0, 0},
    [ROLE_CURVE_A] = {32, 6, 0, 0},
    [ROLE_CURVE_B] = {214, 3, 0, 0},
    [ROLE_CURVE_C] = {36, 2, 0, 0},
    [ROLE_BETTER] = {74, 6, 0, 0},
    [ROLE_WORSE] = {214, 3, 0, 0},
    [ROLE_WARN] = {214, 3, STYLE_BOLD, STYLE_BOLD},
    [ROLE_ERROR] = {166, 1, STYLE_BOLD, STYLE_BOLD},
    [ROLE_HEAT_1] = {25, 4, 0, 0},
    [ROLE_HEAT_2] = {32, 6, 0, 0},
    [ROLE_HEAT_3] = {178, 3, 0, 0},
    [ROLE_HEAT_4] = {220, 3, STYLE_BOLD, 0},
};

const struct style *theme_style(enum role role)
{
    return &styles[role < ROLE_COUNT ? role : ROLE_TEXT];
}
