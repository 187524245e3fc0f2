/* SPDX-License-Identifier: Apache-2.0 */
/* Two ends of a connection over TCP within the test; the caller closes both. */
#ifndef TESTS_SUPPORT_LOOPBACK_H
#define TESTS_SUPPORT_LOOPBACK_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test_main.h"

struct loopback {
    int client, server;
};

static inline struct loopback loopback_open(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct loopback ends = {.client = socket(AF_INET, SOCK_STREAM, 0)};
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    ck_assert_int_eq(connect(ends.client, (struct sockaddr *)&address, size), 0);
    ends.server = accept(listener, NULL, NULL);
    ck_assert_int_ge(ends.server, 0);
    close(listener);
    return ends;
}

static inline void loopback_close(struct loopback ends) {
    close(ends.client);
    close(ends.server);
}

#endif
