/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of segments that do not stand side by side, as in a file whose axes come in another order. */
#include "core/mask.h"

#include "tests/support/test_main.h"

enum { T = 16, STEP = 2 };

/* Between the ids stands what those of another batch item would be: all alike, so that memory from
   the first id on looks like one segment. */
START_TEST(ids_that_stand_apart_are_each_looked_at) {
    int64_t memory[STEP * T];
    for (size_t n = 0; n < STEP * T; n++)
        memory[n] = n % STEP == 0 && n / STEP >= T / STEP ? 5 : 0;
    struct attn_tensor ids = attn_tensor_view(memory, ATTN_INT64, 1, (size_t[]){T});
    ids.stride[0] = STEP;
    const struct attn_mask_space space = {.B = 1, .Hq = 1, .Tq = T, .Tk = T};
    const struct attn_mask_tile tile = {0, 0, 0, T, 0, T};
    struct attn_mask_node node = {.kind = ATTN_MASK_SEGMENTS, .tensor = ids};
    struct attn_mask mask = {&node, 1};
    struct attn_error error = {0};
    uint64_t bits[T];
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
    ck_assert_int_eq(attn_mask_classify(&mask, &space, &tile, false), ATTN_TILE_PARTIAL);
    attn_mask_fill(&mask, &space, &tile, bits, NULL);
    for (size_t row = 0; row < T; row++)
        ck_assert_uint_eq(bits[row], row < T / STEP ? 0x00ff : 0xff00);
}
END_TEST

static Suite *mask_segments_suite(void) {
    Suite *suite = suite_create("mask_segments");
    TCase *tests = tcase_create("ids");
    tcase_add_test(tests, ids_that_stand_apart_are_each_looked_at);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(mask_segments_suite)
