/* SPDX-License-Identifier: Apache-2.0 */
/* What a request's head says: its headers, its query string, who sent it. Text stays the library's,
   for as long as the request lasts. */
#include <arpa/inet.h>
#include <assert.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/codecs/codec_oip.h"
#include "server/digits.h"
#include "server/hosts.h"
#include "server/http/http_internal.h"
#include "server/tracing/trace_exchange.h"

/* The C library's inet_ntop() prints by way of printf, for each request of a connection anew. */
static void write_ipv4(const struct sockaddr *address, char *text) {
    const struct in_addr *ip = &((const struct sockaddr_in *)(const void *)address)->sin_addr;
    const unsigned char *bytes = (const unsigned char *)&ip->s_addr;
    size_t used = 0;
    for (int n = 0; n < 4; n++) {
        used += digits_decimal(text + used, bytes[n]);
        text[used++] = n < 3 ? '.' : '\0';
    }
}

void http_address_text(const struct sockaddr *address, char *text, size_t size) {
    text[0] = '\0';
    if (address->sa_family == AF_UNIX)
        snprintf(text, size, "unix");
    else if (address->sa_family == AF_INET)
        write_ipv4(address, text);
    else if (address->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, text,
                  (socklen_t)size);
}

static void read_remote(struct MHD_Connection *connection, char *text, size_t size) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    assert(info != NULL && info->client_addr != NULL); /* every connection has one */
    http_address_text(info->client_addr, text, size);
}

struct query_reader {
    struct codec_query_option *options;
    size_t count, room;
    bool has_nul;
};

static enum MHD_Result read_option(void *context, enum MHD_ValueKind kind, const char *name,
                                   size_t name_size, const char *value, size_t value_size) {
    struct query_reader *reader = context;
    (void)kind;
    reader->has_nul |= strlen(name) != name_size || (value != NULL && strlen(value) != value_size);
    assert(reader->count < reader->room);
    reader->options[reader->count++] =
        (struct codec_query_option){.name = name, .value = value == NULL ? "" : value};
    return MHD_YES;
}

bool http_read_query(struct MHD_Connection *connection, struct exchange *exchange) {
    const int count = MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, NULL, NULL);
    if (count <= 0)
        return true;
    struct query_reader reader = {.options = calloc((size_t)count, sizeof *reader.options),
                                  .room = (size_t)count};
    exchange->query = reader.options;
    if (reader.options == NULL) {
        exchange_fail(exchange, ATTN_NO_MEMORY, "There is no memory for the query string now.");
        return false;
    }
    MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, read_option, &reader);
    exchange->query_count = reader.count;
    if (reader.has_nul)
        exchange_fail(exchange, ATTN_MALFORMED, "The query string has a NUL character.");
    return !reader.has_nul;
}

static const char *header(struct MHD_Connection *connection, const char *name) {
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static void read_origin(struct MHD_Connection *connection, struct exchange *exchange) {
    const char *private_network = header(connection, "Access-Control-Request-Private-Network");
    exchange->origin = header(connection, MHD_HTTP_HEADER_ORIGIN);
    exchange->is_preflight =
        exchange->method == HTTP_OPTIONS && exchange->origin != NULL &&
        header(connection, MHD_HTTP_HEADER_ACCESS_CONTROL_REQUEST_METHOD) != NULL;
    exchange->asks_private_network =
        private_network != NULL && strcmp(private_network, "true") == 0;
    if (!cors_allows(&exchange->service->cors, exchange->origin)) {
        exchange->foreign_page =
            exchange->origin != NULL && !hosts_is_same(exchange->origin, exchange->host);
        exchange->origin = NULL;
    }
}

void http_read_head(struct MHD_Connection *connection, struct http_peer *peer,
                    struct exchange *exchange) {
    exchange->connection = connection;
    exchange->method = http_method_find(exchange->method_name);
    exchange->content_type = header(connection, MHD_HTTP_HEADER_CONTENT_TYPE);
    exchange->content_encoding = header(connection, MHD_HTTP_HEADER_CONTENT_ENCODING);
    exchange->accept = header(connection, MHD_HTTP_HEADER_ACCEPT);
    exchange->accept_encoding = header(connection, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    exchange->if_none_match = header(connection, MHD_HTTP_HEADER_IF_NONE_MATCH);
    exchange->host = header(connection, MHD_HTTP_HEADER_HOST);
    exchange->authorization = header(connection, MHD_HTTP_HEADER_AUTHORIZATION);
    exchange->at_ops = peer->at_ops;
    read_origin(connection, exchange);
    exchange->json_length = header(connection, OIP_LENGTH_HEADER);
    request_id_choose(header(connection, "X-Request-Id"), exchange->id);
    memcpy(peer->id, exchange->id, sizeof peer->id);
    snprintf(peer->origin, sizeof peer->origin, "%s",
             exchange->origin == NULL ? "" : exchange->origin);
    trace_exchange_begin(exchange, header(connection, "traceparent"));
    if (exchange->service->tracing != NULL)
        exchange->tracestate = header(connection, "tracestate");
    read_remote(connection, exchange->remote, sizeof exchange->remote);
}
