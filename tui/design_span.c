// Edits of a span of layers as a whole: reversing, copying, drawing with digits.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "tui/design_state.h"

static double value(const struct design *d, int layer)
{
    return d->spec.model.lane[d->lane][layer];
}

// Sets them as one edit; with preview they are only shown.
static bool edit(struct design *d, int first, int n, const double *v, bool preview,
                 const char *what, char *why)
{
    bool mine[SPEC_MAX_LAYERS] = {false};
    int at = d->at;

    for (int i = 0; i < n; i++)
        mine[first + i] = !isnan(v[i]);
    if (!design_set_layers(d, first, n, v, mine, why)) {
        if (!why[0])
            snprintf(why, DESIGN_WHY, "nothing to change");
        return false;
    }
    d->previewing = preview;
    if (preview)
        return true;
    design_finish_edit(d, what);
    if (d->at == at && !why[0])
        snprintf(why, DESIGN_WHY, "it is so already");
    return d->at != at;
}

// ---- spans --------------------------------------------------------------------------------------

static double moved(const struct design *d, enum span_op op, int first, int last, int layer)
{
    int other = first + last - layer;
    double share = last > first ? (double)(layer - first) / (last - first) : 0;

    switch (op) {
    case SPAN_REVERSE:
        return value(d, other);
    case SPAN_MIRROR:
        return value(d, layer < other ? layer : other);
    case SPAN_RAMP:
        return value(d, first) + share * (value(d, last) - value(d, first));
    case SPAN_SMOOTH:
        if (layer == first || layer == last)
            return value(d, layer);
        return (value(d, layer - 1) + 2 * value(d, layer) + value(d, layer + 1)) / 4;
    }
    BUG("span %d", (int)op);
}

bool design_span(struct design *d, enum span_op op, char *why)
{
    static const char *const names[] = {"reverse", "mirror", "straight line in", "smooth"};
    char what[DESIGN_WHAT];
    double v[SPEC_MAX_LAYERS];
    int first, last;

    design_range(d, &first, &last);
    if (first == last) {
        first = 0;
        last = d->spec.model.n_layers - 1;
    }
    for (int i = first; i <= last; i++)
        v[i - first] = moved(d, op, first, last, i);
    snprintf(what, sizeof what, "%s %s of layers %d-%d", names[op], lane_name(d->lane), first, last);
    return edit(d, first, last - first + 1, v, false, what, why);
}

// ---- copies -------------------------------------------------------------------------------------

void design_copy(const struct design *d, struct design_copy *out)
{
    int first, last;

    design_range(d, &first, &last);
    *out = (struct design_copy){.lane = d->lane, .n = last - first + 1};
    for (int i = first; i <= last; i++)
        out->v[i - first] = value(d, i);
}

// The copy at a share of its length, between its values on a line.
static double stretched(const struct design_copy *c, int i, int n)
{
    double at = n > 1 ? (double)i * (c->n - 1) / (n - 1) : 0;
    int below = (int)at;
    double share = at - below;

    return share == 0 ? c->v[below] : (1 - share) * c->v[below] + share * c->v[below + 1];
}

static void say_rounded(const struct design *d, int first, int n, const double *v, char *why)
{
    int moved = 0;

    for (int i = 0; i < n; i++)
        moved += !d->locked[first + i] && value(d, first + i) != v[i];
    if (moved > 0)
        snprintf(why, DESIGN_WHY, "%d value%s went to the nearest legal one", moved,
                 moved == 1 ? "" : "s");
}

bool design_paste(struct design *d, const struct design_copy *c, char *why)
{
    int first, last, n, room;
    char what[DESIGN_WHAT];
    double v[SPEC_MAX_LAYERS];

    why[0] = 0;
    if (c->n == 0 || c->lane != d->lane) {
        if (c->n == 0)
            snprintf(why, DESIGN_WHY, "nothing was copied; y copies the range");
        else
            snprintf(why, DESIGN_WHY, "what was copied is %s, this lane is %s",
                     lane_name(c->lane), lane_name(d->lane));
        return false;
    }
    design_range(d, &first, &last);
    room = d->spec.model.n_layers - first;
    n = d->selecting ? last - first + 1 : c->n < room ? c->n : room;
    for (int i = 0; i < n; i++)
        v[i] = d->selecting ? stretched(c, i, n) : c->v[i];
    snprintf(what, sizeof what, "paste %s into layers %d-%d", lane_name(d->lane), first,
             first + n - 1);
    if (!edit(d, first, n, v, false, what, why))
        return false;
    if (!why[0] && !d->selecting)
        say_rounded(d, first, n, v, why);
    if (!why[0] && n < c->n && !d->selecting)
        snprintf(why, DESIGN_WHY, "the last %d of %d values had no layer", c->n - n, c->n);
    return true;
}

bool design_copy_parse(const struct design *d, const char *text, struct design_copy *out)
{
    static const char *const keys[LANE_COUNT] = {"ffn_width", "n_heads", "n_kv_heads", "reuse"};
    const char *blanks = " \t\r\n,;[]";

    *out = (struct design_copy){.lane = d->lane};
    text += strspn(text, blanks);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        size_t len = strlen(keys[lane]);

        if (!strncmp(text, keys[lane], len) && text[len] == ':') {
            out->lane = (enum lane)lane;
            text += len + 1;
            break;
        }
    }
    while (*(text += strspn(text, blanks))) {
        size_t len = strcspn(text, blanks);
        char number[32];

        snprintf(number, sizeof number, "%.*s", len < sizeof number ? (int)len : 0, text);
        if (out->n == SPEC_MAX_LAYERS || !unit_parse_float(number, &out->v[out->n]))
            return false;
        out->n++;
        text += len;
    }
    return out->n > 0;
}

// ---- digits -------------------------------------------------------------------------------------

static bool digits(struct design *d, const char *text, int top, bool preview, char *why)
{
    int first, last, n = (int)strlen(text), most;
    double v[SPEC_MAX_LAYERS];
    char what[DESIGN_WHAT];

    design_preview_end(d);
    design_range(d, &first, &last);
    most = d->spec.model.n_layers - first;
    if (n < 1 || n > most || strspn(text, "0123456789. ") != (size_t)n) {
        snprintf(why, DESIGN_WHY, "expected 1 to %d digits, or . where a layer stays", most);
        return false;
    }
    for (int i = 0; i < n; i++)
        v[i] = text[i] >= '1' && text[i] <= '9' ? top * (text[i] - '0') / 10.0
               : text[i] == '0'                 ? 1 // the least; 0 would take the part away
                                                : NAN;
    snprintf(what, sizeof what, "%s of layers %d-%d: %.24s", lane_name(d->lane), first,
             first + n - 1, text);
    return edit(d, first, n, v, preview, what, why);
}

bool design_digits(struct design *d, const char *text, int top, char *why)
{
    return digits(d, text, top, false, why);
}

bool design_preview_digits(struct design *d, const char *text, int top, char *why)
{
    return digits(d, text, top, true, why);
}
