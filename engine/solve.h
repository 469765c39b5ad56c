// Moves a design onto a budget.
//
// By a lane: the layers that are not locked keep their shape. Under a common scale s layer i wants
// s w_i, w_i its multiplier before rounding (its present width where no generator describes the
// lane); as s grows each layer goes up by one legal step when s w_i passes the middle between two
// legal widths. These steps in order, ties from the middle of the stack outwards, are the designs
// of one shape; the one nearest to the target is taken. Where layers cost differently (reuse, mixed
// kv ratios) single steps that come nearer still follow, best first, until there is none.
// By n_layers or d_model: the value whose design comes nearest, lanes follow as profile_set() says.
// By tokens: the number of optimizer steps (FLOP-matched length).
#ifndef ENGINE_SOLVE_H
#define ENGINE_SOLVE_H

#include <stdbool.h>

#include "engine/budget.h"
#include "engine/count.h"
#include "engine/err.h"
#include "engine/spec.h"

enum solve_by { SOLVE_FFN, SOLVE_HEADS, SOLVE_DEPTH, SOLVE_WIDTH, SOLVE_TOKENS, SOLVE_WAYS };
extern const char *const solve_names[]; // "ffn", "heads", "depth", "width", "tokens", NULL

struct solve_request {
    enum budget budget;
    double target;
    enum solve_by by;
    // n_layers entries that must not move, NULL = none. With one, DEPTH and WIDTH are refused.
    const bool *locked;
};

struct solved {
    struct spec spec;
    struct count count;
    double value, residual; // value - target
    int moved;              // layers with another width; else 1 where something changed
    // The nearest design on the other side of the target: its value, NaN where there is none.
    double other;
    char why[160]; // what keeps the residual from being 0, "" when it is 0
};

// A layer without an FFN or attention gets none. from must be valid. Returns 0, or -1 with the reason
// why nothing can be moved at all: all layers locked, a quantity that this way does not change, no whole length. Any thread; *out may be from's
// owner only if it is another object.
int solve(const struct spec *from, const struct solve_request *r, struct solved *out,
          struct err *err);

#endif
