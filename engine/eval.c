#include "engine/eval.h"

#include <math.h>
#include <stdlib.h>

#include "engine/buf.h"

struct tally {
    double loss, means;    // summed over tokens; summed means of windows
    int64_t tokens, bytes; // scored; scored ids that are one source byte
    int64_t batches;       // whole ones, in the gates' statistics
    struct eval_result *out;
};

struct batch {
    int64_t rows;
    int32_t *tokens, *targets;
    int64_t first, windows; // of the loader; what lies behind them is not scored
};

// Returns the number of scored rows, which come first. The others repeat their text, so that a batch
// which has to be measured is not measured on padding.
static int64_t fill_batch(const struct batch *b, const struct loader *l, int64_t max_tokens,
                          struct tally *t)
{
    int64_t scored = 0;

    for (int64_t w = 0; w < b->windows; w++)
        scored +=
            loader_eval(l, b->first + w, max_tokens, b->tokens + w * l->T, b->targets + w * l->T);
    for (int64_t i = 0; i < scored; i++)
        t->bytes += b->targets[i] < 256;
    for (int64_t i = scored; i < b->rows; i++) {
        b->tokens[i] = b->tokens[i - scored];
        b->targets[i] = -1;
    }
    return scored;
}

static int gate_count(const struct model *m)
{
    int n = 0;

    while (param_find(model_params(m), PARAM_SKIP, n))
        n++;
    return n;
}

// Adds what the layers did in the newest batch to that of t->batches others of the same size.
static void add_layers(struct model *m, struct tally *t, int norm_layers)
{
    const struct gate_stat *stat = model_gate_stats(m);
    double newest[SPEC_MAX_LAYERS], have = (double)t->batches++;

    for (int i = gate_count(m) - 1; i >= 0; i--)
        gate_stat_add(&t->out->gate[i], have, &stat[i], 1);
    if (norm_layers)
        model_stream_norms(m, newest);
    for (int i = 0; i < norm_layers; i++)
        t->out->norm[i] += (newest[i] - t->out->norm[i]) / (have + 1);
}

static int score_batch(struct model *m, const struct loader *l, const struct batch *b,
                       const struct eval_options *o, struct tally *t, struct err *err)
{
    int64_t scored;
    double loss = 0;
    int rc;

    if (shard_check(l->shard, err) < 0)
        return -1;
    scored = fill_batch(b, l, o->max_tokens, t);
    if ((rc = model_loss(m, b->tokens, b->targets, &loss, err)))
        return rc;
    t->tokens += scored;
    t->loss += loss;
    t->means += loss * (double)b->windows / (double)scored; // the windows are equally long
    if (scored == b->rows || b->first == 0)
        add_layers(m, t, o->norm_layers);
    return 0;
}

static void finish(const struct loader *l, const struct tally *t, enum eval_avg avg)
{
    struct eval_result *out = t->out;
    double bytes = NAN;

    if (l->shard->bytes_are_tokens)
        bytes = (double)t->bytes;
    else if (l->shard->source_bytes > 0)
        bytes = (double)t->tokens * (double)l->shard->source_bytes / (double)l->shard->n;
    out->tokens = t->tokens;
    out->loss =
        avg == EVAL_AVG_CHUNK ? t->means / (double)out->windows : t->loss / (double)t->tokens;
    out->ppl = exp(out->loss);
    out->bpb = bytes > 0 ? t->loss / M_LN2 / bytes : NAN;
}

int eval_score(struct model *m, const struct loader *l, const struct eval_options *o,
               struct eval_result *out, struct err *err)
{
    struct eval_result r = {.windows = loader_eval_windows(l, o->max_tokens)};
    struct tally t = {.out = &r};
    struct batch b = {.rows = model_rows(m)};
    bool whole = loader_eval_targets(l, r.windows - 1, o->max_tokens) == l->T;
    // for means of windows a shorter last one is a batch of its own
    int64_t equal = o->avg == EVAL_AVG_CHUNK && !whole ? r.windows - 1 : r.windows;
    int rc = 0;

    b.tokens = xcalloc((size_t)b.rows, 2 * sizeof *b.tokens);
    b.targets = b.tokens + b.rows;
    for (; b.first < r.windows && !rc; b.first += b.windows) {
        int64_t left = (b.first < equal ? equal : r.windows) - b.first;

        b.windows = left < b.rows / l->T ? left : b.rows / l->T;
        rc = score_batch(m, l, &b, o, &t, err);
        if (!rc && o->progress)
            o->progress(o->user, (double)(b.first + b.windows) / (double)r.windows);
    }
    free(b.tokens);
    if (rc)
        return rc;
    finish(l, &t, o->avg);
    *out = r;
    return 0;
}

int eval_run(struct model *m, const struct loader *l, int64_t max_tokens, struct eval_result *out,
             struct err *err)
{
    return eval_score(m, l, &(struct eval_options){.max_tokens = max_tokens}, out, err);
}
