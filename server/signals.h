/* SPDX-License-Identifier: Apache-2.0 */
/* The signals that the daemon heeds, for the one thread that waits for them. */
#ifndef SERVER_SIGNALS_H
#define SERVER_SIGNALS_H

#include <stdbool.h>

enum signals_event {
    SIGNALS_TIME,  /* nothing came */
    SIGNALS_STOP,  /* SIGTERM or SIGINT */
    SIGNALS_RELOAD /* SIGHUP */
};

/* From here on signals are caught; false when there are no descriptors for it. */
bool signals_catch(void);
/* Waits for the next one, at most `ms` milliseconds, -1 for ever. */
enum signals_event signals_wait(int ms);

#endif
