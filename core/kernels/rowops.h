/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on one row of reals that a tile kernel needs between its two products. One source,
 * compiled once per instruction set; a row of function pointers per set, chosen by CPU feature.
 * Every function is deterministic: its bits depend on its arguments and the instruction set.
 */
#ifndef ATTN_CORE_KERNELS_ROWOPS_H
#define ATTN_CORE_KERNELS_ROWOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What statistics need of a row of weights and its masked scores; sums but for the largest weight.
 */
enum attn_moment {
    ATTN_MOMENT_SUM,      /* p */
    ATTN_MOMENT_SQUARE,   /* p^2 */
    ATTN_MOMENT_CUBE,     /* p^3 */
    ATTN_MOMENT_SCORE,    /* p (s - m) */
    ATTN_MOMENT_DISTANCE, /* p |i - j| */
    ATTN_MOMENT_LARGEST,
    ATTN_MOMENT_SEEN, /* scores other than -inf */
    ATTN_MOMENTS
};

/* And of scores: how many, their mean, squares around it, and the largest magnitude. */
enum attn_spread {
    ATTN_SPREAD_COUNT,
    ATTN_SPREAD_MEAN,
    ATTN_SPREAD_SQUARES,
    ATTN_SPREAD_LARGEST,
    ATTN_SPREADS
};

/* Most rows that soften takes. */
enum { ATTN_SOFTEN_ROWS = 16 };

#define ATTN_ROWOPS_MEMBERS(REAL)                                                               \
    /* The largest element and `floor`; NaN elements are passed over. */                        \
    REAL (*max)(const REAL *row, size_t n, REAL floor);                                         \
    /* The largest magnitude; NaN elements are passed over. */                                  \
    REAL (*magnitude)(const REAL *row, size_t n);                                               \
    /* row := exp(row - base), returns the sum. row <= base, or NaN or +inf, which give NaN;    \
       -inf gives exactly 0, and so does anything below the smallest normal number. */          \
    REAL (*exp_sum)(REAL * row, size_t n, REAL base);                                           \
    /* The online softmax's step on `count` rows of n scores, `stride` apart: m becomes         \
       max(m, s), s exp(s - m), shrink exp(old m - m), and l l * shrink plus the row's sum. As  \
       max and exp_sum do it; where m is still -inf, everything is 0. */                        \
    void (*soften)(REAL * rows, size_t stride, size_t count, size_t n, REAL * m, REAL * l,      \
                   REAL * shrink);                                                              \
    /* row := cap * tanh(row / cap); cap is a positive normal number. */                        \
    void (*softcap)(REAL * row, size_t n, REAL cap);                                            \
    void (*scale)(REAL * row, size_t n, REAL factor);                                           \
    /* row += other * factor */                                                                 \
    void (*add_scaled)(REAL * row, const REAL *other, size_t n, REAL factor);                   \
    /* row[j] := sum over d of w[d] * tanh(q[d] + k[d * step + j]), d ascending below D. */     \
    void (*tanh_sum)(REAL * row, size_t n, const REAL *q, const REAL *w, const REAL *k,         \
                     size_t step, size_t D);                                                    \
    /* row += bias; a bias of -inf is selected, so that it hides even NaN, and `too_low`        \
       stands where the sum is -inf but the bias is not. */                                     \
    void (*add_bias)(REAL * row, const REAL *bias, size_t n, REAL too_low);                     \
    /* Selects -inf where the bit is 0: bit n % 64 of bits[n / 64] for element n. */            \
    void (*hide)(REAL * row, const uint64_t *bits, size_t n);                                   \
    /* The same of all but the elements [begin, end), end <= n. */                              \
    void (*keep)(REAL * row, size_t n, size_t begin, size_t end);                               \
    /* Turns pairs of elements, (n, n + pairs) or (2n, 2n + 1), by the angles whose cosines     \
       stand in turns[0 .. pairs) and whose sines stand behind them. */                         \
    void (*rotate)(REAL * row, const REAL *turns, size_t pairs, bool interleaved);              \
    /* to[n] = from[n] */                                                                       \
    void (*widen)(const float *from, size_t n, REAL *to);                                       \
    /* True when no element is NaN or infinite. */                                              \
    bool (*all_finite)(const REAL *row, size_t n);                                              \
    /* to[n] = row[n] * factor, aligned or not, `to` may be the row; true when none of them is  \
       NaN or of a magnitude above `limit`. */                                                  \
    bool (*scale_to)(const REAL *row, size_t n, REAL factor, REAL limit, void *to);             \
    /* For maps. The largest element, NaN when there is one, -inf of none; and the sum. */      \
    REAL (*largest)(const REAL *row, size_t n);                                                 \
    REAL (*sum)(const REAL *row, size_t n);                                                     \
    /* The same of each column over `count` >= 1 rows, `stride` apart. */                       \
    void (*rows_largest)(const REAL *rows, size_t stride, size_t count, size_t n, REAL *out);   \
    void (*rows_sum)(const REAL *rows, size_t stride, size_t count, size_t n, REAL *out);       \
    /* The first element from `from` on that is above `bound`, or NaN; n when there is none. */ \
    size_t (*find_above)(const REAL *row, size_t from, size_t n, REAL bound);                   \
    /* For statistics. Scores other than -inf in each column of rows. */                        \
    void (*rows_seen)(const REAL *rows, size_t stride, size_t count, size_t n, REAL *out);      \
    /* Of weights p and scores s, the row's maximum m, and key j at distance |from - j|. */     \
    void (*moments)(const REAL *p, const REAL *s, size_t n, REAL m, REAL from,                  \
                    double moments[ATTN_MOMENTS]);                                              \
    /* Of x where s is not -inf. */                                                             \
    void (*spread)(const REAL *x, const REAL *s, size_t n, double spread[ATTN_SPREADS]);

struct attn_rowops_float {
    ATTN_ROWOPS_MEMBERS(float)
};

struct attn_rowops_double {
    ATTN_ROWOPS_MEMBERS(double)
};

/* One instruction set. */
struct attn_rowops {
    const char *name;
    bool (*available)(void);
    struct attn_rowops_float f;
    struct attn_rowops_double d;
};

/* Those sets that the build has; some CPUs lack them. */
extern const struct attn_rowops attn_rowops_baseline, attn_rowops_avx2, attn_rowops_avx512;

/* The best set that this CPU has. */
const struct attn_rowops *attn_rowops_best(void);
/* The sets this CPU has, best first; NULL past the end. For tests. */
const struct attn_rowops *attn_rowops_at(size_t index);

#endif
