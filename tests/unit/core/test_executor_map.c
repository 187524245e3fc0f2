/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of maps: a region or a list of heads has the full map's bits, costs only the tasks and
 * tiles it touches, and tiles that are known to be hidden are not computed.
 */
#include "tests/unit/core/executor_cases.h"

static const struct run_sizes SIZES = {
    .B = 2, .Hq = 4, .Hkv = 2, .Tq = 270, .Tk = 530, .D = 5, .Dv = 2};
static struct attn_mask_node causal;

/* A call whose rows and keys cross tiles; rows see keys up to 260 beyond their own. */
static void open_long(struct run *run, size_t kernel, bool masked) {
    run_open(run, ATTN_FLOAT32, RUN_BHTD, SIZES);
    causal = (struct attn_mask_node)CAUSAL(BOTTOM_RIGHT);
    run->request.preferred_kernel = kernel_name(kernel);
    run->request.mask = (struct attn_mask){&causal, masked};
    run->request.returns = ATTN_RETURN_WEIGHTS | ATTN_RETURN_SCORES;
}

static void select_region(struct run *run, const int64_t region[4]) {
    struct attn_map_selection *map = &run->request.map;
    map->rows_given = map->cols_given = true;
    memcpy(map->rows, region, sizeof map->rows);
    memcpy(map->cols, region + 2, sizeof map->cols);
}

static float map_at(const void *map, size_t index) {
    return ((const float *)map)[index];
}

/* Every element of the part, against the element of the whole that it is. */
static void expect_part(const struct run *part, enum attn_result_name name, const void *whole) {
    const struct attn_call *call = &part->call;
    const void *data = part->result.tensors[name].data;
    size_t at = 0;
    for (size_t b = 0; b < call->B; b++)
        for (size_t slot = 0; slot < call->map_head_count; slot++) {
            const size_t h = call->map_heads ? (size_t)call->map_heads[slot] : slot;
            for (size_t i = call->map_row; i < call->map_row + call->map_rows; i++)
                for (size_t j = call->map_col; j < call->map_col + call->map_cols; j++, at++) {
                    const size_t from = ((b * call->Hq + h) * call->Tq + i) * call->Tk + j;
                    const float got = map_at(data, at), want = map_at(whole, from);
                    if (memcmp(&got, &want, sizeof got) != 0)
                        ck_abort_msg("[%zu,%zu,%zu,%zu] is %.9g, not %.9g", b, h, i, j, (double)got,
                                     (double)want);
                }
        }
    ck_assert_uint_eq(at, run_count(part, name));
}

static const int64_t REGIONS[][4] = {
    {0, 270, 0, 530},  {17, 18, 33, 34},     {269, 270, 529, 530},
    {0, 1, 0, 1},      {100, 230, 65, 300},  {5, 5, 0, 530},
    {3, 40, 260, 260}, {270, 270, 530, 530}, {0, 270, 511, 513},
};

START_TEST(a_region_has_the_full_maps_bits) {
    const size_t kernel = (size_t)_i / 2;
    struct run run;
    for (int stage = ATTN_STAGE_RAW; stage <= ATTN_STAGE_WEIGHTS; stage += 2) {
        open_long(&run, kernel, _i % 2 != 0);
        run.request.map.stage = (enum attn_stage)stage;
        run_all(&run);
        ck_assert_uint_gt(run.plan.row_tiles, 1);
        ck_assert_uint_lt(run.plan.grid.key_tile, 530);
        void *weights = run_copy(&run, ATTN_RESULT_WEIGHTS);
        void *scores = run_copy(&run, ATTN_RESULT_SCORES);
        for (size_t n = 0; n < COUNT_OF(REGIONS); n++) {
            run_reset(&run);
            select_region(&run, REGIONS[n]);
            run_all(&run);
            expect_part(&run, ATTN_RESULT_WEIGHTS, weights);
            expect_part(&run, ATTN_RESULT_SCORES, scores);
        }
        run_close(&run);
        free(weights);
        free(scores);
    }
}
END_TEST

/* Any order, again, none; together with a region. */
START_TEST(heads_come_in_the_order_of_the_list) {
    static const int64_t lists[][5] = {{3, 1, 0, 2}, {2, 2, 1, 1, 2}, {1}, {0}};
    static const size_t counts[] = {4, 5, 1, 0};
    struct run run;
    open_long(&run, (size_t)_i, true);
    run_all(&run);
    void *weights = run_copy(&run, ATTN_RESULT_WEIGHTS);
    for (size_t n = 0; n < COUNT_OF(counts); n++) {
        run_reset(&run);
        run.request.map.heads = (struct attn_int_list){lists[n], counts[n]};
        select_region(&run, REGIONS[4]);
        run_all(&run);
        expect_part(&run, ATTN_RESULT_WEIGHTS, weights);
    }
    run_close(&run);
    free(weights);
}
END_TEST

/* How many tasks compute anything when run one by one. */
static size_t working_tasks(struct run *run) {
    size_t working = 0;
    for (size_t index = 0; index < run->plan.tasks; index++) {
        const uint64_t before = atomic_load(&run->result.scores_computed);
        run_task(run, index);
        working += atomic_load(&run->result.scores_computed) != before;
    }
    return working;
}

/* A cell of one head: one row tile of one key/value head, for each batch item. */
START_TEST(tasks_outside_of_the_region_do_nothing) {
    static const int64_t head = 3;
    struct run run;
    open_long(&run, (size_t)_i, false);
    run.request.map.heads = (struct attn_int_list){&head, 1};
    select_region(&run, REGIONS[1]);
    run_plan(&run);
    ck_assert_uint_gt(run.plan.tasks, 4);
    ck_assert_uint_eq(working_tasks(&run), SIZES.B);
    run_reset(&run);

    select_region(&run, REGIONS[5]);
    run_plan(&run);
    ck_assert_uint_eq(working_tasks(&run), 0);
    run_reset(&run);
    run.request.map.heads.count = 0;
    select_region(&run, REGIONS[0]);
    run_plan(&run);
    ck_assert_uint_eq(working_tasks(&run), 0);
    run_reset(&run);

    run.request.returns |= ATTN_RETURN_LSE;
    run_plan(&run);
    ck_assert_uint_eq(working_tasks(&run), run.plan.tasks);
    run_close(&run);
}
END_TEST

/* A task writes its own rows and no others. */
START_TEST(a_task_leaves_other_rows_alone) {
    struct run run;
    open_long(&run, (size_t)_i, true);
    run.request.returns = RUN_EVERYTHING;
    run_plan(&run);
    run_task(&run, run.plan.row_tiles - 1); /* the first rows of the first item and head group */
    const size_t rows = run.plan.grid.row_tile;
    for (unsigned name = 0; name < ATTN_RESULT_COUNT; name++) {
        const struct attn_result_tensor *tensor = &run.result.tensors[name];
        if (!tensor->wanted)
            continue;
        const unsigned char *bytes = tensor->data;
        const size_t row = tensor->bytes / (SIZES.B * SIZES.Hq * SIZES.Tq);
        for (size_t n = 0; n < SIZES.B * SIZES.Hq * SIZES.Tq; n++) {
            bool untouched = true;
            for (size_t byte = 0; byte < row; byte++)
                untouched = untouched && bytes[n * row + byte] == RUN_UNTOUCHED;
            const bool own = n / SIZES.Tq < 2 && n % SIZES.Tq < rows;
            if (untouched == own)
                ck_abort_msg("row %zu of %s", n, attn_result_tensor_name(name));
        }
    }
    run_close(&run);
}
END_TEST

/* A kernel that counts the tiles it is asked for, and is otherwise the one beneath. */
static const struct attn_kernel *beneath;
static size_t tiles_computed;

static void (*walk_block)(void *, size_t, size_t, enum attn_tile_class);

static void count_block(void *closure, size_t key, size_t keys, enum attn_tile_class class) {
    tiles_computed += class != ATTN_TILE_EMPTY;
    walk_block(closure, key, keys, class);
}

static bool count_walk(const struct attn_task *task, void *workspace,
                       const struct attn_walk *walk) {
    struct attn_walk counted = *walk;
    walk_block = walk->block;
    counted.block = count_block;
    return beneath->walk(task, workspace, &counted);
}

static void count_scores(const struct attn_task *task, void *workspace,
                         const struct attn_score_block *block) {
    tiles_computed++;
    beneath->scores(task, workspace, block);
}

static size_t visible_tiles(const struct run *run) {
    const struct attn_grid *grid = &run->plan.grid;
    size_t visible = 0;
    for (size_t row = 0; row < SIZES.Tq; row += grid->row_tile)
        for (size_t key = 0; key < SIZES.Tk; key += grid->key_tile) {
            const size_t last = row + grid->row_tile < SIZES.Tq ? row + grid->row_tile : SIZES.Tq;
            visible += key <= last - 1 + SIZES.Tk - SIZES.Tq;
        }
    return visible * SIZES.B * SIZES.Hkv;
}

static size_t tiles_for_map(struct run *run, enum attn_stage stage) {
    run->request.returns = ATTN_RETURN_WEIGHTS;
    run->request.map.stage = stage;
    run_plan(run);
    struct attn_kernel counting = *run->plan.kernel;
    beneath = run->plan.kernel;
    counting.scores = count_scores;
    counting.walk = beneath->walk == NULL ? NULL : count_walk;
    run->plan.kernel = &counting;
    tiles_computed = 0;
    for (size_t index = 0; index < run->plan.tasks; index++)
        run_task(run, index);
    run->plan.kernel = beneath;
    return tiles_computed;
}

START_TEST(hidden_tiles_are_not_computed) {
    struct run run;
    open_long(&run, (size_t)_i, true);
    const size_t raw = tiles_for_map(&run, ATTN_STAGE_RAW);
    const size_t visible = visible_tiles(&run);
    ck_assert_uint_lt(visible, raw);
    run_reset(&run);
    ck_assert_uint_eq(tiles_for_map(&run, ATTN_STAGE_WEIGHTS), visible);
    run_reset(&run);
    ck_assert_uint_eq(tiles_for_map(&run, ATTN_STAGE_MASKED), visible);
    run_close(&run);
}
END_TEST

/* The same mask as a tensor, in which kernels need not find hidden tiles: the bits are those of the
 * filled ones all the same. */
START_TEST(filled_tiles_have_the_bits_of_computed_ones) {
    static unsigned char seen[270 * 530];
    struct attn_mask_node allow = {.kind = ATTN_MASK_ALLOW, .pointer = "/mask"};
    struct run filled, computed;
    for (size_t n = 0; n < sizeof seen; n++)
        seen[n] = n % 530 <= n / 530 + 260;
    allow.tensor = attn_tensor_view(seen, ATTN_BOOL, 2, (const size_t[]){270, 530});
    open_long(&filled, (size_t)_i, true);
    open_long(&computed, (size_t)_i, false);
    computed.request.mask = (struct attn_mask){&allow, 1};
    for (int stage = ATTN_STAGE_MASKED; stage <= ATTN_STAGE_WEIGHTS; stage++) {
        ck_assert_uint_le(tiles_for_map(&filled, (enum attn_stage)stage),
                          tiles_for_map(&computed, (enum attn_stage)stage));
        const struct attn_result_tensor *map = &filled.result.tensors[ATTN_RESULT_WEIGHTS];
        const float *want = computed.result.tensors[ATTN_RESULT_WEIGHTS].data;
        for (size_t n = 0; n < run_count(&filled, ATTN_RESULT_WEIGHTS); n++)
            if (!seen[n % sizeof seen] && memcmp((float *)map->data + n, want + n, 4) != 0)
                ck_abort_msg("element %zu", n);
        run_reset(&filled);
        run_reset(&computed);
        allow.tensor = attn_tensor_view(seen, ATTN_BOOL, 2, (const size_t[]){270, 530});
    }
    run_close(&filled);
    run_close(&computed);
}
END_TEST

/* A mask that differs between heads hides a tile only where every head of the group is hidden. */
START_TEST(heads_that_differ_are_asked_one_by_one) {
    static const unsigned char shown[4] = {1, 0, 1, 1};
    const struct attn_mask_node allow = {
        .kind = ATTN_MASK_ALLOW,
        .tensor = attn_tensor_view(shown, ATTN_BOOL, 3, (const size_t[]){4, 1, 1}),
        .pointer = "/mask/1"};
    struct run run;
    open_long(&run, (size_t)_i, false);
    struct attn_mask_node nodes[] = {CAUSAL(BOTTOM_RIGHT), allow, JOIN(ALL, 2)};
    run.request.mask = (struct attn_mask){nodes, 3};
    ck_assert_uint_eq(tiles_for_map(&run, ATTN_STAGE_WEIGHTS), visible_tiles(&run));
    struct run_expected expected = run_expect(&run);
    for (size_t n = 0; n < run_count(&run, ATTN_RESULT_WEIGHTS); n++)
        if (!run_is_close(run_at(&run, ATTN_RESULT_WEIGHTS, n),
                          expected.stage[ATTN_STAGE_WEIGHTS][n], 1e-5))
            ck_abort_msg("element %zu", n);
    run_expected_close(&expected);
    run_close(&run);
}
END_TEST

START_TEST(a_cancelled_task_ends) {
    static const atomic_bool cancelled = true;
    const struct attn_checkpoint checkpoint = {.cancelled = &cancelled};
    struct run run;
    void *workspace = NULL;
    open_long(&run, (size_t)_i, true);
    run.request.returns = RUN_EVERYTHING;
    run_plan(&run);
    ck_assert_int_eq(posix_memalign(&workspace, 64, run.plan.workspace_bytes), 0);
    memset(workspace, 0, run.plan.workspace_bytes);
    struct attn_heads *heads = run_heads(&run, 1);
    for (size_t index = 0; index < run.plan.tasks; index++)
        attn_execute_task(&run.call, &run.plan, &run.result, heads, index, workspace, &checkpoint);
    run_heads_close(heads);
    ck_assert_uint_eq(atomic_load(&run.result.scores_computed), 0);
    ck_assert(!atomic_load(&run.result.non_finite));
    free(workspace);
    run_close(&run);
}
END_TEST

static Suite *executor_map_suite(void) {
    attn_start(); /* one thread in OpenBLAS, as in a process that serves */
    Suite *suite = suite_create("executor_map");
    const int kernels = kernel_count();
    TCase *parts = tcase_create("parts");
    tcase_set_timeout(parts, 60);
    tcase_add_loop_test(parts, a_region_has_the_full_maps_bits, 0, kernels * 2);
    tcase_add_loop_test(parts, heads_come_in_the_order_of_the_list, 0, kernels);
    suite_add_tcase(suite, parts);
    TCase *work = tcase_create("work");
    tcase_set_timeout(work, 60);
    tcase_add_loop_test(work, tasks_outside_of_the_region_do_nothing, 0, kernels);
    tcase_add_loop_test(work, a_task_leaves_other_rows_alone, 0, kernels);
    tcase_add_loop_test(work, hidden_tiles_are_not_computed, 0, kernels);
    tcase_add_loop_test(work, filled_tiles_have_the_bits_of_computed_ones, 0, kernels);
    tcase_add_loop_test(work, heads_that_differ_are_asked_one_by_one, 0, kernels);
    tcase_add_loop_test(work, a_cancelled_task_ends, 0, kernels);
    suite_add_tcase(suite, work);
    return suite;
}

ATTN_TEST_MAIN(executor_map_suite)
