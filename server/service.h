/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every request shares: limits, the compute threads, the budget, metrics and log. Made and
 * ended by main.c; everyone else borrows it. Only `phase` changes while requests run.
 */
#ifndef SERVER_SERVICE_H
#define SERVER_SERVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/attention.h"
#include "server/access_log.h"
#include "server/admission.h"
#include "server/auth/auth.h"
#include "server/backlog.h"
#include "server/cors.h"
#include "server/documents.h"
#include "server/machine.h"
#include "server/metrics.h"

/*
 * Not ready while STARTING and from LEAVING on, and every answer is then its connection's last.
 * While DRAINING no connection comes any more; those there are may bring one more call each, for
 * refusing it would lose what computing it does not. From CUTTING on calls are refused.
 */
enum service_phase {
    SERVICE_STARTING,
    SERVICE_READY,
    SERVICE_LEAVING,
    SERVICE_DRAINING,
    SERVICE_CUTTING
};

struct service_limits {
    size_t body_bytes, json_body_bytes;
    size_t body_ratio;       /* of an unpacked body to the packed one */
    struct attn_limits call; /* result bytes and flops */
    double inline_seconds;
    uint64_t queue_timeout_ms, queue_work_ms, request_timeout_ms;
    size_t queue_limit, connections;
    bool cancel_on_disconnect;
};

struct captures;      /* server/captures/captures.h */
struct latency;       /* server/latency.h */
struct typeface;      /* server/codecs/codec_png.h */
struct session_table; /* server/sessions/session_table.h */
struct tracing;       /* server/tracing/tracing.h */

struct service {
    struct service_limits limits;
    size_t workers, io_threads;
    const char *kernel;              /* for every call that names none; NULL: chosen */
    const struct typeface *typeface; /* of pictures; NULL: they have no text */
    struct cors cors;
    const char *hosts; /* names beside those that every service has; hosts.h */
    bool has_ops;      /* operators have addresses of their own */
    struct auth *auth;
    struct document documents[DOCUMENT_COUNT];
    struct machine machine;
    struct attn_scheduler *scheduler;
    struct admission *admission;
    struct backlog *backlog;
    struct session_table *sessions;
    struct captures *captures;
    struct latency *latency;
    struct metrics *metrics;
    struct access_log *log;
    struct tracing *tracing; /* NULL: no spans are sent */
    atomic_int phase;        /* enum service_phase */
};

static inline enum service_phase service_phase(const struct service *service) {
    return (enum service_phase)atomic_load(&service->phase);
}

/* Planned seconds of arithmetic on all workers; 50 GFLOP/s per worker is a moderate core's. */
static inline double service_seconds(const struct service *service, double flops) {
    return flops / (50e9 * (double)service->workers);
}

#endif
