/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Masks against their definition, element by element: every kind of leaf at every Tk from 1 to 70
 * and at 97 and 257, and random expressions of all kinds. Tiles lie at odd places, and buffers have
 * exactly the size that was asked for, so that a sanitizer sees one word too many.
 */
#include "core/mask.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/mask_model.h"
#include "tests/support/test_main.h"

/* One head's plane, as the model sees it. */
struct plane {
    const struct mask_model *model;
    size_t b, h;
    bool *sees; /* [Tq][Tk] */
};

static struct plane plane_of(const struct mask_model *model, size_t b, size_t h) {
    const struct attn_mask_space *space = &model->space;
    struct plane plane = {model, b, h, malloc(space->Tq * space->Tk + 1)};
    ck_assert_ptr_nonnull(plane.sees);
    for (size_t row = 0; row < space->Tq; row++)
        for (size_t key = 0; key < space->Tk; key++)
            plane.sees[row * space->Tk + key] = model_sees(model, b, h, row, key);
    return plane;
}

static bool sees(const struct plane *plane, size_t row, size_t key) {
    return plane->sees[row * plane->model->space.Tk + key];
}

/* libcheck notes every assertion that passes, which would dominate in loops this long. */
#define EXPECT(condition, ...)         \
    do {                               \
        if (!(condition))              \
            ck_abort_msg(__VA_ARGS__); \
    } while (0)

static void check_fill(const struct plane *plane, const struct attn_mask_tile *tile) {
    const struct mask_model *model = plane->model;
    const size_t words = attn_mask_row_words(tile->keys), n = tile->rows * words;
    const size_t scratch_words = attn_mask_scratch_words(&model->mask, tile->rows, tile->keys);
    uint64_t *bits = malloc(n * sizeof *bits + 1);
    uint64_t *scratch = malloc(scratch_words * sizeof *scratch + 1);
    ck_assert(bits != NULL && scratch != NULL);
    memset(bits, 0xa5, n * sizeof *bits);
    memset(scratch, 0x5a, scratch_words * sizeof *scratch);
    attn_mask_fill(&model->mask, &model->space, tile, bits, scratch);
    for (size_t r = 0; r < tile->rows; r++)
        for (size_t k = 0; k < words * 64; k++) {
            const bool shown = bits[r * words + k / 64] >> k % 64 & 1;
            const bool wanted = k < tile->keys && sees(plane, tile->row + r, tile->key + k);
            EXPECT(shown == wanted, "fill: row %zu key %zu of Tk %zu is %d", tile->row + r,
                   tile->key + k, model->space.Tk, shown);
        }
    free(bits);
    free(scratch);
}

static enum attn_tile_class exact_class(const struct plane *plane,
                                        const struct attn_mask_tile *tile) {
    size_t visible = 0;
    for (size_t r = 0; r < tile->rows; r++)
        for (size_t k = 0; k < tile->keys; k++)
            visible += sees(plane, tile->row + r, tile->key + k);
    if (visible == 0)
        return ATTN_TILE_EMPTY;
    return visible == tile->rows * tile->keys ? ATTN_TILE_FULL : ATTN_TILE_PARTIAL;
}

static void check_class(const struct plane *plane, const struct attn_mask_tile *tile, bool thorough,
                        bool sharp) {
    const struct mask_model *model = plane->model;
    const enum attn_tile_class exact = exact_class(plane, tile);
    const enum attn_tile_class class =
        attn_mask_classify(&model->mask, &model->space, tile, thorough);
    EXPECT(class == exact || (!sharp && class == ATTN_TILE_PARTIAL),
           "classify: rows %zu+%zu keys %zu+%zu are %d, but said to be %d", tile->row, tile->rows,
           tile->key, tile->keys, (int)exact, (int)class);
}

static void check_range(const struct plane *plane, size_t row, size_t rows, bool sharp) {
    const struct attn_mask_space *space = &plane->model->space;
    size_t begin = 9999, end = 9999, first = space->Tk, past = 0;
    attn_mask_key_range(&plane->model->mask, space, plane->b, plane->h, row, rows, &begin, &end);
    for (size_t r = row; r < row + rows; r++)
        for (size_t key = 0; key < space->Tk; key++)
            if (sees(plane, r, key)) {
                first = key < first ? key : first;
                past = key + 1 > past ? key + 1 : past;
            }
    EXPECT(begin <= end && end <= space->Tk, "range %zu-%zu", begin, end);
    EXPECT(past == 0 || (begin <= first && past <= end), "range %zu-%zu misses %zu-%zu", begin, end,
           first, past);
    EXPECT(!sharp || (past == 0 ? begin == end : begin == first && end == past),
           "range %zu-%zu is not %zu-%zu", begin, end, first, past);
}

struct sharpness {
    bool range, quick, thorough;
};

static void check_plane(struct random *random, const struct plane *plane, struct sharpness sharp) {
    const struct attn_mask_space *space = &plane->model->space;
    for (int i = 0; i < 8; i++) {
        struct attn_mask_tile tile = {.b = plane->b, .h = plane->h};
        if (i == 0) {
            tile.rows = space->Tq;
            tile.keys = space->Tk;
        } else {
            tile.row = (size_t)random_below(random, space->Tq);
            tile.rows = 1 + (size_t)random_below(random, space->Tq - tile.row);
            tile.key = (size_t)random_below(random, space->Tk);
            tile.keys = 1 + (size_t)random_below(random, space->Tk - tile.key);
        }
        if (i > 5) /* small ones are the ones that are empty or full */
            tile.rows = tile.rows % 4 + (tile.rows % 4 == 0),
            tile.keys = tile.keys % 4 + (tile.keys % 4 == 0);
        check_fill(plane, &tile);
        check_class(plane, &tile, false, sharp.quick);
        check_class(plane, &tile, true, sharp.thorough);
        check_range(plane, tile.row, tile.rows, sharp.range);
    }
}

static void check_model(struct mask_model *model, struct sharpness sharp) {
    struct attn_error error = {0};
    EXPECT(attn_mask_validate(&model->mask, &model->space, &error) == ATTN_OK, "%s", error.detail);
    const bool by_head = attn_mask_varies_by_head(&model->mask);
    const bool by_batch =
        attn_mask_varies_by_batch(&model->mask) || model->space.q_offset_count > 1;
    const size_t size = model->space.Tq * model->space.Tk;
    const struct plane first = plane_of(model, 0, 0);
    for (size_t b = 0; b < model->space.B; b++)
        for (size_t h = 0; h < model->space.Hq; h++) {
            const struct plane plane = plane_of(model, b, h);
            check_plane(&model->random, &plane, sharp);
            EXPECT((by_head && h > 0) || (by_batch && b > 0) ||
                       memcmp(plane.sees, first.sees, size) == 0,
                   "batch item %zu, head %zu differs, but is said not to", b, h);
            free(plane.sees);
        }
    free(first.sees);
}

/* Which answers are exact when the leaf stands alone. */
static const struct {
    int kind;
    struct sharpness sharp;
} LEAVES[] = {
    {ATTN_MASK_CAUSAL, {true, true, true}},       {ATTN_MASK_WINDOW, {true, true, true}},
    {ATTN_MASK_PADDING, {true, true, true}},      {ATTN_MASK_PREFIX, {true, true, true}},
    {ATTN_MASK_SEGMENTS, {false, false, false}},  {ATTN_MASK_ALLOW, {false, false, true}},
    {ATTN_MASK_HIDE, {false, false, true}},       {MODEL_KEEP, {false, true, true}},
    {ATTN_MASK_GLOBAL, {true, true, true}},       {ATTN_MASK_DILATED, {false, true, true}},
    {ATTN_MASK_BLOCK_CAUSAL, {true, true, true}},
};

static size_t key_count(size_t i) {
    return i < 70 ? i + 1 : i == 70 ? 97 : 257;
}

START_TEST(each_leaf_is_its_definition) {
    static struct mask_model model;
    for (size_t i = 0; i < 72; i++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            model_open(&model, random_seeded(i * 100 + (uint64_t)_i * 10 + seed), key_count(i));
            model_add_leaf(&model, LEAVES[_i].kind);
            check_model(&model, LEAVES[_i].sharp);
            model_close(&model);
        }
}
END_TEST

START_TEST(expressions_are_their_definition) {
    static struct mask_model model;
    for (size_t i = 0; i < 72; i++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            model_open(&model, random_seeded(50000 + (uint64_t)_i * 1000 + i * 10 + seed),
                       key_count(i));
            model_add_expression(&model, 1 + (i * 5 + seed * 3) % 12);
            check_model(&model, (struct sharpness){false, false, false});
            model_close(&model);
        }
}
END_TEST

/* What users write most must also be skipped most: prefix-LM, sliding window, causal with padding.
 */
START_TEST(negation_and_joins_keep_ranges_tight) {
    const int64_t length = 6;
    const struct attn_int_list lengths = {&length, 1};
    const struct attn_mask_space space = {1, 1, 20, 20, NULL, 0, {0, 0}};
    struct attn_mask_node nodes[4] = {{.kind = ATTN_MASK_CAUSAL},
                                      {.kind = ATTN_MASK_PREFIX, .lengths = lengths},
                                      {.kind = ATTN_MASK_ANY, .operands = 2},
                                      {.kind = ATTN_MASK_NOT}};
    struct attn_mask mask = {nodes, 3};
    struct attn_error error = {0};
    size_t begin, end;
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
    attn_mask_key_range(&mask, &space, 0, 0, 2, 2, &begin, &end);
    ck_assert(begin == 0 && end == 6);
    attn_mask_key_range(&mask, &space, 0, 0, 8, 2, &begin, &end);
    ck_assert(begin == 0 && end == 10);
    mask.count = 4;
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
    attn_mask_key_range(&mask, &space, 0, 0, 8, 2, &begin, &end);
    ck_assert(begin == 9 && end == 20);
    attn_mask_key_range(&mask, &space, 0, 0, 8, 0, &begin, &end);
    ck_assert(begin == end);
}
END_TEST

/* One operand can decide, wherever it stands beside one that says partial. */
START_TEST(joins_are_decided_by_one_operand) {
    const int64_t none = 0, every = 9;
    const struct attn_mask_space space = {1, 1, 9, 9, NULL, 0, {0, 0}};
    const struct attn_mask_tile tile = {0, 0, 0, 9, 0, 9};
    const struct attn_mask_node causal = {.kind = ATTN_MASK_CAUSAL};
    for (int first = 0; first < 2; first++)
        for (int any = 0; any < 2; any++) {
            const struct attn_mask_node decides = {.kind = ATTN_MASK_PREFIX,
                                                   .lengths = {any ? &every : &none, 1}};
            struct attn_mask_node nodes[] = {
                first ? decides : causal,
                first ? causal : decides,
                {.kind = any ? ATTN_MASK_ANY : ATTN_MASK_ALL, .operands = 2}};
            struct attn_mask mask = {nodes, 3};
            struct attn_error error = {0};
            ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
            ck_assert_int_eq(attn_mask_classify(&mask, &space, &tile, false),
                             any ? ATTN_TILE_FULL : ATTN_TILE_EMPTY);
        }
}
END_TEST

START_TEST(packed_documents_are_skipped_exactly) {
    enum { T = 90, DOCUMENT = 30 };
    int32_t ids[T];
    for (int i = 0; i < T; i++)
        ids[i] = 7 - i / DOCUMENT * 3;
    const struct attn_mask_space space = {1, 1, T, T, NULL, 0, {0, 0}};
    struct attn_mask_node node = {.kind = ATTN_MASK_SEGMENTS,
                                  .tensor = attn_tensor_view(ids, ATTN_INT32, 1, (size_t[]){T})};
    struct attn_mask mask = {&node, 1};
    struct attn_error error = {0};
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
    for (size_t row = 0; row < T; row += 10)
        for (size_t key = 0; key < T; key += 10) {
            const struct attn_mask_tile tile = {0, 0, row, 10, key, 10};
            ck_assert_int_eq(attn_mask_classify(&mask, &space, &tile, false),
                             row / DOCUMENT == key / DOCUMENT ? ATTN_TILE_FULL : ATTN_TILE_EMPTY);
        }
}
END_TEST

/* The types of ids with what they hold, and numbers that are each other's bits in some of them. */
static const struct {
    enum attn_dtype dtype;
    int64_t lowest, highest;
} ID_TYPES[] = {
    {ATTN_INT8, INT8_MIN, INT8_MAX},    {ATTN_UINT8, 0, UINT8_MAX},
    {ATTN_INT16, INT16_MIN, INT16_MAX}, {ATTN_UINT16, 0, UINT16_MAX},
    {ATTN_INT32, INT32_MIN, INT32_MAX}, {ATTN_UINT32, 0, UINT32_MAX},
    {ATTN_INT64, INT64_MIN, INT64_MAX}, {ATTN_UINT64, 0, INT64_MAX},
};
static const int64_t IDS[] = {-1,        INT8_MIN,       INT16_MIN,        INT32_MIN,  INT64_MIN,
                              0,         INT8_MAX + 1,   INT16_MAX + 1,    UINT8_MAX,  UINT16_MAX,
                              INT16_MAX, UINT16_MAX + 1, (int64_t)1 << 31, UINT32_MAX, INT64_MAX};
enum { ID_TYPE_COUNT = sizeof ID_TYPES / sizeof *ID_TYPES, ID_COUNT = sizeof IDS / sizeof *IDS };

/* Those of IDS that a type holds, as its tensor and as numbers. */
static struct attn_tensor typed_ids(size_t type, unsigned char *bytes, int64_t *numbers) {
    const size_t size = attn_dtype_size(ID_TYPES[type].dtype);
    size_t n = 0;
    for (size_t i = 0; i < ID_COUNT; i++)
        if (IDS[i] >= ID_TYPES[type].lowest && IDS[i] <= ID_TYPES[type].highest) {
            memcpy(bytes + n * size, &IDS[i], size);
            numbers[n++] = IDS[i];
        }
    return attn_tensor_view(bytes, ID_TYPES[type].dtype, 1, &n);
}

START_TEST(ids_of_two_types_are_compared_as_numbers) {
    unsigned char row_bytes[8 * ID_COUNT], key_bytes[8 * ID_COUNT];
    int64_t rows[ID_COUNT], keys[ID_COUNT];
    uint64_t bits[ID_COUNT];
    struct attn_mask_node node = {.kind = ATTN_MASK_SEGMENTS,
                                  .tensor = typed_ids((size_t)_i % ID_TYPE_COUNT, row_bytes, rows),
                                  .kv = typed_ids((size_t)_i / ID_TYPE_COUNT, key_bytes, keys)};
    const size_t Tq = node.tensor.shape[0], Tk = node.kv.shape[0];
    const struct attn_mask_space space = {1, 1, Tq, Tk, NULL, 0, {0, 0}};
    const struct attn_mask_tile tile = {0, 0, 0, Tq, 0, Tk};
    struct attn_mask mask = {&node, 1};
    struct attn_error error = {0};
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
    attn_mask_fill(&mask, &space, &tile, bits, NULL);
    for (size_t r = 0; r < Tq; r++)
        for (size_t k = 0; k < Tk; k++)
            EXPECT((bits[r] >> k & 1) == (rows[r] == keys[k]), "%s %lld beside %s %lld",
                   attn_dtype_name(node.tensor.dtype), (long long)rows[r],
                   attn_dtype_name(node.kv.dtype), (long long)keys[k]);
}
END_TEST

START_TEST(windows_at_the_ends_of_int64_saturate) {
    const int64_t offsets[] = {INT64_MIN, INT64_MAX, 0};
    const struct attn_mask_space space = {3, 1, 4, 9, offsets, 3, {0, 0}};
    struct attn_mask_node node = {.kind = ATTN_MASK_WINDOW, .left = INT64_MAX, .right = INT64_MAX};
    struct attn_mask mask = {&node, 1};
    struct attn_error error = {0};
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
    const struct attn_mask_tile low = {0, 0, 0, 4, 0, 9}, high = {1, 0, 0, 4, 0, 9};
    const struct attn_mask_tile middle = {2, 0, 0, 4, 0, 9};
    ck_assert_int_eq(attn_mask_classify(&mask, &space, &low, false), ATTN_TILE_PARTIAL);
    ck_assert_int_eq(attn_mask_classify(&mask, &space, &high, false), ATTN_TILE_FULL);
    ck_assert_int_eq(attn_mask_classify(&mask, &space, &middle, false), ATTN_TILE_FULL);
    node.right = -1;
    ck_assert_int_eq(attn_mask_classify(&mask, &space, &low, false), ATTN_TILE_FULL);
    size_t begin, end;
    attn_mask_key_range(&mask, &space, 0, 0, 0, 4, &begin, &end);
    ck_assert(begin == 0 && end == 9);
    node = (struct attn_mask_node){.kind = ATTN_MASK_CAUSAL};
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
    ck_assert_int_eq(attn_mask_classify(&mask, &space, &low, false), ATTN_TILE_EMPTY);
    ck_assert_int_eq(attn_mask_classify(&mask, &space, &high, false), ATTN_TILE_FULL);
}
END_TEST

START_TEST(sizes_past_two_to_the_32_stay_exact) {
    const size_t T = (size_t)1 << 40, row = ((size_t)1 << 39) + 3;
    const uint8_t one = 1;
    const struct attn_mask_space space = {1, 1, T, T, NULL, 0, {0, 0}};
    struct attn_mask_node nodes[3] = {
        {.kind = ATTN_MASK_WINDOW, .left = 5, .right = 0},
        {.kind = ATTN_MASK_ALLOW,
         .tensor = attn_tensor_view(&one, ATTN_UINT8, 4, (size_t[]){1, 1, 1, 1})},
        {.kind = ATTN_MASK_ALL, .operands = 2}};
    struct attn_mask mask = {nodes, 3};
    struct attn_error error = {0};
    size_t begin, end;
    ck_assert_int_eq(attn_mask_validate(&mask, &space, &error), ATTN_OK);
    attn_mask_key_range(&mask, &space, 0, 0, row, 2, &begin, &end);
    ck_assert(begin == row - 5 && end == row + 2);
    const struct attn_mask_tile tile = {0, 0, row, 1, row - 7, 9};
    uint64_t bits, scratch[2];
    ck_assert_uint_eq(attn_mask_scratch_words(&mask, 1, 9), 2);
    attn_mask_fill(&mask, &space, &tile, &bits, scratch);
    ck_assert_uint_eq(bits, 0xfc);
    ck_assert(attn_mask_scratch_words(&mask, T, T) == SIZE_MAX);
}
END_TEST

START_TEST(no_mask_and_no_positions) {
    const struct attn_mask_space space = {1, 1, 3, 70, NULL, 0, {0, 0}};
    const struct attn_mask mask = {NULL, 0};
    const struct attn_mask_tile tile = {0, 0, 0, 3, 0, 70}, nothing = {0, 0, 0, 3, 0, 0};
    uint64_t bits[6];
    size_t begin, end;
    ck_assert_int_eq(attn_mask_classify(&mask, &space, &tile, false), ATTN_TILE_FULL);
    ck_assert_int_eq(attn_mask_classify(&mask, &space, &nothing, false), ATTN_TILE_EMPTY);
    attn_mask_key_range(&mask, &space, 0, 0, 0, 3, &begin, &end);
    ck_assert(begin == 0 && end == 70);
    ck_assert_uint_eq(attn_mask_scratch_words(&mask, 3, 70), 0);
    attn_mask_fill(&mask, &space, &tile, bits, NULL);
    for (int r = 0; r < 3; r++)
        ck_assert(bits[2 * r] == UINT64_MAX && bits[2 * r + 1] == 63);
    attn_mask_fill(&mask, &space, &nothing, bits, NULL);
}
END_TEST

static Suite *mask_suite(void) {
    Suite *suite = suite_create("mask");
    TCase *tests = tcase_create("properties");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, each_leaf_is_its_definition, 0,
                        (int)(sizeof LEAVES / sizeof *LEAVES));
    tcase_add_loop_test(tests, expressions_are_their_definition, 0, 8);
    tcase_add_test(tests, negation_and_joins_keep_ranges_tight);
    tcase_add_test(tests, joins_are_decided_by_one_operand);
    tcase_add_test(tests, packed_documents_are_skipped_exactly);
    tcase_add_loop_test(tests, ids_of_two_types_are_compared_as_numbers, 0,
                        ID_TYPE_COUNT * ID_TYPE_COUNT);
    tcase_add_test(tests, windows_at_the_ends_of_int64_saturate);
    tcase_add_test(tests, sizes_past_two_to_the_32_stay_exact);
    tcase_add_test(tests, no_mask_and_no_positions);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(mask_suite)
