/* SPDX-License-Identifier: Apache-2.0 */
/* How two maps differ, and what a comparison is sent. */
#ifndef SERVER_CAPTURES_CAPTURE_COMPARE_H
#define SERVER_CAPTURES_CAPTURE_COMPARE_H

#include "server/calls/tensor_call.h"

/* Places are numbers of elements in C order, SIZE_MAX where there is none. */
struct compare_result {
    double max_abs;
    size_t max_at, first_failing, failing;
};

struct compare_result compare_nothing(void);

/*
 * Adds `count` pairs of which the first is element `first`. A pair fails unless |a - b| <= atol +
 * rtol |b|; equal infinities, and NaN beside NaN, do not differ, NaN beside a number does by
 * infinity.
 */
void compare_values(struct compare_result *result, const double *a, const double *b, size_t count,
                    size_t first, double rtol, double atol);
void compare_join(struct compare_result *result, const struct compare_result *more);

/* Reads the body: JSON that names a capture, or an array of numpy's, or an archive with `weights`,
   which becomes the request's `outputs`. */
enum attn_status compare_decode(struct tensor_call *call);

#endif
