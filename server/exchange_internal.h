/* SPDX-License-Identifier: Apache-2.0 */
/* Between the exchange_*.c files. */
#ifndef SERVER_EXCHANGE_INTERNAL_H
#define SERVER_EXCHANGE_INTERNAL_H

#include "server/exchange.h"

/* Whether this client may use the route; false with *problem set. Counts the request to its key. */
bool exchange_access(struct exchange *exchange, struct problem *problem);
/* Memory that counts to the key, if there is one; fails as a quota, or as room->too_large. */
enum attn_status exchange_key_reserve(struct exchange *exchange, size_t bytes,
                                      const struct exchange_room *room, struct attn_error *error);
void exchange_key_release(struct exchange *exchange, size_t bytes);
/* The request is over for its client, though a worker may hold it for a moment yet: it is none of
   the key's in flight any more, and its memory is none of the key's, unless the worker was left
   alone with it. On the I/O thread. */
void exchange_key_leave(struct exchange *exchange);
/* Gives back all that counts to the key. */
void exchange_key_end(struct exchange *exchange);

/* What its reservations may take that are not its first. */
enum admission_right exchange_right(const struct exchange *exchange);
/* Whether the backlog lets a call with this body in, before that is read; else the exchange is
   refused. */
bool exchange_check_backlog(struct exchange *exchange);
/* Seconds after which a call may be tried again that was refused because of the others. */
double exchange_busy_seconds(const struct exchange *exchange);

/* Settles the place in the line for bytes after a sleep, `granted` or left. */
void exchange_body_woken(struct exchange *exchange, bool granted);
/* What `bytes` of the body, as it is now, cost of the budget. */
size_t exchange_body_cost(const struct exchange *exchange, size_t bytes);

/* Decides how body and answer are packed; false with *problem set to refuse. */
bool exchange_coding_head(struct exchange *exchange, struct problem *problem);
/* The body is complete: unpacks it if need be and calls the route's handler. Or sets `launch`. */
void exchange_coding_body(struct exchange *exchange);

#endif
