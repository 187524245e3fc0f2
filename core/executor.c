/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One task from kernel to answer: attend, let the sink join the denominator, divide, store in the
 * answer's dtype and layout, then redo the score tiles that the map asks for.
 */
#include "core/executor.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/convert.h"
#include "core/executor_internal.h"
#include "core/kernels/rowops.h"

/* A worker's workspace, cut up. `o` and `tile` (M x key_tile) are reals of the kernel, the others
 * have one element per row. */
struct workspace {
    void *o, *tile, *kernel;
    double *m, *l, *unit;
    bool *wide;
};

/* One task in progress. */
struct running {
    const struct attn_call *call;
    struct attn_result *result;
    const struct attn_plan *plan;
    struct attn_task task;
    struct workspace at;
    bool wide; /* reals are double */
    size_t group;
};

static bool add_area(size_t rows, size_t columns, size_t element, size_t *total) {
    size_t bytes;
    return attn_mul_size(rows, columns, &bytes) && attn_mul_size(bytes, element, &bytes) &&
           attn_round_up_size(bytes, 64, &bytes) && attn_add_size(*total, bytes, total);
}

size_t attn_task_workspace_bytes(const struct attn_call *call, const struct attn_kernel *kernel,
                                 const struct attn_grid *grid) {
    const size_t real = attn_kernel_real_size(kernel, call);
    size_t M;
    size_t total = 0;
    if (attn_mul_size(attn_call_group(call), grid->row_tile, &M) &&
        add_area(M, call->Dv, real, &total) && add_area(M, grid->key_tile, real, &total) &&
        add_area(M, 1, sizeof(double), &total) && add_area(M, 1, sizeof(double), &total) &&
        add_area(M, 1, sizeof(double), &total) && add_area(M, 1, sizeof(bool), &total) &&
        attn_add_size(total, kernel->workspace(kernel, call, grid), &total))
        return total;
    return SIZE_MAX;
}

static void *take(char **cursor, size_t rows, size_t columns, size_t element) {
    size_t bytes = 0;
    void *area = *cursor;
    const bool fits = add_area(rows, columns, element, &bytes);
    *cursor += fits ? bytes : 0;
    return area;
}

static void divide_workspace(struct running *run, void *workspace) {
    const struct attn_call *call = run->call;
    const size_t real = attn_kernel_real_size(run->plan->kernel, call);
    const size_t M = run->group * run->plan->grid.row_tile;
    char *cursor = workspace;
    run->at.o = take(&cursor, M, call->Dv, real);
    run->at.tile = take(&cursor, M, run->plan->grid.key_tile, real);
    run->at.m = take(&cursor, M, 1, sizeof(double));
    run->at.l = take(&cursor, M, 1, sizeof(double));
    run->at.unit = take(&cursor, M, 1, sizeof(double));
    run->at.wide = take(&cursor, M, 1, sizeof(bool));
    run->at.kernel = cursor;
}

/* Tasks run head by head, so that keys and values stay in cache, and each head's longest rows
 * (the last ones, under a causal mask) first, so that workers end together. */
static void locate(struct running *run, size_t index) {
    const struct attn_plan *plan = run->plan;
    const size_t row_tile = plan->row_tiles - 1 - index % plan->row_tiles;
    const size_t head = index / plan->row_tiles;
    run->task.b = head / run->call->Hkv;
    run->task.hkv = head % run->call->Hkv;
    run->task.row = row_tile * plan->grid.row_tile;
    run->task.rows = attn_min_size(plan->grid.row_tile, run->call->Tq - run->task.row);
}

static void set_real(const struct running *run, void *reals, size_t index, double value) {
    if (run->wide)
        ((double *)reals)[index] = value;
    else
        ((float *)reals)[index] = (float)value;
}

/* Multiplies one row of the output; true when every element will be finite as the answer has it. */
static bool scale_row(const struct running *run, size_t m, double factor) {
    const struct attn_rowops *ops = attn_rowops_best();
    const size_t Dv = run->call->Dv;
    const double overflow = attn_overflow_threshold(run->call->output_dtype);
    if (run->wide) {
        double *row = (double *)run->at.o + m * Dv;
        ops->d.scale(row, Dv, factor);
        return ops->d.all_within(row, Dv, nextafter(overflow, 0));
    }
    float *row = (float *)run->at.o + m * Dv;
    ops->f.scale(row, Dv, (float)factor);
    return ops->f.all_within(row, Dv, nextafterf((float)overflow, 0));
}

/* The same for a row whose sums no real could hold. It averages values that reals do hold, so what
 * rounding takes beyond the largest real is that real. */
static bool scale_large_row(const struct running *run, size_t m, double factor) {
    const size_t Dv = run->call->Dv;
    for (size_t d = 0; d < Dv; d++) {
        double *wide = (double *)run->at.o + m * Dv + d;
        float *narrow = (float *)run->at.o + m * Dv + d;
        if (run->wide && isfinite(*wide))
            *wide = fmax(fmin(*wide * factor, DBL_MAX), -DBL_MAX);
        else if (!run->wide && isfinite(*narrow))
            *narrow = fmaxf(fminf(*narrow * (float)factor, FLT_MAX), -FLT_MAX);
    }
    return scale_row(run, m, 1.0);
}

/* A finite value as a real would hold it; one beyond a float's range stays, for it only compares.
 */
static double nearest_real(const struct running *run, double value) {
    const float rounded = (float)value;
    return run->wide || isinf(rounded) ? value : (double)rounded;
}

/*
 * The sink adds exp(sink - m) to the denominator only; the row is rebased on the larger of the two
 * so that neither exponential overflows. As a score of the row it has the precision of one, so that
 * m can be the sink itself. Returns the factor that the output row still needs.
 */
static double join_sink(const struct running *run, size_t row, double given) {
    const double m = run->at.m[row];
    if (given == -INFINITY)
        return 1.0;
    const double sink = nearest_real(run, given);
    const double base = sink > m ? sink : m;
    const double rebase = exp(m - base);
    run->at.m[row] = base;
    run->at.l[row] = run->at.l[row] * rebase + exp(sink - base);
    return rebase;
}

/* Divides by the denominator: the weights' sum, sink included. Empty rows are zeros. */
static void normalise(const struct running *run) {
    const size_t M = run->group * run->task.rows;
    uint64_t empty = 0;
    bool finite = true;
    for (size_t row = 0; row < M; row++) {
        const size_t h = run->task.hkv * run->group + row / run->task.rows;
        empty += run->at.m[row] == -INFINITY;
        const double factor = run->call->sink ? join_sink(run, row, run->call->sink[h]) : 1.0;
        const double l = run->at.l[row];
        if (run->at.unit[row] != 1.0)
            finite &= scale_large_row(run, row, factor * run->at.unit[row] / l);
        else
            finite &= scale_row(run, row, l == 0.0 ? 0.0 : factor / l) && isfinite(l);
    }
    if (!finite)
        atomic_store_explicit(&run->result->non_finite, true, memory_order_relaxed);
    atomic_fetch_add_explicit(&run->result->empty_rows, empty, memory_order_relaxed);
}

static void store(const struct running *run, enum attn_dtype dtype, void *dst, size_t n,
                  const void *reals, size_t from) {
    if (run->wide)
        attn_store_double(dtype, dst, 1, n, (const double *)reals + from);
    else
        attn_store_float(dtype, dst, 1, n, (const float *)reals + from);
}

/* Element offset of the output row of (b, h, t), in q's own layout. */
static size_t output_offset(const struct attn_call *call, size_t b, size_t h, size_t t) {
    const bool tokens_first = call->bthd || call->split_heads;
    const size_t row =
        tokens_first ? (b * call->Tq + t) * call->Hq + h : (b * call->Hq + h) * call->Tq + t;
    return row * call->Dv;
}

static void store_output(const struct running *run) {
    const struct attn_task *task = &run->task;
    const struct attn_result_tensor *output = &run->result->tensors[ATTN_RESULT_OUTPUT];
    const size_t element = attn_dtype_size(output->dtype);
    for (size_t row = 0; row < run->group * task->rows; row++) {
        const size_t h = task->hkv * run->group + row / task->rows;
        const size_t t = task->row + row % task->rows;
        char *to = (char *)output->data + element * output_offset(run->call, task->b, h, t);
        store(run, output->dtype, to, run->call->Dv, run->at.o, row * run->call->Dv);
    }
}

static void store_lse(const struct running *run) {
    const struct attn_task *task = &run->task;
    const struct attn_result_tensor *lse = &run->result->tensors[ATTN_RESULT_LSE];
    const size_t element = attn_dtype_size(lse->dtype);
    for (size_t row = 0; row < run->group * task->rows; row++) {
        const size_t h = task->hkv * run->group + row / task->rows;
        const size_t t = task->row + row % task->rows;
        const double m = run->at.m[row];
        const double l = run->at.l[row];
        const double value = m == -INFINITY ? -INFINITY : m + log(l);
        const size_t at = (task->b * run->call->Hq + h) * run->call->Tq + t;
        attn_store_double(lse->dtype, (char *)lse->data + element * at, 1, 1, &value);
    }
}

/* Copies the wanted rows and columns of one score tile of one head into the map. */
static void store_map_tile(const struct running *run, const struct attn_result_tensor *map,
                           const struct attn_score_block *block, size_t slot, size_t g) {
    const struct attn_call *call = run->call;
    const struct attn_task *task = &run->task;
    const size_t first = attn_max_size(block->key, call->map_col);
    const size_t last = attn_min_size(block->key + block->keys, call->map_col + call->map_cols);
    const size_t top = attn_max_size(task->row, call->map_row);
    const size_t bottom = attn_min_size(task->row + task->rows, call->map_row + call->map_rows);
    const size_t element = attn_dtype_size(map->dtype);
    for (size_t t = top; t < bottom; t++) {
        const size_t plane = (task->b * call->map_head_count + slot) * call->map_rows;
        const size_t to = (plane + t - call->map_row) * call->map_cols + first - call->map_col;
        const size_t from = (g * task->rows + t - task->row) * block->keys + first - block->key;
        store(run, map->dtype, (char *)map->data + element * to, last - first, block->out, from);
    }
}

static void store_map_heads(const struct running *run, const struct attn_result_tensor *map,
                            const struct attn_score_block *block) {
    const size_t first = run->task.hkv * run->group;
    for (size_t slot = 0; slot < run->call->map_head_count; slot++) {
        const size_t h = run->call->map_heads ? (size_t)run->call->map_heads[slot] : slot;
        if (h >= first && h < first + run->group)
            store_map_tile(run, map, block, slot, h - first);
    }
}

/* True when the map's rows and heads touch this task. */
static bool map_touches(const struct running *run) {
    const struct attn_call *call = run->call;
    const struct attn_task *task = &run->task;
    if (call->map_rows == 0 || call->map_cols == 0)
        return false;
    if (call->map_row >= task->row + task->rows || call->map_row + call->map_rows <= task->row)
        return false;
    const size_t first = task->hkv * run->group;
    for (size_t slot = 0; slot < call->map_head_count; slot++) {
        const size_t h = call->map_heads ? (size_t)call->map_heads[slot] : slot;
        if (h >= first && h < first + run->group)
            return true;
    }
    return false;
}

/* True when no head of the task sees a key of the block. */
static bool is_hidden(const struct running *run, const struct attn_score_block *block) {
    const struct attn_call *call = run->call;
    const size_t first = run->task.hkv * run->group;
    const size_t heads = attn_mask_varies_by_head(&call->mask) ? run->group : 1;
    for (size_t g = 0; g < heads; g++) {
        const struct attn_mask_tile tile = {.b = run->task.b,
                                            .h = first + g,
                                            .row = run->task.row,
                                            .rows = run->task.rows,
                                            .key = block->key,
                                            .keys = block->keys};
        if (attn_mask_classify(&call->mask, &call->space, &tile, false) != ATTN_TILE_EMPTY)
            return false;
    }
    return true;
}

/* What a hidden position holds at the stages that hide: nothing needs to be computed for it. */
static void fill_hidden(const struct running *run, const struct attn_score_block *block) {
    const double value = block->stage == ATTN_STAGE_WEIGHTS ? 0.0 : -INFINITY;
    const size_t n = run->group * run->task.rows * block->keys;
    for (size_t e = 0; e < n; e++)
        set_real(run, block->out, e, value);
}

/* Walks whole tiles of the grid, so that a region's bits are those of the full map. */
static void map(const struct running *run, enum attn_result_name name, enum attn_stage stage) {
    const struct attn_call *call = run->call;
    const size_t tile = run->plan->grid.key_tile;
    const size_t end = call->map_col + call->map_cols;
    for (size_t key = call->map_col - call->map_col % tile; key < end; key += tile) {
        if (atomic_load_explicit(run->task.cancelled, memory_order_relaxed))
            return;
        const struct attn_score_block block = {.stage = stage,
                                               .key = key,
                                               .keys = attn_min_size(tile, call->Tk - key),
                                               .m = run->at.m,
                                               .l = run->at.l,
                                               .wide = run->at.wide,
                                               .out = run->at.tile};
        if (stage >= ATTN_STAGE_MASKED && is_hidden(run, &block))
            fill_hidden(run, &block);
        else
            run->plan->kernel->scores(&run->task, run->at.kernel, &block);
        store_map_heads(run, &run->result->tensors[name], &block);
    }
}

static void attend(const struct running *run) {
    struct attn_partial partial = {run->at.o, run->at.m, run->at.l, run->at.unit, run->at.wide, 0};
    run->plan->kernel->attend(&run->task, run->at.kernel, &partial);
    if (atomic_load_explicit(run->task.cancelled, memory_order_relaxed))
        return;
    atomic_fetch_add_explicit(&run->result->scores_computed, partial.computed,
                              memory_order_relaxed);
    normalise(run);
    if (run->call->returns & ATTN_RETURN_OUTPUT)
        store_output(run);
    if (run->call->returns & ATTN_RETURN_LSE)
        store_lse(run);
}

static void run_task(struct running *run) {
    const struct attn_call *call = run->call;
    const bool weights = (call->returns & ATTN_RETURN_WEIGHTS) != 0;
    const bool scores = (call->returns & ATTN_RETURN_SCORES) != 0;
    const bool mapped = (weights || scores) && map_touches(run);
    if ((call->returns & (ATTN_RETURN_OUTPUT | ATTN_RETURN_LSE)) || mapped)
        attend(run);
    if (mapped && weights)
        map(run, ATTN_RESULT_WEIGHTS, call->stage);
    if (mapped && scores)
        map(run, ATTN_RESULT_SCORES, ATTN_STAGE_MASKED);
}

void attn_execute_task(const struct attn_call *call, const struct attn_plan *plan,
                       struct attn_result *result, struct attn_heads *heads, size_t index,
                       void *workspace, const atomic_bool *cancelled) {
    struct running run = {
        .call = call,
        .result = result,
        .plan = plan,
        .task = {.kernel = plan->kernel, .call = call, .grid = plan->grid, .cancelled = cancelled},
        .wide = attn_kernel_real_size(plan->kernel, call) == sizeof(double),
        .group = attn_call_group(call)};
    divide_workspace(&run, workspace);
    locate(&run, index);
    const size_t head = run.task.b * call->Hkv + run.task.hkv;
    run.task.packed = attn_heads_take(heads, head);
    run.task.rotation = attn_heads_rotation(heads);
    run_task(&run);
    attn_heads_give(heads, head);
}
