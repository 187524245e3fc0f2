/* SPDX-License-Identifier: Apache-2.0 */
/* What the handlers of sessions have in common. */
#ifndef SERVER_SESSIONS_SESSIONS_H
#define SERVER_SESSIONS_SESSIONS_H

#include "server/calls/tensor_call.h"
#include "server/exchange.h"
#include "server/sessions/session_table.h"
#include "server/sessions/session_wait.h"

/* NULL without keys. */
static inline const struct account_limits *sessions_key_limits(const struct exchange *exchange) {
    return exchange->pass.key == NULL ? NULL : &exchange->pass.key->limits;
}

/* The problem of an answer that is not FINE, for the id that was asked for. */
int sessions_code(enum session_answer answer);
void sessions_say(struct problem *problem, const struct exchange *exchange,
                  enum session_answer answer, const char *id, size_t length);
/* The key keeps as many bytes as it may. */
void sessions_say_memory(struct problem *problem, const struct exchange *exchange);
/* Adds to an error about a session's length what that is: its shortest layer's. */
void sessions_note_length(struct session *session, struct attn_error *error);
/* The session called id[0 .. length), with a reference; NULL with *problem set. */
struct session *sessions_find(struct exchange *exchange, const char *id, size_t length,
                              struct problem *problem);
/* That of the path; NULL when the exchange has been refused for it. */
struct session *sessions_take(struct exchange *exchange);
/* Whether the path names one; as a route's check. */
bool sessions_check_path(struct exchange *exchange, struct problem *problem);

/* The options of a call without tensors: those of a body in JSON, which may be empty where it is
   `optional`, and of the query string. False when the exchange has been refused for them; else
   `request` is to be closed. */
bool sessions_read_options(struct exchange *exchange, const struct codec_schema *schema,
                           bool is_optional, struct codec_request *request);
/* The same of a request that has no body and whose options nobody needs to know. */
bool sessions_check_query(struct exchange *exchange, const struct codec_schema *schema);
/* A check of their media types. */
bool sessions_check_json(struct exchange *exchange, struct problem *problem);

/* An empty cache as the options ask for it. Errors: MISSING_FIELD, and those of
   attn_kv_cache_create. */
enum attn_status sessions_make_cache(struct attn_kv_pool *pool, const struct codec_session *asked,
                                     struct attn_kv_cache **out, struct attn_error *error);
/* A session that nobody knows yet, of the id and the time to live that the options say. Takes the
   cache. Errors: BAD_VALUE, NO_MEMORY. */
enum attn_status sessions_make(const struct exchange *exchange, const struct codec_session *asked,
                               struct attn_kv_cache *cache, struct session **out,
                               struct attn_error *error);

/* What makes a cache, as members of a JSON object: "layers":… to "rope":… */
void sessions_write_spec(struct text *text, const struct attn_kv_spec *spec);
/* All of a session as a JSON object. */
void sessions_write(struct text *text, struct session *session);
/* Answers with it; created: 201, and where it is. */
void sessions_answer(struct exchange *exchange, struct session *session, int status);
void sessions_created(struct exchange *exchange, struct session *session);

/* POST /v1/sessions with a snapshot. */
void sessions_restore(struct exchange *exchange);

#endif
