/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of maps share: a table of reducers. */
#ifndef ATTN_CORE_MAP_INTERNAL_H
#define ATTN_CORE_MAP_INTERNAL_H

#include "core/checked.h"
#include "core/kernels/rowops.h"
#include "core/map.h"

enum { ATTN_REDUCERS_MOST = 3, ATTN_SLOT_ALIGNMENT = 64 };

/* One thing to be made of a task's scores. */
struct attn_reducer {
    const struct attn_reducer_kind *kind;
    enum attn_result_name name; /* the tensor it fills */
    enum attn_stage stage;      /* of the map */
    unsigned stages;            /* that its pieces come from, bits 1u << enum attn_stage */
    const struct attn_map_task *at;
    const struct attn_rowops *ops;
    void *slot;  /* its part of the task's slot, NULL when it wants none */
    void *carry; /* what it keeps from one commit to the next */
};

/* A kind of reducer. All but `touches` and `piece` may be NULL. */
struct attn_reducer_kind {
    /* Bytes, SIZE_MAX when they do not fit. */
    size_t (*slot_bytes)(const struct attn_call *call, const struct attn_plan *plan);
    size_t (*carry_bytes)(const struct attn_call *call, const struct attn_plan *plan);
    bool (*touches)(const struct attn_reducer *reducer);
    /* Around the walk, on the task's thread. What was open may be opened again. */
    void (*open)(const struct attn_reducer *reducer);
    void (*block)(const struct attn_reducer *reducer, size_t key, size_t keys,
                  enum attn_tile_class class);
    void (*piece)(const struct attn_reducer *reducer, const struct attn_score_piece *piece);
    void (*close)(const struct attn_reducer *reducer);
    /* One task after the other, in their order. */
    void (*commit)(const struct attn_reducer *reducer);
};

extern const struct attn_reducer_kind attn_map_full, attn_map_pool, attn_map_top, attn_map_stats;
unsigned attn_map_stats_stages(const struct attn_call *call);

/* The reducers of a call: one per map that comes back, and one for statistics. */
size_t attn_map_reducers(const struct attn_call *call,
                         struct attn_reducer reducers[ATTN_REDUCERS_MOST]);

/* Query rows [top, bottom) of the task that lie in the map's region; false when there are none. */
bool attn_map_rows(const struct attn_map_task *at, size_t *top, size_t *bottom);
/* True when rows, heads and the batch item of the task lie in the map. */
bool attn_map_has_part(const struct attn_reducer *reducer);
/* Which of a map's planes a place of the selection is, of `planes` per batch item. */
static inline size_t attn_map_plane(const struct attn_map_task *at, size_t planes, size_t place) {
    return (at->task->b - at->call->map_batch) * planes + place;
}

/* What a score row of the task is. */
struct attn_map_row {
    size_t g, h, t; /* head of the group, query head, query row */
};

static inline struct attn_map_row attn_map_row_at(const struct attn_map_task *at, size_t row) {
    const size_t g = row / at->task->rows;
    return (struct attn_map_row){g, at->task->hkv * at->group + g,
                                 at->task->row + row % at->task->rows};
}

/* The keys of a piece that lie in the map's region; false when there are none. */
static inline bool attn_map_keys(const struct attn_call *call, size_t key, size_t keys,
                                 size_t *first, size_t *last) {
    *first = attn_max_size(key, call->map_col);
    *last = attn_min_size(key + keys, call->map_col + call->map_cols);
    return *first < *last;
}

#endif
