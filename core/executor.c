/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One task from kernel to answer: attend, let the sink join the denominator, divide, store in the
 * answer's dtype and layout, then let maps have the scores once more. Where keys are cut into
 * chunks, all but the last of them to be done end after the first step.
 */
#include "core/executor.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/area.h"
#include "core/checked.h"
#include "core/convert.h"
#include "core/executor_internal.h"
#include "core/kernels/rowops.h"

/* A worker's workspace, cut up; `tile` is M x key_tile reals of the kernel. */
struct workspace {
    struct attn_partial all;
    void *tile, *kernel;
};

/* One task in progress. */
struct running {
    const struct attn_call *call;
    struct attn_result *result;
    const struct attn_plan *plan;
    struct attn_task task;
    struct attn_chunks *chunks; /* NULL: this task is all of its rows */
    size_t index;
    struct workspace at;
    bool wide; /* reals are double */
    size_t group;
    const struct attn_rowops *ops;
    double largest; /* magnitude that is finite as the answer has it */
};

size_t attn_partial_bytes(const struct attn_call *call, const struct attn_kernel *kernel,
                          const struct attn_grid *grid) {
    const size_t real = attn_kernel_real_size(kernel, call);
    size_t M;
    size_t total = 0;
    if (attn_mul_size(attn_call_group(call), grid->row_tile, &M) &&
        attn_area_add(M, call->Dv, real, &total) && attn_area_add(M, 1, sizeof(double), &total) &&
        attn_area_add(M, 1, sizeof(double), &total) &&
        attn_area_add(M, 1, sizeof(double), &total) && attn_area_add(M, 1, sizeof(bool), &total))
        return total;
    return SIZE_MAX;
}

struct attn_partial attn_partial_take(const struct attn_call *call,
                                      const struct attn_kernel *kernel,
                                      const struct attn_grid *grid, char **cursor) {
    const size_t real = attn_kernel_real_size(kernel, call);
    const size_t M = attn_call_group(call) * grid->row_tile;
    struct attn_partial partial = {0};
    partial.o = attn_area_take(cursor, attn_area_bytes(M, call->Dv, real));
    partial.m = attn_area_take(cursor, attn_area_bytes(M, 1, sizeof(double)));
    partial.l = attn_area_take(cursor, attn_area_bytes(M, 1, sizeof(double)));
    partial.unit = attn_area_take(cursor, attn_area_bytes(M, 1, sizeof(double)));
    partial.wide = attn_area_take(cursor, attn_area_bytes(M, 1, sizeof(bool)));
    return partial;
}

size_t attn_task_workspace_bytes(const struct attn_call *call, const struct attn_kernel *kernel,
                                 const struct attn_grid *grid) {
    size_t M;
    size_t total = attn_partial_bytes(call, kernel, grid);
    if (total != SIZE_MAX && attn_mul_size(attn_call_group(call), grid->row_tile, &M) &&
        attn_area_add(M, grid->key_tile, attn_kernel_real_size(kernel, call), &total) &&
        attn_add_size(total, kernel->workspace(kernel, call, grid), &total))
        return total;
    return SIZE_MAX;
}

static void divide_workspace(struct running *run, void *workspace) {
    const struct attn_plan *plan = run->plan;
    const size_t real = attn_kernel_real_size(plan->kernel, run->call);
    const size_t M = run->group * plan->grid.row_tile;
    char *cursor = workspace;
    run->at.all = attn_partial_take(run->call, plan->kernel, &plan->grid, &cursor);
    run->at.tile = attn_area_take(&cursor, attn_area_bytes(M, plan->grid.key_tile, real));
    run->at.kernel = cursor;
}

/* Element offset of the output row of (b, h, t), in q's own layout. */
static size_t output_offset(const struct attn_call *call, size_t b, size_t h, size_t t) {
    const bool tokens_first = call->bthd || call->split_heads;
    const size_t row =
        tokens_first ? (b * call->Tq + t) * call->Hq + h : (b * call->Hq + h) * call->Tq + t;
    return row * call->Dv;
}

/* Where score row m of the task has its output in the answer. */
static char *answer_row(const struct running *run, size_t m) {
    const struct attn_result_tensor *output = &run->result->tensors[ATTN_RESULT_OUTPUT];
    const size_t h = run->task.hkv * run->group + m / run->task.rows;
    const size_t t = run->task.row + m % run->task.rows;
    return (char *)output->data +
           attn_dtype_size(output->dtype) * output_offset(run->call, run->task.b, h, t);
}

/* Whether the answer holds reals: they go there as they are scaled. */
static bool writes_reals(const struct running *run) {
    return (run->call->returns & ATTN_RETURN_OUTPUT) &&
           run->call->output_dtype == (run->wide ? ATTN_FLOAT64 : ATTN_FLOAT32);
}

/* Multiplies one row of the output, to `to` or, where that is NULL, in its place; true when every
 * element will be finite as the answer has it. */
static bool scale_row(const struct running *run, size_t m, double factor, void *to) {
    const size_t Dv = run->call->Dv;
    if (run->wide) {
        double *row = (double *)run->at.all.o + m * Dv;
        return run->ops->d.scale_to(row, Dv, factor, run->largest, to != NULL ? to : row);
    }
    float *row = (float *)run->at.all.o + m * Dv;
    return run->ops->f.scale_to(row, Dv, (float)factor, (float)run->largest, to != NULL ? to : row);
}

/* The largest real that the answer's dtype does not round to infinity. */
static double largest_of(const struct running *run) {
    const double overflow = attn_overflow_threshold(run->call->output_dtype);
    return run->wide ? nextafter(overflow, 0) : (double)nextafterf((float)overflow, 0);
}

/* The same for a row whose sums no real could hold. It averages values that reals do hold, so what
 * rounding takes beyond the largest real is that real. */
static bool scale_large_row(const struct running *run, size_t m, double factor, void *to) {
    const size_t Dv = run->call->Dv;
    for (size_t d = 0; d < Dv; d++) {
        double *wide = (double *)run->at.all.o + m * Dv + d;
        float *narrow = (float *)run->at.all.o + m * Dv + d;
        if (run->wide && isfinite(*wide))
            *wide = fmax(fmin(*wide * factor, DBL_MAX), -DBL_MAX);
        else if (!run->wide && isfinite(*narrow))
            *narrow = fmaxf(fminf(*narrow * (float)factor, FLT_MAX), -FLT_MAX);
    }
    return scale_row(run, m, 1.0, to);
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
    const double m = run->at.all.m[row];
    if (given == -INFINITY)
        return 1.0;
    const double sink = nearest_real(run, given);
    const double base = sink > m ? sink : m;
    const double rebase = exp(m - base);
    run->at.all.m[row] = base;
    run->at.all.l[row] = run->at.all.l[row] * rebase + exp(sink - base);
    return rebase;
}

/* Divides a row by the denominator: the weights' sum, the sink's included. An empty one is zeros.
 */
static bool normalise_row(const struct running *run, size_t row, double sink, void *to) {
    const double factor = join_sink(run, row, sink);
    const double l = run->at.all.l[row], unit = run->at.all.unit[row];
    return unit != 1.0 ? scale_large_row(run, row, factor * unit / l, to)
                       : scale_row(run, row, l == 0.0 ? 0.0 : factor / l, to);
}

static void normalise(const struct running *run) {
    const size_t rows = run->task.rows;
    const size_t step =
        output_offset(run->call, 0, 0, 1) * attn_dtype_size(run->call->output_dtype);
    const bool answers = writes_reals(run);
    uint64_t empty = 0;
    bool finite = true;
    for (size_t g = 0; g < run->group; g++) {
        const size_t h = run->task.hkv * run->group + g;
        const double sink = run->call->sink != NULL ? run->call->sink[h] : -INFINITY;
        char *to = answers ? answer_row(run, g * rows) : NULL;
        for (size_t row = g * rows; row < (g + 1) * rows; row++) {
            empty += run->at.all.m[row] == -INFINITY;
            finite &= normalise_row(run, row, sink, to);
            to = answers ? to + step : NULL;
        }
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

static void store_output(const struct running *run) {
    const struct attn_task *task = &run->task;
    const bool apart = output_offset(run->call, 0, 0, 1) != run->call->Dv;
    const size_t together = apart ? 1 : task->rows; /* rows that lie one behind the other */
    for (size_t row = 0; row < run->group * task->rows; row += together)
        store(run, run->call->output_dtype, answer_row(run, row), together * run->call->Dv,
              run->at.all.o, row * run->call->Dv);
}

static void store_lse(const struct running *run) {
    const struct attn_task *task = &run->task;
    const struct attn_result_tensor *lse = &run->result->tensors[ATTN_RESULT_LSE];
    const size_t element = attn_dtype_size(lse->dtype);
    for (size_t row = 0; row < run->group * task->rows; row++) {
        const size_t h = task->hkv * run->group + row / task->rows;
        const size_t t = task->row + row % task->rows;
        const double m = run->at.all.m[row];
        const double l = run->at.all.l[row];
        const double value = m == -INFINITY ? -INFINITY : m + log(l);
        const size_t at = (task->b * run->call->Hq + h) * run->call->Tq + t;
        attn_store_double(lse->dtype, (char *)lse->data + element * at, 1, 1, &value);
    }
}

/* Element of attn_rows that a row of the task is; count or more: it is not among them. */
static size_t rows_place(const struct running *run, const struct attn_rows *rows, size_t row) {
    const size_t h = run->task.hkv * run->group + row / run->task.rows;
    const size_t t = run->task.row + row % run->task.rows;
    return (run->task.b * run->call->Hq + h) * run->call->Tq + t - rows->first;
}

static void leave_rows(const struct running *run, const struct attn_rows *rows) {
    for (size_t row = 0; row < run->group * run->task.rows; row++) {
        const size_t at = rows_place(run, rows, row);
        if (at >= rows->count)
            continue;
        rows->m[at] = run->at.all.m[row];
        rows->l[at] = run->at.all.l[row];
        rows->wide[at] = run->at.all.wide[row];
    }
}

static void recall_rows(const struct running *run, const struct attn_rows *rows) {
    for (size_t row = 0; row < run->group * run->task.rows; row++) {
        const size_t at = rows_place(run, rows, row);
        run->at.all.m[row] = rows->m[at];
        run->at.all.l[row] = rows->l[at];
        run->at.all.wide[row] = rows->wide[at];
    }
}

/* The task's rows by its keys. */
static void attend(struct running *run) {
    struct attn_partial part = run->at.all;
    if (run->chunks != NULL)
        part = attn_chunks_slot(run->chunks, run->call, run->index);
    run->plan->kernel->attend(&run->task, run->at.kernel, &part);
    atomic_fetch_add_explicit(&run->result->scores_computed, part.computed, memory_order_relaxed);
}

/* True when nothing is missing of the task's rows; it is then about all keys. */
static bool complete(struct running *run, bool attended) {
    if (run->chunks == NULL)
        return true;
    if (!attn_chunks_arrive(run->chunks, run->index))
        return false;
    run->task.key = 0;
    run->task.keys = run->call->Tk;
    if (attended)
        attn_chunks_join(run->chunks, &run->task, run->index, run->at.kernel, &run->at.all);
    return true;
}

static void write_rows(const struct running *run) {
    normalise(run);
    if ((run->call->returns & ATTN_RETURN_OUTPUT) && !writes_reals(run))
        store_output(run);
    if (run->call->returns & ATTN_RETURN_LSE)
        store_lse(run);
    if (run->result->rows != NULL)
        leave_rows(run, run->result->rows);
}

static void run_task(struct running *run, struct attn_map_order *order) {
    const struct attn_map_task at = {.call = run->call,
                                     .plan = run->plan,
                                     .result = run->result,
                                     .task = &run->task,
                                     .index = run->index / run->plan->chunks,
                                     .wide = run->wide,
                                     .group = run->group,
                                     .m = run->at.all.m,
                                     .l = run->at.all.l,
                                     .wide_rows = run->at.all.wide,
                                     .tile = run->at.tile,
                                     .kernel = run->at.kernel};
    const bool mapped = attn_map_touches(&at);
    const bool wanted = (run->call->returns & (ATTN_RETURN_OUTPUT | ATTN_RETURN_LSE)) || mapped ||
                        run->result->rows != NULL;
    const bool attended = wanted && run->task.rows > 0 && run->call->rows == NULL;
    if (attended)
        attend(run);
    if (attn_checkpoint_stops(run->task.checkpoint) || !complete(run, attended) ||
        attn_checkpoint_stops(run->task.checkpoint))
        return;
    if (attended)
        write_rows(run);
    else if (mapped && run->call->rows != NULL)
        recall_rows(run, run->call->rows);
    if (mapped || order != NULL)
        attn_map_run(&at, order);
}

/* Runs task `index`, whose head is packed at `packed`, and gives the head back. */
static void execute(const struct attn_call *call, const struct attn_plan *plan,
                    struct attn_result *result, struct attn_heads *heads, size_t index,
                    void *packed, void *workspace, const struct attn_checkpoint *checkpoint) {
    struct running run = {.call = call,
                          .result = result,
                          .plan = plan,
                          .task = {.kernel = plan->kernel,
                                   .call = call,
                                   .grid = plan->grid,
                                   .packed = packed,
                                   .rotation = attn_heads_rotation(heads),
                                   .checkpoint = checkpoint},
                          .chunks = attn_heads_chunks(heads),
                          .index = index,
                          .wide = attn_kernel_real_size(plan->kernel, call) == sizeof(double),
                          .group = attn_call_group(call),
                          .ops = attn_rowops_best()};
    run.largest = largest_of(&run);
    divide_workspace(&run, workspace);
    attn_plan_locate(plan, call, index, &run.task);
    run_task(&run, attn_heads_order(heads));
    attn_heads_give(heads, index);
}

void attn_execute_task(const struct attn_call *call, const struct attn_plan *plan,
                       struct attn_result *result, struct attn_heads *heads, size_t index,
                       void *workspace, const struct attn_checkpoint *checkpoint) {
    void *packed = attn_heads_take(heads, index);
    execute(call, plan, result, heads, index, packed, workspace, checkpoint);
}

void attn_execute_next(const struct attn_call *call, const struct attn_plan *plan,
                       struct attn_result *result, struct attn_heads *heads, void *workspace,
                       const struct attn_checkpoint *checkpoint) {
    void *packed;
    const size_t index = attn_heads_next(heads, &packed);
    execute(call, plan, result, heads, index, packed, workspace, checkpoint);
}
