/* SPDX-License-Identifier: Apache-2.0 */
/* Growing memory around a decoder; see unpacker.h. */
#include "server/codings/unpacker.h"

#include <string.h>

#include "core/checked.h"
#include "server/buffer_pool.h"
#include "server/send_binary.h"

/* A step reads and makes at most so much. */
#define STEP_BYTES ((size_t)256 << 10)

enum {
    USUAL_RATIO = 4,    /* of text; the first guess where the body says nothing */
    CREDIBLE_RATIO = 8, /* what a body says of itself is believed up to here */
    SMALLEST = 4096
};

void unpacker_init(struct unpacker *unpacker, const struct coding *coding, const void *body,
                   size_t length, const struct unpacker_limits *limits,
                   const struct unpacker_account *account) {
    size_t by_ratio;
    if (!attn_mul_size(length, limits->ratio, &by_ratio))
        by_ratio = SIZE_MAX;
    *unpacker = (struct unpacker){
        .coding = coding,
        .body = body,
        .length = length,
        .limits = *limits,
        .account = *account,
        .most = attn_min_size(limits->bytes, attn_max_size(by_ratio, UNPACKER_FREE_BYTES)),
    };
}

static enum attn_status refuse_size(const struct unpacker *unpacker, struct attn_error *error) {
    const struct unpacker_limits *limits = &unpacker->limits;
    if (unpacker->most == limits->bytes)
        return attn_fail_limit(error, ATTN_BODY_TOO_LARGE, "", (double)limits->bytes,
                               "The body unpacks to more than the %zu bytes that it may have. Send "
                               "less per call, or have the operator raise %s.",
                               limits->bytes, limits->option);
    return attn_fail_limit(
        error, ATTN_BODY_TOO_LARGE, "", (double)unpacker->most,
        "The body's %zu bytes unpack to more than %zu, and to more than %zu times "
        "their number. Send the body as it is, or have the operator raise "
        "max_compression_ratio.",
        unpacker->length, unpacker->most, limits->ratio);
}

static size_t first_guess(const struct unpacker *unpacker) {
    const struct coding *coding = unpacker->coding;
    const size_t claimed =
        coding->claimed_bytes == NULL ? 0 : coding->claimed_bytes(unpacker->body, unpacker->length);
    size_t usual;
    if (claimed > 0 && claimed / CREDIBLE_RATIO <= unpacker->length)
        return claimed;
    return attn_mul_size(unpacker->length, USUAL_RATIO, &usual) ? usual : SIZE_MAX;
}

/* Room for one byte more at least. */
static enum attn_status grow(struct unpacker *unpacker, struct attn_error *error) {
    const size_t old = unpacker->capacity;
    const size_t wanted = old == 0 ? attn_max_size(first_guess(unpacker), SMALLEST) : 2 * old;
    const size_t capacity = attn_min_size(wanted, unpacker->most);
    if (capacity <= old)
        return refuse_size(unpacker, error);
    const enum attn_status status =
        unpacker->account.reserve(unpacker->account.owner, capacity, error);
    if (status != ATTN_OK)
        return status;
    unsigned char *buffer = buffer_take(capacity);
    if (buffer == NULL) {
        unpacker->account.release(unpacker->account.owner, capacity);
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for the body now.");
    }
    if (old > 0) {
        memcpy(buffer, unpacker->buffer, unpacker->unpacked);
        buffer_give(unpacker->buffer, old);
        unpacker->account.release(unpacker->account.owner, old);
    }
    unpacker->buffer = buffer;
    unpacker->capacity = capacity;
    return ATTN_OK;
}

/* A decoder has whatever state it needs charged for as long as it lives. */
static enum attn_status open_decoder(struct unpacker *unpacker, struct attn_error *error) {
    const struct coding *coding = unpacker->coding;
    const enum attn_status status =
        unpacker->account.reserve(unpacker->account.owner, coding->decoder_bytes, error);
    if (status != ATTN_OK)
        return status;
    unpacker->decoder = coding->decoder_open(unpacker->body, unpacker->length);
    if (unpacker->decoder != NULL)
        return ATTN_OK;
    unpacker->account.release(unpacker->account.owner, coding->decoder_bytes);
    return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for the body now.");
}

static void close_decoder(struct unpacker *unpacker) {
    if (unpacker->decoder == NULL)
        return;
    unpacker->coding->decoder_close(unpacker->decoder);
    unpacker->account.release(unpacker->account.owner, unpacker->coding->decoder_bytes);
    unpacker->decoder = NULL;
}

/* One stream has ended: that was all, or another one follows, or something that is none. */
static enum attn_status stream_ended(struct unpacker *unpacker, struct attn_error *error) {
    const struct coding *coding = unpacker->coding;
    const size_t left = unpacker->length - unpacker->at;
    unpacker->done = left == 0;
    if (left == 0 ||
        (coding->begins != NULL && coding->begins(unpacker->body + unpacker->at, left)))
        return ATTN_OK;
    return attn_fail(
        error, ATTN_MALFORMED, "",
        "Behind the end of the body's %s stream, at byte %zu of %zu, follows what is no "
        "such stream. Send nothing behind it.",
        coding->name, unpacker->at, unpacker->length);
}

static enum attn_status step(struct unpacker *unpacker, struct attn_error *error) {
    const struct coding *coding = unpacker->coding;
    const size_t room = unpacker->capacity - unpacker->unpacked;
    unsigned char beyond = 0; /* where there is no room, it tells whether more comes */
    const char *fault = "";
    const size_t in = attn_min_size(unpacker->length - unpacker->at, STEP_BYTES);
    const size_t out = room == 0 ? 1 : attn_min_size(room, STEP_BYTES);
    struct coding_span span = {
        .in = unpacker->body + unpacker->at,
        .in_left = in,
        .out = room == 0 ? &beyond : unpacker->buffer + unpacker->unpacked,
        .out_left = out,
    };
    const enum coding_progress progress = coding->decode(unpacker->decoder, &span, &fault);
    const size_t made = out - span.out_left;
    unpacker->at += in - span.in_left;
    if (progress == CODING_NO_MEMORY)
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for the body now.");
    if (progress == CODING_BROKEN)
        return attn_fail(
            error, ATTN_MALFORMED, "",
            "The body is no %s stream that can be read: near byte %zu of %zu, %s. Send "
            "the body as it is, or let a library pack it. %s",
            coding->name, unpacker->at, unpacker->length, fault, SEND_BINARY);
    if (made > 0 && room == 0) {
        if (grow(unpacker, error) != ATTN_OK)
            return error->status;
        unpacker->buffer[unpacker->unpacked] = beyond;
    }
    unpacker->unpacked += made;
    if (progress == CODING_ENDED)
        return stream_ended(unpacker, error);
    if (made == 0 && span.in_left == in)
        return attn_fail(error, ATTN_MALFORMED, "",
                         "The body's %zu bytes end in the middle of the %s stream. Send all of it. "
                         "%s",
                         unpacker->length, coding->name, SEND_BINARY);
    return ATTN_OK;
}

static size_t read_and_made(const struct unpacker *unpacker) {
    return unpacker->at + unpacker->unpacked;
}

enum attn_status unpacker_run(struct unpacker *unpacker, size_t bytes, struct attn_error *error) {
    const size_t begin = read_and_made(unpacker);
    enum attn_status status = ATTN_OK;
    if (unpacker->decoder == NULL && !unpacker->done)
        status = open_decoder(unpacker, error);
    if (status == ATTN_OK && unpacker->capacity == 0)
        status = grow(unpacker, error);
    while (status == ATTN_OK && !unpacker->done && read_and_made(unpacker) - begin < bytes)
        status = step(unpacker, error);
    if (unpacker->done)
        close_decoder(unpacker);
    return status;
}

void *unpacker_take(struct unpacker *unpacker, size_t *length, size_t *capacity) {
    void *const buffer = unpacker->buffer;
    *length = unpacker->unpacked;
    *capacity = unpacker->capacity;
    unpacker->buffer = NULL;
    unpacker->capacity = 0;
    return buffer;
}

void unpacker_close(struct unpacker *unpacker) {
    close_decoder(unpacker);
    if (unpacker->buffer == NULL)
        return;
    buffer_give(unpacker->buffer, unpacker->capacity);
    unpacker->account.release(unpacker->account.owner, unpacker->capacity);
    unpacker->buffer = NULL;
    unpacker->capacity = 0;
}
