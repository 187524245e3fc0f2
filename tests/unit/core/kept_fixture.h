/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are answered and kept, and parts of them that are redone. */
#ifndef TESTS_UNIT_CORE_KEPT_FIXTURE_H
#define TESTS_UNIT_CORE_KEPT_FIXTURE_H

#include <stdlib.h>

#include "core/kept.h"
#include "tests/unit/core/executor_cases.h"

/* A call that was answered, and is kept in memory of exactly its size. */
struct keeping {
    void *memory;
    struct attn_kept *kept;
    void *weights, *scores; /* of the answer */
};

static inline void keep(struct keeping *keeping, struct run *run, enum attn_dtype dtype) {
    run_plan(run);
    const size_t bytes = attn_kept_bytes(&run->call, &run->plan, dtype);
    ck_assert_int_eq(posix_memalign(&keeping->memory, 64, bytes), 0);
    memset(keeping->memory, 0xff, bytes);
    keeping->kept = attn_kept_make(&run->call, &run->plan, dtype, keeping->memory);
    run->result.rows = keeping->kept->narrowed ? NULL : &keeping->kept->rows;
    struct attn_heads *heads = run_heads(run, 1);
    for (size_t index = 0; index < run->plan.tasks; index++)
        run_task_with(run, heads, index);
    run_heads_close(heads);
    keeping->weights = run_copy(run, ATTN_RESULT_WEIGHTS);
    keeping->scores = run_copy(run, ATTN_RESULT_SCORES);
}

static inline void keeping_close(struct keeping *keeping) {
    free(keeping->memory);
    free(keeping->weights);
    free(keeping->scores);
}

static const struct run_sizes LONG = {
    .B = 2, .Hq = 4, .Hkv = 2, .Tq = 270, .Tk = 1100, .D = 8, .Dv = 4};

/* Rows and keys cross tiles, and attend had the keys in chunks. */
static inline void open_long(struct executor_case *c, size_t kernel) {
    run_open(&c->run, ATTN_FLOAT32, RUN_BHTD, LONG);
    c->nodes[0] = (struct attn_mask_node)CAUSAL(BOTTOM_RIGHT);
    c->run.request.mask = (struct attn_mask){c->nodes, 1};
    c->run.request.preferred_kernel = kernel_name(kernel);
    c->run.request.returns = ATTN_RETURN_WEIGHTS | ATTN_RETURN_SCORES;
    c->run.chunk_keys = 300;
}

/* Everything that the call was made of. */
static inline void scribble(struct executor_case *c) {
    const struct run_sizes *n = &c->run.sizes;
    const size_t element = attn_dtype_size(c->run.request.q.dtype);
    memset(c->run.operands[0], 0x5a, n->B * n->Hq * n->Tq * n->D * element);
    memset(c->run.operands[1], 0x5a, n->B * n->Hkv * n->Tk * n->D * element);
    memset(c->run.operands[2], 0x5a, n->B * n->Hkv * n->Tk * n->Dv * element);
    memset(c->bias, 0, sizeof c->bias);
    memset(c->w, 0, sizeof c->w);
    memset(c->nodes, 0, sizeof c->nodes);
    memset(c->lengths, 0, sizeof c->lengths);
    memset(c->sinks, 0, sizeof c->sinks);
    memset(c->run.call.storage, 0x5a, (n->B + 1 + 2 * n->Hq) * sizeof(double));
}

/* A part, redone into memory of exactly its size. */
struct redone {
    struct attn_call call;
    struct attn_plan plan;
    struct attn_result result;
};

static inline void *redo_memory(const struct attn_plan *plan) {
    const size_t bytes = attn_kept_redo_bytes(plan);
    void *memory = NULL;
    ck_assert_int_eq(posix_memalign(&memory, 64, bytes), 0);
    memset(memory, 0xff, bytes);
    return memory;
}

static inline void redo(struct redone *redone, const struct attn_kept *kept,
                        const struct attn_kept_part *part) {
    static const struct attn_limits limits = {SIZE_MAX, INFINITY};
    struct attn_error error = {.status = ATTN_OK};
    if (attn_kept_select(kept, part, &redone->call, &error) == ATTN_OK)
        attn_plan_make(&redone->call, &limits, &redone->plan, &redone->result, &error);
    ck_assert_msg(error.status == ATTN_OK, "refused: %s", error.detail);
    for (size_t n = 0; n < ATTN_RESULT_COUNT; n++) {
        struct attn_result_tensor *tensor = &redone->result.tensors[n];
        if (tensor->wanted)
            tensor->data = malloc(tensor->bytes);
    }
    void *memory = redo_memory(&redone->plan);
    ck_assert(attn_kept_redo(&redone->call, &redone->plan, &redone->result, memory, NULL));
    free(memory);
    ck_assert((atomic_load(&redone->result.scores_computed) == 0) != kept->narrowed);
}

static inline void redone_close(struct redone *redone) {
    for (size_t n = 0; n < ATTN_RESULT_COUNT; n++)
        free(redone->result.tensors[n].data);
}

static inline const void *redone_data(const struct redone *redone, enum attn_result_name name) {
    return redone->result.tensors[name].data;
}

/* The whole plane of a batch item, as the answer had it. */
static inline void expect_batch(const struct redone *redone, enum attn_result_name name, size_t b,
                                const void *whole) {
    const size_t bytes = redone->result.tensors[name].bytes;
    ck_assert_mem_eq(redone_data(redone, name), (const char *)whole + b * bytes, bytes);
}

#endif
