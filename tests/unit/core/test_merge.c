/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging partial results: by hand where all is simple, against long double sums where it is not,
 * and what is refused.
 */
#include "core/merge.h"
#include "tests/support/random.h"
#include "tests/support/request_builder.h"

#include <float.h>
#include <math.h>
#include <stdint.h>

static const struct attn_limits NO_LIMITS = {SIZE_MAX, INFINITY};

/* Merged on this thread; the tensors of the result lie in the caller's arrays. */
static struct attn_result merged(const struct attn_merge_request *request, void *output,
                                 void *lse) {
    struct attn_merge merge;
    struct attn_result result;
    struct attn_error error = {.status = ATTN_OK};
    const enum attn_status status = attn_merge_init(&merge, request, &NO_LIMITS, &result, &error);
    ck_assert_msg(status == ATTN_OK, "refused: %s (%s)", error.detail, error.pointer);
    result.tensors[ATTN_RESULT_OUTPUT].data = output;
    result.tensors[ATTN_RESULT_LSE].data = lse;
    for (size_t task = 0; task < merge.tasks; task++)
        attn_merge_task(&merge, &result, task, NULL);
    return result;
}

#define SHAPE(...) ((const size_t[]){__VA_ARGS__})
#define DOUBLES(rank, shape, ...) \
    attn_tensor_view((const double[]){__VA_ARGS__}, ATTN_FLOAT64, rank, shape)
#define FLOATS(rank, shape, ...) \
    attn_tensor_view((const float[]){__VA_ARGS__}, ATTN_FLOAT32, rank, shape)

/* Two keys of score 0 in one partial, one in the other: means weighed 2 to 1. */
START_TEST(partials_weigh_by_their_denominators) {
    const struct attn_merge_request request = {
        .outputs = DOUBLES(3, SHAPE(2, 1, 2), 3, 30, 9, 90),
        .lses = DOUBLES(2, SHAPE(2, 1), log(2), 0),
    };
    double output[2], lse;
    const struct attn_result result = merged(&request, output, &lse);
    ck_assert_double_eq_tol(output[0], 5, 1e-14);
    ck_assert_double_eq_tol(output[1], 50, 1e-13);
    ck_assert_double_eq_tol(lse, log(3), 1e-15);
    ck_assert(!atomic_load(&result.non_finite));
    ck_assert_uint_eq(atomic_load(&result.empty_rows), 0);
}
END_TEST

START_TEST(one_partial_comes_back_bit_for_bit) {
    const struct attn_merge_request request = {
        .outputs = FLOATS(3, SHAPE(1, 1, 3), 0.1f, -3e38f, 1e-45f),
        .lses = FLOATS(2, SHAPE(1, 1), 12345.678f),
    };
    float output[3], lse;
    merged(&request, output, &lse);
    ck_assert_mem_eq(output, request.outputs.data, sizeof output);
    ck_assert(lse == 12345.678f);
}
END_TEST

START_TEST(a_partial_that_saw_nothing_weighs_nothing) {
    const struct attn_merge_request request = {
        .outputs = FLOATS(3, SHAPE(3, 1, 2), NAN, INFINITY, 3, 4, NAN, 1),
        .lses = FLOATS(2, SHAPE(3, 1), -INFINITY, 7, -INFINITY),
    };
    float output[2], lse;
    const struct attn_result result = merged(&request, output, &lse);
    ck_assert(output[0] == 3 && output[1] == 4 && lse == 7);
    ck_assert(!atomic_load(&result.non_finite));
    ck_assert_uint_eq(atomic_load(&result.empty_rows), 0);
}
END_TEST

START_TEST(empty_partials_give_zero) {
    const struct attn_merge_request request = {
        .outputs = FLOATS(3, SHAPE(2, 1, 2), NAN, 1, 2, INFINITY),
        .lses = FLOATS(2, SHAPE(2, 1), -INFINITY, -INFINITY),
    };
    float output[2] = {9, 9}, lse = 9;
    const struct attn_result result = merged(&request, output, &lse);
    ck_assert(output[0] == 0 && output[1] == 0 && lse == -INFINITY);
    ck_assert_uint_eq(atomic_load(&result.empty_rows), 1);
    ck_assert(!atomic_load(&result.non_finite));
}
END_TEST

START_TEST(a_sink_alone_is_the_lse_of_an_empty_row) {
    const double sink = -3.5;
    struct attn_merge_request request = {
        .outputs = FLOATS(3, SHAPE(2, 1, 1), 5, 6),
        .lses = FLOATS(2, SHAPE(2, 1), -INFINITY, -INFINITY),
        .sink = {&sink, 1},
    };
    float output = 9, lse = 9;
    const struct attn_result result = merged(&request, &output, &lse);
    ck_assert(output == 0 && lse == -3.5f);
    ck_assert_uint_eq(atomic_load(&result.empty_rows), 1);
}
END_TEST

/* Sinks of 0 beside denominators of 1: half of the weight; -inf takes nothing. */
START_TEST(sinks_go_by_head) {
    const double sinks[] = {0, -INFINITY};
    struct attn_merge_request request = {
        .outputs = DOUBLES(4, SHAPE(1, 2, 2, 1), 6, 8, 6, 8),
        .lses = DOUBLES(3, SHAPE(1, 2, 2), 0, 0, 0, 0),
        .sink = {sinks, 2},
    };
    double output[4], lse[4];
    merged(&request, output, lse);
    ck_assert(output[0] == 3 && output[1] == 4 && output[2] == 6 && output[3] == 8);
    ck_assert_double_eq_tol(lse[1], log(2), 1e-15);
    ck_assert(lse[2] == 0);
    request.sink.count = 1;
    merged(&request, output, lse);
    ck_assert(output[2] == 3 && output[3] == 4);
}
END_TEST

/* Wherever it stands among the partials, and whatever they saw. */
START_TEST(a_wrong_lse_spoils_its_row_alone) {
    static const float wrong[] = {NAN, INFINITY};
    for (size_t i = 0; i < 12; i++) {
        const float others = i < 6 ? 1 : -INFINITY;
        float lses[3][2] = {{others, 0}, {others, 0}, {others, -INFINITY}}, output[2], lse[2];
        lses[i % 3][0] = wrong[i / 3 % 2];
        const struct attn_merge_request request = {
            .outputs = FLOATS(3, SHAPE(3, 2, 1), 1, 2, 3, 4, 5, 6),
            .lses = attn_tensor_view(lses, ATTN_FLOAT32, 2, SHAPE(3, 2)),
        };
        const struct attn_result result = merged(&request, output, lse);
        ck_assert(isnan(output[0]) && isnan(lse[0]));
        ck_assert(output[1] == 3);
        ck_assert(atomic_load(&result.non_finite));
        ck_assert_uint_eq(atomic_load(&result.empty_rows), 0);
    }
}
END_TEST

/* Without the largest lse as base exp() would overflow, or all weights vanish. */
START_TEST(far_lses_neither_overflow_nor_vanish) {
    static const double bases[] = {1e5, -1e5, 0};
    for (size_t i = 0; i < 3; i++) {
        const double lses[] = {bases[i], bases[i] + log(3)};
        const struct attn_merge_request request = {
            .outputs = DOUBLES(3, SHAPE(2, 1, 1), 4, 8),
            .lses = attn_tensor_view(lses, ATTN_FLOAT64, 2, SHAPE(2, 1)),
        };
        double output, lse;
        merged(&request, &output, &lse);
        ck_assert_double_eq_tol(output, 7, 1e-10); /* 1e5 + log 3 is rounded to 1e-11 */
        ck_assert_double_eq_tol(lse, bases[i] + log(4), 1e-10);
    }
}
END_TEST

/* A partial's output is left out, not multiplied, when its weight vanished. */
START_TEST(a_weight_of_zero_hides_nan) {
    const struct attn_merge_request request = {
        .outputs = FLOATS(3, SHAPE(2, 1, 1), NAN, 5),
        .lses = FLOATS(2, SHAPE(2, 1), -2000, 0),
    };
    float output, lse;
    merged(&request, &output, &lse);
    ck_assert(output == 5 && lse == 0);
}
END_TEST

static void fill(double *values, size_t n, double size, struct random *random) {
    for (size_t i = 0; i < n; i++)
        values[i] = size * (2 * random_unit(random) - 1);
}

enum { P = 5, B = 2, H = 3, T = 70, DV = 600 }; /* several tasks, and blocks of a row */

START_TEST(all_rows_of_all_tasks_agree_with_long_double_sums) {
    static double outputs[P][B * H * T][DV], lses[P][B * H * T];
    static double output[B * H * T][DV], lse[B * H * T];
    struct random random = random_seeded(7);
    fill(&outputs[0][0][0], sizeof outputs / sizeof(double), 3, &random);
    fill(&lses[0][0], sizeof lses / sizeof(double), 20, &random);
    const struct attn_merge_request request = {
        .outputs = attn_tensor_view(outputs, ATTN_FLOAT64, 5, SHAPE(P, B, H, T, DV)),
        .lses = attn_tensor_view(lses, ATTN_FLOAT64, 4, SHAPE(P, B, H, T)),
    };
    merged(&request, output, lse);
    for (size_t row = 0; row < B * H * T; row++) {
        long double sum = 0;
        for (size_t p = 0; p < P; p++)
            sum += expl(lses[p][row]);
        ck_assert_double_eq_tol(lse[row], (double)logl(sum), 1e-14 * 20);
        for (size_t d = 0; d < DV; d++) {
            long double mean = 0;
            for (size_t p = 0; p < P; p++)
                mean += expl(lses[p][row]) / sum * outputs[p][row][d];
            ck_assert_double_eq_tol(output[row][d], (double)mean, 1e-14 * 3);
        }
    }
}
END_TEST

/* Rows that lie along the first axis, and longer than a block: read where they lie. */
START_TEST(strides_are_followed) {
    enum { WIDTH = 300 };
    static double straight[2][2][WIDTH], turned[2][WIDTH][2], output[2][WIDTH], again[2][WIDTH];
    double lses[2][2] = {{0, 1}, {2, 0.5}}, lse[2];
    for (size_t p = 0; p < 2; p++)
        for (size_t t = 0; t < 2; t++)
            for (size_t d = 0; d < WIDTH; d++)
                turned[p][d][t] = straight[p][t][d] = (double)(p * 1000 + t * 500 + d);
    struct attn_merge_request request = {
        .outputs = attn_tensor_view(straight, ATTN_FLOAT64, 3, SHAPE(2, 2, WIDTH)),
        .lses = attn_tensor_view(lses, ATTN_FLOAT64, 2, SHAPE(2, 2)),
    };
    merged(&request, output, lse);
    request.outputs.data = turned;
    request.outputs.stride[1] = 1;
    request.outputs.stride[2] = 2;
    merged(&request, again, lse);
    ck_assert_mem_eq(output, again, sizeof output);
}
END_TEST

START_TEST(dtypes_of_the_answer) {
    static const struct {
        enum attn_dtype outputs, lses;
        enum attn_precision precision;
        enum attn_dtype output, lse;
    } rows[] = {
        {ATTN_FLOAT32, ATTN_FLOAT32, ATTN_PRECISION_UNSET, ATTN_FLOAT32, ATTN_FLOAT32},
        {ATTN_FLOAT16, ATTN_FLOAT32, ATTN_PRECISION_UNSET, ATTN_FLOAT16, ATTN_FLOAT32},
        {ATTN_BFLOAT16, ATTN_BFLOAT16, ATTN_PRECISION_UNSET, ATTN_BFLOAT16, ATTN_FLOAT32},
        {ATTN_FLOAT64, ATTN_FLOAT32, ATTN_PRECISION_UNSET, ATTN_FLOAT64, ATTN_FLOAT64},
        {ATTN_FLOAT32, ATTN_FLOAT64, ATTN_PRECISION_UNSET, ATTN_FLOAT32, ATTN_FLOAT64},
        {ATTN_FLOAT16, ATTN_FLOAT32, ATTN_PRECISION_FLOAT64, ATTN_FLOAT64, ATTN_FLOAT64},
        {ATTN_FLOAT64, ATTN_FLOAT64, ATTN_PRECISION_FLOAT32, ATTN_FLOAT64, ATTN_FLOAT32},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct attn_merge_request request = {
            .outputs = SHAPED(rows[i].outputs, 2, 3, 4),
            .lses = SHAPED(rows[i].lses, 2, 3),
            .precision = rows[i].precision,
        };
        struct attn_merge merge;
        struct attn_result result;
        struct attn_error error = {.status = ATTN_OK};
        ck_assert_int_eq(attn_merge_init(&merge, &request, &NO_LIMITS, &result, &error), ATTN_OK);
        ck_assert_int_eq(result.tensors[ATTN_RESULT_OUTPUT].dtype, rows[i].output);
        ck_assert_int_eq(result.tensors[ATTN_RESULT_LSE].dtype, rows[i].lse);
    }
}
END_TEST

START_TEST(what_a_half_cannot_hold_is_noted) {
    const struct attn_merge_request request = {
        .outputs = FLOATS(3, SHAPE(2, 1, 1), 70000, 70000),
        .lses = FLOATS(2, SHAPE(2, 1), 0, 0),
        .output_dtype_given = true,
        .output_dtype = ATTN_FLOAT16,
    };
    uint16_t output;
    float lse;
    const struct attn_result result = merged(&request, &output, &lse);
    ck_assert_uint_eq(output, 0x7c00);
    ck_assert(atomic_load(&result.non_finite));
}
END_TEST

/* Axes of size 0 but P's have nothing to compute; Dv = 0 still has an lse. */
START_TEST(empty_axes) {
    float lse[2] = {9, 9};
    struct attn_merge_request request = {.outputs = F32(2, 3, 0, 4), .lses = F32(2, 3, 0)};
    merged(&request, NULL, NULL);
    request.outputs = F32(3, 2, 0);
    request.lses = F32(3, 2);
    merged(&request, NULL, lse);
    ck_assert_float_eq_tol(lse[1], logf(3), 1e-6f);
}
END_TEST

START_TEST(a_cancelled_task_computes_nothing) {
    const struct attn_merge_request request = {
        .outputs = FLOATS(3, SHAPE(1, 1, 1), 3),
        .lses = FLOATS(2, SHAPE(1, 1), 0),
    };
    struct attn_merge merge;
    struct attn_result result;
    struct attn_error error = {.status = ATTN_OK};
    float output = 9, lse = 9;
    const atomic_bool cancelled = true;
    const struct attn_checkpoint checkpoint = {.cancelled = &cancelled};
    ck_assert_int_eq(attn_merge_init(&merge, &request, &NO_LIMITS, &result, &error), ATTN_OK);
    result.tensors[ATTN_RESULT_OUTPUT].data = &output;
    result.tensors[ATTN_RESULT_LSE].data = &lse;
    attn_merge_task(&merge, &result, 0, &checkpoint);
    ck_assert(output == 9 && lse == 9);
}
END_TEST

static void refuse(const struct attn_merge_request *request, const struct attn_limits *limits,
                   enum attn_status status, const char *pointer, const char *words) {
    struct attn_merge merge;
    struct attn_result result;
    struct attn_error error = {.status = ATTN_OK};
    ck_assert_str_eq(attn_status_name(attn_merge_init(&merge, request, limits, &result, &error)),
                     attn_status_name(status));
    ck_assert_str_eq(error.pointer, pointer);
    ck_assert_msg(strstr(error.detail, words) != NULL, "\"%s\" lacks \"%s\"", error.detail, words);
}

START_TEST(refusals) {
    const double nan_sink = NAN, sinks[3] = {0};
    const struct {
        struct attn_merge_request request;
        enum attn_status status;
        const char *pointer, *words;
    } rows[] = {
        {{.outputs = F32(2, 4), .lses = F32(2)}, ATTN_BAD_SHAPE, "/outputs", "[2, 4]"},
        {{.outputs = F32(0, 3, 4), .lses = F32(0, 3)}, ATTN_BAD_SHAPE, "/outputs", "at least one"},
        {{.outputs = F32(2, 3, 4), .lses = F32(2, 4)}, ATTN_BAD_SHAPE, "/lses", "[2, 3]"},
        {{.outputs = F32(2, 3, 4), .lses = F32(3, 3)}, ATTN_BAD_SHAPE, "/lses", "[3, 3]"},
        {{.outputs = F32(2, 3, 4), .lses = F32(2, 3, 4)}, ATTN_BAD_SHAPE, "/lses", "but the last"},
        {{.outputs = SHAPED(ATTN_INT32, 2, 3, 4), .lses = F32(2, 3)},
         ATTN_BAD_DTYPE,
         "/outputs",
         "int32"},
        {{.outputs = F32(2, 3, 4), .lses = SHAPED(ATTN_BOOL, 2, 3)},
         ATTN_BAD_DTYPE,
         "/lses",
         "bool"},
        {{.outputs = F32(2, 3, 4),
          .lses = F32(2, 3),
          .output_dtype_given = true,
          .output_dtype = ATTN_INT8},
         ATTN_BAD_DTYPE,
         "/output_dtype",
         "int8"},
        {{.outputs = F32(2, 3, 4), .lses = F32(2, 3), .sink = {&nan_sink, 1}},
         ATTN_BAD_VALUE,
         "/sink",
         "finite"},
        {{.outputs = F32(2, 2, 3, 4), .lses = F32(2, 2, 3), .sink = {sinks, 3}},
         ATTN_BAD_VALUE,
         "/sink",
         "(2)"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        refuse(&rows[i].request, &NO_LIMITS, rows[i].status, rows[i].pointer, rows[i].words);
}
END_TEST

START_TEST(limits) {
    const struct attn_merge_request request = {.outputs = F32(2, 3, 4), .lses = F32(2, 3)};
    const struct attn_limits exact = {3 * 4 * 4 + 3 * 4, INFINITY}, less = {59, INFINITY};
    const struct attn_limits work = {SIZE_MAX, 2 * 2 * 3 * 4};
    struct attn_merge merge;
    struct attn_result result;
    struct attn_error error = {.status = ATTN_OK};
    ck_assert_int_eq(attn_merge_init(&merge, &request, &exact, &result, &error), ATTN_OK);
    ck_assert_double_eq(merge.flops, 48);
    refuse(&request, &less, ATTN_RESULT_TOO_LARGE, "/outputs", "59 bytes");
    refuse(&request, &work, ATTN_TOO_MUCH_WORK, "", "48 are allowed");
}
END_TEST

static Suite *merge_suite(void) {
    Suite *suite = suite_create("merge");
    TCase *all = tcase_create("all");
    tcase_add_test(all, partials_weigh_by_their_denominators);
    tcase_add_test(all, one_partial_comes_back_bit_for_bit);
    tcase_add_test(all, a_partial_that_saw_nothing_weighs_nothing);
    tcase_add_test(all, empty_partials_give_zero);
    tcase_add_test(all, a_sink_alone_is_the_lse_of_an_empty_row);
    tcase_add_test(all, sinks_go_by_head);
    tcase_add_test(all, a_wrong_lse_spoils_its_row_alone);
    tcase_add_test(all, far_lses_neither_overflow_nor_vanish);
    tcase_add_test(all, a_weight_of_zero_hides_nan);
    tcase_add_test(all, all_rows_of_all_tasks_agree_with_long_double_sums);
    tcase_add_test(all, strides_are_followed);
    tcase_add_test(all, dtypes_of_the_answer);
    tcase_add_test(all, what_a_half_cannot_hold_is_noted);
    tcase_add_test(all, empty_axes);
    tcase_add_test(all, a_cancelled_task_computes_nothing);
    tcase_add_test(all, refusals);
    tcase_add_test(all, limits);
    suite_add_tcase(suite, all);
    return suite;
}

ATTN_TEST_MAIN(merge_suite)
