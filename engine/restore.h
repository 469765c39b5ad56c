// A run's checkpoint as a model, to look at it: nothing of the run is changed, and it may be training
// meanwhile. One thread at a time.
#ifndef ENGINE_RESTORE_H
#define ENGINE_RESTORE_H

#include "engine/err.h"
#include "engine/model.h"
#include "engine/spec.h"
#include "kernels/backend.h"

struct restored {
    char run[64], dir[512], ckpt[600]; // id; directories of the run and of the checkpoint
    int64_t step;
    struct spec spec;
    struct backend *be;
    struct model *model;
};

// Finds the run and its checkpoint of `step` (< 0: the newest good one) and reads its profile. The
// caller may then change spec.train.seq_len and micro_batch_size.
int restore_find(struct restored *r, const char *run, int64_t step, struct err *err);
// Opens the backend ("auto" or NULL: cpu) and loads the weights. restore_close frees, also after a
// failure and without restore_load.
int restore_load(struct restored *r, const char *backend, enum model_use use, struct err *err);
void restore_close(struct restored *r);

#endif
