// What the files of solve share. Nobody else includes this.
#ifndef ENGINE_SOLVE_IMPL_H
#define ENGINE_SOLVE_IMPL_H

#include <stdbool.h>

#include "engine/spec.h"

// A step of one layer and what it adds to the memory of training; the widths say which step it was.
struct solve_step {
    int widths[9]; // before, after and the widest of the others, by what is shared
    double change;
};
// Sets *known, which may hold an earlier step of this layer, to that from before to after. Takes a model
// of four layers: a fiftieth of the time of a deep one. few: a copy of either spec, to be overwritten.
// False where only counting all can tell.
bool solve_step_alone(const struct spec *before, const struct spec *after, int layer,
                      struct spec *few, struct solve_step *known);

#endif
