/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `attentiond --health`: a client that asks the running daemon for /healthz, for where there is no
 * other, as in a container that holds nothing but the daemon. It speaks no TLS.
 */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/main_internal.h"

/* A socket that waits no longer than that for anything, or -1. */
static int open_socket(int family) {
    const struct timeval patience = {.tv_sec = 2};
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    return fd;
}

static int connect_to(int family, const struct sockaddr *address, socklen_t length) {
    const int fd = open_socket(family);
    if (fd < 0 || connect(fd, address, length) == 0)
        return fd;
    close(fd);
    return -1;
}

static int connect_path(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return -1;
    memcpy(address.sun_path, path, strlen(path) + 1);
    return connect_to(AF_UNIX, (const struct sockaddr *)&address, sizeof address);
}

/* 0.0.0.0 and :: lead to this machine. */
static int connect_host(const struct config_address *address) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char port[8];
    int fd = -1;
    snprintf(port, sizeof port, "%u", (unsigned)address->port);
    if (getaddrinfo(address->host, port, &hints, &found) != 0)
        return -1;
    for (const struct addrinfo *i = found; i != NULL && fd < 0; i = i->ai_next)
        fd = connect_to(i->ai_family, i->ai_addr, i->ai_addrlen);
    freeaddrinfo(found);
    return fd;
}

/* Whether the answer begins as it should, in however many pieces that comes. */
static bool is_healthy(int fd) {
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
                                  "Connection: close\r\n\r\n";
    static const char expected[] = "HTTP/1.1 200";
    char got[sizeof expected - 1];
    size_t filled = 0;
    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) != (ssize_t)sizeof request - 1)
        return false;
    while (filled < sizeof got) {
        const ssize_t n = recv(fd, got + filled, sizeof got - filled, 0);
        if (n <= 0)
            return false;
        filled += (size_t)n;
    }
    return memcmp(got, expected, sizeof got) == 0;
}

int main_ask_health(const struct attn_config *config) {
    const bool has_ops = config->ops_listen.count > 0;
    const struct config_address *address =
        has_ops ? &config->ops_listen.items[0] : &config->listen.items[0];
    if (!address->is_path && !has_ops && config->tls_certificate[0] != '\0') {
        main_print_error("health: TLS is not spoken here; give the daemon an address for it in "
                         "plain HTTP, as with --ops-listen 127.0.0.1:9090.");
        return EXIT_FAILURE;
    }
    if (!address->is_path && address->port == 0) {
        main_print_error(
            "health: with port 0 only the daemon knows where it listens; name a port.");
        return EXIT_FAILURE;
    }
    const int fd = address->is_path ? connect_path(address->host) : connect_host(address);
    const bool healthy = fd >= 0 && is_healthy(fd);
    if (!healthy)
        main_print_error(fd < 0 ? "health: nothing listens there." : "health: no good answer.");
    if (fd >= 0)
        close(fd);
    return healthy ? EXIT_SUCCESS : EXIT_FAILURE;
}
