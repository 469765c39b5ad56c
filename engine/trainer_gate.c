// Sparsity control in a run: statistics of the global batch, the controller after each step, its
// records, and its state in checkpoints.
#include "engine/trainer_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/count_active.h"

void trainer_gate_init(struct trainer *t)
{
    gate_control_init(&t->gate.control, &t->spec);
    t->gate.penalty = NAN;
}

void trainer_gate_collect(struct trainer *t, int64_t micro)
{
    const struct gate_stat *stat = model_gate_stats(t->model);
    double have = (double)micro, before = micro ? t->gate.penalty : 0;

    for (int i = 0; i < spec_gate_count(&t->spec); i++)
        gate_stat_add(&t->gate.stat[i], have, &stat[i], 1);
    t->gate.penalty = before + (model_penalty(t->model) - before) / (have + 1);
}

static const struct gate_stat *stat_of_layer(const struct trainer *t, const struct gate_stat *stat,
                                             int layer)
{
    return &stat[spec_gate_of(&t->spec.model, layer)];
}

static double active_flops(const struct trainer *t)
{
    double sparsity[SPEC_MAX_LAYERS];

    for (int i = 0; i < t->spec.model.n_layers; i++)
        sparsity[i] = stat_of_layer(t, t->gate.stat, i)->zero;
    return (double)t->tokens_per_step * count_active_train_flops(&t->spec, sparsity);
}

void trainer_gate_step(struct trainer *t)
{
    struct gate_control *c = &t->gate.control;

    if (!spec_gate_count(&t->spec))
        return;
    gate_control_update(c, &t->spec, t->gate.stat);
    model_set_penalty(t->model, c->alpha, c->beta);
    t->gate.flops_active += active_flops(t);
}

// ---- records ------------------------------------------------------------------------------------

static void put_layers(const struct trainer *t, json_t *o, const char *name, const double *v)
{
    json_t *a = json_array();

    for (int i = 0; i < t->spec.model.n_layers; i++)
        json_array_append_new(a, trainer_number(v[i]));
    json_object_set_new(o, name, a);
}

// One member of each layer's statistics.
static void put_stat(const struct trainer *t, json_t *o, const char *name,
                     const struct gate_stat *stat, size_t member)
{
    double v[SPEC_MAX_LAYERS];

    for (int i = 0; i < t->spec.model.n_layers; i++)
        memcpy(&v[i], (const char *)stat_of_layer(t, stat, i) + member, sizeof v[i]);
    put_layers(t, o, name, v);
}

static void put_stats(const struct trainer *t, json_t *o, const struct gate_stat *stat)
{
    put_stat(t, o, "gate/mean", stat, offsetof(struct gate_stat, mean));
    put_stat(t, o, "gate/var", stat, offsetof(struct gate_stat, var));
    put_stat(t, o, "gate/sparsity", stat, offsetof(struct gate_stat, zero));
}

void trainer_gate_record_train(const struct trainer *t, json_t *o)
{
    if (!spec_gate_count(&t->spec))
        return;
    put_stats(t, o, t->gate.stat);
    put_layers(t, o, "reg/alpha", t->gate.control.alpha);
    put_layers(t, o, "reg/beta", t->gate.control.beta);
    json_object_set_new(o, "reg/loss", trainer_number(t->gate.penalty));
    json_object_set_new(o, "flops_active", trainer_number(t->gate.flops_active));
}

static double mean_sparsity(const struct trainer *t, const struct gate_stat *stat)
{
    int n = spec_gate_count(&t->spec);
    double sum = 0;

    for (int i = 0; i < n; i++) // each stands for two layers
        sum += stat[i].zero / n;
    return sum;
}

void trainer_layers_record_eval(const struct trainer *t, const struct eval_result *r, json_t *o)
{
    put_layers(t, o, "resid/norm", r->norm);
    if (!spec_gate_count(&t->spec))
        return;
    put_stats(t, o, r->gate);
    put_stat(t, o, "gate/closed", r->gate, offsetof(struct gate_stat, closed));
    put_stat(t, o, "gate/over", r->gate, offsetof(struct gate_stat, over));
    json_object_set_new(o, "val/sparsity", trainer_number(mean_sparsity(t, r->gate)));
    json_object_set_new(o, "flops_active", trainer_number(t->gate.flops_active));
}

// ---- checkpoints --------------------------------------------------------------------------------

// What is saved, as text: n numbers with 17 digits, which are exact for a double.
struct saved {
    const char *name;
    double *v;
    int n;
};
enum { N_SAVED = 5 };

static void list_saved(struct trainer *t, struct saved *list)
{
    struct gate_control *c = &t->gate.control;
    int L = t->spec.model.n_layers, gates = spec_gate_count(&t->spec);

    list[0] = (struct saved){"reg.alpha", c->alpha, L};
    list[1] = (struct saved){"reg.beta", c->beta, L};
    list[2] = (struct saved){"reg.mean_average", c->mean_average, gates};
    list[3] = (struct saved){"reg.var_average", c->var_average, gates};
    list[4] = (struct saved){"flops_active", &t->gate.flops_active, 1};
}

void trainer_gate_save(struct trainer *t, json_t *meta)
{
    struct saved list[N_SAVED];
    struct buf text = {0};

    if (!spec_gate_count(&t->spec))
        return;
    list_saved(t, list);
    for (int i = 0; i < N_SAVED; i++) {
        buf_reset(&text);
        for (int k = 0; k < list[i].n; k++)
            buf_fmt(&text, "%s%.17g", k ? " " : "", list[i].v[k]);
        json_object_set_new(meta, list[i].name, json_string(text.data));
    }
    buf_reset(&text);
    buf_fmt(&text, "%lld", (long long)t->gate.control.updates);
    json_object_set_new(meta, "reg.updates", json_string(text.data));
    buf_release(&text);
}

static int read_numbers(const json_t *meta, const struct saved *s, struct err *err)
{
    const char *at = json_string_value(json_object_get(meta, s->name));
    char *end = NULL;
    int n = 0;

    for (; at && n < s->n; n++, at = end) {
        s->v[n] = strtod(at, &end);
        if (end == at)
            break;
    }
    if (at && n == s->n && !*at)
        return 0;
    return err_set(err, "train_state.safetensors: '%s' is missing or not %d number%s", s->name,
                   s->n, s->n == 1 ? "" : "s");
}

int trainer_gate_restore(struct trainer *t, const json_t *meta, struct err *err)
{
    struct gate_control *c = &t->gate.control;
    struct saved list[N_SAVED];
    double updates = 0;

    if (!spec_gate_count(&t->spec))
        return 0;
    list_saved(t, list);
    for (int i = 0; i < N_SAVED; i++)
        if (read_numbers(meta, &list[i], err) < 0)
            return -1;
    if (read_numbers(meta, &(struct saved){"reg.updates", &updates, 1}, err) < 0)
        return -1;
    c->updates = (int64_t)updates;
    model_set_penalty(t->model, c->alpha, c->beta);
    return 0;
}
