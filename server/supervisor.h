/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever started the service and looks after it: systemd, or a program that speaks as it does.
 * Without one all of this does nothing. The only user of libsystemd.
 */
#ifndef SERVER_SUPERVISOR_H
#define SERVER_SUPERVISOR_H

#include <stdbool.h>
#include <stddef.h>

/* Listening sockets that were handed over, of LISTEN_FDS. One that is named "ops" is for operators.
 */
struct supervisor_socket {
    int listener;
    bool is_ops;
};

/*
 * Takes over the sockets that listen, and makes them non-blocking; descriptors of another kind are
 * closed. Returns how many of `most` there are.
 */
size_t supervisor_take_sockets(struct supervisor_socket *sockets, size_t most);

/* The service takes calls; `status` says where, in one line. */
void supervisor_say_ready(const char *status);
void supervisor_say_stopping(void);
/* Milliseconds between two signs of life, or 0 when nobody waits for them. */
int supervisor_life_ms(void);
void supervisor_say_alive(void);

#endif
