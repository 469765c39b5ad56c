#include "engine/budget.h"

#include <math.h>
#include <string.h>

#include "engine/buf.h"

const struct budget_row budget_rows[BUDGET_KINDS] = {
    [BUDGET_PARAMS] = {"params", "parameters, all", false},
    [BUDGET_NON_EMBEDDING] = {"non-embedding", "parameters without input embedding and positions", false},
    [BUDGET_FLOPS] = {"flops", "FLOPs per token, forward, full attention", false},
    [BUDGET_TRAIN_FLOPS] = {"train-flops", "FLOPs of the planned run", false},
    [BUDGET_MEMORY] = {"memory", "bytes of training, without the program's own", true},
    [BUDGET_KV] = {"kv", "bytes of keys and values per token (f32)", true},
};

enum budget budget_find(const char *name)
{
    int b = 0;

    while (b < BUDGET_KINDS && strcmp(budget_rows[b].name, name))
        b++;
    return (enum budget)b;
}

double budget_value(enum budget b, const struct spec *spec, const struct count *c)
{
    switch (b) {
    case BUDGET_PARAMS:
        return (double)c->total;
    case BUDGET_NON_EMBEDDING:
        return (double)c->non_embedding;
    case BUDGET_FLOPS:
        return c->forward_per_token;
    case BUDGET_TRAIN_FLOPS:
        return c->train_per_token * (double)spec_total_steps(spec) *
               (double)spec_tokens_per_step(spec);
    case BUDGET_MEMORY:
        return (double)c->weights_bytes + (double)c->gradients_bytes + (double)c->optimizer_bytes +
               (double)c->activations_bytes;
    case BUDGET_KV:
        return (double)c->kv_bytes_per_token;
    case BUDGET_KINDS:
        break;
    }
    BUG("budget %d", (int)b);
}

char *budget_text(enum budget b, double value, char *out)
{
    if (budget_rows[b].is_bytes)
        return unit_bytes(out, value);
    return fabs(value) < 1e13 ? unit_thousands(out, llround(value)) : unit_count(out, value);
}

// Whole numbers up to 2^63 with a unit, larger ones as 5e21.
int budget_parse(enum budget b, const char *text, double *out, struct err *err)
{
    int64_t n;

    if (unit_parse_count(text, &n))
        *out = (double)n;
    else if (!unit_parse_float(text, out))
        *out = 0;
    if (*out > 0)
        return 0;
    return err_set(err, "'%s' is no %s: expected a positive number like %s", text,
                   budget_rows[b].name, budget_rows[b].is_bytes ? "8GiB" : "180M or 1.2e18");
}
