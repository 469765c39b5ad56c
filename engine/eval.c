#include "engine/eval.h"

#include <math.h>
#include <stdlib.h>

#include "engine/buf.h"

struct tally {
    double loss;
    int64_t tokens, bytes; // scored; scored ids that are one source byte
};

// Windows first .. first+B-1; what lies beyond the last one is not scored.
static void fill_batch(const struct loader *l, int64_t first, int64_t windows, int64_t max_tokens,
                       int64_t rows, int32_t *tokens, int32_t *targets, struct tally *t)
{
    for (int64_t b = 0; b < rows / l->T; b++) {
        int32_t *x = tokens + b * l->T, *y = targets + b * l->T;

        if (first + b < windows) {
            t->tokens += loader_eval(l, first + b, max_tokens, x, y);
        } else {
            for (int i = 0; i < l->T; i++) {
                x[i] = 0;
                y[i] = -1;
            }
        }
        for (int i = 0; i < l->T; i++)
            t->bytes += y[i] >= 0 && y[i] < 256;
    }
}

static void finish(const struct loader *l, const struct tally *t, struct eval_result *out)
{
    double bytes = NAN;

    if (l->shard->bytes_are_tokens)
        bytes = (double)t->bytes;
    else if (l->shard->source_bytes > 0)
        bytes = (double)t->tokens * (double)l->shard->source_bytes / (double)l->shard->n;
    out->tokens = t->tokens;
    out->loss = t->loss / (double)t->tokens;
    out->ppl = exp(out->loss);
    out->bpb = bytes > 0 ? t->loss / M_LN2 / bytes : NAN;
}

int eval_run(struct model *m, const struct loader *l, int64_t max_tokens, struct eval_result *out,
             struct err *err)
{
    int64_t rows = model_rows(m), batch = rows / l->T;
    int64_t windows = loader_eval_windows(l, max_tokens);
    int32_t *tokens = xcalloc((size_t)rows, 2 * sizeof *tokens), *targets = tokens + rows;
    struct tally t = {0};
    int rc = 0;

    for (int64_t w = 0; w < windows && !rc; w += batch) {
        double loss = 0;

        fill_batch(l, w, windows, max_tokens, rows, tokens, targets, &t);
        rc = model_loss(m, tokens, targets, &loss, err);
        t.loss += loss;
    }
    free(tokens);
    if (!rc)
        finish(l, &t, out);
    return rc;
}
