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

/* Sessions (server/sessions). */
bool sessions_create_check(struct exchange *exchange, struct problem *problem);
void sessions_create(struct exchange *exchange);
void sessions_list(struct exchange *exchange);
void sessions_get(struct exchange *exchange);
void sessions_delete(struct exchange *exchange);
bool sessions_named_check(struct exchange *exchange, struct problem *problem);
void sessions_truncate(struct exchange *exchange);
void sessions_fork(struct exchange *exchange);
bool sessions_step_check(struct exchange *exchange, struct problem *problem);
void sessions_step(struct exchange *exchange);
bool sessions_steps_check(struct exchange *exchange, struct problem *problem);
void sessions_steps(struct exchange *exchange);
void sessions_snapshot(struct exchange *exchange);

/* Captures (server/captures). */
void captures_list_handle(struct exchange *exchange);
void captures_drop_handle(struct exchange *exchange);
void capture_show_handle(struct exchange *exchange);
void capture_drop_handle(struct exchange *exchange);
void capture_pin_handle(struct exchange *exchange);
void capture_unpin_handle(struct exchange *exchange);
void capture_map_handle(struct exchange *exchange);
void capture_cell_handle(struct exchange *exchange);
void capture_stats_handle(struct exchange *exchange);
bool capture_compare_check(struct exchange *exchange, struct problem *problem);
void capture_compare_handle(struct exchange *exchange);
bool capture_remask_check(struct exchange *exchange, struct problem *problem);
void capture_remask_handle(struct exchange *exchange);

/* Whether calls are taken; false when the exchange has been refused for it. */
bool ops_check_ready(struct exchange *exchange);
void ops_health(struct exchange *exchange);
void ops_ready(struct exchange *exchange);
void ops_metrics(struct exchange *exchange);
void ops_latency(struct exchange *exchange);
void ops_describe(struct exchange *exchange);
void ops_document(struct exchange *exchange);

/* The Open Inference Protocol (oip_handler.c). */
struct oip_model;
/* The model and version that the path names; NULL with *problem set when there is none. */
const struct oip_model *oip_find_model(const struct exchange *exchange, struct problem *problem);
bool oip_infer_check(struct exchange *exchange, struct problem *problem);
void oip_infer_handle(struct exchange *exchange);
/* The same; NULL when the exchange has been refused for it. */
const struct oip_model *oip_take_model(struct exchange *exchange);
void oip_server_metadata(struct exchange *exchange);
void oip_live(struct exchange *exchange);
void oip_ready(struct exchange *exchange);
void oip_models(struct exchange *exchange);
void oip_model_metadata(struct exchange *exchange);
void oip_model_ready(struct exchange *exchange);
void oip_model_config(struct exchange *exchange);
void oip_model_statistics(struct exchange *exchange);
void oip_all_statistics(struct exchange *exchange);
bool oip_repository_check(struct exchange *exchange, struct problem *problem);
void oip_repository_index(struct exchange *exchange);
void oip_repository_keep(struct exchange *exchange);

#endif
