/* SPDX-License-Identifier: Apache-2.0 */
/* The listening socket. */
#ifndef SERVER_LISTENER_H
#define SERVER_LISTENER_H

#include <stddef.h>
#include <stdint.h>

/* A non-blocking listening socket, or -1 with a sentence in `error`. `host` is an address without
   brackets or a name; port 0 is chosen by the system. */
int listener_open(const char *host, uint16_t port, char *error, size_t error_size);
/* The port it has. */
uint16_t listener_port(int listener);
/* From now on connecting is refused at once, instead of waiting for an accept that never comes. */
void listener_shut(int listener);

#endif
