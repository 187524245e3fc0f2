/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One task from kernel to answer: attend, let the sink join the denominator, divide, store in the
 * answer's dtype and layout, then let maps have the scores once more.
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
    size_t index;
    struct workspace at;
    bool wide; /* reals are double */
    size_t group;
};

size_t attn_task_workspace_bytes(const struct attn_call *call, const struct attn_kernel *kernel,
                                 const struct attn_grid *grid) {
    const size_t real = attn_kernel_real_size(kernel, call);
    size_t M;
    size_t total = 0;
    if (attn_mul_size(attn_call_group(call), grid->row_tile, &M) &&
        attn_area_add(M, call->Dv, real, &total) &&
        attn_area_add(M, grid->key_tile, real, &total) &&
        attn_area_add(M, 1, sizeof(double), &total) &&
        attn_area_add(M, 1, sizeof(double), &total) &&
        attn_area_add(M, 1, sizeof(double), &total) && attn_area_add(M, 1, sizeof(bool), &total) &&
        attn_add_size(total, kernel->workspace(kernel, call, grid), &total))
        return total;
    return SIZE_MAX;
}

static void divide_workspace(struct running *run, void *workspace) {
    const struct attn_call *call = run->call;
    const size_t real = attn_kernel_real_size(run->plan->kernel, call);
    const size_t M = run->group * run->plan->grid.row_tile;
    char *cursor = workspace;
    run->at.o = attn_area_take(&cursor, attn_area_bytes(M, call->Dv, real));
    run->at.tile = attn_area_take(&cursor, attn_area_bytes(M, run->plan->grid.key_tile, real));
    run->at.m = attn_area_take(&cursor, attn_area_bytes(M, 1, sizeof(double)));
    run->at.l = attn_area_take(&cursor, attn_area_bytes(M, 1, sizeof(double)));
    run->at.unit = attn_area_take(&cursor, attn_area_bytes(M, 1, sizeof(double)));
    run->at.wide = attn_area_take(&cursor, attn_area_bytes(M, 1, sizeof(bool)));
    run->at.kernel = cursor;
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

static void attend(const struct running *run) {
    struct attn_partial partial = {run->at.o, run->at.m, run->at.l, run->at.unit, run->at.wide, 0};
    run->plan->kernel->attend(&run->task, run->at.kernel, &partial);
    if (attn_checkpoint_stops(run->task.checkpoint))
        return;
    atomic_fetch_add_explicit(&run->result->scores_computed, partial.computed,
                              memory_order_relaxed);
    normalise(run);
    if (run->call->returns & ATTN_RETURN_OUTPUT)
        store_output(run);
    if (run->call->returns & ATTN_RETURN_LSE)
        store_lse(run);
}

static void run_task(struct running *run, struct attn_map_order *order) {
    const struct attn_map_task at = {.call = run->call,
                                     .plan = run->plan,
                                     .result = run->result,
                                     .task = &run->task,
                                     .index = run->index,
                                     .wide = run->wide,
                                     .group = run->group,
                                     .m = run->at.m,
                                     .l = run->at.l,
                                     .wide_rows = run->at.wide,
                                     .tile = run->at.tile,
                                     .kernel = run->at.kernel};
    const bool mapped = attn_map_touches(&at);
    if (((run->call->returns & (ATTN_RETURN_OUTPUT | ATTN_RETURN_LSE)) || mapped) &&
        run->task.rows > 0)
        attend(run);
    if ((mapped || order != NULL) && !attn_checkpoint_stops(run->task.checkpoint))
        attn_map_run(&at, order);
}

void attn_execute_task(const struct attn_call *call, const struct attn_plan *plan,
                       struct attn_result *result, struct attn_heads *heads, size_t index,
                       void *workspace, const struct attn_checkpoint *checkpoint) {
    struct running run = {.call = call,
                          .result = result,
                          .plan = plan,
                          .task = {.kernel = plan->kernel,
                                   .call = call,
                                   .grid = plan->grid,
                                   .checkpoint = checkpoint},
                          .index = index,
                          .wide = attn_kernel_real_size(plan->kernel, call) == sizeof(double),
                          .group = attn_call_group(call)};
    divide_workspace(&run, workspace);
    attn_plan_locate(plan, call, index, &run.task);
    const size_t head = run.task.b * call->Hkv + run.task.hkv;
    run.task.packed = attn_heads_take(heads, head);
    run.task.rotation = attn_heads_rotation(heads);
    run_task(&run, attn_heads_order(heads));
    attn_heads_give(heads, head);
}
