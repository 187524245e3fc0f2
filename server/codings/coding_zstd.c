/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zstd (RFC 8878), whose frames may follow each other. Refused are frames that need a dictionary,
 * and windows of more than the 8 MiB that RFC 9659 grants to this coding.
 */
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "server/codings/coding_rows.h"

enum { FASTEST = 1, WINDOW_LOG = 23 };

static void *open_decoder(const unsigned char *body, size_t length) {
    ZSTD_DCtx *decoder = ZSTD_createDCtx();
    (void)body;
    (void)length;
    if (decoder != NULL)
        ZSTD_DCtx_setParameter(decoder, ZSTD_d_windowLogMax, WINDOW_LOG);
    return decoder;
}

static void close_decoder(void *decoder) {
    ZSTD_freeDCtx(decoder);
}

static const char *fault_of(size_t code) {
    switch (ZSTD_getErrorCode(code)) {
    case ZSTD_error_dictionary_wrong:
        return "it needs a dictionary";
    case ZSTD_error_frameParameter_windowTooLarge:
        return "its window has more than 8 MiB";
    default:
        return ZSTD_getErrorName(code);
    }
}

static enum coding_progress decode(void *decoder, struct coding_span *span, const char **fault) {
    ZSTD_inBuffer in = {span->in, span->in_left, 0};
    ZSTD_outBuffer out = {span->out, span->out_left, 0};
    const size_t code = ZSTD_decompressStream(decoder, &out, &in);
    span->in += in.pos;
    span->in_left -= in.pos;
    span->out += out.pos;
    span->out_left -= out.pos;
    if (!ZSTD_isError(code))
        return code == 0 ? CODING_ENDED : CODING_GOES_ON;
    *fault = fault_of(code);
    return ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation ? CODING_NO_MEMORY
                                                                   : CODING_BROKEN;
}

/* The length makes its window and its tables no larger than needed. */
static void *open_encoder(size_t length) {
    ZSTD_CCtx *encoder = ZSTD_createCCtx();
    if (encoder == NULL)
        return NULL;
    ZSTD_CCtx_setParameter(encoder, ZSTD_c_compressionLevel, FASTEST);
    ZSTD_CCtx_setPledgedSrcSize(encoder, length);
    return encoder;
}

static void close_encoder(void *encoder) {
    ZSTD_freeCCtx(encoder);
}

static enum coding_progress encode(void *encoder, struct coding_span *span, bool last) {
    ZSTD_inBuffer in = {span->in, span->in_left, 0};
    ZSTD_outBuffer out = {span->out, span->out_left, 0};
    const size_t code =
        ZSTD_compressStream2(encoder, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
    span->in += in.pos;
    span->in_left -= in.pos;
    span->out += out.pos;
    span->out_left -= out.pos;
    if (ZSTD_isError(code))
        return ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation ? CODING_NO_MEMORY
                                                                       : CODING_BROKEN;
    return last && code == 0 ? CODING_ENDED : CODING_GOES_ON;
}

/* A frame, or one of the sixteen kinds that are skipped. */
static bool begins(const unsigned char *body, size_t length) {
    static const unsigned char frame[] = {0x28, 0xb5, 0x2f, 0xfd}, skipped[] = {0x2a, 0x4d, 0x18};
    return length >= sizeof frame &&
           (memcmp(body, frame, sizeof frame) == 0 ||
            ((body[0] & 0xf0) == 0x50 && memcmp(body + 1, skipped, sizeof skipped) == 0));
}

/* Of the first frame. */
static size_t claimed_bytes(const unsigned char *body, size_t length) {
    const unsigned long long bytes = ZSTD_getFrameContentSize(body, length);
    if (bytes == ZSTD_CONTENTSIZE_UNKNOWN || bytes == ZSTD_CONTENTSIZE_ERROR)
        return 0;
    return bytes > SIZE_MAX ? SIZE_MAX : (size_t)bytes;
}

const struct coding CODING_ZSTD = {
    .name = "zstd",
    .decoder_bytes = ((size_t)8 << 20) + ((size_t)512 << 10),
    .encoder_bytes = (size_t)2 << 20,
    .begins = begins,
    .claimed_bytes = claimed_bytes,
    .decoder_open = open_decoder,
    .decode = decode,
    .decoder_close = close_decoder,
    .encoder_open = open_encoder,
    .encode = encode,
    .encoder_close = close_encoder,
};
