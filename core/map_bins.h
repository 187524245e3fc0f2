/* SPDX-License-Identifier: Apache-2.0 */
/* Bins of a map's region: bin r of h over n elements is floor(rn/h) to floor((r+1)n/h). */
#ifndef ATTN_CORE_MAP_BINS_H
#define ATTN_CORE_MAP_BINS_H

#include <assert.h>

#include "core/call.h"

/* Bins of one axis: the region's rows or keys. */
struct axis {
    size_t n, bins;
};

static inline struct axis rows_of(const struct attn_call *call) {
    return (struct axis){call->map_rows, call->pool_rows};
}

static inline struct axis keys_of(const struct attn_call *call) {
    return (struct axis){call->map_cols, call->pool_cols};
}

/* The first element of a bin; of the one past the last, n. */
static inline size_t bin_begin(struct axis axis, size_t bin) {
    assert(axis.bins > 0 || axis.n == 0);
    return axis.bins == axis.n ? bin : bin * axis.n / axis.bins;
}

static inline size_t bin_of(struct axis axis, size_t at) {
    return axis.bins == axis.n ? at : ((at + 1) * axis.bins - 1) / axis.n;
}

/* The element that stands for a bin where maps are sampled. */
static inline size_t bin_middle(struct axis axis, size_t bin) {
    return (bin_begin(axis, bin) + bin_begin(axis, bin + 1)) / 2;
}

/* Whether query row t of the region counts: where the map is sampled, one of each bin does. */
static inline bool row_counts(const struct attn_call *call, size_t t) {
    const struct axis rows = rows_of(call);
    return !call->sampled || t - call->map_row == bin_middle(rows, bin_of(rows, t - call->map_row));
}

#endif
