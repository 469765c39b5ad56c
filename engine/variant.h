// Designs that belong beside another one in a comparison (objections A2 and A7 of the notes): its
// shape reversed, permuted, averaged, and the uniform designs of the same budget. Any thread.
#ifndef ENGINE_VARIANT_H
#define ENGINE_VARIANT_H

#include <stdint.h>

#include "engine/budget.h"
#include "engine/err.h"
#include "engine/spec.h"

enum variant {
    VARIANT_REVERSE, // layer i becomes layer L-1-i
    VARIANT_PERMUTE, // the same layers in a random order, drawn by seed
    VARIANT_AVERAGE, // every layer has the mean width, heads and repetitions, to the next legal one;
                     // the mean of those that have an FFN or attention, and only these get it
    VARIANTS
};
extern const char *const variant_names[]; // "reverse", "permute", "average", NULL

// A layer's widths, heads and repetitions stay together. The name gets an ending. -1 when it would be
// the same design, with the reason.
int variant_make(const struct spec *from, enum variant v, uint64_t seed, struct spec *out,
                 struct err *err);

// The uniform design of n_layers layers with n_heads query heads (and from's ratio of kv heads, or as
// many where it has none) whose FFN width, a multiple of ffn_step, comes nearest to the budget. -1
// with the reason when the profile forbids it.
int variant_uniform(const struct spec *from, int n_layers, int n_heads, enum budget b,
                    double target, struct spec *out, struct err *err);

// What a grid of uniform designs ranges over where nobody says: depths of 2/3 to 4/3 of the profile's
// and half, three quarters and all of the d_model / head_dim heads, as far as they are legal.
int variant_usual_depths(const struct spec *s, int *out, int max);
int variant_usual_heads(const struct spec *s, int *out, int max);

#endif
