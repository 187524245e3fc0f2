/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reproducible random numbers for tests and benchmarks: splitmix64 (G. L. Steele et al., "Fast
 * splittable pseudorandom number generators", OOPSLA 2014). Not for secrets.
 */
#ifndef TESTS_SUPPORT_RANDOM_H
#define TESTS_SUPPORT_RANDOM_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

struct random {
    uint64_t state;
    const uint8_t *given; /* `left` bytes that are drawn first; borrowed */
    size_t left;
};

static inline struct random random_seeded(uint64_t seed) {
    return (struct random){.state = seed};
}

/* Draws the bytes of somebody who chooses, such as a fuzzer: one for bounds up to 256, else eight.
 */
static inline struct random random_given(const uint8_t *bytes, size_t count) {
    return (struct random){.given = bytes, .left = count};
}

static inline uint64_t random_take(struct random *random, size_t count) {
    uint64_t value = 0;
    for (; count > 0 && random->left > 0; count--, random->left--)
        value = value << 8 | *random->given++;
    return value;
}

static inline uint64_t random_next(struct random *random) {
    if (random->left > 0)
        return random_take(random, sizeof(uint64_t));
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* In [0, bound), bound > 0; the bias of the remainder is below bound / 2^64. */
static inline uint64_t random_below(struct random *random, uint64_t bound) {
    assert(bound > 0);
    return (bound <= 256 && random->left > 0 ? random_take(random, 1) : random_next(random)) %
           bound;
}

/* In [0, 1), 53 bits. */
static inline double random_unit(struct random *random) {
    return (double)(random_next(random) >> 11) * 0x1p-53;
}

#endif
