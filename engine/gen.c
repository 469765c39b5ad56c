#include "engine/gen.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

static const struct spec_key *lane_key(enum lane lane)
{
    for (int i = 0; i < spec_key_count; i++)
        if (spec_keys[i].type == KEY_LANE && spec_keys[i].size == (size_t)lane)
            return &spec_keys[i];
    BUG("lane %d", (int)lane);
}

static int lane_max(enum lane lane)
{
    return (int)lane_key(lane)->max;
}

int gen_mkdiv(double v, int m)
{
    double t;

    BUG_IF(m < 1);
    if (!(v >= m))
        return m;
    if (v > INT_MAX - 2.0 * m)
        return INT_MAX / m * m;
    t = floor((v + m / 2.0) / m) * m;
    return (int)(t <= 0.9 * v ? t + m : t);
}

int gen_points(enum shape shape)
{
    switch (shape) {
    case SHAPE_LIST:
    case SHAPE_NUMBER:
        return 0;
    case SHAPE_UNIFORM:
        return 1;
    case SHAPE_VANILLA:
    case SHAPE_FRAMED:
    case SHAPE_REVERSE:
        return 2;
    case SHAPE_CROWN:
        return 3;
    }
    BUG("shape %d", (int)shape);
}

// ---- multipliers --------------------------------------------------------------------------------

static double interpolate(double a, double b, int i, int n)
{
    return n > 0 ? a + (b - a) * i / n : a;
}

static double crown(const double *p, int i, int n)
{
    int left = n % 2 ? (n - 1) / 2 : n / 2 - 1; // last layer of the rising part
    int right = n % 2 ? left : n / 2;           // first layer of the falling part
    double end = n % 2 ? p[2] : p[0];

    if (i == 0)
        return p[0];
    if (i == n - 1)
        return end;
    if (i <= left)
        return interpolate(p[0], p[1], i, left);
    return interpolate(p[1], end, i - right, n - 1 - right);
}

static double multiplier(const struct lane_source *src, int i, int n)
{
    const double *p = src->points;

    switch (gen_points(src->shape)) {
    case 1:
        return p[0];
    case 2: // rounded as numpy does: scale, nearest even, scale back
        return rint(interpolate(p[0], p[1], i, n - 1) * 100) / 100;
    case 3:
        return crown(p, i, n);
    }
    BUG("a list has no multipliers");
}

static double frame_of(const struct lane_source *src, const struct frame *frame, double literal,
                       int n, const double *profile)
{
    int last = gen_points(src->shape) - 1;
    double most = profile[0];

    if (frame->mode == FRAME_LITERAL)
        return literal;
    if (frame->mode == FRAME_ENDPOINT_MAX)
        return fmax(src->points[0], src->points[last]);
    for (int i = 1; i < n; i++)
        most = fmax(most, profile[i]);
    return most;
}

void gen_multipliers(const struct lane_source *src, const struct frame *frame, double frame_value,
                     int n, double *out)
{
    BUG_IF(n < 1);
    for (int i = 0; i < n; i++)
        out[i] = multiplier(src, i, n);
    if (frame->mode != FRAME_NONE)
        out[0] = out[n - 1] = frame_of(src, frame, frame_value, n, out);
}

// ---- from multipliers to lanes ------------------------------------------------------------------

// Widths of one lane in units of `unit` elements, each a multiple of step units.
static int apply_multipliers(struct model_spec *m, enum lane lane, int unit, int step,
                             struct err *err)
{
    const char *what = lane == LANE_FFN ? "ffn_width" : "n_heads";
    int max = lane_max(lane);
    const struct lane_source *src = &m->source[lane];
    double value = lane == LANE_FFN ? m->frame.ffn : m->frame.heads;
    double mult[SPEC_MAX_LAYERS];

    if (m->d_model < 1 || unit < 1 || step < 1 || step > INT_MAX / unit)
        return err_set(err, "d_model %d, head_dim %d, ffn_step %d or head_step %d is out of range",
                       m->d_model, m->head_dim, m->ffn_step, m->head_step);
    if (src->n_points != gen_points(src->shape))
        return err_set(err, "the generator of %s has %d points and needs %d", what, src->n_points,
                       gen_points(src->shape));
    gen_multipliers(src, &m->frame, value, m->n_layers, mult);
    for (int i = 0; i < m->n_layers; i++) {
        if (!(mult[i] > 0 && mult[i] * m->d_model <= (double)max * unit))
            return err_set(err,
                           "multiplier %g of %s in layer %d is out of range, expected more than 0 "
                           "and at most %g",
                           mult[i], what, i, (double)max * unit / m->d_model);
        m->lane[lane][i] = gen_mkdiv(mult[i] * m->d_model, step * unit) / unit;
    }
    return 0;
}

static int apply_kv_ratio(struct model_spec *m, struct err *err)
{
    int ratio = m->source[LANE_KV].kv_ratio;

    if (ratio == 0)
        return 0;
    for (int i = 0; i < m->n_layers; i++) {
        int heads = m->lane[LANE_HEADS][i];

        if (ratio < 0 || heads % ratio)
            return err_set(err,
                           "ratio %d does not divide the %d query heads of layer %d, expected a "
                           "divisor (head_step is %d)",
                           ratio, heads, i, m->head_step);
        m->lane[LANE_KV][i] = heads / ratio;
    }
    return 0;
}

static int apply(struct model_spec *m, enum lane lane, struct err *err)
{
    bool generated = gen_points(m->source[lane].shape) > 0;

    if (m->n_layers < 1 || m->n_layers > SPEC_MAX_LAYERS)
        return err_set(err, "n_layers %d is out of range, expected 1 to %d", m->n_layers,
                       SPEC_MAX_LAYERS);
    if (generated && (lane == LANE_KV || lane == LANE_REUSE))
        return err_set(err, "%s takes a number%s or a list, not a shape",
                       lane == LANE_KV ? "n_kv_heads" : "reuse",
                       lane == LANE_KV ? ", {ratio: R}" : "");
    if (generated && lane == LANE_FFN)
        return apply_multipliers(m, lane, 1, m->ffn_step, err);
    if (generated && apply_multipliers(m, lane, m->head_dim, m->head_step, err) < 0)
        return -1;
    return lane == LANE_HEADS || lane == LANE_KV ? apply_kv_ratio(m, err) : 0;
}

int gen_apply(struct model_spec *m, enum lane lane, struct err *err)
{
    struct model_spec before = *m;

    if (apply(m, lane, err) == 0)
        return 0;
    *m = before;
    return -1;
}

// ---- moving one layer ---------------------------------------------------------------------------

// The legal values of one layer's lane: multiples of unit up to max, or divisors of `divides`.
struct grid {
    int unit, max;
    int divides; // 0 = any multiple of unit
};

static int gcd(int a, int b)
{
    while (b) {
        int r = a % b;

        a = b;
        b = r;
    }
    return a;
}

static int lcm(int a, int b)
{
    int64_t l = (int64_t)a / gcd(a, b) * b;

    return l > INT_MAX ? INT_MAX : (int)l;
}

// Query heads per kv head when all layers agree; where none has attention, what the profile says.
static int shared_ratio(const struct model_spec *m)
{
    int ratio = spec_kv_ratio(m);

    for (int i = 0; i < m->n_layers && !ratio; i++)
        if (spec_has_attention(m, i))
            return 0;
    return ratio ? ratio : m->source[LANE_KV].kv_ratio;
}

static bool is_absent(const struct model_spec *m, enum lane lane, int layer)
{
    return lane == LANE_FFN ? !spec_has_ffn(m, layer)
                            : lane != LANE_REUSE && !spec_has_attention(m, layer);
}

static struct grid grid_of(const struct model_spec *m, enum lane lane, int layer)
{
    int ratio = shared_ratio(m), kv = m->lane[LANE_KV][layer];

    switch (lane) {
    case LANE_FFN:
        return (struct grid){m->ffn_step, lane_max(lane), 0};
    case LANE_HEADS:
        return (struct grid){lcm(m->head_step, ratio ? ratio : kv > 0 ? kv : 1), lane_max(lane), 0};
    case LANE_KV:
        return (struct grid){1, m->lane[LANE_HEADS][layer], m->lane[LANE_HEADS][layer]};
    case LANE_REUSE:
        return (struct grid){1, lane_max(lane), 0};
    case LANE_COUNT:
        break;
    }
    BUG("lane %d", (int)lane);
}

void gen_grid(const struct model_spec *m, enum lane lane, int layer, int *unit, int *most)
{
    struct grid g = grid_of(m, lane, layer);

    BUG_IF(g.divides != 0);
    *unit = g.unit;
    *most = g.max;
}

static bool on_grid(const struct grid *g, int v)
{
    return v >= g->unit && v <= g->max && v % g->unit == 0 && !(g->divides && g->divides % v);
}

// The next legal value beyond v in direction dir, or v itself when there is none. Away from the
// ends one division finds it; divisors are few enough to walk.
static int grid_next(const struct grid *g, int v, int dir)
{
    int64_t u = g->unit;
    int64_t w = dir > 0 ? ((int64_t)v / u + 1) * u : ((int64_t)v + u - 1) / u * u - u;

    while (w >= u && w <= g->max && g->divides && g->divides % w)
        w += dir;
    if (dir > 0 && w < u)
        w = u;
    if (dir < 0 && w > g->max)
        w = g->max / u * u;
    return w >= u && w <= g->max ? (int)w : v;
}

static void assign(struct model_spec *m, enum lane lane, int layer, int v)
{
    int ratio = shared_ratio(m);
    bool comes_or_goes = v == 0 || is_absent(m, lane, layer);

    if (m->lane[lane][layer] == v)
        return;
    m->lane[lane][layer] = v;
    m->source[lane].shape = SHAPE_LIST;
    if (lane == LANE_KV)
        m->source[LANE_KV].kv_ratio = 0;
    if (lane == LANE_HEADS && (ratio || comes_or_goes)) {
        m->lane[LANE_KV][layer] = ratio ? v / ratio : v;
        m->source[LANE_KV].shape = SHAPE_LIST; // a {ratio: R} stays true and is kept
    }
}

static const char *const lane_unit[LANE_COUNT] = {"ffn units", "query heads", "kv heads",
                                                  "repetitions"};

static bool refuse_end(const struct grid *g, enum lane lane, int v, int dir, char *why,
                       size_t why_size)
{
    if (lane == LANE_KV && dir > 0)
        snprintf(why, why_size, "%d kv heads is the most: there are %d query heads", v, g->divides);
    else
        snprintf(why, why_size, "%d %s is the %s a layer can have", v, lane_unit[lane],
                 dir > 0 ? "most" : "least");
    return false;
}

static const char *const part_name[LANE_COUNT] = {"FFN", "attention", "attention", "repetition"};

static bool refuse_absent(enum lane lane, int layer, char *why, size_t why_size)
{
    snprintf(why, why_size,
             lane == LANE_KV ? "layer %d has no %s; set its query heads first"
                             : "layer %d has no %s; set a value with =",
             layer, part_name[lane]);
    return false;
}

bool gen_step(struct model_spec *m, enum lane lane, int layer, int steps, char *why,
              size_t why_size)
{
    struct grid g = grid_of(m, lane, layer);
    int dir = steps > 0 ? 1 : -1, from = m->lane[lane][layer], v = from;

    BUG_IF(layer < 0 || layer >= m->n_layers);
    if (steps == 0)
        return true;
    if (is_absent(m, lane, layer))
        return refuse_absent(lane, layer, why, why_size);
    for (int64_t i = 0; i < (dir > 0 ? (int64_t)steps : -(int64_t)steps); i++) {
        int next = grid_next(&g, v, dir);

        if (next == v)
            break;
        v = next;
    }
    if (v == from)
        return refuse_end(&g, lane, v, dir, why, why_size);
    assign(m, lane, layer, v);
    return true;
}

// A layer of nothing is no layer.
static bool take_away(struct model_spec *m, enum lane lane, int layer, char *why, size_t why_size)
{
    enum lane other = lane == LANE_FFN ? LANE_HEADS : LANE_FFN;

    if (is_absent(m, other, layer)) {
        snprintf(why, why_size, "layer %d has no %s, so it keeps its %s", layer, part_name[other],
                 part_name[lane]);
        return false;
    }
    assign(m, lane == LANE_KV ? LANE_HEADS : lane, layer, 0);
    return true;
}

static bool set_nearest(struct model_spec *m, enum lane lane, int layer, double v, char *why,
                        size_t why_size)
{
    struct grid g = grid_of(m, lane, layer);
    int near, below, above;

    near = (int)floor(fmin(fmax(v, 0), (double)g.max));
    below = on_grid(&g, near) ? near : grid_next(&g, near, -1);
    above = grid_next(&g, near, 1);
    if (!on_grid(&g, below))
        below = above;
    if (!on_grid(&g, above))
        above = below;
    if (!on_grid(&g, below)) {
        snprintf(why, why_size, "no legal number of %s below %d", lane_unit[lane], g.max);
        return false;
    }
    assign(m, lane, layer, v - below <= above - v ? below : above);
    return true;
}

bool gen_set(struct model_spec *m, enum lane lane, int layer, double v, char *why, size_t why_size)
{
    BUG_IF(layer < 0 || layer >= m->n_layers);
    if (isnan(v)) {
        snprintf(why, why_size, "not a number");
        return false;
    }
    if (is_absent(m, lane, layer) && v <= 0)
        return true;
    if (is_absent(m, lane, layer) && lane == LANE_KV)
        return refuse_absent(lane, layer, why, why_size);
    if (v == 0 && lane != LANE_REUSE)
        return take_away(m, lane, layer, why, why_size);
    return set_nearest(m, lane, layer, v, why, why_size);
}
