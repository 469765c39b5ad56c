// Drawing a lane with a pointer: freehand or a straight line, one edit from press to release.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/gen.h"
#include "tui/design_state.h"

static bool set_one(struct design *d, int layer, double v, char *reason)
{
    if (d->locked[layer]) {
        snprintf(reason, DESIGN_WHY, "layer %d is locked (L unlocks)", layer);
        return false;
    }
    return gen_set(&d->spec.model, d->lane, layer, v, reason, DESIGN_WHY);
}

bool design_set_layers(struct design *d, int first, int n, const double *v, const bool *mine,
                       char *why)
{
    struct spec *before = xmalloc(sizeof *before);
    char reason[DESIGN_WHY];
    int moved = 0;

    *before = d->spec;
    why[0] = 0;
    for (int i = 0; i < n; i++) {
        reason[0] = 0;
        if (!isnan(v[i]) && set_one(d, first + i, v[i], reason))
            moved++;
        if (reason[0] && !why[0])
            snprintf(why, DESIGN_WHY, "%s", reason);
    }
    if (moved > 0 && !design_make_up(d, mine, why))
        moved = 0;
    if (moved == 0)
        d->spec = *before;
    design_recount(d);
    free(before);
    return moved > 0;
}

void design_pen_down(struct design *d, int layer, double value, int top, bool straight)
{
    design_preview_end(d);
    d->pen = (struct design_pen){
        .down = true,
        .straight = straight,
        .layer = layer,
        .value = value,
        .top = top,
        .total = d->count.total,
    };
}

// Forgets what the line touched before: it ends somewhere else now.
static void lift_line(struct design *d)
{
    memset(d->pen.mine, 0, sizeof d->pen.mine);
    d->spec = d->undo[d->at]->spec;
    design_hold_here(d);
}

bool design_pen_move(struct design *d, int layer, double value, char *why)
{
    struct design_pen *p = &d->pen;
    int first = layer < p->layer ? layer : p->layer, n = abs(layer - p->layer) + 1;
    double v[SPEC_MAX_LAYERS];
    bool done;

    if (p->straight)
        lift_line(d);
    for (int i = 0; i < n; i++) {
        double share = n == 1 ? 1 : (double)(first + i - p->layer) / (layer - p->layer);

        v[i] = p->value + share * (value - p->value);
        p->mine[first + i] = true;
    }
    if (!p->straight && n > 1) // that one was set when the pen came there
        v[p->layer - first] = NAN;
    done = design_set_layers(d, first, n, v, p->mine, why);
    if (!p->straight) {
        p->layer = layer;
        p->value = value;
    }
    return done;
}

bool design_pen_up(struct design *d)
{
    struct design_pen *p = &d->pen;
    int first = -1, last = -1, at = d->at;
    char what[DESIGN_WHAT];

    if (!p->down)
        return false;
    p->down = false;
    for (int i = 0; i < d->spec.model.n_layers; i++)
        if (p->mine[i]) {
            first = first < 0 ? i : first;
            last = i;
        }
    if (first == last)
        snprintf(what, sizeof what, "%s of layer %d", lane_name(d->lane), first);
    else
        snprintf(what, sizeof what, "draw %s of layers %d-%d", lane_name(d->lane), first, last);
    design_finish_edit(d, what);
    return d->at != at;
}

void design_pen_cancel(struct design *d)
{
    if (!d->pen.down)
        return;
    d->pen.down = false;
    design_back(d);
    design_hold_here(d);
}
