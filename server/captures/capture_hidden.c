/* SPDX-License-Identifier: Apache-2.0 */
/* What is hidden in a kept call; see capture_hidden.h. */
#include "server/captures/capture_hidden.h"

#include <assert.h>
#include <math.h>

#include "core/checked.h"
#include "core/convert.h"
#include "server/captures/capture_tile.h"

enum { KEYS = 64 };

bool capture_may_hide(const struct attn_call *call) {
    return call->mask.count > 0 || !attn_tensor_is_none(&call->bias);
}

static uint64_t hidden_by_mask(const struct attn_call *call, size_t h, size_t row, size_t key,
                               size_t keys) {
    uint64_t seen, scratch[ATTN_MASK_MAX_DEPTH + 1];
    const struct attn_mask_tile tile = {
        .b = call->map_batch, .h = h, .row = row, .rows = 1, .key = key, .keys = keys};
    assert(attn_mask_scratch_words(&call->mask, 1, keys) <= sizeof scratch / sizeof *scratch);
    attn_mask_fill(&call->mask, &call->space, &tile, &seen, scratch);
    return ~seen;
}

static uint64_t hidden_by_bias(const struct attn_call *call, size_t h, size_t row, size_t key,
                               size_t keys) {
    const struct attn_tensor *bias = &call->bias;
    const ptrdiff_t at = attn_tensor_offset(bias, call->map_batch, h, row, key);
    double values[KEYS];
    uint64_t hidden = 0;
    attn_load_double(bias->dtype,
                     (const char *)bias->data + at * (ptrdiff_t)attn_dtype_size(bias->dtype),
                     bias->stride[3], keys, values);
    for (size_t j = 0; j < keys; j++)
        hidden |= (uint64_t)(values[j] == -INFINITY) << j;
    return hidden;
}

/* As many of the map's heads as may have something else hidden. */
static size_t heads_that_differ(const struct attn_call *call) {
    const bool differ = attn_mask_varies_by_head(&call->mask) ||
                        (!attn_tensor_is_none(&call->bias) && call->bias.stride[1] != 0);
    return differ ? call->map_head_count : attn_min_size(call->map_head_count, 1);
}

uint64_t capture_hidden_keys(const struct attn_call *call, size_t row, size_t key, size_t keys) {
    const size_t heads = heads_that_differ(call);
    uint64_t hidden = 0;
    assert(keys <= KEYS);
    for (size_t n = 0; n < heads; n++) {
        const size_t h = attn_call_map_head(call, n);
        if (call->mask.count > 0)
            hidden |= hidden_by_mask(call, h, row, key, keys);
        if (!attn_tensor_is_none(&call->bias))
            hidden |= hidden_by_bias(call, h, row, key, keys);
    }
    return hidden;
}

/* As many keys from `key` on as are looked at together: a tile lies on one side of a gap. */
static size_t keys_from(const struct attn_call *call, size_t key, size_t end) {
    const size_t gap = call->space.gap.key;
    return attn_min_size(KEYS, (key < gap ? attn_min_size(gap, end) : end) - key);
}

static bool has_hidden(const uint16_t *bins, size_t count) {
    for (size_t n = 0; n < count; n++)
        if (bins[n] == TILE_HIDDEN)
            return true;
    return false;
}

void capture_show_seen(const struct attn_call *call, uint16_t visible, uint16_t *bins) {
    const size_t end = call->map_col + call->map_cols;
    if (call->sampled || call->pool_rows != call->map_rows || call->pool_cols != call->map_cols)
        return;
    for (size_t r = 0; r < call->map_rows; r++)
        for (size_t key = call->map_col, keys; key < end; key += keys, bins += keys) {
            keys = keys_from(call, key, end);
            if (!has_hidden(bins, keys))
                continue;
            const uint64_t hidden = capture_hidden_keys(call, call->map_row + r, key, keys);
            for (size_t j = 0; j < keys; j++)
                if (bins[j] == TILE_HIDDEN && !(hidden >> j & 1))
                    bins[j] = visible;
        }
}
