/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guards of the request line. libmicrohttpd 0.9.75 stores every option of the query string before
 * it calls a handler, and when its memory does not suffice it neither answers nor reads on. So a
 * line that could come to that is answered here, when it has been read and nothing more.
 */
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "server/http/http_direct.h"
#include "server/http/http_internal.h"

/* Both together stay well within the least memory that a connection may have. */
enum { TARGET_MAX = 8192, OPTIONS_MAX = 128 };

static size_t count_options(const char *target) {
    const char *at = target + strcspn(target, "?");
    size_t count = *at == '\0' || at[1] == '\0' ? 0 : 1;
    for (; *at != '\0'; at++)
        count += *at == '&';
    return count;
}

/* True: the target is refused. */
static bool is_too_much(const char *target, struct problem *problem) {
    const size_t length = strlen(target), options = count_options(target);
    if (length > TARGET_MAX) {
        problem_set(problem, PROBLEM_TARGET_TOO_LONG, NULL,
                    "The path and the query string have %zu bytes; %d are read. Put long options "
                    "into the body.",
                    length, TARGET_MAX);
        problem->limit = TARGET_MAX;
    } else if (options > OPTIONS_MAX) {
        problem_set(problem, PROBLEM_TOO_MANY_OPTIONS, NULL,
                    "The query string has %zu options; %d are read. Give each option once.",
                    options, OPTIONS_MAX);
        problem->limit = OPTIONS_MAX;
    }
    return length > TARGET_MAX || options > OPTIONS_MAX;
}

void http_guard_line(struct http_thread *thread, struct http_peer *peer, const char *target) {
    struct problem problem;
    if (!is_too_much(target, &problem))
        return;
    atomic_store(&peer->phase, PEER_TOLD);
    atomic_store(&peer->deadline, clock_deadline(clock_now(), HTTP_LINGER_MS));
    peer->may_linger = true;
    /* Not the library's: it may close the connection without another word to us. */
    struct exchange *exchange = exchange_create(thread->server->service);
    if (exchange == NULL) {
        metrics_count_rejection(thread->server->service->metrics, ATTN_NO_MEMORY);
        http_direct_no_memory(peer, peer->errors);
        return;
    }
    exchange->method_name = exchange->path = "";
    exchange->method = HTTP_OTHER;
    request_id_choose(NULL, exchange->id);
    exchange_refuse(exchange, &problem);
    const struct http_addressee client = {peer->errors, exchange->id, ""};
    const bool whole = http_direct(peer, &problem, &client);
    exchange->state = EXCHANGE_SENT;
    exchange_end(exchange, whole);
    exchange_unref(exchange);
}
