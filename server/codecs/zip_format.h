/* SPDX-License-Identifier: Apache-2.0 */
/* The records of a zip archive: signatures, sizes, and where their fields lie. */
#ifndef SERVER_CODECS_ZIP_FORMAT_H
#define SERVER_CODECS_ZIP_FORMAT_H

#include <stdint.h>

#define ZIP_LOCAL UINT32_C(0x04034b50)
#define ZIP_CENTRAL UINT32_C(0x02014b50)
#define ZIP_END UINT32_C(0x06054b50)
#define ZIP_END64 UINT32_C(0x06064b50)
#define ZIP_LOCATOR64 UINT32_C(0x07064b50)
/* What a field holds when its value stands in a zip64 record instead. */
#define ZIP_ELSEWHERE_16 UINT16_C(0xffff)
#define ZIP_ELSEWHERE_32 UINT32_C(0xffffffff)

/* Bytes of the records, without the names and extra fields that follow some of them. */
enum {
    ZIP_LOCAL_BYTES = 30,
    ZIP_CENTRAL_BYTES = 46,
    ZIP_END_BYTES = 22,
    ZIP_END64_BYTES = 56,
    ZIP_LOCATOR64_BYTES = 20,
    ZIP_EXTRA_BYTES = 4 /* the head of an extra field: its id and the size of the rest */
};

/* Deflated data become at most so many times as long: 258 bytes for two bits. */
enum { ZIP_MOST_INFLATED = 1032 };

enum { ZIP_EXTRA_ZIP64 = 1, ZIP_STORED = 0, ZIP_DEFLATED = 8, ZIP_VERSION_ZIP64 = 45 };

/* Bits of the flags: sizes and checksum stand behind the data, encrypted in one way or another. */
enum { ZIP_FLAG_BEHIND = 1 << 3, ZIP_FLAGS_ENCRYPTED = 1 | 1 << 6 | 1 << 13 };

/* Fields of a local header. */
enum {
    LOCAL_VERSION = 4,
    LOCAL_FLAGS = 6,
    LOCAL_METHOD = 8,
    LOCAL_DATE = 12,
    LOCAL_CRC = 14,
    LOCAL_PACKED = 18,
    LOCAL_SIZE = 22,
    LOCAL_NAME_LENGTH = 26,
    LOCAL_EXTRA_LENGTH = 28
};

/* Fields of a member's entry in the directory. */
enum {
    CENTRAL_VERSION = 4,
    CENTRAL_NEEDED = 6,
    CENTRAL_FLAGS = 8,
    CENTRAL_METHOD = 10,
    CENTRAL_DATE = 14,
    CENTRAL_CRC = 16,
    CENTRAL_PACKED = 20,
    CENTRAL_SIZE = 24,
    CENTRAL_NAME_LENGTH = 28,
    CENTRAL_EXTRA_LENGTH = 30,
    CENTRAL_COMMENT_LENGTH = 32,
    CENTRAL_DISK = 34,
    CENTRAL_ATTRIBUTES = 38,
    CENTRAL_OFFSET = 42
};

/* Fields of the end record, and of zip64's end record and its locator. */
enum {
    END_DISK = 4,
    END_DIRECTORY_DISK = 6,
    END_COUNT_HERE = 8,
    END_COUNT = 10,
    END_BYTES = 12,
    END_OFFSET = 16,
    END_COMMENT_LENGTH = 20,
    END64_REST = 4,
    END64_VERSION = 12,
    END64_NEEDED = 14,
    END64_DISK = 16,
    END64_DIRECTORY_DISK = 20,
    END64_COUNT_HERE = 24,
    END64_COUNT = 32,
    END64_BYTES = 40,
    END64_OFFSET = 48,
    LOCATOR64_OFFSET = 8,
    LOCATOR64_DISKS = 16
};

static inline uint16_t zip_get16(const char *at) {
    const unsigned char *const byte = (const unsigned char *)at;
    return (uint16_t)(byte[0] | byte[1] << 8);
}

static inline uint32_t zip_get32(const char *at) {
    return zip_get16(at) | (uint32_t)zip_get16(at + 2) << 16;
}

static inline uint64_t zip_get64(const char *at) {
    return zip_get32(at) | (uint64_t)zip_get32(at + 4) << 32;
}

static inline void zip_put16(char *at, uint16_t value) {
    at[0] = (char)(value & 0xff);
    at[1] = (char)(value >> 8);
}

static inline void zip_put32(char *at, uint32_t value) {
    zip_put16(at, (uint16_t)(value & 0xffff));
    zip_put16(at + 2, (uint16_t)(value >> 16));
}

static inline void zip_put64(char *at, uint64_t value) {
    zip_put32(at, (uint32_t)(value & 0xffffffff));
    zip_put32(at + 4, (uint32_t)(value >> 32));
}

#endif
