/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Mersenne Twister of Matsumoto & Nishimura (1998) with their initialisation of 2002; the
 * normal numbers as numpy's legacy generator draws them (Marsaglia's polar method).
 */
#include "core/mt19937.h"

#include <math.h>

enum { WORDS = ATTN_MT19937_WORDS, MIDDLE = 397 };

void attn_mt19937_init(struct attn_mt19937 *random, uint32_t seed) {
    random->state[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++) {
        const uint32_t before = random->state[i - 1];
        random->state[i] = UINT32_C(1812433253) * (before ^ before >> 30) + i;
    }
    random->at = WORDS;
    random->has_normal = false;
    random->normal = 0;
}

static void renew(struct attn_mt19937 *random) {
    uint32_t *state = random->state;
    for (int i = 0; i < WORDS; i++) {
        const uint32_t joined =
            (state[i] & UINT32_C(0x80000000)) | (state[(i + 1) % WORDS] & UINT32_C(0x7fffffff));
        const uint32_t twist = (joined & 1) != 0 ? UINT32_C(0x9908b0df) : 0;
        state[i] = state[(i + MIDDLE) % WORDS] ^ joined >> 1 ^ twist;
    }
    random->at = 0;
}

uint32_t attn_mt19937_word(struct attn_mt19937 *random) {
    if (random->at == WORDS)
        renew(random);
    uint32_t word = random->state[random->at++];
    word ^= word >> 11;
    word ^= word << 7 & UINT32_C(0x9d2c5680);
    word ^= word << 15 & UINT32_C(0xefc60000);
    return word ^ word >> 18;
}

double attn_mt19937_double(struct attn_mt19937 *random) {
    const uint32_t high = attn_mt19937_word(random) >> 5;
    const uint32_t low = attn_mt19937_word(random) >> 6;
    return ((double)high * 67108864.0 + (double)low) / 9007199254740992.0;
}

double attn_mt19937_normal(struct attn_mt19937 *random) {
    if (random->has_normal) {
        random->has_normal = false;
        return random->normal;
    }
    double x, y, square;
    do {
        x = 2.0 * attn_mt19937_double(random) - 1.0;
        y = 2.0 * attn_mt19937_double(random) - 1.0;
        square = x * x + y * y;
    } while (square >= 1.0 || square == 0.0);
    const double factor = sqrt(-2.0 * log(square) / square);
    random->normal = factor * x;
    random->has_normal = true;
    return factor * y;
}
