/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of numbers, and which of them differ; see capture_compare.h. */
#include <math.h>

#include "server/captures/capture_compare.h"

struct compare_result compare_nothing(void) {
    return (struct compare_result){.max_at = SIZE_MAX, .first_failing = SIZE_MAX};
}

static double difference(double a, double b) {
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    return isnan(a) || isnan(b) ? INFINITY : fabs(a - b);
}

/* Of equally large ones the first counts, in whatever order they are joined. */
static void note_largest(struct compare_result *result, double apart, size_t place) {
    if (result->max_at != SIZE_MAX &&
        (apart < result->max_abs || (apart == result->max_abs && place > result->max_at)))
        return;
    result->max_abs = apart;
    result->max_at = place;
}

void compare_values(struct compare_result *result, const double *a, const double *b, size_t count,
                    size_t first, double rtol, double atol) {
    for (size_t n = 0; n < count; n++) {
        const double apart = difference(a[n], b[n]);
        note_largest(result, apart, first + n);
        if (apart == 0 || (isfinite(b[n]) && apart <= atol + rtol * fabs(b[n])))
            continue;
        result->failing++;
        if (first + n < result->first_failing)
            result->first_failing = first + n;
    }
}

void compare_join(struct compare_result *result, const struct compare_result *more) {
    if (more->max_at != SIZE_MAX)
        note_largest(result, more->max_abs, more->max_at);
    result->failing += more->failing;
    if (more->first_failing < result->first_failing)
        result->first_failing = more->first_failing;
}
