/* SPDX-License-Identifier: Apache-2.0 */
/* A map as it is: the wanted rows, keys and heads, written straight into the answer. */
#include <math.h>

#include "core/convert.h"
#include "core/map_internal.h"

/* Where the map's element of a head's place, query row and key is. */
static char *element(const struct attn_reducer *reducer, size_t place, size_t t, size_t key) {
    const struct attn_call *call = reducer->at->call;
    const struct attn_result_tensor *map = &reducer->at->result->tensors[reducer->name];
    const size_t plane = attn_map_plane(reducer->at, call->map_head_count, place);
    const size_t row = plane * call->map_rows + (t - call->map_row);
    return (char *)map->data +
           attn_dtype_size(map->dtype) * (row * call->map_cols + (key - call->map_col));
}

/* Hidden positions that no piece will come for. */
static void fill_rows(const struct attn_reducer *reducer, size_t place, size_t first, size_t last) {
    const struct attn_result_tensor *map = &reducer->at->result->tensors[reducer->name];
    const double hidden = reducer->stage == ATTN_STAGE_WEIGHTS ? 0.0 : -INFINITY;
    size_t top, bottom;
    attn_map_rows(reducer->at, &top, &bottom);
    for (size_t t = top; t < bottom; t++)
        attn_fill(map->dtype, element(reducer, place, t, first), last - first, hidden);
}

static void block(const struct attn_reducer *reducer, size_t key, size_t keys,
                  enum attn_tile_class class) {
    const struct attn_map_task *at = reducer->at;
    const size_t head = at->task->hkv * at->group;
    size_t first, last;
    if (class == ATTN_TILE_FULL || !attn_map_keys(at->call, key, keys, &first, &last))
        return;
    for (size_t place = 0; place < at->call->map_head_count; place++) {
        const size_t h = attn_call_map_head(at->call, place);
        if (h >= head && h < head + at->group)
            fill_rows(reducer, place, first, last);
    }
}

static void store_row(const struct attn_reducer *reducer, const struct attn_map_row *row,
                      const void *s, size_t from, size_t first, size_t last) {
    const struct attn_call *call = reducer->at->call;
    const enum attn_dtype dtype = reducer->at->result->tensors[reducer->name].dtype;
    for (size_t place = 0; place < call->map_head_count; place++) {
        if (attn_call_map_head(call, place) != row->h)
            continue;
        char *to = element(reducer, place, row->t, first);
        if (reducer->at->wide)
            attn_store_double(dtype, to, 1, last - first, (const double *)s + from);
        else
            attn_store_float(dtype, to, 1, last - first, (const float *)s + from);
    }
}

static void piece(const struct attn_reducer *reducer, const struct attn_score_piece *piece) {
    size_t first, last, top, bottom;
    if (!attn_map_keys(reducer->at->call, piece->key, piece->keys, &first, &last) ||
        !attn_map_rows(reducer->at, &top, &bottom))
        return;
    for (size_t r = 0; r < piece->rows; r++) {
        const struct attn_map_row row = attn_map_row_at(reducer->at, piece->row + r);
        if (row.t >= top && row.t < bottom)
            store_row(reducer, &row, piece->s, r * piece->stride + (first - piece->key), first,
                      last);
    }
}

static bool touches(const struct attn_reducer *reducer) {
    return reducer->at->call->map_cols > 0 && attn_map_has_part(reducer);
}

const struct attn_reducer_kind attn_map_full = {.touches = touches, .block = block, .piece = piece};
