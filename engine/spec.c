#include "engine/spec.h"

#include <stdlib.h>
#include <string.h>

enum { NEAREST_MAX_LEN = 64 };

const struct spec_key *spec_key_find(const char *path)
{
    for (int i = 0; i < spec_key_count; i++)
        if (!strcmp(spec_keys[i].path, path))
            return &spec_keys[i];
    return NULL;
}

static int min3(int a, int b, int c)
{
    int m = a < b ? a : b;

    return m < c ? m : c;
}

// Optimal string alignment: insertions, deletions, replacements and swaps of neighbours.
int spec_edit_distance(const char *a, const char *b)
{
    int row[3][NEAREST_MAX_LEN + 1];
    int n = (int)strlen(a), m = (int)strlen(b);
    int *before = row[0], *above = row[1], *now = row[2];

    if (n > NEAREST_MAX_LEN || m > NEAREST_MAX_LEN)
        return n > m ? n : m;
    for (int j = 0; j <= m; j++)
        above[j] = j;
    for (int i = 1; i <= n; i++) {
        int *spare = before;

        now[0] = i;
        for (int j = 1; j <= m; j++) {
            now[j] = min3(above[j] + 1, now[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = min3(now[j], before[j - 2] + 1, now[j]);
        }
        before = above;
        above = now;
        now = spare;
    }
    return above[m];
}

static const char *leaf(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot ? dot + 1 : path;
}

// Number of bytes of the section with its dot, 0 at the top level.
static size_t section_len(const char *path)
{
    return (size_t)(leaf(path) - path);
}

static bool same_section(const char *a, const char *b)
{
    return section_len(a) == section_len(b) && !strncmp(a, b, section_len(a));
}

static void consider(const char *name, int distance, const char **best, int *best_distance)
{
    if (distance < *best_distance) {
        *best = name;
        *best_distance = distance;
    }
}

const char *spec_key_nearest(const char *path)
{
    static const char *const top[] = {"extends", "model", "gate", "data", "train",
                                      "optim",   "eval",  "log",  "save"};
    const char *name = leaf(path), *best = NULL;
    int limit = strlen(name) < 6 ? 1 : (int)strlen(name) / 3; // at most a third is wrong
    int best_distance = limit + 1;

    for (int i = 0; i < spec_key_count; i++) {
        const char *known = spec_keys[i].path;

        if (same_section(path, known))
            consider(known, spec_edit_distance(name, leaf(known)), &best, &best_distance);
        else if (!strcmp(name, leaf(known))) // right word, wrong section
            consider(known, 1, &best, &best_distance);
    }
    for (size_t i = 0; section_len(path) == 0 && i < sizeof top / sizeof top[0]; i++)
        consider(top[i], spec_edit_distance(name, top[i]), &best, &best_distance);
    return best;
}

int spec_kv_ratio(const struct model_spec *m)
{
    int ratio = 0;

    for (int i = 0; i < m->n_layers; i++) {
        int heads = m->lane[LANE_HEADS][i], kv = m->lane[LANE_KV][i];

        if (heads == 0 && kv == 0)
            continue;
        if (kv <= 0 || heads % kv || (ratio && heads / kv != ratio))
            return 0;
        ratio = heads / kv;
    }
    return ratio;
}

int64_t spec_tokens_per_step(const struct spec *s)
{
    return s->train.global_batch_size * s->train.seq_len;
}

int64_t spec_total_steps(const struct spec *s)
{
    int64_t per_step = spec_tokens_per_step(s);

    if (!s->train.max_tokens || per_step <= 0)
        return s->train.max_steps;
    return (s->train.max_tokens - 1) / per_step + 1;
}

int spec_reuse_total(const struct model_spec *m)
{
    int sum = 0;

    for (int i = 0; i < m->n_layers; i++)
        sum += m->lane[LANE_REUSE][i];
    return sum;
}

int spec_step_count(const struct model_spec *m)
{
    return spec_reuse_total(m) * m->block_loops;
}

int spec_gate_count(const struct spec *s)
{
    return s->gate.enabled ? s->model.n_layers / 2 : 0;
}

static bool lane_equal(const struct spec *a, const struct spec *b, enum lane lane)
{
    size_t bytes = (size_t)a->model.n_layers * sizeof a->model.lane[0][0];

    return a->model.n_layers == b->model.n_layers &&
           !memcmp(a->model.lane[lane], b->model.lane[lane], bytes);
}

static bool layers_equal(const struct spec *a, const struct spec *b, const double *x,
                         const double *y)
{
    return a->model.n_layers == b->model.n_layers &&
           !memcmp(x, y, (size_t)a->model.n_layers * sizeof *x);
}

static bool frame_equal(const struct frame *a, const struct frame *b)
{
    return a->mode == b->mode &&
           (a->mode != FRAME_LITERAL || (a->ffn == b->ffn && a->heads == b->heads));
}

bool spec_key_equal(const struct spec_key *key, const struct spec *a, const struct spec *b)
{
    const void *x = (const char *)a + key->offset, *y = (const char *)b + key->offset;

    if (key->type == KEY_LANE)
        return lane_equal(a, b, (enum lane)key->size);
    if (key->type == KEY_LAYERS)
        return layers_equal(a, b, x, y);
    if (key->type == KEY_FRAME)
        return frame_equal(x, y);
    if (key->type == KEY_STRING)
        return !strcmp(x, y);
    return !memcmp(x, y, key->size);
}

bool spec_equal(const struct spec *a, const struct spec *b)
{
    for (int i = 0; i < spec_key_count; i++)
        if (!spec_key_equal(&spec_keys[i], a, b))
            return false;
    return true;
}
