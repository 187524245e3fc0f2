/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan: what a call will cost and how it is cut into tasks. A pure value, made from the call
 * and limits alone; printable, and testable without computing anything.
 */
#ifndef ATTN_CORE_PLAN_H
#define ATTN_CORE_PLAN_H

#include "core/call.h"
#include "core/kernels/kernel.h"
#include "core/result.h"

/* Readies the kernels. Once per process, before the first task. */
void attn_start(void);

struct attn_limits {
    size_t result_bytes; /* largest sum of result tensors */
    double flops;        /* most arithmetic per call */
};

struct attn_plan {
    const struct attn_kernel *kernel;
    struct attn_grid grid;
    size_t row_tiles;       /* per key/value head */
    size_t chunks;          /* of keys, per row tile: see core/chunks.h */
    size_t chunk_keys;      /* of each but the last, which may have fewer */
    size_t tasks;           /* B * Hkv * row_tiles * chunks */
    size_t workspace_bytes; /* per worker, partial buffers included */
    size_t chunk_bytes;     /* of a chunk's results, kept until all have them; 0: one chunk */
    size_t packed_bytes;    /* of each key/value head in flight, shared by the workers at it */
    size_t rotation_bytes;  /* of the turns of rotary positions, shared by all workers */
    size_t slot_bytes;      /* of a task's part of what maps add up over tasks; 0: nothing */
    size_t carry_bytes;     /* of what is kept between two such parts */
    size_t result_bytes;    /* all wanted tensors */
    double scores_total;    /* B * Hq * Tq * Tk */
    double scores_planned;  /* of them in tiles that are not known to be empty */
    double flops; /* 2 * (D + Dv) * scores_planned, and 2 * D more per score of a map or of
                     statistics */
    /* flops, 16 for each score's softmax, 50 for each nanosecond that evaluating the mask may take,
       the turning of rotary positions, and 16 for each term of an additive score: what limits and
       scheduling go by */
    double work;
};

/*
 * Plans `call` with the kernel it names or the default one, and fills `result` with the wanted
 * tensors' shapes and sizes (data NULL). Errors: BAD_VALUE for an unknown or unavailable kernel
 * (lists those there are), RESULT_TOO_LARGE (names pool, top_k and rows as ways out),
 * TOO_MUCH_WORK.
 */
enum attn_status attn_plan_make(const struct attn_call *call, const struct attn_limits *limits,
                                struct attn_plan *plan, struct attn_result *result,
                                struct attn_error *error);

/* Fills in which rows of which head, by which keys, task `index` (< plan->tasks) computes. Tasks
   are numbered head by head, so that keys and values stay in cache, and each head's longest rows
   (the last ones, under a causal mask) come first, so that workers end together; chunks of the same
   rows in a row. */
void attn_plan_locate(const struct attn_plan *plan, const struct attn_call *call, size_t index,
                      struct attn_task *task);

/* One line for people: "blas 192x256, 88 tasks, 1.2 GFLOP, 0.4 MiB workspace, 2.0 MiB result". */
const char *attn_plan_text(const struct attn_plan *plan, char *text, size_t size);

#endif
