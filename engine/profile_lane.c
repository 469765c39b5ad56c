// Per-layer values: number, list or generator to a lane_value, and that to the spec.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/gen.h"
#include "engine/profile_read.h"

// Cuts "2048 x6" at the x. The count is 1 without one, -1 when it is no number of layers.
static int split_repeat(const char *s, char *value, size_t size)
{
    const char *x = strrchr(s, 'x');
    size_t n = x ? (size_t)(x - s) : strlen(s);
    char *end;
    long times;

    while (x && n && s[n - 1] == ' ')
        n--;
    if (n >= size)
        return -1;
    memcpy(value, s, n);
    value[n] = '\0';
    if (!x)
        return 1;
    for (x++; *x == ' ';)
        x++;
    times = isdigit((unsigned char)*x) ? strtol(x, &end, 10) : -1;
    return times >= 1 && times <= SPEC_MAX_LAYERS && !*end ? (int)times : -1;
}

static bool lane_item(struct reading *r, const struct spec_key *k, const struct node *v)
{
    struct lane_value *lane = &r->lane[k->size];
    char path[PATH_SIZE], text[64];
    int64_t n;
    int times;

    snprintf(path, sizeof path, "%s[%d]", k->path, lane->n);
    times = node_is_plain(v) ? split_repeat(v->text, text, sizeof text) : -1;
    if (times < 0) {
        value_wrong_type(r, path, v, "a whole number, or '2048 x6' for six times the same");
        return false;
    }
    if (!value_parse_count(r, path, v, text, &n) || !value_fits_int(r, k, path, v, n))
        return false;
    if (lane->n + times > SPEC_MAX_LAYERS) {
        reading_error(r, v, k->path, "has more than %d values", SPEC_MAX_LAYERS);
        return false;
    }
    for (int i = 0; i < times; i++) {
        lane->item[lane->n] = v;
        lane->v[lane->n++] = (int)n;
    }
    return true;
}

static void lane_list(struct reading *r, const struct spec_key *k, const struct node *v)
{
    struct lane_value *lane = &r->lane[k->size];
    bool is_good = true;

    lane->source.shape = SHAPE_LIST;
    for (int i = 0; i < v->n; i++)
        is_good &= lane_item(r, k, v->items[i].value);
    if (is_good && all_good(r, "model.n_layers", k->path, NULL) &&
        lane->n != r->spec->model.n_layers)
        reading_error(r, v, k->path, "has %d values, expected one for each of %d layers", lane->n,
                      r->spec->model.n_layers);
}

static void lane_number(struct reading *r, const struct spec_key *k, const struct node *v)
{
    struct lane_value *lane = &r->lane[k->size];

    lane->source = (struct lane_source){.shape = SHAPE_NUMBER, .n_points = 1};
    if (!value_int(r, k, k->path, v, &lane->v[0]))
        return;
    lane->source.points[0] = lane->v[0];
    lane->n = SPEC_MAX_LAYERS;
    for (int i = 0; i < lane->n; i++) {
        lane->v[i] = lane->v[0];
        lane->item[i] = v;
    }
}

static void lane_points(struct reading *r, const struct spec_key *k, const struct node *v,
                        struct lane_source *src)
{
    int want = gen_points(src->shape);
    char path[PATH_SIZE];

    if (v->kind == NODE_SCALAR && want == 1) {
        snprintf(path, sizeof path, "%s.points", k->path);
        value_float(r, path, v, &src->points[0]);
    } else if (v->kind != NODE_LIST || v->n != want) {
        snprintf(path, sizeof path, "%s.points", k->path);
        reading_error(r, v, path, "shape %s needs %d point%s, such as [%s]",
                      spec_shape_names[src->shape], want, want == 1 ? "" : "s",
                      want == 1   ? "2.5"
                      : want == 2 ? "0.5, 4.0"
                                  : "0.5, 4.0, 0.5");
    } else {
        for (int i = 0; i < want; i++) {
            snprintf(path, sizeof path, "%s.points[%d]", k->path, i);
            value_float(r, path, v->items[i].value, &src->points[i]);
        }
    }
    src->n_points = want;
}

static void lane_generator(struct reading *r, const struct spec_key *k, const struct node *v,
                           const struct node *shape, const struct node *points)
{
    struct lane_source *src = &r->lane[k->size].source;
    struct buf list = {0};
    int i;

    if (!shape || !points) {
        reading_error(r, v, k->path, "'%s' is missing, expected {shape: ..., points: [...]}",
                      shape ? "points" : "shape");
        return;
    }
    // list and number are forms of their own, not shapes
    i = value_choose(spec_shape_names + SHAPE_UNIFORM,
                     shape->kind == NODE_SCALAR ? shape->text : NULL, &list);
    if (i < 0) {
        char path[PATH_SIZE];

        snprintf(path, sizeof path, "%s.shape", k->path);
        value_wrong_type(r, path, shape, list.data);
    } else {
        src->shape = (enum shape)(SHAPE_UNIFORM + i);
        lane_points(r, k, points, src);
    }
    buf_release(&list);
}

static void kv_ratio(struct reading *r, const struct spec_key *k, const struct node *v)
{
    struct lane_source *src = &r->lane[k->size].source;
    int64_t n;

    src->shape = SHAPE_LIST;
    if (!value_count(r, "model.n_kv_heads.ratio", v, &n))
        return;
    if (n < 1 || n > (int64_t)k->max)
        reading_error(r, v, "model.n_kv_heads.ratio", "%lld is out of range, expected 1 to %g",
                      (long long)n, k->max);
    else
        src->kv_ratio = (int)n;
}

static void lane_key(struct reading *r, const struct spec_key *k, const struct node *key,
                     const char *allowed)
{
    char q[QUOTE_SIZE];

    if (!strcmp(key->text, "frame"))
        reading_error(r, key, k->path, "'frame' is given once, as model.frame");
    else if (!strcmp(key->text, "multiple_of") || !strcmp(key->text, "round_points"))
        reading_error(r, key, k->path,
                      "'%s' is not part of a generator: widths are multiples of model.ffn_step, "
                      "head counts of model.head_step",
                      key->text);
    else
        reading_error(r, key, k->path, "unknown key '%s', expected %s", quote(q, key->text),
                      allowed);
}

static void lane_map(struct reading *r, const struct spec_key *k, const struct node *v)
{
    const struct node *shape = node_child(v, "shape"), *points = node_child(v, "points");
    const struct node *ratio = node_child(v, "ratio");
    bool is_kv = k->size == LANE_KV;

    if (k->size == LANE_REUSE) {
        value_wrong_type(r, k->path, v, "a number or a list");
        return;
    }
    for (int i = 0; i < v->n; i++) {
        const struct node *value = v->items[i].value;

        if (is_kv ? value != ratio : value != shape && value != points)
            lane_key(r, k, v->items[i].key, is_kv ? "ratio" : "shape and points");
    }
    if (!is_kv)
        lane_generator(r, k, v, shape, points);
    else if (ratio)
        kv_ratio(r, k, ratio);
    else if (!v->n)
        reading_error(r, v, k->path, "empty, expected {ratio: R}");
}

void bind_lane(struct reading *r, const struct spec_key *k, const struct node *v)
{
    if (v->kind == NODE_MAP)
        lane_map(r, k, v);
    else if (v->kind == NODE_LIST)
        lane_list(r, k, v);
    else if (node_is_plain(v) && strchr(v->text, 'x') && isdigit((unsigned char)*v->text))
        value_wrong_type(r, k->path, v, "a number, a list or a generator (repeats stand in lists)");
    else
        lane_number(r, k, v);
}

void resolve_lane(struct reading *r, const struct spec_key *k)
{
    struct model_spec *m = &r->spec->model;
    const struct lane_value *value = &r->lane[k->size];
    struct err err = ERR_INIT;

    if (!all_good(r, k->path, "model.n_layers", NULL))
        return;
    m->source[k->size] = value->source;
    if (value->source.kv_ratio || gen_points(value->source.shape) > 0) {
        if (!all_good(r, "model.d_model", "model.head_dim", "model.ffn_step", "model.head_step",
                      "model.frame", NULL) ||
            (value->source.kv_ratio && !all_good(r, "model.n_heads", NULL)))
            mark_bad(r, k->path);
        else if (gen_apply(m, (enum lane)k->size, &err) < 0)
            reading_error(r, r->slots[k - spec_keys].value, k->path, "%s", err.text);
        return;
    }
    memcpy(m->lane[k->size], value->v, (size_t)m->n_layers * sizeof value->v[0]);
}

bool lane_is_uniform(const struct model_spec *m, enum lane lane)
{
    for (int i = 1; i < m->n_layers; i++)
        if (m->lane[lane][i] != m->lane[lane][0])
            return false;
    return true;
}

bool lane_source_holds(const struct lane_source *src, const struct model_spec *now, enum lane lane)
{
    struct model_spec *m;
    bool holds;

    if (!src->kv_ratio && gen_points(src->shape) == 0)
        return false;
    m = xmalloc(sizeof *m);
    *m = *now;
    m->source[lane] = *src;
    // the heads' gen_apply carries the kv heads along, which are none of its business here
    m->source[LANE_KV].kv_ratio = lane == LANE_KV ? src->kv_ratio : 0;
    holds = gen_apply(m, lane, NULL) == 0 &&
            !memcmp(m->lane[lane], now->lane[lane], (size_t)m->n_layers * sizeof m->lane[lane][0]);
    free(m);
    return holds;
}
