/* SPDX-License-Identifier: Apache-2.0 */
/* See child.h. */
#include "bench/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A benchmark that was killed must not leave a daemon behind that competes with the next one. */
pid_t child_fork(void) {
    const pid_t bench = getpid();
    const pid_t child = fork();
    if (child < 0) {
        fprintf(stderr, "benchmark: cannot start a process\n");
        exit(1);
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != bench)
            _exit(1);
    }
    return child;
}

pid_t child_service(const char *path, int port, const char *kernel, int log) {
    char listen_at[32];
    snprintf(listen_at, sizeof listen_at, "127.0.0.1:%d", port);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const pid_t child = child_fork();
    if (child != 0) {
        close(nowhere);
        return child;
    }
    const int errors = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    dup2(nowhere, STDOUT_FILENO);
    if (log >= 0)
        dup2(log, STDERR_FILENO);
    execl(path, path, "--listen", listen_at, "--log", log >= 0 ? "all" : "off", "--threads", "2",
          kernel == NULL ? (char *)NULL : "--kernel", kernel, (char *)NULL);
    dprintf(errors, "benchmark: cannot start %s: %s\n", path, strerror(errno));
    _exit(1);
}

static void end(pid_t child, int signal_number) {
    kill(child, signal_number);
    waitpid(child, NULL, 0);
}

void child_stop(pid_t child) {
    end(child, SIGTERM);
}

void child_kill(pid_t child) {
    end(child, SIGKILL);
}
