/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The row functions for one real type; included by rowops_set.h with REAL, VECTOR, MASK, SUFFIX and
 * REAL_MAX. The last, incomplete vector is filled with an element that changes nothing.
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

static inline VECTOR F(larger)(VECTOR candidate, VECTOR best) {
    const MASK wins = candidate > best;
    return (VECTOR)(((MASK)candidate & wins) | ((MASK)best & ~wins));
}

static REAL F(row_max)(const REAL *row, size_t n, REAL floor) {
    VECTOR best = (VECTOR){0} + floor;
    size_t at = 0;
    for (; at + F(LANES) <= n; at += F(LANES))
        best = F(larger)(F(load)(row + at), best);
    if (at < n)
        best = F(larger)(F(load_part)(row + at, n - at, floor), best);
    REAL largest = floor;
    for (size_t lane = 0; lane < F(LANES); lane++)
        largest = best[lane] > largest ? best[lane] : largest;
    return largest;
}

static REAL F(row_exp_sum)(REAL *row, size_t n, REAL base) {
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
    REAL total = 0;
    for (size_t lane = 0; lane < F(LANES); lane++)
        total += sum[lane];
    return total;
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

static void F(row_scale)(REAL *row, size_t n, REAL factor) {
    for (size_t at = 0; at < n; at++)
        row[at] *= factor;
}

static void F(row_add_bias)(REAL *row, const REAL *bias, size_t n) {
    for (size_t at = 0; at < n; at++)
        row[at] = bias[at] == -(REAL)INFINITY ? -(REAL)INFINITY : row[at] + bias[at];
}

static bool F(row_all_finite)(const REAL *row, size_t n) {
    int finite = 1;
    for (size_t at = 0; at < n; at++)
        finite &= row[at] <= REAL_MAX && row[at] >= -REAL_MAX;
    return finite;
}

#undef F
#undef REAL
#undef VECTOR
#undef MASK
#undef SUFFIX
#undef REAL_MAX
