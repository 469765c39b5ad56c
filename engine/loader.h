// Batches from a shard. Windows are T+1 tokens wide and advance by T. The order of an epoch is a
// counter-based permutation of the windows from (data seed, epoch, index): the batch of a step
// depends on nothing else, so a resumed run sees exactly the same data. Any thread; no allocation.
#ifndef ENGINE_LOADER_H
#define ENGINE_LOADER_H

#include <stdint.h>

#include "engine/shard.h"

struct loader {
    const struct shard *shard; // must outlive the loader
    int T;
    int64_t windows; // per epoch: (n - 1) / T
    int64_t stride;  // tokens from one evaluation window to the next; loader_init sets T
    uint64_t key;
    // Ids that are not below this are handed out as 0 and counted, so that a damaged file can never
    // index outside an embedding. loader_init sets the shard's vocabulary, or 2^31 - 1 when that is
    // unknown; the trainer sets the model's.
    int vocab;
};

// Fails when the shard is shorter than one window of T+1 tokens.
int loader_init(struct loader *l, const struct shard *shard, int T, int64_t data_seed,
                struct err *err);

// Fills sequence number `index` (0-based since the start of training) of the shuffled stream:
// tokens (T), targets (T). Returns how many ids were beyond l->vocab, 0 with sound data.
int loader_train(const struct loader *l, int64_t index, int32_t *tokens, int32_t *targets);

// The window of the shard, 0..windows-1, that sequence `index` reads: tokens w*T .. w*T+T.
int64_t loader_window(const struct loader *l, int64_t index);

// Number of windows of the unshuffled stream that cover its first max_tokens targets (0 = all). With
// a larger stride the targets between the windows are not counted.
int64_t loader_eval_windows(const struct loader *l, int64_t max_tokens);
// Targets of window w < loader_eval_windows(): T, fewer in the last one.
int loader_eval_targets(const struct loader *l, int64_t w, int64_t max_tokens);

// Fills window w of the unshuffled stream; the last, partial one is padded with token 0 and
// target -1. Returns the number of scored targets.
int loader_eval(const struct loader *l, int64_t w, int64_t max_tokens, int32_t *tokens,
                int32_t *targets);

#endif
