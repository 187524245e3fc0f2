/* SPDX-License-Identifier: Apache-2.0 */
/* A member's bytes as they come out of the archive, with their checksum; see zip_stream.h. */
#include "server/codecs/zip_stream.h"

#include <assert.h>
#include <libdeflate.h>
#include <string.h>

#include "core/checked.h"

/* Bytes between two looks at whether the reader was cancelled. */
enum { PIECE = 1 << 20 };

static enum attn_status malformed(const struct zip_stream *stream, const char *sentence) {
    return attn_fail(stream->reader->error, ATTN_MALFORMED, stream->member->name, "%s", sentence);
}

enum attn_status zip_stream_open(struct zip_stream *stream, const struct zip_member *member,
                                 const struct json_reader *reader) {
    *stream = (struct zip_stream){
        .member = member,
        .reader = reader,
        .packed = member->data,
        .packed_left = member->packed,
    };
    /* Minus: without the header that a zip archive leaves out. */
    if (member->deflated && inflateInit2(&stream->inflater, -MAX_WBITS) != Z_OK)
        return attn_fail(reader->error, ATTN_NO_MEMORY, member->name, "There is no memory now.");
    return ATTN_OK;
}

void zip_stream_close(struct zip_stream *stream) {
    if (stream->member->deflated)
        inflateEnd(&stream->inflater);
}

/* One step of the inflater: up to `count` bytes into out. Z_OK: it got on, and is not at its end.
 */
static int inflate_some(struct zip_stream *stream, char *out, size_t count, size_t *made) {
    z_stream *const z = &stream->inflater;
    const uInt offered = (uInt)attn_min_size(stream->packed_left, PIECE);
    z->next_in = (const Bytef *)stream->packed;
    z->avail_in = offered;
    z->next_out = (Bytef *)out;
    z->avail_out = (uInt)count;
    const int result = inflate(z, Z_NO_FLUSH);
    const size_t taken = offered - z->avail_in;
    stream->packed += taken;
    stream->packed_left -= taken;
    *made = count - z->avail_out;
    return result;
}

static enum attn_status refuse_packed(const struct zip_stream *stream, int result) {
    if (result == Z_MEM_ERROR)
        return attn_fail(stream->reader->error, ATTN_NO_MEMORY, stream->member->name,
                         "There is no memory now.");
    return malformed(stream, "The member's deflated data are broken or end too soon.");
}

static enum attn_status inflate_all(struct zip_stream *stream, char *out, size_t count) {
    while (count > 0) {
        size_t made;
        const int result = inflate_some(stream, out, count, &made);
        out += made;
        count -= made;
        if (count > 0 && result != Z_OK)
            return refuse_packed(stream, result);
    }
    return ATTN_OK;
}

static bool has(const struct zip_stream *stream, size_t count) {
    return count <= stream->member->size - stream->at;
}

static enum attn_status refuse_short(const struct zip_stream *stream) {
    return malformed(stream, "The member ends within its array.");
}

static bool is_cancelled(const struct zip_stream *stream) {
    const atomic_bool *const cancelled = stream->reader->cancelled;
    return cancelled != NULL && atomic_load_explicit(cancelled, memory_order_relaxed);
}

static void pass(struct zip_stream *stream, const void *bytes, size_t count) {
    stream->crc = libdeflate_crc32(stream->crc, bytes, count);
    stream->at += count;
}

const char *zip_stream_place(const struct zip_stream *stream) {
    return stream->member->deflated ? NULL : stream->member->data + stream->at;
}

enum attn_status zip_stream_view(struct zip_stream *stream, const char **out, size_t count) {
    assert(has(stream, count)); /* by then the header's shape was held against the member's size */
    *out = zip_stream_place(stream);
    for (size_t left = count; left > 0;) {
        const size_t piece = attn_min_size(left, PIECE);
        if (is_cancelled(stream))
            return json_reader_cancelled(stream->reader);
        pass(stream, zip_stream_place(stream), piece);
        left -= piece;
    }
    return ATTN_OK;
}

enum attn_status zip_stream_read(struct zip_stream *stream, void *out, size_t count) {
    if (!has(stream, count))
        return refuse_short(stream);
    for (char *at = out; count > 0;) {
        const size_t piece = attn_min_size(count, PIECE);
        if (is_cancelled(stream))
            return json_reader_cancelled(stream->reader);
        if (!stream->member->deflated)
            memcpy(at, zip_stream_place(stream), piece);
        else if (inflate_all(stream, at, piece) != ATTN_OK)
            return stream->reader->error->status;
        pass(stream, at, piece);
        at += piece;
        count -= piece;
    }
    return ATTN_OK;
}

/* Whether the deflated data end where the member's last byte came out. */
static enum attn_status check_end(struct zip_stream *stream) {
    char more;
    size_t made;
    int result;
    do
        result = inflate_some(stream, &more, 1, &made);
    while (result == Z_OK && made == 0);
    if (made > 0)
        return malformed(stream,
                         "The member's deflated data go on behind the size that it claims.");
    if (result != Z_STREAM_END)
        return refuse_packed(stream, result);
    return stream->packed_left == 0
               ? ATTN_OK
               : malformed(stream, "Some of the member's bytes are left behind its deflated data.");
}

enum attn_status zip_stream_end(struct zip_stream *stream) {
    assert(stream->at == stream->member->size);
    if (stream->member->deflated && check_end(stream) != ATTN_OK)
        return stream->reader->error->status;
    if (stream->crc != stream->member->crc)
        return malformed(stream, "The member's checksum is wrong: its bytes were changed on their "
                                 "way.");
    return ATTN_OK;
}
