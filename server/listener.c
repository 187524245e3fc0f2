/* SPDX-License-Identifier: Apache-2.0 */
/* Binding and listening; see listener.h. */
#include "server/listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int bind_one(const struct addrinfo *address) {
    const int on = 1;
    const int descriptor =
        socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0)
        return -1;
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(descriptor, address->ai_addr, address->ai_addrlen) == 0 &&
        listen(descriptor, SOMAXCONN) == 0)
        return descriptor;
    const int cause = errno;
    close(descriptor);
    errno = cause;
    return -1;
}

int listener_open(const char *host, uint16_t port, char *error, size_t error_size) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    const int answer = getaddrinfo(host, service, &hints, &found);
    if (answer != 0) {
        snprintf(error, error_size, "cannot find the address \"%s\" to listen on: %s", host,
                 gai_strerror(answer));
        return -1;
    }
    int descriptor = -1;
    for (const struct addrinfo *at = found; at != NULL && descriptor < 0; at = at->ai_next)
        descriptor = bind_one(at);
    if (descriptor < 0)
        snprintf(error, error_size, "cannot listen on %s port %u: %s%s", host, port,
                 strerror(errno),
                 errno == EADDRINUSE ? "; stop the program that does, or name another port with "
                                       "--listen HOST:PORT (0 takes a free one)"
                                     : "");
    freeaddrinfo(found);
    return descriptor;
}

uint16_t listener_port(int listener) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {0};
    socklen_t size = sizeof address;
    if (getsockname(listener, &address.any, &size) != 0)
        return 0;
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

void listener_shut(int listener) {
    shutdown(listener, SHUT_RDWR);
}
