/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an I/O thread waits. Waking one takes 20 to 30 us, most of what a small call costs where one
 * client asks, has its answer and asks again. So a thread in such a dialogue, whose last wait was
 * shorter than AWAKE, waits awake the next time, for as long at most, and gives its CPU to whoever
 * else can run meanwhile. One wait in vain, and it sleeps at once again, as workers do
 * (core/scheduler_wait.c): without requests, or with one now and then, no CPU is used. With many
 * clients there is no dialogue, for what comes while a thread is being woken is read in one go.
 */
#include <poll.h>
#include <sched.h>

#include "server/clock.h"
#include "server/http/http_internal.h"

#define AWAKE (100 * CLOCK_US)

void http_heard(struct http_thread *thread, const void *connection) {
    thread->is_in_dialogue = thread->heard == connection;
    thread->heard = connection;
}

/* Leaves a CPU to the client. */
static bool may_be_awake(struct http_server *server) {
    return atomic_fetch_add(&server->awake, 1) + 1 < server->cpus;
}

static int wait_awake(struct http_server *server, struct pollfd *polled, nfds_t count) {
    const int64_t end = clock_now() + AWAKE;
    int ready = 0;
    if (may_be_awake(server))
        while ((ready = poll(polled, count, 0)) == 0 && clock_now() < end)
            sched_yield();
    atomic_fetch_sub(&server->awake, 1);
    return ready;
}

int http_wait(struct http_thread *thread, struct pollfd *polled, size_t count, int timeout) {
    const int64_t began = clock_now();
    int ready = 0;
    if (thread->is_in_dialogue && thread->was_short && timeout > 0)
        ready = wait_awake(thread->server, polled, count);
    if (ready == 0)
        ready = poll(polled, count, timeout);
    thread->was_short = clock_now() - began < AWAKE;
    return ready;
}
