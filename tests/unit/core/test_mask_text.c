/* SPDX-License-Identifier: Apache-2.0 */
/* A mask as a person reads it back: names, joins, parentheses where they matter, truncation. */
#include "core/mask.h"

#include <string.h>

#include "tests/support/test_main.h"

static const int64_t LENGTHS[] = {3, 2, 1, 4, 5}, RISING[] = {1, 2, 3, 5, 8};

#define CAUSAL \
    { .kind = ATTN_MASK_CAUSAL }
#define WINDOW \
    { .kind = ATTN_MASK_WINDOW, .left = 2, .right = 0 }
#define PREFIX                                              \
    {                                                       \
        .kind = ATTN_MASK_PREFIX, .lengths = { LENGTHS, 1 } \
    }
#define ALL(n) \
    { .kind = ATTN_MASK_ALL, .operands = n }
#define ANY(n) \
    { .kind = ATTN_MASK_ANY, .operands = n }
#define NOT \
    { .kind = ATTN_MASK_NOT }

static const struct {
    const char *text;
    size_t count;
    struct attn_mask_node nodes[8];
} TEXTS[] = {
    {"none", 0, {NOT}},
    {"causal", 1, {CAUSAL}},
    {"causal(bottom_right)", 1, {{.kind = ATTN_MASK_CAUSAL, .align = ATTN_ALIGN_BOTTOM_RIGHT}}},
    {"causal(top_left)", 1, {{.kind = ATTN_MASK_CAUSAL, .align = ATTN_ALIGN_TOP_LEFT}}},
    {"padding(kv 3)", 1, {{.kind = ATTN_MASK_PADDING, .kv_lengths = {LENGTHS, 1}}}},
    {"padding(kv 3,2,1,4,...; q 3,2)",
     1,
     {{.kind = ATTN_MASK_PADDING, .kv_lengths = {LENGTHS, 5}, .q_lengths = {LENGTHS, 2}}}},
    {"global(1)", 1, {{.kind = ATTN_MASK_GLOBAL, .tokens = {RISING, 1}}}},
    {"global(1,2,3,5,...)", 1, {{.kind = ATTN_MASK_GLOBAL, .tokens = {RISING, 5}}}},
    {"global()", 1, {{.kind = ATTN_MASK_GLOBAL}}},
    {"dilated(9223372036854775807,3)",
     1,
     {{.kind = ATTN_MASK_DILATED, .width = INT64_MAX, .stride = 3}}},
    {"block_causal(4)", 1, {{.kind = ATTN_MASK_BLOCK_CAUSAL, .block = 4}}},
    {"everything", 1, {ALL(0)}},
    {"nothing", 1, {ANY(0)}},
    {"causal & window(2,0)", 3, {CAUSAL, WINDOW, ALL(2)}},
    {"causal | prefix(3)", 3, {CAUSAL, PREFIX, ANY(2)}},
    {"not causal", 2, {CAUSAL, NOT}},
    {"not not causal", 3, {CAUSAL, NOT, NOT}},
    {"not (causal & window(2,0))", 4, {CAUSAL, WINDOW, ALL(2), NOT}},
    {"(causal | prefix(3)) & window(2,0)", 5, {CAUSAL, PREFIX, ANY(2), WINDOW, ALL(2)}},
    {"window(2,0) & (causal | prefix(3))", 5, {WINDOW, CAUSAL, PREFIX, ANY(2), ALL(2)}},
    {"window(2,0) & not (causal | nothing)", 6, {WINDOW, CAUSAL, ANY(0), ANY(2), NOT, ALL(2)}},
    {"((causal & causal) | causal) & causal",
     7,
     {CAUSAL, CAUSAL, ALL(2), CAUSAL, ANY(2), CAUSAL, ALL(2)}},
    {"causal & window(2,0)", 4, {CAUSAL, ALL(1), WINDOW, ALL(2)}},
};

/* Leaves have no tensors here; a validated copy gets the places that the text needs. */
static struct attn_mask placed(struct attn_mask_node *nodes, size_t count) {
    const struct attn_mask_space space = {.B = 5, .Hq = 1, .Tq = 9, .Tk = 9};
    struct attn_mask mask = {nodes, count};
    struct attn_error error = {0};
    attn_mask_validate(&mask, &space, &error);
    return mask;
}

START_TEST(masks_read_back) {
    struct attn_mask_node nodes[8];
    memcpy(nodes, TEXTS[_i].nodes, sizeof nodes);
    const struct attn_mask mask = placed(nodes, TEXTS[_i].count);
    char text[128];
    ck_assert_str_eq(attn_mask_text(&mask, text, sizeof text), TEXTS[_i].text);
}
END_TEST

START_TEST(tensor_leaves_read_back) {
    const uint8_t bytes[9] = {0};
    const struct attn_tensor tensor = attn_tensor_view(bytes, ATTN_BOOL, 1, (size_t[]){9});
    struct attn_mask_node nodes[] = {{.kind = ATTN_MASK_PADDING, .tensor = tensor},
                                     {.kind = ATTN_MASK_SEGMENTS, .tensor = tensor},
                                     {.kind = ATTN_MASK_ALLOW, .tensor = tensor},
                                     {.kind = ATTN_MASK_HIDE, .tensor = tensor},
                                     ANY(4)};
    const struct attn_mask mask = placed(nodes, 5);
    char text[64];
    ck_assert_str_eq(attn_mask_text(&mask, text, sizeof text),
                     "padding(keep) | segments | allow | hide");
}
END_TEST

START_TEST(a_long_text_ends_in_dots_at_every_size) {
    struct attn_mask_node nodes[] = {CAUSAL, WINDOW, ALL(2)};
    const struct attn_mask mask = placed(nodes, 3);
    const char whole[] = "causal & window(2,0)";
    for (size_t size = 4; size <= sizeof whole + 1; size++) {
        char text[sizeof whole + 1], expected[sizeof whole + 1];
        memset(text, '?', sizeof text);
        strcpy(expected, whole);
        if (size < sizeof whole)
            strcpy(expected + size - 4, "...");
        ck_assert_str_eq(attn_mask_text(&mask, text, size), expected);
        for (size_t i = size; i < sizeof text; i++)
            ck_assert_int_eq(text[i], '?');
    }
}
END_TEST

/* Too small for dots: as much as fits. */
START_TEST(a_tiny_text_is_cut) {
    struct attn_mask_node nodes[] = {CAUSAL};
    const struct attn_mask mask = placed(nodes, 1);
    for (size_t size = 1; size < sizeof "..."; size++) {
        char text[8];
        memset(text, '?', sizeof text);
        attn_mask_text(&mask, text, size);
        ck_assert_int_eq(memcmp(text, "causal", size - 1), 0);
        ck_assert_int_eq(text[size - 1], '\0');
        ck_assert_int_eq(text[size], '?');
    }
}
END_TEST

START_TEST(kinds_have_their_wire_names) {
    ck_assert_str_eq(attn_mask_kind_name(ATTN_MASK_CAUSAL), "causal");
    ck_assert_str_eq(attn_mask_kind_name(ATTN_MASK_NOT), "not");
}
END_TEST

static Suite *mask_text_suite(void) {
    Suite *suite = suite_create("mask_text");
    TCase *tests = tcase_create("text");
    tcase_add_loop_test(tests, masks_read_back, 0, (int)(sizeof TEXTS / sizeof *TEXTS));
    tcase_add_test(tests, tensor_leaves_read_back);
    tcase_add_test(tests, a_long_text_ends_in_dots_at_every_size);
    tcase_add_test(tests, a_tiny_text_is_cut);
    tcase_add_test(tests, kinds_have_their_wire_names);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(mask_text_suite)
