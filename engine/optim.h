// AdamW over a model's parameters: two groups (with and without weight decay, param.decay), the
// learning-rate schedules, and clipping by the global norm. Owns the moments m and v.
// The thread that drives the backend.
#ifndef ENGINE_OPTIM_H
#define ENGINE_OPTIM_H

#include <stdint.h>

#include "engine/err.h"
#include "engine/model.h"
#include "engine/spec.h"

// Learning rate of update n = 1, 2, … of `total`: linear from warmup_start * lr, where an update 0
// would be, to lr at update warmup_steps, then constant or a half cosine that reaches min_lr at
// `total`.
double optim_lr(const struct optim_spec *s, int64_t n, int64_t total);
// After the warm-up, with `share` (0 to 1) of the decay behind it.
double optim_decayed_lr(const struct optim_spec *s, double share);

struct optim;

// NULL with the size asked when the moments do not fit. Borrows the model.
struct optim *optim_new(struct model *m, const struct optim_spec *spec, struct err *err);
void optim_free(struct optim *o);

// Global norm of the accumulated gradients; not finite when one of them is not.
double optim_grad_norm(struct optim *o);
// Root of the sum of squares of all weights; not finite when one of them is not.
double optim_weight_norm(struct optim *o);
// One update with the accumulated gradients, scaled down to optim.max_norm when grad_norm is
// larger. n counts updates from 1 (bias correction).
void optim_step(struct optim *o, int64_t n, double lr, double grad_norm);

// The moments of one tensor between host and device.
enum optim_moment { OPTIM_M, OPTIM_V };
void optim_set(struct optim *o, enum optim_moment which, const struct param *p, const float *src);
void optim_get(struct optim *o, enum optim_moment which, const struct param *p, float *dst);

#endif
