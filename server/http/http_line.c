/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guards of a connection's memory, which answer past the library. libmicrohttpd 0.9.75 stores every
 * option of the query string before it calls a handler, and when its memory does not suffice it
 * neither answers nor reads on. So a line that could come to that is answered here, when it has
 * been read and nothing more. A head that just fits leaves no room for the answer's, and the
 * library would close the connection after the call was computed: that is seen before.
 */
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "server/http/http_direct.h"
#include "server/http/http_internal.h"

/* Both together stay well within the least memory that a connection may have. */
enum { TARGET_MAX = 8192, OPTIONS_MAX = 128 };

/* What the head of an answer may take, and what the library keeps of each field beside its text. */
enum { ANSWER_ROOM = 4096, FIELD_BYTES = 64 };

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

/* From here on nobody else answers on the connection. */
static void take_over(struct http_peer *peer) {
    atomic_store(&peer->phase, PEER_TOLD);
    atomic_store(&peer->deadline, clock_deadline(clock_now(), HTTP_LINGER_MS));
    peer->may_linger = true;
}

void http_guard_line(struct http_thread *thread, struct http_peer *peer, const char *target) {
    struct problem problem;
    if (!is_too_much(target, &problem))
        return;
    take_over(peer);
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

/* Names and values lie in the head, which has a length of its own; cookies are copied, and trailers
   come behind it. */
static enum MHD_Result weigh(void *context, enum MHD_ValueKind kind, const char *name,
                             const char *value) {
    size_t *const bytes = context;
    *bytes += FIELD_BYTES;
    if (kind == MHD_COOKIE_KIND || kind == MHD_FOOTER_KIND)
        /* unreached: without a value, for the library gives these an empty one */
        *bytes += strlen(name) + (value == NULL ? 0 : strlen(value)) + sizeof ": \r";
    return MHD_YES;
}

bool http_guard_room(struct http_thread *thread, struct MHD_Connection *connection,
                     struct http_peer *peer, const struct exchange *exchange) {
    const int kinds = MHD_HEADER_KIND | MHD_COOKIE_KIND | MHD_GET_ARGUMENT_KIND | MHD_FOOTER_KIND;
    const size_t most = thread->server->options.connection_bytes - ANSWER_ROOM;
    const union MHD_ConnectionInfo *const head =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    size_t bytes;
    struct problem problem;
    if (exchange->state != EXCHANGE_RECEIVING)
        return true; /* it has its answer, which is none of a call */
    /* unreached: the library does not say of a head that it has read whole how long that is */
    bytes = head == NULL ? 0 : head->header_size;
    MHD_get_connection_values(connection, (enum MHD_ValueKind)kinds, weigh, &bytes);
    if (bytes <= most)
        return true;
    problem_set(&problem, PROBLEM_HEAD_TOO_LARGE, NULL,
                "The headers take %zu bytes of the connection's memory; they may take %zu "
                "(connection_memory). Send fewer or shorter headers, cookies and trailers.",
                bytes, most);
    problem.limit = (double)most;
    take_over(peer);
    peer->told = PROBLEM_HEAD_TOO_LARGE;
    const struct http_addressee client = {peer->errors, exchange->id, peer->origin};
    http_direct(peer, &problem, &client);
    return false;
}
