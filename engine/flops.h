// The FLOPs of a model as others count them (architectures.md §5.2, §5.3), to lay a published figure
// beside one's own. Everywhere else in lathe stands the house standard of count.h. Layers that are
// repeated count once per run in every convention, also in those that know no repetition.
#ifndef ENGINE_FLOPS_H
#define ENGINE_FLOPS_H

#include <jansson.h>

#include "engine/count.h"
#include "engine/spec.h"

struct flops_convention {
    const char *name;   // "palm"
    const char *source; // where it is published
    const char *rule;   // what it counts, in one line
    bool sparsity;      // whether it has a term for tokens that skip layers
    double train_share; // training = this times forward
    // Of one sequence of train.seq_len tokens, forward, when every layer is skipped by the share
    // `sparsity` of the tokens (0 where the convention has no term for it).
    double (*forward)(const struct spec *s, const struct count *c, double sparsity);
};

// The house standard first; ends with a row without a name.
extern const struct flops_convention flops_conventions[];

const struct flops_convention *flops_find(const char *name, size_t len); // NULL if unknown

// {source, rule, sparsity, forward_per_sequence, forward_per_token, train_per_token}; new reference.
json_t *flops_to_json(const struct flops_convention *f, const struct spec *s, const struct count *c,
                      double sparsity);

#endif
