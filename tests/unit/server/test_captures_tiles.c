/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of kept maps: bins, levels, and pairs that differ. */
#include <math.h>

#include "server/captures/capture_compare.h"
#include "server/captures/capture_tile.h"
#include "tests/support/test_main.h"

START_TEST(a_tile_tells_hidden_from_nothing) {
    const float weights[] = {0, 0, 0.25F, NAN, 1e-9F}, scores[] = {-INFINITY, -90, 1, NAN, -3};
    const float masked[] = {-INFINITY, 2, NAN, 70000, -1};
    struct attn_result_tensor values = {.dtype = ATTN_FLOAT32, .data = (void *)weights};
    const struct attn_result_tensor beside = {.dtype = ATTN_FLOAT32, .data = (void *)scores};
    uint16_t bins[5];
    tile_convert(ATTN_STAGE_WEIGHTS, &values, &beside, 5, bins);
    ck_assert_mem_eq(bins, ((const uint16_t[]){TILE_HIDDEN, 0, 0x3400, TILE_NAN, 0}), sizeof bins);
    ck_assert(tile_largest(bins, 5) == 0.25);
    tile_convert(ATTN_STAGE_WEIGHTS, &values, NULL, 5, bins);
    ck_assert_uint_eq(bins[0], 0);
    values.data = (void *)masked;
    tile_convert(ATTN_STAGE_MASKED, &values, NULL, 5, bins);
    ck_assert_mem_eq(bins, ((const uint16_t[]){TILE_HIDDEN, 0x4000, TILE_NAN, 0x7c00, 0xbc00}),
                     sizeof bins);
    ck_assert(isnan(tile_largest(bins, 1)));
}
END_TEST

START_TEST(bins_lie_on_levels) {
    ck_assert(tile_fits_level(&(struct tile_axis){0, 30000, 512}, 30000));
    ck_assert(tile_fits_level(&(struct tile_axis){16384, 32768, 256}, 32768));
    ck_assert(!tile_fits_level(&(struct tile_axis){8, 32768, 256}, 32768));
    ck_assert(!tile_fits_level(&(struct tile_axis){0, 30000, 500}, 30000));
    ck_assert_uint_eq(tile_level_cells(100), 100);
}
END_TEST

/* Of a map of 4 x 3 tokens; a bin that ends inside a cell has a part in it. */
START_TEST(a_levels_largest) {
    static uint16_t cells[] = {1,           2,           3, 4,  TILE_HIDDEN, 6,
                               TILE_HIDDEN, TILE_HIDDEN, 9, 10, TILE_NAN,    12};
    const struct capture_level whole = {.rows = 4, .cols = 3, .bins = cells};
    uint16_t bins[4];
    tile_from_level(&whole, 4, 3, &(struct tile_axis){0, 4, 2}, &(struct tile_axis){0, 3, 2}, bins);
    ck_assert_mem_eq(bins, ((const uint16_t[]){4, 6, 10, TILE_NAN}), sizeof bins);
    const struct capture_level coarse = {.rows = 2, .cols = 1, .bins = cells};
    tile_from_level(&coarse, 4, 3, &(struct tile_axis){0, 3, 1}, &(struct tile_axis){1, 3, 2},
                    bins);
    ck_assert_mem_eq(bins, ((const uint16_t[]){2, 2}), 4);
    tile_stretch(cells, 2, 1, 4, bins);
    ck_assert_mem_eq(bins, ((const uint16_t[]){1, 1, 2, 2}), sizeof bins);
}
END_TEST

START_TEST(pairs_that_differ) {
    const double a[] = {1, 2, NAN, INFINITY, 5, NAN}, b[] = {1, 2.5, NAN, INFINITY, 5.5, 0};
    struct compare_result early = compare_nothing(), late = compare_nothing();
    compare_values(&late, a + 3, b + 3, 2, 103, 0, 0.1);
    compare_values(&early, a, b, 3, 100, 0, 0.1);
    compare_join(&late, &early);
    ck_assert(late.max_abs == 0.5);
    ck_assert_uint_eq(late.max_at, 101);
    ck_assert_uint_eq(late.first_failing, 101);
    ck_assert_uint_eq(late.failing, 2);
    compare_values(&late, a + 5, b + 5, 1, 105, 1, 1);
    ck_assert(late.max_abs == INFINITY && late.max_at == 105 && late.failing == 3);
    struct compare_result near = compare_nothing();
    compare_values(&near, a, b, 5, 0, 0.2, 0);
    ck_assert_uint_eq(near.failing, 0);
    ck_assert_uint_eq(near.first_failing, SIZE_MAX);
}
END_TEST

static Suite *tiles_suite(void) {
    Suite *suite = suite_create("captures_tiles");
    TCase *tiles = tcase_create("tiles");
    tcase_add_test(tiles, a_tile_tells_hidden_from_nothing);
    tcase_add_test(tiles, bins_lie_on_levels);
    tcase_add_test(tiles, a_levels_largest);
    tcase_add_test(tiles, pairs_that_differ);
    suite_add_tcase(suite, tiles);
    return suite;
}

ATTN_TEST_MAIN(tiles_suite)
