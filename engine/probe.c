#include "engine/probe.h"

#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/profile.h"
#include "engine/weights.h"

// The tensors to be written; their data is owned.
struct output {
    struct st_tensor *v;
    int n, cap;
};

static void output_release(struct output *o)
{
    for (int i = 0; i < o->n; i++)
        free((void *)(uintptr_t)o->v[i].data);
    free(o->v);
}

// A copy of t with data of its own, zeros. Returns them, or NULL when memory is short.
static float *output_add(struct output *o, struct st_tensor t, struct err *err)
{
    float *data = calloc((size_t)t.size, sizeof *data);
    char size[UNIT_SIZE];

    if (!data) {
        err_set(err, "no memory for '%s': %s", t.name,
                unit_bytes(size, (double)t.size * sizeof *data));
        return NULL;
    }
    if (o->n == o->cap)
        o->v = xrealloc(o->v, (size_t)(o->cap = 2 * o->cap + 64), sizeof *o->v);
    t.data = data;
    o->v[o->n++] = t;
    return data;
}

static int add_numbers(struct output *o, const char *name, const double *x, int n, struct err *err)
{
    struct st_tensor t = {.n_dims = 1, .shape = {n}, .size = n};
    float *data;

    snprintf(t.name, sizeof t.name, "%s", name);
    if (!(data = output_add(o, t, err)))
        return -1;
    for (int i = 0; i < n; i++)
        data[i] = (float)x[i];
    return 0;
}

// ---- weights ------------------------------------------------------------------------------------

static bool starts_with(const char *s, const char *prefix)
{
    return !strncmp(s, prefix, strlen(prefix));
}

// What a probe writes besides weights, so that its output may be the next one's input.
static bool is_result(const char *name)
{
    static const char *const results[] = {"logits",   "loss",          "loss_total", "gate.mean",
                                          "gate.var", "gate.sparsity", NULL};

    for (int i = 0; results[i]; i++)
        if (!strcmp(name, results[i]))
            return true;
    return starts_with(name, "grad.");
}

static void drop_results(struct safetensors *f)
{
    int n = 0;

    for (int i = 0; i < f->n; i++)
        if (!is_result(f->t[i].name))
            f->t[n++] = f->t[i];
    f->n = n;
}

static int set_weights(struct model *m, const struct probe *p, struct err *err)
{
    struct safetensors f;
    int rc;

    if (!p->weights) {
        model_init_weights(m, (uint64_t)p->spec->train.seed);
        return 0;
    }
    if (safetensors_open(&f, p->weights, err) < 0)
        return -1;
    drop_results(&f);
    rc = weights_load(m, &f, p->weights, err);
    safetensors_close(&f);
    return rc;
}

static int add_params(struct output *o, struct model *m, bool gradients, struct err *err)
{
    const struct param_list *list = model_params(m);

    for (int i = 0; i < list->n; i++) {
        struct st_tensor t;
        float *data;

        weights_describe(&t, gradients ? "grad." : "", &list->v[i], NULL);
        if (!(data = output_add(o, t, err)))
            return -1;
        (gradients ? model_get_gradient : model_get_weight)(m, &list->v[i], data);
    }
    return 0;
}

// ---- the micro-batch ----------------------------------------------------------------------------

static int check_length(const struct probe *p, struct err *err)
{
    const struct train_spec *t = &p->spec->train;
    int64_t need = (int64_t)t->micro_batch_size * t->seq_len + 1;

    if (p->tokens->n >= need)
        return 0;
    return err_set(err,
                   "'%s' has %lld tokens, %d sequences of %d and the last target need %lld: lower "
                   "train.micro_batch_size or train.seq_len",
                   p->tokens->path, (long long)p->tokens->n, t->micro_batch_size, t->seq_len,
                   (long long)need);
}

// tokens[N + 1]: the inputs are the first N, the targets the last N, because sequences advance by T.
static int read_tokens(const struct probe *p, int64_t n, int32_t *tokens, struct err *err)
{
    int vocab = p->spec->model.vocab;

    for (int64_t i = 0; i <= n; i++) {
        uint32_t id = shard_token(p->tokens, i);

        if (id >= (uint32_t)vocab)
            return err_set(err, "'%s': token %lld is %u, beyond model.vocab %d", p->tokens->path,
                           (long long)i, id, vocab);
        tokens[i] = (int32_t)id;
    }
    return 0;
}

static int add_gates(struct output *o, const struct spec *s, const struct gate_stat *stat,
                     struct err *err)
{
    double mean[SPEC_MAX_LAYERS], var[SPEC_MAX_LAYERS], zero[SPEC_MAX_LAYERS];
    int n = spec_gate_count(s);

    for (int i = 0; i < n; i++) {
        mean[i] = stat[i].mean;
        var[i] = stat[i].var;
        zero[i] = stat[i].zero;
    }
    if (!n)
        return 0;
    if (add_numbers(o, "gate.mean", mean, n, err) < 0 ||
        add_numbers(o, "gate.var", var, n, err) < 0)
        return -1;
    return add_numbers(o, "gate.sparsity", zero, n, err);
}

static double penalty(const struct spec *s, const struct gate_stat *stat, int64_t rows)
{
    double slope_mean[SPEC_MAX_LAYERS], slope_var[SPEC_MAX_LAYERS];

    if (!spec_gate_count(s))
        return 0;
    return gate_penalty(s, s->gate.alpha, s->gate.beta, stat, rows, slope_mean, slope_var);
}

static bool has_gradients(const struct spec *s)
{
    return !s->gate.enabled || s->gate.attn != GATE_ATTN_HARD;
}

static float *add_logits(struct output *o, const struct spec *s, struct err *err)
{
    int64_t B = s->train.micro_batch_size, T = s->train.seq_len, V = spec_padded_vocab(&s->model);

    return output_add(o, (struct st_tensor){"logits", 3, {B, T, V}, B * T * V, NULL}, err);
}

static int add_losses(struct output *o, struct model *m, const struct probe *p, double sum,
                      struct probe_result *r, struct err *err)
{
    int64_t rows = model_rows(m);

    r->loss = sum / (double)rows;
    r->loss_total = r->loss + penalty(p->spec, model_gate_stats(m), rows);
    if (add_numbers(o, "loss", &r->loss, 1, err) < 0 ||
        add_numbers(o, "loss_total", &r->loss_total, 1, err) < 0)
        return -1;
    return add_gates(o, p->spec, model_gate_stats(m), err);
}

// The forward pass with its logits, and where there are gradients one more with its backward pass.
static int compute(struct output *o, struct model *m, const struct probe *p, const int32_t *tokens,
                   struct probe_result *r, struct err *err)
{
    float *logits = add_logits(o, p->spec, err);
    double sum = 0;

    if (!logits || model_logits(m, tokens, tokens + 1, logits, &sum, err) < 0 ||
        add_losses(o, m, p, sum, r, err) < 0)
        return -1;
    if (!has_gradients(p->spec))
        return 0;
    model_zero_gradients(m);
    if (model_forward_backward(m, tokens, tokens + 1, 1.0 / (double)model_rows(m), &sum, err) < 0)
        return -1;
    return add_params(o, m, true, err);
}

static int run_batch(struct output *o, struct model *m, const struct probe *p,
                     struct probe_result *r, struct err *err)
{
    int64_t rows = model_rows(m);
    int32_t *tokens = xcalloc((size_t)rows + 1, sizeof *tokens);
    int rc = read_tokens(p, rows, tokens, err);

    if (rc == 0)
        rc = compute(o, m, p, tokens, r, err);
    free(tokens);
    return rc;
}

// ---- the file -----------------------------------------------------------------------------------

static int write_file(const struct output *o, const struct spec *s, const char *path,
                      struct err *err)
{
    json_t *profile = profile_to_json(s);
    char *text = json_dumps(profile, PROFILE_JSON);
    json_t *metadata = json_pack("{s:s}", "profile", text);
    int rc = safetensors_write(path, o->v, o->n, metadata, err);

    json_decref(metadata);
    free(text);
    json_decref(profile);
    return rc;
}

int probe_write(const struct probe *p, const char *path, struct probe_result *r, struct err *err)
{
    bool trains = p->tokens && has_gradients(p->spec);
    struct output o = {0};
    struct model *m;
    int rc;

    *r = (struct probe_result){0};
    if (p->tokens && check_length(p, err) < 0)
        return -1;
    if (!(m = model_new_for(p->be, p->spec, trains ? MODEL_TRAIN : MODEL_EVAL, err)))
        return -1;
    rc = set_weights(m, p, err);
    if (rc == 0)
        rc = add_params(&o, m, false, err);
    if (rc == 0 && p->tokens)
        rc = run_batch(&o, m, p, r, err);
    if (rc == 0)
        rc = write_file(&o, p->spec, path, err);
    r->tensors = o.n;
    output_release(&o);
    model_free(m);
    return rc;
}
