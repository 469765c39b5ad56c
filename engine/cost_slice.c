// Which small model is timed in place of the whole one.
#include "engine/cost_impl.h"

#include <string.h>

#include "engine/buf.h"
#include "engine/count.h"

// Floors of what shrinks: below them the ops no longer run as they do in the whole model.
enum { ROWS_WANTED = 2048, VOCAB_WANTED = 8192, SEQ_LEAST = 256, VOCAB_LEAST = 2048 };

double slice_attention_work(const struct spec *s, int layer)
{
    struct count_terms t = count_terms(s, layer);
    int matrices = s->model.act == ACT_SWIGLU ? 3 : 2;

    return t.lin + t.attn - 2.0 * s->model.d_model * matrices * s->model.lane[LANE_FFN][layer];
}

static void find_corners(struct slice *c, const struct spec *s)
{
    const int *ffn = s->model.lane[LANE_FFN];

    for (int i = 1; i < s->model.n_layers; i++) {
        double work = slice_attention_work(s, i);

        if (work < slice_attention_work(s, c->low_attention))
            c->low_attention = i;
        if (work > slice_attention_work(s, c->high_attention))
            c->high_attention = i;
        c->low_ffn = ffn[i] < ffn[c->low_ffn] ? i : c->low_ffn;
        c->high_ffn = ffn[i] > ffn[c->high_ffn] ? i : c->high_ffn;
    }
    c->which[c->n_corners++] = CORNER_LOW;
    if (slice_attention_work(s, c->high_attention) > slice_attention_work(s, c->low_attention))
        c->which[c->n_corners++] = CORNER_ATTENTION;
    if (ffn[c->high_ffn] > ffn[c->low_ffn])
        c->which[c->n_corners++] = CORNER_FFN;
}

// The corners in turn. The first and the last layer are the low corner: what comes before and after
// the layers is told from them by what the same layer takes elsewhere.
static void set_layers(struct slice *c, const struct spec *full, int n)
{
    struct model_spec *m = &c->spec.model;

    m->n_layers = n;
    for (int i = 0; i < n; i++) {
        int which = c->which[i == n - 1 ? 0 : i % c->n_corners];
        int attention = which == CORNER_ATTENTION ? c->high_attention : c->low_attention;
        int ffn = which == CORNER_FFN ? c->high_ffn : c->low_ffn;

        c->corner[i] = which;
        m->lane[LANE_HEADS][i] = full->model.lane[LANE_HEADS][attention];
        m->lane[LANE_KV][i] = full->model.lane[LANE_KV][attention];
        m->lane[LANE_FFN][i] = full->model.lane[LANE_FFN][ffn];
        m->lane[LANE_REUSE][i] = 1;
    }
}

// Mirrored gates want an even number.
static int least_layers(const struct slice *c)
{
    int n = c->n_corners + 1;

    return c->spec.gate.enabled ? (n + 1) / 2 * 2 : n;
}

// The alignment of the rows of logits stays what it is.
static int half_vocab(int vocab)
{
    return (vocab / 2 + 63) / 64 * 64 + vocab % 64;
}

static bool shrink_rows(struct train_spec *t, int rows)
{
    if (t->micro_batch_size == 1 || (int64_t)t->micro_batch_size * t->seq_len <= rows)
        return false;
    t->global_batch_size = t->micro_batch_size = (t->micro_batch_size + 1) / 2;
    return true;
}

static bool shrink_vocab(struct model_spec *m, int least)
{
    if (half_vocab(m->vocab) < least)
        return false;
    m->vocab = half_vocab(m->vocab);
    return true;
}

// One notch, what distorts least first; false at the end.
static bool shrink(struct slice *c, const struct spec *full)
{
    struct train_spec *t = &c->spec.train;
    int layers = c->spec.model.n_layers, least = least_layers(c);

    if (layers > least) {
        int n = (layers / 2 + 1) / 2 * 2;

        set_layers(c, full, n > least ? n : least);
        return true;
    }
    if (shrink_rows(t, ROWS_WANTED) || shrink_vocab(&c->spec.model, VOCAB_WANTED) ||
        shrink_rows(t, 1))
        return true;
    if (t->seq_len >= 2 * SEQ_LEAST) {
        t->seq_len /= 2;
        return true;
    }
    return shrink_vocab(&c->spec.model, VOCAB_LEAST);
}

static bool is_small(const struct spec *s, struct model_sizes sizes, double flops, double bytes)
{
    struct count *n = xmalloc(sizeof *n);
    struct model_plan plan;
    double work;

    count_model(s, n);
    work = n->train_per_token * s->train.micro_batch_size * s->train.seq_len;
    model_plan(s, sizes, &plan);
    free(n);
    return work <= flops && (double)plan.total <= bytes;
}

void slice_choose(struct slice *c, const struct spec *full, struct model_sizes sizes, double flops,
                  double bytes)
{
    struct model_spec *m = &c->spec.model;
    struct model_plan plan;
    int most = spec_step_count(&full->model);

    memset(c, 0, sizeof *c);
    c->spec = *full;
    m->vocab = spec_padded_vocab(&full->model);
    m->vocab_pad = 1;
    m->block_loops = 1;
    m->block_inject = m->reuse_inject = INJECT_NONE;
    c->spec.train.global_batch_size = c->spec.train.micro_batch_size;
    find_corners(c, full);
    most = most > SPEC_MAX_LAYERS ? SPEC_MAX_LAYERS : most / 2 * 2;
    set_layers(c, full, most > least_layers(c) ? most : least_layers(c));
    while (!is_small(&c->spec, sizes, flops, bytes) && shrink(c, full))
        ;
    model_plan(full, sizes, &plan);
    c->head_rows = plan.head_rows;
    model_plan(&c->spec, sizes, &plan);
    if (c->head_rows > plan.head_rows)
        c->head_rows = plan.head_rows;
}
