#include "engine/count.h"

#include <math.h>

#include "engine/param.h"

// Sizes of one layer in elements per token.
struct widths {
    double q, k, f, w; // w: what the FFN's input matrices give, gate and up together
    double n_q, n_kv, repeats;
};

static struct widths widths_of(const struct model_spec *m, int layer)
{
    double n_q = m->lane[LANE_HEADS][layer], n_kv = m->lane[LANE_KV][layer];
    double f = m->lane[LANE_FFN][layer];

    return (struct widths){
        .q = n_q * m->head_dim,
        .k = n_kv * m->head_dim,
        .f = f,
        .w = m->act == ACT_SWIGLU ? 2 * f : f,
        .n_q = n_q,
        .n_kv = n_kv,
        .repeats = m->lane[LANE_REUSE][layer],
    };
}

static void count_params(const struct spec *spec, struct count *c)
{
    struct param_list list;

    param_list_build(&list, spec);
    c->total = c->non_embedding = c->non_embedding_no_head = list.total;
    for (int i = 0; i < list.n; i++) {
        const struct param *p = &list.v[i];
        bool table = p->role == PARAM_EMBED || p->role == PARAM_POSITION;

        if (p->layer >= 0)
            c->layer[p->layer].params += p->size;
        if (table)
            c->non_embedding -= p->size;
        if (table || p->role == PARAM_HEAD)
            c->non_embedding_no_head -= p->size;
    }
    param_list_release(&list);
}

static void count_flops(const struct spec *spec, struct count *c)
{
    const struct model_spec *m = &spec->model;
    double d = m->d_model, S = spec->train.seq_len;

    c->head_flops = 2 * d * spec_padded_vocab(m);
    c->forward_per_token = c->forward_per_token_causal = c->head_flops;
    for (int i = 0; i < m->n_layers; i++) {
        struct widths x = widths_of(m, i);
        double lin = 2 * d * (2 * x.q + 2 * x.k) + 2 * d * (x.w + x.f);

        c->layer[i].forward_flops = x.repeats * (lin + 4 * x.q * S);
        c->layer[i].forward_flops_causal = x.repeats * (lin + 2 * x.q * (S + 1));
        c->forward_per_token += c->layer[i].forward_flops;
        c->forward_per_token_causal += c->layer[i].forward_flops_causal;
    }
    c->train_per_token = 3 * c->forward_per_token;
}

// f32 elements per row kept by one repetition of a layer.
static double kept_per_row(const struct model_spec *m, const struct widths *x)
{
    double n = 4.0 * m->d_model + (x->q + 2 * x->k) + x->q + x->n_q + x->w + x->f;

    if (m->qk_norm != QK_NONE)
        n += x->q + x->k + (m->qk_norm == QK_HEAD ? x->n_q + x->n_kv : 2);
    return n + (m->norm == NORM_LAYER ? 4 : 2);
}

// f32 elements of one chunk of logits for N rows.
static double logits_size(const struct model_spec *m, double N)
{
    double V = spec_padded_vocab(m), rows = floor(COUNT_LOGITS_BYTES / (4 * V));

    return V * fmin(N, fmax(rows, m->d_model < 512 ? 1024 : 256));
}

static double activation_bytes(const struct spec *spec)
{
    const struct model_spec *m = &spec->model;
    double N = (double)spec->train.micro_batch_size * spec->train.seq_len;
    double kept = 0, qkv = 0, q = 0, w = 0, f = 0, scratch;

    for (int i = 0; i < m->n_layers; i++) {
        struct widths x = widths_of(m, i);

        kept += x.repeats * kept_per_row(m, &x);
        qkv = fmax(qkv, x.q + 2 * x.k);
        q = fmax(q, x.q);
        w = fmax(w, x.w);
        f = fmax(f, x.f);
    }
    scratch = N * fmax((m->qk_norm == QK_NONE ? 1 : 2) * qkv + q, w + f);
    scratch = fmax(scratch, logits_size(m, N));
    kept += 5.0 * m->d_model + (m->norm == NORM_LAYER ? 2 : 1) + 4;
    return 4 * (N * kept + scratch + (double)spec->train.seq_len * m->head_dim);
}

static double kv_bytes(const struct model_spec *m)
{
    double sum = 0;

    for (int i = 0; i < m->n_layers; i++) {
        struct widths x = widths_of(m, i);

        sum += x.repeats * 2 * x.k * 4;
    }
    return sum;
}

static int64_t whole(double n)
{
    return n < 9e18 ? (int64_t)n : INT64_MAX; // absurd batches stay a number
}

void count_model(const struct spec *spec, struct count *out)
{
    *out = (struct count){0};
    count_params(spec, out);
    count_flops(spec, out);
    out->weights_bytes = 4 * out->total;
    out->gradients_bytes = 4 * out->total;
    out->optimizer_bytes = 8 * out->total;
    out->activations_bytes = whole(activation_bytes(spec));
    out->kv_bytes_per_token = whole(kv_bytes(&spec->model));
}

static json_t *integer(double n)
{
    return json_integer(whole(n));
}

static json_t *layers_to_json(const struct model_spec *m, const struct count *c)
{
    json_t *layers = json_array();

    for (int i = 0; i < m->n_layers; i++)
        json_array_append_new(
            layers,
            json_pack("{s:i, s:i, s:i, s:i, s:b, s:I, s:o}", "n_heads", m->lane[LANE_HEADS][i],
                      "n_kv_heads", m->lane[LANE_KV][i], "ffn_width", m->lane[LANE_FFN][i], "reuse",
                      m->lane[LANE_REUSE][i], "gate", 0, "params", (json_int_t)c->layer[i].params,
                      "forward_flops", integer(c->layer[i].forward_flops)));
    return layers;
}

json_t *count_to_json(const struct spec *spec, const struct count *c)
{
    const struct model_spec *m = &spec->model;
    json_t *params = json_pack("{s:I, s:I, s:I}", "total", (json_int_t)c->total, "non_embedding",
                               (json_int_t)c->non_embedding, "non_embedding_no_head",
                               (json_int_t)c->non_embedding_no_head);
    json_t *flops = json_pack("{s:o, s:o, s:o}", "forward_per_token", integer(c->forward_per_token),
                              "forward_per_token_causal", integer(c->forward_per_token_causal),
                              "train_per_token", integer(c->train_per_token));
    json_t *memory = json_pack(
        "{s:I, s:I, s:I, s:I, s:I}", "weights_bytes", (json_int_t)c->weights_bytes,
        "gradients_bytes", (json_int_t)c->gradients_bytes, "optimizer_bytes",
        (json_int_t)c->optimizer_bytes, "activations_bytes", (json_int_t)c->activations_bytes,
        "kv_bytes_per_token", (json_int_t)c->kv_bytes_per_token);

    json_t *name = json_string(spec->name);

    return json_pack("{s:o, s:i, s:i, s:o, s:o, s:o, s:o}", "name",
                     name ? name : json_string(""), // a name that is no UTF-8 has no JSON form
                     "n_layers", m->n_layers, "d_model", m->d_model, "params", params, "flops",
                     flops, "memory", memory, "layers", layers_to_json(m, c));
}
