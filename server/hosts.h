/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Under which names the service is asked. A page of a foreign site can make its own name lead to
 * this machine (DNS rebinding), and then reads answers as if they were its site's; its requests
 * still say that name in Host. So, where no keys keep strangers out, names that a stranger can own
 * are answered only when they are configured.
 */
#ifndef SERVER_HOSTS_H
#define SERVER_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

/* Judges a list of the option `hosts`: names with commas between them, or "*.name" for all below
   it; false with a sentence in `error`. */
bool hosts_check(const char *list, char *error, size_t size);

/*
 * Whether the value of a Host header names this service: an IP address, localhost, a name of one
 * label, a service inside Kubernetes (*.svc, *.svc.cluster.local), or one of the list. A port
 * behind it does not count, nor does the case.
 */
bool hosts_allow(const char *list, const char *host);

/* Whether the origin of a page, "https://name:port", is the host that it asks. */
bool hosts_is_same(const char *origin, const char *host);

#endif
