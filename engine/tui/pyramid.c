#include "tui/pyramid.h"

#include <math.h>
#include <stdlib.h>

#include "engine/buf.h"

static void span_init(struct span *s)
{
    *s = (struct span){.min = INFINITY, .max = -INFINITY};
}

static void span_point(struct span *s, double y)
{
    if (!isfinite(y)) {
        s->bad++;
        return;
    }
    s->min = y < s->min ? y : s->min;
    s->max = y > s->max ? y : s->max;
    s->sum += y;
    s->n++;
}

static void span_merge(struct span *s, const struct span *o)
{
    s->min = o->min < s->min ? o->min : s->min;
    s->max = o->max > s->max ? o->max : s->max;
    s->sum += o->sum;
    s->n += o->n;
    s->bad += o->bad;
}

static struct span *block(struct pyramid *p, int level, int64_t i)
{
    if (i >= p->cap[level]) {
        int64_t cap = p->cap[level] ? p->cap[level] * 2 : 64;

        while (cap <= i)
            cap *= 2;
        p->level[level] = xrealloc(p->level[level], (size_t)cap, sizeof(struct span));
        p->cap[level] = cap;
    }
    return &p->level[level][i];
}

// Recomputes every summary that holds a point at or after `from`, lowest level first.
static void rebuild(struct pyramid *p, const double *y, int64_t from, int64_t n)
{
    int64_t below = n;    // entries of the level below
    int64_t first = from; // first changed entry there

    for (int k = 0; k < PYRAMID_LEVELS && below > 1; k++) {
        int64_t count = (below + PYRAMID_FAN - 1) / PYRAMID_FAN;

        for (int64_t i = first / PYRAMID_FAN; i < count; i++) {
            struct span *s = block(p, k, i);
            int64_t end = (i + 1) * PYRAMID_FAN < below ? (i + 1) * PYRAMID_FAN : below;

            span_init(s);
            for (int64_t j = i * PYRAMID_FAN; j < end; j++) {
                if (k == 0)
                    span_point(s, y[j]);
                else
                    span_merge(s, &p->level[k - 1][j]);
            }
        }
        first /= PYRAMID_FAN;
        below = count;
    }
}

void pyramid_sync(struct pyramid *p, const double *y, int64_t n, int64_t same)
{
    int64_t from = same < p->n ? same : p->n;

    if (from > n)
        from = n;
    if (from == n && p->n == n)
        return;
    // A shorter array leaves a last block with too many points: start inside it.
    rebuild(p, y, from > 0 ? from - 1 : 0, n);
    p->n = n;
}

void pyramid_release(struct pyramid *p)
{
    for (int k = 0; k < PYRAMID_LEVELS; k++)
        free(p->level[k]);
    *p = (struct pyramid){.n = 0};
}

// The largest complete block that starts at i and ends at or before b; its level and length.
static int widest(int64_t i, int64_t b, int64_t *length)
{
    int level = -1;
    int64_t size = 1;

    while (level + 1 < PYRAMID_LEVELS && i % (size * PYRAMID_FAN) == 0 &&
           i + size * PYRAMID_FAN <= b) {
        size *= PYRAMID_FAN;
        level++;
    }
    *length = size;
    return level;
}

struct span pyramid_span(const struct pyramid *p, const double *y, int64_t a, int64_t b)
{
    struct span s;

    span_init(&s);
    for (int64_t i = a < 0 ? 0 : a; i < b;) {
        int64_t length = 1;
        int level = p && b <= p->n ? widest(i, b, &length) : -1;

        if (level < 0)
            span_point(&s, y[i]);
        else
            span_merge(&s, &p->level[level][i / length]);
        i += length;
    }
    return s;
}
