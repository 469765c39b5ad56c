#include "engine/rng.h"

#include <math.h>

#include "kernels/bug.h"

// splitmix64's finaliser (Steele, Lea, Flood 2014): a bijection with full avalanche.
static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t rng_key(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325u; // FNV-1a

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return mix(mix(seed + 0x9e3779b97f4a7c15u) ^ h);
}

uint64_t rng_key_index(uint64_t key, uint64_t index)
{
    return mix(key ^ mix(index + 0x632be59bd9b4e019u));
}

uint64_t rng_u64(uint64_t key, uint64_t index)
{
    return mix(mix(key + 0x9e3779b97f4a7c15u * (index + 1)) ^ key);
}

double rng_uniform(uint64_t key, uint64_t index)
{
    return ((double)(rng_u64(key, index) >> 11) + 0.5) * 0x1p-53;
}

double rng_normal(uint64_t key, uint64_t index)
{
    double u = rng_uniform(key, 2 * index), v = rng_uniform(key, 2 * index + 1);

    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

double rng_truncated_normal(uint64_t key, uint64_t index, double limit)
{
    uint64_t sub = rng_key_index(key, index);
    double x;

    for (uint64_t i = 0; fabs(x = rng_normal(sub, i)) > limit; i++)
        ;
    return x;
}

uint64_t rng_permute(uint64_t key, uint64_t i, uint64_t n)
{
    int half = 1;
    uint64_t mask;

    BUG_IF(i >= n);
    while (half < 31 && (1ull << (2 * half)) < n)
        half++;
    mask = (1ull << half) - 1;
    do { // the network permutes 0..4^half-1; walk on until the value is inside
        uint64_t l = i >> half, r = i & mask;

        for (int round = 0; round < 6; round++) {
            uint64_t next = l ^ (rng_u64(key + (uint64_t)round, r) & mask);

            l = r;
            r = next;
        }
        i = l << half | r;
    } while (i >= n);
    return i;
}
