#include "tui/columns.h"

#include <stddef.h>
#include <stdio.h>

#include "engine/buf.h"
#include "engine/err.h"

struct columns columns_fit(int available, int n_layers)
{
    static const struct columns sizes[] = {{7, 1, 0}, {5, 1, 0}, {3, 1, 0},
                                           {2, 1, 0}, {2, 0, 0}, {1, 0, 0}};
    struct columns c;
    size_t i = 0;

    while (i + 1 < sizeof sizes / sizeof *sizes &&
           (sizes[i].bar + sizes[i].gap) * n_layers > available)
        i++;
    c = sizes[i];
    c.visible = available / (c.bar + c.gap);
    c.visible = c.visible > n_layers ? n_layers : c.visible;
    c.visible = c.visible < 1 ? 1 : c.visible;
    return c;
}

int columns_top(int v)
{
    int power = 4;

    if (v <= 4)
        return v > 0 ? v : 1;
    while (power * 2 <= v)
        power *= 2;
    for (int quarters = 4; quarters <= 8; quarters++)
        if (power / 4 * quarters >= v)
            return power / 4 * quarters;
    BUG("no scale for %d", v);
}

void columns_scale(int v, char *out)
{
    char text[UNIT_SIZE];

    if (v < 1000000)
        snprintf(out, 16, "%5d", v);
    else
        snprintf(out, 16, "%5.6s", unit_count(text, v));
}
