/* SPDX-License-Identifier: Apache-2.0 */
/* Which call a step of a batch belongs to. */
#include "core/batch.h"

#include "core/checked.h"

struct attn_batch attn_batch_of(struct attn_batch_item *items, size_t count) {
    struct attn_batch batch = {.items = items, .count = count};
    for (size_t n = 0; n < count; n++) {
        items[n].first = batch.steps;
        batch.steps += items[n].plan->tasks;
        batch.work += items[n].plan->work;
        batch.workspace_bytes =
            attn_max_size(batch.workspace_bytes, items[n].plan->workspace_bytes);
    }
    return batch;
}

/* The last call that begins at or before the step: those before it have ended, or have none. */
static const struct attn_batch_item *find(const struct attn_batch *batch, size_t index) {
    size_t low = 0, high = batch->count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (batch->items[middle].first <= index)
            low = middle;
        else
            high = middle;
    }
    return &batch->items[low];
}

void attn_batch_step(const struct attn_batch *batch, size_t index, void *workspace,
                     const struct attn_checkpoint *checkpoint) {
    const struct attn_batch_item *item = find(batch, index);
    attn_execute_next(item->call, item->plan, item->result, item->heads, workspace, checkpoint);
}
