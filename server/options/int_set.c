/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorting by bits, from the highest down: each part is split into the values without and with the
 * bit, in place. No list is a bad case, and parts that wait are at most one per bit.
 */
#include "server/options/int_set.h"

enum { BITS = 64, SMALL = 16 };

/* Values [begin, end) agree in all bits above the lowest `bits`. */
struct part {
    size_t begin, end;
    int bits;
};

bool int_set_is_one(const int64_t *values, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (values[i] <= values[i - 1])
            return false;
    return true;
}

/* Numbers whose order without a sign is the values' order. */
static uint64_t unsigned_of(int64_t value) {
    return (uint64_t)value ^ UINT64_C(1) << (BITS - 1);
}

/* How many of the lowest bits differ somewhere. */
static int differing_bits(const int64_t *values, size_t count) {
    uint64_t different = 0;
    for (size_t i = 1; i < count; i++)
        different |= (uint64_t)values[i] ^ (uint64_t)values[0];
    return different == 0 ? 0 : BITS - __builtin_clzll(different);
}

/* Moves the values without the part's highest bit to its front; returns where the others begin. */
static size_t split(int64_t *values, const struct part *part) {
    const uint64_t bit = UINT64_C(1) << (part->bits - 1);
    size_t low = part->begin, high = part->end;
    while (low < high) {
        const int64_t value = values[low];
        if ((unsigned_of(value) & bit) == 0) {
            low++;
            continue;
        }
        values[low] = values[--high];
        values[high] = value;
    }
    return low;
}

static void sort_small(int64_t *values, const struct part *part) {
    for (size_t i = part->begin + 1; i < part->end; i++) {
        const int64_t value = values[i];
        size_t at = i;
        for (; at > part->begin && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
}

static bool sort(int64_t *values, size_t count, const atomic_bool *cancelled) {
    struct part waiting[BITS + 1] = {{0, count, differing_bits(values, count)}};
    size_t waits = 1;
    while (waits > 0) {
        struct part part = waiting[--waits];
        while (part.end - part.begin > SMALL && part.bits > 0) {
            if (cancelled != NULL && atomic_load_explicit(cancelled, memory_order_relaxed))
                return false;
            const size_t middle = split(values, &part);
            part.bits--;
            waiting[waits++] = (struct part){middle, part.end, part.bits};
            part.end = middle;
        }
        if (part.bits > 0)
            sort_small(values, &part);
    }
    return true;
}

bool int_set_make(int64_t *values, size_t count, const atomic_bool *cancelled, size_t *kept) {
    if (!sort(values, count, cancelled))
        return false;
    *kept = 0;
    for (size_t i = 0; i < count; i++)
        if (i == 0 || values[i] != values[*kept - 1])
            values[(*kept)++] = values[i];
    return true;
}
