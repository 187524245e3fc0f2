/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a zip archive around data that lie in their places already: stored members, each of whose
 * data begins on a multiple of 64 bytes of the archive, and a directory behind them. All sizes are
 * written in zip64's fields, as numpy.savez does, so that there is one form for every size.
 */
#ifndef SERVER_CODECS_ZIP_WRITE_H
#define SERVER_CODECS_ZIP_WRITE_H

#include <stddef.h>

enum { ZIP_ALIGNMENT = 64, ZIP_NAME_ROOM = 24 };

struct zip_written {
    char name[ZIP_NAME_ROOM];
    size_t offset, header; /* of the local header, and its bytes */
    size_t size;           /* of the data behind it */
};

/* Bytes of a local header at `offset`: less than 128 for any name. */
size_t zip_local_bytes(size_t offset, const char *name);

/* Bytes of a directory of `count` members, at most. */
size_t zip_directory_room(size_t count);
/* Writes local headers and, from `offset` on, the directory; returns the archive's length. */
size_t zip_write(char *archive, size_t offset, const struct zip_written *members, size_t count);

#endif
