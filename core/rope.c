/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of turns. A position is 32 a + b, and e^(i p f) = e^(i 32 a f) e^(i b f): of every factor
 * sine and cosine are taken to the last bit, their product costs six operations. Blocks begin at
 * multiples of 32 of the position itself, not of the row.
 */
#include "core/rope.h"

#include <math.h>

#include "core/area.h"
#include "core/checked.h"

enum { BLOCK = 32 };

/* Memory of a rotation, cut up: frequencies, the turns of positions 0 to BLOCK - 1 and of a block's
 * first position, and the tables. */
struct areas {
    double *frequency; /* [pairs] */
    double *step;      /* [BLOCK][2][pairs] */
    double *first;     /* [2][pairs] */
    uint32_t made;     /* which rows of step are */
    char *q, *k;
};

static bool take(size_t rows, size_t columns, size_t element, char **cursor, size_t *total) {
    if (!attn_area_add(rows, columns, element, total))
        return false;
    if (*cursor != NULL)
        attn_area_take(cursor, attn_area_bytes(rows, columns, element));
    return true;
}

/* Cuts `memory` up, or only measures it where that is NULL. */
static bool cut(const struct attn_call *call, size_t real, char *memory, struct areas *areas,
                size_t *total) {
    const size_t dims = call->rope.dims;
    size_t rows;
    char *cursor = memory;
    *total = 0;
    if (!attn_mul_size(call->rope.q_offset_count, call->Tq, &rows))
        return false;
    areas->frequency = (double *)(void *)cursor;
    if (!take(1, dims / 2, sizeof(double), &cursor, total))
        return false;
    areas->step = (double *)(void *)cursor;
    if (!take(BLOCK, dims, sizeof(double), &cursor, total))
        return false;
    areas->first = (double *)(void *)cursor;
    if (!take(1, dims, sizeof(double), &cursor, total))
        return false;
    areas->q = cursor;
    if (!take(rows, dims, real, &cursor, total))
        return false;
    areas->k = cursor;
    return take(call->rope.q_only ? 0 : call->Tk, dims, real, &cursor, total);
}

size_t attn_rotation_bytes(const struct attn_call *call, size_t real) {
    struct areas areas;
    size_t total;
    return cut(call, real, NULL, &areas, &total) ? total : SIZE_MAX;
}

/* Cosine and sine of position * frequency: of the product and of what its rounding left. */
static void turn(int64_t position, double frequency, double *cosine, double *sine) {
    const double angle = (double)position * frequency;
    const double rest = fma((double)position, frequency, -angle);
    const double c = cos(angle), s = sin(angle);
    const double c_rest = cos(rest), s_rest = sin(rest);
    *cosine = c * c_rest - s * s_rest;
    *sine = s * c_rest + c * s_rest;
}

static void turn_row(int64_t position, const double *frequency, size_t pairs, double *row) {
    for (size_t n = 0; n < pairs; n++)
        turn(position, frequency[n], &row[n], &row[pairs + n]);
}

static void set_real(bool wide, void *reals, size_t at, double value) {
    if (wide)
        ((double *)reals)[at] = value;
    else
        ((float *)reals)[at] = (float)value;
}

/* The turns of a position within a block. */
static const double *step_of(struct areas *areas, size_t pairs, int64_t place) {
    double *step = areas->step + (size_t)place * 2 * pairs;
    if (!(areas->made >> place & 1))
        turn_row(place, areas->frequency, pairs, step);
    areas->made |= (uint32_t)1 << place;
    return step;
}

/* `rows` rows of a table, at consecutive positions. */
static void fill(struct areas *areas, const struct attn_rotation *rotation, int64_t position,
                 size_t rows, char *table) {
    const size_t pairs = rotation->pairs;
    const double *const first = areas->first;
    const size_t row_bytes = 2 * pairs * (rotation->wide ? sizeof(double) : sizeof(float));
    for (size_t row = 0; row < rows; row++, position++, table += row_bytes) {
        const int64_t place = (position % BLOCK + BLOCK) % BLOCK;
        const double *const step = step_of(areas, pairs, place);
        if (row == 0 || place == 0)
            turn_row(position - place, areas->frequency, pairs, areas->first);
        for (size_t n = 0; n < pairs; n++) {
            const double c = first[n], s = first[pairs + n];
            set_real(rotation->wide, table, n, c * step[n] - s * step[pairs + n]);
            set_real(rotation->wide, table, pairs + n, s * step[n] + c * step[pairs + n]);
        }
    }
}

static void set_frequencies(const struct attn_rope *rope, double *frequency) {
    for (size_t n = 0; n < rope->dims / 2; n++)
        frequency[n] = rope->inv_freq != NULL
                           ? rope->inv_freq[n]
                           : pow(rope->theta, -2.0 * (double)n / (double)rope->dims);
}

struct attn_rotation attn_rotation_make(const struct attn_call *call, size_t real, void *memory) {
    const struct attn_rope *rope = &call->rope;
    struct attn_rotation rotation = {.pairs = rope->dims / 2,
                                     .interleaved = rope->interleaved,
                                     .wide = real == sizeof(double),
                                     .q_step = rope->q_offset_count > 1 ? call->Tq : 0};
    struct areas areas = {0};
    size_t total;
    if (!cut(call, real, memory, &areas, &total))
        return rotation;
    set_frequencies(rope, areas.frequency);
    for (size_t b = 0; b < rope->q_offset_count; b++)
        fill(&areas, &rotation, rope->q_offset[b], call->Tq,
             areas.q + b * call->Tq * rope->dims * real);
    rotation.q = areas.q;
    if (rope->q_only)
        return rotation;
    fill(&areas, &rotation, rope->k_offset, call->Tk, areas.k);
    rotation.k = areas.k;
    return rotation;
}
