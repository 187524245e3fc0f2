/* SPDX-License-Identifier: Apache-2.0 */
/* See http_client.h. */
#include "bench/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_in loopback(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

bool http_client_open(struct http_client *client, int port, size_t answer_capacity) {
    const struct sockaddr_in address = loopback(port);
    client->buffer = malloc(answer_capacity);
    client->capacity = answer_capacity;
    if (client->buffer == NULL)
        return false;
    memset(client->buffer, 0, answer_capacity);
    for (int attempt = 0; attempt < 200; attempt++) {
        client->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(client->fd, (const struct sockaddr *)&address, sizeof address) == 0) {
            const int on = 1;
            setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            return true;
        }
        close(client->fd);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    return false;
}

void http_client_close(struct http_client *client) {
    close(client->fd);
    free(client->buffer);
}

static bool send_all(int fd, struct iovec *parts, int count) {
    while (count > 0) {
        ssize_t sent = writev(fd, parts, count);
        if (sent < 0)
            return false;
        while (count > 0 && (size_t)sent >= parts->iov_len) {
            sent -= (ssize_t)parts->iov_len;
            parts++;
            count--;
        }
        if (count > 0) {
            parts->iov_base = (char *)parts->iov_base + sent;
            parts->iov_len -= (size_t)sent;
        }
    }
    return true;
}

/* Reads until `wanted` bytes are in the buffer; false at the end of the stream. */
static bool receive(struct http_client *client, size_t *have, size_t wanted) {
    while (*have < wanted) {
        const ssize_t got =
            recv(client->fd, client->buffer + *have, client->capacity - 1 - *have, 0);
        if (got <= 0)
            return false;
        *have += (size_t)got;
        client->buffer[*have] = '\0';
    }
    return true;
}

bool http_client_send(struct http_client *client, const char *path, const char *content_type,
                      const void *body, size_t length) {
    char head[512];
    const int head_length = snprintf(head, sizeof head,
                                     "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\n"
                                     "Content-Length: %zu\r\n\r\n",
                                     path, content_type, length);
    struct iovec parts[] = {{head, (size_t)head_length}, {(void *)(uintptr_t)body, length}};
    return send_all(client->fd, parts, 2);
}

int http_client_receive(struct http_client *client, const char **answer, size_t *answer_length) {
    size_t have = 0;
    char *end = NULL;
    while (end == NULL) {
        if (!receive(client, &have, have + 1))
            return 0;
        end = strstr(client->buffer, "\r\n\r\n");
    }
    const char *field = strcasestr(client->buffer, "\r\nContent-Length:");
    *answer_length = field == NULL ? 0 : strtoull(field + 17, NULL, 10);
    *answer = end + 4;
    const size_t head_bytes = (size_t)(*answer - client->buffer);
    if (head_bytes + *answer_length >= client->capacity ||
        !receive(client, &have, head_bytes + *answer_length))
        return 0;
    return atoi(client->buffer + 9);
}

int http_client_post(struct http_client *client, const char *path, const char *content_type,
                     const void *body, size_t length, const char **answer, size_t *answer_length) {
    if (!http_client_send(client, path, content_type, body, length))
        return 0;
    return http_client_receive(client, answer, answer_length);
}

int http_client_get(struct http_client *client, const char *path, const char **answer,
                    size_t *answer_length) {
    char head[512];
    const int length =
        snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    struct iovec parts[] = {{head, (size_t)length}};
    if (!send_all(client->fd, parts, 1))
        return 0;
    return http_client_receive(client, answer, answer_length);
}

int http_client_free_port(int from) {
    for (int port = from; port < from + 1000; port++) {
        const struct sockaddr_in address = loopback(port);
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        const int bound = bind(fd, (const struct sockaddr *)&address, sizeof address);
        close(fd);
        if (bound == 0)
            return port;
    }
    return from;
}
