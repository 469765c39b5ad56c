#include "engine/sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "engine/buf.h"
#include "engine/rng.h"

static int largest(const float *x, int n)
{
    int best = 0;

    for (int i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

static int check(const float *x, int n, struct err *err)
{
    for (int i = 0; i < n; i++)
        if (isnan(x[i]) || x[i] == INFINITY)
            return err_set(err, "the logit of token %d is %g", i, (double)x[i]);
    if (x[largest(x, n)] == -INFINITY)
        return err_set(err, "all logits are -inf");
    return 0;
}

struct ranked {
    float logit;
    int id;
};

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id - y->id;
}

// Weights of the ids that may be drawn, 0 for the others.
static void weigh(const struct sampler *s, const float *x, double *w)
{
    struct ranked *r;
    double most = x[largest(x, s->vocab)];

    for (int i = 0; i < s->vocab; i++)
        w[i] = exp((x[i] - most) / s->temperature);
    if (s->top_k <= 0 || s->top_k >= s->vocab)
        return;
    r = xcalloc((size_t)s->vocab, sizeof *r);
    for (int i = 0; i < s->vocab; i++)
        r[i] = (struct ranked){x[i], i};
    qsort(r, (size_t)s->vocab, sizeof *r, by_rank);
    for (int i = s->top_k; i < s->vocab; i++)
        w[r[i].id] = 0;
    free(r);
}

static int draw(const struct sampler *s, const float *x, int64_t position)
{
    double *w = xcalloc((size_t)s->vocab, sizeof *w), sum = 0, at;
    int id = 0;

    weigh(s, x, w);
    for (int i = 0; i < s->vocab; i++)
        sum += w[i];
    at = sum * rng_uniform(rng_key(s->seed, "sample"), (uint64_t)position);
    for (int i = 0; i < s->vocab; i++) { // the last one with a weight takes what rounding leaves
        if (w[i] == 0)
            continue;
        id = i;
        at -= w[i];
        if (at < 0)
            break;
    }
    free(w);
    return id;
}

static double log_probability(const float *x, int n, int id)
{
    double most = x[largest(x, n)], sum = 0;

    for (int i = 0; i < n; i++)
        sum += exp(x[i] - most);
    return x[id] - most - log(sum);
}

int sampler_next(const struct sampler *s, const float *logits, int64_t position, double *logprob,
                 struct err *err)
{
    int id;

    if (check(logits, s->vocab, err) < 0)
        return -1;
    id = s->temperature > 0 ? draw(s, logits, position) : largest(logits, s->vocab);
    if (logprob)
        *logprob = log_probability(logits, s->vocab, id);
    return id;
}
