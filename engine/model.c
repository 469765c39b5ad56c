// Life of a model, its weights, and the two calls that run it.
#include "engine/model_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/buf.h"
#include "kernels/bug.h"

static void *alloc_block(struct model *m, int64_t bytes, const char *what, struct err *err)
{
    char size[UNIT_SIZE];
    void *p = m->be->op->alloc(m->be, (size_t)bytes);

    if (!p)
        err_set(err, "no memory for the %s: %s (%lld bytes) asked", what,
                unit_bytes(size, (double)bytes), (long long)bytes);
    return p;
}

static int alloc_blocks(struct model *m, struct err *err)
{
    struct model_sizes sizes = model_sizes_of(m->be);
    int64_t n = m->params.block_size, f32 = (int64_t)sizes.f32;
    int64_t bytes = (int64_t)model_lay_out(m, NULL, sizes);

    if (!(m->weights = alloc_block(m, n * f32, "weights", err)))
        return -1;
    m->compute = (struct act *)m->weights;
    if (!sizes.act_is_f32 &&
        !(m->compute = alloc_block(m, n * (int64_t)sizes.act, "compute copy of the weights", err)))
        return -1;
    if (!(m->gradients = alloc_block(m, n * f32, "gradients", err)) ||
        !(m->arena = alloc_block(m, bytes, "activations", err)))
        return -1;
    model_lay_out(m, m->arena, sizes);
    return 0;
}

// angle(pos, j) = pos * theta^(-2j/D), positions from 0
static void fill_rope_tables(struct model *m)
{
    int D = m->spec.model.head_dim, half = D / 2;
    double *cos_row = xcalloc((size_t)half + 1, sizeof *cos_row);
    double *sin_row = xcalloc((size_t)half + 1, sizeof *sin_row);

    for (int t = 0; t < m->T; t++) {
        for (int j = 0; j < half; j++) {
            double angle = t * pow(m->spec.model.rope_theta, -2.0 * j / D);

            cos_row[j] = cos(angle);
            sin_row[j] = sin(angle);
        }
        m->be->op->upload_f64(m->be, f32_at(m->be, m->cos, (int64_t)t * half), cos_row, half);
        m->be->op->upload_f64(m->be, f32_at(m->be, m->sin, (int64_t)t * half), sin_row, half);
    }
    free(cos_row);
    free(sin_row);
}

static void fill_positions(struct model *m)
{
    int32_t *pos = xcalloc((size_t)m->N, sizeof *pos);

    for (int64_t i = 0; i < m->N; i++)
        pos[i] = (int32_t)(i % m->T);
    m->be->op->upload_i32(m->be, m->positions, pos, m->N);
    free(pos);
}

// What profiles can say and this model cannot do yet.
static int refuse(const struct spec *s, struct err *err)
{
    const struct model_spec *m = &s->model;

    if (s->gate.enabled || m->norm_place == PLACE_SANDWICH || m->input_norm ||
        m->pos == POS_ALIBI || m->block_loops > 1 || m->reuse_inject ||
        s->train.recompute == RECOMPUTE_LAYER)
        return err_set(err,
                       "gates, sandwich and input norms, ALiBi, block recurrence and recompute "
                       "can be described but not yet computed");
    return 0;
}

struct model *model_new(struct backend *be, const struct spec *spec, struct err *err)
{
    struct model *m;

    if (refuse(spec, err) < 0)
        return NULL;
    m = xcalloc(1, sizeof *m);
    model_describe(m, spec);
    m->be = be;
    if (alloc_blocks(m, err) < 0) {
        model_free(m);
        return NULL;
    }
    m->host_losses = xcalloc((size_t)m->N, sizeof *m->host_losses);
    fill_positions(m);
    if (spec->model.pos == POS_ROPE)
        fill_rope_tables(m);
    return m;
}

void model_free(struct model *m)
{
    if (!m)
        return;
    m->be->op->release(m->be, m->arena);
    m->be->op->release(m->be, m->gradients);
    if (m->compute != (struct act *)m->weights)
        m->be->op->release(m->be, m->compute);
    m->be->op->release(m->be, m->weights);
    free(m->host_losses);
    model_undescribe(m);
    free(m);
}

const struct param_list *model_params(const struct model *m)
{
    return &m->params;
}
struct backend *model_backend(const struct model *m)
{
    return m->be;
}
int64_t model_rows(const struct model *m)
{
    return m->N;
}
struct f32 *model_weights(struct model *m)
{
    return m->weights;
}
struct f32 *model_gradients(struct model *m)
{
    return m->gradients;
}
struct act *model_compute_copy(struct model *m)
{
    return m->compute == (struct act *)m->weights ? NULL : m->compute;
}
void model_set_poll(struct model *m, model_poll *poll, void *user)
{
    m->poll = poll;
    m->poll_user = user;
}
void model_set_head_rows(struct model *m, int rows)
{
    BUG_IF(rows < 1 || rows > m->head_rows_max);
    m->head_rows = rows;
}

void model_weights_changed(struct model *m)
{
    if (model_compute_copy(m))
        m->be->op->cast_to_act(m->be, m->compute, m->weights, m->params.block_size);
}

void model_init_weights(struct model *m, uint64_t seed)
{
    int64_t largest = 0;
    float *host;

    for (int i = 0; i < m->params.n; i++)
        largest = m->params.v[i].size > largest ? m->params.v[i].size : largest;
    host = xcalloc((size_t)largest, sizeof *host);
    for (int i = 0; i < m->params.n; i++) {
        const struct param *p = &m->params.v[i];

        param_init(p, seed, host);
        m->be->op->upload(m->be, f32_at(m->be, m->weights, p->offset), host, p->size);
    }
    free(host);
    model_weights_changed(m);
}

void model_set_weight(struct model *m, const struct param *p, const float *src)
{
    struct f32 *w = f32_at(m->be, m->weights, p->offset);

    m->be->op->upload(m->be, w, src, p->size);
    if (model_compute_copy(m))
        m->be->op->cast_to_act(m->be, act_at(m->be, m->compute, p->offset), w, p->size);
}

void model_get_weight(struct model *m, const struct param *p, float *dst)
{
    m->be->op->download(m->be, dst, f32_at(m->be, m->weights, p->offset), p->size);
}

void model_get_gradient(struct model *m, const struct param *p, float *dst)
{
    m->be->op->download(m->be, dst, f32_at(m->be, m->gradients, p->offset), p->size);
}

void model_zero_gradients(struct model *m)
{
    m->be->op->fill(m->be, m->gradients, 0, m->params.block_size);
}

static int sync(struct model *m, struct err *err)
{
    char why[256] = "";

    if (m->be->op->sync(m->be, why, sizeof why) < 0)
        return err_set(err, "the %s backend failed: %s", m->be->name, why);
    return 0;
}

static void load(struct model *m, const int32_t *tokens, const int32_t *targets)
{
    m->abandoned = false;
    m->be->op->upload_i32(m->be, m->tokens, tokens, m->N);
    m->be->op->upload_i32(m->be, m->targets, targets, m->N);
}

// Rows with target -1 have loss 0.
static double sum_losses(struct model *m)
{
    double sum = 0;

    m->be->op->download_f64(m->be, m->host_losses, m->losses, m->N);
    for (int64_t i = 0; i < m->N; i++)
        sum += m->host_losses[i];
    return sum;
}

int model_forward_backward(struct model *m, const int32_t *tokens, const int32_t *targets,
                           double scale, double *loss_sum, struct err *err)
{
    load(m, tokens, targets);
    model_forward(m);
    model_head(m, scale, true);
    model_backward(m);
    if (sync(m, err) < 0)
        return -1;
    if (m->abandoned)
        return 1;
    *loss_sum = sum_losses(m);
    return 0;
}

int model_loss(struct model *m, const int32_t *tokens, const int32_t *targets, double *loss_sum,
               struct err *err)
{
    load(m, tokens, targets);
    model_forward(m);
    model_head(m, 0, false);
    if (sync(m, err) < 0)
        return -1;
    if (m->abandoned)
        return 1;
    *loss_sum = sum_losses(m);
    return 0;
}
