/* SPDX-License-Identifier: Apache-2.0 */
/* Binding and listening; see listener.h. */
#include "server/listener.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* What to do about a cause that people meet; they read it behind the system's own words. */
struct remedy {
    int cause;
    const char *words;
};

static const struct remedy of_ports[] = {
    {EADDRINUSE, "; stop the program that does, or name another port with --listen HOST:PORT (0 "
                 "takes a free one)"},
    {EACCES, "; ports below 1024 take a privilege: name a higher one with --listen HOST:PORT"},
    {EADDRNOTAVAIL, "; no interface of this machine has the address: 0.0.0.0 is every IPv4 address "
                    "of it, [::] every IPv6 one"},
    {0},
};

static const struct remedy of_paths[] = {
    {EACCES, "; name a path in a folder that the daemon's user may write to"},
    {ENOENT, "; its folder does not exist: make it, or name another path"},
    {ENOTDIR, "; what stands before its last / is no folder: name another path"},
    {EROFS, "; name a path in a folder that can be written to"},
    {0},
};

static const char *remedy_for(const struct remedy *at, int cause) {
    while (at->words != NULL && at->cause != cause)
        at++;
    return at->words == NULL ? "" : at->words;
}

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
                 strerror(errno), remedy_for(of_ports, errno));
    freeaddrinfo(found);
    return descriptor;
}

/* `cause` may be NULL: errno has it. */
static int refuse_path(char *error, size_t error_size, const char *path, const char *cause) {
    const int number = errno;
    snprintf(error, error_size, "cannot listen on unix:%s: %s%s", path,
             cause != NULL ? cause : strerror(number),
             cause != NULL ? "" : remedy_for(of_paths, number));
    return -1;
}

static bool name_path(struct sockaddr_un *address, const char *path) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address->sun_path)
        return false;
    memcpy(address->sun_path, path, strlen(path) + 1);
    return true;
}

/*
 * Between looking at a path and listening there nobody else may do the same: who is bound and does
 * not listen yet looks like one who has ended. So daemons lock the path's folder meanwhile. The
 * lock, or -1 where the folder does not let itself be locked, or another program does not let go:
 * then it is done without.
 */
static int lock_folder(const struct sockaddr_un *address) {
    enum { TRIES = 100 };
    static const struct timespec pause = {.tv_nsec = 10000000};
    char folder[sizeof address->sun_path];
    memcpy(folder, address->sun_path, sizeof folder);
    char *const slash = strrchr(folder, '/');
    assert(slash != NULL);
    slash[slash == folder] = '\0';
    const int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; descriptor >= 0 && i < TRIES; i++) {
        if (flock(descriptor, LOCK_EX | LOCK_NB) == 0)
            return descriptor;
        nanosleep(&pause, NULL);
    }
    if (descriptor >= 0)
        close(descriptor);
    return -1;
}

static void unlock_folder(int lock) {
    if (lock >= 0)
        close_keeping_cause(lock);
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

/* Removes what a daemon that has ended left. False where what is there has to stay; errno says why
   where `*cause` stays NULL. */
static bool clear_path(const struct sockaddr_un *address, const char **cause) {
    struct stat found;
    if (lstat(address->sun_path, &found) != 0)
        return errno == ENOENT;
    if (!S_ISSOCK(found.st_mode))
        *cause = "there is a file that is no socket; remove it, or name another path";
    else if (is_listened_on(address))
        *cause = "another program listens there; stop it, or name another path";
    return *cause == NULL && errno == ECONNREFUSED && unlink(address->sun_path) == 0;
}

static int listen_at(const struct sockaddr_un *address, mode_t mode) {
    const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0)
        return -1;
    if (bind(descriptor, (const struct sockaddr *)(const void *)address, sizeof *address) == 0 &&
        chmod(address->sun_path, mode) == 0 && listen(descriptor, SOMAXCONN) == 0)
        return descriptor;
    close_keeping_cause(descriptor);
    return -1;
}

int listener_open_path(const char *path, mode_t mode, char *error, size_t error_size) {
    struct sockaddr_un address;
    if (!name_path(&address, path))
        return refuse_path(error, error_size, path, "the path is too long");
    const int lock = lock_folder(&address);
    const char *cause = NULL;
    const int descriptor = clear_path(&address, &cause) ? listen_at(&address, mode) : -1;
    unlock_folder(lock);
    return descriptor >= 0 ? descriptor : refuse_path(error, error_size, path, cause);
}

/* Any address that a socket can have. */
union place {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un path;
};

static union place place_of(int listener) {
    union place place = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t size = sizeof place;
    if (getsockname(listener, &place.any, &size) != 0)
        place.any.sa_family = AF_UNSPEC;
    return place;
}

/* A socket's own number is not that of its path: only connecting tells whose the path is. */
void listener_remove_path(int listener) {
    const union place place = place_of(listener);
    if (place.any.sa_family != AF_UNIX)
        return;
    listener_shut(listener);
    const int lock = lock_folder(&place.path);
    if (!is_listened_on(&place.path) && errno == ECONNREFUSED)
        unlink(place.path.sun_path);
    unlock_folder(lock);
}

const char *listener_describe(int listener, bool is_tls, char *text, size_t size) {
    const char *const scheme = is_tls ? "https" : "http";
    const union place place = place_of(listener);
    char host[INET6_ADDRSTRLEN] = "";
    switch (place.any.sa_family) {
    case AF_UNIX:
        snprintf(text, size, "unix:%s", place.path.sun_path);
        break;
    case AF_INET6:
        inet_ntop(AF_INET6, &place.v6.sin6_addr, host, sizeof host);
        snprintf(text, size, "%s://[%s]:%u", scheme, host, ntohs(place.v6.sin6_port));
        break;
    default:
        inet_ntop(AF_INET, &place.v4.sin_addr, host, sizeof host);
        snprintf(text, size, "%s://%s:%u", scheme, host, ntohs(place.v4.sin_port));
        break;
    }
    return text;
}

static bool is_everywhere(const union place *place) {
    return (place->any.sa_family == AF_INET && place->v4.sin_addr.s_addr == htonl(INADDR_ANY)) ||
           (place->any.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&place->v6.sin6_addr));
}

const char *listener_invite(int listener, bool is_tls, char *text, size_t size) {
    const union place place = place_of(listener);
    if (!is_everywhere(&place))
        return listener_describe(listener, is_tls, text, size);
    const in_port_t port = place.any.sa_family == AF_INET ? place.v4.sin_port : place.v6.sin6_port;
    snprintf(text, size, "%s://localhost:%u", is_tls ? "https" : "http", ntohs(port));
    return text;
}

bool listener_is_path(int listener) {
    return place_of(listener).any.sa_family == AF_UNIX;
}

bool listener_is_local(int listener) {
    enum { LOOPBACK_NET = 127 };
    const union place place = place_of(listener);
    switch (place.any.sa_family) {
    case AF_UNIX:
        return true;
    case AF_INET:
        return ntohl(place.v4.sin_addr.s_addr) >> 24 == LOOPBACK_NET;
    case AF_INET6:
        return IN6_IS_ADDR_LOOPBACK(&place.v6.sin6_addr);
    default:
        return false;
    }
}

void listener_shut(int listener) {
    shutdown(listener, SHUT_RDWR);
}
