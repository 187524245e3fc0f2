/* SPDX-License-Identifier: Apache-2.0 */
/* What comes back of the map: stage, heads, region, pool and top_k. */
#include <assert.h>
#include <string.h>

#include "core/call_internal.h"

/* Rows, keys and bins of what is reduced: their products fit 64 bits, key numbers an int32. */
#define REDUCED_MAX ((size_t)1 << 31)

/* One end of the region: [begin, end) inside [0, size]. */
static enum attn_status resolve_range(bool given, const int64_t range[2], size_t size,
                                      const char *name, size_t *begin, size_t *count,
                                      struct attn_error *error) {
    *begin = 0;
    *count = size;
    if (!given)
        return ATTN_OK;
    if (range[0] < 0 || range[1] < range[0] || (uint64_t)range[1] > size) {
        char pointer[32] = "/weights/";
        strcat(pointer, name);
        return attn_fail(error, ATTN_BAD_VALUE, pointer,
                         "%s must be [first, end) with 0 <= first <= end <= %zu, got [%lld, %lld].",
                         name, size, (long long)range[0], (long long)range[1]);
    }
    *begin = (size_t)range[0];
    *count = (size_t)(range[1] - range[0]);
    return ATTN_OK;
}

static enum attn_status resolve_region(struct attn_call *call, const struct attn_map_selection *map,
                                       struct attn_error *error) {
    const enum attn_status status = resolve_range(map->rows_given, map->rows, call->Tq, "rows",
                                                  &call->map_row, &call->map_rows, error);
    if (status != ATTN_OK)
        return status;
    return resolve_range(map->cols_given, map->cols, call->Tk, "cols", &call->map_col,
                         &call->map_cols, error);
}

static enum attn_status resolve_heads(struct attn_call *call, const struct attn_map_selection *map,
                                      struct attn_error *error) {
    for (size_t n = 0; n < map->heads.count; n++) {
        const int64_t head = map->heads.values[n];
        if (head < 0 || (uint64_t)head >= call->Hq)
            return attn_fail(
                error, ATTN_BAD_VALUE, "/weights/heads",
                "heads must name query heads by number, from 0 and below Hq = %zu; got "
                "%lld.",
                call->Hq, (long long)head);
    }
    const bool chosen = map->heads.values != NULL;
    if (chosen && call->q_rank == 2 && map->heads.count != 1)
        return attn_fail(error, ATTN_BAD_VALUE, "/weights/heads",
                         "Rank-2 inputs have one head, whose map has no axis for heads; leave "
                         "heads out or give [0], not %zu entries.",
                         map->heads.count);
    call->map_heads = chosen ? map->heads.values : NULL;
    call->map_head_count = chosen ? map->heads.count : call->Hq;
    call->map_over_heads = map->over_heads;
    return ATTN_OK;
}

static enum attn_status resolve_bins(int64_t bins, size_t size, const char *name, const char *what,
                                     size_t *out, struct attn_error *error) {
    char pointer[40] = "/weights/pool/";
    strcat(pointer, name);
    if (size == 0)
        return attn_fail(error, ATTN_BAD_VALUE, pointer,
                         "The region has no %s to be pooled. Leave pool out, or take another "
                         "region.",
                         what);
    if (size > REDUCED_MAX)
        return attn_fail(error, ATTN_BAD_VALUE, pointer,
                         "At most 2^31 %s can be pooled, and the region has %zu. Take a part of it "
                         "with %s.",
                         what, size, name);
    if (bins < 1 || (uint64_t)bins > size)
        return attn_fail(error, ATTN_BAD_VALUE, pointer,
                         "A pool has from 1 bin to one for each of the %zu %s of the region; got "
                         "%lld. Ask for fewer bins.",
                         size, what, (long long)bins);
    *out = (size_t)bins;
    return ATTN_OK;
}

static enum attn_status resolve_pool(struct attn_call *call, const struct attn_map_selection *map,
                                     struct attn_error *error) {
    call->pool_rows = call->map_rows;
    call->pool_cols = call->map_cols;
    call->pool = map->pool_given ? map->pool : ATTN_POOL_MAX;
    call->pooled = map->pool_given;
    if (!map->pool_given)
        return ATTN_OK;
    const enum attn_status status =
        resolve_bins(map->pool_rows, call->map_rows, "rows", "query rows", &call->pool_rows, error);
    if (status != ATTN_OK)
        return status;
    return resolve_bins(map->pool_cols, call->map_cols, "cols", "keys", &call->pool_cols, error);
}

static enum attn_status resolve_top_k(struct attn_call *call, const struct attn_map_selection *map,
                                      struct attn_error *error) {
    static const char pointer[] = "/weights/top_k";
    const unsigned both = ATTN_RETURN_WEIGHTS | ATTN_RETURN_SCORES;
    call->top_k = 0; /* a kept call has that of its answer */
    if (!map->top_k_given)
        return ATTN_OK;
    if (map->top_k < 1 || (uint64_t)map->top_k > REDUCED_MAX || call->Tk > REDUCED_MAX)
        return attn_fail(error, ATTN_BAD_VALUE, pointer,
                         "top_k is how many keys come back per query: from 1 to 2^31, of at most "
                         "2^31 keys; got %lld of %zu.",
                         (long long)map->top_k, call->Tk);
    if (map->pool_given || map->over_heads != ATTN_HEADS_EACH)
        return attn_fail(error, ATTN_BAD_VALUE, pointer,
                         "top_k lists keys of each query and head; with %s there are none to "
                         "list. Leave one of the two out.",
                         map->pool_given ? "pool" : "the mean or max of heads");
    if ((call->returns & both) == both)
        return attn_fail(error, ATTN_BAD_VALUE, pointer,
                         "top_k is of one map, and the call returns weights and scores. Ask for "
                         "one of them.");
    call->top_k = (size_t)map->top_k;
    return ATTN_OK;
}

/* Bins that `size` is put in so that there are at most `most`: all of one size, as far as it goes.
 */
static size_t fitting_bins(size_t size, size_t most) {
    const size_t each = size / most + (size % most != 0);
    return size <= most ? size : size / each + (size % each != 0);
}

enum attn_status attn_call_fit_map(struct attn_call *call, size_t most, struct attn_error *error) {
    if (call->pooled || (call->map_rows <= most && call->map_cols <= most))
        return ATTN_OK;
    const size_t cols = fitting_bins(call->map_cols, most);
    if (call->map_rows == 0 || call->map_cols == 0) /* nothing lies in the bins */
        return ATTN_OK;
    assert(call->map_rows <= REDUCED_MAX); /* a call has fewer */
    call->pool_rows = fitting_bins(call->map_rows, most);
    call->pooled = true;
    return resolve_bins((int64_t)cols, call->map_cols, "cols", "keys", &call->pool_cols, error);
}

enum attn_status attn_call_resolve_map(struct attn_call *call, struct attn_request *request,
                                       struct attn_error *error) {
    typedef enum attn_status (*step)(struct attn_call *, const struct attn_map_selection *,
                                     struct attn_error *);
    static const step STEPS[] = {resolve_region, resolve_heads, resolve_pool, resolve_top_k};
    call->stage = request->map.stage;
    call->map_batch = 0;
    call->map_batches = call->B;
    for (size_t n = 0; n < sizeof STEPS / sizeof *STEPS; n++)
        if (STEPS[n](call, &request->map, error) != ATTN_OK)
            return error->status;
    return ATTN_OK;
}
