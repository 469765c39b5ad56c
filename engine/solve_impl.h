// What the files of solve share. Nobody else includes this.
#ifndef ENGINE_SOLVE_IMPL_H
#define ENGINE_SOLVE_IMPL_H

#include <stdbool.h>

#include "engine/spec.h"

// What moving one layer from before to after adds to the memory of training, told by a model of four
// layers, which takes a fiftieth of the time of a deep one. few: a copy of either, to be overwritten.
// *change: NaN, or what this very step was found to add before. False where only counting all can tell.
bool solve_step_alone(const struct spec *before, const struct spec *after, int layer,
                      struct spec *few, double *change);

#endif
