/* SPDX-License-Identifier: Apache-2.0 */
/* Small files that are read again while the service runs. */
#ifndef SERVER_FILE_LOAD_H
#define SERVER_FILE_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/*
 * The bytes of a regular file of at most `most` bytes, with a NUL behind them; owned, for free().
 * Never waits for a writer, and reads no device: the thread that reads is the one that heeds
 * signals. NULL with what is wrong in *cause, which stays valid until the thread's next error.
 */
char *file_load(const char *path, size_t most, size_t *length, const char **cause);

/* The file that the path leads to, as it is now; zeros where there is none. */
struct stat file_look(const char *path);
/* Whether it is another one, or another's contents, than when it was seen. */
bool file_differs(const char *path, const struct stat *seen);

/* Whether this errno says nothing of the file, but of a system that has no room now. */
bool file_may_work_later(int error);

#endif
