/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The row functions that maps are reduced with, for one real type; included by rowops_rows.h,
 * whose names it uses. Unlike `max`, these maxima keep NaN.
 */
/* `candidate` where it is larger or NaN. */
static inline VECTOR F(larger_or_nan)(VECTOR candidate, VECTOR best) {
    const MASK wins = (candidate > best) | (candidate != candidate);
    return (VECTOR)(((MASK)candidate & wins) | ((MASK)best & ~wins));
}

static inline REAL F(larger_or_nan_of)(REAL candidate, REAL best) {
    return candidate > best || candidate != candidate ? candidate : best;
}

static REAL F(row_largest)(const REAL *row, size_t n) {
    VECTOR best = (VECTOR){0} - (REAL)INFINITY;
    REAL lane[F(LANES)], largest = -(REAL)INFINITY;
    size_t at = 0;
    for (; at + F(LANES) <= n; at += F(LANES))
        best = F(larger_or_nan)(F(load)(row + at), best);
    memcpy(lane, &best, sizeof lane);
    for (size_t n_lane = 0; n_lane < F(LANES); n_lane++)
        largest = F(larger_or_nan_of)(lane[n_lane], largest);
    for (; at < n; at++)
        largest = F(larger_or_nan_of)(row[at], largest);
    return largest;
}

static REAL F(row_sum)(const REAL *row, size_t n) {
    VECTOR sum = {0};
    size_t at = 0;
    for (; at + F(LANES) <= n; at += F(LANES))
        sum += F(load)(row + at);
    if (at < n)
        sum += F(load_part)(row + at, n - at, 0);
    return F(sum_of_lanes)(sum);
}

static void F(rows_sum)(const REAL *rows, size_t stride, size_t count, size_t n, REAL *out) {
    size_t at = 0;
    for (; at + F(LANES) <= n; at += F(LANES)) {
        VECTOR sum = F(load)(rows + at);
        for (size_t r = 1; r < count; r++)
            sum += F(load)(rows + r * stride + at);
        F(save)(out + at, sum);
    }
    for (; at < n; at++) {
        out[at] = rows[at];
        for (size_t r = 1; r < count; r++)
            out[at] += rows[r * stride + at];
    }
}

static void F(rows_largest)(const REAL *rows, size_t stride, size_t count, size_t n, REAL *out) {
    size_t at = 0;
    for (; at + F(LANES) <= n; at += F(LANES)) {
        VECTOR best = F(load)(rows + at);
        for (size_t r = 1; r < count; r++)
            best = F(larger_or_nan)(F(load)(rows + r * stride + at), best);
        F(save)(out + at, best);
    }
    for (; at < n; at++) {
        out[at] = rows[at];
        for (size_t r = 1; r < count; r++)
            out[at] = F(larger_or_nan_of)(rows[r * stride + at], out[at]);
    }
}

static size_t F(row_find_above)(const REAL *row, size_t from, size_t n, REAL bound) {
    size_t at = from;
    for (; at + F(LANES) <= n; at += F(LANES)) {
        const MASK above = ~(F(load)(row + at) <= bound);
        MASK any = above;
        int64_t word[sizeof any / sizeof(int64_t)], seen = 0;
        memcpy(word, &any, sizeof word);
        for (size_t w = 0; w < sizeof word / sizeof *word; w++)
            seen |= word[w];
        if (seen != 0)
            break;
    }
    while (at < n && row[at] <= bound)
        at++;
    return at;
}
