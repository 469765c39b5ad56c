#include "engine/loader.h"

#include "engine/rng.h"

int loader_init(struct loader *l, const struct shard *shard, int T, int64_t data_seed,
                struct err *err)
{
    BUG_IF(T < 1);
    if (shard->n < (int64_t)T + 1)
        return err_set(err, "'%s' has %lld tokens, a window of train.seq_len %d needs %lld",
                       shard->path, (long long)shard->n, T, (long long)T + 1);
    *l = (struct loader){.shard = shard,
                         .T = T,
                         .windows = (shard->n - 1) / T,
                         .stride = T,
                         .key = rng_key((uint64_t)data_seed, "data"),
                         .vocab = shard->vocab ? shard->vocab : INT32_MAX};
    return 0;
}

// Copies n ids from position `at`; returns how many were beyond the vocabulary.
static int copy_ids(const struct loader *l, int64_t at, int n, int32_t *out)
{
    const uint32_t vocab = (uint32_t)l->vocab;
    int beyond = 0;

    for (int i = 0; i < n; i++) {
        uint32_t id = shard_token(l->shard, at + i);

        beyond += id >= vocab;
        out[i] = id < vocab ? (int32_t)id : 0;
    }
    return beyond;
}

int64_t loader_window(const struct loader *l, int64_t index)
{
    uint64_t epoch = (uint64_t)(index / l->windows), i = (uint64_t)(index % l->windows);

    BUG_IF(index < 0);
    return (int64_t)rng_permute(rng_key_index(l->key, epoch), i, (uint64_t)l->windows);
}

int loader_train(const struct loader *l, int64_t index, int32_t *tokens, int32_t *targets)
{
    int64_t at = loader_window(l, index) * l->T;
    int beyond = copy_ids(l, at, l->T, tokens);

    copy_ids(l, at + 1, l->T - 1, targets); // counted with the tokens already
    return beyond + copy_ids(l, at + l->T, 1, targets + l->T - 1);
}

int64_t loader_eval_windows(const struct loader *l, int64_t max_tokens)
{
    int64_t there = (l->shard->n - 1 + l->stride - 1) / l->stride;
    int64_t asked = max_tokens > 0 ? (max_tokens + l->T - 1) / l->T : there;

    return asked < there ? asked : there;
}

int loader_eval_targets(const struct loader *l, int64_t w, int64_t max_tokens)
{
    int64_t n = l->shard->n - 1 - w * l->stride;

    BUG_IF(w < 0 || w >= loader_eval_windows(l, max_tokens));
    if (max_tokens > 0 && max_tokens - w * l->T < n)
        n = max_tokens - w * l->T;
    return n < l->T ? (int)n : l->T;
}

int loader_eval(const struct loader *l, int64_t w, int64_t max_tokens, int32_t *tokens,
                int32_t *targets)
{
    int n = loader_eval_targets(l, w, max_tokens);
    int64_t at = w * l->stride;

    copy_ids(l, at, n, tokens);
    copy_ids(l, at + 1, n, targets);
    for (int i = n; i < l->T; i++) {
        tokens[i] = 0;
        targets[i] = -1;
    }
    return n;
}
