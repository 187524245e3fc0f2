/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which value has which colour. Weights go from nothing to the largest; scores that lie on both
 * sides of 0 diverge from it. All panels share one range, which the colour bar says.
 */
#include "server/codecs/codec_png_colour.h"

#include <math.h>
#include <string.h>

static double value_at(const struct attn_result_tensor *tensor, size_t element) {
    return tensor->dtype == ATTN_FLOAT64 ? ((const double *)tensor->data)[element]
                                         : (double)((const float *)tensor->data)[element];
}

struct png_map png_map_of(const struct attn_call *call, const struct attn_result *result) {
    const struct attn_result_tensor *const weights = &result->tensors[ATTN_RESULT_WEIGHTS];
    const struct attn_result_tensor *const scores = &result->tensors[ATTN_RESULT_SCORES];
    if (!weights->wanted)
        return (struct png_map){scores, NULL, true};
    return (struct png_map){weights, scores->wanted ? scores : NULL,
                            call->stage == ATTN_STAGE_MASKED};
}

size_t png_map_elements(const struct png_map *map) {
    return map->values->bytes / attn_dtype_size(map->values->dtype);
}

/* A mean of heads is hidden where it is in all of them. */
static bool is_hidden(const struct png_map *map, size_t element, double value) {
    if (map->hides)
        return isinf(value) && value < 0;
    return map->scores != NULL && value == 0 && isinf(value_at(map->scores, element));
}

/* Weights of long rows span powers of ten, of which a line from 0 shows one. */
static void stretch(struct png_scale *scale, const struct attn_call *call) {
    enum { LINEAR_KEYS = 128 };
    if (call->map_cols <= LINEAR_KEYS || scale->high <= 0)
        return;
    scale->logarithmic = true;
    /* Where a tenth of what each key would have if all were alike is told from nothing. */
    scale->low = pow(10, floor(log10(fmin(1e-3 * scale->high, 0.1 / (double)call->Tk))));
}

void png_scale_of(const struct png_map *map, const struct attn_call *call,
                  struct png_scale *scale) {
    const bool weights = !map->hides && call->stage == ATTN_STAGE_WEIGHTS;
    double low = INFINITY, high = -INFINITY;
    *scale = (struct png_scale){.ramp = PNG_SEQUENTIAL};
    for (size_t i = 0; i < png_map_elements(map); i++) {
        const double value = value_at(map->values, i);
        const bool hidden = is_hidden(map, i, value);
        scale->any_hidden |= hidden;
        scale->any_not_finite |= !hidden && !isfinite(value);
        if (hidden || !isfinite(value))
            continue;
        low = value < low ? value : low;
        high = value > high ? value : high;
    }
    if (low > high)
        low = high = 0;
    if (weights)
        low = 0;
    else if (low < 0 && high > 0) {
        scale->ramp = PNG_DIVERGING;
        high = fmax(-low, high);
        low = -high;
    }
    scale->low = low;
    scale->high = high;
    if (weights)
        stretch(scale, call);
}

unsigned char png_scale_index(const struct png_scale *scale, double value) {
    const double most = PNG_LEVELS - 1;
    double part = 0;
    if (!isfinite(value))
        return PNG_NOT_FINITE;
    if (scale->logarithmic)
        part = value <= scale->low ? 0 : log(value / scale->low) / log(scale->high / scale->low);
    else if (scale->high > scale->low)
        /* Halves, for the ends may be as far apart as numbers go. */
        part = (value / 2 - scale->low / 2) / (scale->high / 2 - scale->low / 2);
    return (unsigned char)lround(most * fmin(fmax(part, 0), 1));
}

/* 1, 2 or 5 times a power of ten: the least that is not less than `least`, which is above 0. */
static double round_step(double least) {
    const double power = pow(10, floor(log10(least)));
    const double ratio = least / power;
    return power * (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10);
}

static size_t add_number(const struct png_scale *scale, double value, double numbers[],
                         size_t count) {
    enum { APART = 36 }; /* levels that a number's digits take */
    const int here = png_scale_index(scale, value), end = png_scale_index(scale, scale->high);
    const int before = count == 0 ? -APART : png_scale_index(scale, numbers[count - 1]);
    if (count == PNG_NUMBERS_MOST - 1 || here < before + APART || here > end - APART)
        return count;
    numbers[count] = value;
    return count + 1;
}

size_t png_scale_numbers(const struct png_scale *scale, double numbers[PNG_NUMBERS_MOST]) {
    enum { STEPS = 5 };
    const double span = scale->high - scale->low;
    size_t count = add_number(scale, scale->low, numbers, 0);
    const bool is_short = !isfinite(span) || span <= 0; /* or its numbers cannot be counted up */
    if (is_short) {
        numbers[count] = scale->high;
        return count + 1;
    }
    if (scale->logarithmic) {
        const int last = (int)floor(log10(scale->high));
        for (int power = (int)ceil(log10(scale->low)); power <= last; power++)
            count = add_number(scale, pow(10, power), numbers, count);
    } else {
        const double step = round_step(span / STEPS);
        const double first = ceil(scale->low / step);
        for (int i = 0; i <= STEPS; i++)
            count = add_number(scale, (first + i) * step, numbers, count);
    }
    numbers[count] = scale->high;
    return count + 1;
}

unsigned char png_map_index(const struct png_map *map, const struct png_scale *scale,
                            size_t element) {
    const double value = value_at(map->values, element);
    return is_hidden(map, element, value) ? PNG_HIDDEN : png_scale_index(scale, value);
}

/* The colours behind the ramp and the inks. */
static const struct {
    int index;
    unsigned char rgb[3];
} OUTSIDE[] = {
    {PNG_HIDDEN, {216, 216, 216}},
    {PNG_HATCH, {188, 188, 188}},
    {PNG_NOT_FINITE, {255, 0, 255}},
    {PNG_FRAME, {110, 110, 110}},
};

void png_colour(enum png_ramp ramp, int index, unsigned char rgb[3]) {
    enum { PAPER = 255, BLACK = 24 };
    const int ink = index - PNG_PAPER;
    if (index < PNG_LEVELS)
        memcpy(rgb, png_ramps[ramp][index], 3);
    else
        memset(rgb, PAPER - (PAPER - BLACK) * ink / (PNG_INKS - 1), 3);
    for (size_t i = 0; i < sizeof OUTSIDE / sizeof *OUTSIDE; i++)
        if (OUTSIDE[i].index == index)
            memcpy(rgb, OUTSIDE[i].rgb, 3);
}
