/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The colours of maps: lightness that falls, steps that look alike, an order that the colour-blind
 * see too, and which value has which.
 */
#include "server/codecs/codec_png_colour.h"

#include <check.h>
#include <math.h>
#include <string.h>

#include "tests/support/test_main.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

struct lab {
    double l, a, b;
};

/* Linear RGB as somebody sees it: nobody's deficiency, and those of one kind of cone each, complete
   (Machado, Oliveira and Fernandes 2009, table 1). */
static const double EYES[][3][3] = {
    {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
    {{0.152286, 1.052583, -0.204868},
     {0.114503, 0.786281, 0.099216},
     {-0.003882, -0.048116, 1.051998}},
    {{0.367322, 0.860646, -0.227968},
     {0.280085, 0.672501, 0.047413},
     {-0.011820, 0.042940, 0.968881}},
    {{1.255528, -0.076749, -0.178779},
     {-0.078411, 0.930809, 0.147602},
     {0.004733, 0.691367, 0.303900}},
};

static double linear(int part) {
    const double s = part / 255.0;
    return s <= 0.04045 ? s / 12.92 : pow((s + 0.055) / 1.055, 2.4);
}

static struct lab seen(const unsigned char rgb[3], size_t eye) {
    const double in[3] = {linear(rgb[0]), linear(rgb[1]), linear(rgb[2])};
    double c[3];
    for (int i = 0; i < 3; i++) {
        c[i] = EYES[eye][i][0] * in[0] + EYES[eye][i][1] * in[1] + EYES[eye][i][2] * in[2];
        c[i] = fmin(fmax(c[i], 0), 1);
    }
    const double l = cbrt(0.4122214708 * c[0] + 0.5363325363 * c[1] + 0.0514459929 * c[2]);
    const double m = cbrt(0.2119034982 * c[0] + 0.6806995451 * c[1] + 0.1073969566 * c[2]);
    const double s = cbrt(0.0883024619 * c[0] + 0.2817188376 * c[1] + 0.6299787005 * c[2]);
    return (struct lab){0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
                        1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
                        0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}

static double difference(struct lab x, struct lab y) {
    return sqrt(pow(x.l - y.l, 2) + pow(x.a - y.a, 2) + pow(x.b - y.b, 2));
}

/* The ramp from its lightest colour: all of the sequential one, or an arm of the diverging one. */
struct walk {
    enum png_ramp ramp;
    int first, step, count;
};
static const struct walk WALKS[] = {
    {PNG_SEQUENTIAL, 0, 1, PNG_LEVELS},
    {PNG_DIVERGING, PNG_LEVELS / 2, 1, PNG_LEVELS / 2 + 1},
    {PNG_DIVERGING, PNG_LEVELS / 2, -1, PNG_LEVELS / 2 + 1},
};

static struct lab at(const struct walk *walk, int place, size_t eye) {
    return seen(png_ramps[walk->ramp][walk->first + walk->step * place], eye);
}

START_TEST(lightness_falls_all_the_way) {
    const struct walk *const walk = &WALKS[_i];
    for (int i = 1; i < walk->count; i++)
        ck_assert_msg(at(walk, i, 0).l < at(walk, i - 1, 0).l, "step %d", i);
    ck_assert(at(walk, 0, 0).l > 0.95 && at(walk, walk->count - 1, 0).l < 0.32);
}
END_TEST

/* Eight steps at a time, for eight bits are too coarse for one. */
enum { STRIDE = 8 };

START_TEST(steps_look_alike) {
    const struct walk *const walk = &WALKS[_i];
    double sum = 0, least = INFINITY, most = 0;
    int count = 0;
    for (int i = STRIDE; i < walk->count; i += STRIDE, count++) {
        const double step = difference(at(walk, i, 0), at(walk, i - STRIDE, 0));
        sum += step;
        least = fmin(least, step);
        most = fmax(most, step);
    }
    const double mean = sum / count;
    ck_assert_msg(least > 0.9 * mean && most < 1.1 * mean, "%g %g %g", least, mean, most);
}
END_TEST

START_TEST(the_colour_blind_see_the_order) {
    const struct walk *const walk = &WALKS[_i];
    for (size_t eye = 1; eye < COUNT(EYES); eye++)
        for (int i = STRIDE; i < walk->count; i += STRIDE)
            ck_assert_msg(at(walk, i, eye).l < at(walk, i - STRIDE, eye).l - 0.01,
                          "eye %zu, step %d", eye, i);
}
END_TEST

START_TEST(both_sides_of_zero_differ_to_every_eye) {
    for (size_t eye = 0; eye < COUNT(EYES); eye++)
        for (int i = 4 * STRIDE; i < WALKS[1].count; i += STRIDE)
            ck_assert_msg(difference(at(&WALKS[1], i, eye), at(&WALKS[2], i, eye)) > 0.08,
                          "eye %zu, %d from the middle", eye, i);
}
END_TEST

START_TEST(what_is_no_value_is_in_no_ramp) {
    for (enum png_ramp ramp = PNG_SEQUENTIAL; ramp < PNG_RAMPS; ramp++)
        for (int index = PNG_HIDDEN; index <= PNG_NOT_FINITE; index++) {
            unsigned char outside[3];
            png_colour(ramp, index, outside);
            for (int level = 0; level < PNG_LEVELS; level++)
                ck_assert_msg(difference(seen(outside, 0), seen(png_ramps[ramp][level], 0)) > 0.04,
                              "ramp %d, index %d, level %d", (int)ramp, index, level);
        }
}
END_TEST

/* A map of one panel of float32 values, and of the scores behind weights. */
struct one_map {
    struct attn_result_tensor values, scores;
    struct png_map map;
    struct attn_call call;
};

static void make_map(struct one_map *one, enum attn_stage stage, float *values, float *scores,
                     size_t count) {
    *one = (struct one_map){.values = {.wanted = true, .dtype = ATTN_FLOAT32}};
    one->scores = one->values;
    one->values.bytes = one->scores.bytes = count * sizeof *values;
    one->values.data = values;
    one->scores.data = scores;
    one->call = (struct attn_call){.Tk = count, .map_cols = count, .stage = stage};
    one->map = (struct png_map){&one->values, scores == NULL ? NULL : &one->scores,
                                stage == ATTN_STAGE_MASKED};
}

START_TEST(weights_begin_at_nothing) {
    float values[] = {0.5f, 0.125f, 0.25f, 0};
    struct one_map one;
    struct png_scale scale;
    make_map(&one, ATTN_STAGE_WEIGHTS, values, NULL, COUNT(values));
    png_scale_of(&one.map, &one.call, &scale);
    ck_assert(scale.low == 0 && scale.high == 0.5 && !scale.logarithmic);
    ck_assert(!scale.any_hidden && !scale.any_not_finite && scale.ramp == PNG_SEQUENTIAL);
    ck_assert_int_eq(png_map_index(&one.map, &scale, 0), PNG_LEVELS - 1);
    ck_assert_int_eq(png_map_index(&one.map, &scale, 1), (PNG_LEVELS - 1) / 4);
    ck_assert_int_eq(png_map_index(&one.map, &scale, 3), 0);
}
END_TEST

START_TEST(hidden_is_not_zero) {
    float values[] = {0, 0, 1, NAN}, scores[] = {-INFINITY, -200, 3, NAN};
    struct one_map one;
    struct png_scale scale;
    make_map(&one, ATTN_STAGE_WEIGHTS, values, scores, COUNT(values));
    png_scale_of(&one.map, &one.call, &scale);
    ck_assert(scale.any_hidden && scale.any_not_finite && scale.high == 1);
    ck_assert_int_eq(png_map_index(&one.map, &scale, 0), PNG_HIDDEN);
    ck_assert_int_eq(png_map_index(&one.map, &scale, 1), 0);
    ck_assert_int_eq(png_map_index(&one.map, &scale, 3), PNG_NOT_FINITE);
    make_map(&one, ATTN_STAGE_MASKED, scores, NULL, COUNT(values));
    png_scale_of(&one.map, &one.call, &scale);
    ck_assert_int_eq(png_map_index(&one.map, &scale, 0), PNG_HIDDEN);
    ck_assert_int_eq(png_map_index(&one.map, &scale, 3), PNG_NOT_FINITE);
    ck_assert(scale.low == -200 && scale.high == 200);
    /* Before the mask nothing is hidden, and -inf is no finite score. */
    make_map(&one, ATTN_STAGE_RAW, scores, NULL, COUNT(values));
    png_scale_of(&one.map, &one.call, &scale);
    ck_assert_int_eq(png_map_index(&one.map, &scale, 0), PNG_NOT_FINITE);
}
END_TEST

START_TEST(scores_on_both_sides_of_zero_diverge) {
    float values[] = {-2, 0, 8, 4}, above[] = {3, 5}, same[] = {7, 7};
    struct one_map one;
    struct png_scale scale;
    make_map(&one, ATTN_STAGE_SCALED, values, NULL, COUNT(values));
    png_scale_of(&one.map, &one.call, &scale);
    ck_assert(scale.ramp == PNG_DIVERGING && scale.low == -8 && scale.high == 8);
    ck_assert_int_eq(png_scale_index(&scale, 0), PNG_LEVELS / 2);
    ck_assert_int_eq(png_scale_index(&scale, 4), 3 * (PNG_LEVELS / 2) / 2);
    make_map(&one, ATTN_STAGE_SCALED, above, NULL, COUNT(above));
    png_scale_of(&one.map, &one.call, &scale);
    ck_assert(scale.ramp == PNG_SEQUENTIAL && scale.low == 3 && scale.high == 5);
    make_map(&one, ATTN_STAGE_SCALED, same, NULL, COUNT(same));
    png_scale_of(&one.map, &one.call, &scale);
    ck_assert_int_eq(png_scale_index(&scale, 7), 0);
}
END_TEST

START_TEST(long_rows_of_weights_are_logarithmic) {
    enum { KEYS = 1000 };
    float values[KEYS] = {0.9f, 0.09f, 1e-9f};
    struct one_map one;
    struct png_scale scale;
    make_map(&one, ATTN_STAGE_WEIGHTS, values, NULL, KEYS);
    png_scale_of(&one.map, &one.call, &scale);
    ck_assert(scale.logarithmic && fabs(scale.low - 1e-4) < 1e-12);
    ck_assert_int_eq(png_scale_index(&scale, 0), 0);
    ck_assert_int_eq(png_scale_index(&scale, 1e-9), 0);
    ck_assert_int_eq(png_scale_index(&scale, scale.high), PNG_LEVELS - 1);
    const double middle = sqrt(scale.low * scale.high);
    ck_assert_int_eq(png_scale_index(&scale, middle), PNG_LEVELS / 2);
    memset(values, 0, sizeof values);
    png_scale_of(&one.map, &one.call, &scale);
    ck_assert(!scale.logarithmic && scale.high == 0);
}
END_TEST

static const struct png_scale SCALES[] = {
    {PNG_SEQUENTIAL, 0, 0.9934, false, false, false},
    {PNG_SEQUENTIAL, 1e-5, 0.74, true, false, false},
    {PNG_DIVERGING, -5.52, 5.52, false, false, false},
    {PNG_SEQUENTIAL, 3e37, 3e38, false, false, false},
    {PNG_DIVERGING, -1.7e308, 1.7e308, false, false, false},
    {PNG_SEQUENTIAL, 4, 4, false, false, false},
    {PNG_SEQUENTIAL, 1, 1 + 1e-15, false, false, false},
    {PNG_SEQUENTIAL, 1e-320, 5e-320, false, false, false},
};

START_TEST(numbers_of_the_bar_rise_from_end_to_end) {
    double numbers[PNG_NUMBERS_MOST];
    const struct png_scale *const scale = &SCALES[_i];
    const size_t count = png_scale_numbers(scale, numbers);
    ck_assert(count >= 1 && count <= PNG_NUMBERS_MOST);
    ck_assert(numbers[0] == scale->low && numbers[count - 1] == scale->high);
    for (size_t i = 1; i < count; i++)
        ck_assert(numbers[i] > numbers[i - 1]);
}
END_TEST

static Suite *colour_suite(void) {
    Suite *const suite = suite_create("png colour");
    TCase *const tests = tcase_create("png colour");
    tcase_add_loop_test(tests, lightness_falls_all_the_way, 0, COUNT(WALKS));
    tcase_add_loop_test(tests, steps_look_alike, 0, COUNT(WALKS));
    tcase_add_loop_test(tests, the_colour_blind_see_the_order, 0, COUNT(WALKS));
    tcase_add_test(tests, both_sides_of_zero_differ_to_every_eye);
    tcase_add_test(tests, what_is_no_value_is_in_no_ramp);
    tcase_add_test(tests, weights_begin_at_nothing);
    tcase_add_test(tests, hidden_is_not_zero);
    tcase_add_test(tests, scores_on_both_sides_of_zero_diverge);
    tcase_add_test(tests, long_rows_of_weights_are_logarithmic);
    tcase_add_loop_test(tests, numbers_of_the_bar_rise_from_end_to_end, 0, COUNT(SCALES));
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(colour_suite)
