/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which CPU an I/O thread reads on. A client on this machine that sends much hands each piece over
 * on its own CPU, and the kernel may wake the reader there and leave it, with other CPUs idle
 * (Linux looks for an idle one the less the busier they were of late, as they are where tensors are
 * computed on). Then the two take turns, and an upload takes twice as long and more: 5.7 ms instead
 * of 2.3 for 12.6 MB over loopback.
 */
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

#include "server/http/http_internal.h"

/* Moving costs tens of microseconds; a shorter body is there before. */
#define LONG_BODY (UINT64_C(1) << 20)

/* The CPU that last handed something to the socket; negative where the kernel does not tell. */
static int sender_cpu(int fd) {
    int cpu;
    socklen_t size = sizeof cpu;
    return getsockopt(fd, SOL_SOCKET, SO_INCOMING_CPU, &cpu, &size) == 0 ? cpu : -1;
}

/* Lets the thread run on these again. A set that it asks for itself stays with it (from Linux 6.2
   on) when its cpuset grows, and keeps it from what is new there: so it asks for every CPU, and for
   these only where that is more, for then somebody has asked for them from outside. */
static void come_back(const cpu_set_t *allowed) {
    cpu_set_t every, now;
    memset(&every, 0xff, sizeof every);
    if (sched_setaffinity(0, sizeof every, &every) != 0 ||
        sched_getaffinity(0, sizeof now, &now) != 0 || !CPU_EQUAL(&now, allowed))
        (void)sched_setaffinity(0, sizeof *allowed, allowed);
}

void http_leave_sender(int fd, uint64_t body_length) {
    cpu_set_t allowed, others;
    const int cpu = body_length < LONG_BODY ? -1 : sender_cpu(fd);
    if (cpu < 0 || cpu >= CPU_SETSIZE || cpu != sched_getcpu() ||
        sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    others = allowed;
    CPU_CLR((unsigned)cpu, &others);
    /* Where it may not choose it stays, which costs no more than time. */
    if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0)
        come_back(&allowed);
}
