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

static inline VECTOR F(load_some)(const REAL *from, size_t n, REAL fill) {
    return n == F(LANES) ? F(load)(from) : F(load_part)(from, n, fill);
}

static void F(rows_seen)(const REAL *rows, size_t stride, size_t count, size_t n, REAL *out) {
    for (size_t at = 0; at < n; at += F(LANES)) {
        const size_t rest = n - at < F(LANES) ? n - at : F(LANES);
        MASK seen = {0};
        for (size_t r = 0; r < count; r++)
            seen -= F(load_some)(rows + r * stride + at, rest, 0) != -(REAL)INFINITY;
        const VECTOR counted = __builtin_convertvector(seen, VECTOR);
        memcpy(out + at, &counted, rest * sizeof(REAL));
    }
}

static inline VECTOR F(magnitude_of)(VECTOR x) {
    return F(larger_or_nan)(x, -x);
}

static void F(row_moments)(const REAL *p, const REAL *s, size_t n, REAL m, REAL from,
                           double moments[ATTN_MOMENTS]) {
    VECTOR sum[ATTN_MOMENTS] = {{0}};
    MASK seen = {0};
    VECTOR key = {0};
    for (size_t lane = 0; lane < F(LANES); lane++)
        key[lane] = (REAL)lane;
    VECTOR away = from - key;
    for (size_t at = 0; at < n; at += F(LANES), away -= (REAL)F(LANES)) {
        const size_t rest = n - at < F(LANES) ? n - at : F(LANES);
        const VECTOR weight = F(load_some)(p + at, rest, 0);
        const VECTOR score = F(load_some)(s + at, rest, -(REAL)INFINITY);
        const VECTOR square = weight * weight;
        /* A weight of 0 counts nothing, and its score may be -inf. */
        const VECTOR above = (VECTOR)((MASK)(score - m) & (weight != 0));
        const VECTOR distance = F(magnitude_of)(away);
        sum[ATTN_MOMENT_SUM] += weight;
        sum[ATTN_MOMENT_SQUARE] += square;
        sum[ATTN_MOMENT_CUBE] += square * weight;
        sum[ATTN_MOMENT_SCORE] += weight * above;
        sum[ATTN_MOMENT_DISTANCE] += weight * distance;
        sum[ATTN_MOMENT_LARGEST] = F(larger_or_nan)(weight, sum[ATTN_MOMENT_LARGEST]);
        seen -= score != -(REAL)INFINITY;
    }
    sum[ATTN_MOMENT_SEEN] = __builtin_convertvector(seen, VECTOR);
    for (size_t n_moment = 0; n_moment < ATTN_MOMENTS; n_moment++)
        moments[n_moment] = (double)F(sum_of_lanes)(sum[n_moment]);
    moments[ATTN_MOMENT_LARGEST] =
        (double)F(row_largest)((const REAL *)&sum[ATTN_MOMENT_LARGEST], F(LANES));
}

/* Around the mean of the row itself, so that nothing cancels. */
static void F(row_spread)(const REAL *x, const REAL *s, size_t n, double spread[ATTN_SPREADS]) {
    VECTOR sum = {0}, largest = {0}, off = {0}, square = {0};
    MASK seen = {0};
    for (size_t at = 0; at < n; at += F(LANES)) {
        const size_t rest = n - at < F(LANES) ? n - at : F(LANES);
        const MASK here = F(load_some)(s + at, rest, -(REAL)INFINITY) != -(REAL)INFINITY;
        const VECTOR value = (VECTOR)((MASK)F(load_some)(x + at, rest, 0) & here);
        sum += value;
        largest = F(larger_or_nan)(F(magnitude_of)(value), largest);
        seen -= here;
    }
    const double count = (double)F(sum_of_lanes)(__builtin_convertvector(seen, VECTOR));
    const REAL middle = count > 0 ? (REAL)((double)F(sum_of_lanes)(sum) / count) : 0;
    for (size_t at = 0; at < n; at += F(LANES)) {
        const size_t rest = n - at < F(LANES) ? n - at : F(LANES);
        const MASK here = F(load_some)(s + at, rest, -(REAL)INFINITY) != -(REAL)INFINITY;
        const VECTOR value = (VECTOR)((MASK)(F(load_some)(x + at, rest, 0) - middle) & here);
        off += value;
        square += value * value;
    }
    const double rest = (double)F(sum_of_lanes)(off);
    spread[ATTN_SPREAD_COUNT] = count;
    spread[ATTN_SPREAD_MEAN] = count > 0 ? (double)middle + rest / count : 0;
    spread[ATTN_SPREAD_SQUARES] =
        count > 0 ? (double)F(sum_of_lanes)(square) - rest * rest / count : 0;
    spread[ATTN_SPREAD_LARGEST] = (double)F(row_largest)((const REAL *)&largest, F(LANES));
}
