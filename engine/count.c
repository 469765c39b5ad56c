#include "engine/count.h"

#include "engine/model.h"
#include "engine/param.h"

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

struct count_terms count_terms(const struct spec *spec, int layer)
{
    const struct model_spec *m = &spec->model;
    double d = m->d_model, S = spec->train.seq_len, f = m->lane[LANE_FFN][layer];
    double q = (double)m->lane[LANE_HEADS][layer] * m->head_dim;
    double k = (double)m->lane[LANE_KV][layer] * m->head_dim;
    int matrices = m->act == ACT_SWIGLU ? 3 : 2;

    return (struct count_terms){
        .lin = 2 * d * (2 * q + 2 * k) + 2 * d * matrices * f,
        .keys_values = 4 * d * k,
        .attn = 4 * q * S,
        .attn_causal = 2 * q * (S + 1),
    };
}

static void count_flops(const struct spec *spec, struct count *c)
{
    const struct model_spec *m = &spec->model;

    c->head_flops = 2.0 * m->d_model * spec_padded_vocab(m);
    c->gate_flops = 2.0 * m->d_model * spec_gate_count(spec);
    c->forward_per_token = c->forward_per_token_causal = c->head_flops + c->gate_flops;
    for (int i = 0; i < m->n_layers; i++) {
        struct count_terms t = count_terms(spec, i);
        double runs = count_runs(m, i);

        c->layer[i].forward_flops = runs * (t.lin + t.attn);
        c->layer[i].forward_flops_causal = runs * (t.lin + t.attn_causal);
        c->forward_per_token += c->layer[i].forward_flops;
        c->forward_per_token_causal += c->layer[i].forward_flops_causal;
    }
    c->train_per_token = 3 * c->forward_per_token;
}

static int64_t whole(double n)
{
    return n < 9e18 ? (int64_t)n : INT64_MAX; // absurd models stay a number
}

static void count_memory(const struct spec *spec, struct count *c)
{
    const struct model_spec *m = &spec->model;
    struct model_plan plan;
    double kv = 0;

    model_plan(spec, model_sizes_cpu, &plan);
    c->weights_bytes = plan.weights;
    c->gradients_bytes = plan.gradients;
    c->optimizer_bytes = plan.moments;
    c->activations_bytes = plan.activations;
    c->activations_recompute_bytes = plan.activations_recompute;
    for (int i = 0; i < m->n_layers; i++)
        kv += count_runs(m, i) * 2 * m->lane[LANE_KV][i] * m->head_dim * (double)sizeof(float);
    c->kv_bytes_per_token = whole(kv);
}

void count_model(const struct spec *spec, struct count *out)
{
    *out = (struct count){0};
    count_params(spec, out);
    count_flops(spec, out);
    count_memory(spec, out);
}

static json_t *integer(double n)
{
    return json_integer(whole(n));
}

static json_t *layers_to_json(const struct spec *spec, const struct count *c)
{
    const struct model_spec *m = &spec->model;
    json_t *layers = json_array();

    for (int i = 0; i < m->n_layers; i++)
        json_array_append_new(layers,
                              json_pack("{s:i, s:i, s:i, s:i, s:b, s:I, s:o}", "n_heads",
                                        m->lane[LANE_HEADS][i], "n_kv_heads", m->lane[LANE_KV][i],
                                        "ffn_width", m->lane[LANE_FFN][i], "reuse",
                                        m->lane[LANE_REUSE][i], "gate", spec_gate_count(spec) > 0,
                                        "params", (json_int_t)c->layer[i].params, "forward_flops",
                                        integer(c->layer[i].forward_flops)));
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
        "{s:I, s:I, s:I, s:I, s:I, s:I}", "weights_bytes", (json_int_t)c->weights_bytes,
        "gradients_bytes", (json_int_t)c->gradients_bytes, "optimizer_bytes",
        (json_int_t)c->optimizer_bytes, "activations_bytes", (json_int_t)c->activations_bytes,
        "activations_recompute_bytes", (json_int_t)c->activations_recompute_bytes,
        "kv_bytes_per_token", (json_int_t)c->kv_bytes_per_token);

    json_t *name = json_string(spec->name);

    return json_pack("{s:o, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o}", "name",
                     name ? name : json_string(""), // a name that is no UTF-8 has no JSON form
                     "n_layers", m->n_layers, "d_model", m->d_model, "block_loops", m->block_loops,
                     "gate_units", spec_gate_count(spec), "params", params, "flops", flops,
                     "memory", memory, "layers", layers_to_json(spec, c));
}
