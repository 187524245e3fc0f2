/* SPDX-License-Identifier: Apache-2.0 */
/* systemd; see supervisor.h. */
#include "server/supervisor.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

static bool make_listener(int descriptor) {
    const int flags = fcntl(descriptor, F_GETFL);
    return sd_is_socket(descriptor, AF_UNSPEC, SOCK_STREAM, 1) > 0 && flags >= 0 &&
           fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0;
}

size_t supervisor_take_sockets(struct supervisor_socket *sockets, size_t most) {
    char **names = NULL;
    const int count = sd_listen_fds_with_names(1, &names);
    size_t taken = 0;
    for (int i = 0; i < count; i++) {
        const int descriptor = SD_LISTEN_FDS_START + i;
        if (taken < most && make_listener(descriptor))
            sockets[taken++] = (struct supervisor_socket){
                .listener = descriptor,
                .is_ops = names != NULL && strcmp(names[i], "ops") == 0,
            };
        else
            close(descriptor);
    }
    for (int i = 0; names != NULL && i < count; i++)
        free(names[i]);
    free(names);
    return taken;
}

void supervisor_say_ready(const char *status) {
    sd_notifyf(0, "READY=1\nSTATUS=%s\nMAINPID=%lu", status, (unsigned long)getpid());
}

void supervisor_say_stopping(void) {
    sd_notify(0, "STOPPING=1");
}

/* Twice in the time that is allowed. */
int supervisor_life_ms(void) {
    uint64_t microseconds = 0;
    if (sd_watchdog_enabled(0, &microseconds) <= 0)
        return 0;
    const uint64_t half_ms = microseconds / 2000;
    return half_ms < 1 ? 1 : half_ms > 3600000 ? 3600000 : (int)half_ms;
}

void supervisor_say_alive(void) {
    sd_notify(0, "WATCHDOG=1");
}
