/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks of keys: how many, where their results lie, and how they are joined; see chunks.h. */
#include "core/chunks.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/executor_internal.h"
#include "core/kernels/rowops.h"

enum {
    /* Tasks that a call should have, so that many workers end together, ... */
    TASKS_WANTED = ATTN_CHUNKS_MOST,
    /* ... as far as each has this many keys, and this many numbers of keys and values: 10 us. */
    LEAST_KEYS = 512,
    LEAST_NUMBERS = 65536,
    /* Keys per score row: results take less memory than the keys and values they are of. */
    KEYS_PER_ROW = 4,
};

/* Of one task's rows. */
struct attn_chunks {
    const struct attn_plan *plan;
    char *slots;
    atomic_size_t arrived[];
};

static size_t divide_up(size_t n, size_t by) {
    return n / by + (n % by != 0);
}

/* The fewest keys that are worth a chunk; SIZE_MAX when none are. */
static size_t least_keys(const struct attn_call *call, const struct attn_plan *plan) {
    size_t rows;
    const size_t width = attn_max_size(call->D + call->Dv, 1);
    const size_t numbers = attn_max_size(LEAST_NUMBERS / width, LEAST_KEYS);
    if (!attn_mul_size(attn_call_group(call), attn_min_size(plan->grid.row_tile, call->Tq),
                       &rows) ||
        !attn_mul_size(rows, KEYS_PER_ROW, &rows))
        return SIZE_MAX;
    return attn_max_size(numbers, rows);
}

void attn_chunks_cut(const struct attn_call *call, struct attn_plan *plan, size_t keys) {
    plan->chunk_keys = keys;
    plan->chunks = divide_up(call->Tk, keys);
    plan->chunk_bytes = attn_partial_bytes(call, plan->kernel, &plan->grid);
    plan->tasks *= plan->chunks;
    assert(plan->chunks > 1 && plan->chunks <= ATTN_CHUNKS_MOST);
    assert(keys % plan->grid.key_tile == 0 && plan->chunk_bytes < SIZE_MAX);
}

void attn_chunks_plan(const struct attn_call *call, struct attn_plan *plan) {
    plan->chunks = 1;
    plan->chunk_keys = call->Tk;
    plan->chunk_bytes = 0;
    if (plan->tasks == 0 || plan->tasks >= TASKS_WANTED || plan->kernel->takes_all_keys ||
        call->rows != NULL)
        return;
    const size_t most =
        attn_min_size(divide_up(TASKS_WANTED, plan->tasks), call->Tk / least_keys(call, plan));
    size_t keys;
    if (most < 2 || !attn_round_up_size(divide_up(call->Tk, most), plan->grid.key_tile, &keys) ||
        keys >= call->Tk)
        return;
    attn_chunks_cut(call, plan, keys);
}

/* Bytes in front of the first slot. */
static size_t head_bytes(const struct attn_plan *plan) {
    const size_t bytes =
        sizeof(struct attn_chunks) + plan->tasks / plan->chunks * sizeof(atomic_size_t);
    return (bytes + 63) / 64 * 64;
}

size_t attn_chunks_bytes(const struct attn_plan *plan) {
    size_t slots, bytes;
    if (plan->chunk_bytes == 0)
        return 0;
    return attn_mul_size(plan->chunk_bytes, plan->tasks, &slots) &&
                   attn_add_size(slots, head_bytes(plan), &bytes)
               ? bytes
               : SIZE_MAX;
}

struct attn_chunks *attn_chunks_open(const struct attn_plan *plan, void *memory) {
    struct attn_chunks *chunks = memory;
    if (plan->chunk_bytes == 0)
        return NULL;
    chunks->plan = plan;
    chunks->slots = (char *)memory + head_bytes(plan);
    for (size_t n = 0; n < plan->tasks / plan->chunks; n++)
        atomic_init(&chunks->arrived[n], 0);
    return chunks;
}

void attn_chunks_reset(struct attn_chunks *chunks) {
    for (size_t n = 0; n < chunks->plan->tasks / chunks->plan->chunks; n++)
        atomic_store_explicit(&chunks->arrived[n], 0, memory_order_relaxed);
}

struct attn_partial attn_chunks_slot(struct attn_chunks *chunks, const struct attn_call *call,
                                     size_t index) {
    const struct attn_plan *plan = chunks->plan;
    char *cursor = chunks->slots + index * plan->chunk_bytes;
    return attn_partial_take(call, plan->kernel, &plan->grid, &cursor);
}

bool attn_chunks_arrive(struct attn_chunks *chunks, size_t index) {
    const size_t before = atomic_fetch_add_explicit(&chunks->arrived[index / chunks->plan->chunks],
                                                    1, memory_order_acq_rel);
    return before + 1 == chunks->plan->chunks;
}

#define CHUNKS_PASTE2(a, b) a##b
#define CHUNKS_PASTE(a, b) CHUNKS_PASTE2(a, b)

#define REAL float
#define SUFFIX _float
#define ROWOPS f
#include "core/chunks_join.h"

#define REAL double
#define SUFFIX _double
#define ROWOPS d
#include "core/chunks_join.h"

void attn_chunks_join(struct attn_chunks *chunks, const struct attn_task *task, size_t index,
                      void *workspace, struct attn_partial *whole) {
    const struct attn_plan *plan = chunks->plan;
    struct attn_partial parts[ATTN_CHUNKS_MOST];
    const size_t first = index / plan->chunks * plan->chunks;
    for (size_t n = 0; n < plan->chunks; n++)
        parts[n] = attn_chunks_slot(chunks, task->call, first + n);
    if (attn_kernel_real_size(plan->kernel, task->call) == sizeof(double))
        join_double(task, workspace, parts, plan->chunks, whole);
    else
        join_float(task, workspace, parts, plan->chunks, whole);
}
