/* SPDX-License-Identifier: Apache-2.0 */
/* Between the exchange_*.c files. */
#ifndef SERVER_EXCHANGE_INTERNAL_H
#define SERVER_EXCHANGE_INTERNAL_H

#include "server/exchange.h"

/* Settles the place in the line for bytes after a sleep, `granted` or left. */
void exchange_body_woken(struct exchange *exchange, bool granted);
/* What `bytes` of the body, as it is now, cost of the budget. */
size_t exchange_body_cost(const struct exchange *exchange, size_t bytes);

/* Decides how body and answer are packed; false with *problem set to refuse. */
bool exchange_coding_head(struct exchange *exchange, struct problem *problem);
/* The body is complete: unpacks it if need be and calls the route's handler. Or sets `launch`. */
void exchange_coding_body(struct exchange *exchange);

#endif
