/* SPDX-License-Identifier: Apache-2.0 */
/* Small files; see file_load.h. */
#include "server/file_load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Up to `room` bytes; negative with errno where reading fails. */
static ssize_t read_all(int descriptor, char *bytes, size_t room) {
    size_t used = 0;
    while (used < room) {
        const ssize_t got = read(descriptor, bytes + used, room - used);
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            return -1;
        used += got < 0 ? 0 : (size_t)got;
    }
    return (ssize_t)used;
}

static char *load(int descriptor, size_t most, size_t *length, const char **cause) {
    struct stat info;
    *cause = NULL;
    if (fstat(descriptor, &info) != 0)
        *cause = strerror(errno);
    else if (!S_ISREG(info.st_mode))
        *cause = "it is no regular file";
    else if ((uintmax_t)info.st_size > most)
        *cause = "it is too large";
    const size_t size = *cause != NULL ? 0 : (size_t)info.st_size;
    char *const bytes = *cause != NULL ? NULL : malloc(size + 1);
    if (*cause == NULL && bytes == NULL)
        *cause = "there is no memory for it";
    if (bytes == NULL)
        return NULL;
    const ssize_t got = read_all(descriptor, bytes, size + 1);
    if (got < 0)
        *cause = strerror(errno);
    else if ((size_t)got > size)
        *cause = "it grew while it was read";
    if (*cause != NULL) {
        free(bytes);
        return NULL;
    }
    bytes[got] = '\0';
    *length = (size_t)got;
    return bytes;
}

char *file_load(const char *path, size_t most, size_t *length, const char **cause) {
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0) {
        *cause = strerror(errno);
        return NULL;
    }
    char *const bytes = load(descriptor, most, length, cause);
    close(descriptor);
    return bytes;
}

struct stat file_look(const char *path) {
    struct stat now;
    return stat(path, &now) == 0 ? now : (struct stat){0};
}

bool file_may_work_later(int error) {
    return error == ENOMEM || error == EMFILE || error == ENFILE || error == EIO;
}

bool file_differs(const char *path, const struct stat *seen) {
    const struct stat now = file_look(path);
    return now.st_ino != seen->st_ino || now.st_dev != seen->st_dev ||
           now.st_size != seen->st_size || now.st_mtim.tv_sec != seen->st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != seen->st_mtim.tv_nsec;
}
