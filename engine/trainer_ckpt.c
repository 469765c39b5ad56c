// Saving and restoring everything a run needs to go on with the same bits: model.safetensors holds
// the f32 master weights under their names, train_state.safetensors the moments as adam.m.<name>
// and adam.v.<name>, with the counters and the gates' control as metadata.
#include "engine/trainer_impl.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/ckpt.h"
#include "engine/safetensors.h"
#include "engine/weights.h"

static const char *const moment_prefix[] = {[OPTIM_M] = "adam.m.", [OPTIM_V] = "adam.v."};

// The members of struct progress that are saved.
static const struct {
    const char *name;
    size_t offset;
    bool is_count;
} fields[] = {
    {"step", offsetof(struct progress, step), true},
    {"evaluated", offsetof(struct progress, evaluated), true},
    {"loss_sum", offsetof(struct progress, loss_sum), false},
    {"loss_steps", offsetof(struct progress, loss_steps), true},
    {"elapsed_s", offsetof(struct progress, elapsed_s), false},
    {"train_loss", offsetof(struct progress, train_loss), false},
    {"val_loss", offsetof(struct progress, val_loss), false},
    {"val_ppl", offsetof(struct progress, val_ppl), false},
    {"val_bpb", offsetof(struct progress, val_bpb), false},
    {"best_val_loss", offsetof(struct progress, best_val_loss), false},
    {"val_tokens", offsetof(struct progress, val_tokens), true},
    {"lr", offsetof(struct progress, lr), false},
    {"grad_norm", offsetof(struct progress, grad_norm), false},
};
enum { N_FIELDS = sizeof fields / sizeof fields[0] };

static json_t *progress_to_json(const struct progress *p)
{
    json_t *o = json_object();
    char text[40];

    for (int i = 0; i < N_FIELDS; i++) {
        const char *at = (const char *)p + fields[i].offset;

        if (fields[i].is_count)
            snprintf(text, sizeof text, "%lld", (long long)*(const int64_t *)at);
        else
            snprintf(text, sizeof text, "%.17g", *(const double *)at); // exact for a double
        json_object_set_new(o, fields[i].name, json_string(text));
    }
    return o;
}

static int progress_from_json(const json_t *o, struct progress *p, struct err *err)
{
    for (int i = 0; i < N_FIELDS; i++) {
        const char *text = json_string_value(json_object_get(o, fields[i].name));
        char *at = (char *)p + fields[i].offset, *end = NULL;

        if (text && fields[i].is_count)
            *(int64_t *)at = strtoll(text, &end, 10);
        else if (text)
            *(double *)at = strtod(text, &end);
        if (!text || end == text || *end)
            return err_set(err, "train_state.safetensors: '%s' is missing or no number",
                           fields[i].name);
    }
    return p->step >= 0 ? 0 : err_set(err, "train_state.safetensors: 'step' is negative");
}

// What the data were and how fast the machine is, beside the counters.
static json_t *state_to_json(struct trainer *t)
{
    json_t *o = progress_to_json(&t->p);
    char text[SHARD_FINGERPRINT];

    shard_fingerprint(&t->train, text);
    json_object_set_new(o, "data.train", json_string(text));
    shard_fingerprint(&t->val, text);
    json_object_set_new(o, "data.val", json_string(text));
    snprintf(text, sizeof text, "%.17g", t->gemm_gflops);
    json_object_set_new(o, "gemm_gflops", json_string(text));
    snprintf(text, sizeof text, "%d", t->be->threads);
    json_object_set_new(o, "threads", json_string(text));
    json_object_set_new(o, "host", json_string(run_host_name()));
    trainer_gate_save(t, o);
    trainer_changes_save(t, o);
    return o;
}

// A run that goes on with other tokens is another experiment.
static int check_data(const json_t *o, const char *key, const struct shard *s, struct err *err)
{
    const char *was = json_string_value(json_object_get(o, key));
    char is[SHARD_FINGERPRINT];

    shard_fingerprint(s, is);
    if (!was || !strcmp(was, is))
        return 0;
    return err_set(err,
                   "%s: '%s' does not hold the tokens this run began with (then %s; now %s): put "
                   "that file back, or start a new run",
                   key, s->path, was, is);
}

// The best ceiling known of this machine with these threads; elsewhere it is measured anew.
static void restore_ceiling(struct trainer *t, const json_t *o)
{
    const char *host = json_string_value(json_object_get(o, "host"));
    const char *threads = json_string_value(json_object_get(o, "threads"));
    const char *gflops = json_string_value(json_object_get(o, "gemm_gflops"));

    if (host && threads && gflops && !strcmp(host, run_host_name()) &&
        atoi(threads) == t->be->threads)
        t->gemm_gflops = fmax(t->gemm_gflops, strtod(gflops, NULL));
}

static int write_weights(struct trainer *t, const char *dir, float *host, struct st_tensor *st,
                         struct err *err)
{
    const struct param_list *list = model_params(t->model);
    char *path = xasprintf("%s/model.safetensors", dir);
    int rc;

    for (int i = 0; i < list->n; i++) {
        const struct param *p = &list->v[i];

        model_get_weight(t->model, p, host + p->offset);
        weights_describe(&st[i], "", p, host + p->offset);
    }
    rc = safetensors_write(path, st, list->n, NULL, err);
    free(path);
    return rc;
}

static int write_state(struct trainer *t, const char *dir, float *host, struct st_tensor *st,
                       struct err *err)
{
    const struct param_list *list = model_params(t->model);
    char *path = xasprintf("%s/train_state.safetensors", dir);
    json_t *meta = state_to_json(t);
    int n = 0, rc;

    for (int which = OPTIM_M; which <= OPTIM_V; which++)
        for (int i = 0; i < list->n; i++) {
            const struct param *p = &list->v[i];
            float *data = host + which * list->block_size + p->offset;

            optim_get(t->optim, which, p, data);
            weights_describe(&st[n++], moment_prefix[which], p, data);
        }
    rc = safetensors_write(path, st, n, meta, err);
    json_decref(meta);
    free(path);
    return rc;
}

static int write_files(struct trainer *t, const char *dir, struct err *err)
{
    const struct param_list *list = model_params(t->model);
    size_t bytes = 2 * (size_t)list->block_size * sizeof(float);
    float *host = malloc(bytes);
    struct st_tensor *st;
    int rc = -1;

    if (!host)
        return err_set(err, "no memory to write a checkpoint: %zu bytes asked", bytes);
    st = xcalloc(2 * (size_t)list->n, sizeof *st);
    if (!write_weights(t, dir, host, st, err) && !write_state(t, dir, host, st, err))
        rc = 0;
    free(st);
    free(host);
    return rc;
}

// The log is on disk before the checkpoint counts, so a resumed run never lacks a record.
int trainer_save(struct trainer *t, struct err *err)
{
    char dir[SPEC_PATH_SIZE + 64];

    if (t->saved == t->p.step)
        return 0;
    if (ckpt_begin(t->run_dir, t->p.step, dir, sizeof dir, err) < 0)
        return -1;
    if (write_files(t, dir, err) < 0 || runlog_flush(t->log, err) < 0 ||
        ckpt_commit(t->run_dir, t->p.step, &t->spec, t->spec.save.keep, err) < 0) {
        ckpt_abort(t->run_dir, t->p.step);
        return -1;
    }
    t->saved = t->p.step;
    return 0;
}

static int restore_weights(struct trainer *t, const struct safetensors *f, struct err *err)
{
    return weights_load(t->model, f, "the checkpoint", err);
}

static int restore_state(struct trainer *t, const struct safetensors *f, struct err *err)
{
    const struct param_list *list = model_params(t->model);

    for (int which = OPTIM_M; which <= OPTIM_V; which++)
        for (int i = 0; i < list->n; i++) {
            const float *data =
                weights_find(f, "the checkpoint", moment_prefix[which], &list->v[i], err);

            if (!data)
                return -1;
            optim_set(t->optim, which, &list->v[i], data);
        }
    if (check_data(f->metadata, "data.train", &t->train, err) < 0 ||
        check_data(f->metadata, "data.val", &t->val, err) < 0)
        return -1;
    restore_ceiling(t, f->metadata);
    if (trainer_gate_restore(t, f->metadata, err) < 0 ||
        trainer_changes_restore(t, f->metadata, err) < 0)
        return -1;
    return progress_from_json(f->metadata, &t->p, err);
}

static int read_file(struct trainer *t, const char *dir, const char *name,
                     int (*use)(struct trainer *, const struct safetensors *, struct err *),
                     struct err *err)
{
    struct safetensors f;
    char *path = xasprintf("%s/%s", dir, name);
    int rc = safetensors_open(&f, path, err);

    free(path);
    if (rc < 0)
        return -1;
    rc = use(t, &f, err);
    safetensors_close(&f);
    return rc;
}

int trainer_restore(struct trainer *t, struct err *err)
{
    char dir[SPEC_PATH_SIZE + 32], skipped[512] = "";
    int64_t step = ckpt_latest(t->run_dir, dir, sizeof dir, skipped, sizeof skipped);

    if (skipped[0])
        trainer_event(t, "checkpoint", "damaged, passed over: %s", skipped);
    if (step < 0)
        return 0;
    if (read_file(t, dir, "model.safetensors", restore_weights, err) < 0 ||
        read_file(t, dir, "train_state.safetensors", restore_state, err) < 0)
        return -1;
    t->saved = step;
    return 0;
}
