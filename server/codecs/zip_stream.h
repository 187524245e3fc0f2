/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a zip archive's member, one after the other, unpacked and with their checksum. */
#ifndef SERVER_CODECS_ZIP_STREAM_H
#define SERVER_CODECS_ZIP_STREAM_H

#define ZLIB_CONST /* its input is not written to */
#include <zlib.h>

#include "server/codecs/zip_file.h"

/* Of the caller's; borrows the member and the reader. */
struct zip_stream {
    const struct zip_member *member;
    const struct json_reader *reader;
    size_t at; /* bytes that came out */
    uint32_t crc;
    const char *packed; /* what goes into the inflater next */
    size_t packed_left;
    z_stream inflater;
};

/* Errors: NO_MEMORY; then there is nothing to close. */
enum attn_status zip_stream_open(struct zip_stream *stream, const struct zip_member *member,
                                 const struct json_reader *reader);
void zip_stream_close(struct zip_stream *stream);

/* The next `count` bytes, which the member has to have. Errors: MALFORMED, CANCELLED. */
enum attn_status zip_stream_read(struct zip_stream *stream, void *out, size_t count);
/* The same where they lie: of stored members only. *out is borrowed from the archive. */
enum attn_status zip_stream_view(struct zip_stream *stream, const char **out, size_t count);
/* Where the next byte lies; NULL when the member is deflated. */
const char *zip_stream_place(const struct zip_stream *stream);
/* Once every byte came out: whether there are more, and the checksum. Errors: MALFORMED. */
enum attn_status zip_stream_end(struct zip_stream *stream);

#endif
