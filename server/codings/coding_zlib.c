/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gzip (RFC 1952), whose members may follow each other, and deflate, which is a zlib stream
 * (RFC 1950) by its definition and a raw one (RFC 1951) by some who send it. Streams that need a
 * dictionary are refused.
 */
#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

#include "core/checked.h"
#include "server/codings/coding_rows.h"

/* zlib's windowBits: the largest window, and what adds gzip's frame or takes any frame away. */
enum { WINDOW = 15, GZIP_FRAME = 16 };
enum { FASTEST = 1, MEMORY_LEVEL = 8 };

struct stream {
    z_stream z;
    bool ended; /* the next byte is another member's */
};

/* Opens with inflateInit2 or deflateInit2, whose result is `code`. */
static void *opened(struct stream *stream, int code) {
    if (code == Z_OK)
        return stream;
    free(stream);
    return NULL;
}

static void *open_decoder(int window_bits) {
    struct stream *stream = calloc(1, sizeof *stream);
    return stream == NULL ? NULL : opened(stream, inflateInit2(&stream->z, window_bits));
}

static void close_decoder(void *decoder) {
    struct stream *stream = decoder;
    if (stream != NULL)
        inflateEnd(&stream->z);
    free(stream);
}

/* Lends the span to zlib, which counts in unsigned ints. */
static void lend(struct stream *stream, const struct coding_span *span) {
    stream->z.next_in = (Bytef *)(uintptr_t)span->in;
    stream->z.avail_in = (uInt)attn_min_size(span->in_left, UINT_MAX);
    stream->z.next_out = span->out;
    stream->z.avail_out = (uInt)attn_min_size(span->out_left, UINT_MAX);
}

static void take_back(const struct stream *stream, struct coding_span *span) {
    span->in_left -= (size_t)(stream->z.next_in - span->in);
    span->in = stream->z.next_in;
    span->out_left -= (size_t)(stream->z.next_out - span->out);
    span->out = stream->z.next_out;
}

static enum coding_progress decode(void *decoder, struct coding_span *span, const char **fault) {
    struct stream *stream = decoder;
    if (stream->ended)
        inflateReset(&stream->z);
    lend(stream, span);
    const int code = inflate(&stream->z, Z_NO_FLUSH);
    take_back(stream, span);
    stream->ended = code == Z_STREAM_END;
    switch (code) {
    case Z_OK:
    case Z_BUF_ERROR:
        return CODING_GOES_ON;
    case Z_STREAM_END:
        return CODING_ENDED;
    case Z_MEM_ERROR:
        return CODING_NO_MEMORY;
    case Z_NEED_DICT:
        *fault = "it needs a dictionary";
        return CODING_BROKEN;
    default:
        *fault = stream->z.msg == NULL ? "it cannot be read" : stream->z.msg;
        return CODING_BROKEN;
    }
}

static void *open_encoder(int window_bits) {
    struct stream *stream = calloc(1, sizeof *stream);
    return stream == NULL
               ? NULL
               : opened(stream, deflateInit2(&stream->z, FASTEST, Z_DEFLATED, window_bits,
                                             MEMORY_LEVEL, Z_DEFAULT_STRATEGY));
}

static void close_encoder(void *encoder) {
    struct stream *stream = encoder;
    if (stream != NULL)
        deflateEnd(&stream->z);
    free(stream);
}

static enum coding_progress encode(void *encoder, struct coding_span *span, bool last) {
    struct stream *stream = encoder;
    lend(stream, span);
    const int code = deflate(&stream->z, last ? Z_FINISH : Z_NO_FLUSH);
    take_back(stream, span);
    return code == Z_STREAM_END ? CODING_ENDED : CODING_GOES_ON;
}

static bool begins_gzip(const unsigned char *body, size_t length) {
    enum { HEADER = 10, DEFLATED = 8, RESERVED_FLAGS = 0xe0 };
    return length >= HEADER && body[0] == 0x1f && body[1] == 0x8b && body[2] == DEFLATED &&
           (body[3] & RESERVED_FLAGS) == 0;
}

/* The last four bytes: the length of the last member, modulo 2^32. */
static size_t claimed_by_gzip(const unsigned char *body, size_t length) {
    const unsigned char *const end = body + length;
    return length < 4
               ? 0
               : end[-4] | (size_t)end[-3] << 8 | (size_t)end[-2] << 16 | (size_t)end[-1] << 24;
}

static void *open_gzip_decoder(const unsigned char *body, size_t length) {
    (void)body;
    (void)length;
    return open_decoder(WINDOW + GZIP_FRAME);
}

static void *open_gzip_encoder(size_t length) {
    (void)length;
    return open_encoder(WINDOW + GZIP_FRAME);
}

const struct coding CODING_GZIP = {
    .name = "gzip",
    .alias = "x-gzip",
    .for_oip = true,
    .decoder_bytes = (size_t)64 << 10,
    .encoder_bytes = (size_t)320 << 10,
    .begins = begins_gzip,
    .claimed_bytes = claimed_by_gzip,
    .decoder_open = open_gzip_decoder,
    .decode = decode,
    .decoder_close = close_decoder,
    .encoder_open = open_gzip_encoder,
    .encode = encode,
    .encoder_close = close_encoder,
};

/* A zlib stream's first byte names the method 8, which a raw stream's could only be by bits that
   have to be ignored and that all who write them leave 0; its second makes the two a multiple
   of 31. */
static bool is_zlib(const unsigned char *body, size_t length) {
    return length < 2 || ((body[0] & 0x0f) == 8 && (body[0] * 256 + body[1]) % 31 == 0);
}

static void *open_deflate_decoder(const unsigned char *body, size_t length) {
    return open_decoder(is_zlib(body, length) ? WINDOW : -WINDOW);
}

static void *open_deflate_encoder(size_t length) {
    (void)length;
    return open_encoder(WINDOW);
}

const struct coding CODING_DEFLATE = {
    .name = "deflate",
    .for_oip = true,
    .decoder_bytes = (size_t)64 << 10,
    .encoder_bytes = (size_t)320 << 10,
    .decoder_open = open_deflate_decoder,
    .decode = decode,
    .decoder_close = close_decoder,
    .encoder_open = open_deflate_encoder,
    .encode = encode,
    .encoder_close = close_encoder,
};
