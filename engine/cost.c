#include "engine/cost_impl.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/buf.h"
#include "engine/count.h"
#include "engine/shard.h"
#include "engine/trainer.h"
#include "kernels/trace.h"

// A calibration takes about this long: one pass, all of them.
static const double pass_s = 0.7, sample_s = 2.5;
enum { LEAST_PASSES = 3, MOST_PASSES = 64 };
static const double slice_bytes_most = 1 << 30;
// Of a run's process beside its model, without and with what measures large matrix products.
static const int64_t base_bytes = 24 << 20, gemm_bytes = 48 << 20;
// What the trainer measures after each evaluation.
static const double gemm_s = 0.1;

// Seconds per row at the sequence length of the profile.
struct layer_time {
    double forward, backward;
};

// What one pass tells, and in the end the median of all.
struct times {
    struct layer_time corner[CORNERS];
    double embed_forward, embed_backward; // per row
    double head;                          // per row, of the slice's vocabulary
    double update;                        // per element of the blocks
    double all;                           // of the pass
};
enum { N_TIMES = sizeof(struct times) / sizeof(double) };

struct mark {
    double at;
    uint64_t attention_ns; // in attention so far
};

enum stage { OPEN, WARM, SAMPLE, DONE };

struct cost_job {
    struct spec spec;
    char backend[16];
    enum stage stage;
    struct cost cost;
    double spent, sampled, cpu; // seconds: in all steps, in timed ones, of the processor in these
    atomic_bool cancelled;
    atomic_int permille;

    struct backend *be; // a trace: it knows the time that attention takes
    struct slice slice;
    struct bench bench;
    struct mark *mark;
    int n_marks, most_marks;
    int64_t updates;
    struct times times[MOST_PASSES];
    int n_times;
};

// ---- memory -------------------------------------------------------------------------------------

static void plan_memory(struct cost_job *j)
{
    struct cost *c = &j->cost;
    struct model_sizes sizes = model_sizes_cpu;
    struct model_plan plan;
    char need[UNIT_SIZE], have[UNIT_SIZE], acts[UNIT_SIZE], less[UNIT_SIZE];
    double asked;

    if (j->be)
        sizes = model_sizes_of(j->be);
    j->spec.train.recompute = trainer_recompute(&j->spec, sizes);
    asked = trainer_memory_needed(&j->spec, sizes, &plan);
    c->memory_step_bytes = plan.total + base_bytes;
    c->memory_bytes =
        c->memory_step_bytes + (plan.moments > gemm_bytes ? plan.moments : gemm_bytes);
    c->memory_available = trainer_memory_available();
    c->fits = c->memory_available < 0 || asked <= c->memory_available;
    if (c->fits)
        return;
    snprintf(c->why, sizeof c->why,
             "does not fit: the model needs %s, of that %s for activations (%s with "
             "train.recompute=layer), but %s is available",
             unit_bytes(need, asked), unit_bytes(acts, (double)plan.activations),
             unit_bytes(less, (double)plan.activations_recompute),
             unit_bytes(have, c->memory_available));
}

// ---- one pass -----------------------------------------------------------------------------------

static struct mark mark_now(const struct cost_job *j)
{
    char why[64];
    struct mark m = {0};

    j->be->op->sync(j->be, why, sizeof why);
    for (int i = 0; i < (int)OPS_COUNT; i++)
        if (!strncmp(backend_op_name(i), "attention_", 10))
            m.attention_ns += trace_row(j->be, i)->ns;
    m.at = cost_now();
    return m;
}

static bool between_layers(void *user)
{
    struct cost_job *j = user;

    if (j->n_marks < j->most_marks)
        j->mark[j->n_marks++] = mark_now(j);
    return atomic_load(&j->cancelled);
}

// Seconds per row between two marks. Attention grows with the sequence.
static double per_row(const struct cost_job *j, int from)
{
    const struct mark *a = &j->mark[from], *b = a + 1;
    double attention = 1e-9 * (double)(b->attention_ns - a->attention_ns);
    double longer = (double)j->spec.train.seq_len / j->slice.spec.train.seq_len;

    return (b->at - a->at + (longer - 1) * attention) / (double)model_rows(j->bench.model);
}

// Means over the layers of each corner; the last one's forward pass and the first one's backward pass
// are not told apart from what surrounds them.
static void read_layers(const struct cost_job *j, int backward, struct times *t)
{
    int n = j->slice.spec.model.n_layers, forwards[CORNERS] = {0}, backwards[CORNERS] = {0};

    for (int i = 0; i < n; i++) {
        int c = j->slice.corner[i];

        if (i < n - 1) {
            t->corner[c].forward += per_row(j, 1 + i);
            forwards[c]++;
        }
        if (i > 0) {
            t->corner[c].backward += per_row(j, backward + n - 1 - i);
            backwards[c]++;
        }
    }
    for (int c = 0; c < CORNERS; c++) {
        t->corner[c].forward /= forwards[c] ? forwards[c] : 1;
        t->corner[c].backward /= backwards[c] ? backwards[c] : 1;
    }
}

// Marks: the start; before each layer; before each chunk of the head; before each layer on the way
// back; the end; behind the optimizer.
static bool read_marks(const struct cost_job *j, struct times *t)
{
    int n = j->slice.spec.model.n_layers, last = j->n_marks - 1, backward = last - 1 - n;
    double head = 0;

    if (backward < n + 2)
        return false;
    *t = (struct times){0};
    read_layers(j, backward, t);
    t->embed_forward = per_row(j, 0);
    for (int i = n; i < backward; i++)
        head += per_row(j, i);
    t->head = head - t->corner[CORNER_LOW].forward;
    t->embed_backward = fmax(0, per_row(j, last - 2) - t->corner[CORNER_LOW].backward);
    t->update = (j->mark[last].at - j->mark[last - 1].at) /
                (double)model_params(j->bench.model)->block_size;
    t->all = j->mark[last].at - j->mark[0].at;
    return true;
}

static int one_pass(struct cost_job *j, struct times *t, struct err *err)
{
    int rc;

    j->n_marks = 0;
    between_layers(j);
    rc = bench_pass(&j->bench, err);
    if (rc > 0)
        return err_set(err, "the calibration was cancelled");
    if (rc < 0)
        return -1;
    between_layers(j);
    bench_update(&j->bench, ++j->updates);
    between_layers(j);
    if (!read_marks(j, t))
        BUG("%d marks in a pass over %d layers", j->n_marks, j->slice.spec.model.n_layers);
    return 0;
}

// ---- from the slice to the profile --------------------------------------------------------------

static void median_times(struct cost_job *j, struct times *out)
{
    double v[MOST_PASSES];

    for (int k = 0; k < N_TIMES; k++) {
        for (int i = 0; i < j->n_times; i++)
            v[i] = ((const double *)&j->times[i])[k];
        ((double *)out)[k] = cost_median(v, j->n_times);
    }
    for (int i = 0; i < j->n_times; i++)
        v[i] = j->times[i].all;
    j->cost.spread = cost_spread(v, j->n_times);
}

static double share(double low, double v, double high)
{
    return high > low ? (v - low) / (high - low) : 0;
}

// Between the corners; noise never makes a wider layer cheaper.
static double between(double low, double attention, double a, double ffn, double f)
{
    return low + a * fmax(0, attention - low) + f * fmax(0, ffn - low);
}

static struct layer_time layer_time(const struct cost_job *j, const struct times *t, int layer)
{
    const struct spec *s = &j->spec;
    const struct slice *c = &j->slice;
    const struct layer_time *low = &t->corner[CORNER_LOW],
                            *attention = &t->corner[CORNER_ATTENTION],
                            *ffn = &t->corner[CORNER_FFN];
    const int *width = s->model.lane[LANE_FFN];
    double a = share(slice_attention_work(s, c->low_attention), slice_attention_work(s, layer),
                     slice_attention_work(s, c->high_attention));
    double f = share(width[c->low_ffn], width[layer], width[c->high_ffn]);

    return (struct layer_time){between(low->forward, attention->forward, a, ffn->forward, f),
                               between(low->backward, attention->backward, a, ffn->backward, f)};
}

static double vocab_scale(const struct cost_job *j)
{
    return (double)spec_padded_vocab(&j->spec.model) / spec_padded_vocab(&j->slice.spec.model);
}

// Tokens of one evaluation, -1 when nobody knows.
static int64_t eval_tokens(const struct spec *s)
{
    struct shard val;
    int64_t n = s->eval.max_tokens;

    if (!s->data.val[0])
        return 0;
    if (shard_open(&val, s->data.val, s->data.dtype, NULL) < 0)
        return n > 0 ? n : -1;
    n = n > 0 && n < val.n ? n : val.n;
    shard_close(&val);
    return n;
}

// At the start over eight micro-batches, then each interval and at the end.
void cost_plan(struct cost *c, const struct spec *s)
{
    int64_t rows = (int64_t)s->train.micro_batch_size * s->train.seq_len;
    int64_t tokens = eval_tokens(s), every = s->eval.interval;
    double whole = c->forward_row_s * (double)((tokens + rows - 1) / rows * rows), first;

    c->steps = spec_total_steps(s);
    c->tokens = c->steps * spec_tokens_per_step(s);
    c->seconds_total = (double)c->steps * c->seconds_per_step;
    c->evaluations = tokens ? c->steps / every + (c->steps % every != 0) : 0;
    c->seconds_per_eval = tokens > 0 ? whole + gemm_s : NAN;
    if (tokens <= 0)
        return;
    first = fmin(whole, c->forward_row_s * 8 * (double)rows) + gemm_s;
    c->seconds_total += first + (double)c->evaluations * c->seconds_per_eval;
}

// One row's forward pass through the layers; layer_s gets all of the step.
static double add_layers(struct cost_job *j, const struct times *t, double rows)
{
    const struct model_spec *m = &j->spec.model;
    struct cost *c = &j->cost;
    double forward = 0;

    c->n_layers = m->n_layers;
    for (int i = 0; i < m->n_layers; i++) {
        struct layer_time one = layer_time(j, t, i);

        c->layer_s[i] = rows * count_runs(m, i) * (one.forward + one.backward);
        c->layers_s += c->layer_s[i];
        forward += count_runs(m, i) * one.forward;
    }
    return forward;
}

static void predict(struct cost_job *j)
{
    const struct spec *s = &j->spec;
    struct cost *c = &j->cost;
    struct times t;
    struct model_plan plan;
    double rows = (double)spec_tokens_per_step(s), head, forward;

    median_times(j, &t);
    model_plan(s, model_sizes_of(j->be), &plan);
    forward = add_layers(j, &t, rows);
    head = t.head * vocab_scale(j);
    c->embed_s = rows * (t.embed_forward + t.embed_backward);
    c->head_s = rows * head;
    c->optim_s = t.update * (double)plan.weights / (double)j->be->f32_size;
    c->seconds_per_step = c->embed_s + c->layers_s + c->head_s + c->optim_s;
    c->tokens_per_s = rows / c->seconds_per_step;
    c->forward_row_s = t.embed_forward + forward + head / 3; // one product of three
    cost_plan(c, s);
}

// ---- the job ------------------------------------------------------------------------------------

struct cost_job *cost_new(const struct spec *spec, const char *backend)
{
    struct cost_job *j = xcalloc(1, sizeof *j);

    j->spec = *spec;
    snprintf(j->backend, sizeof j->backend, "%s",
             !backend || !strcmp(backend, "auto") ? "cpu" : backend);
    snprintf(j->cost.backend, sizeof j->cost.backend, "%s", j->backend);
    j->cost.seconds_per_step = j->cost.tokens_per_s = j->cost.seconds_total = NAN;
    j->cost.seconds_per_eval = NAN;
    return j;
}

static void release(struct cost_job *j)
{
    bench_close(&j->bench);
    if (j->be)
        backend_close(j->be);
    j->be = NULL;
    free(j->mark);
    j->mark = NULL;
}

void cost_free(struct cost_job *j)
{
    if (!j)
        return;
    release(j);
    free(j);
}

static void describe_slice(struct cost_job *j)
{
    struct cost *c = &j->cost;
    const struct spec *s = &j->slice.spec;
    struct model_plan plan;

    model_plan(s, model_sizes_of(j->be), &plan);
    c->slice_layers = s->model.n_layers;
    c->slice_vocab = spec_padded_vocab(&s->model);
    c->slice_seq_len = s->train.seq_len;
    c->slice_rows = (int64_t)s->train.micro_batch_size * s->train.seq_len;
    c->slice_bytes = plan.total;
    j->most_marks = 2 * s->model.n_layers + (int)(c->slice_rows / j->slice.head_rows) + 8;
}

static int open_backend(struct cost_job *j, struct err *err)
{
    struct backend *be = cost_backend(&j->spec, j->backend, err);

    if (!be)
        return -1;
    if (!(j->be = trace_open(be, false))) {
        backend_close(be);
        return err_set(err, "no memory for a trace");
    }
    j->cost.threads = be->threads;
    snprintf(j->cost.library, sizeof j->cost.library, "%s", backend_gemm_library());
    return 0;
}

static int open_slice(struct cost_job *j, struct err *err)
{
    double rate = 1e9 * model_gemm_gflops(j->be, 1024, 0.05);
    double bytes = slice_bytes_most, available = j->cost.memory_available;

    if (available >= 0 && available / 2 < bytes)
        bytes = available / 2;
    slice_choose(&j->slice, &j->spec, model_sizes_of(j->be), 0.7 * pass_s * rate, bytes);
    describe_slice(j);
    j->mark = xcalloc((size_t)j->most_marks, sizeof *j->mark);
    if (bench_open(&j->bench, j->be, &j->slice.spec, err) < 0)
        return -1;
    model_set_head_rows(j->bench.model, j->slice.head_rows);
    model_set_poll(j->bench.model, between_layers, j);
    return 0;
}

static int open_job(struct cost_job *j, struct err *err)
{
    if (trainer_check(&j->spec, err) < 0 || open_backend(j, err) < 0)
        return -1;
    plan_memory(j);
    if (!j->cost.fits) {
        j->stage = DONE;
        return 0;
    }
    if (open_slice(j, err) < 0)
        return -1;
    j->stage = WARM;
    return 1;
}

static int sample(struct cost_job *j, struct err *err)
{
    double start = cost_now(), cpu = cost_cpu_seconds();

    if (one_pass(j, &j->times[j->n_times], err) < 0)
        return -1;
    j->n_times++;
    j->sampled += cost_now() - start;
    j->cpu += cost_cpu_seconds() - cpu;
    if (j->n_times < LEAST_PASSES || (j->sampled < sample_s && j->n_times < MOST_PASSES))
        return 1;
    j->cost.cores = j->cpu / j->sampled;
    j->cost.passes = j->n_times;
    predict(j);
    j->stage = DONE;
    return 0;
}

static int advance(struct cost_job *j, struct err *err)
{
    switch (j->stage) {
    case OPEN:
        return open_job(j, err);
    case WARM:
        j->stage = SAMPLE;
        return one_pass(j, &j->times[0], err) < 0 ? -1 : 1;
    case SAMPLE:
        return sample(j, err);
    case DONE:
        break;
    }
    return 0;
}

static double done_share(const struct cost_job *j)
{
    if (j->stage == DONE)
        return 1;
    if (j->stage != SAMPLE)
        return j->stage == WARM ? 0.1 : 0;
    return 0.2 + 0.8 * fmin(1, j->sampled / sample_s);
}

int cost_step(struct cost_job *j, struct err *err)
{
    double start = cost_now();
    int rc = atomic_load(&j->cancelled) ? err_set(err, "the calibration was cancelled")
                                        : advance(j, err);

    j->spent += cost_now() - start;
    j->cost.calibration_s = j->spent;
    atomic_store(&j->permille, (int)(1000 * done_share(j)));
    if (rc < 1)
        release(j);
    return rc;
}

void cost_cancel(struct cost_job *j)
{
    atomic_store(&j->cancelled, true);
}

double cost_progress(const struct cost_job *j)
{
    return atomic_load(&j->permille) / 1000.0;
}

const struct cost *cost_result(const struct cost_job *j)
{
    return &j->cost;
}

int cost_predict(const struct spec *spec, const char *backend, struct cost *out, struct err *err)
{
    struct cost_job *j = cost_new(spec, backend);
    int rc;

    while ((rc = cost_step(j, err)) > 0)
        ;
    *out = *cost_result(j);
    cost_free(j);
    return rc;
}
