// What the files of cost share. Nobody else includes this.
#ifndef ENGINE_COST_IMPL_H
#define ENGINE_COST_IMPL_H

#include "engine/cost.h"
#include "engine/model.h"
#include "engine/optim.h"

// Corners of the design: what the layers of a slice are.
enum { CORNER_LOW, CORNER_ATTENTION, CORNER_FFN, CORNERS };

struct slice {
    struct spec spec;            // of the model that is timed
    int head_rows;               // rows of one chunk of logits, as the whole model has them
    int n_corners;               // that differ
    int which[CORNERS];          // the corner of the n-th of them
    int corner[SPEC_MAX_LAYERS]; // of each layer of the slice
    int low_attention, high_attention, low_ffn, high_ffn; // layers of the profile
};

// FLOPs per token of a layer's attention branch: what its cost grows with.
double slice_attention_work(const struct spec *s, int layer);
// The largest slice whose step takes at most `flops` and `bytes`, or the smallest there is.
void slice_choose(struct slice *s, const struct spec *full, struct model_sizes sizes, double flops,
                  double bytes);

// A training step and what it needs.
struct bench {
    struct backend *be;
    struct model *model;
    struct optim *optim;
    int32_t *tokens, *targets;
};
// Builds the model of spec on be (which stays the caller's) with weights that look like initial ones.
int bench_open(struct bench *b, struct backend *be, const struct spec *spec, struct err *err);
void bench_close(struct bench *b);
// 0, 1 when the model's poll abandoned it, -1.
int bench_pass(struct bench *b, struct err *err); // one micro-batch
void bench_update(struct bench *b, int64_t n);    // zero, norm, AdamW

struct backend *cost_backend(const struct spec *spec, const char *name, struct err *err);
double cost_now(void);
double cost_cpu_seconds(void); // of this process, all threads
int64_t cost_anonymous_bytes(void);
double cost_median(double *v, int n); // sorts v
double cost_spread(double *v, int n); // sorts v

#endif
