/* SPDX-License-Identifier: Apache-2.0 */
/* Where things are in a picture: sizes of cells, ticks, panels side by side, and fitted maps. */
#include "server/codecs/codec_png_layout.h"

#include <check.h>
#include <stdlib.h>

#include "tests/support/test_main.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* A call for a whole map, fitted as the codec does it. */
static struct attn_call call_of(size_t panels, size_t rows, size_t cols) {
    struct attn_call call = {.B = 1, .Hq = panels, .Tq = rows, .Tk = cols};
    struct attn_error error = {.status = ATTN_OK};
    call.map_head_count = panels;
    call.map_rows = call.pool_rows = rows;
    call.map_cols = call.pool_cols = cols;
    ck_assert_int_eq(attn_call_fit_map(&call, png_longest_side(panels), &error), ATTN_OK);
    return call;
}

static struct png_layout layout_of(const struct attn_call *call) {
    static const struct codec_request none;
    struct png_layout layout;
    png_layout_make(call, &none, &layout);
    return layout;
}

static const struct {
    size_t panels, rows, cols, pool_rows, pool_cols, cell_width, cell_height;
} CELLS[] = {
    {1, 16, 16, 16, 16, 40, 40},         {1, 1, 1, 1, 1, 40, 40},
    {1, 100, 100, 100, 100, 10, 10},     {1, 1024, 1024, 1024, 1024, 1, 1},
    {1, 1025, 1024, 513, 1024, 1, 1},    {1, 4096, 4096, 1024, 1024, 1, 1},
    {1, 32768, 32768, 1024, 1024, 1, 1}, {1, 1, 1000, 1, 1000, 1, 24},
    {1, 2000, 3, 1000, 3, 24, 1},        {12, 16, 16, 16, 16, 32, 32},
    {12, 4096, 4096, 512, 512, 1, 1},    {64, 300, 5, 150, 5, 24, 1},
};

START_TEST(cells_fill_a_panel) {
    const struct attn_call call = call_of(CELLS[_i].panels, CELLS[_i].rows, CELLS[_i].cols);
    const struct png_layout layout = layout_of(&call);
    ck_assert_uint_eq(call.pool_rows, CELLS[_i].pool_rows);
    ck_assert_uint_eq(call.pool_cols, CELLS[_i].pool_cols);
    ck_assert_int_eq(call.pooled, call.pool_rows < call.map_rows || call.pool_cols < call.map_cols);
    ck_assert_uint_eq(layout.k.cell, CELLS[_i].cell_width);
    ck_assert_uint_eq(layout.q.cell, CELLS[_i].cell_height);
}
END_TEST

START_TEST(every_number_of_panels_has_its_place) {
    for (size_t panels = 1; panels <= PNG_PANELS_MOST; panels++) {
        const struct attn_call call = call_of(panels, 700, 900);
        const struct png_layout layout = layout_of(&call);
        ck_assert_uint_le(png_longest_side(panels), 1024);
        ck_assert_uint_le(layout.width * layout.height, (size_t)8 << 20);
        for (size_t i = 0; i < panels; i++) {
            size_t left, top, x, y;
            png_layout_panel(&layout, i, &left, &top);
            ck_assert_uint_le(left + layout.panel_width, layout.width);
            ck_assert_uint_le(top + layout.panel_height, layout.bar_top);
            for (size_t other = 0; other < i; other++) {
                png_layout_panel(&layout, other, &x, &y);
                ck_assert(x + layout.panel_width <= left || y + layout.panel_height <= top ||
                          left + layout.panel_width <= x);
            }
        }
    }
}
END_TEST

START_TEST(batch_items_begin_rows) {
    struct attn_call call = call_of(6, 12, 20);
    for (size_t heads = 1; heads <= 6; heads++) {
        call.Hq = call.map_head_count = heads;
        for (call.B = 2; call.B * heads <= PNG_PANELS_MOST; call.B++) {
            const size_t columns = layout_of(&call).columns;
            ck_assert(heads % columns == 0 || columns % heads == 0);
        }
    }
}
END_TEST

START_TEST(a_tick_stands_at_its_bin) {
    for (size_t tokens = 1; tokens < 60; tokens++)
        for (size_t cells = 1; cells <= tokens; cells++) {
            const struct png_axis axis = {.first = 7, .tokens = tokens, .cells = cells, .cell = 3};
            for (size_t bin = 0; bin < cells; bin++)
                for (size_t t = bin * tokens / cells; t < (bin + 1) * tokens / cells; t++)
                    ck_assert_uint_eq(png_axis_place(&axis, 7 + t), bin * 3 + 1);
        }
}
END_TEST

static const struct {
    size_t tokens, step_of_labels, step_of_rows, step_of_columns;
} STEPS[] = {{1, 1, 1, 1},
             {16, 1, 1, 1},
             {70, 1, 1, 2},
             {100, 5, 5, 5},
             {1024, 50, 50, 50},
             {4096, 100, 100, 200},
             {32768, 1000, 1000, 2000}};

START_TEST(text_thins_out) {
    struct codec_label label = codec_label_of("token", 5), *labels;
    labels = calloc(STEPS[_i].tokens, sizeof *labels);
    for (size_t i = 0; i < STEPS[_i].tokens; i++)
        labels[i] = label;
    const struct attn_call call = call_of(1, STEPS[_i].tokens, STEPS[_i].tokens);
    const struct codec_labels given = {labels, 1, STEPS[_i].tokens};
    const struct codec_request request = {.q_labels = given, .k_labels = given};
    struct png_layout layout;
    png_layout_make(&call, &request, &layout);
    ck_assert_uint_eq(layout.q.step, STEPS[_i].step_of_labels);
    ck_assert_uint_eq(layout.k.step, STEPS[_i].step_of_labels);
    ck_assert_uint_ge(layout.q.room, 5 * 7);
    layout = layout_of(&call);
    ck_assert_uint_eq(layout.q.step, STEPS[_i].step_of_rows);
    ck_assert_uint_eq(layout.k.step, STEPS[_i].step_of_columns);
    free(labels);
}
END_TEST

START_TEST(a_region_keeps_its_numbers) {
    struct attn_call call = call_of(1, 4096, 4096);
    call.map_row = 1234;
    call.map_rows = 300;
    call.pool_rows = 300;
    const struct png_layout layout = layout_of(&call);
    ck_assert_uint_eq(layout.q.step, 10);
    ck_assert_uint_eq(png_axis_first_tick(&layout.q), 1240);
    ck_assert_uint_eq(png_axis_place(&layout.q, 1240), 6 * 3 + 1);
}
END_TEST

static const size_t EMPTY[][3] = {{0, 5, 5}, {1, 0, 9}, {1, 9, 0}, {1, 0, 0}, {1, 0, SIZE_MAX / 2}};

START_TEST(nothing_has_a_place_too) {
    const struct attn_call call = call_of(EMPTY[_i][0], EMPTY[_i][1], EMPTY[_i][2]);
    const struct png_layout layout = layout_of(&call);
    ck_assert(layout.width > 100 && layout.width < 2000);
    ck_assert(layout.height > 50 && layout.height < 2000);
    ck_assert_int_eq(call.pooled, false);
}
END_TEST

START_TEST(too_many_tokens_for_bins_are_refused) {
    struct attn_call call = {.B = 1, .Hq = 1, .map_rows = 1, .map_cols = (size_t)1 << 40};
    struct attn_error error = {.status = ATTN_OK};
    ck_assert_int_eq(attn_call_fit_map(&call, 1024, &error), ATTN_BAD_VALUE);
    ck_assert_str_eq(error.pointer, "/weights/pool/cols");
}
END_TEST

static Suite *layout_suite(void) {
    Suite *const suite = suite_create("png layout");
    TCase *const tests = tcase_create("png layout");
    tcase_add_loop_test(tests, cells_fill_a_panel, 0, COUNT(CELLS));
    tcase_add_test(tests, every_number_of_panels_has_its_place);
    tcase_add_test(tests, batch_items_begin_rows);
    tcase_add_test(tests, a_tick_stands_at_its_bin);
    tcase_add_loop_test(tests, text_thins_out, 0, COUNT(STEPS));
    tcase_add_test(tests, a_region_keeps_its_numbers);
    tcase_add_loop_test(tests, nothing_has_a_place_too, 0, COUNT(EMPTY));
    tcase_add_test(tests, too_many_tokens_for_bins_are_refused);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(layout_suite)
