// Has the control of a run's gates reached its targets? A result taken before it has means little:
// the controller is still moving the loss it is measured on. Any thread, no allocation.
#ifndef ENGINE_VERDICT_H
#define ENGINE_VERDICT_H

#include "engine/follow.h"
#include "engine/spec.h"

enum {
    VERDICT_WINDOW = 5 // consecutive evaluations with all mean gates on target: converged
};

enum verdict_kind {
    VERDICT_NO_TARGETS, // no gates, or a controller without targets
    VERDICT_UNKNOWN,    // the log does not say yet
    VERDICT_OFF,        // some mean gate is further than delta from its target
    VERDICT_HOLDING,    // none is, but not for VERDICT_WINDOW evaluations yet
    VERDICT_CONVERGED
};

struct verdict {
    enum verdict_kind kind;
    double since;               // step of the first of those evaluations (HOLDING, CONVERGED)
    int held;                   // how many there are
    int gates;                  // L/2; the rest is per gate
    int n_off, n_var_off;       // gates whose mean, variance is not within delta of its target
    double d[SPEC_MAX_LAYERS];  // m - mu*, NaN = unknown; unknown counts as off
    double dv[SPEC_MAX_LAYERS]; // v - sigma*
};

// Whether the controller steers towards targets at all.
bool verdict_has_targets(const struct spec *s);
// Judged on the evaluations, or on the training records of a log whose evaluations have no gates.
void verdict_of(const struct spec *s, const struct follow *f, struct verdict *v);
// "converged since step 3,900", "not converged: layers 2 3", "" without gates. Returns out.
char *verdict_text(const struct spec *s, const struct verdict *v, char *out, size_t size);

#endif
