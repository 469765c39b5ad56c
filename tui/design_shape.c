// The shape a lane has, and shapes as text.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/gen.h"
#include "tui/design.h"

static const char *const shape_names[] = {
    [SHAPE_LIST] = "list",       [SHAPE_NUMBER] = "number", [SHAPE_UNIFORM] = "uniform",
    [SHAPE_VANILLA] = "vanilla", [SHAPE_FRAMED] = "framed", [SHAPE_REVERSE] = "reverse",
    [SHAPE_CROWN] = "crown",
};

// ---- the shape that a lane has or had ------------------------------------------------------------

static double multiple(const struct model_spec *m, enum lane lane, int layer)
{
    double unit = lane == LANE_HEADS ? m->head_dim : 1;
    double v = rint(100 * m->lane[lane][layer] * unit / m->d_model) / 100;

    return v > 0.01 ? v : 0.01;
}

// The simplest shape through the first, the middle and the last layer.
static void fit_shape(const struct model_spec *m, enum lane lane, struct lane_source *out)
{
    int last = m->n_layers - 1;
    double a = multiple(m, lane, 0), b = multiple(m, lane, last / 2), c = multiple(m, lane, last);

    *out = (struct lane_source){.shape = SHAPE_CROWN, .points = {a, b, c}};
    if (a == b && b == c)
        *out = (struct lane_source){.shape = SHAPE_UNIFORM, .points = {a}};
    else if ((a <= b && b <= c) || (a >= b && b >= c))
        *out = (struct lane_source){.shape = SHAPE_VANILLA, .points = {a, c}};
    out->n_points = gen_points(out->shape);
}

void design_shape(const struct design *d, struct lane_source *out)
{
    for (int i = d->at; i >= 0; i--)
        if (d->undo[i]->spec.model.source[d->lane].shape >= SHAPE_UNIFORM) {
            *out = d->undo[i]->spec.model.source[d->lane];
            return;
        }
    fit_shape(&d->spec.model, d->lane, out);
}

// ---- shapes as text -----------------------------------------------------------------------------

static bool known_shape(const char *word, size_t len, enum shape *shape)
{
    for (int i = SHAPE_UNIFORM; i <= SHAPE_CROWN && len > 0; i++)
        if (!strncmp(shape_names[i], word, len) && strlen(shape_names[i]) >= len) {
            *shape = (enum shape)i; // a prefix is enough
            return true;
        }
    return false;
}

bool shape_parse(const char *text, struct lane_source *source, char *why)
{
    const char *separators = " ,;[]:\t";
    size_t len;

    memset(source, 0, sizeof *source);
    text += strspn(text, separators);
    len = strcspn(text, separators);
    if (!known_shape(text, len, &source->shape)) {
        snprintf(why, DESIGN_WHY,
                 "'%.*s' is no shape, expected uniform, vanilla, framed, reverse or crown",
                 len > 40 ? 40 : (int)len, text);
        return false;
    }
    for (text += len; *(text += strspn(text, separators)); text += len) {
        char number[64];

        len = strcspn(text, separators);
        snprintf(number, sizeof number, "%.*s", len > 60 ? 60 : (int)len, text);
        if (source->n_points >= SPEC_POINTS ||
            !unit_parse_float(number, &source->points[source->n_points])) {
            snprintf(why, DESIGN_WHY, "'%s' is one number too many or none", number);
            return false;
        }
        source->n_points++;
    }
    if (source->n_points == gen_points(source->shape))
        return true;
    snprintf(why, DESIGN_WHY, "%s takes %d multiplier%s", shape_names[source->shape],
             gen_points(source->shape), gen_points(source->shape) == 1 ? "" : "s");
    return false;
}

char *shape_format(const struct lane_source *source, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "%s", shape_names[source->shape]);

    for (int i = 0; i < source->n_points && source->shape >= SHAPE_UNIFORM && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, " %g", source->points[i]);
    return out;
}
