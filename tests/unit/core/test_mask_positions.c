/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The leaves that count positions, against their definition: every small width, stride, block and
 * set of tokens, at offsets before, among and behind the keys, in every tile of a small plane, bare
 * and under `not`. Then the ends of int64, sizes beyond 2^32, and what must be skipped.
 */
#include <stdlib.h>

#include "core/mask.h"
#include "tests/support/test_main.h"

enum { ROWS = 5, KEYS = 7, NEAR = 9 };

typedef bool (*definition)(const struct attn_mask_node *node, int64_t i, int64_t j);

static bool is_token(const struct attn_mask_node *node, int64_t position) {
    for (size_t t = 0; t < node->tokens.count; t++)
        if (node->tokens.values[t] == position)
            return true;
    return false;
}

static bool global(const struct attn_mask_node *node, int64_t i, int64_t j) {
    return is_token(node, i) || is_token(node, j);
}

static bool dilated(const struct attn_mask_node *node, int64_t i, int64_t j) {
    return llabs(i - j) <= node->width && (i - j) % node->stride == 0;
}

/* No block's end lies in [i, j). */
static bool block_causal(const struct attn_mask_node *node, int64_t i, int64_t j) {
    for (int64_t at = i; at < j; at++)
        if ((at + 1) % node->block == 0)
            return false;
    return true;
}

/* A plane that is drawn from the definition, hidden and shown exchanged under `not`. */
struct plane {
    struct attn_mask mask;
    struct attn_mask_space space;
    bool sees[ROWS][KEYS];
};

static void check_tile(const struct plane *plane, const struct attn_mask_tile *tile) {
    size_t visible = 0;
    uint64_t bits[ROWS], scratch[2 * ROWS];
    attn_mask_fill(&plane->mask, &plane->space, tile, bits, scratch);
    for (size_t r = 0; r < tile->rows; r++) {
        uint64_t wanted = 0;
        for (size_t k = 0; k < tile->keys; k++) {
            wanted |= (uint64_t)plane->sees[tile->row + r][tile->key + k] << k;
            visible += plane->sees[tile->row + r][tile->key + k];
        }
        if (bits[r] != wanted)
            ck_abort_msg("row %zu from key %zu", tile->row + r, tile->key);
    }
    const enum attn_tile_class exact = visible == 0                         ? ATTN_TILE_EMPTY
                                       : visible == tile->rows * tile->keys ? ATTN_TILE_FULL
                                                                            : ATTN_TILE_PARTIAL;
    const enum attn_tile_class class = attn_mask_classify(&plane->mask, &plane->space, tile, false);
    if (class != exact)
        ck_abort_msg("rows %zu+%zu keys %zu+%zu are %d, but said to be %d", tile->row, tile->rows,
                     tile->key, tile->keys, (int)exact, (int)class);
}

static void check_range(const struct plane *plane, size_t row, size_t rows) {
    size_t begin, end;
    attn_mask_key_range(&plane->mask, &plane->space, 0, 0, row, rows, &begin, &end);
    for (size_t r = row; r < row + rows; r++)
        for (size_t key = 0; key < KEYS; key++)
            if (plane->sees[r][key] && (key < begin || key >= end))
                ck_abort_msg("range %zu-%zu misses row %zu key %zu", begin, end, r, key);
}

static void check_plane(const struct plane *plane) {
    for (size_t row = 0; row < ROWS; row++)
        for (size_t rows = 1; row + rows <= ROWS; rows++) {
            check_range(plane, row, rows);
            for (size_t key = 0; key < KEYS; key++)
                for (size_t keys = 1; key + keys <= KEYS; keys++)
                    check_tile(plane, &(struct attn_mask_tile){0, 0, row, rows, key, keys});
        }
}

/* The leaf and its negation, at every offset near the keys. */
static void check_leaf(const struct attn_mask_node *leaf, definition sees) {
    for (int64_t offset = -NEAR; offset <= NEAR; offset++) {
        struct attn_mask_node nodes[] = {*leaf, {.kind = ATTN_MASK_NOT}};
        struct plane plane = {
            .mask = {nodes, 1},
            .space = {
                .B = 1, .Hq = 1, .Tq = ROWS, .Tk = KEYS, .q_offset = &offset, .q_offset_count = 1}};
        for (int negated = 0; negated < 2; negated++) {
            struct attn_error error = {0};
            plane.mask.count = 1 + (size_t)negated;
            ck_assert_int_eq(attn_mask_validate(&plane.mask, &plane.space, &error), ATTN_OK);
            for (size_t r = 0; r < ROWS; r++)
                for (size_t k = 0; k < KEYS; k++)
                    plane.sees[r][k] = sees(leaf, offset + (int64_t)r, (int64_t)k) != negated;
            check_plane(&plane);
        }
    }
}

START_TEST(dilated_is_its_definition) {
    struct attn_mask_node node = {.kind = ATTN_MASK_DILATED};
    for (node.width = 0; node.width <= NEAR; node.width++)
        for (node.stride = 1; node.stride <= NEAR; node.stride++)
            check_leaf(&node, dilated);
}
END_TEST

START_TEST(block_causal_is_its_definition) {
    struct attn_mask_node node = {.kind = ATTN_MASK_BLOCK_CAUSAL};
    for (node.block = 1; node.block <= NEAR; node.block++)
        check_leaf(&node, block_causal);
}
END_TEST

START_TEST(global_is_its_definition) {
    for (unsigned set = 0; set < 1u << KEYS; set++) {
        int64_t tokens[KEYS];
        struct attn_mask_node node = {.kind = ATTN_MASK_GLOBAL, .tokens = {tokens, 0}};
        for (int64_t j = 0; j < KEYS; j++)
            if (set >> j & 1)
                tokens[node.tokens.count++] = j;
        check_leaf(&node, global);
    }
}
END_TEST

/* A call of three items whose queries stand at both ends of int64 and at the keys. */
static const int64_t ENDS[] = {INT64_MIN, INT64_MAX, 0};

static enum attn_tile_class class_at(struct attn_mask_node *node, size_t b, size_t key,
                                     size_t keys) {
    const struct attn_mask_space space = {3, 1, 4, 9, ENDS, 3, {0, 0}};
    const struct attn_mask_tile tile = {b, 0, 0, 4, key, keys};
    struct attn_mask mask = {node, 1};
    struct attn_error error = {0};
    size_t visible = 0;
    uint64_t bits[4];
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
    attn_mask_fill(&mask, &space, &tile, bits, NULL);
    for (size_t r = 0; r < 4; r++)
        visible += (size_t)__builtin_popcountll(bits[r]);
    const enum attn_tile_class class = attn_mask_classify(&mask, &space, &tile, false);
    ck_assert_int_eq(class, visible == 0          ? ATTN_TILE_EMPTY
                            : visible == 4 * keys ? ATTN_TILE_FULL
                                                  : ATTN_TILE_PARTIAL);
    return class;
}

/* INT64_MIN is one farther from key 0 than any width reaches; rows that stand at INT64_MAX, where
 * positions stop, are one position. */
START_TEST(the_ends_of_int64_saturate) {
    struct attn_mask_node node = {
        .kind = ATTN_MASK_DILATED, .width = INT64_MAX, .stride = INT64_MAX};
    ck_assert_int_eq(class_at(&node, 0, 0, 9), ATTN_TILE_PARTIAL);
    ck_assert_int_eq(class_at(&node, 1, 0, 9), ATTN_TILE_PARTIAL);
    ck_assert_int_eq(class_at(&node, 1, 0, 1), ATTN_TILE_FULL);
    ck_assert_int_eq(class_at(&node, 1, 1, 8), ATTN_TILE_EMPTY);
    ck_assert_int_eq(class_at(&node, 2, 4, 5), ATTN_TILE_EMPTY);
    node.stride = 1;
    ck_assert_int_eq(class_at(&node, 0, 0, 1), ATTN_TILE_PARTIAL);
    ck_assert_int_eq(class_at(&node, 0, 3, 6), ATTN_TILE_EMPTY);
    ck_assert_int_eq(class_at(&node, 1, 0, 9), ATTN_TILE_FULL);
    ck_assert_int_eq(class_at(&node, 2, 0, 9), ATTN_TILE_FULL);
    node.stride = 2;
    ck_assert_int_eq(class_at(&node, 0, 0, 1), ATTN_TILE_PARTIAL);
    ck_assert_int_eq(class_at(&node, 1, 0, 9), ATTN_TILE_PARTIAL);
    ck_assert_int_eq(class_at(&node, 1, 7, 1), ATTN_TILE_FULL);
    ck_assert_int_eq(class_at(&node, 1, 8, 1), ATTN_TILE_EMPTY);
    node = (struct attn_mask_node){.kind = ATTN_MASK_BLOCK_CAUSAL, .block = INT64_MAX};
    ck_assert_int_eq(class_at(&node, 0, 0, 9), ATTN_TILE_EMPTY);
    ck_assert_int_eq(class_at(&node, 1, 0, 9), ATTN_TILE_FULL);
    ck_assert_int_eq(class_at(&node, 2, 0, 9), ATTN_TILE_FULL);
    const int64_t tokens[] = {2, 3};
    node = (struct attn_mask_node){.kind = ATTN_MASK_GLOBAL, .tokens = {tokens, 2}};
    ck_assert_int_eq(class_at(&node, 0, 4, 5), ATTN_TILE_EMPTY);
    ck_assert_int_eq(class_at(&node, 1, 4, 5), ATTN_TILE_EMPTY);
    ck_assert_int_eq(class_at(&node, 1, 2, 2), ATTN_TILE_FULL);
    ck_assert_int_eq(class_at(&node, 2, 4, 5), ATTN_TILE_PARTIAL);
}
END_TEST

/* Nothing here may depend on the number of keys: 2^40 of them are asked about. */
START_TEST(sizes_past_two_to_the_32_stay_exact) {
    const size_t T = (size_t)1 << 40, row = ((size_t)1 << 39) + 3;
    const int64_t tokens[] = {5, (int64_t)row + 1, (int64_t)T - 1};
    const struct attn_mask_space space = {1, 1, T, T, NULL, 0, {0, 0}};
    struct attn_mask_node node = {.kind = ATTN_MASK_DILATED, .width = 100, .stride = 7};
    struct attn_mask mask = {&node, 1};
    struct attn_error error = {0};
    size_t begin, end;
    uint64_t bits[2];
    struct attn_mask_tile tile = {0, 0, row, 2, row - 14, 29};
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
    attn_mask_key_range(&mask, &space, 0, 0, row, 2, &begin, &end);
    ck_assert(begin == row - 98 && end == row + 1 + 98 + 1);
    attn_mask_fill(&mask, &space, &tile, bits, NULL);
    ck_assert(bits[0] == 0x10204081 && bits[1] == 0x408102);
    node = (struct attn_mask_node){.kind = ATTN_MASK_BLOCK_CAUSAL, .block = (int64_t)1 << 33};
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
    attn_mask_key_range(&mask, &space, 0, 0, row, 2, &begin, &end);
    ck_assert(begin == 0 && end == row - 3 + ((size_t)1 << 33));
    node = (struct attn_mask_node){.kind = ATTN_MASK_GLOBAL, .tokens = {tokens, 3}};
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
    attn_mask_fill(&mask, &space, &tile, bits, NULL);
    ck_assert(bits[0] == 1u << 15 && bits[1] == (1u << 29) - 1);
    tile = (struct attn_mask_tile){0, 0, row + 2, T - row - 3, 6, row - 5};
    ck_assert_int_eq(attn_mask_classify(&mask, &space, &tile, false), ATTN_TILE_EMPTY);
    attn_mask_key_range(&mask, &space, 0, 0, row + 2, 9, &begin, &end);
    ck_assert(begin == 5 && end == T);
}
END_TEST

/* Tiles far from the diagonal of a sparse pattern hold nothing, and none is computed by mistake. */
START_TEST(tiles_of_sparse_patterns_are_skipped) {
    enum { T = 4096, TILE = 16, STRIDE = 512 };
    const struct attn_mask_space space = {1, 1, T, T, NULL, 0, {0, 0}};
    struct attn_mask_node node = {
        .kind = ATTN_MASK_DILATED, .width = 2 * STRIDE + 5, .stride = STRIDE};
    struct attn_mask mask = {&node, 1};
    struct attn_error error = {0};
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
    for (size_t row = 0; row < T; row += TILE)
        for (size_t key = 0; key < T; key += TILE) {
            const struct attn_mask_tile tile = {0, 0, row, TILE, key, TILE};
            const size_t distance = row < key ? key - row : row - key;
            const bool seen = distance % STRIDE == 0 && distance <= 2 * STRIDE;
            ck_assert_int_eq(attn_mask_classify(&mask, &space, &tile, false),
                             seen ? ATTN_TILE_PARTIAL : ATTN_TILE_EMPTY);
        }
}
END_TEST

/* What `not` leaves is as tight as the tokens at the front allow. */
START_TEST(ranges_beside_leading_tokens_are_tight) {
    const int64_t tokens[] = {0, 1, 2, 6};
    const struct attn_mask_space space = {1, 1, 10, 10, NULL, 0, {0, 0}};
    struct attn_mask_node nodes[] = {{.kind = ATTN_MASK_GLOBAL, .tokens = {tokens, 4}},
                                     {.kind = ATTN_MASK_NOT}};
    struct attn_mask mask = {nodes, 2};
    struct attn_error error = {0};
    size_t begin, end;
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
    attn_mask_key_range(&mask, &space, 0, 0, 3, 7, &begin, &end);
    ck_assert(begin == 3 && end == 10);
    attn_mask_key_range(&mask, &space, 0, 0, 0, 3, &begin, &end);
    ck_assert(begin == end);
}
END_TEST

static void check_spans(const struct attn_mask *mask, const struct attn_mask_space *space,
                        size_t row, size_t rows) {
    struct attn_span spans[ROWS + 1] = {{0}};
    attn_mask_spans(mask, space, 0, row, rows, spans);
    for (size_t r = 0; r < rows; r++) {
        const struct attn_span *span = &spans[r];
        size_t begin, end;
        attn_mask_key_range(mask, space, 0, 0, row + r, 1, &begin, &end);
        if (begin == end ? span->begin < span->end : span->begin != begin || span->end != end)
            ck_abort_msg("run %zu-%zu of row %zu is %zu-%zu alone", span->begin, span->end, row + r,
                         begin, end);
    }
    ck_assert_uint_eq(spans[rows].end, 0);
}

/* Alone or under `not`, at offsets before, among and behind the keys, with a gap and without. */
START_TEST(rows_together_have_the_runs_that_each_has_alone) {
    const int64_t offset = _i - NEAR;
    struct attn_mask_node nodes[] = {{.kind = ATTN_MASK_CAUSAL}, {.kind = ATTN_MASK_NOT}};
    struct attn_error error = {0};
    for (size_t n = 0; n < (size_t)(2 * 2 * (KEYS + 2) * (KEYS + 2)); n++) {
        const struct attn_mask_space space = {1, 1, ROWS, KEYS, &offset, 1, {2, n % 2 * 3}};
        struct attn_mask mask = {nodes, 1 + n / 2 % 2};
        nodes[0] = (struct attn_mask_node){.kind = ATTN_MASK_CAUSAL};
        if (n > 3) {
            nodes[0].kind = ATTN_MASK_WINDOW;
            nodes[0].left = (int64_t)(n / 4 % (KEYS + 2)) - 1;
            nodes[0].right = (int64_t)(n / 4 / (KEYS + 2)) - 1;
        }
        nodes[1] = (struct attn_mask_node){.kind = ATTN_MASK_NOT, .operands = 1};
        ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
        for (size_t row = 0; row < ROWS; row++)
            for (size_t rows = 0; row + rows <= ROWS; rows++)
                check_spans(&mask, &space, row, rows);
    }
}
END_TEST

static Suite *mask_positions_suite(void) {
    Suite *suite = suite_create("mask_positions");
    TCase *tests = tcase_create("positions");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, dilated_is_its_definition);
    tcase_add_test(tests, block_causal_is_its_definition);
    tcase_add_test(tests, global_is_its_definition);
    tcase_add_test(tests, the_ends_of_int64_saturate);
    tcase_add_test(tests, sizes_past_two_to_the_32_stay_exact);
    tcase_add_test(tests, tiles_of_sparse_patterns_are_skipped);
    tcase_add_test(tests, ranges_beside_leading_tokens_are_tight);
    tcase_add_loop_test(tests, rows_together_have_the_runs_that_each_has_alone, 0, 2 * NEAR + KEYS);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(mask_positions_suite)
