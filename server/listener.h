/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets: over TCP, and at a path of the file system. */
#ifndef SERVER_LISTENER_H
#define SERVER_LISTENER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A non-blocking listening socket, or -1 with a sentence in `error`. `host` is an address without
   brackets or a name; port 0 is chosen by the system. */
int listener_open(const char *host, uint16_t port, char *error, size_t error_size);
/*
 * The same at an absolute path that a socket's address has room for, with these permissions from
 * the first connection on. A socket that is left there by a daemon that has ended is replaced; one
 * that is listened on, and a file of another kind, are refused.
 */
int listener_open_path(const char *path, mode_t mode, char *error, size_t error_size);
/* The port it has; 0 for one at a path. */
uint16_t listener_port(int listener);
/* From now on connecting is refused at once, instead of waiting for an accept that never comes. */
void listener_shut(int listener);
/* Removes the path, unless meanwhile another has taken it. The listener must still be open. */
void listener_remove_path(int listener, const char *path);

#endif
