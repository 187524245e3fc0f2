/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kept calls: whatever made up the call is gone when parts of its map are redone, by each kernel,
 * and they have the bits of the answer's; bins, regions, batch items, samples and statistics too.
 */
#include "tests/unit/core/kept_fixture.h"

static void expect_both_batches(const struct keeping *keeping) {
    for (size_t b = 0; b < 2; b++) {
        const struct attn_kept_part part = {.returns = ATTN_RETURN_WEIGHTS | ATTN_RETURN_SCORES,
                                            .batch = b,
                                            .map.stage = ATTN_STAGE_WEIGHTS};
        struct redone redone;
        redo(&redone, keeping->kept, &part);
        expect_batch(&redone, ATTN_RESULT_WEIGHTS, b, keeping->weights);
        expect_batch(&redone, ATTN_RESULT_SCORES, b, keeping->scores);
        redone_close(&redone);
    }
}

START_TEST(a_kept_call_has_the_answers_bits) {
    static const enum attn_dtype dtypes[] = {ATTN_FLOAT32, ATTN_FLOAT64, ATTN_FLOAT16,
                                             ATTN_BFLOAT16};
    static const enum run_form forms[] = {RUN_BHTD, RUN_TURNED, RUN_SPLIT, RUN_BTHD};
    for (size_t which = 0; which < CASE_COUNT; which++)
        for (size_t n = 0; n < COUNT_OF(dtypes); n++) {
            struct executor_case c;
            struct keeping keeping;
            case_open(&c, which, (size_t)_i, dtypes[n], forms[n]);
            keep(&keeping, &c.run, dtypes[n]);
            scribble(&c);
            if (CASES[which] == with_sinks)
                ck_assert(keeping.kept->call.sink[3] == 5);
            expect_both_batches(&keeping);
            keeping_close(&keeping);
            run_close(&c.run);
        }
}
END_TEST

START_TEST(every_stage_can_be_redone) {
    for (int stage = ATTN_STAGE_RAW; stage < ATTN_STAGE_MASKED; stage++) {
        struct executor_case c;
        struct keeping keeping;
        case_open(&c, CASE_COUNT - 1, (size_t)_i, ATTN_FLOAT32, RUN_BHTD);
        c.run.request.map.stage = (enum attn_stage)stage;
        keep(&keeping, &c.run, ATTN_FLOAT32);
        scribble(&c);
        const struct attn_kept_part part = {
            .returns = ATTN_RETURN_WEIGHTS, .batch = 1, .map.stage = (enum attn_stage)stage};
        struct redone redone;
        redo(&redone, keeping.kept, &part);
        expect_batch(&redone, ATTN_RESULT_WEIGHTS, 1, keeping.weights);
        redone_close(&redone);
        keeping_close(&keeping);
        run_close(&c.run);
    }
}
END_TEST

/* Tensors of masks: broadcast, shared by queries and keys, of each batch item its own. */
START_TEST(the_masks_tensors_are_kept) {
    static const int64_t ids[2][90] = {{0, 0, 1, 1, 1, 2}, {3, 3, 3}};
    uint8_t keep_keys[2][90], allow[4][1][90];
    int64_t segments[2][90];
    for (size_t n = 0; n < sizeof allow; n++)
        (&allow[0][0][0])[n] = n % 7 != 3;
    for (size_t n = 0; n < sizeof keep_keys; n++)
        (&keep_keys[0][0])[n] = n % 5 != 0;
    memcpy(segments, ids, sizeof ids);
    struct attn_mask_node nodes[] = {
        {.kind = ATTN_MASK_ALLOW,
         .tensor = attn_tensor_view(allow, ATTN_BOOL, 3, (const size_t[]){4, 1, 90})},
        {.kind = ATTN_MASK_PADDING,
         .tensor = attn_tensor_view(keep_keys, ATTN_BOOL, 2, (const size_t[]){2, 90})},
        {.kind = ATTN_MASK_SEGMENTS,
         .tensor = attn_tensor_view(segments, ATTN_INT64, 2, (const size_t[]){2, 90})},
        {.kind = ATTN_MASK_ALL, .operands = 3}};
    struct executor_case c;
    struct keeping keeping;
    run_open(&c.run, ATTN_FLOAT32, RUN_BHTD, (struct run_sizes){2, 4, 2, 90, 90, 24, 10});
    c.run.request.preferred_kernel = kernel_name((size_t)_i);
    c.run.request.returns = ATTN_RETURN_WEIGHTS | ATTN_RETURN_SCORES;
    c.run.request.mask = (struct attn_mask){nodes, COUNT_OF(nodes)};
    keep(&keeping, &c.run, ATTN_FLOAT32);
    scribble(&c);
    memset(allow, 1, sizeof allow);
    memset(keep_keys, 1, sizeof keep_keys);
    memset(segments, 0, sizeof segments);
    memset(nodes, 0, sizeof nodes);
    expect_both_batches(&keeping);
    keeping_close(&keeping);
    run_close(&c.run);
}
END_TEST

/* Where [1,h,i,j] of the answer's weights is. */
static float weight_at(const struct keeping *keeping, size_t h, size_t i, size_t j) {
    return ((const float *)keeping->weights)[((LONG.Hq + h) * LONG.Tq + i) * LONG.Tk + j];
}

static float largest(const struct keeping *keeping, size_t h, const size_t rows[2],
                     const size_t cols[2]) {
    float best = 0;
    for (size_t i = rows[0]; i < rows[1]; i++)
        for (size_t j = cols[0]; j < cols[1]; j++)
            best = fmaxf(best, weight_at(keeping, h, i, j));
    return best;
}

/* The largest of every bin; where it is sampled, of its middle row. */
static void expect_bins(const struct keeping *keeping, const struct redone *redone, size_t h) {
    const struct attn_call *call = &redone->call;
    const float *bins = redone_data(redone, ATTN_RESULT_WEIGHTS);
    for (size_t r = 0; r < call->pool_rows; r++)
        for (size_t c = 0; c < call->pool_cols; c++) {
            size_t rows[2] = {call->map_row + r * call->map_rows / call->pool_rows,
                              call->map_row + (r + 1) * call->map_rows / call->pool_rows};
            const size_t cols[2] = {call->map_col + c * call->map_cols / call->pool_cols,
                                    call->map_col + (c + 1) * call->map_cols / call->pool_cols};
            if (call->sampled) {
                rows[0] = call->map_row + (rows[0] + rows[1] - 2 * call->map_row) / 2;
                rows[1] = rows[0] + 1;
            }
            const float want = largest(keeping, h, rows, cols);
            /* A sample comes from tiles of fewer rows, for which BLAS may add up in another order.
             */
            const bool right = call->sampled ? run_is_close(*bins, want, 1e-5) : *bins == want;
            ck_assert_msg(right, "bin %zu, %zu of head %zu: %g, not %g", r, c, h, (double)*bins,
                          (double)want);
            bins++;
        }
}

static const struct {
    int64_t head, rows[2], cols[2], bins[2];
} PARTS[] = {
    {0, {0, 270}, {0, 1100}, {16, 16}},  {3, {0, 270}, {0, 1100}, {5, 7}},
    {2, {13, 259}, {41, 1041}, {3, 11}}, {1, {100, 140}, {830, 900}, {40, 70}},
    {3, {269, 270}, {0, 1100}, {1, 9}},
};

START_TEST(a_part_of_a_head_is_what_the_answer_holds) {
    struct executor_case c;
    struct keeping keeping;
    open_long(&c, (size_t)_i);
    keep(&keeping, &c.run, ATTN_FLOAT32);
    scribble(&c);
    for (size_t n = 0; n < 2 * COUNT_OF(PARTS); n++) {
        struct attn_kept_part part = {
            .returns = ATTN_RETURN_WEIGHTS, .batch = 1, .sampled = n % 2 != 0};
        struct attn_map_selection *map = &part.map;
        map->stage = ATTN_STAGE_WEIGHTS;
        map->heads = (struct attn_int_list){&PARTS[n / 2].head, 1};
        map->rows_given = map->cols_given = map->pool_given = true;
        memcpy(map->rows, PARTS[n / 2].rows, sizeof map->rows);
        memcpy(map->cols, PARTS[n / 2].cols, sizeof map->cols);
        map->pool_rows = PARTS[n / 2].bins[0];
        map->pool_cols = PARTS[n / 2].bins[1];
        struct redone redone;
        redo(&redone, keeping.kept, &part);
        expect_bins(&keeping, &redone, (size_t)PARTS[n / 2].head);
        redone_close(&redone);
    }
    keeping_close(&keeping);
    run_close(&c.run);
}
END_TEST

START_TEST(statistics_are_the_answers) {
    struct executor_case c;
    struct keeping keeping;
    open_long(&c, (size_t)_i);
    c.run.request.returns |= ATTN_RETURN_STATS;
    keep(&keeping, &c.run, ATTN_FLOAT32);
    const struct attn_kept_part part = {.returns = ATTN_RETURN_STATS};
    struct redone redone;
    redo(&redone, keeping.kept, &part);
    ck_assert_mem_eq(redone_data(&redone, ATTN_RESULT_STATS),
                     c.run.result.tensors[ATTN_RESULT_STATS].data,
                     c.run.result.tensors[ATTN_RESULT_STATS].bytes);
    redone_close(&redone);
    keeping_close(&keeping);
    run_close(&c.run);
}
END_TEST

/* What was kept in half the bytes gives nearly the same. */
START_TEST(a_narrower_copy_is_near) {
    struct executor_case c;
    struct keeping keeping;
    case_open(&c, CASE_COUNT - 1, (size_t)_i, ATTN_FLOAT32, RUN_BHTD);
    keep(&keeping, &c.run, ATTN_FLOAT16);
    ck_assert_uint_lt(attn_kept_bytes(&c.run.call, &c.run.plan, ATTN_FLOAT16),
                      attn_kept_bytes(&c.run.call, &c.run.plan, ATTN_FLOAT32));
    ck_assert_int_eq(keeping.kept->given_dtype, ATTN_FLOAT32);
    const struct attn_kept_part part = {.returns = ATTN_RETURN_WEIGHTS,
                                        .map.stage = ATTN_STAGE_WEIGHTS};
    struct redone redone;
    redo(&redone, keeping.kept, &part);
    const float *got = redone_data(&redone, ATTN_RESULT_WEIGHTS), *want = keeping.weights;
    for (size_t n = 0; n < 4 * 40 * 90; n++)
        ck_assert(run_is_close(got[n], want[n], 1e-2));
    redone_close(&redone);
    keeping_close(&keeping);
    run_close(&c.run);
}
END_TEST

/* Rows are redone from what was kept, for statistics too, whatever made up the call. */
START_TEST(a_narrower_copys_rows_are_its_own) {
    for (size_t which = 0; which < CASE_COUNT; which++) {
        struct executor_case c;
        struct keeping keeping;
        struct redone redone, part;
        case_open(&c, which, (size_t)_i, ATTN_FLOAT32, RUN_BHTD);
        keep(&keeping, &c.run, ATTN_FLOAT16);
        scribble(&c);
        const struct attn_kept_part whole = {.returns = ATTN_RETURN_WEIGHTS | ATTN_RETURN_STATS,
                                             .map.stage = ATTN_STAGE_WEIGHTS};
        redo(&redone, keeping.kept, &whole);
        const float *all = redone_data(&redone, ATTN_RESULT_WEIGHTS);
        for (size_t row = 0; row < 4 * 40; row++) {
            double sum = 0;
            for (size_t j = 0; j < 90; j++)
                sum += (double)all[row * 90 + j];
            ck_assert(sum < 1 + 1e-5);
        }
        const struct attn_kept_part rows = {
            .returns = ATTN_RETURN_WEIGHTS,
            .map = {.stage = ATTN_STAGE_WEIGHTS, .rows_given = true, .rows = {17, 19}}};
        redo(&part, keeping.kept, &rows);
        const float *some = redone_data(&part, ATTN_RESULT_WEIGHTS);
        for (size_t h = 0; h < 4; h++)
            for (size_t n = 0; n < 2 * 90; n++)
                ck_assert(run_is_close(some[h * 2 * 90 + n], all[(h * 40 + 17) * 90 + n], 1e-5));
        redone_close(&part);
        redone_close(&redone);
        keeping_close(&keeping);
        run_close(&c.run);
    }
}
END_TEST

static void set_row(struct executor_case *c, size_t operand, size_t row, float value) {
    float *at = (float *)c->run.operands[operand] + row * c->run.sizes.D;
    for (size_t d = 0; d < c->run.sizes.D; d++)
        at[d] = d == 1 ? value : 0;
}

/* What overflows, or is so small that it loses digits, is not narrowed. */
START_TEST(float16_is_for_what_it_holds) {
    static const struct {
        float value;
        bool fits;
    } rows[] = {{0, true},      {65519, true},    {-65520, false}, {1e-4F, true},
                {6e-5F, false}, {0x1p-14F, true}, {NAN, true},     {-INFINITY, true}};
    for (size_t operand = 0; operand < 2; operand++)
        for (size_t n = 0; n < COUNT_OF(rows); n++) {
            struct executor_case c;
            case_open(&c, 0, 0, ATTN_FLOAT32, RUN_BHTD);
            set_row(&c, operand, 7, rows[n].value);
            run_plan(&c.run);
            ck_assert_int_eq(attn_kept_half(&c.run.call),
                             rows[n].fits ? ATTN_FLOAT16 : ATTN_FLOAT32);
            run_close(&c.run);
        }
    static const enum attn_dtype dtypes[] = {ATTN_FLOAT64, ATTN_BFLOAT16, ATTN_FLOAT16};
    for (size_t n = 0; n < COUNT_OF(dtypes); n++) {
        struct executor_case c;
        case_open(&c, 0, 0, dtypes[n], RUN_TURNED);
        run_plan(&c.run);
        ck_assert_int_eq(attn_kept_half(&c.run.call), n == 0 ? ATTN_FLOAT16 : dtypes[n]);
        run_close(&c.run);
    }
}
END_TEST

START_TEST(a_part_costs_what_it_holds) {
    static const int64_t head = 1;
    static const struct attn_limits limits = {SIZE_MAX, INFINITY};
    struct executor_case c;
    struct keeping keeping;
    struct redone whole, part;
    struct attn_error error = {.status = ATTN_OK};
    open_long(&c, 0);
    keep(&keeping, &c.run, ATTN_FLOAT32);
    struct attn_kept_part wanted = {.returns = ATTN_RETURN_WEIGHTS,
                                    .map.stage = ATTN_STAGE_WEIGHTS};
    attn_kept_select(keeping.kept, &wanted, &whole.call, &error);
    attn_plan_make(&whole.call, &limits, &whole.plan, &whole.result, &error);
    wanted.map.heads = (struct attn_int_list){&head, 1};
    wanted.map.rows_given = true;
    wanted.map.rows[1] = 27;
    attn_kept_select(keeping.kept, &wanted, &part.call, &error);
    attn_plan_make(&part.call, &limits, &part.plan, &part.result, &error);
    ck_assert(whole.plan.flops < c.run.plan.flops);
    ck_assert(run_is_close(part.plan.flops * 40, whole.plan.flops, 1e-9));
    ck_assert(part.plan.work < 0.2 * whole.plan.work);
    keeping_close(&keeping);
    run_close(&c.run);
}
END_TEST

START_TEST(what_there_is_not_is_refused) {
    struct executor_case c;
    struct keeping keeping;
    struct attn_call call;
    struct attn_error error = {.status = ATTN_OK};
    case_open(&c, 0, 0, ATTN_FLOAT32, RUN_BHTD);
    keep(&keeping, &c.run, ATTN_FLOAT32);
    struct attn_kept_part part = {.returns = ATTN_RETURN_WEIGHTS, .batch = 2};
    ck_assert_int_eq(attn_kept_select(keeping.kept, &part, &call, &error), ATTN_BAD_VALUE);
    ck_assert_str_eq(error.pointer, "/batch");
    part.batch = 0;
    part.map.rows_given = true;
    part.map.rows[1] = 41;
    ck_assert_int_eq(attn_kept_select(keeping.kept, &part, &call, &error), ATTN_BAD_VALUE);
    keeping_close(&keeping);
    run_close(&c.run);
}
END_TEST

START_TEST(what_is_not_wanted_any_more_ends) {
    struct executor_case c;
    struct keeping keeping;
    struct redone redone;
    const atomic_bool cancelled = true;
    const struct attn_checkpoint checkpoint = {.cancelled = &cancelled};
    case_open(&c, 0, 0, ATTN_FLOAT32, RUN_BHTD);
    keep(&keeping, &c.run, ATTN_FLOAT32);
    const struct attn_kept_part part = {.returns = ATTN_RETURN_WEIGHTS,
                                        .map.stage = ATTN_STAGE_WEIGHTS};
    redo(&redone, keeping.kept, &part);
    void *memory = redo_memory(&redone.plan);
    ck_assert(!attn_kept_redo(&redone.call, &redone.plan, &redone.result, memory, &checkpoint));
    free(memory);
    redone_close(&redone);
    keeping_close(&keeping);
    run_close(&c.run);
}
END_TEST

/* Whatever its answer showed of the map, a part is what it is asked to be. */
START_TEST(a_part_has_nothing_of_what_the_answer_showed) {
    struct executor_case c;
    struct keeping keeping;
    struct redone redone;
    const struct attn_kept_part part = {.returns = ATTN_RETURN_WEIGHTS};
    case_open(&c, 0, (size_t)_i, ATTN_FLOAT32, RUN_BHTD);
    c.run.request.returns = ATTN_RETURN_WEIGHTS;
    c.run.request.map.top_k_given = true;
    c.run.request.map.top_k = 1;
    keep(&keeping, &c.run, ATTN_FLOAT32);
    redo(&redone, keeping.kept, &part);
    ck_assert(redone.result.tensors[ATTN_RESULT_WEIGHTS].wanted);
    ck_assert(!redone.result.tensors[ATTN_RESULT_TOP_K_WEIGHTS].wanted);
    ck_assert(!redone.result.tensors[ATTN_RESULT_TOP_K_INDICES].wanted);
    redone_close(&redone);
    keeping_close(&keeping);
    run_close(&c.run);
}
END_TEST

static Suite *kept_suite(void) {
    Suite *suite = suite_create("kept");
    TCase *kernels = tcase_create("kernels");
    TCase *calls = tcase_create("calls");
    const int count = kernel_count();
    tcase_set_timeout(kernels, 120);
    tcase_add_loop_test(kernels, a_kept_call_has_the_answers_bits, 0, count);
    tcase_add_loop_test(kernels, every_stage_can_be_redone, 0, count);
    tcase_add_loop_test(kernels, the_masks_tensors_are_kept, 0, count);
    tcase_add_loop_test(kernels, a_part_of_a_head_is_what_the_answer_holds, 0, count);
    tcase_add_loop_test(kernels, statistics_are_the_answers, 0, count);
    tcase_add_loop_test(kernels, a_narrower_copy_is_near, 0, count);
    tcase_add_loop_test(kernels, a_narrower_copys_rows_are_its_own, 0, count);
    tcase_add_loop_test(kernels, a_part_has_nothing_of_what_the_answer_showed, 0, count);
    tcase_add_test(calls, float16_is_for_what_it_holds);
    tcase_add_test(calls, a_part_costs_what_it_holds);
    tcase_add_test(calls, what_there_is_not_is_refused);
    tcase_add_test(calls, what_is_not_wanted_any_more_ends);
    suite_add_tcase(suite, kernels);
    suite_add_tcase(suite, calls);
    return suite;
}

ATTN_TEST_MAIN(kept_suite)
