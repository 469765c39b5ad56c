// What a design can be held to: one row per quantity, with how it is counted. Any thread.
#ifndef ENGINE_BUDGET_H
#define ENGINE_BUDGET_H

#include "engine/count.h"
#include "engine/err.h"
#include "engine/spec.h"

enum budget {
    BUDGET_PARAMS,        // all parameters
    BUDGET_NON_EMBEDDING, // paper A's column: without the input embedding
    BUDGET_FLOPS,         // per token, forward, house standard (count.h)
    BUDGET_TRAIN_FLOPS,   // of the planned run
    BUDGET_MEMORY,        // bytes of training: weights, gradients, moments, activations
    BUDGET_KV,            // bytes of keys and values per token
    BUDGET_KINDS
};

struct budget_row {
    const char *name; // "params", also the option of lathe solve
    const char *what; // "parameters, all"
    bool is_bytes;    // shown and read with KiB, MiB, …
};
extern const struct budget_row budget_rows[BUDGET_KINDS];

// BUDGET_KINDS when there is no such name.
enum budget budget_find(const char *name);
double budget_value(enum budget b, const struct spec *spec, const struct count *c);
// "181,906,688", "5.113E", "3.2GiB"; out: UNIT_SIZE bytes, returned.
char *budget_text(enum budget b, double value, char *out);
// "180M", "8GiB", "5e18" to a positive number. -1 with what was expected.
int budget_parse(enum budget b, const char *text, double *out, struct err *err);

#endif
