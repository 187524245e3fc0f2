/* SPDX-License-Identifier: Apache-2.0 */
/* A keep-alive HTTP client for benchmarks on loopback: blocking, no allocation per call. */
#ifndef BENCH_HTTP_CLIENT_H
#define BENCH_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

struct http_client {
    int fd;
    char *buffer; /* owned; holds an answer's head and body */
    size_t capacity;
};

/* Connects to 127.0.0.1:port, trying for up to ten seconds. False when nobody listens. */
bool http_client_open(struct http_client *client, int port, size_t answer_capacity);
void http_client_close(struct http_client *client);

/*
 * POSTs `body` and reads the whole answer. Returns the status code, 0 when the connection failed.
 * *answer borrows the client's buffer until the next call.
 */
int http_client_post(struct http_client *client, const char *path, const char *content_type,
                     const void *body, size_t length, const char **answer, size_t *answer_length);

/* GETs a path; returns as the post does. */
int http_client_get(struct http_client *client, const char *path, const char **answer,
                    size_t *answer_length);

/* Its two halves: false when the connection failed; returns as the post does. */
bool http_client_send(struct http_client *client, const char *path, const char *content_type,
                      const void *body, size_t length);
int http_client_receive(struct http_client *client, const char **answer, size_t *answer_length);

/* The next port on loopback that nobody listens on, from `from` upwards. */
int http_client_free_port(int from);

#endif
