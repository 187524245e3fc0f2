/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the end of a JSON array without reading its numbers, so that they can be cut out of the
 * document, and counts the commas inside, so that their memory can be sized before parsing.
 * Looks at 64 bytes at a time; only a block with a quote, or one that may close the array, is
 * walked byte by byte.
 */
#include "server/numbers/numbers.h"

#include <string.h>

enum { LANES = 16, BLOCK = 64 };

/* Lane-wise bytes: the compiler maps them to whatever vector registers there are. */
typedef uint8_t lanes __attribute__((vector_size(LANES)));
typedef int8_t signed_lanes __attribute__((vector_size(LANES)));
typedef uint64_t words __attribute__((vector_size(LANES)));

struct scan {
    size_t depth;
    size_t commas;
    bool in_string, escaped;
};

static lanes load(const char *p) {
    lanes bytes;
    memcpy(&bytes, p, sizeof bytes);
    return bytes;
}

static bool any(lanes flags) {
    const words halves = (words)flags;
    return (halves[0] | halves[1]) != 0;
}

static size_t sum(lanes counts) {
    size_t total = 0;
    for (int i = 0; i < LANES; i++)
        total += counts[i];
    return total;
}

/* A comparison sets a lane to 255, that is -1: subtracting it counts. */
struct counts {
    lanes commas, opens, closes, quotes;
};

static struct counts count_block(const char *p) {
    struct counts counts = {{0}, {0}, {0}, {0}};
    for (int i = 0; i < BLOCK; i += LANES) {
        const lanes bytes = load(p + i);
        counts.commas -= (lanes)(bytes == ',');
        counts.opens -= (lanes)(bytes == '[');
        counts.closes -= (lanes)(bytes == ']');
        counts.quotes -= (lanes)(bytes == '"');
    }
    return counts;
}

/* Lane i gets the sum of lanes 0 to i. */
static signed_lanes sum_before(signed_lanes v) {
    const signed_lanes zero = {0};
    v += __builtin_shufflevector(zero, v, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29,
                                 30);
    v += __builtin_shufflevector(zero, v, 0, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28,
                                 29);
    v += __builtin_shufflevector(zero, v, 0, 0, 0, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
                                 27);
    v += __builtin_shufflevector(zero, v, 0, 0, 0, 0, 0, 0, 0, 0, 16, 17, 18, 19, 20, 21, 22, 23);
    return v;
}

/* Follows the depth through a block without quotes; false where it comes to zero inside. */
static bool follow_depth(const char *p, size_t *depth) {
    size_t now = *depth;
    for (int i = 0; i < BLOCK; i += LANES) {
        const lanes bytes = load(p + i);
        const signed_lanes change =
            sum_before((signed_lanes)(bytes == ']') - (signed_lanes)(bytes == '['));
        if (now <= LANES && any((lanes)(change <= (int8_t) - (int)now)))
            return false;
        now += (size_t)(ptrdiff_t)change[LANES - 1];
    }
    *depth = now;
    return true;
}

/* Walks bytes until `stop` or the closing bracket; true when that was found, *p just past it. */
static bool walk_bytes(struct scan *scan, const char **p, const char *stop) {
    const char *at = *p;
    bool closed = false;
    for (; at < stop && !closed; at++) {
        if (scan->in_string) {
            scan->in_string = scan->escaped || *at != '"';
            scan->escaped = !scan->escaped && *at == '\\';
            continue;
        }
        scan->in_string = *at == '"';
        scan->commas += *at == ',';
        scan->depth += *at == '[';
        scan->depth -= *at == ']';
        closed = scan->depth == 0;
    }
    *p = at;
    return closed;
}

/* Blocks that cannot end the array, counted whole; stops before the first other one. */
static const char *skip_blocks(struct scan *scan, const char *p, const char *end) {
    enum { BLOCKS_PER_SUM = 63 }; /* 63 blocks add at most 252 to a lane of 255 */
    while (end - p >= BLOCK) {
        lanes commas = {0};
        int block = 0;
        for (; block < BLOCKS_PER_SUM && end - p >= BLOCK; block++) {
            const struct counts counts = count_block(p);
            if (any(counts.opens | counts.closes | counts.quotes)) {
                if (any(counts.quotes) || !follow_depth(p, &scan->depth))
                    break;
            }
            commas += counts.commas;
            p += BLOCK;
        }
        scan->commas += sum(commas);
        if (block < BLOCKS_PER_SUM)
            break;
    }
    return p;
}

bool number_array_skip(const char *text, size_t length, size_t *end, size_t *comma_count) {
    if (length == 0 || text[0] != '[')
        return false;
    struct scan scan = {1, 0, false, false};
    const char *p = text + 1;
    const char *const stop = text + length;
    while (p < stop) {
        if (!scan.in_string)
            p = skip_blocks(&scan, p, stop);
        if (walk_bytes(&scan, &p, stop - p > BLOCK ? p + BLOCK : stop)) {
            *end = (size_t)(p - text);
            *comma_count = scan.commas;
            return true;
        }
    }
    return false;
}
