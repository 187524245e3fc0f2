/* SPDX-License-Identifier: Apache-2.0 */
/* Which reducers a call has, and one task's walk through all of them. */
#include "core/map.h"

#include "core/kernels/kernel.h"
#include "core/map_bins.h"
#include "core/map_internal.h"
#include "core/map_order.h"

static const struct attn_reducer_kind *map_kind(const struct attn_call *call) {
    if (call->top_k > 0)
        return &attn_map_top;
    return call->pooled || call->map_over_heads != ATTN_HEADS_EACH ? &attn_map_pool
                                                                   : &attn_map_full;
}

static void add_map(const struct attn_call *call, enum attn_result_name name,
                    enum attn_result_name top, enum attn_stage stage, struct attn_reducer *reducers,
                    size_t *count) {
    if (call->returns & (1u << name))
        reducers[(*count)++] = (struct attn_reducer){.kind = map_kind(call),
                                                     .name = call->top_k > 0 ? top : name,
                                                     .stage = stage,
                                                     .stages = 1u << stage};
}

size_t attn_map_reducers(const struct attn_call *call,
                         struct attn_reducer reducers[ATTN_REDUCERS_MOST]) {
    size_t count = 0;
    add_map(call, ATTN_RESULT_WEIGHTS, ATTN_RESULT_TOP_K_WEIGHTS, call->stage, reducers, &count);
    add_map(call, ATTN_RESULT_SCORES, ATTN_RESULT_TOP_K_SCORES, ATTN_STAGE_MASKED, reducers,
            &count);
    if (attn_call_has_stats(call))
        reducers[count++] = (struct attn_reducer){.kind = &attn_map_stats,
                                                  .name = ATTN_RESULT_STATS,
                                                  .stage = ATTN_STAGE_WEIGHTS,
                                                  .stages = attn_map_stats_stages(call)};
    for (size_t n = 0; n < count; n++)
        reducers[n].ops = attn_rowops_best();
    return count;
}

static size_t add_bytes(size_t total,
                        size_t (*bytes)(const struct attn_call *, const struct attn_plan *),
                        const struct attn_call *call, const struct attn_plan *plan) {
    size_t more = bytes == NULL ? 0 : bytes(call, plan);
    return attn_round_up_size(more, ATTN_SLOT_ALIGNMENT, &more) &&
                   attn_add_size(total, more, &total)
               ? total
               : SIZE_MAX;
}

void attn_map_plan(const struct attn_call *call, struct attn_plan *plan) {
    struct attn_reducer reducers[ATTN_REDUCERS_MOST];
    const size_t count = attn_map_reducers(call, reducers);
    plan->slot_bytes = plan->carry_bytes = 0;
    for (size_t n = 0; n < count; n++) {
        plan->slot_bytes = add_bytes(plan->slot_bytes, reducers[n].kind->slot_bytes, call, plan);
        plan->carry_bytes = add_bytes(plan->carry_bytes, reducers[n].kind->carry_bytes, call, plan);
    }
}

bool attn_map_rows(const struct attn_map_task *at, size_t *top, size_t *bottom) {
    const struct attn_call *call = at->call;
    *top = attn_max_size(at->task->row, call->map_row);
    *bottom = attn_min_size(at->task->row + at->task->rows, call->map_row + call->map_rows);
    return *top < *bottom;
}

bool attn_map_has_part(const struct attn_reducer *reducer) {
    const struct attn_map_task *at = reducer->at;
    const size_t first = at->task->hkv * at->group;
    const size_t b = at->task->b;
    size_t top, bottom;
    if (!attn_map_rows(at, &top, &bottom) || b < at->call->map_batch ||
        b >= at->call->map_batch + at->call->map_batches)
        return false;
    for (size_t place = 0; place < at->call->map_head_count; place++) {
        const size_t h = attn_call_map_head(at->call, place);
        if (h >= first && h < first + at->group)
            return true;
    }
    return false;
}

/* The reducers of a task, with their parts of its slot; all of them, or those that it touches. */
struct reduction {
    const struct attn_map_task *at;
    size_t count;
    struct attn_reducer reducers[ATTN_REDUCERS_MOST];
};

static void *take(char **cursor,
                  size_t (*bytes)(const struct attn_call *, const struct attn_plan *),
                  const struct attn_map_task *at) {
    void *area = *cursor;
    if (bytes == NULL || *cursor == NULL)
        return NULL;
    *cursor += add_bytes(0, bytes, at->call, at->plan);
    return area;
}

static struct reduction reduction_of(const struct attn_map_task *at, void *slot, void *carry) {
    struct attn_reducer all[ATTN_REDUCERS_MOST];
    struct reduction reduction = {.at = at};
    const size_t count = attn_map_reducers(at->call, all);
    char *slot_cursor = slot, *carry_cursor = carry;
    for (size_t n = 0; n < count; n++) {
        all[n].at = at;
        all[n].slot = take(&slot_cursor, all[n].kind->slot_bytes, at);
        all[n].carry = take(&carry_cursor, all[n].kind->carry_bytes, at);
        if (all[n].kind->touches(&all[n]))
            reduction.reducers[reduction.count++] = all[n];
    }
    return reduction;
}

static bool has_head(const struct attn_call *call, size_t h) {
    size_t place = 0;
    while (place < call->map_head_count && attn_call_map_head(call, place) != h)
        place++;
    return place < call->map_head_count;
}

/* Whether maps want some of these rows. */
static bool wants(const void *closure, size_t row, size_t rows) {
    const struct attn_map_task *at = ((const struct reduction *)closure)->at;
    const struct attn_call *call = at->call;
    for (size_t r = row; r < row + rows; r++) {
        const struct attn_map_row place = attn_map_row_at(at, r);
        if (place.t >= call->map_row && place.t - call->map_row < call->map_rows &&
            row_counts(call, place.t) && has_head(call, place.h))
            return true;
    }
    return false;
}

bool attn_map_touches(const struct attn_map_task *at) {
    const struct reduction reduction = reduction_of(at, NULL, NULL);
    return reduction.count > 0 &&
           (!at->call->sampled || wants(&reduction, 0, at->group * at->task->rows));
}

static void visit_block(void *closure, size_t key, size_t keys, enum attn_tile_class class) {
    const struct reduction *reduction = closure;
    for (size_t n = 0; n < reduction->count; n++)
        if (reduction->reducers[n].kind->block != NULL)
            reduction->reducers[n].kind->block(&reduction->reducers[n], key, keys, class);
}

static void visit_piece(void *closure, const struct attn_score_piece *piece) {
    const struct reduction *reduction = closure;
    for (size_t n = 0; n < reduction->count; n++)
        if (reduction->reducers[n].stages >> piece->stage & 1)
            reduction->reducers[n].kind->piece(&reduction->reducers[n], piece);
}

/* True when no head of the task sees a key of the block. */
static bool is_hidden(const struct attn_map_task *at, size_t key, size_t keys) {
    const struct attn_call *call = at->call;
    const size_t heads = attn_mask_varies_by_head(&call->mask) ? at->group : 1;
    for (size_t g = 0; g < heads; g++) {
        const struct attn_mask_tile tile = {.b = at->task->b,
                                            .h = at->task->hkv * at->group + g,
                                            .row = at->task->row,
                                            .rows = at->task->rows,
                                            .key = key,
                                            .keys = keys};
        if (attn_mask_classify(&call->mask, &call->space, &tile, false) != ATTN_TILE_EMPTY)
            return false;
    }
    return true;
}

static void walk_block(const struct attn_map_task *at, const struct attn_walk *walk, size_t key,
                       size_t keys) {
    const size_t M = at->group * at->task->rows;
    for (int stage = ATTN_STAGE_RAW; stage <= ATTN_STAGE_WEIGHTS; stage++) {
        if (!attn_walk_takes(walk, (enum attn_stage)stage))
            continue;
        const struct attn_score_block block = {.stage = (enum attn_stage)stage,
                                               .key = key,
                                               .keys = keys,
                                               .m = at->m,
                                               .l = at->l,
                                               .wide = at->wide_rows,
                                               .out = at->tile};
        at->plan->kernel->scores(at->task, at->kernel, &block);
        const struct attn_score_piece piece = {.stage = block.stage,
                                               .rows = M,
                                               .key = key,
                                               .keys = keys,
                                               .s = at->tile,
                                               .stride = keys};
        walk->piece(walk->closure, &piece);
    }
}

/* The walk of a kernel that only knows columns of tiles: whole ones, so that bits are the map's. */
static void walk_tiles(const struct attn_map_task *at, const struct attn_walk *walk) {
    const size_t tile = at->plan->grid.key_tile;
    for (size_t key = walk->begin - walk->begin % tile; key < walk->end; key += tile) {
        const size_t keys = attn_min_size(tile, at->call->Tk - key);
        const bool hidden = !attn_walk_ignores_mask(walk) && is_hidden(at, key, keys);
        if (attn_checkpoint_stops(at->task->checkpoint))
            return;
        walk->block(walk->closure, key, keys, hidden ? ATTN_TILE_EMPTY : ATTN_TILE_FULL);
        if (!hidden)
            walk_block(at, walk, key, keys);
    }
}

static void open(const struct reduction *reduction) {
    for (size_t n = 0; n < reduction->count; n++)
        if (reduction->reducers[n].kind->open != NULL)
            reduction->reducers[n].kind->open(&reduction->reducers[n]);
}

/* Stages that the mask has had its say in. */
static bool is_late(unsigned stages) {
    return stages >> ATTN_STAGE_MASKED != 0;
}

/* The reducers of late or of early stages. One that was shown what is void begins again. */
static void walk(const struct reduction *reduction, bool late) {
    const struct attn_map_task *at = reduction->at;
    struct reduction part = {.at = at};
    struct attn_walk walk = {.m = at->m,
                             .l = at->l,
                             .wide = at->wide_rows,
                             .block = visit_block,
                             .piece = visit_piece,
                             .closure = &part};
    for (size_t n = 0; n < reduction->count; n++)
        if (is_late(reduction->reducers[n].stages) == late) {
            part.reducers[part.count++] = reduction->reducers[n];
            walk.stages |= reduction->reducers[n].stages;
        }
    /* Statistics are of all keys. */
    const bool all = late && attn_call_has_stats(at->call);
    walk.wants = all ? NULL : wants;
    walk.begin = all ? 0 : at->call->map_col;
    walk.end = all ? at->call->Tk : at->call->map_col + at->call->map_cols;
    if (part.count == 0)
        return;
    open(&part);
    if (walk.begin == walk.end || at->task->rows == 0 ||
        !attn_walk_wants(&walk, 0, at->group * at->task->rows))
        return;
    if (at->plan->kernel->walk == NULL || !at->plan->kernel->walk(at->task, at->kernel, &walk)) {
        open(&part);
        walk_tiles(at, &walk);
    }
}

/* Early stages show every position, of one map; late ones what is visible. Seldom are there both.
 */
static void reduce(const struct reduction *reduction) {
    walk(reduction, true);
    walk(reduction, false);
    for (size_t n = 0; n < reduction->count; n++)
        if (reduction->reducers[n].kind->close != NULL)
            reduction->reducers[n].kind->close(&reduction->reducers[n]);
}

struct commit {
    const struct attn_map_task *at; /* of whoever commits */
    struct attn_map_order *order;
};

static void commit_task(const void *closure, size_t index, void *slot) {
    const struct commit *commit = closure;
    struct attn_task task = *commit->at->task;
    struct attn_map_task at = *commit->at;
    at.index = index;
    at.task = &task;
    at.m = at.l = NULL;
    at.wide_rows = NULL;
    at.tile = at.kernel = NULL;
    attn_plan_locate(at.plan, at.call, index * at.plan->chunks, &task);
    const struct reduction reduction = reduction_of(&at, slot, attn_map_order_carry(commit->order));
    for (size_t n = 0; n < reduction.count; n++)
        if (reduction.reducers[n].kind->commit != NULL)
            reduction.reducers[n].kind->commit(&reduction.reducers[n]);
}

void attn_map_run(const struct attn_map_task *at, struct attn_map_order *order) {
    const struct commit commit = {at, order};
    void *slot = NULL;
    if (order != NULL) {
        slot = attn_map_order_enter(order, at->index, at->task->checkpoint);
        if (slot == NULL)
            return;
    }
    const struct reduction reduction = reduction_of(at, slot, NULL);
    if (reduction.count > 0)
        reduce(&reduction);
    if (order != NULL)
        attn_map_order_leave(order, at->index, commit_task, &commit);
}
