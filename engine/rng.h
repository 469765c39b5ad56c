// Counter-based random numbers: (key, index) -> value, with no state to save. The same key and
// index give the same bits on every machine. Keys come from a seed and a name, so that a tensor
// keeps its initial values when another tensor is added. Any thread.
#ifndef ENGINE_RNG_H
#define ENGINE_RNG_H

#include <stdint.h>

uint64_t rng_key(uint64_t seed, const char *name);
uint64_t rng_key_index(uint64_t key, uint64_t index); // a sub-key, e.g. (data key, epoch)
uint64_t rng_u64(uint64_t key, uint64_t index);
double rng_uniform(uint64_t key, uint64_t index); // in (0, 1), 53 bits
double rng_normal(uint64_t key, uint64_t index);  // mean 0, sd 1 (Box-Muller on two counters)
// Normal cut at +-limit standard deviations by drawing again on further counters.
double rng_truncated_normal(uint64_t key, uint64_t index, double limit);

// Permutation of 0..n-1 evaluated at one index (a Feistel network with cycle walking): no table,
// so the order of an epoch needs no memory and no saved state. n >= 1, i < n.
uint64_t rng_permute(uint64_t key, uint64_t i, uint64_t n);

#endif
