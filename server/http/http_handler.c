/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmicrohttpd's callbacks, turned into the steps of an exchange. The handler is called once for
 * the head, once per piece of the body, once when all is there, and again after each sleep; which
 * of these it is follows from the exchange's state alone.
 */
#include "server/http/http_handler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "server/http/http_internal.h"
#include "server/http/http_tls_internal.h"

/* A refused body of at most this length is read to its end, so that the connection can stay. */
#define SHORT_BODY (UINT64_C(1) << 20)

static struct http_peer *peer_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info == NULL ? NULL : info->socket_context;
}

/* Only while the phase is IDLE or BUSY, in which the warden tells nobody what was allowed. */
static void set_deadline(struct MHD_Connection *connection, uint64_t ms) {
    struct http_peer *peer = peer_of(connection);
    if (peer == NULL)
        return;
    peer->allowed_ms = ms;
    atomic_store(&peer->deadline, clock_deadline(clock_now(), ms));
}

/* Whether the last answer has been sent: what still comes is for the warden to throw away. */
static bool is_told(struct http_peer *peer) {
    if (peer == NULL || atomic_load(&peer->phase) != PEER_TOLD)
        return false;
    peer->may_linger = true;
    return true;
}

/* True: until the phase changes again, nobody else answers on this connection. */
static bool claim(struct http_peer *peer) {
    int phase = atomic_load(&peer->phase);
    while (phase != PEER_TOLD)
        if (atomic_compare_exchange_weak(&peer->phase, &phase, PEER_BUSY))
            return true;
    return !is_told(peer);
}

/* From here on the body may be late. */
static enum MHD_Result await_body(struct MHD_Connection *connection) {
    atomic_store(&peer_of(connection)->phase, PEER_BODY);
    return MHD_YES;
}

/*
 * A connection sleeps under a timeout of its own. When it goes on, libmicrohttpd 0.9.75 calls us
 * for such a one before it reads from it, but for the others perhaps only after that: then the end
 * of a client that has ended only its side makes it close the connection instead of answering.
 */
static void set_timeout(struct http_thread *thread, struct MHD_Connection *connection,
                        bool is_own) {
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
                              http_idle_seconds(&thread->server->options) + (is_own ? 1 : 0));
}

/* Suspends, and only then lets others know of it. */
static enum MHD_Result sleep_now(struct http_thread *thread, struct MHD_Connection *connection,
                                 struct exchange *exchange) {
    struct http_peer *peer = peer_of(connection);
    atomic_store(&peer->deadline, 0);
    set_timeout(thread, connection, true);
    MHD_suspend_connection(connection);
    http_warden_sleep(thread->server->warden, peer, exchange);
    exchange_sleep(exchange);
    return MHD_YES;
}

static enum MHD_Result send_answer(struct http_thread *thread, struct MHD_Connection *connection,
                                   struct exchange *exchange) {
    set_deadline(connection, thread->server->options.send_timeout_ms);
    return http_answer(connection, exchange) ? MHD_YES : MHD_NO;
}

/* The head was refused. A short body is awaited; else the answer goes out now and the connection
   is closed, gently where the client may still be sending. */
static enum MHD_Result refuse(struct http_thread *thread, struct MHD_Connection *connection,
                              struct exchange *exchange) {
    const bool ambiguous = exchange->answer.close;
    if (!exchange->has_body && !ambiguous)
        return await_body(connection); /* the call for the complete request follows at once */
    const bool is_short = exchange->has_length && exchange->content_length <= SHORT_BODY;
    if (!ambiguous && !exchange->expects_continue && (is_short || !exchange->has_length))
        return await_body(connection);
    peer_of(connection)->may_linger = true;
    exchange->answer.close = true;
    return send_answer(thread, connection, exchange);
}

/* NULL without TLS. */
static gnutls_session_t session_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info == NULL ? NULL : info->tls_session;
}

/* Where clients need certificates: whether this one has shown a good one. */
static bool check_client(const struct http_thread *thread, const struct http_peer *peer,
                         struct problem *problem) {
    const struct http_tls *const tls = thread->server->options.tls;
    if (peer->session == NULL || http_tls_client_ca(tls) == NULL ||
        http_tls_knows_client(peer->session))
        return true;
    problem_set(problem, PROBLEM_NO_CERTIFICATE, NULL,
                "This service answers clients that show a certificate of an authority that it "
                "knows (tls_client_ca), and this one has shown none, or one that is not valid.");
    return false;
}

static enum MHD_Result begin(struct http_thread *thread, struct MHD_Connection *connection,
                             const struct http_head *head) {
    struct exchange *exchange = head->exchange;
    struct problem problem;
    const struct http_options *options = &thread->server->options;
    http_read_head(connection, peer_of(connection), exchange);
    if (!http_guard_room(thread, connection, peer_of(connection), exchange))
        return MHD_NO;
    set_deadline(connection, options->body_timeout_ms);
    if (!http_guard(head, &problem) || !check_client(thread, peer_of(connection), &problem))
        exchange_refuse(exchange, &problem);
    else if (http_join_lists(connection, exchange) && http_read_query(connection, exchange))
        exchange_head(exchange);
    if (exchange->launch != NULL)
        return sleep_now(thread, connection, exchange);
    if (exchange->state == EXCHANGE_REFUSED)
        return refuse(thread, connection, exchange);
    return await_body(connection);
}

/* All of the request is there, or the sleep after that is over. */
static enum MHD_Result go_on(struct http_thread *thread, struct MHD_Connection *connection,
                             struct exchange *exchange) {
    struct http_peer *const peer = peer_of(connection);
    if (!claim(peer) || !http_guard_room(thread, connection, peer, exchange))
        return MHD_NO;
    if (exchange->state != EXCHANGE_READY)
        exchange_complete(exchange);
    if (exchange->state == EXCHANGE_READY)
        return send_answer(thread, connection, exchange);
    return sleep_now(thread, connection, exchange);
}

static enum MHD_Result wake(struct http_thread *thread, struct MHD_Connection *connection,
                            struct exchange *exchange) {
    http_warden_sleep(thread->server->warden, peer_of(connection), NULL);
    set_timeout(thread, connection, false);
    exchange_woken(exchange);
    if (exchange->launch != NULL)
        return sleep_now(thread, connection, exchange);
    if (exchange->state == EXCHANGE_READY)
        return send_answer(thread, connection, exchange);
    set_deadline(connection, thread->server->options.body_timeout_ms);
    return exchange->state == EXCHANGE_REFUSED ? refuse(thread, connection, exchange)
                                               : await_body(connection);
}

/* It has a request, or never will. */
static void note_asked(struct http_server *server, struct http_peer *peer) {
    if (!peer->has_asked)
        atomic_fetch_sub(&server->unasked, 1);
    peer->has_asked = true;
}

static enum MHD_Result first_call(struct http_thread *thread, struct MHD_Connection *connection,
                                  const char *url, const char *method, const char *version,
                                  void **request) {
    struct http_peer *const peer = peer_of(connection);
    if (peer != NULL && !claim(peer))
        return MHD_NO;
    struct exchange *exchange = peer == NULL ? NULL : exchange_create(thread->server->service);
    if (exchange == NULL)
        return http_answer_spare(thread->server, connection, peer, url) ? MHD_YES : MHD_NO;
    *request = peer->exchange = exchange;
    http_heard(thread, connection);
    note_asked(thread->server, peer);
    peer->may_ask = strcmp(version, MHD_HTTP_VERSION_1_0) != 0;
    exchange->path = url;
    exchange->escaped_path = peer->escaped_path;
    exchange->method_name = method;
    exchange->thread = thread;
    exchange->arena = &thread->arena;
    const struct http_head head = {connection, peer->target_end, version, exchange};
    return begin(thread, connection, &head);
}

enum MHD_Result http_handle(void *context, struct MHD_Connection *connection, const char *url,
                            const char *method, const char *version, const char *data, size_t *size,
                            void **request) {
    struct http_thread *thread = context;
    struct exchange *exchange = *request;
    if (exchange == NULL)
        return first_call(thread, connection, url, method, version, request);
    if (is_told(peer_of(connection)))
        return MHD_NO;
    if (exchange->state == EXCHANGE_SLEEPING)
        return wake(thread, connection, exchange);
    if (*size == 0)
        return go_on(thread, connection, exchange);
    atomic_fetch_add(&peer_of(connection)->pieces, 1);
    if (exchange->state == EXCHANGE_RECEIVING && exchange->body_length == 0)
        http_leave_sender(peer_of(connection)->fd, exchange->content_length);
    const bool taken = exchange_take_body(exchange, data, *size);
    *size = 0;
    return taken ? MHD_YES : MHD_NO;
}

/* The warden has answered that the rest of the body does not come, or cannot be read: now that can
   be counted and logged. */
static void count_told(struct exchange *exchange, int code) {
    exchange->answer.problem = 0; /* whatever else its head was refused for was not said */
    exchange_fail(exchange, code, "%s", "");
    exchange->state = EXCHANGE_SENT;
}

void http_completed(void *context, struct MHD_Connection *connection, void **request,
                    enum MHD_RequestTerminationCode code) {
    struct http_thread *thread = context;
    struct exchange *exchange = *request;
    const struct http_options *options = &thread->server->options;
    struct http_peer *peer = peer_of(connection);
    if (peer == NULL)
        return; /* there was no memory for it, and so no request was taken */
    const bool told = !claim(peer);
    if (!told) {
        set_deadline(connection, options->idle_timeout_ms + options->header_timeout_ms);
        atomic_store(&peer->phase, PEER_IDLE);
    }
    if (exchange == NULL)
        return;
    if (told)
        count_told(exchange, peer->told);
    *request = peer->exchange = NULL;
    if (exchange->state == EXCHANGE_SLEEPING) { /* woken, but the connection was dead already */
        http_warden_sleep(thread->server->warden, peer_of(connection), NULL);
        exchange_woken(exchange);
    }
    exchange_end(exchange, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    exchange_unref(exchange);
}

/* The text of its head was the connection's, which has given its memory back. */
static void lose_head(struct exchange *exchange) {
    exchange->method_name = http_method_name(exchange->method);
    exchange->path = exchange->route == NULL ? "" : exchange->route->path;
    exchange->content_type = exchange->content_encoding = exchange->json_length = NULL;
    exchange->accept = exchange->accept_encoding = exchange->if_none_match = NULL;
    exchange->origin = exchange->host = exchange->authorization = exchange->tracestate = NULL;
    exchange->query_count = 0;
}

/* Version 1.0 ends a connection without a word about its request where its buffer is full in front
   of a chunk. */
static void end_forgotten(void *context, struct MHD_Connection *connection,
                          const struct http_peer *peer) {
    void *request = peer->exchange;
    if (request == NULL)
        return;
    lose_head(request);
    http_completed(context, connection, &request, MHD_REQUEST_TERMINATED_WITH_ERROR);
}

void http_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                     enum MHD_ConnectionNotificationCode code) {
    struct http_thread *thread = context;
    struct http_server *server = thread->server;
    struct http_peer *peer = *socket_context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *socket_context = peer = http_warden_add(server->warden, info->connect_fd, &thread->rounds);
        if (peer != NULL) {
            peer->session = session_of(connection);
            peer->at_ops = http_arrived_at_ops(thread, info->connect_fd);
            atomic_fetch_add(&server->unasked, 1);
            atomic_store(&peer->deadline,
                         clock_deadline(clock_now(), server->options.header_timeout_ms));
        }
        metrics_connection(server->service->metrics, 1);
        return;
    }
    if (peer != NULL) {
        end_forgotten(context, connection, peer);
        note_asked(server, peer);
        http_warden_remove(server->warden, peer);
    }
    *socket_context = NULL;
    metrics_connection(server->service->metrics, -1);
}

/* The library hands paths over decoded, so that "%00" ends one early; no route needs an escape. */
void *http_first_line(void *context, const char *uri, struct MHD_Connection *connection) {
    const struct http_thread *thread = context;
    struct http_peer *peer = peer_of(connection);
    set_deadline(connection, thread->server->options.header_timeout_ms);
    if (peer == NULL)
        return NULL;
    peer->escaped_path = uri[strcspn(uri, "%?")] == '%';
    peer->errors = route_errors(uri);
    peer->target_end = uri + strlen(uri);
    atomic_store(&peer->phase, PEER_HEAD);
    http_guard_line(context, peer, uri);
    return NULL;
}
