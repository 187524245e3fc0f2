/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives of .npy arrays for the tests, written here from the format's description so that the
 * daemon's own writer and reader are checked by something that shares nothing with them: 32-bit
 * fields as most programs write them, and zip64 ones as numpy does.
 */
#ifndef TESTS_UNIT_SERVER_NPZ_FIXTURE_H
#define TESTS_UNIT_SERVER_NPZ_FIXTURE_H

#include <zlib.h>

#include "tests/unit/server/codec_fixture.h"

enum { ARCHIVE_ROOM = 1 << 14, ARCHIVE_MEMBERS = 16 };
enum { PACK_STORED, PACK_DEFLATED, PACK_ZIP64, PACK_ZIP64_DEFLATED, PACK_BEHIND };

struct archive_member {
    char name[40];
    size_t offset, size, packed, method;
    uint32_t crc;
    int pack;
};

struct archive {
    _Alignas(64) char bytes[ARCHIVE_ROOM];
    size_t length;
    struct archive_member members[ARCHIVE_MEMBERS];
    size_t count;
    size_t directory, end; /* offsets of the directory and of the end records */
};

static inline void put(struct archive *archive, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        archive->bytes[archive->length++] = (char)(i < sizeof value ? value >> 8 * i & 0xff : 0);
}

static inline void put_bytes(struct archive *archive, const void *bytes, size_t count) {
    ck_assert_uint_le(archive->length + count, ARCHIVE_ROOM);
    memcpy(archive->bytes + archive->length, bytes, count);
    archive->length += count;
}

static inline bool is_zip64(const struct archive_member *member) {
    return member->pack == PACK_ZIP64 || member->pack == PACK_ZIP64_DEFLATED;
}

/* Raw deflate; the packed size. */
static inline size_t deflated(const void *data, size_t size, char *out, size_t room) {
    z_stream z = {.zalloc = NULL};
    ck_assert_int_eq(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)data;
    z.avail_in = (uInt)size;
    z.next_out = (Bytef *)out;
    z.avail_out = (uInt)room;
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    const size_t packed = z.total_out;
    deflateEnd(&z);
    return packed;
}

/* Fields that the local header and the directory share. */
static inline void put_shared(struct archive *archive, const struct archive_member *member,
                              bool sizes, size_t extra) {
    const bool elsewhere = is_zip64(member);
    put(archive, member->pack == PACK_BEHIND ? 8 : 0, 2);
    put(archive, member->method, 2);
    put(archive, 0, 4); /* time and date */
    put(archive, sizes ? member->crc : 0, 4);
    put(archive, elsewhere ? UINT32_MAX : sizes ? member->packed : 0, 4);
    put(archive, elsewhere ? UINT32_MAX : sizes ? member->size : 0, 4);
    put(archive, strlen(member->name), 2);
    put(archive, extra, 2);
}

/* Adds a member; its data begin on a multiple of `alignment` by means of an extra field. */
static inline void archive_add(struct archive *archive, const char *name, const void *data,
                               size_t size, int pack, size_t alignment) {
    static char packed[ARCHIVE_ROOM];
    struct archive_member *const member = &archive->members[archive->count++];
    ck_assert_uint_le(archive->count, ARCHIVE_MEMBERS);
    *member = (struct archive_member){.offset = archive->length,
                                      .size = size,
                                      .packed = size,
                                      .pack = pack,
                                      .crc = (uint32_t)crc32(0, data, (uInt)size)};
    snprintf(member->name, sizeof member->name, "%s", name);
    if (pack == PACK_DEFLATED || pack == PACK_ZIP64_DEFLATED) {
        member->method = 8;
        member->packed = deflated(data, size, packed, sizeof packed);
        data = packed;
    }
    const size_t before = archive->length + 30 + strlen(name) + (is_zip64(member) ? 20 : 0) + 4;
    const size_t padding = (alignment - before % alignment) % alignment;
    put(archive, 0x04034b50, 4);
    put(archive, 20, 2);
    put_shared(archive, member, pack != PACK_BEHIND,
               (is_zip64(member) ? 20 : (size_t)0) + 4 + padding);
    put_bytes(archive, name, strlen(name));
    if (is_zip64(member)) {
        put(archive, 1, 2);
        put(archive, 16, 2);
        put(archive, size, 8);
        put(archive, member->packed, 8);
    }
    put(archive, 0xd935, 2);
    put(archive, padding, 2);
    for (size_t i = 0; i < padding; i++)
        put(archive, 0, 1);
    put_bytes(archive, data, member->packed);
    if (pack == PACK_BEHIND) {
        put(archive, 0x08074b50, 4);
        put(archive, member->crc, 4);
        put(archive, member->packed, 4);
        put(archive, size, 4);
    }
}

/* Adds an array: a header of version 1.0 with this dict, whose length numpy makes a multiple of 64
   with the prefix, and the data. */
static inline void archive_array(struct archive *archive, const char *name, const char *dict,
                                 const void *data, size_t bytes, int pack) {
    static char array[ARCHIVE_ROOM];
    const size_t whole = (10 + strlen(dict) + 1 + 63) / 64 * 64;
    const size_t text = whole - 10;
    memset(array, ' ', whole);
    memcpy(array, "\x93NUMPY\1\0", 8);
    array[8] = (char)(text & 0xff);
    array[9] = (char)(text >> 8);
    memcpy(array + 10, dict, strlen(dict));
    array[whole - 1] = '\n';
    ck_assert_uint_le(whole + bytes, sizeof array);
    memcpy(array + whole, data, bytes);
    archive_add(archive, name, array, whole + bytes, pack, 64);
}

static inline void put_entry(struct archive *archive, const struct archive_member *member) {
    const bool elsewhere = is_zip64(member);
    put(archive, 0x02014b50, 4);
    put(archive, 20, 2);
    put(archive, 20, 2);
    put_shared(archive, member, true, elsewhere ? 28 : 0);
    put(archive, 0, 2 + 2 + 2 + 4); /* no comment, disk 0, attributes */
    put(archive, elsewhere ? UINT32_MAX : member->offset, 4);
    put_bytes(archive, member->name, strlen(member->name));
    if (!elsewhere)
        return;
    put(archive, 1, 2);
    put(archive, 24, 2);
    put(archive, member->size, 8);
    put(archive, member->packed, 8);
    put(archive, member->offset, 8);
}

/* The directory and the end; with zip64's end records when `zip64`. */
static inline void archive_finish(struct archive *archive, bool zip64) {
    archive->directory = archive->length;
    for (size_t i = 0; i < archive->count; i++)
        put_entry(archive, &archive->members[i]);
    archive->end = archive->length;
    const size_t bytes = archive->end - archive->directory;
    if (zip64) {
        put(archive, 0x06064b50, 4);
        put(archive, 44, 8);
        put(archive, 45 | 45 << 16, 4);
        put(archive, 0, 8);
        put(archive, archive->count, 8);
        put(archive, archive->count, 8);
        put(archive, bytes, 8);
        put(archive, archive->directory, 8);
        put(archive, 0x07064b50, 4);
        put(archive, 0, 4);
        put(archive, archive->end, 8);
        put(archive, 1, 4);
    }
    put(archive, 0x06054b50, 4);
    put(archive, 0, 4);
    put(archive, zip64 ? UINT16_MAX : archive->count, 2);
    put(archive, zip64 ? UINT16_MAX : archive->count, 2);
    put(archive, zip64 ? UINT32_MAX : bytes, 4);
    put(archive, zip64 ? UINT32_MAX : archive->directory, 4);
    put(archive, 0, 2);
}

#define DICT(descr, shape) "{'descr': '" descr "', 'fortran_order': False, 'shape': (" shape "), }"

static const float NPZ_Q[] = {1, 2}, NPZ_K[] = {1, 2, 3, 4}, NPZ_V[] = {5, 6};

/* q, k and v: [1,2], [2,2] and [2,1]. */
static inline void archive_operands(struct archive *archive, int pack) {
    memset(archive, 0, sizeof *archive);
    archive_array(archive, "q.npy", DICT("<f4", "1, 2"), NPZ_Q, sizeof NPZ_Q, pack);
    archive_array(archive, "k.npy", DICT("<f4", "2, 2"), NPZ_K, sizeof NPZ_K, pack);
    archive_array(archive, "v.npy", DICT("<f4", "2, 1"), NPZ_V, sizeof NPZ_V, pack);
}

static inline struct exchange_under_test decode_archive(const struct archive *archive) {
    return decode_bytes("npz", archive->bytes, archive->length, NULL, 0);
}

#endif
