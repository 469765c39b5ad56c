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

// No machine has as much; sums of several such sizes are still numbers.
static const size_t arena_most = INT64_MAX / 8;

static void *take(struct arena *a, int64_t n, size_t elem)
{
    size_t at = a->at, bytes = ((size_t)n * elem + 63) / 64 * 64;

    a->at = bytes < arena_most - at ? at + bytes : arena_most;
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

// Queries, keys and values: what decoding keeps.
static void lay_out_keys(struct arena *a, struct model *m, struct step *s)
{
    if (!model_has(s, ATTENTION))
        return;
    s->qkv = take_act(a, m->N, s->Q + 2 * s->K);
    if (m->spec.model.qk_norm != QK_NONE)
        s->qk = take_act(a, m->N, s->Q + s->K);
}

// The output of a branch is needed again by the norm behind it and by the gate.
static void lay_out_residual(struct arena *a, struct model *m, struct step *s, enum branch b)
{
    const struct model_spec *ms = &m->spec.model;
    struct residual *r = &s->r[b];

    r->in = r->x;
    r->out = m->s.branch;
    if (spec_norm_before(ms)) {
        r->in = take_act(a, m->N, m->C);
        r->in_stat = take_stat(a, m);
    }
    if (spec_norm_after(ms))
        r->out_stat = take_stat(a, m);
    if (spec_norm_after(ms) || s->gate >= 0)
        r->out = take_act(a, m->N, m->C);
}

static void lay_out_attention(struct arena *a, struct model *m, struct step *s)
{
    bool per_head = m->spec.model.qk_norm == QK_HEAD;

    lay_out_residual(a, m, s, ATTENTION);
    if (m->spec.model.qk_norm != QK_NONE) {
        s->rstd_q = take_f32(a, m->N * (per_head ? s->H : 1));
        s->rstd_k = take_f32(a, m->N * (per_head ? s->G : 1));
    }
    s->att = take_act(a, m->N, s->Q);
    s->lse = take_f32(a, m->N * s->H);
}

// The stream between the branches is a buffer of its own where the layer has both.
static void lay_out_inner(struct arena *a, struct model *m, struct step *s)
{
    struct residual *r = s->r;
    bool has_attention = model_has(s, ATTENTION), has_ffn = model_has(s, FFN);

    if (has_attention)
        lay_out_attention(a, m, s);
    r[FFN].x = !has_attention ? r[ATTENTION].x : has_ffn ? take_act(a, m->N, m->C) : r[FFN].y;
    r[ATTENTION].y = r[FFN].x;
    if (!has_ffn)
        return;
    lay_out_residual(a, m, s, FFN);
    s->ab = take_act(a, m->N, s->W);
    s->h = take_act(a, m->N, s->F);
}

// Where a backward pass needs nothing of a step, the steps share one place for it.
static void lay_out_shared(struct arena *a, struct model *m)
{
    size_t start, end;

    for (int i = 0; m->use == MODEL_DECODE && i < m->n_steps; i++)
        lay_out_keys(a, m, &m->steps[i]);
    start = end = a->at;
    for (int i = 0; i < m->n_steps; i++) {
        a->at = start;
        if (m->use != MODEL_DECODE)
            lay_out_keys(a, m, &m->steps[i]);
        lay_out_inner(a, m, &m->steps[i]);
        end = a->at > end ? a->at : end;
    }
    a->at = end;
}

// The stream between the steps. Without a backward pass three buffers take turns: the one that a
// step reads, the one that it writes, and the input of a layer's first repetition for reuse_inject.
static void lay_out_stream(struct arena *a, struct model *m)
{
    struct act *turn[3] = {NULL}, *x = m->embedded, *first = x;
    bool train = m->use == MODEL_TRAIN;

    for (int i = 0; i < 3 && !train; i++)
        turn[i] = take_act(a, m->N, m->C);
    for (int i = 0; i < m->n_steps; i++) {
        struct step *s = &m->steps[i];
        int t = 0;

        first = s->repeat ? first : x;
        while (!train && (turn[t] == x || turn[t] == first) && t < 2)
            t++;
        s->r[ATTENTION].x = x;
        s->r[FFN].y = x = train ? take_act(a, m->N, m->C) : turn[t];
        if (s->loop && !s->layer && !s->repeat && m->spec.model.block_inject == INJECT_ADD)
            s->inject = m->embedded;
        if (s->repeat && m->spec.model.reuse_inject == INJECT_ADD)
            s->inject = first;
    }
}

static void lay_out_gates(struct arena *a, struct model *m)
{
    bool train = m->use == MODEL_TRAIN;

    m->stats = take_f32(a, (int64_t)m->n_gates * GATE_STATS);
    for (int i = 0; i < m->n_gates; i++) {
        struct gate *g = &m->gates[i];

        g->sum = take_f32(a, m->N);
        g->g = take_f32(a, m->N);
        g->logg = take_f32(a, m->N);
        g->dg = train ? take_f32(a, m->N) : NULL;
        g->dlogg = train ? take_f32(a, m->N) : NULL;
    }
    m->s.dsum = train && m->n_gates ? take_f32(a, m->N) : NULL;
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
    bool train = m->use == MODEL_TRAIN;
    size_t start = a->at, end = start;

    if (train) {
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
    }
    s->logits = take_act(a, m->head_rows_max, m->V);
    a->at = a->at > end ? a->at : end;
    if (m->use == MODEL_DECODE)
        s->last_logits = take_f32(a, m->V);
}

static void lay_out_tables(struct arena *a, struct model *m)
{
    m->tokens = take(a, m->N, sizeof(int32_t));
    m->targets = take(a, m->N, sizeof(int32_t));
    m->positions = take(a, m->N, sizeof(int32_t));
    m->cos = take_f32(a, (int64_t)m->T * (m->spec.model.head_dim / 2));
    m->sin = take_f32(a, (int64_t)m->T * (m->spec.model.head_dim / 2));
    if (m->spec.model.pos == POS_ALIBI)
        m->slopes = take_f32(a, (int64_t)m->spec.model.n_layers * model_most_heads(m));
    for (int i = 0; m->slopes && i < m->n_steps; i++)
        m->steps[i].slopes =
            (struct f32 *)((char *)m->slopes +
                           a->size.f32 * (size_t)m->steps[i].layer * (size_t)model_most_heads(m));
    m->losses = take_f32(a, m->N);
    m->norms = take_f32(a, m->spec.model.n_layers);
}

// The gradient of the stream, and what goes with it.
static void lay_out_gradients(struct arena *a, struct model *m)
{
    const struct model_spec *ms = &m->spec.model;

    m->s.dbranch = take_act(a, m->N, m->C);
    m->s.dx = take_act(a, m->N, m->C);
    if (ms->block_loops > 1 && ms->block_inject == INJECT_ADD)
        m->s.dembedded = take_act(a, m->N, m->C);
    if (ms->reuse_inject == INJECT_ADD && spec_reuse_total(ms) > ms->n_layers)
        m->s.dfirst = take_act(a, m->N, m->C);
}

size_t model_lay_out(struct model *m, char *base, struct model_sizes sizes)
{
    struct arena a = {.base = base, .size = sizes};

    lay_out_tables(&a, m);
    m->s.branch = take_act(&a, m->N, m->C);
    if (m->use == MODEL_TRAIN)
        lay_out_gradients(&a, m);
    m->raw = m->embedded = take_act(&a, m->N, m->C);
    if (m->spec.model.input_norm) {
        m->embedded = take_act(&a, m->N, m->C);
        m->embed_stat = take_stat(&a, m);
    }
    lay_out_stream(&a, m);
    lay_out_gates(&a, m);
    for (int i = 0; model_keeps_all(m) && i < m->n_steps; i++) {
        lay_out_keys(&a, m, &m->steps[i]);
        lay_out_inner(&a, m, &m->steps[i]);
    }
    if (!model_keeps_all(m))
        lay_out_shared(&a, m);
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

int model_most_heads(const struct model *m)
{
    int most = 0;

    for (int i = 0; i < m->spec.model.n_layers; i++)
        if (m->spec.model.lane[LANE_HEADS][i] > most)
            most = m->spec.model.lane[LANE_HEADS][i];
    return most;
}

// loop, layer and repeat are set
static void describe_step(struct model *m, struct step *s)
{
    const struct model_spec *ms = &m->spec.model;
    int layer = s->layer;

    s->gate = m->n_gates ? spec_gate_of(ms, layer) : -1;
    s->opens_gate = s->gate == layer && s->repeat == 0 && s->loop == 0;
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

static void check_layer(const struct param **p)
{
    check_neighbours(p[PARAM_Q], p[PARAM_K]);
    check_neighbours(p[PARAM_K], p[PARAM_V]);
    check_neighbours(p[PARAM_Q_BIAS], p[PARAM_K_BIAS]);
    check_neighbours(p[PARAM_K_BIAS], p[PARAM_V_BIAS]);
    check_neighbours(p[PARAM_GATE], p[PARAM_UP]);
    check_neighbours(p[PARAM_GATE_BIAS], p[PARAM_UP_BIAS]);
}

static void find_params(struct model *m)
{
    int n_layers = m->spec.model.n_layers;

    m->layer = xcalloc((size_t)n_layers, sizeof *m->layer);
    for (int i = 0; i < m->params.n; i++) {
        const struct param *p = &m->params.v[i];

        (p->layer < 0 ? m->top : m->layer[p->layer])[p->role] = p;
    }
    for (int l = 0; l < n_layers; l++)
        check_layer(m->layer[l]);
}

static void describe_gates(struct model *m)
{
    m->n_gates = spec_gate_count(&m->spec);
    m->gates = xcalloc((size_t)m->n_gates + 1, sizeof *m->gates);
    m->stat = xcalloc((size_t)m->n_gates + 1, sizeof *m->stat);
    for (int i = 0; i < m->n_gates; i++) {
        m->gates[i].weight = m->layer[i][PARAM_SKIP];
        m->gates[i].bias = m->layer[i][PARAM_SKIP_BIAS];
    }
}

static void describe_steps(struct model *m)
{
    const struct model_spec *ms = &m->spec.model;
    int at = 0;

    m->n_steps = spec_step_count(ms);
    m->steps = xcalloc((size_t)m->n_steps, sizeof *m->steps);
    for (int loop = 0; loop < ms->block_loops; loop++)
        for (int l = 0; l < ms->n_layers; l++)
            for (int r = 0; r < ms->lane[LANE_REUSE][l]; r++) {
                m->steps[at] = (struct step){.loop = loop, .layer = l, .repeat = r};
                describe_step(m, &m->steps[at++]);
            }
}

void model_describe(struct model *m, const struct spec *spec, enum model_use use)
{
    memset(m, 0, sizeof *m);
    m->spec = *spec;
    m->use = use;
    param_list_build(&m->params, &m->spec);
    m->B = spec->train.micro_batch_size;
    m->T = spec->train.seq_len;
    m->N = m->rows = (int64_t)m->B * m->T;
    m->C = spec->model.d_model;
    m->V = spec_padded_vocab(&spec->model);
    m->head_rows = m->head_rows_max = choose_head_rows(m);
    find_params(m);
    describe_gates(m);
    describe_steps(m);
}

void model_undescribe(struct model *m)
{
    free(m->steps);
    free(m->stat);
    free(m->gates);
    free(m->layer);
    param_list_release(&m->params);
}

void model_plan_for(const struct spec *spec, enum model_use use, struct model_sizes sizes,
                    struct model_plan *plan)
{
    struct model *m = xcalloc(1, sizeof *m);
    int64_t n, trained;

    model_describe(m, spec, use);
    n = m->params.block_size;
    trained = use == MODEL_TRAIN ? n : 0;
    *plan = (struct model_plan){
        .weights = n * (int64_t)sizes.f32,
        .compute = sizes.act_is_f32 ? 0 : n * (int64_t)sizes.act,
        .gradients = trained * (int64_t)sizes.f32,
        .moments = 2 * trained * (int64_t)sizes.f32,
        .activations = (int64_t)model_lay_out(m, NULL, sizes),
        .head_rows = m->head_rows_max,
    };
    if (use == MODEL_TRAIN)
        m->spec.train.recompute = RECOMPUTE_LAYER;
    plan->activations_recompute = (int64_t)model_lay_out(m, NULL, sizes);
    plan->total =
        plan->weights + plan->compute + plan->gradients + plan->moments + plan->activations;
    model_undescribe(m);
    free(m);
}

void model_plan(const struct spec *spec, struct model_sizes sizes, struct model_plan *plan)
{
    model_plan_for(spec, MODEL_TRAIN, sizes, plan);
}
