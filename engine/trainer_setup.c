// Before the first step: data and its audit, memory, backend, model. Whatever does not hold is
// refused here, in words, before a run costs anything.
#include "engine/trainer_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/count.h"
#include "engine/file.h"

static int open_shard(struct trainer *t, struct shard *s, struct loader *l, const char *path,
                      struct audit *a, struct err *err)
{
    if (shard_open(s, path, t->spec.data.dtype, err) < 0)
        return -1;
    if (audit_shard(s, t->spec.model.vocab, a, err) < 0)
        return -1;
    return loader_init(l, s, t->spec.train.seq_len, t->spec.data.seed, err);
}

static int open_data(struct trainer *t, struct err *err)
{
    struct audit val_audit;

    if (open_shard(t, &t->train, &t->train_loader, t->spec.data.train, &t->train_audit, err) < 0)
        return -1;
    if (!t->spec.data.val[0])
        return 0;
    return open_shard(t, &t->val, &t->val_loader, t->spec.data.val, &val_audit, err);
}

// A number at the start of a small file, or after `key` in it; -1 when there is none.
static double read_number(const char *path, const char *key)
{
    struct buf b = {0};
    double v = -1;
    char *at;

    if (!file_read(path, 1 << 16, &b, NULL) && b.data && (at = strstr(b.data, key)))
        if (sscanf(at + strlen(key), "%lf", &v) != 1)
            v = -1;
    buf_release(&b);
    return v;
}

// Bytes this process may still take: what the kernel calls available, or what is left below the
// limit of the control group. -1 = unknown.
double trainer_memory_available(void)
{
    double kib = read_number("/proc/meminfo", "MemAvailable:");
    double limit = read_number("/sys/fs/cgroup/memory.max", "");
    double used = read_number("/sys/fs/cgroup/memory.current", "");
    double bytes = kib >= 0 ? kib * 1024 : -1;

    if (limit >= 0 && used >= 0 && (bytes < 0 || limit - used < bytes))
        bytes = limit - used;
    return bytes;
}

// Writing a checkpoint takes as much again as the moments, for a while.
double trainer_memory_needed(const struct spec *spec, struct model_sizes sizes,
                             struct model_plan *plan)
{
    model_plan(spec, sizes, plan);
    return (double)plan->total + (double)plan->moments;
}

enum recompute trainer_recompute(const struct spec *spec, struct model_sizes sizes)
{
    double available = trainer_memory_available();
    struct model_plan plan;

    if (spec->train.recompute != RECOMPUTE_AUTO)
        return spec->train.recompute;
    if (available < 0 || trainer_memory_needed(spec, sizes, &plan) <= available)
        return RECOMPUTE_NONE;
    return RECOMPUTE_LAYER;
}

// The spec of the model: recompute is decided, and gives the same bits either way. The trainer's own
// keeps auto, so that a resumed run decides anew.
static struct spec model_spec_of(const struct trainer *t)
{
    struct spec spec = t->spec;

    spec.train.recompute = trainer_recompute(&spec, model_sizes_of(t->be));
    return spec;
}

static int check_memory(struct trainer *t, struct err *err)
{
    char need[UNIT_SIZE], have[UNIT_SIZE], acts[UNIT_SIZE], less[UNIT_SIZE];
    double available = trainer_memory_available(), asked;
    struct spec spec = model_spec_of(t);
    struct model_plan plan, layer;

    asked = trainer_memory_needed(&spec, model_sizes_of(t->be), &plan);
    if (available < 0 || asked <= available)
        return 0;
    spec.train.recompute = RECOMPUTE_LAYER;
    model_plan(&spec, model_sizes_of(t->be), &layer);
    return err_set(
        err,
        "the model needs %s, of that %s for activations (%s with train.recompute=layer), "
        "but %s is available: lower train.micro_batch_size (now %d) or the widths",
        unit_bytes(need, asked), unit_bytes(acts, (double)plan.activations),
        unit_bytes(less, (double)layer.activations), unit_bytes(have, available),
        t->spec.train.micro_batch_size);
}

static int open_backend(struct trainer *t, struct err *err)
{
    char why[256] = "";

    t->be = backend_open(t->backend_name, t->spec.train.threads, why, sizeof why);
    return t->be ? 0 : err_set(err, "backend '%s' is not available: %s", t->backend_name, why);
}

static void plan_steps(struct trainer *t)
{
    struct count *c = xcalloc(1, sizeof *c);

    count_model(&t->spec, c);
    t->flops_per_token = c->train_per_token;
    t->planned_steps = spec_total_steps(&t->spec);
    t->tokens_per_step = spec_tokens_per_step(&t->spec);
    pthread_mutex_lock(&t->lock);
    t->st.params = c->total;
    pthread_mutex_unlock(&t->lock);
    free(c);
}

static int open_model(struct trainer *t, struct err *err)
{
    struct spec spec = model_spec_of(t);

    if (!(t->model = model_new(t->be, &spec, err)))
        return -1;
    if (!(t->optim = optim_new(t->model, &t->spec.optim, err)))
        return -1;
    t->tokens = xcalloc((size_t)model_rows(t->model), 2 * sizeof *t->tokens);
    t->targets = t->tokens + model_rows(t->model);
    return 0;
}

// The best so far: other work on the machine makes any one measurement too low.
void trainer_measure_gemm(struct trainer *t, double seconds)
{
    t->gemm_gflops = fmax(t->gemm_gflops, model_gemm_gflops(t->be, 2048, seconds));
}

int trainer_check(const struct spec *s, struct err *err)
{
    if (s->train.global_batch_size % s->train.micro_batch_size)
        return err_set(err,
                       "train.global_batch_size %lld is not a multiple of "
                       "train.micro_batch_size %d",
                       (long long)s->train.global_batch_size, s->train.micro_batch_size);
    if (s->gate.enabled && s->gate.attn == GATE_ATTN_HARD)
        return err_set(err, "gate.attn hard drops keys and has no gradient: train with key and "
                            "evaluate with --set gate.attn=hard");
    return 0;
}

int trainer_open(struct trainer *t, struct err *err)
{
    if (trainer_check(&t->spec, err) < 0)
        return -1;
    plan_steps(t);
    if (trainer_changes_open(t, err) < 0)
        return -1;
    trainer_publish(t);
    if (open_data(t, err) < 0 || open_backend(t, err) < 0 || check_memory(t, err) < 0)
        return -1;
    trainer_set_state(t, RUN_STARTING, "allocating", "");
    if (open_model(t, err) < 0)
        return -1;
    trainer_set_state(t, RUN_STARTING, "reading weights", "");
    if (trainer_restore(t, err) < 0)
        return -1;
    if (t->saved < 0)
        model_init_weights(t->model, (uint64_t)t->spec.train.seed);
    t->doing = "step";
    trainer_set_state(t, RUN_STARTING, "measuring the machine", "");
    trainer_measure_gemm(t, 0.2);
    trainer_changes_ready(t);
    return 0;
}

void trainer_close(struct trainer *t)
{
    free(t->tokens);
    optim_free(t->optim);
    model_free(t->model);
    if (t->be)
        backend_close(t->be);
    shard_close(&t->val);
    shard_close(&t->train);
}
