#include "tui/design_mouse.h"

#include <stdio.h>

#include "engine/buf.h"
#include "tui/design.h"
#include "tui/design_draw.h"

static void say_value(struct app *app, bool done, int layer, const char *why)
{
    const struct design *d = app->design;

    if (why[0])
        app_message(app, ROLE_WARN, "%s", why);
    else if (done)
        app_message(app, ROLE_DIM, "%s of layer %d: %d", lane_name(d->lane), layer,
                    d->spec.model.lane[d->lane][layer]);
}

static void draw_to(struct app *app, const struct design_spot *spot)
{
    char why[DESIGN_WHY];
    bool done = design_pen_move(app->design, spot->layer, spot->value, why);

    say_value(app, done, spot->layer, why);
}

static void press(struct app *app, const struct mouse *m, const struct design_spot *spot)
{
    struct design *d = app->design;
    bool straight = m->shift || m->button == MOUSE_RIGHT;

    if (spot->kind == SPOT_NONE || m->button == MOUSE_MIDDLE)
        return;
    d->selecting = false;
    if (spot->kind != SPOT_AXIS)
        d->lane = spot->lane;
    if (spot->kind == SPOT_PANE) {
        design_pen_down(d, spot->layer, spot->value, spot->top, straight);
        draw_to(app, spot);
    } else {
        design_move(d, spot->layer);
        d->anchor = d->cursor;
    }
}

static void drag(struct app *app, const struct design_spot *spot)
{
    struct design *d = app->design;

    if (d->pen.down) {
        draw_to(app, spot);
    } else if (spot->kind == SPOT_AXIS || spot->kind == SPOT_VALUE) {
        d->selecting = d->selecting || spot->layer != d->cursor;
        design_move(d, spot->layer);
    }
}

static void release(struct app *app, const struct design_spot *spot)
{
    struct design *d = app->design;
    char number[UNIT_SIZE];
    double change;

    if (!d->pen.down)
        return;
    if (!spot->scrolls)
        design_move(d, spot->layer);
    if (!design_pen_up(d))
        return;
    change = (double)(d->count.total - d->pen.total);
    app_message(app, ROLE_DIM, "%s: %s%s parameters", d->undo[d->at]->what, change < 0 ? "-" : "+",
                unit_count(number, change < 0 ? -change : change));
}

static void wheel(struct app *app, const struct mouse *m, const struct design_spot *spot)
{
    struct design *d = app->design;
    char why[DESIGN_WHY];
    int cursor = d->cursor;
    bool done;

    if (spot->kind != SPOT_PANE && spot->kind != SPOT_VALUE)
        return;
    d->lane = spot->lane;
    d->selecting = false;
    design_move(d, spot->layer);
    done = design_step(d, m->wheel, why);
    if (spot->scrolls) // the layer stays below the wheel
        design_move(d, cursor);
    say_value(app, done, spot->layer, why);
}

void design_mouse(struct app *app, const struct mouse *m, const struct rect *body)
{
    struct design_spot spot = design_spot_at(app->design, body, m->row, m->col);

    switch (m->kind) {
    case MOUSE_PRESS:
        press(app, m, &spot);
        break;
    case MOUSE_DRAG:
        drag(app, &spot);
        break;
    case MOUSE_RELEASE:
        release(app, &spot);
        break;
    case MOUSE_WHEEL:
        wheel(app, m, &spot);
        break;
    }
}
