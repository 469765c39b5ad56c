// Batches from a shard. Windows are T+1 tokens wide and advance by T. The order of an epoch is a
// counter-based permutation of the windows from (data seed, epoch, index): the batch of a step
// depends on nothing else, so a resumed run sees exactly the same data.
#ifndef ENGINE_LOADER_H
#define ENGINE_LOADER_H

#include <stdint.h>

#include "engine/shard.h"

struct loader {
    const struct shard *shard;
    int T;
    int64_t windows; // per epoch: (n - 1) / T
    uint64_t key;
};

int loader_init(struct loader *l, const struct shard *shard, int T, int64_t data_seed,
                struct err *err);

// Fills sequence number `index` (0-based since the start of training) of the shuffled stream.
void loader_train(const struct loader *l, int64_t index, int32_t *tokens, int32_t *targets);

// Fills window w of the unshuffled stream; the last, partial one is padded with target -1.
// Returns the number of scored targets. w < loader_eval_windows().
int64_t loader_eval_windows(const struct loader *l, int64_t max_tokens); // 0 = all
int loader_eval(const struct loader *l, int64_t w, int64_t max_tokens, int32_t *tokens,
                int32_t *targets);

#endif
