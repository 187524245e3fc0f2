/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache by itself: lengths, forks, cuts and aborts, read back by exporting, and that an aborted
 * step leaves nothing.
 */
#include "core/checked.h"
#include "core/kv_internal.h"
#include "tests/unit/core/kv_rows.h"

/* The lanes of keys past the last are zeros in every page of the layer. */
static void expect_clear_lanes(const struct attn_kv_cache *cache, size_t layer) {
    const struct attn_kv_layer *at = &cache->layers[layer];
    const struct attn_kv_model *model = cache->model;
    for (size_t n = 0; at->table != NULL && n < at->table->count; n++)
        for (size_t h = 0; h < model->Hkv; h++)
            for (size_t j = 0; j < ATTN_KV_PAGE; j++)
                for (size_t d = 0; d < model->D && n * ATTN_KV_PAGE + j >= at->length; d++)
                    ck_assert_float_eq(
                        ((const float *)(const void *)attn_kv_head(
                            model, at->table->pages[n], h))[(j / 16 * model->D + d) * 16 + j % 16],
                        0);
}

START_TEST(rows_come_back_as_they_were_appended) {
    struct fixture fixture = open_fixture(ROOMY);
    struct attn_kv_cache *cache = open_cache(&fixture, 2);
    static const size_t counts[] = {1, 15, 17, 31, 64, 0, 63, 2, 130, 60, 129, 255};
    size_t length = 0;
    for (size_t n = 0; n < COUNT_OF(counts); n++) {
        append_rows(cache, 1, &fixture.run, length, counts[n]);
        length += counts[n];
        expect_rows(cache, 1, &fixture.run, length, ROWS, 0);
        expect_clear_lanes(cache, 1);
    }
    expect_rows(cache, 0, &fixture.run, 0, 0, 0);
    ck_assert_uint_eq(attn_kv_cache_pages(cache), pages_of(length));
    ck_assert_uint_eq(attn_kv_pool_read(fixture.pool).pages, pages_of(length));
    ck_assert_uint_eq(attn_kv_cache_bytes(cache), pages_of(length) * 2 * PAGE * 9 * 4);
    attn_kv_cache_free(&cache);
    ck_assert_ptr_null(cache);
    close_fixture(&fixture);
}
END_TEST

/* Either side goes on alone, from the middle of a page and from its end. */
START_TEST(forks_do_not_see_each_other) {
    static const size_t lengths[] = {1, 64, 256, 260, 512};
    struct fixture fixture = open_fixture(ROOMY);
    for (size_t n = 0; n < COUNT_OF(lengths); n++) {
        const size_t at = lengths[n];
        struct attn_error error = {0};
        struct attn_kv_cache *cache = open_cache(&fixture, 1), *fork, *second;
        append_rows(cache, 0, &fixture.run, 0, at);
        ck_assert_int_eq(attn_kv_fork(cache, &fork, &error), ATTN_OK);
        ck_assert_uint_eq(attn_kv_pool_read(fixture.pool).pages, pages_of(at));
        append_rows(fork, 0, &fixture.run, at + 10, 80);
        append_rows(cache, 0, &fixture.run, at, 80);
        ck_assert_int_eq(attn_kv_fork(fork, &second, &error), ATTN_OK);
        expect_rows(cache, 0, &fixture.run, at + 80, ROWS, 0);
        expect_rows(fork, 0, &fixture.run, at + 80, at, 10);
        attn_kv_cache_free(&cache);
        append_rows(second, 0, &fixture.run, at + 90, 3);
        expect_rows(fork, 0, &fixture.run, at + 80, at, 10);
        attn_kv_cache_free(&fork);
        expect_rows(second, 0, &fixture.run, at + 83, at, 10);
        expect_clear_lanes(second, 0);
        attn_kv_cache_free(&second);
    }
    close_fixture(&fixture);
}
END_TEST

START_TEST(an_aborted_append_leaves_no_trace) {
    static const size_t lengths[] = {0, 5, 100, 250, 256, 300};
    struct fixture fixture = open_fixture(ROOMY);
    for (size_t n = 0; n < COUNT_OF(lengths); n++) {
        struct attn_kv_cache *cache = open_cache(&fixture, 1);
        append_rows(cache, 0, &fixture.run, 0, lengths[n]);
        const size_t pages = attn_kv_cache_pages(cache);
        const struct attn_kv_rows rows = rows_of(&fixture.run, 400, 190);
        struct attn_kv_append *append = begin_append(cache, 0, &rows);
        ck_assert_uint_eq(attn_kv_length(cache, 0), lengths[n]);
        ck_assert_uint_eq(attn_kv_append_position(append), lengths[n]);
        ck_assert_uint_eq(attn_kv_cache_pages(cache), pages_of(lengths[n] + 190));
        attn_kv_append_abort(append);
        expect_rows(cache, 0, &fixture.run, lengths[n], ROWS, 0);
        expect_clear_lanes(cache, 0);
        ck_assert_uint_eq(attn_kv_pool_read(fixture.pool).pages, pages);
        append_rows(cache, 0, &fixture.run, lengths[n], 20);
        expect_rows(cache, 0, &fixture.run, lengths[n] + 20, ROWS, 0);
        begin_append(cache, 0, &rows); /* and one that is open when its cache goes */
        attn_kv_cache_free(&cache);
    }
    close_fixture(&fixture);
}
END_TEST

/* What was cut off is gone, in the cache that was cut alone. */
START_TEST(a_cut_is_of_one_cache) {
    static const size_t cuts[] = {0, 1, 64, 65, 255, 256, 257, 300};
    struct fixture fixture = open_fixture(ROOMY);
    for (size_t n = 0; n < COUNT_OF(cuts); n++)
        for (size_t shared = 0; shared < 3; shared++) {
            struct attn_error error = {0};
            struct attn_kv_cache *cache = open_cache(&fixture, 1), *fork = NULL;
            append_rows(cache, 0, &fixture.run, 0, 300);
            if (shared > 0)
                ck_assert_int_eq(attn_kv_fork(cache, &fork, &error), ATTN_OK);
            if (shared > 1) /* tables of their own, pages in common */
                append_rows(fork, 0, &fixture.run, 300, 1);
            ck_assert_int_eq(attn_kv_truncate(cache, cuts[n], &error), ATTN_OK);
            expect_rows(cache, 0, &fixture.run, cuts[n], ROWS, 0);
            append_rows(cache, 0, &fixture.run, cuts[n] + 5, 30);
            expect_rows(cache, 0, &fixture.run, cuts[n] + 30, cuts[n], 5);
            expect_clear_lanes(cache, 0);
            ck_assert_uint_eq(attn_kv_cache_pages(cache), pages_of(cuts[n] + 30));
            if (fork != NULL)
                expect_rows(fork, 0, &fixture.run, shared > 1 ? 301 : 300, ROWS, 0);
            attn_kv_cache_free(&fork);
            expect_rows(cache, 0, &fixture.run, cuts[n] + 30, cuts[n], 5);
            attn_kv_cache_free(&cache);
        }
    close_fixture(&fixture);
}
END_TEST

/* The other holder goes between the cut and the next append: its rows must not show. */
START_TEST(rows_of_a_fork_that_is_gone_are_cleared) {
    struct fixture fixture = open_fixture(ROOMY);
    struct attn_error error = {0};
    struct attn_kv_cache *cache = open_cache(&fixture, 1), *fork;
    append_rows(cache, 0, &fixture.run, 0, 60);
    ck_assert_int_eq(attn_kv_fork(cache, &fork, &error), ATTN_OK);
    ck_assert_int_eq(attn_kv_truncate(cache, 20, &error), ATTN_OK);
    attn_kv_cache_free(&fork);
    append_rows(cache, 0, &fixture.run, 20, 1);
    expect_clear_lanes(cache, 0);
    expect_rows(cache, 0, &fixture.run, 21, ROWS, 0);
    attn_kv_cache_free(&cache);
    close_fixture(&fixture);
}
END_TEST

START_TEST(a_view_outlives_everything) {
    struct fixture fixture = open_fixture(ROOMY);
    struct attn_error error = {0};
    struct attn_kv_cache *cache = open_cache(&fixture, 1);
    size_t places[ROWS];
    for (size_t j = 0; j < ROWS; j++)
        places[j] = j;
    append_rows(cache, 0, &fixture.run, 0, 100);
    struct attn_kv_view view = view_of(cache, 0, NULL, ATTN_KV_NEXT);
    ck_assert_int_eq(attn_kv_truncate(cache, 30, &error), ATTN_OK);
    append_rows(cache, 0, &fixture.run, 200, 60);
    expect_view(&view, &fixture.run, places);
    attn_kv_cache_free(&cache);
    ck_assert_uint_eq(view.keys, 100);
    expect_view(&view, &fixture.run, places);
    attn_kv_view_close(&view);
    attn_kv_view_close(&view);
    close_fixture(&fixture);
}
END_TEST

/* Tokens before heads, halves into floats and back, and a stop in the middle. */
START_TEST(rows_come_in_any_form) {
    struct fixture fixture = open_fixture(ROOMY);
    struct attn_kv_cache *cache = open_cache(&fixture, 1), *other = open_cache(&fixture, 1);
    struct run turned;
    run_open(&turned, ATTN_FLOAT32, RUN_BTHD, SIZES);
    struct attn_kv_rows rows = {turned.request.k, turned.request.v, ATTN_LAYOUT_BTHD, false};
    attn_kv_append_commit(begin_append(cache, 0, &rows));
    expect_rows(cache, 0, &fixture.run, ROWS, ROWS, 0);
    run_close(&turned);
    run_open(&turned, ATTN_FLOAT32, RUN_HTD, SIZES);
    rows = (struct attn_kv_rows){turned.request.k, turned.request.v, ATTN_LAYOUT_UNSET, false};
    attn_kv_append_commit(begin_append(other, 0, &rows));
    expect_rows(other, 0, &fixture.run, ROWS, ROWS, 0);
    const atomic_bool stop = true;
    const struct attn_checkpoint checkpoint = {.cancelled = &stop};
    struct attn_kv_append *append;
    struct attn_error error = {0};
    ck_assert_int_eq(attn_kv_append_begin(other, 0, ROWS, &append, &error), ATTN_OK);
    ck_assert(!attn_kv_append_write(append, &rows, &checkpoint));
    attn_kv_append_abort(append);
    expect_rows(other, 0, &fixture.run, ROWS, ROWS, 0);
    run_close(&turned);
    attn_kv_cache_free(&cache);
    attn_kv_cache_free(&other);
    close_fixture(&fixture);
}
END_TEST

/* Keys that were turned are exported so, and not turned again. */
START_TEST(snapshots_of_turned_keys_are_theirs) {
    static float k[2][2 * ROWS * 6], v[2][2 * ROWS * 3];
    struct fixture fixture = open_fixture(ROOMY);
    struct attn_kv_spec spec = spec_of(&SIZES, ATTN_FLOAT32);
    spec.rope.given = true;
    struct attn_kv_cache *cache = cache_of(fixture.pool, &spec);
    struct attn_kv_cache *restored = cache_of(fixture.pool, &spec);
    append_rows(cache, 0, &fixture.run, 0, 100);
    struct attn_kv_view view = view_of(cache, 0, NULL, ATTN_KV_NEXT);
    attn_kv_export(&view, 0, 100, k[0], v[0]);
    attn_kv_view_close(&view);
    const struct attn_kv_rows rows = {
        .k = attn_tensor_view(k[0], ATTN_FLOAT32, 3, (const size_t[]){2, 100, 6}),
        .v = attn_tensor_view(v[0], ATTN_FLOAT32, 3, (const size_t[]){2, 100, 3}),
        .rotated = true};
    attn_kv_append_commit(begin_append(restored, 0, &rows));
    view = view_of(restored, 0, NULL, ATTN_KV_NEXT);
    attn_kv_export(&view, 0, 100, k[1], v[1]);
    attn_kv_view_close(&view);
    ck_assert_mem_eq(k[0], k[1], 2 * 100 * 6 * sizeof(float));
    ck_assert(memcmp(k[0], fixture.run.operands[1], 100 * 6 * sizeof(float)) != 0);
    attn_kv_cache_free(&cache);
    attn_kv_cache_free(&restored);
    close_fixture(&fixture);
}
END_TEST

static Suite *kv_cache_suite(void) {
    Suite *suite = suite_create("kv cache");
    TCase *rows = tcase_create("rows");
    tcase_set_timeout(rows, 60);
    tcase_add_test(rows, rows_come_back_as_they_were_appended);
    tcase_add_test(rows, rows_come_in_any_form);
    tcase_add_test(rows, forks_do_not_see_each_other);
    tcase_add_test(rows, an_aborted_append_leaves_no_trace);
    tcase_add_test(rows, a_cut_is_of_one_cache);
    tcase_add_test(rows, rows_of_a_fork_that_is_gone_are_cleared);
    tcase_add_test(rows, a_view_outlives_everything);
    tcase_add_test(rows, snapshots_of_turned_keys_are_theirs);
    suite_add_tcase(suite, rows);
    return suite;
}

ATTN_TEST_MAIN(kv_cache_suite)
