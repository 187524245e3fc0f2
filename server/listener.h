/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets: over TCP, and at a path of the file system. */
#ifndef SERVER_LISTENER_H
#define SERVER_LISTENER_H

#include <stdbool.h>
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
/* "http://127.0.0.1:8080", "https://[::1]:8443" or "unix:/run/a.sock": where it listens. Returns
   text. */
enum { LISTENER_PLACE_SIZE = 160 };
const char *listener_describe(int listener, bool is_tls, char *text, size_t size);
/* The same, but of every address of the machine "localhost", by which it can be asked from there.
 */
const char *listener_invite(int listener, bool is_tls, char *text, size_t size);
bool listener_is_path(int listener);
/* Whether only this machine can connect: by a loopback address or a path. */
bool listener_is_local(int listener);
/* From now on connecting is refused at once, instead of waiting for an accept that never comes. */
void listener_shut(int listener);
/* Removes its path, where it has one, unless meanwhile another has taken it. The listener must
   still be open. */
void listener_remove_path(int listener);

#endif
