/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines, vanished clients and lingering closes; see http_warden.h. */
#include "server/http_warden.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/exchange.h"

enum {
    TICK_MS = 25,
    ENDED_TICKS = 8,  /* between two looks for clients that have ended their side */
    ENDED_LOOKS = 3,  /* so many in a row: by then an I/O thread has taken what it had read */
    LINGER_ROOM = 64, /* connections that may linger at once; more are closed at once */
    LINGER_SECONDS = 5,
    LINGER_READS = 64 /* of LINGER_BYTES each, per tick and connection */
};
#define LINGER_BYTES ((size_t)64 << 10)

/* A sleeping request and why it is to be woken; ASLEEP: only if its client has gone. */
struct finding {
    struct exchange *exchange;
    enum exchange_event event;
};

/* A descriptor kept after its connection was closed, so that the client can read its answer. */
struct lingerer {
    int fd;
    int64_t until;
};

struct http_warden {
    struct service *service;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping;
    struct http_peer *first;
    size_t sleepers;
    unsigned tick;
    struct lingerer lingerers[LINGER_ROOM];
    size_t lingerer_count;
    /* The thread's own. */
    struct finding *findings;
    struct pollfd *polled;
    size_t room;
    char *scratch;
};

/* Why a sleeping request is to be woken now. */
static enum exchange_event late(const struct exchange *exchange, int64_t now) {
    const int64_t deadline = atomic_load(&exchange->deadline);
    const int64_t begin_before = atomic_load(&exchange->begin_before);
    if (deadline != 0 && now >= deadline)
        return EXCHANGE_EVENT_DEADLINE;
    if (begin_before != 0 && now >= begin_before)
        return EXCHANGE_EVENT_QUEUED_OUT;
    return EXCHANGE_ASLEEP;
}

static bool make_room(struct http_warden *warden) {
    if (warden->room >= warden->sleepers)
        return true;
    const size_t room = warden->sleepers * 2;
    struct finding *findings = realloc(warden->findings, room * sizeof *findings);
    if (findings != NULL)
        warden->findings = findings;
    struct pollfd *polled = realloc(warden->polled, room * sizeof *polled);
    if (polled != NULL)
        warden->polled = polled;
    if (findings == NULL || polled == NULL)
        return false;
    warden->room = room;
    return true;
}

static void cut(struct http_peer *peer) {
    atomic_store(&peer->deadline, 0);
    shutdown(peer->fd, SHUT_RDWR);
}

/* True when the client has sent its end and nothing is left to read before it. */
static bool has_ended(int fd) {
    char next;
    return recv(fd, &next, sizeof next, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Cuts connections on which no more of an awaited request can come; under the lock. A client that
   ends its side after a whole request is answered: then nothing is awaited. */
static void cut_ended(struct http_warden *warden) {
    if (++warden->tick % ENDED_TICKS != 0)
        return;
    for (struct http_peer *peer = warden->first; peer != NULL; peer = peer->next) {
        const bool ended = atomic_load(&peer->receiving) && has_ended(peer->fd);
        peer->ended_looks = ended ? peer->ended_looks + 1 : 0;
        if (peer->ended_looks == ENDED_LOOKS)
            cut(peer);
    }
}

/* Cuts late connections and lists the sleeping requests; under the lock, under which a listed
   descriptor cannot be closed. Returns how many were listed, each with a reference. */
static size_t look(struct http_warden *warden, int64_t now) {
    size_t count = 0;
    const bool has_room = make_room(warden);
    for (struct http_peer *peer = warden->first; peer != NULL; peer = peer->next) {
        const int64_t deadline = atomic_load(&peer->deadline);
        if (deadline != 0 && now >= deadline)
            cut(peer);
        if (peer->sleeping == NULL || !has_room)
            continue;
        warden->polled[count] = (struct pollfd){.fd = peer->fd, .events = POLLRDHUP};
        warden->findings[count++] = (struct finding){peer->sleeping, late(peer->sleeping, now)};
        exchange_ref(peer->sleeping);
    }
    return count;
}

static void find_gone(struct http_warden *warden, size_t count) {
    if (!warden->service->limits.cancel_on_disconnect || count == 0 ||
        poll(warden->polled, (nfds_t)count, 0) <= 0)
        return;
    for (size_t i = 0; i < count; i++)
        if ((warden->polled[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0)
            warden->findings[i].event = EXCHANGE_EVENT_GONE;
}

/* Reads what a lingering client still sends. True when it has ended or may stay no longer. */
static bool lingered_enough(struct http_warden *warden, const struct lingerer *lingerer,
                            int64_t now) {
    for (int i = 0; i < LINGER_READS; i++) {
        const ssize_t got = recv(lingerer->fd, warden->scratch, LINGER_BYTES, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return true;
        if (got < 0)
            break;
    }
    return now >= lingerer->until;
}

static void serve_lingerers(struct http_warden *warden, int64_t now) {
    for (size_t i = 0; i < warden->lingerer_count;) {
        if (!lingered_enough(warden, &warden->lingerers[i], now)) {
            i++;
            continue;
        }
        close(warden->lingerers[i].fd);
        warden->lingerers[i] = warden->lingerers[--warden->lingerer_count];
    }
}

static void wake_found(struct http_warden *warden, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (warden->findings[i].event != EXCHANGE_ASLEEP)
            exchange_wake(warden->findings[i].exchange, warden->findings[i].event);
        exchange_unref(warden->findings[i].exchange);
    }
}

static void *run(void *argument) {
    struct http_warden *warden = argument;
    pthread_mutex_lock(&warden->lock);
    while (!warden->stopping) {
        const int64_t now = clock_now();
        const size_t count = look(warden, now);
        find_gone(warden, count);
        cut_ended(warden);
        serve_lingerers(warden, now);
        pthread_mutex_unlock(&warden->lock);
        wake_found(warden, count);
        pthread_mutex_lock(&warden->lock);
        const int64_t next = clock_now() + TICK_MS * CLOCK_MS;
        const struct timespec until = {next / CLOCK_SECOND, next % CLOCK_SECOND};
        if (!warden->stopping)
            pthread_cond_timedwait(&warden->wake, &warden->lock, &until);
    }
    pthread_mutex_unlock(&warden->lock);
    return NULL;
}

static void destroy(struct http_warden *warden) {
    pthread_cond_destroy(&warden->wake);
    pthread_mutex_destroy(&warden->lock);
    free(warden->findings);
    free(warden->polled);
    free(warden->scratch);
    free(warden);
}

struct http_warden *http_warden_create(struct service *service) {
    struct http_warden *warden = calloc(1, sizeof *warden);
    if (warden == NULL)
        return NULL;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&warden->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&warden->lock, NULL);
    warden->service = service;
    warden->scratch = malloc(LINGER_BYTES);
    if (warden->scratch == NULL || pthread_create(&warden->thread, NULL, run, warden) != 0) {
        destroy(warden);
        return NULL;
    }
    return warden;
}

void http_warden_free(struct http_warden *warden) {
    pthread_mutex_lock(&warden->lock);
    warden->stopping = true;
    pthread_cond_signal(&warden->wake);
    pthread_mutex_unlock(&warden->lock);
    pthread_join(warden->thread, NULL);
    for (size_t i = 0; i < warden->lingerer_count; i++)
        close(warden->lingerers[i].fd);
    destroy(warden);
}

struct http_peer *http_warden_add(struct http_warden *warden, int fd) {
    struct http_peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL)
        return NULL;
    peer->fd = fd;
    atomic_store(&peer->receiving, true);
    pthread_mutex_lock(&warden->lock);
    peer->next = warden->first;
    if (peer->next != NULL)
        peer->next->previous = peer;
    warden->first = peer;
    pthread_mutex_unlock(&warden->lock);
    return peer;
}

/* Keeps the connection open behind the library's back, which then sends no reset when it closes
   its descriptor over bytes that were not read: the client can read the answer. */
static void linger(struct http_warden *warden, int fd) {
    if (warden->lingerer_count == LINGER_ROOM)
        return;
    const int kept = dup(fd);
    if (kept < 0)
        return;
    shutdown(kept, SHUT_WR);
    warden->lingerers[warden->lingerer_count++] =
        (struct lingerer){kept, clock_now() + LINGER_SECONDS * CLOCK_SECOND};
}

void http_warden_remove(struct http_warden *warden, struct http_peer *peer) {
    pthread_mutex_lock(&warden->lock);
    *(peer->previous != NULL ? &peer->previous->next : &warden->first) = peer->next;
    if (peer->next != NULL)
        peer->next->previous = peer->previous;
    if (peer->may_linger)
        linger(warden, peer->fd);
    pthread_mutex_unlock(&warden->lock);
    free(peer);
}

void http_warden_sleep(struct http_warden *warden, struct http_peer *peer,
                       struct exchange *exchange) {
    pthread_mutex_lock(&warden->lock);
    warden->sleepers += (exchange != NULL);
    warden->sleepers -= (peer->sleeping != NULL);
    peer->sleeping = exchange;
    pthread_mutex_unlock(&warden->lock);
}

void http_warden_wake_all(struct http_warden *warden) {
    pthread_mutex_lock(&warden->lock);
    for (struct http_peer *peer = warden->first; peer != NULL; peer = peer->next)
        if (peer->sleeping != NULL)
            exchange_wake(peer->sleeping, EXCHANGE_EVENT_SHUTDOWN);
    pthread_mutex_unlock(&warden->lock);
}

void http_warden_cut_all(struct http_warden *warden) {
    pthread_mutex_lock(&warden->lock);
    for (struct http_peer *peer = warden->first; peer != NULL; peer = peer->next)
        cut(peer);
    pthread_mutex_unlock(&warden->lock);
}
