/* SPDX-License-Identifier: Apache-2.0 */
/* What a cache refuses, and what it counts: lengths, capacity, the pool's budget, its options. */
#include "tests/unit/core/kv_rows.h"

static void expect_refusal(enum attn_status got, const struct attn_error *error,
                           enum attn_status status, const char *pointer, const char *words) {
    ck_assert_str_eq(attn_status_name(got), attn_status_name(status));
    ck_assert_int_eq(error->status, status);
    ck_assert_str_eq(error->pointer, pointer);
    ck_assert_msg(strstr(error->detail, words) != NULL, "\"%s\" lacks \"%s\"", error->detail,
                  words);
}

START_TEST(lengths_and_capacity_are_kept) {
    struct fixture fixture = open_fixture(ROOMY);
    struct attn_kv_spec spec = spec_of(&SIZES, ATTN_FLOAT32);
    struct attn_kv_append *append;
    struct attn_error error = {0};
    spec.layers = 2;
    spec.capacity = 70;
    struct attn_kv_cache *cache = cache_of(fixture.pool, &spec);
    append_rows(cache, 0, &fixture.run, 0, 70);
    append_rows(cache, 1, &fixture.run, 0, 69);
    expect_refusal(attn_kv_append_begin(cache, 1, 2, &append, &error), &error, ATTN_SESSION_FULL,
                   "", "capacity of 70");
    ck_assert_double_eq(error.limit, 70);
    error = (struct attn_error){0};
    expect_refusal(attn_kv_truncate(cache, 70, &error), &error, ATTN_SESSION_LENGTH, "/length",
                   "Layer 1 has 69 tokens");
    ck_assert_double_eq(error.limit, 69);
    ck_assert_uint_eq(attn_kv_length(cache, 0), 70);
    error = (struct attn_error){0};
    ck_assert_int_eq(attn_kv_truncate(cache, 69, &error), ATTN_OK);
    ck_assert_uint_eq(attn_kv_length(cache, 0), 69);
    attn_kv_cache_free(&cache);
    close_fixture(&fixture);
}
END_TEST

/* Of four pages, each of whole ones of the system. */
START_TEST(the_budget_is_kept) {
    enum { HALF = PAGE / 2, BYTES = 2 * PAGE * 9 * 4 };
    struct fixture fixture = open_fixture((size_t)4 * ((BYTES + 4095) / 4096 * 4096));
    struct attn_kv_append *append;
    struct attn_error error = {0};
    struct attn_kv_cache *cache = open_cache(&fixture, 1), *fork;
    append_rows(cache, 0, &fixture.run, 0, 3 * HALF);
    ck_assert_uint_eq(attn_kv_append_bytes(cache, 0, HALF), 0);
    ck_assert_uint_eq(attn_kv_append_bytes(cache, 0, HALF + 1), BYTES);
    expect_refusal(attn_kv_append_begin(cache, 0, 6 * HALF, &append, &error), &error, ATTN_NO_ROOM,
                   "", "bytes that sessions may have");
    ck_assert_uint_eq(attn_kv_pool_read(fixture.pool).pages, 2);
    expect_rows(cache, 0, &fixture.run, 3 * HALF, ROWS, 0);
    ck_assert_int_eq(attn_kv_fork(cache, &fork, &error), ATTN_OK);
    append_rows(fork, 0, &fixture.run, 3 * HALF, 2 * HALF); /* its own second page, and a third */
    error = (struct attn_error){0};
    expect_refusal(attn_kv_append_begin(cache, 0, HALF + 1, &append, &error), &error, ATTN_NO_ROOM,
                   "", "End sessions");
    attn_kv_cache_free(&fork);
    append_rows(cache, 0, &fixture.run, 3 * HALF, 5 * HALF);
    expect_rows(cache, 0, &fixture.run, 8 * HALF, ROWS, 0);
    attn_kv_cache_free(&cache);
    close_fixture(&fixture);
}
END_TEST

/* A size whose memory is free gives way to another; a large budget has it in large pieces. */
START_TEST(memory_moves_between_sizes) {
    struct fixture fixture = open_fixture(((size_t)2 * PAGE * 9 * 4 + 4095) / 4096 * 4096);
    struct attn_kv_spec narrow = spec_of(&SIZES, ATTN_FLOAT16);
    struct attn_kv_cache *halves = cache_of(fixture.pool, &narrow);
    struct attn_kv_cache *cache = open_cache(&fixture, 1);
    struct attn_error error = {0};
    append_rows(halves, 0, &fixture.run, 0, 70);
    ck_assert_int_eq(attn_kv_truncate(halves, 0, &error), ATTN_OK);
    ck_assert_uint_gt(attn_kv_pool_read(fixture.pool).used, 0); /* one for the next time */
    append_rows(cache, 0, &fixture.run, 0, 70);
    attn_kv_cache_free(&halves);
    attn_kv_cache_free(&cache);
    close_fixture(&fixture);
    fixture = open_fixture((size_t)1 << 30);
    cache = open_cache(&fixture, 1);
    append_rows(cache, 0, &fixture.run, 0, 300);
    ck_assert_uint_eq(attn_kv_pool_read(fixture.pool).used, 2 << 20);
    expect_rows(cache, 0, &fixture.run, 300, ROWS, 0);
    attn_kv_cache_free(&cache);
    close_fixture(&fixture);
}
END_TEST

START_TEST(options_are_checked) {
    static const struct attn_kv_window windows[3] = {{true, -1, 0}, {true, 1, 1}, {true, 1, 1}};
    static const int64_t offset = 3;
    static const double frequency = 1;
    struct attn_kv_pool *pool = pool_of(ROOMY);
    const struct attn_kv_spec good = spec_of(&SIZES, ATTN_FLOAT32);
    struct attn_kv_spec specs[12];
    static const char *const pointers[12] = {
        "/layers", "/layers", "/kv_heads", "/head_dim",      "/value_dim",     "/capacity",
        "/dtype",  "/window", "/window",   "/rope/q_offset", "/rope/k_offset", "/rope/inv_freq"};
    for (size_t n = 0; n < 12; n++)
        specs[n] = good;
    specs[0].layers = 0;
    specs[1].layers = ATTN_KV_LAYERS_MOST + 1;
    specs[2].Hkv = 0;
    specs[3].D = 5000;
    specs[4].Dv = -1;
    specs[5].capacity = 0;
    specs[6].dtype = ATTN_INT32;
    specs[7].windows = windows;
    specs[7].window_count = 1;
    specs[8].windows = windows;
    specs[8].window_count = 3;
    specs[9].rope = (struct attn_rope_request){.given = true, .q_offset = {&offset, 1}};
    specs[10].rope = (struct attn_rope_request){.given = true, .k_offset = 1};
    specs[11].rope = (struct attn_rope_request){.given = true, .inv_freq = {&frequency, 1}};
    for (size_t n = 0; n < 12; n++) {
        struct attn_kv_cache *cache;
        struct attn_error error = {0};
        ck_assert_int_ne(attn_kv_cache_create(pool, &specs[n], &cache, &error), ATTN_OK);
        ck_assert_str_eq(error.pointer, pointers[n]);
    }
    pool_close(pool);
}
END_TEST

START_TEST(rows_are_checked) {
    struct fixture fixture = open_fixture(ROOMY);
    struct attn_kv_cache *cache = open_cache(&fixture, 1);
    const struct {
        struct attn_tensor k, v;
        enum attn_layout layout;
        enum attn_status status;
        const char *pointer, *words;
    } refused[] = {
        {attn_tensor_none(), F32(2, 5, 3), 0, ATTN_MISSING_FIELD, "/k", "missing"},
        {F32(2, 5, 6), attn_tensor_none(), 0, ATTN_MISSING_FIELD, "/v", "missing"},
        {F32(3, 5, 6), F32(2, 5, 3), 0, ATTN_BAD_SHAPE, "/k", "[2, 5, 6]"},
        {F32(2, 5, 7), F32(2, 5, 3), 0, ATTN_BAD_SHAPE, "/k", "[2, 5, 7]"},
        {F32(2, 5, 6), F32(2, 4, 3), 0, ATTN_BAD_SHAPE, "/v", "[2, 5, 3]"},
        {F32(2, 2, 5, 6), F32(1, 2, 5, 3), 0, ATTN_BAD_SHAPE, "/k", "batch axis"},
        {F32(5, 6), F32(5, 3), 0, ATTN_BAD_SHAPE, "/k", "[5, 6]"},
        {F32(1, 5, 2, 6), F32(1, 2, 5, 3), ATTN_LAYOUT_BTHD, ATTN_BAD_SHAPE, "/v", "[1, 2, 5, 3]"},
        {SHAPED(ATTN_INT32, 2, 5, 6), F32(2, 5, 3), 0, ATTN_BAD_DTYPE, "/k", "int32"},
        {F32(2, 5, 6), SHAPED(ATTN_FLOAT16, 2, 5, 3), 0, ATTN_BAD_DTYPE, "/v", "share"},
    };
    for (size_t n = 0; n < COUNT_OF(refused); n++) {
        const struct attn_kv_rows rows = {refused[n].k, refused[n].v, refused[n].layout, false};
        struct attn_error error = {0};
        size_t count;
        expect_refusal(attn_kv_rows_check(cache, &rows, &count, &error), &error, refused[n].status,
                       refused[n].pointer, refused[n].words);
    }
    attn_kv_cache_free(&cache);
    close_fixture(&fixture);
}
END_TEST

static Suite *kv_limits_suite(void) {
    Suite *suite = suite_create("kv limits");
    TCase *limits = tcase_create("limits");
    tcase_set_timeout(limits, 60);
    tcase_add_test(limits, lengths_and_capacity_are_kept);
    tcase_add_test(limits, the_budget_is_kept);
    tcase_add_test(limits, memory_moves_between_sizes);
    tcase_add_test(limits, options_are_checked);
    tcase_add_test(limits, rows_are_checked);
    suite_add_tcase(suite, limits);
    return suite;
}

ATTN_TEST_MAIN(kv_limits_suite)
