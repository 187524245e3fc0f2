/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers that the route table names. */
#ifndef SERVER_HANDLERS_H
#define SERVER_HANDLERS_H

#include "server/exchange.h"

bool attention_check(struct exchange *exchange, struct problem *problem);
void attention_handle(struct exchange *exchange);

bool merge_check(struct exchange *exchange, struct problem *problem);
void merge_handle(struct exchange *exchange);

bool scaling_check(struct exchange *exchange, struct problem *problem);
void scaling_handle(struct exchange *exchange);

void ops_health(struct exchange *exchange);
void ops_ready(struct exchange *exchange);
void ops_metrics(struct exchange *exchange);
void ops_describe(struct exchange *exchange);
void ops_contract(struct exchange *exchange);

#endif
