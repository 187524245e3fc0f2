/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reproducible random numbers for tests and benchmarks: splitmix64 (G. L. Steele et al., "Fast
 * splittable pseudorandom number generators", OOPSLA 2014). Not for secrets.
 */
#ifndef TESTS_SUPPORT_RANDOM_H
#define TESTS_SUPPORT_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state;
};

static inline struct random random_seeded(uint64_t seed) {
    return (struct random){seed};
}

static inline uint64_t random_next(struct random *random) {
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* In [0, bound); the bias of the remainder is below bound / 2^64. */
static inline uint64_t random_below(struct random *random, uint64_t bound) {
    return random_next(random) % bound;
}

/* In [0, 1), 53 bits. */
static inline double random_unit(struct random *random) {
    return (double)(random_next(random) >> 11) * 0x1p-53;
}

#endif
