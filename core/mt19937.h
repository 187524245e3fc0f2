/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The random numbers of numpy.random.RandomState(seed), bit for bit, so that experiments published
 * with numpy can be had again: MT19937 seeded by init_genrand, doubles of 53 bits, and normal
 * numbers by the polar method, which yields two at a time. Not for secrets.
 */
#ifndef ATTN_CORE_MT19937_H
#define ATTN_CORE_MT19937_H

#include <stdbool.h>
#include <stdint.h>

enum { ATTN_MT19937_WORDS = 624 };

struct attn_mt19937 {
    uint32_t state[ATTN_MT19937_WORDS];
    int at; /* the next word */
    bool has_normal;
    double normal; /* the second of a pair */
};

void attn_mt19937_init(struct attn_mt19937 *random, uint32_t seed);
uint32_t attn_mt19937_word(struct attn_mt19937 *random);
/* In [0, 1): random_sample(). */
double attn_mt19937_double(struct attn_mt19937 *random);
/* Mean 0, variance 1: randn(). */
double attn_mt19937_normal(struct attn_mt19937 *random);

#endif
