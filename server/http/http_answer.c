/* SPDX-License-Identifier: Apache-2.0 */
/* An exchange's answer as a response of libmicrohttpd, sent from where it lies. */
#include <microhttpd.h>
#include <stdio.h>

#include "server/clock.h"
#include "server/codecs/codec_oip.h"
#include "server/http/http_internal.h"

static void drop(void *context) {
    exchange_unref(context);
}

static void add_header(struct MHD_Response *response, const char *name, const char *value) {
    if (value != NULL && value[0] != '\0')
        (void)MHD_add_response_header(response, name, value);
}

/* What else than the path the answer depends on. */
static const char *vary(bool by_coding, bool by_origin) {
    if (by_coding && by_origin)
        return MHD_HTTP_HEADER_ACCEPT_ENCODING ", " MHD_HTTP_HEADER_ORIGIN;
    if (by_coding)
        return MHD_HTTP_HEADER_ACCEPT_ENCODING;
    return by_origin ? MHD_HTTP_HEADER_ORIGIN : NULL;
}

/* Errors carry these too: a page has to be able to read what is wrong. */
static void add_cors(struct MHD_Response *response, const struct exchange *exchange) {
    const bool is_any = exchange->service->cors.kind == CORS_ANY;
    if (exchange->origin == NULL)
        return;
    add_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN,
               is_any ? "*" : exchange->origin);
    if (!exchange->is_preflight) {
        add_header(response, "Access-Control-Expose-Headers", CORS_ANSWER_HEADERS);
        return;
    }
    add_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, exchange->answer.allow);
    add_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS, CORS_REQUEST_HEADERS);
    add_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_MAX_AGE, "7200");
    if (exchange->asks_private_network)
        add_header(response, "Access-Control-Allow-Private-Network", "true");
}

static void add_headers(struct MHD_Response *response, const struct exchange *exchange) {
    const struct exchange_answer *answer = &exchange->answer;
    char timing[256], json_bytes[24];
    snprintf(json_bytes, sizeof json_bytes, "%zu", answer->json_bytes);
    add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->media_type);
    add_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, answer->coding);
    add_header(response, MHD_HTTP_HEADER_ALLOW, answer->allow);
    add_header(response, MHD_HTTP_HEADER_ETAG, answer->etag);
    add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, answer->etag != NULL ? "no-cache" : NULL);
    add_header(response, "Content-Security-Policy", answer->policy);
    add_header(response, "X-Content-Type-Options", answer->policy != NULL ? "nosniff" : NULL);
    add_header(response, MHD_HTTP_HEADER_RETRY_AFTER, answer->retry_after ? "1" : NULL);
    add_header(response, OIP_LENGTH_HEADER, answer->json_bytes > 0 ? json_bytes : NULL);
    add_header(response, "X-Request-Id", exchange->id);
    add_header(response, "Server-Timing", exchange_timing(exchange, timing, sizeof timing));
    add_header(response, MHD_HTTP_HEADER_VARY,
               vary(answer->varies, cors_varies(&exchange->service->cors)));
    add_cors(response, exchange);
    if (answer->close || service_phase(exchange->service) >= SERVICE_LEAVING)
        add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
}

bool http_answer(struct MHD_Connection *connection, struct exchange *exchange) {
    const struct exchange_answer *answer = &exchange->answer;
    exchange_ref(exchange); /* the response's, dropped when it is freed */
    /* The library only reads the buffer, but its interface has no const. */
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
        answer->length, answer->length == 0 ? (void *)"" : (void *)(uintptr_t)answer->data, drop,
        exchange);
    if (response == NULL) {
        exchange_unref(exchange);
        return false;
    }
    add_headers(response, exchange);
    exchange->sent = clock_now();
    const bool queued =
        MHD_queue_response(connection, (unsigned)answer->status, response) == MHD_YES;
    if (queued)
        exchange->state = EXCHANGE_SENT;
    MHD_destroy_response(response);
    return queued;
}
