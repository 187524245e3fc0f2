/* SPDX-License-Identifier: Apache-2.0 */
/* Signals as events; see signals.h. */
#include "server/signals.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The variables of their kind: a signal handler can reach nothing else. */
static int stop_event = -1, reload_event = -1;

static void on_signal(int number) {
    const uint64_t one = 1;
    const int saved = errno;
    (void)!write(number == SIGHUP ? reload_event : stop_event, &one, sizeof one);
    errno = saved;
}

/* A handler, not sigwait(): threads that a library started before main() block no signal. */
bool signals_catch(void) {
    static const int caught[] = {SIGTERM, SIGINT, SIGHUP};
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    stop_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    reload_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stop_event < 0 || reload_event < 0)
        return false;
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        sigaction(caught[i], &action, NULL);
    return true;
}

static bool take(int event) {
    uint64_t count;
    return read(event, &count, sizeof count) > 0;
}

enum signals_event signals_wait(int ms) {
    struct pollfd polled[] = {{.fd = stop_event, .events = POLLIN},
                              {.fd = reload_event, .events = POLLIN}};
    while (poll(polled, sizeof polled / sizeof *polled, ms) < 0 && errno == EINTR)
        ;
    if (take(stop_event))
        return SIGNALS_STOP;
    return take(reload_event) ? SIGNALS_RELOAD : SIGNALS_TIME;
}
