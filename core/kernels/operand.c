/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of operands, widened and turned; see operand.h. */
#include "core/kernels/operand.h"

#include <string.h>

#include "core/convert.h"
#include "core/kernels/rowops.h"
#include "core/rope.h"

/* Turns a row by the table's elements from `at` on. */
static void turn_float(const struct attn_rotation *rotation, const void *table, size_t at,
                       float *row) {
    attn_rowops_best()->f.rotate(row, (const float *)table + at, rotation->pairs,
                                 rotation->interleaved);
}

/* A float task that is done again in double keeps its turns. */
static void turn_double(const struct attn_rotation *rotation, const void *table, size_t at,
                        double *row) {
    const size_t pairs = rotation->pairs;
    if (rotation->wide) {
        attn_rowops_best()->d.rotate(row, (const double *)table + at, pairs, rotation->interleaved);
        return;
    }
    const float *const turns = (const float *)table + at;
    for (size_t n = 0; n < pairs; n++) {
        double *const x = row + (rotation->interleaved ? 2 * n : n);
        double *const y = x + (rotation->interleaved ? 1 : pairs);
        const double c = (double)turns[n], s = (double)turns[pairs + n];
        const double turned = *x * c - *y * s;
        *y = *x * s + *y * c;
        *x = turned;
    }
}

#define OPERAND_PASTE2(a, b) a##b
#define OPERAND_PASTE(a, b) OPERAND_PASTE2(a, b)

#define REAL float
#define SUFFIX _float
#define LOAD attn_load_float
#define REAL_DTYPE ATTN_FLOAT32
#include "core/kernels/operand_rows.h"

#define REAL double
#define SUFFIX _double
#define LOAD attn_load_double
#define REAL_DTYPE ATTN_FLOAT64
#include "core/kernels/operand_rows.h"
