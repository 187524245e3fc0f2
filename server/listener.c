/* SPDX-License-Identifier: Apache-2.0 */
/* Binding and listening; see listener.h. */
#include "server/listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static void close_keeping_cause(int descriptor) {
    const int cause = errno;
    close(descriptor);
    errno = cause;
}

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
    close_keeping_cause(descriptor);
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

static int refuse_path(char *error, size_t error_size, const char *path, const char *cause) {
    snprintf(error, error_size, "cannot listen on unix:%s: %s", path, cause);
    return -1;
}

static bool name_path(struct sockaddr_un *address, const char *path) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address->sun_path)
        return false;
    memcpy(address->sun_path, path, strlen(path) + 1);
    return true;
}

/* Whether somebody accepts at the path; errno is ECONNREFUSED when a socket is there for nobody. */
static bool is_listened_on(const struct sockaddr_un *address) {
    const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return false;
    const bool answered =
        connect(probe, (const struct sockaddr *)(const void *)address, sizeof *address) == 0 ||
        errno == EAGAIN;
    close_keeping_cause(probe);
    return answered;
}

/* Removes what a daemon that has ended left; NULL, or why what is there has to stay. */
static const char *clear_path(const struct sockaddr_un *address) {
    struct stat found;
    if (lstat(address->sun_path, &found) != 0)
        return errno == ENOENT ? NULL : strerror(errno);
    if (!S_ISSOCK(found.st_mode))
        return "there is a file that is no socket; remove it, or name another path";
    if (is_listened_on(address))
        return "another program listens there; stop it, or name another path";
    if (errno != ECONNREFUSED || unlink(address->sun_path) != 0)
        return strerror(errno);
    return NULL;
}

int listener_open_path(const char *path, mode_t mode, char *error, size_t error_size) {
    struct sockaddr_un address;
    if (!name_path(&address, path))
        return refuse_path(error, error_size, path, "the path is too long");
    const char *const cause = clear_path(&address);
    if (cause != NULL)
        return refuse_path(error, error_size, path, cause);
    const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0)
        return refuse_path(error, error_size, path, strerror(errno));
    if (bind(descriptor, (const struct sockaddr *)(const void *)&address, sizeof address) == 0 &&
        chmod(path, mode) == 0 && listen(descriptor, SOMAXCONN) == 0)
        return descriptor;
    close_keeping_cause(descriptor);
    return refuse_path(error, error_size, path, strerror(errno));
}

/* A socket's own number is not that of its path: only connecting tells whose the path is. */
void listener_remove_path(int listener, const char *path) {
    struct sockaddr_un address;
    listener_shut(listener);
    if (name_path(&address, path) && !is_listened_on(&address) && errno == ECONNREFUSED)
        unlink(path);
}

uint16_t listener_port(int listener) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un path;
    } address = {0};
    socklen_t size = sizeof address;
    if (getsockname(listener, &address.any, &size) != 0 || address.any.sa_family == AF_UNIX)
        return 0;
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

void listener_shut(int listener) {
    shutdown(listener, SHUT_RDWR);
}
