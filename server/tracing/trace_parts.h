/* SPDX-License-Identifier: Apache-2.0 */
/* When a request was in which stage: for the spans below its own. The sums of stages do not tell
 * that, for a call may wait and be decoded more than once. */
#ifndef SERVER_TRACING_TRACE_PARTS_H
#define SERVER_TRACING_TRACE_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "server/metrics.h"

enum { TRACE_PARTS_MOST = 12 }; /* unpacked, put off and begun anew, a call has eleven */

struct trace_part {
    enum metrics_stage stage;
    int64_t began, ended;
};

/* In the order of time. Zero-initialised is empty. */
struct trace_parts {
    struct trace_part at[TRACE_PARTS_MOST];
    size_t count;
};

/* One that goes on with the stage before it makes that longer; once there is no room none is kept.
 */
static inline void trace_parts_add(struct trace_parts *parts, enum metrics_stage stage,
                                   int64_t began, int64_t ended) {
    if (parts->count == TRACE_PARTS_MOST)
        return;
    if (parts->count > 0 && parts->at[parts->count - 1].stage == stage)
        parts->at[parts->count - 1].ended = ended;
    else
        parts->at[parts->count++] = (struct trace_part){stage, began, ended};
}

#endif
