/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The row functions for one real type; included by rowops_set.h with REAL, VECTOR, MASK, MASK_LANE,
 * SUFFIX, REAL_MAX, TURNED and X86_MAX. The last, incomplete vector is filled with an element that
 * changes nothing.
 */
#define F(name) ROWOPS_PASTE(name, SUFFIX)
enum { F(LANES) = sizeof(VECTOR) / sizeof(REAL) };

static inline VECTOR F(load)(const REAL *from) {
    VECTOR vector;
    memcpy(&vector, from, sizeof vector);
    return vector;
}

static inline void F(save)(REAL *to, VECTOR vector) {
    memcpy(to, &vector, sizeof vector);
}

static inline VECTOR F(load_part)(const REAL *from, size_t n, REAL fill) {
    VECTOR vector = (VECTOR){0} + fill;
    memcpy(&vector, from, n * sizeof(REAL));
    return vector;
}

/* The candidate where it is larger; the best where one is NaN. */
static inline VECTOR F(larger)(VECTOR candidate, VECTOR best) {
#if defined(X86_MAX)
    return (VECTOR)X86_MAX(candidate, best);
#else
    const MASK wins = candidate > best;
    return (VECTOR)(((MASK)candidate & wins) | ((MASK)best & ~wins));
#endif
}

/* A vector's lanes are joined in halves, as registers: a chain through all of them would take as
 * long as a short row. */
static inline REAL F(largest_lane)(VECTOR vector) {
    if (F(LANES) > 8)
        vector = F(larger)(TURNED(vector, 8), vector);
    if (F(LANES) > 4)
        vector = F(larger)(TURNED(vector, 4), vector);
    if (F(LANES) > 2)
        vector = F(larger)(TURNED(vector, 2), vector);
    return F(larger)(TURNED(vector, 1), vector)[0];
}

static inline REAL F(sum_of_lanes)(VECTOR vector) {
    if (F(LANES) > 8)
        vector += TURNED(vector, 8);
    if (F(LANES) > 4)
        vector += TURNED(vector, 4);
    if (F(LANES) > 2)
        vector += TURNED(vector, 2);
    return vector[0] + vector[1];
}

ROWOPS_INLINE REAL F(row_max)(const REAL *row, size_t n, REAL floor) {
    VECTOR best = (VECTOR){0} + floor;
    VECTOR other = best;
    size_t at = 0;
    for (; at + 2 * F(LANES) <= n; at += 2 * F(LANES)) {
        best = F(larger)(F(load)(row + at), best);
        other = F(larger)(F(load)(row + at + F(LANES)), other);
    }
    for (; at + F(LANES) <= n; at += F(LANES))
        best = F(larger)(F(load)(row + at), best);
    if (at < n)
        best = F(larger)(F(load_part)(row + at, n - at, floor), best);
    return F(largest_lane)(F(larger)(other, best));
}

static inline VECTOR F(absolute)(VECTOR vector) {
    const MASK sign = (MASK) - (VECTOR){0};
    return (VECTOR)((MASK)vector & ~sign);
}

static REAL F(row_magnitude)(const REAL *row, size_t n) {
    VECTOR best = {0};
    VECTOR other = best;
    size_t at = 0;
    for (; at + 2 * F(LANES) <= n; at += 2 * F(LANES)) {
        best = F(larger)(F(absolute)(F(load)(row + at)), best);
        other = F(larger)(F(absolute)(F(load)(row + at + F(LANES))), other);
    }
    for (; at + F(LANES) <= n; at += F(LANES))
        best = F(larger)(F(absolute)(F(load)(row + at)), best);
    if (at < n)
        best = F(larger)(F(absolute)(F(load_part)(row + at, n - at, 0)), best);
    return F(largest_lane)(F(larger)(other, best));
}

ROWOPS_INLINE REAL F(row_exp_sum)(REAL *row, size_t n, REAL base) {
    VECTOR sum = {0};
    size_t at = 0;
    for (; at + F(LANES) <= n; at += F(LANES)) {
        const VECTOR p = F(exp)(F(load)(row + at) - base);
        F(save)(row + at, p);
        sum += p;
    }
    if (at < n) {
        const VECTOR p = F(exp)(F(load_part)(row + at, n - at, -(REAL)INFINITY) - base);
        memcpy(row + at, &p, (n - at) * sizeof(REAL));
        sum += p;
    }
    return F(sum_of_lanes)(sum);
}

static void F(rows_soften)(REAL *rows, size_t stride, size_t count, size_t n, REAL *m, REAL *l,
                           REAL *shrink) {
    REAL old[ATTN_SOFTEN_ROWS] = {0}, top[ATTN_SOFTEN_ROWS] = {0}, base[ATTN_SOFTEN_ROWS];
    for (size_t r = 0; r < count; r++) {
        old[r] = m[r];
        m[r] = top[r] = F(row_max)(rows + r * stride, n, m[r]);
    }
    for (size_t at = 0; at < count; at += F(LANES)) {
        const VECTOR before = F(load)(old + at), after = F(load)(top + at);
        const MASK same = before == after, none = after == (VECTOR){0} - (REAL)INFINITY;
        const VECTOR change = (VECTOR)((MASK)(before - after) & ~same);
        F(save)(old + at, F(exp)(change));
        F(save)(base + at, (VECTOR)((MASK)after & ~none));
    }
    for (size_t r = 0; r < count; r++) {
        shrink[r] = old[r];
        l[r] = l[r] * old[r] + F(row_exp_sum)(rows + r * stride, n, base[r]);
    }
}

static void F(row_softcap)(REAL *row, size_t n, REAL cap) {
    size_t at = 0;
    for (; at + F(LANES) <= n; at += F(LANES))
        F(save)(row + at, F(softcap)(F(load)(row + at), cap));
    if (at < n) {
        const VECTOR capped = F(softcap)(F(load_part)(row + at, n - at, 0), cap);
        memcpy(row + at, &capped, (n - at) * sizeof(REAL));
    }
}

static inline VECTOR F(tanh_terms)(VECTOR sum, VECTOR k, REAL q, REAL w) {
    return sum + F(tanh)(k + q) * w;
}

static void F(row_tanh_sum)(REAL *row, size_t n, const REAL *q, const REAL *w, const REAL *k,
                            size_t step, size_t D) {
    size_t at = 0;
    for (; at + F(LANES) <= n; at += F(LANES)) {
        VECTOR sum = {0};
        for (size_t d = 0; d < D; d++)
            sum = F(tanh_terms)(sum, F(load)(k + d * step + at), q[d], w[d]);
        F(save)(row + at, sum);
    }
    if (at < n) {
        VECTOR sum = {0};
        for (size_t d = 0; d < D; d++)
            sum = F(tanh_terms)(sum, F(load_part)(k + d * step + at, n - at, 0), q[d], w[d]);
        memcpy(row + at, &sum, (n - at) * sizeof(REAL));
    }
}

static void F(row_scale)(REAL *row, size_t n, REAL factor) {
    size_t at = 0;
    for (; at + F(LANES) <= n; at += F(LANES))
        F(save)(row + at, F(load)(row + at) * factor);
    for (; at < n; at++)
        row[at] *= factor;
}

static void F(row_add_scaled)(REAL *row, const REAL *other, size_t n, REAL factor) {
    size_t at = 0;
    for (; at + F(LANES) <= n; at += F(LANES))
        F(save)(row + at, F(load)(row + at) + F(load)(other + at) * factor);
    for (; at < n; at++)
        row[at] += other[at] * factor;
}

static void F(row_add_bias)(REAL *row, const REAL *bias, size_t n, REAL too_low) {
    for (size_t at = 0; at < n; at++) {
        const REAL sum = row[at] + bias[at];
        const REAL score = sum < -REAL_MAX ? too_low : sum;
        row[at] = bias[at] == -(REAL)INFINITY ? -(REAL)INFINITY : score;
    }
}

/* Lane n is all ones where bit n is set, n < LANES. */
static inline MASK F(spread)(uint64_t bits) {
    MASK bit = {0};
    for (size_t lane = 0; lane < F(LANES); lane++)
        bit[lane] = 1 << lane;
    return (((MASK){0} + (MASK_LANE)bits) & bit) != 0;
}

static void F(row_hide)(REAL *row, const uint64_t *bits, size_t n) {
    const VECTOR hidden = (VECTOR){0} - (REAL)INFINITY;
    for (size_t at = 0; at < n; at += F(LANES)) {
        const size_t rest = n - at < F(LANES) ? n - at : F(LANES);
        const uint64_t all = ((uint64_t)1 << rest) - 1;
        const uint64_t shown = bits[at / 64] >> at % 64 & all;
        if (shown == all)
            continue;
        const VECTOR old = F(load_part)(row + at, rest, 0);
        const MASK keep = F(spread)(shown);
        const VECTOR kept = (VECTOR)(((MASK)old & keep) | ((MASK)hidden & ~keep));
        memcpy(row + at, &kept, rest * sizeof(REAL));
    }
}

/* -inf for the lanes of the vector at `at` that are not in [begin, end). */
static inline void F(keep_lanes)(REAL *row, size_t at, size_t begin, size_t end) {
    MASK lane = {0};
    for (size_t n = 0; n < F(LANES); n++)
        lane[n] = (MASK_LANE)n;
    const MASK place = lane + (MASK_LANE)at;
    const MASK kept = (place >= (MASK_LANE)begin) & (place < (MASK_LANE)end);
    const MASK hidden = (MASK)((VECTOR){0} - (REAL)INFINITY);
    F(save)(row + at, (VECTOR)(((MASK)F(load)(row + at) & kept) | (hidden & ~kept)));
}

static void F(row_keep)(REAL *row, size_t n, size_t begin, size_t end) {
    size_t at = 0;
    for (; at < begin && at + F(LANES) <= n; at += F(LANES))
        F(keep_lanes)(row, at, begin, end);
    at = at < end ? end - (end - at) % F(LANES) : at;
    for (; at + F(LANES) <= n; at += F(LANES))
        F(keep_lanes)(row, at, begin, end);
    for (; at < n; at++)
        row[at] = begin <= at && at < end ? row[at] : -(REAL)INFINITY;
}

static void F(row_rotate)(REAL *row, const REAL *turns, size_t pairs, bool interleaved) {
    const size_t step = interleaved ? 2 : 1, across = interleaved ? 1 : pairs;
    for (size_t n = 0; n < pairs; n++) {
        REAL *const pair = row + n * step;
        const REAL x = pair[0], y = pair[across];
        const REAL c = turns[n], s = turns[pairs + n];
        pair[0] = x * c - y * s;
        pair[across] = x * s + y * c;
    }
}

/* Whether a bit is set in any lane. */
static inline bool F(any)(MASK mask) {
    uint64_t words[sizeof mask / sizeof(uint64_t)], any = 0;
    memcpy(words, &mask, sizeof mask);
    for (size_t n = 0; n < sizeof words / sizeof *words; n++)
        any |= words[n];
    return any != 0;
}

static void F(row_widen)(const float *from, size_t n, REAL *to) {
    typedef float narrow __attribute__((vector_size(F(LANES) * sizeof(float))));
    size_t at = 0;
    for (; at + F(LANES) <= n; at += F(LANES)) {
        narrow part;
        memcpy(&part, from + at, sizeof part);
        F(save)(to + at, __builtin_convertvector(part, VECTOR));
    }
    for (; at < n; at++)
        to[at] = (REAL)from[at];
}

/* All ones in lanes that are NaN or of a magnitude above `most`. */
static inline MASK F(beyond)(VECTOR vector, VECTOR most) {
    return ~(MASK)(F(absolute)(vector) <= most);
}

static bool F(row_all_finite)(const REAL *row, size_t n) {
    const VECTOR most = (VECTOR){0} + REAL_MAX;
    MASK beyond = {0};
    size_t at = 0;
    for (; at + F(LANES) <= n; at += F(LANES))
        beyond |= F(beyond)(F(load)(row + at), most);
    if (at < n)
        beyond |= F(beyond)(F(load_part)(row + at, n - at, 0), most);
    return !F(any)(beyond);
}

static bool F(row_scale_to)(const REAL *row, size_t n, REAL factor, REAL limit, void *to) {
    const VECTOR most = (VECTOR){0} + limit;
    MASK beyond = {0};
    size_t at = 0;
    for (; at + F(LANES) <= n; at += F(LANES)) {
        const VECTOR scaled = F(load)(row + at) * factor;
        beyond |= F(beyond)(scaled, most);
        memcpy((REAL *)to + at, &scaled, sizeof scaled);
    }
    if (at < n) {
        const VECTOR scaled = F(load_part)(row + at, n - at, 0) * factor;
        beyond |= F(beyond)(scaled, most);
        memcpy((REAL *)to + at, &scaled, (n - at) * sizeof(REAL));
    }
    return !F(any)(beyond);
}

#include "core/kernels/rowops_maps.h"

#undef F
#undef REAL
#undef VECTOR
#undef MASK
#undef MASK_LANE
#undef SUFFIX
#undef REAL_MAX
#undef TURNED
#undef X86_MAX
