/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A zip archive in memory, read as a stranger's: what its directory says is checked against the
 * bytes before it is believed, and nothing is allocated on its word. Stored and deflated members,
 * with and without zip64. The format: PKWARE's APPNOTE.TXT.
 */
#ifndef SERVER_CODECS_ZIP_FILE_H
#define SERVER_CODECS_ZIP_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/json/json_value.h"

enum { ZIP_MAX_MEMBERS = 2048, ZIP_MAX_NAME = 255 };

struct zip_member {
    const char *name; /* in the reader's storage */
    const char *data; /* as packed; borrowed from the archive */
    size_t packed, size;
    uint32_t crc; /* of the unpacked bytes */
    bool deflated;
    size_t begin, end; /* in the archive, from the local header on */
};

struct zip_file {
    struct zip_member *members; /* in the order of their bytes; in the reader's storage */
    size_t count;
};

/*
 * Reads the directory of `length` bytes at `body`, which the file borrows; `suffix` is taken off
 * the names that have it. Refused (MALFORMED): an archive without its end, one in several parts,
 * members that are encrypted, packed by another method, overlap, lie about their sizes or reach
 * beyond the archive, names that stand twice or are longer than ZIP_MAX_NAME, and more than
 * ZIP_MAX_MEMBERS members. There is nothing to close.
 */
enum attn_status zip_open(struct zip_file *file, const struct json_reader *reader, const char *body,
                          size_t length, const char *suffix);

#endif
