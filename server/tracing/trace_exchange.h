/* SPDX-License-Identifier: Apache-2.0 */
/* What an exchange tells of itself to whoever follows traces. */
#ifndef SERVER_TRACING_TRACE_EXCHANGE_H
#define SERVER_TRACING_TRACE_EXCHANGE_H

#include "server/exchange.h"

/* At its head, with the header of that name or NULL. */
void trace_exchange_begin(struct exchange *exchange, const char *traceparent);
/* At its end: its span, and those of its stages, if they are to be sent. */
void trace_exchange_end(const struct exchange *exchange, const struct metrics_request *request,
                        int64_t now);

#endif
