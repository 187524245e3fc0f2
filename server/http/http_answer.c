/* SPDX-License-Identifier: Apache-2.0 */
/* An exchange's answer as a response of libmicrohttpd, sent from where it lies. */
#include <microhttpd.h>
#include <string.h>

#include "server/clock.h"
#include "server/codecs/codec_oip.h"
#include "server/digits.h"
#include "server/http/http_internal.h"

static void drop(void *context) {
    exchange_unref(context);
}

/* An answer that is being made; all of its headers are to be in it. */
struct making {
    struct MHD_Response *response;
    bool is_whole;
};

static void add_header(struct making *making, const char *name, const char *value) {
    if (value != NULL && value[0] != '\0')
        making->is_whole &= MHD_add_response_header(making->response, name, value) == MHD_YES;
}

/* What else than the path the answer depends on. */
static const char *vary(bool by_coding, bool by_origin) {
    if (by_coding && by_origin)
        return MHD_HTTP_HEADER_ACCEPT_ENCODING ", " MHD_HTTP_HEADER_ORIGIN;
    if (by_coding)
        return MHD_HTTP_HEADER_ACCEPT_ENCODING;
    return by_origin ? MHD_HTTP_HEADER_ORIGIN : NULL;
}

/* Whoever keeps an answer that has a tag asks each time whether it is still the same. */
static const char *cache_control(const struct exchange_answer *answer) {
    if (answer->is_immutable)
        return "public, max-age=31536000, immutable";
    return answer->etag != NULL ? "no-cache" : NULL;
}

/* Errors carry these too: a page has to be able to read what is wrong. */
static void add_cors(struct making *making, const struct exchange *exchange) {
    const bool is_any = exchange->service->cors.kind == CORS_ANY;
    if (exchange->origin == NULL)
        return;
    add_header(making, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN,
               is_any ? "*" : exchange->origin);
    if (!exchange->is_preflight) {
        add_header(making, "Access-Control-Expose-Headers", CORS_ANSWER_HEADERS);
        return;
    }
    add_header(making, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, exchange->answer.allow);
    add_header(making, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS, CORS_REQUEST_HEADERS);
    add_header(making, MHD_HTTP_HEADER_ACCESS_CONTROL_MAX_AGE, "7200");
    if (exchange->asks_private_network)
        add_header(making, "Access-Control-Allow-Private-Network", "true");
}

static void add_headers(struct making *making, const struct exchange *exchange) {
    const struct exchange_answer *answer = &exchange->answer;
    char timing[256], json_bytes[DIGITS_DECIMAL + 1], retry_after[DIGITS_DECIMAL + 1];
    char parent[TRACE_PARENT_SIZE];
    retry_after[digits_decimal(retry_after, answer->retry_after)] = '\0';
    json_bytes[digits_decimal(json_bytes, answer->json_bytes)] = '\0';
    add_header(making, MHD_HTTP_HEADER_CONTENT_TYPE, answer->media_type);
    add_header(making, MHD_HTTP_HEADER_CONTENT_ENCODING, answer->coding);
    add_header(making, MHD_HTTP_HEADER_ALLOW, answer->allow);
    add_header(making, MHD_HTTP_HEADER_ETAG, answer->etag);
    add_header(making, MHD_HTTP_HEADER_CACHE_CONTROL, cache_control(answer));
    add_header(making, "Content-Security-Policy", answer->policy);
    add_header(making, "X-Content-Type-Options", answer->policy != NULL ? "nosniff" : NULL);
    add_header(making, "Referrer-Policy", answer->policy != NULL ? "no-referrer" : NULL);
    add_header(making, MHD_HTTP_HEADER_RETRY_AFTER, answer->retry_after > 0 ? retry_after : NULL);
    add_header(making, MHD_HTTP_HEADER_WWW_AUTHENTICATE, answer->challenge);
    add_header(making, MHD_HTTP_HEADER_LOCATION, answer->location);
    add_header(making, OIP_LENGTH_HEADER, answer->json_bytes > 0 ? json_bytes : NULL);
    for (size_t n = 0; n < answer->header_count; n++)
        add_header(making, answer->headers[n].name, answer->headers[n].value);
    add_header(making, "X-Request-Id", exchange->id);
    add_header(making, "traceparent", trace_context_write(&exchange->trace, parent));
    add_header(making, "Server-Timing", exchange_timing(exchange, timing, sizeof timing));
    add_header(making, MHD_HTTP_HEADER_VARY,
               vary(answer->varies, cors_varies(&exchange->service->cors)));
    add_cors(making, exchange);
    if (answer->close || service_phase(exchange->service) >= SERVICE_LEAVING)
        add_header(making, MHD_HTTP_HEADER_CONNECTION, "close");
}

static bool queue_spare(const struct http_server *server, struct MHD_Connection *connection,
                        const char *path) {
    return MHD_queue_response(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                              server->no_memory[route_errors(path)]) == MHD_YES;
}

/* NULL when there is no memory for it. Holds a reference to the exchange, whose answer it sends. */
static struct MHD_Response *make_response(struct exchange *exchange) {
    const struct exchange_answer *answer = &exchange->answer;
    exchange_ref(exchange); /* the response's, dropped when it is freed */
    /* The library only reads the buffer, but its interface has no const. */
    struct making making = {MHD_create_response_from_buffer_with_free_callback_cls(
                                answer->length,
                                answer->length == 0 ? (void *)"" : (void *)(uintptr_t)answer->data,
                                drop, exchange),
                            true};
    if (making.response == NULL) {
        exchange_unref(exchange);
        return NULL;
    }
    add_headers(&making, exchange);
    if (making.is_whole)
        return making.response;
    MHD_destroy_response(making.response);
    return NULL;
}

/* Of such a call nobody may say that it failed: without its answer the connection ends, as when the
   answer is lost on its way. */
static bool has_changed(const struct exchange *exchange) {
    const struct route *route = exchange->route;
    return exchange->is_lost || exchange->has_changed ||
           (exchange->answer.problem == 0 && route != NULL && route->access == ACCESS_SESSIONS &&
            route->method != HTTP_GET);
}

bool http_answer(struct MHD_Connection *connection, struct exchange *exchange) {
    const struct http_thread *const thread = exchange->thread;
    struct MHD_Response *const response = exchange->is_lost ? NULL : make_response(exchange);
    bool queued;
    exchange->sent = clock_now();
    if (response == NULL && has_changed(exchange))
        return false;
    if (response == NULL) {
        exchange->answer.problem = 0; /* whatever else it was refused for is not said */
        exchange_fail(exchange, ATTN_NO_MEMORY, "%s", "");
        queued = queue_spare(thread->server, connection, exchange->path);
    } else {
        queued =
            MHD_queue_response(connection, (unsigned)exchange->answer.status, response) == MHD_YES;
        MHD_destroy_response(response);
    }
    if (queued)
        exchange->state = EXCHANGE_SENT;
    return queued;
}

/* ---- without memory ---- */

static struct MHD_Response *make_spare(enum problem_form form) {
    const char *const text = problem_no_memory(form);
    struct making making = {MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text,
                                                            MHD_RESPMEM_PERSISTENT),
                            true};
    if (making.response == NULL)
        return NULL;
    add_header(&making, MHD_HTTP_HEADER_CONTENT_TYPE, problem_content_type(form));
    add_header(&making, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    add_header(&making, MHD_HTTP_HEADER_CONNECTION, "close");
    if (making.is_whole)
        return making.response;
    MHD_destroy_response(making.response);
    return NULL;
}

bool http_spares_create(struct http_server *server) {
    for (int form = 0; form < PROBLEM_FORMS; form++) {
        server->no_memory[form] = make_spare((enum problem_form)form);
        if (server->no_memory[form] == NULL)
            return false;
    }
    return true;
}

void http_spares_free(struct http_server *server) {
    for (int form = 0; form < PROBLEM_FORMS; form++)
        if (server->no_memory[form] != NULL)
            MHD_destroy_response(server->no_memory[form]);
}

bool http_answer_spare(const struct http_server *server, struct MHD_Connection *connection,
                       struct http_peer *peer, const char *path) {
    if (peer != NULL)
        peer->may_linger = true;
    metrics_count_rejection(server->service->metrics, ATTN_NO_MEMORY);
    return queue_spare(server, connection, path);
}
