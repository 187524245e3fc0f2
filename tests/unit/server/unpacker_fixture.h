/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the unpacker: streams of every form, and a run of one under an account that counts.
 */
#ifndef TESTS_UNIT_SERVER_UNPACKER_FIXTURE_H
#define TESTS_UNIT_SERVER_UNPACKER_FIXTURE_H

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "core/checked.h"
#include "server/buffer_pool.h"
#include "server/codings/unpacker.h"
#include "tests/support/random.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define MIB ((size_t)1 << 20)

/* ---- an account that counts ---- */

struct purse {
    size_t reserved, most, limit;
};

static enum attn_status reserve(void *owner, size_t bytes, struct attn_error *error) {
    struct purse *purse = owner;
    if (bytes > purse->limit - purse->reserved)
        return attn_fail(error, ATTN_OVERLOADED, "", "no room");
    purse->reserved += bytes;
    purse->most = attn_max_size(purse->most, purse->reserved);
    return ATTN_OK;
}

static void release(void *owner, size_t bytes) {
    struct purse *purse = owner;
    ck_assert_uint_ge(purse->reserved, bytes);
    purse->reserved -= bytes;
}

/* ---- streams ---- */

struct bytes {
    unsigned char *at;
    size_t length;
};

static struct bytes room(size_t length) {
    struct bytes bytes = {malloc(length + 1), length};
    ck_assert_ptr_nonnull(bytes.at);
    return bytes;
}

/* Bytes that pack to a half or so, without a period. */
static inline struct bytes text_of(size_t length) {
    struct bytes text = room(length);
    struct random random = random_seeded(length);
    for (size_t i = 0; i < length; i++)
        text.at[i] = (unsigned char)('0' + random_below(&random, 10));
    return text;
}

static inline struct bytes zeros(size_t length) {
    struct bytes text = room(length);
    memset(text.at, 0, length);
    return text;
}

static struct bytes packed_by_zlib(struct bytes text, int window_bits) {
    z_stream z = {.next_in = text.at, .avail_in = (uInt)text.length};
    struct bytes packed = room(text.length + text.length / 100 + 100);
    ck_assert_int_eq(deflateInit2(&z, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_out = packed.at;
    z.avail_out = (uInt)packed.length;
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    packed.length = z.total_out;
    deflateEnd(&z);
    return packed;
}

static struct bytes gzip_of(struct bytes text) {
    return packed_by_zlib(text, 15 + 16);
}

static struct bytes zlib_of(struct bytes text) {
    return packed_by_zlib(text, 15);
}

static struct bytes raw_of(struct bytes text) {
    return packed_by_zlib(text, -15);
}

static struct bytes zstd_of(struct bytes text) {
    struct bytes packed = room(ZSTD_compressBound(text.length));
    ZSTD_CCtx *context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    packed.length = ZSTD_compress2(context, packed.at, packed.length, text.at, text.length);
    ck_assert(!ZSTD_isError(packed.length));
    ZSTD_freeCCtx(context);
    return packed;
}

static inline struct bytes joined(struct bytes a, struct bytes b) {
    struct bytes both = room(a.length + b.length);
    memcpy(both.at, a.at, a.length);
    memcpy(both.at + a.length, b.at, b.length);
    return both;
}

static const struct form {
    const char *coding;
    struct bytes (*pack)(struct bytes text);
    bool may_follow; /* another one of the same form */
    bool is_checked; /* a checksum finds every changed bit of the content */
} FORMS[] = {
    {"gzip", gzip_of, true, true},
    {"deflate", zlib_of, false, true},
    {"deflate", raw_of, false, false},
    {"zstd", zstd_of, true, true},
};

/* ---- running ---- */

struct run {
    struct purse purse;
    struct unpacker_limits limits;
    struct attn_error error;
    struct bytes text; /* when it went well; from the pool */
    size_t capacity;
    size_t pieces;
};

static inline struct run generous(void) {
    return (struct run){.purse = {.limit = 1024 * MIB}, .limits = {256 * MIB, "max_body", 100}};
}

static inline enum attn_status run_on(struct run *run, const char *coding, struct bytes packed,
                                      size_t piece) {
    const struct unpacker_account account = {reserve, release, &run->purse};
    struct unpacker unpacker;
    /* A copy of its own length, so that a sanitizer sees reading behind it. */
    unsigned char *copy = malloc(packed.length);
    enum attn_status status = ATTN_OK;
    memcpy(copy, packed.at, packed.length);
    unpacker_init(&unpacker, coding_find(coding, strlen(coding)), copy, packed.length, &run->limits,
                  &account);
    while (status == ATTN_OK && !unpacker.done) {
        status = unpacker_run(&unpacker, piece, &run->error);
        run->pieces++;
    }
    if (status == ATTN_OK) {
        run->text.at = unpacker_take(&unpacker, &run->text.length, &run->capacity);
        ck_assert_uint_eq(run->purse.reserved, run->capacity);
    }
    unpacker_close(&unpacker);
    free(copy);
    if (status != ATTN_OK) {
        ck_assert_uint_eq(run->purse.reserved, 0);
        ck_assert_int_eq(run->error.status, status);
        ck_assert_uint_gt(strlen(run->error.detail), 0);
    }
    return status;
}

#endif
