/* SPDX-License-Identifier: Apache-2.0 */
/* One monotonic clock for durations and deadlines: nanoseconds in an int64_t, 0 is "never". */
#ifndef SERVER_CLOCK_H
#define SERVER_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_US INT64_C(1000)
#define CLOCK_MS INT64_C(1000000)
#define CLOCK_SECOND INT64_C(1000000000)

static inline int64_t clock_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * CLOCK_SECOND + now.tv_nsec;
}

/* `ms` milliseconds after `start`; never when ms is 0 or lies beyond the clock's range. */
static inline int64_t clock_deadline(int64_t start, uint64_t ms) {
    int64_t span;
    int64_t deadline;
    if (__builtin_mul_overflow(ms, CLOCK_MS, &span) ||
        __builtin_add_overflow(start, span, &deadline))
        return 0;
    return ms == 0 ? 0 : deadline;
}

/* A duration of at least 0 as text, in milliseconds to the microsecond: arguments for the format.
 * Integers, because printing a double takes as long as all the rest of a small call's headers. */
#define CLOCK_MS_FORMAT "%lld.%03d"
#define CLOCK_MS_ARGUMENTS(nanoseconds) \
    (long long)clock_microseconds(nanoseconds) / 1000, (int)(clock_microseconds(nanoseconds) % 1000)

static inline int64_t clock_microseconds(int64_t nanoseconds) {
    return nanoseconds / 1000 + (nanoseconds % 1000 >= 500);
}

/* The earlier of two deadlines. */
static inline int64_t clock_earlier(int64_t a, int64_t b) {
    if (a == 0 || b == 0)
        return a + b;
    return a < b ? a : b;
}

#endif
