/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines, vanished clients and lingering closes; see http_warden.h. */
#include "server/http/http_warden.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/exchange.h"
#include "server/http/http_direct.h"
#include "server/http/http_tls_internal.h"

enum {
    TICK_MS = 25,
    ENDED_TICKS = 8,     /* between two looks for clients that have ended their side */
    ENDED_LOOKS = 3,     /* so many in a row: by then an I/O thread has taken what it had read */
    LINGER_ROOM = 64,    /* connections that may linger at once; more are closed at once */
    SILENT_MS = 1000,    /* a client that was told that it is late and that stays silent */
    STUCK_ROUNDS = 1000, /* of an I/O thread, none of which took what waits: it never will */
    IDLE_ROUNDS = 20,    /* the same of one that sleeps between them, ... */
    IDLE_MS = 3000,      /* ... when so much time has passed */
    LINGER_READS = 64    /* of LINGER_BYTES each, per tick and connection */
};
#define LINGER_BYTES ((size_t)64 << 10)

/* A sleeping request and why it is to be woken; ASLEEP: only if its client has gone. The peer may
   be looked at only under the lock under which it was found. */
struct finding {
    struct http_peer *peer;
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
    unsigned tick, added;
    struct lingerer lingerers[LINGER_ROOM];
    size_t lingerer_count;
    /* The thread's own. */
    struct finding *findings;
    struct pollfd *polled;
    size_t room;
    char *scratch;
};

/* Why a sleeping request is to be woken now; under the lock, without which it does not go on. */
static enum exchange_event late(const struct exchange *exchange, int64_t now) {
    const int64_t deadline = atomic_load(&exchange->deadline);
    const int64_t begin_before = atomic_load(&exchange->begin_before);
    const int64_t queued_at = atomic_load(&exchange->queued_at);
    if (deadline != 0 && now >= deadline)
        return EXCHANGE_EVENT_DEADLINE;
    if (begin_before != 0 && now >= begin_before)
        return EXCHANGE_EVENT_QUEUED_OUT;
    if (queued_at != 0 &&
        backlog_is_overdue(exchange->service->backlog, exchange->queued, now - queued_at, now))
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
    peer->is_cut = true;
    shutdown(peer->fd, SHUT_RDWR);
}

/* True when the client has sent its end and nothing is left to read before it. */
static bool has_ended(int fd) {
    char next;
    return recv(fd, &next, sizeof next, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Reads what a client still sends that has its last answer. True when it has ended. */
static bool throw_away(struct http_warden *warden, int fd) {
    for (int i = 0; i < LINGER_READS; i++) {
        const ssize_t got = recv(fd, warden->scratch, LINGER_BYTES, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return true;
        if (got < 0)
            break;
    }
    return false;
}

/* Cuts connections on which no more of an awaited request can come; under the lock. A client that
   ends its side after a whole request is answered: then nothing is awaited. In each tick it is the
   turn of some connections, for there may be thousands. */
static void cut_ended(struct http_warden *warden) {
    const unsigned turn = ++warden->tick % ENDED_TICKS;
    for (struct http_peer *peer = warden->first; peer != NULL; peer = peer->next) {
        if (peer->turn != turn)
            continue;
        const bool ended = atomic_load(&peer->phase) != PEER_BUSY && has_ended(peer->fd);
        peer->ended_looks = ended ? peer->ended_looks + 1 : 0;
        if (peer->ended_looks == ENDED_LOOKS)
            cut(peer);
    }
}

/* The last answer on a connection that was claimed for it. */
static void tell(struct http_warden *warden, const struct http_peer *peer, bool has_head,
                 const struct problem *problem) {
    char id[REQUEST_ID_SIZE];
    request_id_choose(has_head ? peer->id : NULL, id);
    const struct http_addressee client = {peer->errors, id, has_head ? peer->origin : ""};
    http_direct(peer, problem, &client);
    if (!has_head) /* of a body its exchange tells */
        metrics_count_rejection(warden->service->metrics, problem->code);
}

/* Claims the connection in this phase for its last answer. */
static bool claim(struct http_peer *peer, int phase, int code, int64_t now) {
    peer->told = code;
    if (!atomic_compare_exchange_strong(&peer->phase, &phase, PEER_TOLD))
        return false;
    atomic_store(&peer->deadline, clock_deadline(now, SILENT_MS));
    return true;
}

static void tell_late(struct http_warden *warden, const struct http_peer *peer, bool has_head) {
    struct problem problem;
    problem_set(&problem, PROBLEM_REQUEST_TIMEOUT, NULL,
                "The %s of the request did not arrive within %llu ms. Send it faster%s.",
                has_head ? "body" : "head", (unsigned long long)peer->allowed_ms,
                has_head ? ", or less per call" : "");
    problem.limit = (double)peer->allowed_ms;
    tell(warden, peer, has_head, &problem);
}

/* A request of which a part has come is answered when the rest is late; all else is cut, and so is
   that a moment later. A TLS session may end at any time meanwhile, on the I/O thread and before
   anybody is told, so none of its clients is. */
static void end_late(struct http_warden *warden, struct http_peer *peer, int64_t now) {
    const int phase = atomic_load(&peer->phase);
    if ((phase != PEER_HEAD && phase != PEER_BODY) || peer->session != NULL)
        cut(peer);
    else if (claim(peer, phase, PROBLEM_REQUEST_TIMEOUT, now))
        tell_late(warden, peer, phase == PEER_BODY);
}

/* Whether bytes of a body have waited for so many rounds of the thread that reads them that it will
   never take them. Not time alone: a thread that is kept from its work is not stuck. Nor is the
   socket asked before so many have passed, for there may be thousands. */
static bool is_stuck(struct http_peer *peer, int64_t now) {
    const unsigned pieces = atomic_load(&peer->pieces), rounds = atomic_load(peer->rounds);
    const unsigned passed = rounds - peer->stuck_rounds;
    const bool was_waiting = peer->has_waiting && pieces == peer->stuck_pieces;
    int waiting = 0;
    peer->has_waiting &= atomic_load(&peer->phase) == PEER_BODY;
    if (atomic_load(&peer->phase) != PEER_BODY)
        return false;
    if (passed < IDLE_ROUNDS ||
        (passed < STUCK_ROUNDS && now - peer->stuck_looked < IDLE_MS * CLOCK_MS))
        return false;
    peer->has_waiting = ioctl(peer->fd, FIONREAD, &waiting) == 0 && waiting > 0;
    peer->stuck_pieces = pieces;
    peer->stuck_rounds = rounds;
    peer->stuck_looked = now;
    return was_waiting && peer->has_waiting;
}

static void end_stuck(struct http_warden *warden, struct http_peer *peer, int64_t now) {
    struct problem problem;
    if (peer->session != NULL) {
        cut(peer);
        return;
    }
    if (!claim(peer, PEER_BODY, PROBLEM_BAD_FRAMING, now))
        return;
    problem_set(&problem, PROBLEM_BAD_FRAMING, NULL,
                "A line between two chunks is longer than what is read of one. Send chunks without "
                "extensions.");
    tell(warden, peer, true, &problem);
}

/* Ends late connections and lists the sleeping requests; under the lock, under which a listed
   descriptor cannot be closed. Returns how many were listed, each with a reference. */
static size_t look(struct http_warden *warden, int64_t now) {
    size_t count = 0;
    const bool has_room = make_room(warden);
    for (struct http_peer *peer = warden->first; peer != NULL; peer = peer->next) {
        const int64_t deadline = atomic_load(&peer->deadline);
        if (deadline != 0 && now >= deadline)
            end_late(warden, peer, now);
        else if (is_stuck(peer, now))
            end_stuck(warden, peer, now);
        else if (atomic_load(&peer->phase) == PEER_TOLD && !peer->is_cut &&
                 throw_away(warden, peer->fd))
            cut(peer);
        if (peer->sleeping == NULL || !has_room)
            continue;
        warden->polled[count] = (struct pollfd){.fd = peer->fd, .events = POLLRDHUP};
        warden->findings[count++] =
            (struct finding){peer, peer->sleeping, late(peer->sleeping, now)};
        exchange_ref(peer->sleeping);
    }
    return count;
}

/* A client that has ended its side may have closed or may still read; both look alike until
   something is sent. So it is sent an interim answer, which every client of HTTP/1.1 has to be able
   to ignore: from one that has closed comes a reset, and a later look sees that. Nothing else is
   sent meanwhile, for the I/O thread ends the sleep under the lock before it answers. */
static bool has_gone(struct http_peer *peer, int events) {
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if ((events & (POLLHUP | POLLERR)) != 0 || ((events & POLLRDHUP) != 0 && !peer->may_ask))
        return true;
    if ((events & POLLRDHUP) == 0 || peer->asked)
        return false;
    peer->asked = true;
    return !http_tls_send(peer, interim, sizeof interim - 1);
}

static void find_gone(struct http_warden *warden, size_t count) {
    if (!warden->service->limits.cancel_on_disconnect || count == 0 ||
        poll(warden->polled, (nfds_t)count, 0) <= 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (has_gone(warden->findings[i].peer, warden->polled[i].revents))
            warden->findings[i].event = EXCHANGE_EVENT_GONE;
}

static void serve_lingerers(struct http_warden *warden, int64_t now) {
    for (size_t i = 0; i < warden->lingerer_count;) {
        const struct lingerer *lingerer = &warden->lingerers[i];
        if (!throw_away(warden, lingerer->fd) && now < lingerer->until) {
            i++;
            continue;
        }
        close(lingerer->fd);
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

struct http_peer *http_warden_add(struct http_warden *warden, int fd, const atomic_uint *rounds) {
    struct http_peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL)
        return NULL;
    peer->fd = fd;
    peer->rounds = rounds;
    atomic_store(&peer->phase, PEER_IDLE);
    pthread_mutex_lock(&warden->lock);
    peer->turn = warden->added++ % ENDED_TICKS;
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
        (struct lingerer){kept, clock_deadline(clock_now(), HTTP_LINGER_MS)};
}

void http_warden_remove(struct http_warden *warden, struct http_peer *peer) {
    pthread_mutex_lock(&warden->lock);
    *(peer->previous != NULL ? &peer->previous->next : &warden->first) = peer->next;
    if (peer->next != NULL)
        peer->next->previous = peer->previous;
    if (peer->may_linger && !peer->is_cut)
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
    peer->asked = false;
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
