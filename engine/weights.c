#include "engine/weights.h"

#include <stdio.h>
#include <string.h>

void weights_describe(struct st_tensor *st, const char *prefix, const struct param *p,
                      const float *data)
{
    *st = (struct st_tensor){.n_dims = p->n_dims, .size = p->size, .data = data};
    snprintf(st->name, sizeof st->name, "%s%.80s", prefix, p->name);
    st->shape[0] = p->n_dims == 2 ? p->rows : p->cols;
    st->shape[1] = p->n_dims == 2 ? p->cols : 0;
}

static const char *shape_text(const struct st_tensor *t, char out[64])
{
    int at = snprintf(out, 64, "[");

    for (int d = 0; d < t->n_dims && at < 60; d++)
        at +=
            snprintf(out + at, (size_t)(64 - at), "%s%lld", d ? ", " : "", (long long)t->shape[d]);
    if (at < 62)
        strcpy(out + at, "]");
    return out;
}

static bool is_same_shape(const struct st_tensor *a, const struct st_tensor *b)
{
    return a->n_dims == b->n_dims &&
           !memcmp(a->shape, b->shape, (size_t)a->n_dims * sizeof *a->shape);
}

const float *weights_find(const struct safetensors *f, const char *file, const char *prefix,
                          const struct param *p, struct err *err)
{
    const struct st_tensor *have;
    struct st_tensor want;
    char a[64], b[64];

    weights_describe(&want, prefix, p, NULL);
    have = safetensors_find(f, want.name);
    if (have && is_same_shape(have, &want))
        return have->data;
    if (!have)
        err_set(err, "%s has no tensor '%s' %s: it belongs to another profile", file, want.name,
                shape_text(&want, a));
    else
        err_set(err, "tensor '%s' of %s is %s, the profile's is %s: it belongs to another profile",
                want.name, file, shape_text(have, a), shape_text(&want, b));
    return NULL;
}

// Each position has its row, so the first rows of a table are the table of a shorter context.
static const float *find_positions(const struct safetensors *f, const char *file,
                                   const struct param *p, struct err *err)
{
    const struct st_tensor *t = safetensors_find(f, p->name);

    if (!t || t->n_dims != 2 || t->shape[1] != p->cols)
        return weights_find(f, file, "", p, err);
    if (t->shape[0] >= p->rows)
        return t->data;
    err_set(err, "%s has learned %lld positions, train.seq_len is %d: expected at most that many",
            file, (long long)t->shape[0], p->rows);
    return NULL;
}

static bool is_known(const struct param_list *list, const char *name)
{
    for (int i = 0; i < list->n; i++)
        if (!strcmp(list->v[i].name, name))
            return true;
    return false;
}

int weights_load(struct model *m, const struct safetensors *f, const char *file, struct err *err)
{
    const struct param_list *list = model_params(m);

    for (int i = 0; i < list->n; i++) {
        const struct param *p = &list->v[i];
        const float *data = p->role == PARAM_POSITION ? find_positions(f, file, p, err)
                                                      : weights_find(f, file, "", p, err);

        if (!data)
            return -1;
        model_set_weight(m, p, data);
    }
    for (int i = 0; i < f->n; i++)
        if (!is_known(list, f->t[i].name))
            return err_set(err, "tensor '%s' of %s is none of the profile's", f->t[i].name, file);
    return 0;
}
