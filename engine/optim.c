#include "engine/optim.h"

#include <math.h>
#include <stdlib.h>

#include "engine/buf.h"

// Neighbouring tensors with the same decay are updated in one call; the alignment gaps between them
// hold zeros and stay zero.
struct range {
    int64_t start, size;
    bool decay;
};

struct optim {
    struct model *model;
    struct backend *be;
    struct optim_spec spec;
    struct f32 *moment[2]; // blocks like the weights
    struct f32 *norm;      // 1
    struct range *ranges;
    int n_ranges;
};

double optim_lr(const struct optim_spec *s, int64_t n, int64_t total)
{
    double progress;

    if (n <= s->warmup_steps) {
        progress = (double)n / (double)s->warmup_steps;
        return s->lr * (s->warmup_start + (1 - s->warmup_start) * progress);
    }
    if (total <= s->warmup_steps)
        return s->lr;
    progress = (double)(n - s->warmup_steps) / (double)(total - s->warmup_steps);
    return optim_decayed_lr(s, progress);
}

double optim_decayed_lr(const struct optim_spec *s, double share)
{
    if (s->schedule == SCHED_CONSTANT || share <= 0)
        return s->lr;
    if (share > 1)
        share = 1;
    return s->min_lr + (s->lr - s->min_lr) * 0.5 * (1 + cos(M_PI * share));
}

static void find_ranges(struct optim *o)
{
    const struct param_list *list = model_params(o->model);

    o->ranges = xcalloc((size_t)list->n + 1, sizeof *o->ranges);
    for (int i = 0; i < list->n; i++) {
        const struct param *p = &list->v[i];

        if (!o->n_ranges || o->ranges[o->n_ranges - 1].decay != p->decay)
            o->ranges[o->n_ranges++] = (struct range){p->offset, 0, p->decay};
        o->ranges[o->n_ranges - 1].size = p->offset + p->size - o->ranges[o->n_ranges - 1].start;
    }
}

static struct f32 *alloc_f32(struct optim *o, int64_t n, struct err *err)
{
    char size[UNIT_SIZE];
    size_t bytes = (size_t)n * o->be->f32_size;
    struct f32 *p = o->be->op->alloc(o->be, bytes);

    if (!p)
        err_set(err, "no memory for the optimizer's moments: %s (%zu bytes) asked",
                unit_bytes(size, (double)bytes), bytes);
    return p;
}

struct optim *optim_new(struct model *m, const struct optim_spec *spec, struct err *err)
{
    struct optim *o = xcalloc(1, sizeof *o);
    int64_t n = model_params(m)->block_size;

    o->model = m;
    o->be = model_backend(m);
    o->spec = *spec;
    find_ranges(o);
    if ((o->moment[OPTIM_M] = alloc_f32(o, n, err)) &&
        (o->moment[OPTIM_V] = alloc_f32(o, n, err)) && (o->norm = alloc_f32(o, 1, err)))
        return o;
    optim_free(o);
    return NULL;
}

void optim_free(struct optim *o)
{
    if (!o)
        return;
    o->be->op->release(o->be, o->norm);
    o->be->op->release(o->be, o->moment[OPTIM_V]);
    o->be->op->release(o->be, o->moment[OPTIM_M]);
    free(o->ranges);
    free(o);
}

static double norm_of(struct optim *o, const struct f32 *x)
{
    double sum;

    o->be->op->sum_squares(o->be, o->norm, x, model_params(o->model)->block_size);
    o->be->op->download_f64(o->be, &sum, o->norm, 1);
    return sqrt(sum);
}

double optim_grad_norm(struct optim *o)
{
    return norm_of(o, model_gradients(o->model));
}

double optim_weight_norm(struct optim *o)
{
    return norm_of(o, model_weights(o->model));
}

void optim_step(struct optim *o, int64_t n, double lr, double grad_norm)
{
    const struct optim_spec *s = &o->spec;
    struct backend *be = o->be;
    struct act *copy = model_compute_copy(o->model);
    struct adamw a = {.lr = lr,
                      .beta1 = s->betas[0],
                      .beta2 = s->betas[1],
                      .eps = s->eps,
                      .bias1 = 1 - pow(s->betas[0], (double)n),
                      .bias2 = 1 - pow(s->betas[1], (double)n),
                      .grad_scale = 1};

    if (s->max_norm > 0 && grad_norm > s->max_norm)
        a.grad_scale = s->max_norm / grad_norm;
    for (int i = 0; i < o->n_ranges; i++) {
        const struct range *r = &o->ranges[i];

        a.weight_decay = r->decay ? s->weight_decay : 0;
        be->op->adamw_step(be, f32_at(be, model_weights(o->model), r->start),
                           copy ? act_at(be, copy, r->start) : NULL,
                           f32_at(be, o->moment[OPTIM_M], r->start),
                           f32_at(be, o->moment[OPTIM_V], r->start),
                           f32_at(be, model_gradients(o->model), r->start), r->size, a);
    }
}

void optim_set(struct optim *o, enum optim_moment which, const struct param *p, const float *src)
{
    o->be->op->upload(o->be, f32_at(o->be, o->moment[which], p->offset), src, p->size);
}

void optim_get(struct optim *o, enum optim_moment which, const struct param *p, float *dst)
{
    o->be->op->download(o->be, dst, f32_at(o->be, o->moment[which], p->offset), p->size);
}
