#include "engine/solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/gen.h"
#include "engine/profile.h"
#include "engine/solve_impl.h"

const char *const solve_names[] = {"ffn", "heads", "depth", "width", "tokens", NULL};

// ---- the layers that move -----------------------------------------------------------------------

// One entry per layer that may move, from the middle of the stack outwards. Widths in legal steps.
struct axis {
    const struct spec *from;
    enum budget budget;
    enum lane lane;
    int n;
    int layer[SPEC_MAX_LAYERS];
    int unit[SPEC_MAX_LAYERS], most[SPEC_MAX_LAYERS];
    double want[SPEC_MAX_LAYERS]; // at scale 1
    int at[SPEC_MAX_LAYERS];
    bool linear; // value = base + sum of cost * at; else every value is counted
    double base, cost[SPEC_MAX_LAYERS];
    struct spec scratch, before, few; // few: with room for the layers of solve_step_alone()
    struct solve_step known[SPEC_MAX_LAYERS][2]; // up, down, as met last where the value is no sum
};

// The ratio is that of the design one began with: on the way all layers may come to share another.
static void place(const struct axis *a, struct spec *s)
{
    struct model_spec *m = &s->model;
    int ratio = a->lane == LANE_HEADS ? spec_kv_ratio(&a->from->model) : 0;

    *s = *a->from;
    for (int i = 0; i < a->n; i++) {
        int layer = a->layer[i], v = a->at[i] * a->unit[i];

        if (m->lane[a->lane][layer] == v)
            continue;
        m->lane[a->lane][layer] = v;
        m->source[a->lane].shape = SHAPE_LIST;
        if (ratio) {
            m->lane[LANE_KV][layer] = v / ratio;
            m->source[LANE_KV].shape = SHAPE_LIST; // a {ratio: R} stays true and is kept
        }
    }
}

static double value_of(struct axis *a)
{
    double sum = a->base;
    struct count c;

    if (!a->linear) {
        place(a, &a->scratch);
        count_model(&a->scratch, &c);
        return budget_value(a->budget, &a->scratch, &c);
    }
    for (int i = 0; i < a->n; i++)
        sum += a->cost[i] * a->at[i];
    return sum;
}

// Layers by distance from the middle, the upper one first.
static int from_middle(int n, int k)
{
    int low = (n - 1) / 2, step = (k + 1) / 2;
    bool up = (n % 2 == 0) ? k % 2 == 1 : k % 2 == 0;

    return up ? low + step : low - step;
}

// What the lane's layers would be without rounding.
static void wanted(const struct spec *s, enum lane lane, double *out)
{
    const struct model_spec *m = &s->model;
    const struct lane_source *src = &m->source[lane];
    double frame = lane == LANE_FFN ? m->frame.ffn : m->frame.heads;
    double scale = lane == LANE_FFN ? m->d_model : (double)m->d_model / m->head_dim;

    if (gen_points(src->shape) > 0) {
        gen_multipliers(src, &m->frame, frame, m->n_layers, out);
        for (int i = 0; i < m->n_layers; i++)
            out[i] *= scale;
        return;
    }
    for (int i = 0; i < m->n_layers; i++)
        out[i] = m->lane[lane][i];
}

// What a layer lacks stays away.
static void collect(struct axis *a, const bool *locked)
{
    const struct model_spec *m = &a->from->model;
    double want[SPEC_MAX_LAYERS];

    wanted(a->from, a->lane, want);
    for (int k = 0; k < m->n_layers; k++) {
        int i = from_middle(m->n_layers, k), most;

        if ((locked && locked[i]) || m->lane[a->lane][i] == 0)
            continue;
        a->layer[a->n] = i;
        gen_grid(m, a->lane, i, &a->unit[a->n], &most);
        a->most[a->n] = most / a->unit[a->n];
        a->want[a->n] = want[i] / a->unit[a->n];
        a->n++;
    }
}

static double layer_value(enum budget b, const struct spec *s, const struct count *c, int layer)
{
    const struct model_spec *m = &s->model;

    switch (b) {
    case BUDGET_PARAMS:
    case BUDGET_NON_EMBEDDING:
        return (double)c->layer[layer].params;
    case BUDGET_FLOPS:
        return c->layer[layer].forward_flops;
    case BUDGET_TRAIN_FLOPS:
        return 3 * c->layer[layer].forward_flops * (double)spec_total_steps(s) *
               (double)spec_tokens_per_step(s);
    case BUDGET_KV:
        return count_runs(m, layer) * 2 * m->lane[LANE_KV][layer] * m->head_dim * 4;
    case BUDGET_MEMORY:
    case BUDGET_KINDS:
        break;
    }
    BUG("no sum over layers");
}

// What a step of each layer costs: the difference between all layers at one and at two steps.
static void measure_costs(struct axis *a)
{
    struct spec *low = xmalloc(sizeof *low);
    struct count c[2];

    a->linear = a->budget != BUDGET_MEMORY;
    for (int i = 0; a->linear && i < a->n; i++)
        a->at[i] = 1;
    if (a->linear) {
        place(a, low);
        count_model(low, &c[0]);
        a->base = budget_value(a->budget, low, &c[0]);
        for (int i = 0; i < a->n; i++)
            a->at[i] = 2 <= a->most[i] ? 2 : 1;
        place(a, &a->scratch);
        count_model(&a->scratch, &c[1]);
    }
    for (int i = 0; a->linear && i < a->n; i++) {
        a->cost[i] = layer_value(a->budget, &a->scratch, &c[1], a->layer[i]) -
                     layer_value(a->budget, low, &c[0], a->layer[i]);
        a->base -= a->cost[i];
    }
    free(low);
}

// ---- along the shape ----------------------------------------------------------------------------

static void scale_to(struct axis *a, double s)
{
    for (int i = 0; i < a->n; i++) {
        double v = floor(s * a->want[i] + 0.5);

        a->at[i] = v < 1 ? 1 : v > a->most[i] ? a->most[i] : (int)v;
    }
}

static double value_at(struct axis *a, double s)
{
    scale_to(a, s);
    return value_of(a);
}

static void move_end(const struct axis *a, double *end, double scale, int *at)
{
    *end = scale;
    memcpy(at, a->at, sizeof a->at);
}

// The last scale whose design is not above the target and the next one that is: *low, *high.
// False when even the least (low 0) or the most (high infinite) is on one side.
static void bracket(struct axis *a, double target, double *low, double *high)
{
    int at_low[SPEC_MAX_LAYERS], at_high[SPEC_MAX_LAYERS]; // designs that need no count again
    double most = 1;

    for (int i = 0; i < a->n; i++) // beyond it every layer is at its most
        most = fmax(most, (a->most[i] + 1) / a->want[i]);
    *low = 0;
    *high = most;
    if (value_at(a, most) <= target)
        *low = most;
    else if (value_at(a, 0) > target)
        *high = 0;
    scale_to(a, *low);
    memcpy(at_low, a->at, sizeof at_low);
    scale_to(a, *high);
    memcpy(at_high, a->at, sizeof at_high);
    while (*low < *high) {
        double middle = *low + (*high - *low) / 2;

        if (middle <= *low || middle >= *high)
            break;
        scale_to(a, middle);
        if (!memcmp(a->at, at_low, sizeof at_low))
            *low = middle;
        else if (!memcmp(a->at, at_high, sizeof at_high))
            *high = middle;
        else if (value_of(a) <= target)
            move_end(a, low, middle, at_low);
        else
            move_end(a, high, middle, at_high);
    }
}

static bool can_step(const struct axis *a, int i, int dir)
{
    return a->at[i] + dir >= 1 && a->at[i] + dir <= a->most[i];
}

static double value_after(struct axis *a, int i, int dir, double value)
{
    struct solve_step *known = &a->known[i][dir < 0];

    if (a->linear)
        return value + dir * a->cost[i];
    place(a, &a->before);
    a->at[i] += dir;
    place(a, &a->scratch);
    if (solve_step_alone(&a->before, &a->scratch, a->layer[i], &a->few, known))
        value += known->change;
    else
        value = value_of(a);
    a->at[i] -= dir;
    return value;
}

// From the design at `low` the layers that step up at `high`, one by one; stays at the nearest.
static void step_through_tie(struct axis *a, double target, double low, double high)
{
    int up[SPEC_MAX_LAYERS], best[SPEC_MAX_LAYERS];
    double nearest, value;

    scale_to(a, high);
    memcpy(up, a->at, sizeof up);
    scale_to(a, low);
    memcpy(best, a->at, sizeof best);
    value = value_of(a);
    nearest = fabs(value - target);
    for (int i = 0; i < a->n; i++) {
        double off;

        if (a->at[i] == up[i])
            continue;
        value = a->linear ? 0 : value_after(a, i, up[i] - a->at[i], value);
        a->at[i] = up[i];
        off = fabs((a->linear ? value_of(a) : value) - target);
        if (off < nearest) {
            nearest = off;
            memcpy(best, a->at, sizeof best);
        }
    }
    memcpy(a->at, best, sizeof best);
}

// The single step that comes nearest to the target: entry and direction. Among equals the one that
// stays closest to the shape would be a matter of taste; the first from the middle is taken.
static double best_step(struct axis *a, double target, double value, int *entry, int *dir)
{
    double nearest = INFINITY;

    for (int i = 0; i < a->n; i++)
        for (int d = -1; d <= 1; d += 2) {
            double off;

            if (!can_step(a, i, d))
                continue;
            off = fabs(value_after(a, i, d, value) - target);
            if (off < nearest) {
                nearest = off;
                *entry = i;
                *dir = d;
            }
        }
    return nearest;
}

static void single_steps(struct axis *a, double target)
{
    double value = value_of(a);
    int entry = 0, dir = 0;

    // each step comes nearer, so it ends
    while (best_step(a, target, value, &entry, &dir) < fabs(value - target)) {
        double next = value_after(a, entry, dir, value);

        a->at[entry] += dir;
        value = a->linear ? value_of(a) : next;
    }
}

// ---- the answer ---------------------------------------------------------------------------------

static void measure(const struct solve_request *r, struct solved *out)
{
    count_model(&out->spec, &out->count);
    out->value = budget_value(r->budget, &out->spec, &out->count);
    out->residual = out->value - r->target;
}

// The single step beyond the target, or the one that comes back from beyond it.
static double other_side(struct axis *a, double target, double value)
{
    double other = NAN;

    for (int i = 0; i < a->n; i++) {
        int dir = value > target ? -1 : 1;
        double v = can_step(a, i, dir) ? value_after(a, i, dir, value) : NAN;

        if ((v - target) * dir >= 0 && !(fabs(v - target) >= fabs(other - target)))
            other = v;
    }
    return other;
}

static void explain_lane(struct axis *a, const struct solve_request *r, struct solved *out)
{
    const char *what = a->lane == LANE_FFN ? "ffn_width" : "heads";
    char step[UNIT_SIZE];
    bool least = true, most = true;
    double smallest = INFINITY;
    int entry = 0;

    for (int i = 0; i < a->n; i++) {
        double cost = fabs(value_after(a, i, can_step(a, i, 1) ? 1 : -1, out->value) - out->value);

        least &= a->at[i] == 1;
        most &= a->at[i] == a->most[i];
        if (cost > 0 && cost < smallest) {
            smallest = cost;
            entry = i;
        }
    }
    if (out->residual == 0)
        out->why[0] = 0;
    else if (least || most)
        snprintf(out->why, sizeof out->why, "every layer that may move has its %s %s", what,
                 least ? "at the least" : "at the most");
    else
        snprintf(out->why, sizeof out->why, "one step of %s (%d) is %s in layer %d, none smaller",
                 what, a->unit[entry], budget_text(r->budget, smallest, step), a->layer[entry]);
}

// Why none may move.
static const char *reason_for_none(const struct model_spec *m, enum lane lane)
{
    bool has_one = false, all = true;

    for (int i = 0; i < m->n_layers; i++) {
        has_one |= m->lane[lane][i] > 0;
        all &= m->lane[lane][i] > 0;
    }
    if (!has_one)
        return lane == LANE_FFN ? "no layer has an FFN" : "no layer has attention";
    if (all)
        return "all layers are locked";
    return lane == LANE_FFN ? "all layers with an FFN are locked"
                            : "all layers with attention are locked";
}

static int check_lane(const struct axis *a, struct err *err)
{
    const char *what = a->lane == LANE_FFN ? "ffn_width" : "heads";

    if (a->n == 0)
        return err_set(err, "%s", reason_for_none(&a->from->model, a->lane));
    for (int i = 0; a->linear && i < a->n; i++)
        if (a->cost[i] > 0)
            return 0;
    return a->linear ? err_set(err, "%s does not change %s", what, budget_rows[a->budget].name) : 0;
}

static int solve_lane(const struct spec *from, const struct solve_request *r, struct solved *out,
                      struct err *err)
{
    struct axis *a = xcalloc(1, sizeof *a);
    double low, high;
    int rc;

    a->from = from;
    a->few = *from;
    a->budget = r->budget;
    a->lane = r->by == SOLVE_FFN ? LANE_FFN : LANE_HEADS;
    collect(a, r->locked);
    measure_costs(a);
    rc = check_lane(a, err);
    if (rc == 0) {
        bracket(a, r->target, &low, &high);
        step_through_tie(a, r->target, low, high);
        single_steps(a, r->target);
        place(a, &out->spec);
        measure(r, out);
        out->other = other_side(a, r->target, out->value);
        explain_lane(a, r, out);
        for (int i = 0; i < a->n; i++)
            out->moved += out->spec.model.lane[a->lane][a->layer[i]] !=
                          from->model.lane[a->lane][a->layer[i]];
    }
    free(a);
    return rc;
}

// ---- by one number ------------------------------------------------------------------------------

// The design with the key at v; -1 when the profile forbids it.
static int with_key(const struct spec *from, const char *key, int v, const struct solve_request *r,
                    struct solved *out)
{
    struct problems p = {0};
    char text[16];
    int rc;

    snprintf(text, sizeof text, "%d", v);
    out->spec = *from;
    rc = profile_set(&out->spec, key, text, &p);
    problems_release(&p);
    if (rc == 0)
        measure(r, out);
    return rc;
}

struct candidates {
    const char *key;
    int unit, most; // multiples of unit
};

static struct candidates candidates_of(const struct spec *s, enum solve_by by)
{
    if (by == SOLVE_WIDTH)
        return (struct candidates){"model.d_model", s->model.head_dim, 65536 / s->model.head_dim};
    // mirrored gates need an even number
    return (struct candidates){"model.n_layers", s->gate.enabled ? 2 : 1,
                               SPEC_MAX_LAYERS / (s->gate.enabled ? 2 : 1)};
}

static bool nearer(const struct solved *a, const struct solved *b)
{
    return fabs(a->residual) < fabs(b->residual);
}

// Candidates that follow each other, the first not above the target, the second above it or without
// a valid profile; a number that is no candidate has no value (NaN).
struct neighbours {
    int low;
    struct solved design[2];
};

// By halving: more layers or a wider stream cost more.
static void find_neighbours(const struct spec *from, const struct candidates *c,
                            const struct solve_request *r, struct neighbours *out)
{
    struct solved *trial = xmalloc(sizeof *trial);
    int high = c->most + 1;

    out->low = 0;
    out->design[0].value = out->design[1].value = NAN;
    while (high - out->low > 1) {
        int middle = out->low + (high - out->low) / 2;
        bool valid = with_key(from, c->key, middle * c->unit, r, trial) == 0;

        // what a profile cannot have is as if it were too large
        if (valid && trial->residual <= 0)
            out->low = middle;
        else
            high = middle;
        if (!valid)
            trial->value = NAN;
        out->design[high == middle] = *trial;
    }
    free(trial);
}

static int solve_number(const struct spec *from, const struct solve_request *r, struct solved *out,
                        struct err *err)
{
    struct candidates c = candidates_of(from, r->by);
    struct neighbours *near = xcalloc(1, sizeof *near);
    int found = 0;
    char step[UNIT_SIZE];

    find_neighbours(from, &c, r, near);
    for (int i = 0; i < 2; i++) {
        const struct solved *trial = &near->design[i];

        if (isnan(trial->value))
            continue;
        if (found++ == 0 || nearer(trial, out)) {
            double before = found > 1 ? out->value : NAN;

            *out = *trial;
            out->other = before;
        } else {
            out->other = trial->value;
        }
    }
    free(near);
    if (!found)
        return err_set(err, "no %s gives a valid profile", c.key);
    out->moved = !spec_equal(&out->spec, from);
    out->why[0] = 0;
    if (out->residual != 0 && !isnan(out->other))
        snprintf(out->why, sizeof out->why, "one step of %s (%d) is %s", c.key, c.unit,
                 budget_text(r->budget, fabs(out->other - out->value), step));
    else if (out->residual != 0)
        snprintf(out->why, sizeof out->why, "%s can go no further", c.key);
    return 0;
}

static int solve_tokens(const struct spec *from, const struct solve_request *r, struct solved *out,
                        struct err *err)
{
    double per_step, steps;
    char text[UNIT_SIZE];

    out->spec = *from;
    count_model(from, &out->count);
    per_step = out->count.train_per_token * (double)spec_tokens_per_step(from);
    if (r->budget != BUDGET_TRAIN_FLOPS)
        return err_set(err, "tokens change train-flops only, not %s", budget_rows[r->budget].name);
    steps = fmax(1, rint(r->target / per_step));
    if (steps * (double)spec_tokens_per_step(from) > 9e18)
        return err_set(err, "that many tokens cannot be counted");
    out->spec.train.max_steps = from->train.max_tokens ? 0 : (int64_t)steps;
    out->spec.train.max_tokens =
        from->train.max_tokens ? (int64_t)steps * spec_tokens_per_step(from) : 0;
    measure(r, out);
    out->moved = !spec_equal(&out->spec, from);
    out->other = steps == 1 && out->residual > 0
                     ? NAN
                     : out->value + (out->residual > 0 ? -per_step : per_step);
    out->why[0] = 0;
    if (out->residual != 0)
        snprintf(out->why, sizeof out->why, "one optimizer step is %s FLOPs",
                 unit_count(text, per_step));
    return 0;
}

static int solve_way(const struct spec *from, const struct solve_request *r, struct solved *out,
                     struct err *err)
{
    switch (r->by) {
    case SOLVE_FFN:
    case SOLVE_HEADS:
        return solve_lane(from, r, out, err);
    case SOLVE_DEPTH:
    case SOLVE_WIDTH:
        return solve_number(from, r, out, err);
    case SOLVE_TOKENS:
        return solve_tokens(from, r, out, err);
    case SOLVE_WAYS:
        break;
    }
    BUG("solve by %d", (int)r->by);
}

// Another depth or width would move every layer, locked ones too.
static int check_locks(const struct spec *from, const struct solve_request *r, struct err *err)
{
    for (int i = 0; i < from->model.n_layers; i++)
        if (r->locked && r->locked[i] && (r->by == SOLVE_DEPTH || r->by == SOLVE_WIDTH))
            return err_set(err, "layer %d is locked, and by %s every layer moves", i,
                           solve_names[r->by]);
    return 0;
}

int solve(const struct spec *from, const struct solve_request *r, struct solved *out,
          struct err *err)
{
    *out = (struct solved){.other = NAN};
    if (!(r->target > 0))
        return err_set(err, "a budget is a positive number");
    if (check_locks(from, r, err) < 0)
        return -1;
    if (solve_way(from, r, out, err) < 0)
        return -1;
    for (int i = 0; i < spec_key_count; i++) // what moved no longer comes from where it was read
        if (!spec_key_equal(&spec_keys[i], from, &out->spec))
            out->spec.origin[i] = (struct spec_origin){.kind = ORIGIN_NONE};
    return 0;
}
