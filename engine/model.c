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
    if (m->use == MODEL_TRAIN && !(m->gradients = alloc_block(m, n * f32, "gradients", err)))
        return -1;
    if (!(m->arena = alloc_block(m, bytes, "activations", err)))
        return -1;
    model_lay_out(m, m->arena, sizes);
    return 0;
}

struct model *model_new_for(struct backend *be, const struct spec *spec, enum model_use use,
                            struct err *err)
{
    struct model *m = xcalloc(1, sizeof *m);

    BUG_IF(use == MODEL_DECODE && spec->train.micro_batch_size != 1);
    model_describe(m, spec, use);
    m->be = be;
    if (alloc_blocks(m, err) < 0) {
        model_free(m);
        return NULL;
    }
    m->host_losses = xcalloc((size_t)m->N, sizeof *m->host_losses);
    model_fill_tables(m);
    model_set_penalty(m, spec->gate.alpha, spec->gate.beta);
    return m;
}

struct model *model_new(struct backend *be, const struct spec *spec, struct err *err)
{
    return model_new_for(be, spec, MODEL_TRAIN, err);
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

int model_sync(struct model *m, struct err *err)
{
    char why[256] = "";

    if (m->be->op->sync(m->be, why, sizeof why) < 0)
        return err_set(err, "the %s backend failed: %s", m->be->name, why);
    return 0;
}

static void load(struct model *m, const int32_t *tokens, const int32_t *targets)
{
    m->abandoned = false;
    m->rows = m->N;
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
    BUG_IF(m->use != MODEL_TRAIN);
    if (m->n_gates && m->spec.gate.attn == GATE_ATTN_HARD)
        return err_set(err, "gate.attn hard drops keys and has no gradient: train with key");
    load(m, tokens, targets);
    model_forward(m);
    model_gate_measure(m);
    model_head(m, scale, true);
    model_gate_begin_backward(m, scale);
    model_backward(m);
    if (model_sync(m, err) < 0)
        return -1;
    if (m->abandoned)
        return 1;
    *loss_sum = sum_losses(m);
    return 0;
}

// After a forward pass and the head without gradients.
static int finish_loss(struct model *m, double *loss_sum, struct err *err)
{
    if (model_sync(m, err) < 0)
        return -1;
    if (m->abandoned)
        return 1;
    *loss_sum = sum_losses(m);
    return 0;
}

int model_loss(struct model *m, const int32_t *tokens, const int32_t *targets, double *loss_sum,
               struct err *err)
{
    BUG_IF(m->use == MODEL_DECODE);
    load(m, tokens, targets);
    model_forward(m);
    model_gate_measure(m);
    model_head(m, 0, false);
    return finish_loss(m, loss_sum, err);
}

static void download_logits(struct model *m, struct f32 *copy, float *logits)
{
    struct backend *be = m->be;

    for (int64_t row = 0; row < m->N && !m->abandoned; row += m->head_rows) {
        int64_t rows = m->N - row < m->head_rows ? m->N - row : m->head_rows;

        model_logits_chunk(m, row, rows);
        be->op->cast_to_f32(be, copy, m->s.logits, rows * m->V);
        be->op->download(be, logits + row * m->V, copy, rows * m->V);
    }
}

int model_logits(struct model *m, const int32_t *tokens, const int32_t *targets, float *logits,
                 double *loss_sum, struct err *err)
{
    int64_t bytes = (int64_t)m->head_rows * m->V * (int64_t)m->be->f32_size;
    struct f32 *copy = alloc_block(m, bytes, "copy of the logits", err);
    int rc;

    if (!copy)
        return -1;
    rc = model_loss(m, tokens, targets, loss_sum, err);
    if (!rc)
        download_logits(m, copy, logits);
    m->be->op->release(m->be, copy);
    return rc;
}

void model_stream_norms(struct model *m, double *norms)
{
    const struct ops *op = m->be->op;
    int L = m->spec.model.n_layers;

    BUG_IF(m->use != MODEL_TRAIN); // elsewhere the stream is overwritten
    for (int i = m->n_steps - spec_reuse_total(&m->spec.model); i < m->n_steps; i++) {
        const struct step *s = &m->steps[i];

        op->row_norms(m->be, f32_at(m->be, m->norms, s->layer), s->r[FFN].y, m->N, m->C);
    }
    op->download_f64(m->be, norms, m->norms, L);
}
