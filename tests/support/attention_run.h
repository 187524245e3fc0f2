/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole call on one thread, for tests: random operands in any form, a request to be changed, the
 * answer in memory of exactly its size, and the same call computed in double, one score at a time
 * from the formula, to compare with. Refusals end the test.
 */
#ifndef TESTS_SUPPORT_ATTENTION_RUN_H
#define TESTS_SUPPORT_ATTENTION_RUN_H

#include "core/attention.h"

/* How q, k and v lie in memory; the values at [b,h,t,d] are the same in every form. TURNED: a
   row's elements are T apart. */
enum run_form { RUN_BHTD, RUN_BTHD, RUN_SPLIT, RUN_HTD, RUN_TD, RUN_TURNED };

struct run_sizes {
    size_t B, Hq, Hkv, Tq, Tk, D, Dv;
};

struct run {
    struct run_sizes sizes;
    struct attn_request request; /* the test's to change before run_plan */
    size_t chunk_keys;           /* the test's too: chunks of about as many keys; 0: as planned */
    struct attn_call call;
    struct attn_plan plan;
    struct attn_result result;
    void *operands[3]; /* q, k, v: owned */
};

enum {
    RUN_EVERYTHING = ATTN_RETURN_OUTPUT | ATTN_RETURN_WEIGHTS | ATTN_RETURN_SCORES | ATTN_RETURN_LSE
};

/* Fills q, k and v with values in [-1,1) that depend on the seed and their place alone. */
void run_open(struct run *run, enum attn_dtype dtype, enum run_form form, struct run_sizes sizes);
void run_close(struct run *run);

/* Validates, plans, and gives every wanted tensor memory filled with bytes RUN_UNTOUCHED. */
#define RUN_UNTOUCHED 0xa7
void run_plan(struct run *run);
/* The call's packed heads in memory of exactly their size, full of NaN. */
struct attn_heads *run_heads(const struct run *run, size_t threads);
void run_heads_close(struct attn_heads *heads);
/* One task with a workspace of its own, exactly as large as planned and full of NaN. */
void run_task(struct run *run, size_t index);
/* The same with heads that several tasks share. */
void run_task_with(struct run *run, struct attn_heads *heads, size_t index);
/* run_plan, then all tasks in order. Call run_reset before running again. */
void run_all(struct run *run);
/* Drops the answer and the call, so that the request may be changed and run again. */
void run_reset(struct run *run);

/* Elements of a tensor of the answer, and one of them. */
size_t run_count(const struct run *run, enum attn_result_name name);
double run_at(const struct run *run, enum attn_result_name name, size_t index);
/* Element of the output at [b,h,t,d], in whatever layout. */
double run_output_at(const struct run *run, size_t b, size_t h, size_t t, size_t d);
/* A copy of a tensor of the answer; the caller frees it. */
void *run_copy(const struct run *run, enum attn_result_name name);

/* Every tensor of the answer from `first` on has the other's bits. */
void run_expect_same_bits(const struct run *run, const struct run *other, size_t first);

/* The formula's answer. All [B,Hq,Tq,...] of the whole map; free with run_expected_close. */
struct run_expected {
    double *stage[ATTN_STAGE_WEIGHTS + 1]; /* [B,Hq,Tq,Tk] */
    double *output;                        /* [B,Hq,Tq,Dv] */
    double *lse;                           /* [B,Hq,Tq] */
    size_t empty_rows;
};

/* For a planned run. */
struct run_expected run_expect(const struct run *run);
void run_expected_close(struct run_expected *expected);

/* Equal as NaN, as infinity, or within tolerance * (1 + |want|). */
bool run_is_close(double got, double want, double tolerance);

#endif
