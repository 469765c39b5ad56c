#include "tui/heat.h"

#include <math.h>

// Shades that every terminal font has; in ASCII by how much of a cell they ink.
static const uint32_t shades[HEAT_LEVELS] = {0xb7, 0x2591, 0x2592, 0x2593, 0x2588};
static const char ascii[HEAT_LEVELS] = {'.', ':', '+', '#', '@'};
static const enum role roles[HEAT_LEVELS] = {ROLE_DIM, ROLE_HEAT_1, ROLE_HEAT_2, ROLE_HEAT_3,
                                             ROLE_HEAT_4};

int heat_level(const struct heat *h, double v)
{
    double share = h->hi > h->lo ? (v - h->lo) / (h->hi - h->lo) : v > h->lo;

    if (isnan(v))
        return -1;
    if (share <= 0)
        return 0;
    return share >= 1 ? HEAT_LEVELS - 1 : 1 + (int)(share * (HEAT_LEVELS - 1));
}

enum role heat_role(int level)
{
    return level < 0 ? ROLE_DIM : roles[level];
}

static void put_level(struct canvas *c, const struct rect *r, int row, int col, int level)
{
    uint32_t glyph = level < 0 ? '?' : c->utf8 ? shades[level] : (unsigned char)ascii[level];

    canvas_put(c, r, row, col, heat_role(level), glyph);
}

void heat_put(struct canvas *c, const struct rect *r, int row, int col, int width,
              const struct heat *h, double v)
{
    for (int i = 0; i < width; i++)
        put_level(c, r, row, col + i, heat_level(h, v));
}

int heat_legend(struct canvas *c, const struct rect *r, int row, int col, const char *lo,
                const char *hi)
{
    int at = col + canvas_text(c, r, row, col, ROLE_DIM, lo) + 1;

    for (int level = 0; level < HEAT_LEVELS; level++)
        put_level(c, r, row, at++, level);
    return at + 1 + canvas_text(c, r, row, at + 1, ROLE_DIM, hi) - col;
}
