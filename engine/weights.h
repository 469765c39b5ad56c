// A model's tensors and those of a safetensors file, matched by name: checkpoints and everything
// that starts from one.
#ifndef ENGINE_WEIGHTS_H
#define ENGINE_WEIGHTS_H

#include "engine/err.h"
#include "engine/model.h"
#include "engine/safetensors.h"

// The tensor of p under prefix + its name, as files store it.
void weights_describe(struct st_tensor *st, const char *prefix, const struct param *p,
                      const float *data);
// Its data in f; NULL when it is not there or has another shape. `file` stands for f in messages.
const float *weights_find(const struct safetensors *f, const char *file, const char *prefix,
                          const struct param *p, struct err *err);

// Sets every tensor of the model from f, which may hold no others. A longer table of learned
// positions is cut to the model's seq_len. Returns 0, or -1 with the first tensor that does not fit
// and both shapes.
int weights_load(struct model *m, const struct safetensors *f, const char *file, struct err *err);

#endif
