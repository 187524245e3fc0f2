/* SPDX-License-Identifier: Apache-2.0 */
/* Every refusal of a mask with its place and the words that help, and what is accepted beside it.
 */
#include <string.h>

#include "core/mask.h"
#include "tests/support/test_main.h"

static const struct attn_mask_space SPACE = {.B = 2, .Hq = 3, .Tq = 4, .Tk = 5};

static const int64_t NEGATIVE[] = {-1}, SIX[] = {5, 6}, THREE_VALUES[] = {1, 1, 1}, FIVE[] = {5};
static const int64_t FALLING[] = {0, 4, 3}, LAST[] = {INT64_MAX};
static const uint8_t ZEROS[256];
static const uint8_t TWO[] = {1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 0, 0, 0};
static const int32_t MINUS_ONE[] = {1, 0, 1, 0, -1};
static const uint64_t HUGE_ID[] = {1, UINT64_MAX, 3, 4, 5};

#define LIST(array) \
    { array, sizeof array / sizeof *array }
#define SHAPED(pointer, type, axes, ...)                                                  \
    {                                                                                     \
        .data = pointer, .dtype = type, .rank = axes, .shape = {__VA_ARGS__}, .stride = { \
            [axes - 1] = 1                                                                \
        }                                                                                 \
    }
#define POINTER .pointer = "/mask/all/1"

struct refusal {
    struct attn_mask_node node;
    const char *pointer;
    const char *words[3];
};

static const struct refusal REFUSALS[] = {
    {{.kind = ATTN_MASK_WINDOW, .left = -2, .right = 0, POINTER}, "", {"left", "-2", "-1 for all"}},
    {{.kind = ATTN_MASK_WINDOW, .left = 1, .right = INT64_MIN, POINTER},
     "",
     {"right", "-9223372036854775808", "window"}},
    {{.kind = ATTN_MASK_PADDING, .tensor.rank = -1, POINTER},
     "",
     {"kv_lengths", "keep", "neither"}},
    {{.kind = ATTN_MASK_PADDING, .q_lengths = LIST(FIVE), POINTER}, "", {"kv_lengths", "keep", ""}},
    {{.kind = ATTN_MASK_PADDING,
      .kv_lengths = LIST(FIVE),
      .tensor = SHAPED(ZEROS, ATTN_BOOL, 1, 5),
      POINTER},
     "",
     {"kv_lengths", "keep", "both"}},
    {{.kind = ATTN_MASK_PADDING,
      .q_lengths = LIST(FIVE),
      .tensor = SHAPED(ZEROS, ATTN_BOOL, 1, 5),
      POINTER},
     "",
     {"kv_lengths", "keep", "both"}},
    {{.kind = ATTN_MASK_PADDING, .tensor = {.data = ZEROS, .dtype = ATTN_BOOL}, POINTER},
     "/keep",
     {"shape []", "[B, Tk] = [2, 5]", "[Tk]"}},
    {{.kind = ATTN_MASK_ALLOW, .tensor = SHAPED(ZEROS, ATTN_BOOL, 2, 2, 3), POINTER},
     "/tensor",
     {"shape [2, 3]", "must broadcast", "[2, 3, 4, 5]"}},
    {{.kind = ATTN_MASK_SEGMENTS,
      .tensor = SHAPED(HUGE_ID, ATTN_UINT64, 1, 4),
      .kv = SHAPED(ZEROS, ATTN_INT64, 1, 5),
      POINTER},
     "",
     {"uint64", "int64", "above 2^63 - 1"}},
    {{.kind = ATTN_MASK_PADDING, .kv_lengths = LIST(NEGATIVE), POINTER},
     "/kv_lengths",
     {"-1", "between 0 and Tk = 5", "batch item 0"}},
    {{.kind = ATTN_MASK_PADDING, .kv_lengths = LIST(SIX), POINTER},
     "/kv_lengths",
     {"6", "Tk = 5", "batch item 1"}},
    {{.kind = ATTN_MASK_PADDING, .kv_lengths = LIST(THREE_VALUES), POINTER},
     "/kv_lengths",
     {"3 values", "B = 2", ""}},
    {{.kind = ATTN_MASK_PADDING, .kv_lengths = LIST(FIVE), .q_lengths = LIST(FIVE), POINTER},
     "/q_lengths",
     {"5", "Tq = 4", ""}},
    {{.kind = ATTN_MASK_PADDING, .tensor = SHAPED(ZEROS, ATTN_FLOAT32, 1, 5), POINTER},
     "/keep",
     {"float32", "bool", "bias"}},
    {{.kind = ATTN_MASK_PADDING, .tensor = SHAPED(ZEROS, ATTN_BOOL, 2, 2, 4), POINTER},
     "/keep",
     {"[2, 4]", "[B, Tk] = [2, 5]", "[Tk]"}},
    {{.kind = ATTN_MASK_PADDING, .tensor = SHAPED(ZEROS, ATTN_BOOL, 2, 3, 5), POINTER},
     "/keep",
     {"[3, 5]", "[2, 5]", ""}},
    {{.kind = ATTN_MASK_PADDING, .tensor = SHAPED(ZEROS, ATTN_BOOL, 4, 2, 1, 1, 5), POINTER},
     "/keep",
     {"[2, 1, 1, 5]", "[2, 5]", ""}},
    {{.kind = ATTN_MASK_PREFIX, .lengths = LIST(SIX), POINTER}, "/length", {"6", "Tk = 5", ""}},
    {{.kind = ATTN_MASK_PREFIX, POINTER}, "/length", {"0 values", "", ""}},
    {{.kind = ATTN_MASK_SEGMENTS, POINTER}, "", {"q", "kv", "segment"}},
    {{.kind = ATTN_MASK_SEGMENTS, .tensor = SHAPED(ZEROS, ATTN_INT8, 1, 4), POINTER},
     "",
     {"kv", "Tq = 4", "Tk = 5"}},
    {{.kind = ATTN_MASK_SEGMENTS,
      .tensor = SHAPED(ZEROS, ATTN_INT8, 1, 3),
      .kv = SHAPED(ZEROS, ATTN_INT8, 1, 5),
      POINTER},
     "",
     {"q of segments", "[3]", "[Tq] = [4]"}},
    {{.kind = ATTN_MASK_SEGMENTS,
      .tensor = SHAPED(ZEROS, ATTN_INT8, 1, 4),
      .kv = SHAPED(ZEROS, ATTN_INT8, 2, 3, 5),
      POINTER},
     "",
     {"kv of segments", "[3, 5]", "[B, Tk] = [2, 5]"}},
    {{.kind = ATTN_MASK_SEGMENTS,
      .tensor = SHAPED(ZEROS, ATTN_FLOAT64, 1, 4),
      .kv = SHAPED(ZEROS, ATTN_INT8, 1, 5),
      POINTER},
     "",
     {"float64", "integers", ""}},
    {{.kind = ATTN_MASK_SEGMENTS,
      .tensor = SHAPED(ZEROS, ATTN_INT64, 1, 4),
      .kv = SHAPED(HUGE_ID, ATTN_UINT64, 1, 5),
      POINTER},
     "",
     {"int64 and uint64", "2^63", ""}},
    {{.kind = ATTN_MASK_GLOBAL, .tokens = LIST(NEGATIVE), POINTER},
     "/tokens",
     {"holds -1", "at least 0", "Tk = 5"}},
    {{.kind = ATTN_MASK_GLOBAL, .tokens = LIST(FIVE), POINTER},
     "/tokens",
     {"holds 5", "less than Tk = 5", ""}},
    {{.kind = ATTN_MASK_GLOBAL, .tokens = LIST(LAST), POINTER},
     "/tokens",
     {"9223372036854775807", "Tk = 5", ""}},
    {{.kind = ATTN_MASK_GLOBAL, .tokens = LIST(FALLING), POINTER},
     "/tokens",
     {"3 after 4", "rise", "once"}},
    {{.kind = ATTN_MASK_GLOBAL, .tokens = LIST(THREE_VALUES), POINTER},
     "/tokens",
     {"1 after 1", "rise", "once"}},
    {{.kind = ATTN_MASK_DILATED, .width = -1, .stride = 1, POINTER},
     "/width",
     {"width is -1", "0 or more", "no limit"}},
    {{.kind = ATTN_MASK_DILATED, .width = INT64_MIN, .stride = 1, POINTER},
     "/width",
     {"-9223372036854775808", "", ""}},
    {{.kind = ATTN_MASK_DILATED, .width = 4, POINTER},
     "/stride",
     {"stride is 0", "1 or more", "window"}},
    {{.kind = ATTN_MASK_DILATED, .width = 4, .stride = INT64_MIN, POINTER},
     "/stride",
     {"-9223372036854775808", "", ""}},
    {{.kind = ATTN_MASK_BLOCK_CAUSAL, POINTER}, "/block", {"block is 0", "1 or more", "causal"}},
    {{.kind = ATTN_MASK_BLOCK_CAUSAL, .block = -3, POINTER}, "/block", {"block is -3", "", ""}},
    {{.kind = ATTN_MASK_ALLOW, .tensor.rank = -1, POINTER}, "", {"allow", "tensor", ""}},
    {{.kind = ATTN_MASK_ALLOW, .tensor = SHAPED(ZEROS, ATTN_FLOAT16, 1, 5), POINTER},
     "/tensor",
     {"float16", "bool", "bias"}},
    {{.kind = ATTN_MASK_HIDE, .tensor = SHAPED(ZEROS, ATTN_BOOL, 2, 2, 5), POINTER},
     "/tensor",
     {"hide has shape [2, 5]", "[Tq, Tk] = [4, 5]", "{\"type\":\"padding\",\"keep\":...}"}},
    {{.kind = ATTN_MASK_ALLOW, .tensor = SHAPED(ZEROS, ATTN_BOOL, 3, 2, 4, 5), POINTER},
     "/tensor",
     {"[2, 4, 5]", "[2, 3, 4, 5]", "[B, 1, Tq, Tk]"}},
    {{.kind = ATTN_MASK_ALLOW, .tensor = SHAPED(ZEROS, ATTN_UINT8, 5, 1, 1, 1, 1, 5), POINTER},
     "/tensor",
     {"[1, 1, 1, 1, 5]", "[2, 3, 4, 5]", "from the right"}},
    {{.kind = ATTN_MASK_ALLOW, .tensor = SHAPED(ZEROS, ATTN_BOOL, 1, 4), POINTER},
     "/tensor",
     {"[4]", "[2, 3, 4, 5]", "from the right"}},
    {{.kind = ATTN_MASK_ALLOW,
      .tensor = {.data = TWO, .dtype = ATTN_UINT8, .rank = 2, .shape = {4, 5}, .stride = {5, 1}},
      POINTER},
     "/tensor",
     {"holds 2", "[3, 1]", "1 and 0"}},
    {{.kind = ATTN_MASK_HIDE, .tensor = SHAPED(MINUS_ONE, ATTN_INT32, 1, 5), POINTER},
     "/tensor",
     {"hide holds -1", "[4]", ""}},
    {{.kind = ATTN_MASK_ALL, .operands = 1, POINTER}, "", {"all takes 1", "only 0", ""}},
    {{.kind = ATTN_MASK_NOT, POINTER}, "", {"not takes 1", "only 0", ""}},
};

START_TEST(refusals_name_the_place_and_the_way_out) {
    const struct refusal *refusal = &REFUSALS[_i];
    struct attn_mask_node node = refusal->node;
    struct attn_mask mask = {&node, 1};
    struct attn_error error = {0};
    char pointer[128];
    ck_assert_int_eq(attn_mask_validate(&mask, &SPACE, &error), ATTN_BAD_MASK);
    ck_assert_int_eq(error.status, ATTN_BAD_MASK);
    strcat(strcpy(pointer, "/mask/all/1"), refusal->pointer);
    ck_assert_str_eq(error.pointer, pointer);
    for (int i = 0; i < 3; i++)
        if (strstr(error.detail, refusal->words[i]) == NULL)
            ck_abort_msg("\"%s\" is not in: %s", refusal->words[i], error.detail);
    ck_assert_uint_lt(strlen(error.detail), sizeof error.detail - 1);
}
END_TEST

/* One unlucky element at any place of a long row, in every integer type, is found. */
START_TEST(a_value_that_is_neither_zero_nor_one_is_found_anywhere) {
    static const enum attn_dtype DTYPES[] = {ATTN_UINT8,  ATTN_INT8,  ATTN_UINT16, ATTN_INT16,
                                             ATTN_UINT32, ATTN_INT32, ATTN_UINT64, ATTN_INT64};
    enum { Tk = 37 };
    const struct attn_mask_space space = {.B = 1, .Hq = 1, .Tq = 2, .Tk = Tk};
    for (size_t d = 0; d < sizeof DTYPES / sizeof *DTYPES; d++)
        for (size_t bad = 0; bad <= 2 * Tk; bad++) {
            uint64_t memory[2 * Tk] = {0};
            const size_t size = attn_dtype_size(DTYPES[d]);
            for (size_t i = 0; i < 2 * Tk; i++)
                ((char *)memory)[i * size] = (char)(i == bad ? 2 : i % 3 == 0);
            struct attn_mask_node node = {
                .kind = ATTN_MASK_ALLOW,
                .tensor = attn_tensor_view(memory, DTYPES[d], 2, (size_t[]){2, Tk})};
            struct attn_mask mask = {&node, 1};
            struct attn_error error = {0};
            const enum attn_status status = attn_mask_validate(&mask, &space, &error);
            ck_assert_int_eq(status, bad < 2 * Tk ? ATTN_BAD_MASK : ATTN_OK);
            char place[32];
            const size_t at[] = {bad / Tk, bad % Tk};
            if (status != ATTN_OK)
                ck_assert_ptr_nonnull(
                    strstr(error.detail, attn_shape_text(2, at, place, sizeof place)));
        }
}
END_TEST

static void expect_refused(struct attn_mask_node *nodes, size_t count, const char *word) {
    struct attn_mask mask = {nodes, count};
    struct attn_error error = {0};
    ck_assert_int_eq(attn_mask_validate(&mask, &SPACE, &error), ATTN_BAD_MASK);
    if (strstr(error.detail, word) == NULL)
        ck_abort_msg("\"%s\" is not in: %s", word, error.detail);
}

START_TEST(a_program_that_is_no_tree_is_refused) {
    struct attn_mask_node nodes[ATTN_MASK_MAX_NODES + 1] = {0};
    expect_refused(nodes, 2, "2 masks side by side");
    nodes[2] = (struct attn_mask_node){.kind = ATTN_MASK_ANY, .operands = 3};
    expect_refused(nodes, 3, "any takes 3 masks, of which only 2");
    nodes[2] = (struct attn_mask_node){.kind = ATTN_MASK_ANY, .operands = SIZE_MAX};
    expect_refused(nodes, 3, "any takes");
    expect_refused(nodes, ATTN_MASK_MAX_NODES + 1, "at most 256");
}
END_TEST

START_TEST(depth_has_a_limit_that_works) {
    struct attn_mask_node nodes[ATTN_MASK_MAX_DEPTH + 1] = {{.kind = ATTN_MASK_CAUSAL}};
    for (size_t i = 1; i <= ATTN_MASK_MAX_DEPTH; i++)
        nodes[i].kind = ATTN_MASK_NOT;
    expect_refused(nodes, ATTN_MASK_MAX_DEPTH + 1, "deeper than 32");
    struct attn_mask mask = {nodes, ATTN_MASK_MAX_DEPTH};
    struct attn_error error = {0};
    ck_assert_int_eq(attn_mask_validate(&mask, &SPACE, &error), ATTN_OK);
    const struct attn_mask_tile tile = {0, 0, 0, 1, 0, 5};
    uint64_t bits, scratch[ATTN_MASK_MAX_DEPTH];
    ck_assert_uint_eq(attn_mask_scratch_words(&mask, 1, 5), ATTN_MASK_MAX_DEPTH);
    attn_mask_fill(&mask, &SPACE, &tile, &bits, scratch);
    ck_assert_uint_eq(bits, 0x1e);
    ck_assert_int_eq(attn_mask_classify(&mask, &SPACE, &tile, false), ATTN_TILE_PARTIAL);
}
END_TEST

START_TEST(many_operands_need_no_more_scratch_than_two) {
    struct attn_mask_node nodes[ATTN_MASK_MAX_NODES] = {{0}};
    nodes[ATTN_MASK_MAX_NODES - 1] =
        (struct attn_mask_node){.kind = ATTN_MASK_ALL, .operands = ATTN_MASK_MAX_NODES - 1};
    struct attn_mask mask = {nodes, ATTN_MASK_MAX_NODES};
    struct attn_error error = {0};
    ck_assert_int_eq(attn_mask_validate(&mask, &SPACE, &error), ATTN_OK);
    ck_assert_uint_eq(attn_mask_scratch_words(&mask, 4, 5), 8);
}
END_TEST

START_TEST(a_square_batch_is_queries_by_keys) {
    const struct attn_mask_space space = {.B = 4, .Hq = 1, .Tq = 4, .Tk = 5};
    struct attn_mask_node node = {
        .kind = ATTN_MASK_ALLOW, .tensor = attn_tensor_view(ZEROS, ATTN_BOOL, 2, (size_t[]){4, 5})};
    struct attn_mask mask = {&node, 1};
    struct attn_error error = {0};
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
    ck_assert_int_eq(node.tensor.stride[0], 0);
    ck_assert_int_eq(node.tensor.stride[2], 5);
}
END_TEST

START_TEST(bools_need_not_be_one) {
    const uint8_t bytes[] = {0, 1, 2, 255, 128, 0, 0, 64, 128, 0};
    const struct attn_mask_space space = {.B = 1, .Hq = 1, .Tq = 1, .Tk = 10};
    struct attn_mask_node node = {.kind = ATTN_MASK_ALLOW,
                                  .tensor = attn_tensor_view(bytes, ATTN_BOOL, 1, (size_t[]){10})};
    struct attn_mask mask = {&node, 1};
    struct attn_error error = {0};
    const struct attn_mask_tile tile = {0, 0, 0, 1, 0, 10};
    uint64_t bits;
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
    attn_mask_fill(&mask, &space, &tile, &bits, NULL);
    ck_assert_uint_eq(bits, 0x19e);
}
END_TEST

START_TEST(huge_ids_of_one_type_are_told_apart) {
    const uint64_t ids[] = {UINT64_MAX, UINT64_MAX - 1, 0};
    const struct attn_mask_space space = {.B = 1, .Hq = 1, .Tq = 3, .Tk = 3};
    struct attn_mask_node node = {.kind = ATTN_MASK_SEGMENTS,
                                  .tensor = attn_tensor_view(ids, ATTN_UINT64, 1, (size_t[]){3})};
    struct attn_mask mask = {&node, 1};
    struct attn_error error = {0};
    const struct attn_mask_tile tile = {0, 0, 0, 3, 0, 3};
    uint64_t bits[3];
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
    attn_mask_fill(&mask, &space, &tile, bits, NULL);
    ck_assert(bits[0] == 1 && bits[1] == 2 && bits[2] == 4);
}
END_TEST

/* Whatever the other axes are: each node of these would be hours of looking for an element. */
START_TEST(what_has_no_element_is_not_looked_through) {
    const size_t B = (size_t)1 << 40;
    const struct attn_mask_space space = {.B = B, .Hq = 1, .Tq = 1, .Tk = 0};
    const struct attn_tensor rows = attn_tensor_view(NULL, ATTN_UINT8, 4, (size_t[]){B, 1, 1, 0});
    const struct attn_tensor ones = attn_tensor_view(NULL, ATTN_INT64, 2, (size_t[]){1, 1});
    const int64_t id = 1;
    struct attn_mask_node nodes[] = {
        {.kind = ATTN_MASK_ALLOW, .tensor = rows},
        {.kind = ATTN_MASK_SEGMENTS,
         .tensor = ones,
         .kv = attn_tensor_view(NULL, ATTN_UINT64, 2, (size_t[]){B, 0})},
        {.kind = ATTN_MASK_ALL, .operands = 2},
    };
    nodes[1].tensor.data = &id;
    struct attn_mask mask = {nodes, 3};
    struct attn_error error = {0};
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
}
END_TEST

/* Nor what has more than can be counted: no memory holds it. */
START_TEST(what_cannot_be_counted_is_not_looked_through) {
    const size_t huge = (size_t)1 << 40;
    const struct attn_mask_space space = {.B = huge, .Hq = huge, .Tq = 1, .Tk = 1};
    struct attn_mask_node node = {
        .kind = ATTN_MASK_ALLOW,
        .tensor = attn_tensor_view(NULL, ATTN_INT64, 4, (size_t[]){huge, huge, 1, 1})};
    struct attn_mask mask = {&node, 1};
    struct attn_error error = {0};
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
}
END_TEST

START_TEST(axes_of_size_zero_are_valid) {
    const struct attn_mask_space space = {.B = 0, .Hq = 1, .Tq = 0, .Tk = 0};
    const struct attn_tensor nothing = attn_tensor_view(NULL, ATTN_INT8, 2, (size_t[]){0, 0});
    struct attn_mask_node nodes[] = {
        {.kind = ATTN_MASK_ALLOW, .tensor = nothing},
        {.kind = ATTN_MASK_PADDING, .tensor = nothing},
        {.kind = ATTN_MASK_SEGMENTS, .tensor = nothing},
        {.kind = ATTN_MASK_PREFIX, .lengths = {(const int64_t[]){0}, 1}},
        {.kind = ATTN_MASK_ALL, .operands = 4},
    };
    struct attn_mask mask = {nodes, 5};
    struct attn_error error = {0};
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
}
END_TEST

START_TEST(positions_are_what_causal_and_window_use) {
    struct attn_mask_node node = {.kind = ATTN_MASK_CAUSAL};
    const struct attn_mask mask = {&node, 1};
    ck_assert(attn_mask_uses_positions(&mask));
    node = (struct attn_mask_node){.kind = ATTN_MASK_WINDOW, .left = -1, .right = -1};
    ck_assert(!attn_mask_uses_positions(&mask));
    node.right = 0;
    ck_assert(attn_mask_uses_positions(&mask));
    node = (struct attn_mask_node){.kind = ATTN_MASK_PREFIX, .lengths = LIST(FIVE)};
    ck_assert(!attn_mask_uses_positions(&mask));
}
END_TEST

static Suite *mask_validate_suite(void) {
    Suite *suite = suite_create("mask_validate");
    TCase *tests = tcase_create("validation");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, refusals_name_the_place_and_the_way_out, 0,
                        (int)(sizeof REFUSALS / sizeof *REFUSALS));
    tcase_add_test(tests, a_value_that_is_neither_zero_nor_one_is_found_anywhere);
    tcase_add_test(tests, a_program_that_is_no_tree_is_refused);
    tcase_add_test(tests, depth_has_a_limit_that_works);
    tcase_add_test(tests, many_operands_need_no_more_scratch_than_two);
    tcase_add_test(tests, a_square_batch_is_queries_by_keys);
    tcase_add_test(tests, bools_need_not_be_one);
    tcase_add_test(tests, huge_ids_of_one_type_are_told_apart);
    tcase_add_test(tests, what_has_no_element_is_not_looked_through);
    tcase_add_test(tests, what_cannot_be_counted_is_not_looked_through);
    tcase_add_test(tests, axes_of_size_zero_are_valid);
    tcase_add_test(tests, positions_are_what_causal_and_window_use);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(mask_validate_suite)
