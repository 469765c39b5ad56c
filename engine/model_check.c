// After a loss or gradient that is not finite: which tensor went bad first?
#include "engine/model_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/buf.h"

enum { CHECK_ELEMS = 1 << 16 };

struct check {
    struct model *m;
    struct f32 *piece; // CHECK_ELEMS, to convert activations
    double *host;
    char *name;
    size_t size;
};

static bool f32_is_finite(struct check *c, const struct f32 *x, int64_t n)
{
    struct backend *be = c->m->be;

    for (int64_t at = 0; at < n; at += CHECK_ELEMS) {
        int64_t count = n - at < CHECK_ELEMS ? n - at : CHECK_ELEMS;

        be->op->download_f64(be, c->host, f32_at(be, x, at), count);
        for (int64_t i = 0; i < count; i++)
            if (!isfinite(c->host[i]))
                return false;
    }
    return true;
}

static bool act_is_finite(struct check *c, const struct act *x, int64_t n)
{
    struct backend *be = c->m->be;

    for (int64_t at = 0; at < n; at += CHECK_ELEMS) {
        int64_t count = n - at < CHECK_ELEMS ? n - at : CHECK_ELEMS;

        be->op->cast_to_f32(be, c->piece, act_at(be, x, at), count);
        if (!f32_is_finite(c, c->piece, count))
            return false;
    }
    return true;
}

static bool bad_act(struct check *c, const struct step *s, const char *what, const struct act *x,
                    int64_t cols)
{
    if (!x || act_is_finite(c, x, c->m->N * cols))
        return false;
    if (!s)
        snprintf(c->name, c->size, "%s", what);
    else if (c->m->spec.model.lane[LANE_REUSE][s->layer] > 1)
        snprintf(c->name, c->size, "layer %d (repetition %d) %s", s->layer, s->repeat + 1, what);
    else
        snprintf(c->name, c->size, "layer %d %s", s->layer, what);
    return true;
}

static bool bad_weights(struct check *c, int layer)
{
    struct model *m = c->m;

    for (int i = 0; i < m->params.n; i++) {
        const struct param *p = &m->params.v[i];

        if (p->layer != layer || f32_is_finite(c, f32_at(m->be, m->weights, p->offset), p->size))
            continue;
        snprintf(c->name, c->size, "weight %s", p->name);
        return true;
    }
    return false;
}

static bool bad_branch(struct check *c, const struct step *s, enum branch b)
{
    static const char *const in[] = {"attention input norm", "mlp input norm"};
    static const char *const out[] = {"self_attn.o_proj", "mlp.down_proj"};
    static const char *const y[] = {"stream after attention", "stream after mlp"};
    const struct residual *r = &s->r[b];
    int C = c->m->C;
    bool owns_out = r->out != c->m->s.branch;

    if (r->in != r->x && bad_act(c, s, in[b], r->in, C))
        return true;
    if (b == ATTENTION && (bad_act(c, s, "self_attn.qkv", s->qkv, s->Q + 2 * s->K) ||
                           bad_act(c, s, "self_attn query/key norm", s->qk, s->Q + s->K) ||
                           bad_act(c, s, "self_attn mix", s->att, s->Q)))
        return true;
    if (b == FFN &&
        (bad_act(c, s, "mlp.gate_up", s->ab, s->W) || bad_act(c, s, "mlp hidden", s->h, s->F)))
        return true;
    return (owns_out && bad_act(c, s, out[b], r->out, C)) || bad_act(c, s, y[b], r->y, C);
}

static bool bad_gate(struct check *c, const struct step *s)
{
    if (!s->opens_gate || f32_is_finite(c, c->m->gates[s->gate].sum, c->m->N))
        return false;
    snprintf(c->name, c->size, "layer %d gate", s->layer);
    return true;
}

// Where the steps share their buffers, only the last one's values are left: compute again.
static void bring_back(struct check *c, struct step *s)
{
    if (model_keeps_all(c->m))
        return;
    model_inject(c->m, s);
    model_step(c->m, s);
}

static bool bad_step(struct check *c, struct step *s)
{
    bring_back(c, s);
    return bad_weights(c, s->layer) || bad_gate(c, s) ||
           (model_has(s, ATTENTION) && bad_branch(c, s, ATTENTION)) ||
           (model_has(s, FFN) && bad_branch(c, s, FFN));
}

static bool bad_forward(struct check *c)
{
    struct model *m = c->m;

    if (bad_weights(c, -1))
        return true;
    if (!model_keeps_all(m))
        model_embed(m);
    if (bad_act(c, NULL, "embedding output", m->embedded, m->C))
        return true;
    for (int i = 0; i < m->n_steps; i++)
        if (bad_step(c, &m->steps[i]))
            return true;
    if (bad_act(c, NULL, "final norm output", m->final, m->C))
        return true;
    if (f32_is_finite(c, m->losses, m->N))
        return false;
    snprintf(c->name, c->size, "logits");
    return true;
}

static bool bad_gradient(struct check *c, const struct param *p)
{
    struct model *m = c->m;

    if (!p || !m->gradients || f32_is_finite(c, model_dw(m, p), p->size))
        return false;
    snprintf(c->name, c->size, "grad of %s", p->name);
    return true;
}

// Within a layer the list is walked backwards too: FFN before attention.
static bool bad_backward(struct check *c)
{
    struct model *m = c->m;

    if (bad_gradient(c, m->top[PARAM_HEAD]) || bad_gradient(c, m->top[PARAM_FINAL_NORM]) ||
        bad_gradient(c, m->top[PARAM_FINAL_NORM_BIAS]))
        return true;
    for (int i = m->params.n - 1; i >= 0; i--)
        if (m->params.v[i].layer >= 0 && bad_gradient(c, &m->params.v[i]))
            return true;
    return bad_gradient(c, m->top[PARAM_EMBED_NORM]) ||
           bad_gradient(c, m->top[PARAM_EMBED_NORM_BIAS]) ||
           bad_gradient(c, m->top[PARAM_POSITION]) || bad_gradient(c, m->top[PARAM_EMBED]);
}

bool model_first_nonfinite(struct model *m, char *name, size_t size)
{
    struct check c = {.m = m, .name = name, .size = size};
    bool bad;

    snprintf(name, size, "%s", "");
    c.piece = m->be->op->alloc(m->be, CHECK_ELEMS * m->be->f32_size);
    if (!c.piece) {
        snprintf(name, size, "unknown (no memory to look for it)");
        return true;
    }
    c.host = xcalloc(CHECK_ELEMS, sizeof *c.host);
    bad = bad_forward(&c) || bad_backward(&c);
    free(c.host);
    m->be->op->release(m->be, c.piece);
    return bad;
}
