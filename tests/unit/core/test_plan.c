/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans, without computing anything: shapes and sizes of the answer for every way q may come,
 * limits, the kernel's choice, what masks save, tasks and workspace.
 */
#include "core/plan.h"
#include "tests/support/request_builder.h"

#include <math.h>
#include <stdint.h>

static const struct attn_limits NO_LIMITS = {SIZE_MAX, INFINITY};
enum {
    EVERYTHING = ATTN_RETURN_OUTPUT | ATTN_RETURN_WEIGHTS | ATTN_RETURN_SCORES | ATTN_RETURN_LSE
};

static struct attn_plan plan_within(struct attn_request *request, const struct attn_limits *limits,
                                    struct attn_result *result) {
    struct attn_call call = accept_request(request);
    struct attn_error error = {.status = ATTN_OK};
    struct attn_plan plan;
    const enum attn_status status = attn_plan_make(&call, limits, &plan, result, &error);
    ck_assert_msg(status == ATTN_OK, "refused: %s", error.detail);
    attn_call_close(&call);
    return plan;
}

static struct attn_plan plan_of(struct attn_request *request) {
    struct attn_result result;
    return plan_within(request, &NO_LIMITS, &result);
}

static void refuse_plan(struct attn_request *request, const struct attn_limits *limits,
                        enum attn_status status, const char *pointer, const char *words) {
    struct attn_call call = accept_request(request);
    struct attn_error error = {.status = ATTN_OK};
    struct attn_plan plan;
    struct attn_result result;
    ck_assert_str_eq(attn_status_name(attn_plan_make(&call, limits, &plan, &result, &error)),
                     attn_status_name(status));
    ck_assert_str_eq(error.pointer, pointer);
    ck_assert_msg(strstr(error.detail, words) != NULL, "\"%s\" lacks \"%s\"", error.detail, words);
    attn_call_close(&call);
}

static void expect_shape(const struct attn_result *result, enum attn_result_name name,
                         const char *shape) {
    const struct attn_result_tensor *tensor = &result->tensors[name];
    char text[96];
    size_t bytes = 0;
    ck_assert_str_eq(attn_shape_text(tensor->rank, tensor->shape, text, sizeof text), shape);
    ck_assert(tensor->wanted);
    ck_assert_ptr_null(tensor->data);
    ck_assert(attn_shape_bytes(tensor->dtype, tensor->rank, tensor->shape, &bytes));
    ck_assert_uint_eq(tensor->bytes, bytes);
}

/* Shapes of all tensors of the answer to a request. */
static void expect_shapes(struct attn_request *request, const char *output, const char *map,
                          const char *lse) {
    struct attn_result result;
    request->returns = EVERYTHING;
    const struct attn_plan plan = plan_within(request, &NO_LIMITS, &result);
    expect_shape(&result, ATTN_RESULT_OUTPUT, output);
    expect_shape(&result, ATTN_RESULT_WEIGHTS, map);
    expect_shape(&result, ATTN_RESULT_SCORES, map);
    expect_shape(&result, ATTN_RESULT_LSE, lse);
    size_t bytes = 0;
    for (size_t n = 0; n < ATTN_RESULT_COUNT; n++)
        bytes += result.tensors[n].bytes;
    ck_assert_uint_eq(plan.result_bytes, bytes);
}

START_TEST(answers_have_the_axes_of_q) {
    struct attn_request request = request_of(F32(5, 4), F32(7, 4), F32(7, 3));
    expect_shapes(&request, "[5, 3]", "[5, 7]", "[5]");
    request = request_of(F32(6, 5, 4), F32(2, 7, 4), F32(2, 7, 3));
    expect_shapes(&request, "[6, 5, 3]", "[6, 5, 7]", "[6, 5]");
    request = request_of(F32(2, 5, 24), F32(2, 7, 8), F32(2, 7, 6));
    request.num_heads = 6;
    request.num_kv_heads = 2;
    expect_shapes(&request, "[2, 5, 18]", "[2, 6, 5, 7]", "[2, 6, 5]");
    request = request_sized(2, 6, 2, 5, 7, 4, 3);
    expect_shapes(&request, "[2, 6, 5, 3]", "[2, 6, 5, 7]", "[2, 6, 5]");
    request = request_of(F32(2, 5, 6, 4), F32(2, 7, 2, 4), F32(2, 7, 2, 3));
    request.layout = ATTN_LAYOUT_BTHD;
    expect_shapes(&request, "[2, 5, 6, 3]", "[2, 6, 5, 7]", "[2, 6, 5]");
    request = request_sized(0, 6, 2, 0, 7, 4, 0);
    expect_shapes(&request, "[0, 6, 0, 0]", "[0, 6, 0, 7]", "[0, 6, 0]");
}
END_TEST

START_TEST(a_map_is_as_large_as_its_selection) {
    struct attn_request request = request_sized(2, 6, 2, 5, 7, 4, 3);
    request.map.heads = INTS(5, 1, 1);
    request.map.rows_given = request.map.cols_given = true;
    request.map.rows[0] = 1, request.map.rows[1] = 3;
    request.map.cols[0] = 6, request.map.cols[1] = 7;
    expect_shapes(&request, "[2, 6, 5, 3]", "[2, 3, 2, 1]", "[2, 6, 5]");
}
END_TEST

START_TEST(only_what_was_asked_for_is_wanted) {
    for (unsigned returns = 1; returns <= EVERYTHING; returns++) {
        struct attn_request request = request_sized(1, 2, 1, 5, 7, 4, 3);
        struct attn_result result;
        request.returns = returns;
        const struct attn_plan plan = plan_within(&request, &NO_LIMITS, &result);
        size_t bytes = 0;
        for (unsigned n = 0; n < ATTN_RESULT_COUNT; n++) {
            ck_assert_int_eq(result.tensors[n].wanted, returns >> n & 1);
            bytes += result.tensors[n].wanted ? result.tensors[n].bytes : 0;
        }
        ck_assert_uint_eq(plan.result_bytes, bytes);
    }
}
END_TEST

START_TEST(maps_are_float32_unless_all_is_double) {
    struct attn_request request = request_of(SHAPED(ATTN_FLOAT16, 3, 4), SHAPED(ATTN_FLOAT16, 3, 4),
                                             SHAPED(ATTN_FLOAT16, 3, 4));
    struct attn_result result;
    plan_within(&request, &NO_LIMITS, &result);
    ck_assert_int_eq(result.tensors[ATTN_RESULT_OUTPUT].dtype, ATTN_FLOAT16);
    ck_assert_int_eq(result.tensors[ATTN_RESULT_WEIGHTS].dtype, ATTN_FLOAT32);
    ck_assert_int_eq(result.tensors[ATTN_RESULT_LSE].dtype, ATTN_FLOAT32);
    request.precision = ATTN_PRECISION_FLOAT64;
    plan_within(&request, &NO_LIMITS, &result);
    ck_assert_int_eq(result.tensors[ATTN_RESULT_OUTPUT].dtype, ATTN_FLOAT64);
    ck_assert_int_eq(result.tensors[ATTN_RESULT_SCORES].dtype, ATTN_FLOAT64);
    ck_assert_int_eq(result.tensors[ATTN_RESULT_LSE].dtype, ATTN_FLOAT64);
}
END_TEST

/* Output [1,2,5,3] and map [1,2,5,7] of float32. */
START_TEST(the_answers_size_is_limited) {
    struct attn_request request = request_sized(1, 2, 1, 5, 7, 4, 3);
    struct attn_limits limits = {(30 + 70) * sizeof(float), INFINITY};
    struct attn_result result;
    request.returns = ATTN_RETURN_OUTPUT | ATTN_RETURN_WEIGHTS;
    plan_within(&request, &limits, &result);
    limits.result_bytes--;
    refuse_plan(&request, &limits, ATTN_RESULT_TOO_LARGE, "/return", "399 bytes");
    refuse_plan(&request, &limits, ATTN_RESULT_TOO_LARGE, "/return", "a pool or top_k, or rows");
    request.map.heads = INTS(1);
    plan_within(&request, &limits, &result);
}
END_TEST

START_TEST(a_size_that_wraps_is_refused) {
    struct attn_request request = request_sized(1, 1, 1, (size_t)1 << 20, (size_t)1 << 44, 0, 0);
    request.returns = ATTN_RETURN_WEIGHTS;
    refuse_plan(&request, &NO_LIMITS, ATTN_RESULT_TOO_LARGE, "/return", "larger than");
    request = request_sized(1, (size_t)1 << 20, 1, 1, 0, 0, (size_t)1 << 60);
    refuse_plan(&request, &NO_LIMITS, ATTN_RESULT_TOO_LARGE, "/return", "larger than");
    request = request_of(F32(1, 1, 0), F32(1, 0, 0), F32(1, 0, (size_t)1 << 62));
    request.num_heads = 1 << 20;
    request.num_kv_heads = 1;
    refuse_plan(&request, &NO_LIMITS, ATTN_RESULT_TOO_LARGE, "/return", "larger than");
    /* Each tensor can be counted, 2^63 - 2^22 bytes twice and 2^24, and their sum cannot. */
    request = request_sized(1, 1, 1, (size_t)1 << 20, ((size_t)1 << 41) - 1, 0, 4);
    request.returns = ATTN_RETURN_OUTPUT | ATTN_RETURN_WEIGHTS;
    plan_of(&request);
    request.returns |= ATTN_RETURN_SCORES;
    refuse_plan(&request, &NO_LIMITS, ATTN_RESULT_TOO_LARGE, "/return", "larger than");
}
END_TEST

/* 2 (D + Dv) per score of every head, 2 D more per score of a map, and what rows and tasks cost. */
START_TEST(arithmetic_is_counted_and_limited) {
    struct attn_request request = request_sized(3, 4, 2, 50, 70, 16, 8);
    const double scores = 3.0 * 4 * 50 * 70;
    struct attn_limits limits = {SIZE_MAX, INFINITY};
    request.kernel = "blas"; /* it packs no heads, which would be work too */
    struct attn_result result;
    struct attn_plan plan = plan_of(&request);
    limits.flops = (2.0 * 24 + 16) * scores + 50 * (40.0 * 3 * 4 * 50 + 200.0 * (double)plan.tasks);
    plan = plan_within(&request, &limits, &result);
    ck_assert(plan.scores_total == scores);
    ck_assert(plan.scores_planned == plan.scores_total);
    ck_assert(plan.flops == 2.0 * 24 * scores);
    ck_assert(plan.work == limits.flops);
    request.returns = ATTN_RETURN_SCORES;
    request.map.heads = INTS(2);
    refuse_plan(&request, &limits, ATTN_TOO_MUCH_WORK, "", "floating-point operations");
    plan = plan_of(&request);
    ck_assert(plan.work == limits.flops + 2.0 * 16 * 3 * 50 * 70);
    request.returns = ATTN_RETURN_OUTPUT;
    limits.flops = nextafter(limits.flops, 0);
    refuse_plan(&request, &limits, ATTN_TOO_MUCH_WORK, "", "Send fewer queries or keys");
}
END_TEST

START_TEST(heads_without_width_are_work_too) {
    struct attn_request request = request_sized(1, 1, 1, 200000, 200000, 0, 0);
    const struct attn_limits limits = {SIZE_MAX, 1e11};
    refuse_plan(&request, &limits, ATTN_TOO_MUCH_WORK, "", "Send fewer queries or keys");
}
END_TEST

START_TEST(huge_work_is_counted_without_wrapping) {
    struct attn_request request = request_sized(1, 1, 1, (size_t)1 << 27, (size_t)1 << 60, 0, 0);
    const struct attn_plan plan = plan_of(&request);
    ck_assert(plan.scores_total == 0x1p87);
}
END_TEST

START_TEST(the_kernel_is_the_default_or_the_one_named) {
    struct attn_request request = request_sized(1, 2, 1, 500, 7, 4, 3);
    struct attn_plan plan = plan_of(&request);
    ck_assert_ptr_eq(plan.kernel, attn_kernel_default());
    ck_assert(plan.kernel->prefers == NULL);
    const struct attn_kernel *kernel;
    for (size_t n = 0; (kernel = attn_kernel_at(n)) != NULL; n++) {
        request.kernel = kernel->name;
        if (!kernel->available()) {
            refuse_plan(&request, &NO_LIMITS, ATTN_BAD_VALUE, "/kernel", kernel->name);
            continue;
        }
        plan = plan_of(&request);
        ck_assert_ptr_eq(plan.kernel, kernel);
    }
}
END_TEST

/* Some kernels are chosen for some shapes only, but compute them all. */
START_TEST(a_call_of_few_queries_gets_the_kernel_for_them) {
    struct attn_request few = request_sized(1, 2, 1, 2, 700, 4, 3);
    const struct attn_kernel *decode = attn_kernel_find("decode");
    if (decode == NULL)
        return;
    ck_assert_ptr_eq(plan_of(&few).kernel, decode);
    struct attn_request many = request_sized(1, 2, 1, 200, 700, 4, 3);
    many.kernel = decode->name;
    ck_assert_ptr_eq(plan_of(&many).kernel, decode);
}
END_TEST

/* A preference is no demand: a call that the kernel does not compute goes to another. */
START_TEST(a_preferred_kernel_computes_what_suits_it) {
    const struct attn_kernel *kernel;
    for (size_t n = 0; (kernel = attn_kernel_at(n)) != NULL; n++) {
        struct attn_request request = request_sized(1, 2, 1, 5, 7, 4, 3);
        request.preferred_kernel = kernel->name;
        ck_assert(!kernel->available() || plan_of(&request).kernel == kernel);
        request.precision = ATTN_PRECISION_FLOAT64;
        const struct attn_plan plan = plan_of(&request);
        ck_assert(plan.kernel->available());
        ck_assert(plan.kernel == kernel || !kernel->available() || kernel->float32_only);
        request.kernel = kernel->name;
        if (kernel->available() && plan.kernel != kernel)
            refuse_plan(&request, &NO_LIMITS, ATTN_BAD_VALUE, "/kernel",
                        "computes in float32 alone, and this call is in float64");
    }
}
END_TEST

START_TEST(a_family_names_its_best_kernel) {
    struct attn_request request = request_sized(1, 2, 1, 5, 7, 4, 3);
    const struct attn_kernel *kernel = attn_kernel_find("fused");
    if (kernel == NULL)
        return;
    request.kernel = "fused";
    ck_assert_ptr_eq(plan_of(&request).kernel, kernel);
    ck_assert_int_eq(strncmp(kernel->name, "fused-", 6), 0);
    ck_assert_ptr_null(attn_kernel_find("fuse"));
    ck_assert_ptr_null(attn_kernel_find("fused-"));
}
END_TEST

START_TEST(an_unknown_kernel_is_told_those_there_are) {
    struct attn_request request = request_sized(1, 2, 1, 5, 7, 4, 3);
    request.kernel = "cuda";
    refuse_plan(&request, &NO_LIMITS, ATTN_BAD_VALUE, "/kernel", "no kernel \"cuda\"");
    const struct attn_kernel *kernel;
    for (size_t n = 0; (kernel = attn_kernel_at(n)) != NULL; n++)
        if (kernel->available())
            refuse_plan(&request, &NO_LIMITS, ATTN_BAD_VALUE, "/kernel", kernel->name);
    request.kernel = "";
    refuse_plan(&request, &NO_LIMITS, ATTN_BAD_VALUE, "/kernel", "no kernel \"\"");
}
END_TEST

/* Kernel and tiles decide the bits, so nothing that is only asked for may change them. */
START_TEST(what_is_returned_changes_no_tile) {
    struct attn_request request = request_sized(2, 6, 2, 500, 700, 64, 64);
    const struct attn_plan first = plan_of(&request);
    for (unsigned returns = 1; returns <= EVERYTHING; returns++) {
        request.returns = returns;
        request.map.rows_given = true;
        request.map.rows[1] = 1;
        const struct attn_plan plan = plan_of(&request);
        ck_assert_ptr_eq(plan.kernel, first.kernel);
        ck_assert_uint_eq(plan.grid.row_tile, first.grid.row_tile);
        ck_assert_uint_eq(plan.grid.key_tile, first.grid.key_tile);
        ck_assert_uint_eq(plan.tasks, first.tasks);
        ck_assert_uint_eq(plan.workspace_bytes, first.workspace_bytes);
    }
}
END_TEST

START_TEST(tasks_are_row_tiles_of_key_heads) {
    struct attn_request request;
    for (size_t Tq = 0; Tq <= 300; Tq++) {
        request = request_sized(3, 8, 2, Tq, 40, 8, 8);
        const struct attn_plan plan = plan_of(&request);
        const size_t tile = plan.grid.row_tile;
        ck_assert_uint_eq(plan.row_tiles, (Tq + tile - 1) / tile);
        ck_assert_uint_eq(plan.tasks, 3 * 2 * plan.row_tiles);
    }
    request = request_sized(3, 0, 2, 5, 5, 8, 8);
    ck_assert_uint_eq(plan_of(&request).tasks, 0);
    request = request_sized(0, 8, 2, 5, 5, 8, 8);
    ck_assert_uint_eq(plan_of(&request).tasks, 0);
}
END_TEST

static void name_kernel(struct attn_request *request, int index) {
    const struct attn_kernel *kernel = attn_kernel_at((size_t)index);
    if (kernel != NULL && kernel->available())
        request->kernel = kernel->name;
}

/* Head sizes far beyond any model's leave a worker's workspace at some tens of MiB. */
START_TEST(workspace_stays_bounded) {
    static const size_t groups[] = {1, 8};
    for (size_t n = 0; n < COUNT_OF(groups); n++) {
        struct attn_request request = request_sized(1, groups[n], 1, 300, 300, 100000, 100000);
        name_kernel(&request, _i);
        const struct attn_plan plan = plan_of(&request);
        ck_assert_uint_ge(plan.grid.row_tile, 1);
        ck_assert_uint_ge(plan.grid.key_tile, 1);
        ck_assert_msg(plan.workspace_bytes <= (size_t)64 << 20, "%s needs %zu bytes",
                      plan.kernel->name, plan.workspace_bytes);
        ck_assert_uint_ge(plan.workspace_bytes, groups[n] * plan.grid.row_tile * 100000 * 4);
    }
}
END_TEST

START_TEST(a_row_that_fits_no_workspace_is_refused) {
    struct attn_request request = request_sized(1, (size_t)1 << 20, 1, 1, 1, 1, 4096);
    name_kernel(&request, _i);
    request.returns = ATTN_RETURN_LSE;
    refuse_plan(&request, &NO_LIMITS, ATTN_TOO_MUCH_WORK, "/q",
                "heads that share a key (Hq/Hkv = 1048576)");
}
END_TEST

START_TEST(a_plan_is_one_line) {
    struct attn_plan plan = {.kernel = attn_kernel_find("reference"),
                             .grid = {192, 256},
                             .tasks = 88,
                             .flops = 1.2e9,
                             .workspace_bytes = 419430,
                             .result_bytes = 2 << 20};
    char text[128];
    const char *const whole =
        "reference 192x256, 88 tasks, 1.2 GFLOP, 0.4 MiB workspace, 2.0 MiB result";
    ck_assert_str_eq(attn_plan_text(&plan, text, sizeof text), whole);
    ck_assert_str_eq(attn_plan_text(&plan, text, 10), "reference");
}
END_TEST

static Suite *plan_suite(void) {
    Suite *suite = suite_create("plan");
    int kernels = 0;
    while (attn_kernel_at((size_t)kernels) != NULL)
        kernels++;
    TCase *answer = tcase_create("answer");
    tcase_add_test(answer, answers_have_the_axes_of_q);
    tcase_add_test(answer, a_map_is_as_large_as_its_selection);
    tcase_add_test(answer, only_what_was_asked_for_is_wanted);
    tcase_add_test(answer, maps_are_float32_unless_all_is_double);
    suite_add_tcase(suite, answer);
    TCase *limits = tcase_create("limits");
    tcase_add_test(limits, the_answers_size_is_limited);
    tcase_add_test(limits, a_size_that_wraps_is_refused);
    tcase_add_test(limits, arithmetic_is_counted_and_limited);
    tcase_add_test(limits, heads_without_width_are_work_too);
    tcase_add_test(limits, huge_work_is_counted_without_wrapping);
    suite_add_tcase(suite, limits);
    TCase *tiles = tcase_create("tiles");
    tcase_add_test(tiles, the_kernel_is_the_default_or_the_one_named);
    tcase_add_test(tiles, a_call_of_few_queries_gets_the_kernel_for_them);
    tcase_add_test(tiles, a_preferred_kernel_computes_what_suits_it);
    tcase_add_test(tiles, a_family_names_its_best_kernel);
    tcase_add_test(tiles, an_unknown_kernel_is_told_those_there_are);
    tcase_add_test(tiles, what_is_returned_changes_no_tile);
    tcase_add_test(tiles, tasks_are_row_tiles_of_key_heads);
    tcase_add_loop_test(tiles, workspace_stays_bounded, 0, kernels);
    tcase_add_loop_test(tiles, a_row_that_fits_no_workspace_is_refused, 0, kernels);
    tcase_add_test(tiles, a_plan_is_one_line);
    suite_add_tcase(suite, tiles);
    return suite;
}

ATTN_TEST_MAIN(plan_suite)
