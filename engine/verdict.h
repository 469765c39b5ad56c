// Has the control of a run's gates come to rest (gate_converged)? A result taken before it has means
// little: the controller is still moving the loss it is measured on. Any thread.
#ifndef ENGINE_VERDICT_H
#define ENGINE_VERDICT_H

#include "engine/follow.h"
#include "engine/gate.h"
#include "engine/spec.h"

enum verdict_kind {
    VERDICT_NO_TARGETS, // no gates, or a controller without targets
    VERDICT_UNKNOWN,    // the log does not say yet
    VERDICT_TOO_FEW,    // on target as far as seen, but not for enough evaluations
    VERDICT_OFF,        // a layer is or was off within the last evaluations, or still drifts
    VERDICT_CONVERGED
};

struct verdict {
    enum verdict_kind kind;
    int seen, wanted;              // evaluations; wanted = those that are judged
    int gates;                     // L/2; the rest is per gate
    double mu[SPEC_MAX_LAYERS];    // targets of mean and variance
    double sigma[SPEC_MAX_LAYERS]; //
    unsigned why[SPEC_MAX_LAYERS]; // GATE_… bits, without GATE_TOO_FEW
    double d[SPEC_MAX_LAYERS];     // newest m - mu, NaN = unknown
    double dv[SPEC_MAX_LAYERS];    // newest v - sigma
};

// Whether the controller steers towards targets at all.
bool verdict_has_targets(const struct spec *s);
// Judged on the evaluations, with the coefficients of the training record before each.
void verdict_of(const struct spec *s, const struct follow *f, struct verdict *v);
// "converged", "not converged: layer 2 mean 0.024 below its target, and 1 more", "3 of 10 evaluations
// seen", "" without gates. Returns out.
char *verdict_text(const struct spec *s, const struct verdict *v, char *out, size_t size);

#endif
