/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon counts, and its text for Prometheus. Counting is a few relaxed atomic additions
 * on any thread. Every label has a fixed set of values, so that no request can make a new series:
 * unknown paths are the route "unmatched", unknown methods "other".
 */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/text.h"

struct metrics;
struct service;

enum metrics_stage {
    STAGE_READ,    /* the body arrives */
    STAGE_DECODE,  /* bytes to tensors, validation, plan */
    STAGE_QUEUE,   /* waiting for a worker */
    STAGE_COMPUTE, /* kernels */
    STAGE_ENCODE,  /* the answer's bytes */
    STAGE_WRITE,   /* the answer leaves */
    STAGE_COUNT
};

/* One finished request. */
struct metrics_request {
    size_t model;    /* of the Open Inference Protocol: 1 + oip_model_index(), or 0 */
    size_t route;    /* route_index(), or route_count() for "unmatched" */
    unsigned method; /* enum http_method */
    int code;
    uint64_t body_bytes;
    int64_t nanoseconds;
    int64_t stage[STAGE_COUNT]; /* nanoseconds, -1 for a stage it did not have */
};

/* What a model of the Open Inference Protocol was asked; nanoseconds are sums. */
struct metrics_model {
    uint64_t successes, failures, success_ns, failure_ns;
    uint64_t stage_ns[STAGE_COUNT]; /* of successes */
    uint64_t last_ms;               /* when the last one succeeded, since 1970; 0: never */
};

/* One computed call. */
struct metrics_call {
    const char *kernel;
    double flops, scores_computed, scores_skipped;
};

enum metrics_direction { METRICS_IN, METRICS_OUT, METRICS_DIRECTIONS };

/* NULL when there is no memory. */
struct metrics *metrics_create(void);
void metrics_free(struct metrics *metrics);

/* "read" … "write". */
const char *metrics_stage_name(enum metrics_stage stage);

void metrics_begin_request(struct metrics *metrics);
/* Counts a request and, last, takes it out of those in flight. */
void metrics_end_request(struct metrics *metrics, const struct metrics_request *request);
void metrics_count_call(struct metrics *metrics, const struct metrics_call *call);
/* A session's step that has succeeded: rows that it appended, and nanoseconds since its turn came.
 */
void metrics_count_step(struct metrics *metrics, size_t rows, int64_t nanoseconds);
/* A body that was compressed; `coding` is coding_index(). */
void metrics_count_packed(struct metrics *metrics, size_t coding, enum metrics_direction direction);
/* `code` is a problem's (problem.h). */
void metrics_count_rejection(struct metrics *metrics, int code);
/* The configuration that is read again while the service runs was read, or had to be refused. */
void metrics_reloaded(struct metrics *metrics, bool successful);
/* A certificate that is good until then, in seconds since 1970, has come into force. */
void metrics_certificate(struct metrics *metrics, double expires);
void metrics_connection(struct metrics *metrics, int change);
int64_t metrics_in_flight(struct metrics *metrics);
void metrics_read_model(const struct metrics *metrics, size_t model, struct metrics_model *out);

/* The whole text, in the Prometheus format or in OpenMetrics 1.0. */
void metrics_write(const struct service *service, bool openmetrics, struct text *out);

/* Whether an Accept header (NULL: none) prefers OpenMetrics. */
bool metrics_wants_openmetrics(const char *accept);

#endif
