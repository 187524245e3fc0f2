/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of turns: right to the last bits at any position, the same for a position wherever it
 * stands in a table, in memory of exactly their size. And what must be refused, with its place.
 */
#include "core/rope.h"

#include <float.h>
#include <math.h>

#include "core/heads.h"
#include "core/plan.h"
#include "tests/support/request_builder.h"

/* A request of Tq = Tk rows with two pairs of this frequency. */
static struct attn_request roped(size_t T, const double frequency[2]) {
    struct attn_request request = request_sized(1, 1, 1, T, T, 4, 1);
    request.rope.given = true;
    request.rope.inv_freq = (struct attn_real_list){frequency, 2};
    return request;
}

static void *memory_for(const struct attn_call *call, size_t real) {
    const size_t bytes = attn_rotation_bytes(call, real);
    void *memory = NULL;
    ck_assert_int_eq(posix_memalign(&memory, 64, bytes), 0);
    memset(memory, 0xff, bytes);
    return memory;
}

/* cos and sin of the exact product, computed with 80 digits. */
static const struct {
    int64_t position;
    double frequency, cosine, sine;
} EXACT[] = {
    {1, 1.0, 0.5403023058681398, 0.8414709848078965},
    {-7, 0.1, 0.7648421872844884, -0.6442176872376911},
    {1000, 0.1, 0.8623188722876868, -0.506365641109754},
    {123456789, 0.31622776601683794, 0.8742400645745864, -0.485493882034185},
    {2147483653, 0.01, -0.7535905360615046, 0.6573441290211195},
    {1099511627775, 1.0, -0.8352275032659359, 0.5499045533437155},
    {9007199254740989, 0.7498942093324559, 0.583658451579281, 0.8119992684110473},
    {9007199254740992, 1.0, -0.5285117844130887, -0.848925964814655},
    {-9007199254740992, 0.1, -0.9867831107435739, -0.16204657463592181},
    {9007199254740961, 0.0001, -0.9152927401966388, -0.40278927461307645},
};

/* Six roundings of numbers below 1 in double; and in float, that error rounded once. */
START_TEST(turns_are_right_at_any_position) {
    const double frequency[2] = {EXACT[_i].frequency, 0};
    struct attn_request request = roped(1, frequency);
    request.rope.q_offset = INTS(EXACT[_i].position);
    request.rope.k_offset = EXACT[_i].position;
    struct attn_call call = accept_request(&request);
    void *wide = memory_for(&call, sizeof(double)), *narrow = memory_for(&call, sizeof(float));
    const struct attn_rotation d = attn_rotation_make(&call, sizeof(double), wide);
    const struct attn_rotation f = attn_rotation_make(&call, sizeof(float), narrow);
    const double *const rows[] = {d.q, d.k};
    const float *const narrow_rows[] = {f.q, f.k};
    for (size_t n = 0; n < 2; n++) {
        ck_assert(fabs(rows[n][0] - EXACT[_i].cosine) <= 3 * DBL_EPSILON);
        ck_assert(fabs(rows[n][2] - EXACT[_i].sine) <= 3 * DBL_EPSILON);
        ck_assert(narrow_rows[n][0] == (float)rows[n][0]);
        ck_assert(narrow_rows[n][2] == (float)rows[n][2]);
        ck_assert(rows[n][1] == 1 && rows[n][3] == 0);
    }
    free(wide);
    free(narrow);
    attn_call_close(&call);
}
END_TEST

/* Rows 0 to 99 from -70, and those from -70 + 13 on: what both hold has the same bits. */
START_TEST(a_position_has_its_turns_wherever_it_stands) {
    static const double frequency[2] = {0.9, 0.0314};
    struct attn_request request = roped(100, frequency);
    request.rope.q_offset = INTS(-70);
    request.rope.k_offset = -57;
    struct attn_call call = accept_request(&request);
    void *memory = memory_for(&call, sizeof(double));
    const struct attn_rotation made = attn_rotation_make(&call, sizeof(double), memory);
    ck_assert_int_eq(memcmp((const double *)made.q + 4 * 13, made.k, 4 * 87 * sizeof(double)), 0);
    free(memory);
    attn_call_close(&call);
}
END_TEST

START_TEST(batch_items_have_tables_of_their_own) {
    struct attn_request request = request_sized(2, 1, 1, 3, 5, 4, 1);
    request.rope.given = true;
    request.rope.q_offset = INTS(0, 4);
    struct attn_call call = accept_request(&request);
    void *memory = memory_for(&call, sizeof(float));
    const struct attn_rotation made = attn_rotation_make(&call, sizeof(float), memory);
    const float *q = made.q, *k = made.k;
    ck_assert_uint_eq(made.q_step, 3);
    ck_assert_int_eq(memcmp(q, k, 4 * 3 * sizeof *q), 0);
    ck_assert_int_eq(memcmp(q + 4 * 3, k + 4 * 4, 4 * sizeof *q), 0);
    free(memory);
    attn_call_close(&call);
}
END_TEST

START_TEST(theta_is_its_frequencies) {
    static double frequency[8];
    for (size_t n = 0; n < 8; n++)
        frequency[n] = pow(500000.0, -2.0 * (double)n / 16.0);
    struct attn_request given = request_sized(1, 1, 1, 40, 40, 20, 1);
    given.rope = (struct attn_rope_request){
        .given = true, .dims_given = true, .dims = 16, .inv_freq = {frequency, 8}};
    struct attn_request derived = given;
    derived.rope.inv_freq = (struct attn_real_list){NULL, 0};
    derived.rope.theta_given = true;
    derived.rope.theta = 500000;
    struct attn_call calls[] = {accept_request(&given), accept_request(&derived)};
    void *memory[2];
    struct attn_rotation made[2];
    for (size_t n = 0; n < 2; n++) {
        memory[n] = memory_for(&calls[n], sizeof(double));
        made[n] = attn_rotation_make(&calls[n], sizeof(double), memory[n]);
    }
    ck_assert_int_eq(memcmp(made[0].q, made[1].q, 40 * 16 * sizeof(double)), 0);
    ck_assert_int_eq(memcmp(made[0].k, made[1].k, 40 * 16 * sizeof(double)), 0);
    for (size_t n = 0; n < 2; n++) {
        free(memory[n]);
        attn_call_close(&calls[n]);
    }
}
END_TEST

/* The plan counts the tables, and the heads have them. */
START_TEST(plans_charge_the_tables) {
    static const struct attn_limits limits = {SIZE_MAX, INFINITY};
    struct attn_request request = request_sized(2, 2, 2, 300, 300, 64, 8);
    struct attn_plan plain, roped_plan;
    struct attn_result result;
    struct attn_error error = {.status = ATTN_OK};
    struct attn_call call = accept_request(&request);
    ck_assert_int_eq(attn_plan_make(&call, &limits, &plain, &result, &error), ATTN_OK);
    ck_assert_uint_eq(plain.rotation_bytes, 0);
    attn_call_close(&call);
    request.rope.given = true;
    call = accept_request(&request);
    ck_assert_int_eq(attn_plan_make(&call, &limits, &roped_plan, &result, &error), ATTN_OK);
    ck_assert_uint_ge(roped_plan.rotation_bytes, 2 * 300 * 64 * sizeof(float));
    ck_assert_uint_eq(attn_heads_bytes(&roped_plan, 2) - attn_heads_bytes(&plain, 2),
                      roped_plan.rotation_bytes);
    ck_assert(roped_plan.work > plain.work);
    attn_call_close(&call);
}
END_TEST

/* No batch item, no tables, however long the keys would be. */
START_TEST(nothing_to_turn_costs_nothing) {
    static const struct attn_limits limits = {SIZE_MAX, 1e6};
    struct attn_request request = request_sized(0, 2, 2, 300, (size_t)1 << 40, 64, 8);
    struct attn_plan plan;
    struct attn_result result;
    struct attn_error error = {.status = ATTN_OK};
    request.rope.given = true;
    request.q_offset = INTS(0);
    struct attn_call call = accept_request(&request);
    ck_assert_int_eq(attn_plan_make(&call, &limits, &plan, &result, &error), ATTN_OK);
    ck_assert_uint_eq(plan.rotation_bytes, 0);
    attn_call_close(&call);
}
END_TEST

START_TEST(defaults_are_those_of_the_call) {
    struct attn_request request = request_sized(2, 1, 1, 3, 5, 6, 1);
    request.q_offset = INTS(2, 9);
    request.rope.given = true;
    struct attn_call call = accept_request(&request);
    ck_assert_uint_eq(call.rope.dims, 6);
    ck_assert(call.rope.theta == 10000 && call.rope.inv_freq == NULL && !call.rope.interleaved);
    ck_assert_uint_eq(call.rope.q_offset_count, 2);
    ck_assert(call.rope.q_offset[0] == 2 && call.rope.q_offset[1] == 9);
    ck_assert_int_eq(call.rope.k_offset, 0);
    attn_call_close(&call);
    request.q_offset = (struct attn_int_list){NULL, 0};
    request.mask = PROGRAM(CAUSAL(BOTTOM_RIGHT));
    call = accept_request(&request);
    ck_assert_int_eq(call.rope.q_offset[0], 2);
    attn_call_close(&call);
}
END_TEST

/* Its own q_offset is enough for rope, and not for a mask beside it. */
START_TEST(rope_needs_a_position) {
    struct attn_request request = request_sized(1, 1, 1, 3, 5, 6, 1);
    request.rope.given = true;
    refuse_request(&request, ATTN_AMBIGUOUS, "/rope", "Give q_offset, its position");
    request.rope.k_offset = 2;
    refuse_request(&request, ATTN_AMBIGUOUS, "/rope", "Give q_offset, its position");
    request.rope.q_offset = INTS(2);
    struct attn_call call = accept_request(&request);
    ck_assert_int_eq(call.rope.q_offset[0], 2);
    attn_call_close(&call);
    request.mask = PROGRAM(CAUSAL(NONE));
    refuse_request(&request, ATTN_AMBIGUOUS, "/mask", "or give q_offset");
}
END_TEST

START_TEST(refusals_say_their_place) {
    const int64_t far = ATTN_ROPE_FURTHEST;
    const struct {
        size_t D;
        struct attn_rope_request rope;
        const char *pointer, *words;
    } wrong[] = {
        {1, {.given = true}, "/rope", "D = 1 have none"},
        {0, {.given = true}, "/rope", "D = 0 have none"},
        {5, {.given = true}, "/rope", "D = 5 is odd. Give dims"},
        {6, {.dims_given = true, .dims = 0}, "/rope/dims", "from 2 to D = 6, got 0"},
        {6, {.dims_given = true, .dims = 3}, "/rope/dims", "got 3"},
        {6, {.dims_given = true, .dims = 8}, "/rope/dims", "got 8"},
        {6, {.dims_given = true, .dims = INT64_MIN}, "/rope/dims", "leave it out to turn all"},
        {4, {.theta_given = true, .inv_freq = REALS(1, 2)}, "/rope", "keep one"},
        {4, {.theta_given = true, .theta = 0}, "/rope/theta", "got 0"},
        {4, {.theta_given = true, .theta = -1}, "/rope/theta", "got -1"},
        {4, {.theta_given = true, .theta = INFINITY}, "/rope/theta", "got inf"},
        {4, {.theta_given = true, .theta = (double)NAN}, "/rope/theta", "nan"},
        {6, {.inv_freq = REALS(1, 2)}, "/rope/inv_freq", "dims / 2 = 3, got 2"},
        {4, {.inv_freq = REALS(1, (double)NAN)}, "/rope/inv_freq", "entry 1 is"},
        {4, {.inv_freq = REALS(-2e9, 1)}, "/rope/inv_freq", "entry 0 is -2e+09"},
        {4, {.q_offset = INTS(1, 2, 3)}, "/rope/q_offset", "per batch item (2), got 3"},
        {4, {.q_offset = INTS(0, far - 3)}, "/rope/q_offset", "5 rows from 9007199254740989"},
        {4, {.q_offset = INTS(-far - 1)}, "/rope/q_offset", "which changes no score"},
        {4, {.k_offset = INT64_MAX}, "/rope/k_offset", "between -2^53 and 2^53"},
    };
    for (size_t n = 0; n < COUNT_OF(wrong); n++) {
        struct attn_request request = request_sized(2, 1, 1, 5, 5, wrong[n].D, 1);
        request.rope = wrong[n].rope;
        request.rope.given = true;
        refuse_request(&request, ATTN_BAD_VALUE, wrong[n].pointer, wrong[n].words);
    }
    struct attn_request request = request_sized(1, 1, 1, 5, 5, 4, 1);
    request.rope.given = true;
    request.q_offset = INTS(far);
    refuse_request(&request, ATTN_BAD_VALUE, "/q_offset", "Take the same number off");
    request.rope.q_offset = INTS(far - 4);
    request.rope.k_offset = -far;
    struct attn_call call = accept_request(&request);
    attn_call_close(&call);
}
END_TEST

static Suite *rope_suite(void) {
    Suite *suite = suite_create("rope");
    TCase *tables = tcase_create("tables");
    tcase_add_loop_test(tables, turns_are_right_at_any_position, 0, (int)COUNT_OF(EXACT));
    tcase_add_test(tables, a_position_has_its_turns_wherever_it_stands);
    tcase_add_test(tables, batch_items_have_tables_of_their_own);
    tcase_add_test(tables, theta_is_its_frequencies);
    tcase_add_test(tables, plans_charge_the_tables);
    tcase_add_test(tables, nothing_to_turn_costs_nothing);
    suite_add_tcase(suite, tables);
    TCase *validation = tcase_create("validation");
    tcase_add_test(validation, defaults_are_those_of_the_call);
    tcase_add_test(validation, rope_needs_a_position);
    tcase_add_test(validation, refusals_say_their_place);
    suite_add_tcase(suite, validation);
    return suite;
}

ATTN_TEST_MAIN(rope_suite)
