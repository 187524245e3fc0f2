/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a run in caches of its sizes, and reading them back; for the tests of the cache alone. */
#ifndef TESTS_UNIT_CORE_KV_ROWS_H
#define TESTS_UNIT_CORE_KV_ROWS_H

#include "tests/unit/core/kv_fixture.h"

enum { PAGE = ATTN_KV_PAGE, ROWS = 5 * PAGE };

static const struct run_sizes SIZES = {
    .B = 1, .Hq = 2, .Hkv = 2, .Tq = 1, .Tk = ROWS, .D = 6, .Dv = 3};

static inline size_t pages_of(size_t rows) {
    return (rows + PAGE - 1) / PAGE;
}

/* Rows to append, and a pool. */
struct fixture {
    struct run run;
    struct attn_kv_pool *pool;
};

static inline struct fixture open_fixture(size_t budget) {
    struct fixture fixture;
    run_open(&fixture.run, ATTN_FLOAT32, RUN_BHTD, SIZES);
    fixture.pool = pool_of(budget);
    return fixture;
}

static inline void close_fixture(struct fixture *fixture) {
    run_close(&fixture->run);
    pool_close(fixture->pool);
}

static inline struct attn_kv_cache *open_cache(const struct fixture *fixture, int64_t layers) {
    struct attn_kv_spec spec = spec_of(&SIZES, ATTN_FLOAT32);
    spec.layers = layers;
    return cache_of(fixture->pool, &spec);
}

/* The view's rows are those of the run at these places, one by one. */
static inline void expect_view(const struct attn_kv_view *view, const struct run *run,
                               const size_t *places) {
    static float k[2 * ROWS * 6], v[2 * ROWS * 3];
    attn_kv_export(view, 0, view->keys, k, v);
    for (size_t h = 0; h < 2; h++)
        for (size_t j = 0; j < view->keys; j++) {
            const size_t from = h * ROWS + places[j], to = h * view->keys + j;
            ck_assert_mem_eq(k + to * 6, (const float *)run->operands[1] + from * 6, 6 * sizeof *k);
            ck_assert_mem_eq(v + to * 3, (const float *)run->operands[2] + from * 3, 3 * sizeof *v);
        }
}

/* The layer holds the run's first `length` rows, but that those from `from` on are `shift` further
 * on. */
static inline void expect_rows(const struct attn_kv_cache *cache, size_t layer,
                               const struct run *run, size_t length, size_t from, size_t shift) {
    size_t places[ROWS] = {0};
    struct attn_kv_view view = view_of(cache, layer, NULL, ATTN_KV_NEXT);
    ck_assert_uint_eq(attn_kv_length(cache, layer), length);
    ck_assert_uint_eq(view.keys, length);
    for (size_t j = 0; j < length; j++)
        places[j] = j + (j < from ? 0 : shift);
    expect_view(&view, run, places);
    attn_kv_view_close(&view);
}

#endif
