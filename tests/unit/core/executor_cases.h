/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that between them use every option the executor and kernels meet, and loops over the
 * kernels that this machine can run. Sizes cross tile borders of every kernel's grid where a test
 * says so, and no head count, length or width is equal to another.
 */
#ifndef TESTS_UNIT_CORE_EXECUTOR_CASES_H
#define TESTS_UNIT_CORE_EXECUTOR_CASES_H

#include <math.h>

#include "tests/support/attention_run.h"
#include "tests/support/random.h"
#include "tests/support/request_builder.h"

/* What a case sets; its lists, nodes and bias live here. */
struct executor_case {
    struct run run;
    struct attn_mask_node nodes[4];
    int64_t lengths[2];
    double slopes[4], sinks[4];
    float bias[4 * 40 * 90];
    float w[4 * 24];
};

static const struct run_sizes CASE_SIZES = {
    .B = 2, .Hq = 4, .Hkv = 2, .Tq = 40, .Tk = 90, .D = 24, .Dv = 10};

static inline void set_mask(struct executor_case *c, size_t count) {
    c->run.request.mask = (struct attn_mask){c->nodes, count};
}

static inline void with_nothing(struct executor_case *c) {
    (void)c;
}

static inline void with_scale_and_cap(struct executor_case *c) {
    c->run.request.scale_given = c->run.request.softcap_given = true;
    c->run.request.scale = -1.5;
    c->run.request.softcap = 2;
}

static inline void with_causal(struct executor_case *c) {
    c->nodes[0] = (struct attn_mask_node)CAUSAL(BOTTOM_RIGHT);
    set_mask(c, 1);
}

/* Rows of the second item see keys only from its 11th on. */
static inline void with_causal_window_and_padding(struct executor_case *c) {
    c->lengths[0] = 90;
    c->lengths[1] = 30;
    c->nodes[0] = (struct attn_mask_node)CAUSAL(BOTTOM_RIGHT);
    c->nodes[1] = (struct attn_mask_node){
        .kind = ATTN_MASK_WINDOW, .left = 12, .right = -1, .pointer = "/mask/1"};
    c->nodes[2] = (struct attn_mask_node){
        .kind = ATTN_MASK_PADDING, .kv_lengths = {c->lengths, 2}, .pointer = "/mask/2"};
    c->nodes[3] = (struct attn_mask_node)JOIN(ALL, 3);
    set_mask(c, 4);
}

static inline void with_bias(struct executor_case *c) {
    struct random random = random_seeded(9);
    for (size_t n = 0; n < COUNT_OF(c->bias); n++)
        c->bias[n] = n % 11 == 0 ? -INFINITY : (float)random_unit(&random);
    c->run.request.bias = attn_tensor_view(c->bias, ATTN_FLOAT32, 3, (const size_t[]){4, 40, 90});
}

static inline void with_alibi(struct executor_case *c) {
    static const int64_t offset[] = {50, -3};
    c->run.request.alibi = true;
    c->run.request.q_offset = (struct attn_int_list){offset, 2};
}

static inline void with_sinks(struct executor_case *c) {
    static const double sinks[4] = {0, 1.3, -2, 5};
    memcpy(c->sinks, sinks, sizeof sinks);
    c->run.request.sink = (struct attn_real_list){c->sinks, 4};
}

/* Both batch items far from key 0, each elsewhere; all dimensions turn. */
static inline void with_rope(struct executor_case *c) {
    static const int64_t offset[] = {1000, -17};
    c->run.request.rope =
        (struct attn_rope_request){.given = true, .q_offset = {offset, 2}, .k_offset = 990};
}

/* Weights for each head its own. */
static inline void with_additive(struct executor_case *c) {
    struct random random = random_seeded(11);
    for (size_t n = 0; n < COUNT_OF(c->w); n++)
        c->w[n] = (float)random_unit(&random) - 0.5f;
    c->run.request.score = ATTN_SCORE_ADDITIVE;
    c->run.request.w = attn_tensor_view(c->w, ATTN_FLOAT32, 2, (const size_t[]){4, 24});
}

static inline void with_everything(struct executor_case *c) {
    with_scale_and_cap(c);
    with_causal_window_and_padding(c);
    with_bias(c);
    with_sinks(c);
    c->run.request.alibi = true;
    c->run.request.rope = (struct attn_rope_request){
        .given = true, .interleaved = true, .dims_given = true, .dims = 14};
}

static inline void with_everything_additive(struct executor_case *c) {
    with_everything(c);
    with_additive(c);
}

static void (*const CASES[])(struct executor_case *) = {
    with_nothing,    with_scale_and_cap,
    with_causal,     with_causal_window_and_padding,
    with_bias,       with_alibi,
    with_sinks,      with_rope,
    with_additive,   with_everything_additive,
    with_everything,
};

enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

/* The name of the n-th kernel when this machine can run it, else the default one's. */
static inline const char *kernel_name(size_t n) {
    const struct attn_kernel *kernel = attn_kernel_at(n);
    return (kernel->available() ? kernel : attn_kernel_default())->name;
}

static inline int kernel_count(void) {
    int count = 0;
    while (attn_kernel_at((size_t)count) != NULL)
        count++;
    return count;
}

/* Opens case `which` for a kernel; everything is returned, and the map is the weights. */
static inline void case_open(struct executor_case *c, size_t which, size_t kernel,
                             enum attn_dtype dtype, enum run_form form) {
    run_open(&c->run, dtype, form, CASE_SIZES);
    c->run.request.preferred_kernel = kernel_name(kernel);
    c->run.request.returns = RUN_EVERYTHING;
    CASES[which](c);
}

#endif
