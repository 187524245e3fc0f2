/* SPDX-License-Identifier: Apache-2.0 */
/* Packing of keys and values for the fused kernel. */
#include "core/kernels/fused_pack.h"

#include <math.h>
#include <sched.h>
#include <string.h>

#include "core/checked.h"
#include "core/convert.h"
#include "core/kernels/operand.h"
#include "core/kernels/rowops.h"

enum { PANEL = ATTN_FUSED_PANEL, ACROSS = ATTN_FUSED_ACROSS_MOST, AHEAD = 16 };

enum block_stage { BLOCK_RAW, BLOCK_CLAIMED, BLOCK_READY };

struct block_state {
    atomic_int stage; /* enum block_stage */
    float largest;
    bool cleaned;
};

/* Sizes of a packed head, in floats but for the first. */
struct sizes {
    size_t states; /* bytes of the states in front of the blocks, a multiple of 64 */
    size_t blocks, keys, k, v;
};

static size_t in_panels(size_t n) {
    return n / PANEL + (n % PANEL != 0);
}

static bool measure(const struct attn_call *call, const struct attn_grid *grid,
                    struct sizes *sizes) {
    const size_t tile = grid->key_tile;
    sizes->blocks = call->Tk / tile + (call->Tk % tile != 0);
    sizes->keys = PANEL * in_panels(attn_min_size(tile, call->Tk));
    return attn_mul_size(sizes->blocks, sizeof(struct block_state), &sizes->states) &&
           attn_round_up_size(sizes->states, 64, &sizes->states) &&
           attn_mul_size(sizes->keys, call->D, &sizes->k) &&
           attn_mul_size(sizes->keys, in_panels(call->Dv) * PANEL, &sizes->v);
}

static bool is_shared(const struct attn_call *call, const struct attn_grid *grid) {
    return call->Tq > grid->row_tile;
}

size_t attn_fused_packed_bytes(const struct attn_call *call, const struct attn_grid *grid) {
    struct sizes sizes;
    size_t bytes;
    if (!is_shared(call, grid))
        return 0;
    if (measure(call, grid, &sizes) && attn_add_size(sizes.k, sizes.v, &bytes) &&
        attn_mul_size(bytes, sizes.blocks, &bytes) && attn_mul_size(bytes, sizeof(float), &bytes) &&
        attn_add_size(bytes, sizes.states, &bytes))
        return bytes;
    return SIZE_MAX;
}

/* Keys of a cache lie in panels. */
static bool is_in_place(const struct attn_fused_set *set, const struct attn_operand *operand) {
    return set->direct[operand->dtype].score != NULL &&
           (operand->sd == 1 || operand->pages != NULL);
}

static bool turns_keys(const struct attn_call *call) {
    return call->rope.dims > 0 && !call->rope.q_only;
}

/* Keys that their positions turn have to be copied. */
static bool keys_are_in_place(const struct attn_fused_set *set, const struct attn_call *call) {
    return is_in_place(set, &call->k) && !turns_keys(call);
}

size_t attn_fused_own_bytes(const struct attn_fused_set *set, const struct attn_call *call,
                            const struct attn_grid *grid) {
    struct sizes sizes;
    size_t bytes;
    if ((set->direct == NULL && is_shared(call, grid)) ||
        (set->direct != NULL && keys_are_in_place(set, call) && is_in_place(set, &call->v)))
        return 0;
    if (measure(call, grid, &sizes) && attn_add_size(sizes.k, sizes.v, &bytes) &&
        attn_mul_size(bytes, sizeof(float), &bytes) && attn_round_up_size(bytes, 64, &bytes))
        return bytes;
    return SIZE_MAX;
}

/* Rows to be transposed, and one of zeros. */
size_t attn_fused_scratch_bytes(const struct attn_call *call) {
    size_t bytes;
    const size_t width = attn_max_size(call->D, in_panels(call->Dv) * PANEL);
    if (attn_mul_size(width, (ACROSS + 1) * sizeof(float), &bytes) &&
        attn_round_up_size(bytes, 64, &bytes))
        return bytes;
    return SIZE_MAX;
}

void attn_fused_packed_open(const struct attn_call *call, const struct attn_grid *grid,
                            void *packed) {
    struct sizes sizes;
    struct block_state *states = packed;
    if (!measure(call, grid, &sizes))
        return;
    for (size_t n = 0; n < sizes.blocks; n++) {
        atomic_init(&states[n].stage, BLOCK_RAW);
        states[n].cleaned = false;
    }
}

/* The rows from `key` on where they lie. */
static struct attn_direct_rows rows_in_place(const struct attn_task *task,
                                             const struct attn_operand *operand, size_t key) {
    return (struct attn_direct_rows){.data = attn_operand_row(operand, task->b, task->hkv, key),
                                     .stride =
                                         operand->st * (ptrdiff_t)attn_dtype_size(operand->dtype)};
}

/* Rows that lie dense in memory; none where they do not. */
struct lying {
    struct attn_direct_rows rows;
    size_t count, bytes; /* to the head's last row; of each */
    bool are_floats;     /* and so need no copy */
};

static struct lying lying_at(const struct attn_task *task, const struct attn_operand *operand,
                             size_t width, size_t key, bool turned) {
    if (operand->pages != NULL || operand->sd != 1)
        return (struct lying){0};
    return (struct lying){.rows = rows_in_place(task, operand, key),
                          .count = task->call->Tk - key,
                          .bytes = width * attn_dtype_size(operand->dtype),
                          .are_floats = operand->dtype == ATTN_FLOAT32 && !turned};
}

static const float *float_row(const struct lying *lying, size_t j) {
    return (const float *)(const void *)(lying->rows.data + (ptrdiff_t)j * lying->rows.stride);
}

/* Rows are read once and may lie far away: asks for those that come next. */
static void ask_for(const struct lying *lying, size_t j, size_t rows) {
    for (size_t r = j; r < j + rows && r < lying->count; r++) {
        const char *row = lying->rows.data + (ptrdiff_t)r * lying->rows.stride;
        for (size_t at = 0; at < lying->bytes; at += 64)
            __builtin_prefetch(row + at);
    }
}

/* Keys of a cache lie in panels already, a block's in one page: they are widened as one run. */
static float pack_panels(const struct attn_task *task, size_t key, size_t keys, float *k) {
    const struct attn_operand *from = &task->call->k;
    const size_t n = PANEL * in_panels(keys) * task->call->D;
    attn_load_float(from->dtype, attn_operand_paged_row(from, task->hkv, key), 1, n, k);
    return attn_rowops_best()->f.magnitude(k, n);
}

/* Returns the largest magnitude. */
static float pack_keys(const struct attn_task *task, const struct attn_fused_set *set, size_t key,
                       size_t keys, float *k, float *scratch) {
    const size_t D = task->call->D;
    if (task->call->k.pages != NULL)
        return pack_panels(task, key, keys, k);
    float largest = 0;
    const struct lying lying = lying_at(task, &task->call->k, D, key, turns_keys(task->call));
    float *const zeros = scratch + ACROSS * D;
    memset(zeros, 0, D * sizeof *zeros);
    for (size_t j = 0; j < PANEL * in_panels(keys); j += set->across) {
        const float *rows[ACROSS];
        ask_for(&lying, j + AHEAD, set->across);
        for (size_t r = 0; r < set->across; r++) {
            if (j + r >= keys)
                rows[r] = zeros;
            else if (lying.are_floats)
                rows[r] = float_row(&lying, j + r);
            else
                rows[r] = attn_key_row_float(task, key + j + r, scratch + r * D);
        }
        largest = fmaxf(largest,
                        set->transpose(rows, D, 1, k + j / PANEL * D * PANEL + j % PANEL, PANEL));
    }
    return largest;
}

/* The row with 0 in place of the elements that are not finite. */
static const float *clean(const float *row, size_t width, float *scratch) {
    for (size_t d = 0; d < width; d++)
        scratch[d] = isfinite(row[d]) ? row[d] : 0;
    return scratch;
}

/* Returns whether a row had to be cleaned. */
static bool pack_values(const struct attn_task *task, const struct attn_fused_set *set, size_t key,
                        size_t keys, size_t v_step, float *v, float *scratch) {
    const size_t Dv = task->call->Dv;
    const struct lying lying = lying_at(task, &task->call->v, Dv, key, false);
    bool cleaned = false;
    for (size_t j = 0; j < keys; j++) {
        const float *row =
            lying.are_floats ? float_row(&lying, j) : attn_value_row_float(task, key + j, scratch);
        ask_for(&lying, j + AHEAD, 1);
        if (!set->spread(row, Dv, v + j * PANEL, v_step)) {
            set->spread(clean(row, Dv, scratch), Dv, v + j * PANEL, v_step);
            cleaned = true;
        }
    }
    return cleaned;
}

/* The head's memory: states, then per block its keys and its values. */
struct head {
    struct block_state *states;
    float *blocks;
    struct sizes sizes;
};

static struct head head_of(const struct attn_task *task) {
    struct head head = {.states = task->packed};
    if (measure(task->call, &task->grid, &head.sizes) && task->packed != NULL)
        head.blocks = (float *)(void *)((char *)task->packed + head.sizes.states);
    return head;
}

static float *keys_of(const struct head *head, size_t index) {
    return head->blocks + index * (head->sizes.k + head->sizes.v);
}

/* Packs block `index` to `k` and says what it holds. */
static void fill_block(const struct attn_task *task, const struct attn_fused_set *set,
                       const struct head *head, size_t index, float *k, struct block_state *state,
                       float *scratch) {
    const size_t key = index * task->grid.key_tile;
    const size_t keys = attn_min_size(task->grid.key_tile, task->call->Tk - key);
    state->largest = pack_keys(task, set, key, keys, k, scratch);
    state->cleaned =
        pack_values(task, set, key, keys, head->sizes.keys * PANEL, k + head->sizes.k, scratch);
}

static struct attn_fused_block block_of(const struct head *head, const float *k,
                                        const struct block_state *state) {
    return (struct attn_fused_block){.k = k,
                                     .v = k + head->sizes.k,
                                     .v_step = head->sizes.keys * PANEL,
                                     .largest = state->largest,
                                     .cleaned = state->cleaned};
}

/* Packs block `index` unless that has begun. */
static bool pack_block(const struct attn_task *task, const struct attn_fused_set *set,
                       const struct head *head, size_t index, float *scratch) {
    struct block_state *state = &head->states[index];
    int raw = BLOCK_RAW;
    if (atomic_load_explicit(&state->stage, memory_order_relaxed) != BLOCK_RAW ||
        !atomic_compare_exchange_strong(&state->stage, &raw, BLOCK_CLAIMED))
        return false;
    fill_block(task, set, head, index, keys_of(head, index), state, scratch);
    atomic_store_explicit(&state->stage, BLOCK_READY, memory_order_release);
    return true;
}

/* The row may be in its place already. */
static void copy_row(const float *row, size_t width, float *to) {
    if (row != to)
        memcpy(to, row, width * sizeof *to);
}

/* Keys and values where they lie, or, what cannot be read there, as rows of floats in `own`. */
static struct attn_fused_block find_block(const struct attn_task *task,
                                          const struct attn_fused_set *set, size_t index,
                                          float *own) {
    const struct attn_call *call = task->call;
    const struct attn_operand *k = &call->k, *v = &call->v;
    const size_t key = index * task->grid.key_tile;
    const size_t keys = attn_min_size(task->grid.key_tile, call->Tk - key);
    float *const values = own + keys * call->D;
    struct attn_fused_block block = {
        .k_direct = &set->direct[ATTN_FLOAT32],
        .v_direct = &set->direct[ATTN_FLOAT32],
        .k_rows = {.data = (const char *)own, .stride = (ptrdiff_t)(call->D * sizeof *own)},
        .v_rows = {.data = (const char *)values, .stride = (ptrdiff_t)(call->Dv * sizeof *own)}};
    const bool keys_lie = keys_are_in_place(set, call), values_lie = is_in_place(set, v);
    if (keys_lie) {
        block.k_direct = &set->direct[k->dtype];
        block.k_rows = rows_in_place(task, k, key);
        block.k_paged = k->pages != NULL;
    }
    if (values_lie) {
        block.v_direct = &set->direct[v->dtype];
        block.v_rows = rows_in_place(task, v, key);
        block.v_paged = v->pages != NULL;
    }
    for (size_t j = 0; j < keys && !keys_lie; j++)
        copy_row(attn_key_row_float(task, key + j, own + j * call->D), call->D, own + j * call->D);
    for (size_t j = 0; j < keys && !values_lie; j++)
        copy_row(attn_value_row_float(task, key + j, values + j * call->Dv), call->Dv,
                 values + j * call->Dv);
    return block;
}

struct attn_fused_block attn_fused_take_block(const struct attn_task *task,
                                              const struct attn_fused_set *set, size_t index,
                                              size_t end, float *scratch, float *own) {
    if (set->direct != NULL)
        return find_block(task, set, index, own);
    const struct head head = head_of(task);
    if (task->packed == NULL) {
        struct block_state alone;
        fill_block(task, set, &head, index, own, &alone, scratch);
        return block_of(&head, own, &alone);
    }
    struct block_state *const state = &head.states[index];
    size_t next = index;
    while (atomic_load_explicit(&state->stage, memory_order_acquire) != BLOCK_READY) {
        while (next < end && !pack_block(task, set, &head, next, scratch))
            next++;
        if (next >= end)
            sched_yield();
    }
    return block_of(&head, keys_of(&head, index), state);
}
