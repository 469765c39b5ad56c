// The architectures of the three papers and their mixtures as tiny models: one table that gradients,
// backends, recompute and decoding are all checked with.
#ifndef TESTS_ARCH_H
#define TESTS_ARCH_H

#include "engine/model.h"
#include "engine/spec.h"

struct arch_variant {
    const char *name;
    void (*set)(struct spec *s);
};
extern const struct arch_variant arch_variants[];
extern const int arch_count;

struct spec arch_spec(const struct arch_variant *v);
struct spec arch_named(const char *name);
// One value for each layer.
void arch_lane(struct spec *s, enum lane lane, const int *v);

// A model with tiny_fill's weights, and gates that some tokens pass, some are skipped at, and some
// meet half open. Ownership passes to the caller.
struct model *arch_model(struct backend *be, const struct spec *s, enum model_use use);

struct arch_batch {
    int32_t tokens[64], targets[64];
};
// What the gradients are of, as a sum over the rows: cross-entropy, and the gates' regulariser as
// part of the mean.
double arch_loss(struct model *m, const struct spec *s, const struct arch_batch *b);
// Zeroes the gradients, adds those of scale times arch_loss; returns the cross-entropy.
double arch_gradients(struct model *m, const struct arch_batch *b, double scale);
// Element `at` of a block of numbers.
double arch_read(struct model *m, const struct f32 *block, int64_t at);
// Largest difference of two models' gradients, relative to each tensor's largest.
double arch_difference(struct model *a, struct model *b);

#endif
