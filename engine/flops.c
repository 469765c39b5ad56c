#include "engine/flops.h"

#include <string.h>

#include "engine/count_active.h"

struct widths {
    double d, S, q, k, f, heads;
    int matrices; // of the FFN
};

static struct widths widths_of(const struct spec *s, int layer)
{
    const struct model_spec *m = &s->model;

    return (struct widths){
        .d = m->d_model,
        .S = s->train.seq_len,
        .q = (double)m->lane[LANE_HEADS][layer] * m->head_dim,
        .k = (double)m->lane[LANE_KV][layer] * m->head_dim,
        .f = m->lane[LANE_FFN][layer],
        .heads = m->lane[LANE_HEADS][layer],
        .matrices = m->act == ACT_SWIGLU ? 3 : 2,
    };
}

static double house(const struct spec *s, const struct count *c, double sparsity)
{
    double each[SPEC_MAX_LAYERS];

    if (sparsity == 0)
        return c->forward_per_token * s->train.seq_len;
    for (int i = 0; i < s->model.n_layers; i++)
        each[i] = sparsity;
    return count_active_train_flops(s, each) / 3 * s->train.seq_len;
}

// Parameters without position and untied input table, and those of further runs of a layer again.
static double repeated_params(const struct spec *s, const struct count *c)
{
    double n = (double)c->non_embedding;

    if (s->model.tie_embeddings)
        n += (double)spec_padded_vocab(&s->model) * s->model.d_model; // as output matrix
    for (int i = 0; i < s->model.n_layers; i++)
        n += (count_runs(&s->model, i) - 1) * (double)c->layer[i].params;
    return n;
}

static double palm(const struct spec *s, const struct count *c, double sparsity)
{
    double S = s->train.seq_len, sum = 2 * repeated_params(s, c);

    (void)sparsity;
    for (int i = 0; i < s->model.n_layers; i++)
        sum += count_runs(&s->model, i) * 4 * S * widths_of(s, i).q;
    return S * sum;
}

static double chinchilla(const struct spec *s, const struct count *c, double sparsity)
{
    double table = c->head_flops * s->train.seq_len, sum = 2 * table;

    (void)sparsity;
    for (int i = 0; i < s->model.n_layers; i++) {
        struct widths w = widths_of(s, i);
        double qkv = 2 * w.S * w.d * (w.q + 2 * w.k), out = 2 * w.S * w.q * w.d;
        double scores = 2 * w.S * w.S * w.q, softmax = 3 * w.heads * w.S * w.S;

        sum += count_runs(&s->model, i) *
               (qkv + 2 * scores + softmax + out + 2 * w.matrices * w.S * w.d * w.f);
    }
    return sum;
}

static double kaplan(const struct spec *s, const struct count *c, double sparsity)
{
    double S = s->train.seq_len, sum = 0;

    (void)c;
    (void)sparsity;
    for (int i = 0; i < s->model.n_layers; i++)
        sum += count_runs(&s->model, i) * (count_terms(s, i).lin + 2 * S * widths_of(s, i).q);
    return S * sum;
}

static double paper_a(const struct spec *s, const struct count *c, double sparsity)
{
    double S = s->train.seq_len, sum = 2 * (double)c->non_embedding;

    (void)sparsity;
    for (int i = 0; i < s->model.n_layers; i++) {
        double runs = count_runs(&s->model, i);
        double scores = spec_has_attention(&s->model, i) ? 4 * S * s->model.d_model : 0;

        sum += 2 * (runs - 1) * (double)c->layer[i].params + runs * scores;
    }
    return S * sum;
}

// ---- paper B's estimator: square root 8, exponential 10, softmax 12 per score, SiLU 14 -----------

static double b_norm(double S, double d)
{
    return S * (4 * d + 2 + 8);
}

static double b_block(const struct spec *s, int layer)
{
    struct widths w = widths_of(s, layer);
    const struct model_spec *m = &s->model;
    double S = w.S, d = w.d;
    double rest = (spec_norm_before(m) + spec_norm_after(m)) * b_norm(S, d) + 2 * S * d;
    double ffn = 2 * w.matrices * S * d * w.f + S * w.f * 14 + (w.matrices == 3 ? S * w.f : 0);
    double attn = 2 * S * d * w.q + 4 * S * d * w.k + 3 * S * w.q + 3 * S * w.k + 4 * S * S * d +
                  w.heads * S * S * (1 + 1 + 12) + 2 * S * d * d;

    return (spec_has_attention(m, layer) ? attn + rest : 0) +
           (spec_has_ffn(m, layer) ? ffn + rest : 0);
}

static double b_total(const struct spec *s, double sparsity, double twice)
{
    const struct model_spec *m = &s->model;
    double S = s->train.seq_len, d = m->d_model, blocks = 0;
    double total = (1 + m->input_norm) * b_norm(S, d) + 2 * S * d * spec_padded_vocab(m);

    if (spec_gate_count(s))
        total += m->n_layers * S * d + (spec_gate_count(s) - 1) * S;
    for (int i = 0; i < m->n_layers; i++)
        blocks += count_runs(m, i) * b_block(s, i);
    return total + twice * (1 - sparsity) * blocks;
}

static double released_b(const struct spec *s, const struct count *c, double sparsity)
{
    (void)c;
    return b_total(s, sparsity, 2);
}

static double corrected_b(const struct spec *s, const struct count *c, double sparsity)
{
    (void)c;
    return b_total(s, sparsity, 1);
}

const struct flops_convention flops_conventions[] = {
    {"house", "lathe's own standard, everywhere else",
     "matrix products, full attention, output matrix", true, 3, house},
    {"palm", "PaLM (2204.02311) appendix B, nanoGPT",
     "2 N + 4 S sum q; N: all but positions, vocabulary once", false, 3, palm},
    {"chinchilla", "Chinchilla (2203.15556) appendix F",
     "embedding as a product too, 3 per softmax score", false, 3, chinchilla},
    {"kaplan", "Kaplan et al. (2001.08361) table 1",
     "2 N + 2 L S d_attn; no head, no norms, half of attention", false, 3, kaplan},
    {"released-a", "layer-wise scaling, released code", "2 N + 4 L S d: every layer with all heads",
     false, 3, paper_a},
    {"released-b", "skip the middle, released code",
     "norms, softmax, SiLU too; blocks twice; no backward", true, 1, released_b},
    {"corrected-b", "the same without its slip", "the same with every block once", true, 1,
     corrected_b},
    {0},
};

const struct flops_convention *flops_find(const char *name, size_t len)
{
    for (const struct flops_convention *f = flops_conventions; f->name; f++)
        if (strlen(f->name) == len && !strncmp(f->name, name, len))
            return f;
    return NULL;
}

static json_t *integer(double n)
{
    return json_integer(n < 9e18 ? (json_int_t)(n + 0.5) : INT64_MAX);
}

json_t *flops_to_json(const struct flops_convention *f, const struct spec *s, const struct count *c,
                      double sparsity)
{
    double forward = f->forward(s, c, sparsity), S = s->train.seq_len;

    return json_pack("{s:s, s:s, s:f, s:o, s:o, s:o}", "source", f->source, "rule", f->rule,
                     "sparsity", sparsity, "forward_per_sequence", integer(forward),
                     "forward_per_token", integer(forward / S), "train_per_token",
                     integer(f->train_share * forward / S));
}
