// Where everything lies: the steps of the model and the layout of the activation block. The layout
// runs twice over the same list, first to measure and then to assign.
#include "engine/model_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"

const struct model_sizes model_sizes_cpu = {sizeof(float), sizeof(float), true};

struct model_sizes model_sizes_of(const struct backend *be)
{
    return (struct model_sizes){be->act_size, be->f32_size, be->act_is_f32};
}

struct arena {
    char *base;
    size_t at;
    struct model_sizes size;
};

static void *take(struct arena *a, int64_t n, size_t elem)
{
    size_t at = a->at;

    a->at += ((size_t)n * elem + 63) / 64 * 64;
    return a->base ? a->base + at : NULL;
}

static struct act *take_act(struct arena *a, int64_t rows, int64_t cols)
{
    return take(a, rows * cols, a->size.act);
}

static struct f32 *take_f32(struct arena *a, int64_t n)
{
    return take(a, n, a->size.f32);
}

static struct norm_stat take_stat(struct arena *a, const struct model *m)
{
    struct norm_stat s = {NULL, take_f32(a, m->N)};

    if (m->spec.model.norm == NORM_LAYER)
        s.mean = take_f32(a, m->N);
    return s;
}

static void lay_out_step(struct arena *a, struct model *m, struct step *s)
{
    bool pre = model_is_pre(m), per_head = m->spec.model.qk_norm == QK_HEAD;

    s->in1 = pre ? take_act(a, m->N, m->C) : s->x;
    s->qkv = take_act(a, m->N, s->Q + 2 * s->K);
    if (m->spec.model.qk_norm != QK_NONE) {
        s->qk = take_act(a, m->N, s->Q + s->K);
        s->rstd_q = take_f32(a, m->N * (per_head ? s->H : 1));
        s->rstd_k = take_f32(a, m->N * (per_head ? s->G : 1));
    }
    s->att = take_act(a, m->N, s->Q);
    s->lse = take_f32(a, m->N * s->H);
    s->out1 = pre ? m->s.branch : take_act(a, m->N, m->C);
    s->mid = take_act(a, m->N, m->C);
    s->in2 = pre ? take_act(a, m->N, m->C) : s->mid;
    s->ab = take_act(a, m->N, s->W);
    s->h = take_act(a, m->N, s->F);
    s->out2 = pre ? m->s.branch : take_act(a, m->N, m->C);
    s->y = take_act(a, m->N, m->C);
    s->stat[0] = take_stat(a, m);
    s->stat[1] = take_stat(a, m);
}

static int largest(const struct model *m, int (*f)(const struct step *s))
{
    int max = 0;

    for (int i = 0; i < m->n_steps; i++)
        max = f(&m->steps[i]) > max ? f(&m->steps[i]) : max;
    return max;
}
static int width_qkv(const struct step *s)
{
    return s->Q + 2 * s->K;
}
static int width_q(const struct step *s)
{
    return s->Q;
}
static int width_ab(const struct step *s)
{
    return s->W;
}
static int width_h(const struct step *s)
{
    return s->F;
}

// Gradients of the attention, of the FFN and of the logits are never alive at the same time.
static void lay_out_scratch(struct arena *a, struct model *m)
{
    struct scratch *s = &m->s;
    size_t start = a->at, end;

    s->dqkv = take_act(a, m->N, largest(m, width_qkv));
    if (m->spec.model.qk_norm != QK_NONE)
        s->dqk = take_act(a, m->N, largest(m, width_qkv));
    s->datt = take_act(a, m->N, largest(m, width_q));
    end = a->at;
    a->at = start;
    s->dab = take_act(a, m->N, largest(m, width_ab));
    s->dh = take_act(a, m->N, largest(m, width_h));
    end = a->at > end ? a->at : end;
    a->at = start;
    s->logits = take_act(a, m->head_rows_max, m->V);
    a->at = a->at > end ? a->at : end;
}

size_t model_lay_out(struct model *m, char *base, struct model_sizes sizes)
{
    struct arena a = {.base = base, .size = sizes};
    int half = m->spec.model.head_dim / 2;

    m->tokens = take(&a, m->N, sizeof(int32_t));
    m->targets = take(&a, m->N, sizeof(int32_t));
    m->positions = take(&a, m->N, sizeof(int32_t));
    m->cos = take_f32(&a, (int64_t)m->T * half);
    m->sin = take_f32(&a, (int64_t)m->T * half);
    m->losses = take_f32(&a, m->N);
    m->s.branch = take_act(&a, m->N, m->C);
    m->s.dbranch = take_act(&a, m->N, m->C);
    m->s.dx = take_act(&a, m->N, m->C);
    m->embedded = take_act(&a, m->N, m->C);
    for (int i = 0; i < m->n_steps; i++) {
        m->steps[i].x = i ? m->steps[i - 1].y : m->embedded;
        lay_out_step(&a, m, &m->steps[i]);
    }
    m->final = take_act(&a, m->N, m->C);
    m->final_stat = take_stat(&a, m);
    lay_out_scratch(&a, m);
    return a.at;
}

// dW of the head reads and writes all of V x C for each chunk, so narrow models want longer chunks
// (measured: 1,024 rows at width 128, 256 at 768); small vocabularies fit whole.
static int choose_head_rows(const struct model *m)
{
    int64_t rows = (16 << 20) / (4 * (int64_t)m->V), least = m->C < 512 ? 1024 : 256;

    rows = rows > least ? rows : least;
    return (int)(rows < m->N ? rows : m->N);
}

static void describe_step(struct model *m, struct step *s, int layer, int repeat)
{
    const struct model_spec *ms = &m->spec.model;

    s->layer = layer;
    s->repeat = repeat;
    s->H = ms->lane[LANE_HEADS][layer];
    s->G = ms->lane[LANE_KV][layer];
    s->D = ms->head_dim;
    s->Q = s->H * s->D;
    s->K = s->G * s->D;
    s->F = ms->lane[LANE_FFN][layer];
    s->W = ms->act == ACT_SWIGLU ? 2 * s->F : s->F;
    s->p = m->layer[layer];
    s->ffn_in = s->p[ms->act == ACT_SWIGLU ? PARAM_GATE : PARAM_UP];
    s->ffn_in_bias = s->p[ms->act == ACT_SWIGLU ? PARAM_GATE_BIAS : PARAM_UP_BIAS];
}

// The fused products take neighbours as one matrix; param.h promises that they are.
static void check_neighbours(const struct param *a, const struct param *b)
{
    if (a && b && b->offset != a->offset + a->size)
        BUG("%s does not follow %s", b->name, a->name);
}

static void find_params(struct model *m)
{
    int n_layers = m->spec.model.n_layers;

    m->layer = xcalloc((size_t)n_layers, sizeof *m->layer);
    for (int role = 0; role < PARAM_ROLE_COUNT; role++) {
        m->top[role] = param_find(&m->params, role, -1);
        for (int l = 0; l < n_layers; l++)
            m->layer[l][role] = param_find(&m->params, role, l);
    }
    for (int l = 0; l < n_layers; l++) {
        const struct param **p = m->layer[l];

        check_neighbours(p[PARAM_Q], p[PARAM_K]);
        check_neighbours(p[PARAM_K], p[PARAM_V]);
        check_neighbours(p[PARAM_Q_BIAS], p[PARAM_K_BIAS]);
        check_neighbours(p[PARAM_K_BIAS], p[PARAM_V_BIAS]);
        check_neighbours(p[PARAM_GATE], p[PARAM_UP]);
        check_neighbours(p[PARAM_GATE_BIAS], p[PARAM_UP_BIAS]);
    }
}

void model_describe(struct model *m, const struct spec *spec)
{
    int at = 0;

    memset(m, 0, sizeof *m);
    m->spec = *spec;
    param_list_build(&m->params, &m->spec);
    m->B = spec->train.micro_batch_size;
    m->T = spec->train.seq_len;
    m->N = (int64_t)m->B * m->T;
    m->C = spec->model.d_model;
    m->V = spec_padded_vocab(&spec->model);
    m->head_rows = m->head_rows_max = choose_head_rows(m);
    find_params(m);
    m->n_steps = spec_reuse_total(&spec->model);
    m->steps = xcalloc((size_t)m->n_steps, sizeof *m->steps);
    for (int l = 0; l < spec->model.n_layers; l++)
        for (int r = 0; r < spec->model.lane[LANE_REUSE][l]; r++)
            describe_step(m, &m->steps[at++], l, r);
}

void model_undescribe(struct model *m)
{
    free(m->steps);
    free(m->layer);
    param_list_release(&m->params);
}

void model_plan(const struct spec *spec, struct model_sizes sizes, struct model_plan *plan)
{
    struct model *m = xcalloc(1, sizeof *m);
    int64_t n;

    model_describe(m, spec);
    n = m->params.block_size;
    *plan = (struct model_plan){
        .weights = n * (int64_t)sizes.f32,
        .compute = sizes.act_is_f32 ? 0 : n * (int64_t)sizes.act,
        .gradients = n * (int64_t)sizes.f32,
        .moments = 2 * n * (int64_t)sizes.f32,
        .activations = (int64_t)model_lay_out(m, NULL, sizes),
        .head_rows = m->head_rows_max,
    };
    plan->total =
        plan->weights + plan->compute + plan->gradients + plan->moments + plan->activations;
    model_undescribe(m);
    free(m);
}
