/* SPDX-License-Identifier: Apache-2.0 */
/* The counters' memory, shared by metrics.c, which counts, and metrics_write.c, which prints. */
#ifndef SERVER_METRICS_INTERNAL_H
#define SERVER_METRICS_INTERNAL_H

#include <stdatomic.h>

#include "server/metrics.h"
#include "server/problem.h"
#include "server/routes.h"

enum {
    BUCKET_COUNT = 19,
    SIZE_COUNT = 4,
    CLASS_COUNT = 3,
    KERNEL_ROOM = 16,
    CODING_ROOM = 8,
    ROUTE_ROOM = 64
};

/* Upper bounds in seconds, 1-2-5 steps from 100 us, and 60 s. */
extern const double metrics_bounds[BUCKET_COUNT];

/* The four sizes of a request body; a body belongs to the first row that it does not exceed. */
struct metrics_size {
    const char *name;
    uint64_t largest;
};
extern const struct metrics_size metrics_sizes[SIZE_COUNT];

/* The status codes that an answer can have; the last row stands for any other. */
/* clang-format off */
#define METRICS_CODES(X) \
    X(200) X(201) X(204) X(304) X(400) X(401) X(403) X(404) X(405) X(406) X(408) X(409) X(410) \
    X(411) X(413) X(414) X(415) X(417) X(421) X(422) X(429) X(431) X(499) X(500) X(501) \
    X(503) X(504) X(0)
/* clang-format on */
enum {
#define X(code) +1
    CODE_COUNT = 0 METRICS_CODES(X)
#undef X
};
extern const int metrics_codes[CODE_COUNT];

typedef atomic_uint_least64_t metrics_counter;

struct histogram {
    metrics_counter buckets[BUCKET_COUNT + 1]; /* not cumulative; the last is above all bounds */
    metrics_counter nanoseconds;
};

enum { MODEL_ROOM = 4 };

/* As struct metrics_model. */
struct model_counters {
    metrics_counter successes, failures, success_ns, failure_ns, stage_ns[STAGE_COUNT], last_ms;
};

struct metrics {
    metrics_counter requests[ROUTE_ROOM][HTTP_METHOD_COUNT][CODE_COUNT];
    struct histogram durations[ROUTE_ROOM][CLASS_COUNT][SIZE_COUNT];
    struct histogram stages[STAGE_COUNT];
    atomic_int_least64_t in_flight, connections;
    metrics_counter flops, scores_computed, scores_skipped;
    metrics_counter kernels[KERNEL_ROOM];
    metrics_counter packed[CODING_ROOM][METRICS_DIRECTIONS];
    metrics_counter session_rows;
    struct histogram steps[2]; /* of sessions: those that attend alone, and those that append */
    metrics_counter rejections[PROBLEM_COUNT];
    struct model_counters models[MODEL_ROOM];
    double started_at; /* seconds since 1970 */
    atomic_bool reload_successful;
    _Atomic double reloaded_at;         /* seconds since 1970 */
    _Atomic double certificate_expires; /* the same; 0: there is none */
};

static inline uint64_t metrics_read(const metrics_counter *counter) {
    return atomic_load_explicit((metrics_counter *)counter, memory_order_relaxed);
}

#endif
