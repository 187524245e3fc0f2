/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Caches for tests: a pool, rows of a run's own k and v appended to them, and the run's call over a
 * view in place of those tensors.
 */
#ifndef TESTS_UNIT_CORE_KV_FIXTURE_H
#define TESTS_UNIT_CORE_KV_FIXTURE_H

#include <math.h>

#include "tests/support/attention_run.h"
#include "tests/support/random.h"
#include "tests/support/request_builder.h"

#define ROOMY ((size_t)64 << 20)

static inline struct attn_kv_pool *pool_of(size_t budget) {
    struct attn_kv_pool *pool = NULL;
    struct attn_error error = {0};
    ck_assert_int_eq(attn_kv_pool_create(budget, &pool, &error), ATTN_OK);
    return pool;
}

/* All that was taken is back. */
static inline void pool_close(struct attn_kv_pool *pool) {
    const struct attn_kv_pool_stats stats = attn_kv_pool_read(pool);
    ck_assert_uint_eq(stats.pages, 0);
    ck_assert_uint_eq(stats.used, 0);
    attn_kv_pool_free(&pool);
    ck_assert_ptr_null(pool);
}

static inline struct attn_kv_spec spec_of(const struct run_sizes *sizes, enum attn_dtype dtype) {
    return (struct attn_kv_spec){.layers = 1,
                                 .Hkv = (int64_t)sizes->Hkv,
                                 .D = (int64_t)sizes->D,
                                 .Dv = (int64_t)sizes->Dv,
                                 .dtype = dtype,
                                 .capacity = 1 << 20};
}

static inline struct attn_kv_cache *cache_of(struct attn_kv_pool *pool,
                                             const struct attn_kv_spec *spec) {
    struct attn_kv_cache *cache = NULL;
    struct attn_error error = {0};
    const enum attn_status status = attn_kv_cache_create(pool, spec, &cache, &error);
    ck_assert_msg(status == ATTN_OK, "refused: %s", error.detail);
    return cache;
}

/* Rows [from, from + count) of a run's k and v, of form BHTD with B = 1. */
static inline struct attn_kv_rows rows_of(const struct run *run, size_t from, size_t count) {
    struct attn_kv_rows rows = {.k = run->request.k, .v = run->request.v};
    struct attn_tensor *const both[] = {&rows.k, &rows.v};
    for (size_t n = 0; n < 2; n++) {
        both[n]->data = (const char *)both[n]->data +
                        from * (size_t)both[n]->stride[2] * attn_dtype_size(both[n]->dtype);
        both[n]->shape[2] = count;
    }
    return rows;
}

static inline struct attn_kv_append *begin_append(struct attn_kv_cache *cache, size_t layer,
                                                  const struct attn_kv_rows *rows) {
    struct attn_kv_append *append = NULL;
    struct attn_error error = {0};
    size_t count = 0;
    ck_assert_int_eq(attn_kv_rows_check(cache, rows, &count, &error), ATTN_OK);
    const enum attn_status status = attn_kv_append_begin(cache, layer, count, &append, &error);
    ck_assert_msg(status == ATTN_OK, "refused: %s", error.detail);
    ck_assert(attn_kv_append_write(append, rows, NULL));
    return append;
}

static inline void append_rows(struct attn_kv_cache *cache, size_t layer, const struct run *run,
                               size_t from, size_t count) {
    const struct attn_kv_rows rows = rows_of(run, from, count);
    attn_kv_append_commit(begin_append(cache, layer, &rows));
}

static inline struct attn_kv_view view_of(const struct attn_kv_cache *cache, size_t layer,
                                          const struct attn_kv_append *append, int64_t position) {
    struct attn_kv_view view;
    struct attn_error error = {0};
    const enum attn_status status =
        attn_kv_view_open(cache, layer, append, position, &view, &error);
    ck_assert_msg(status == ATTN_OK, "refused: %s", error.detail);
    return view;
}

/* The run's call over a view of the layer instead of its own k and v. */
static inline void run_over(struct run *run, const struct attn_kv_view *view) {
    run->request.kv = view;
    run_all(run);
}

#endif
