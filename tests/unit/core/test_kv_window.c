/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers that keep a window and sinks: a call over what is left against the plain call over all
 * rows ever appended, by positions; what is evicted when; what can be had again and what is
 * refused.
 */
#include "core/checked.h"
#include "tests/unit/core/executor_cases.h"
#include "tests/unit/core/kv_fixture.h"

enum { LENGTH = 1500 };

struct shape {
    int64_t left, sinks;
    size_t step, Tq; /* rows of an append, and of the last one */
};

static const struct shape SHAPES[] = {{100, 0, 50, 1},   {100, 4, 50, 1},   {63, 300, 7, 2},
                                      {0, 1, 200, 5},    {300, 0, 333, 40}, {64, 256, 64, 3},
                                      {1000, 3, 100, 1}, {200, 5, 1, 1},    {50, 0, 500, 120}};

/* Options of the call, by positions all; the nodes of the mask are the test's. */
struct tested {
    struct run plain, cached;
    struct attn_mask_node nodes[2][12];
    int64_t position;
    int64_t sinks, tokens[4], first;
};

static void set_window_mask(struct tested *t, const struct shape *shape,
                            const struct attn_mask_node *own, size_t count) {
    struct attn_mask_node *nodes = t->nodes[0];
    t->sinks = shape->sinks;
    const struct attn_mask_node window[] = {
        CAUSAL(NONE),
        {.kind = ATTN_MASK_WINDOW, .left = shape->left, .right = -1, .pointer = "/mask"},
        {.kind = ATTN_MASK_PREFIX, .lengths = {&t->sinks, 1}, .pointer = "/mask"},
        JOIN(ANY, 2),
        JOIN(ALL, 2)};
    memcpy(nodes, window, sizeof window);
    if (count > 0) {
        memcpy(nodes + 5, own, count * sizeof *own);
        nodes[5 + count] = (struct attn_mask_node)JOIN(ALL, 2);
        memcpy(t->nodes[1], own, count * sizeof *own);
        t->cached.request.mask = (struct attn_mask){t->nodes[1], count};
    }
    t->plain.request.mask = (struct attn_mask){nodes, count > 0 ? 6 + count : 5};
    t->plain.request.q_offset = (struct attn_int_list){&t->position, 1};
}

/* Masks of every kind that goes by positions, and ALiBi. */
static void set_options(struct tested *t, const struct shape *shape, size_t option) {
    const struct attn_mask_node own[][5] = {
        {{.kind = ATTN_MASK_DILATED, .width = 2000, .stride = 3, .pointer = "/mask"},
         {.kind = ATTN_MASK_PREFIX, .lengths = {&t->first, 1}, .pointer = "/mask"},
         JOIN(ANY, 2)},
        {{.kind = ATTN_MASK_GLOBAL, .tokens = {t->tokens, 4}, .pointer = "/mask"},
         {.kind = ATTN_MASK_BLOCK_CAUSAL, .block = 90, .pointer = "/mask"},
         {.kind = ATTN_MASK_NOT, .pointer = "/mask"},
         JOIN(ANY, 2)},
        {{.kind = ATTN_MASK_WINDOW, .left = 90, .right = -1, .pointer = "/mask"},
         {.kind = ATTN_MASK_GLOBAL, .tokens = {t->tokens, 4}, .pointer = "/mask"},
         JOIN(ANY, 2)}};
    static const size_t counts[] = {3, 4, 3};
    static const int64_t tokens[] = {0, 2, 700, LENGTH - 3};
    memcpy(t->tokens, tokens, sizeof tokens);
    t->first = 3;
    if (option == 0 || option > 3) {
        set_window_mask(t, shape, NULL, 0);
        t->plain.request.alibi = t->cached.request.alibi = option > 3;
    } else {
        set_window_mask(t, shape, own[option - 1], counts[option - 1]);
    }
}

static void open_one(struct run *run, size_t kernel, size_t Tq, enum attn_dtype dtype) {
    run_open(
        run, dtype, RUN_BHTD,
        (struct run_sizes){.B = 1, .Hq = 4, .Hkv = 2, .Tq = Tq, .Tk = LENGTH, .D = 16, .Dv = 5});
    run->request.preferred_kernel = kernel_name(kernel);
    run->request.output_dtype_given = true;
    run->request.output_dtype = ATTN_FLOAT64;
    run->request.returns = ATTN_RETURN_OUTPUT | ATTN_RETURN_LSE | ATTN_RETURN_STATS |
                           ATTN_RETURN_WEIGHTS | ATTN_RETURN_COL_SUMS;
}

static void compare(const struct tested *t, const struct attn_kv_view *view, const char *what) {
    static const enum attn_result_name names[] = {ATTN_RESULT_OUTPUT, ATTN_RESULT_LSE,
                                                  ATTN_RESULT_STATS};
    for (size_t n = 0; n < COUNT_OF(names); n++)
        for (size_t e = 0; e < run_count(&t->plain, names[n]); e++) {
            const double got = run_at(&t->cached, names[n], e);
            const double want = run_at(&t->plain, names[n], e);
            /* the number of the key that most looked at is its own in each */
            const bool number = names[n] == ATTN_RESULT_STATS && e / 4 == ATTN_STAT_TOP_KEY;
            if (!number && !run_is_close(got, want, 2e-5))
                ck_abort_msg("%s, %s, %s[%zu] is %.9g, not %.9g", t->cached.plan.kernel->name, what,
                             attn_result_tensor_name(names[n]), e, got, want);
        }
    const size_t rows = t->plain.sizes.Hq * t->plain.sizes.Tq;
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < view->keys; j++) {
            const size_t position = (size_t)attn_kv_view_position(view, j);
            ck_assert(run_is_close(run_at(&t->cached, ATTN_RESULT_WEIGHTS, r * view->keys + j),
                                   run_at(&t->plain, ATTN_RESULT_WEIGHTS, r * LENGTH + position),
                                   2e-5));
        }
}

static struct attn_kv_cache *cache_with(struct attn_kv_pool *pool, const struct run *run,
                                        const struct attn_kv_window *window) {
    struct attn_kv_spec spec = spec_of(&run->sizes, run->request.k.dtype);
    spec.windows = window;
    spec.window_count = 1;
    return cache_of(pool, &spec);
}

static void expect_window(size_t kernel, const struct shape *shape, size_t option,
                          enum attn_dtype dtype) {
    struct tested t = {.position = (int64_t)(LENGTH - shape->Tq)};
    struct attn_kv_pool *pool = pool_of(ROOMY);
    char what[64];
    snprintf(what, sizeof what, "left %d, sinks %d, option %zu", (int)shape->left,
             (int)shape->sinks, option);
    open_one(&t.plain, kernel, shape->Tq, dtype);
    open_one(&t.cached, kernel, shape->Tq, dtype);
    set_options(&t, shape, option);
    run_all(&t.plain);
    const struct attn_kv_window window = {true, shape->left, shape->sinks};
    struct attn_kv_cache *cache = cache_with(pool, &t.plain, &window);
    size_t last = 0;
    for (size_t at = 0, n; at < (size_t)t.position; at += n) {
        n = attn_min_size(shape->step, (size_t)t.position - at);
        append_rows(cache, 0, &t.plain, at, n);
        last = n;
    }
    const size_t most = (size_t)shape->left + last + (size_t)shape->sinks + 255 + 2 * ATTN_KV_PAGE;
    ck_assert_uint_le(attn_kv_cache_pages(cache) * ATTN_KV_PAGE, most);
    const struct attn_kv_rows rows = rows_of(&t.plain, (size_t)t.position, shape->Tq);
    struct attn_kv_append *append = begin_append(cache, 0, &rows);
    struct attn_kv_view view = view_of(cache, 0, append, ATTN_KV_NEXT);
    run_over(&t.cached, &view);
    compare(&t, &view, what);
    attn_kv_view_close(&view);
    attn_kv_append_commit(append);
    run_reset(&t.cached); /* and once more, after the answer was lost */
    view = view_of(cache, 0, NULL, t.position);
    run_over(&t.cached, &view);
    compare(&t, &view, what);
    attn_kv_view_close(&view);
    attn_kv_cache_free(&cache);
    run_close(&t.plain);
    run_close(&t.cached);
    pool_close(pool);
}

START_TEST(what_is_left_is_enough) {
    for (size_t n = 0; n < COUNT_OF(SHAPES); n++) {
        expect_window((size_t)_i, &SHAPES[n], 0, ATTN_FLOAT32);
        expect_window((size_t)_i, &SHAPES[n], 1 + n % 4, n % 2 ? ATTN_FLOAT32 : ATTN_FLOAT16);
    }
}
END_TEST

START_TEST(every_option_goes_by_positions) {
    for (size_t option = 1; option < 5; option++)
        expect_window((size_t)_i, &SHAPES[1], option, ATTN_FLOAT32);
}
END_TEST

START_TEST(what_was_evicted_is_refused) {
    struct run run;
    struct attn_kv_pool *pool = pool_of(ROOMY);
    const struct attn_kv_window window = {true, 200, 2};
    open_one(&run, 0, 1, ATTN_FLOAT32);
    struct attn_kv_cache *cache = cache_with(pool, &run, &window);
    for (size_t at = 0; at < 1000; at += 50)
        append_rows(cache, 0, &run, at, 50);
    struct attn_kv_view view = view_of(cache, 0, NULL, ATTN_KV_NEXT);
    const size_t begin = view.gap.key + view.gap.count;
    ck_assert_uint_eq(view.gap.key, 256);
    /* the page that 950 - 200 lies in */
    ck_assert_uint_eq(begin, (size_t)750 / ATTN_KV_PAGE * ATTN_KV_PAGE);
    ck_assert_uint_eq(view.keys, 1000 - view.gap.count);
    attn_kv_view_close(&view);
    struct attn_error error = {0};
    ck_assert_int_eq(attn_kv_view_open(cache, 0, NULL, (int64_t)begin + 199, &view, &error),
                     ATTN_SESSION_EVICTED);
    ck_assert_double_eq(error.limit, (double)begin + 200);
    ck_assert_str_eq(error.pointer, "/position");
    error = (struct attn_error){0};
    ck_assert_int_eq(attn_kv_view_open(cache, 0, NULL, -2, &view, &error), ATTN_BAD_VALUE);
    error = (struct attn_error){0};
    ck_assert_int_eq(attn_kv_truncate(cache, begin + 199, &error), ATTN_SESSION_EVICTED);
    ck_assert_double_eq(error.limit, (double)begin + 200);
    ck_assert_uint_eq(attn_kv_length(cache, 0), 1000);
    error = (struct attn_error){0};
    ck_assert_int_eq(attn_kv_truncate(cache, begin + 200, &error), ATTN_OK);
    ck_assert_uint_eq(attn_kv_length(cache, 0), begin + 200);
    ck_assert_int_eq(attn_kv_truncate(cache, 200, &error), ATTN_OK); /* among the first ones */
    view = view_of(cache, 0, NULL, ATTN_KV_NEXT);
    ck_assert_uint_eq(view.keys, 200);
    ck_assert_uint_eq(view.gap.count, 0);
    attn_kv_view_close(&view);
    append_rows(cache, 0, &run, 200, 1);
    ck_assert_uint_eq(attn_kv_length(cache, 0), 201);
    attn_kv_cache_free(&cache);
    run_close(&run);
    pool_close(pool);
}
END_TEST

/* A fork keeps what its origin evicts, and a snapshot has the gap. */
START_TEST(forks_and_snapshots_have_their_own_windows) {
    struct run run;
    struct attn_kv_pool *pool = pool_of(ROOMY);
    const struct attn_kv_window window = {true, 100, 2};
    static float k[2][2 * LENGTH * 16], v[2][2 * LENGTH * 5];
    struct attn_error error = {0};
    struct attn_kv_append *append;
    open_one(&run, 0, 1, ATTN_FLOAT32);
    struct attn_kv_cache *cache = cache_with(pool, &run, &window), *fork, *restored;
    append_rows(cache, 0, &run, 0, 400);
    ck_assert_int_eq(attn_kv_fork(cache, &fork, &error), ATTN_OK);
    for (size_t at = 400; at < 1000; at += 50)
        append_rows(cache, 0, &run, at, 50);
    struct attn_kv_view view = view_of(fork, 0, NULL, 0);
    ck_assert_uint_eq(view.keys, 400);
    attn_kv_view_close(&view);
    view = view_of(cache, 0, NULL, ATTN_KV_NEXT);
    attn_kv_export(&view, 0, view.keys, k[0], v[0]);
    restored = cache_with(pool, &run, &window);
    ck_assert_int_eq(
        attn_kv_restore_begin(restored, 0, 1000, (struct attn_key_gap){100, 64}, &append, &error),
        ATTN_BAD_VALUE);
    error = (struct attn_error){0};
    ck_assert_int_eq(attn_kv_restore_begin(restored, 0, 1000, view.gap, &append, &error), ATTN_OK);
    const struct attn_kv_rows rows = {
        .k = attn_tensor_view(k[0], ATTN_FLOAT32, 3, (const size_t[]){2, view.keys, 16}),
        .v = attn_tensor_view(v[0], ATTN_FLOAT32, 3, (const size_t[]){2, view.keys, 5}),
        .rotated = true};
    ck_assert(attn_kv_append_write(append, &rows, NULL));
    attn_kv_append_commit(append);
    struct attn_kv_view again = view_of(restored, 0, NULL, ATTN_KV_NEXT);
    ck_assert_uint_eq(attn_kv_length(restored, 0), 1000);
    ck_assert_uint_eq(again.keys, view.keys);
    ck_assert_mem_eq(&again.gap, &view.gap, sizeof view.gap);
    attn_kv_export(&again, 0, again.keys, k[1], v[1]);
    ck_assert_mem_eq(k[0], k[1], 2 * view.keys * 16 * sizeof(float));
    ck_assert_mem_eq(v[0], v[1], 2 * view.keys * 5 * sizeof(float));
    attn_kv_view_close(&view);
    attn_kv_view_close(&again);
    ck_assert_int_eq(
        attn_kv_restore_begin(restored, 0, 10, (struct attn_key_gap){0}, &append, &error),
        ATTN_BAD_VALUE);
    attn_kv_cache_free(&cache);
    attn_kv_cache_free(&fork);
    attn_kv_cache_free(&restored);
    run_close(&run);
    pool_close(pool);
}
END_TEST

static Suite *kv_window_suite(void) {
    Suite *suite = suite_create("kv window");
    TCase *cases = tcase_create("windows");
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, what_is_left_is_enough, 0, kernel_count());
    tcase_add_loop_test(cases, every_option_goes_by_positions, 0, kernel_count());
    tcase_add_test(cases, what_was_evicted_is_refused);
    tcase_add_test(cases, forks_and_snapshots_have_their_own_windows);
    suite_add_tcase(suite, cases);
    return suite;
}

ATTN_TEST_MAIN(kv_window_suite)
