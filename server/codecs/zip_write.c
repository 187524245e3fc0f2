/* SPDX-License-Identifier: Apache-2.0 */
/* Headers, checksums and directory of an archive; see zip_write.h. */
#include "server/codecs/zip_write.h"

#include <libdeflate.h>
#include <string.h>

#include "server/codecs/zip_format.h"

enum {
    LOCAL_ZIP64 = ZIP_EXTRA_BYTES + 2 * 8,   /* size, packed size */
    CENTRAL_ZIP64 = ZIP_EXTRA_BYTES + 3 * 8, /* and the offset */
    PADDING_ID = 0xd935,                     /* of an extra field of zeros that aligns data */
    MADE_ON_UNIX = 3 << 8,
    FIRST_OF_JANUARY_1980 = 1 << 5 | 1
};
/* The owner may read and write the file that a member becomes: the upper half has Unix's mode. */
#define OWNERS_FILE (UINT32_C(0100600) << 16)

size_t zip_local_bytes(size_t offset, const char *name) {
    const size_t least = ZIP_LOCAL_BYTES + strlen(name) + LOCAL_ZIP64 + ZIP_EXTRA_BYTES;
    return least + (ZIP_ALIGNMENT - (offset + least) % ZIP_ALIGNMENT) % ZIP_ALIGNMENT;
}

/* The head of an extra field with `bytes` bytes, head included; returns where these go. */
static char *put_extra(char *at, uint16_t id, size_t bytes) {
    zip_put16(at, id);
    zip_put16(at + 2, (uint16_t)(bytes - ZIP_EXTRA_BYTES));
    return at + ZIP_EXTRA_BYTES;
}

static uint32_t write_local(char *archive, const struct zip_written *member) {
    char *const at = archive + member->offset;
    const size_t name = strlen(member->name);
    const size_t padding = member->header - ZIP_LOCAL_BYTES - name - LOCAL_ZIP64;
    const uint32_t crc = libdeflate_crc32(0, at + member->header, member->size);
    memset(at, 0, member->header);
    zip_put32(at, ZIP_LOCAL);
    zip_put16(at + LOCAL_VERSION, ZIP_VERSION_ZIP64);
    zip_put16(at + LOCAL_DATE, FIRST_OF_JANUARY_1980);
    zip_put32(at + LOCAL_CRC, crc);
    zip_put32(at + LOCAL_PACKED, ZIP_ELSEWHERE_32);
    zip_put32(at + LOCAL_SIZE, ZIP_ELSEWHERE_32);
    zip_put16(at + LOCAL_NAME_LENGTH, (uint16_t)name);
    zip_put16(at + LOCAL_EXTRA_LENGTH, (uint16_t)(LOCAL_ZIP64 + padding));
    memcpy(at + ZIP_LOCAL_BYTES, member->name, name);
    char *const sizes = put_extra(at + ZIP_LOCAL_BYTES + name, ZIP_EXTRA_ZIP64, LOCAL_ZIP64);
    zip_put64(sizes, member->size);
    zip_put64(sizes + 8, member->size);
    put_extra(sizes + 16, PADDING_ID, padding);
    return crc;
}

static char *write_central(char *at, const struct zip_written *member, uint32_t crc) {
    const size_t name = strlen(member->name);
    memset(at, 0, ZIP_CENTRAL_BYTES);
    zip_put32(at, ZIP_CENTRAL);
    zip_put16(at + CENTRAL_VERSION, MADE_ON_UNIX | ZIP_VERSION_ZIP64);
    zip_put16(at + CENTRAL_NEEDED, ZIP_VERSION_ZIP64);
    zip_put16(at + CENTRAL_DATE, FIRST_OF_JANUARY_1980);
    zip_put32(at + CENTRAL_CRC, crc);
    zip_put32(at + CENTRAL_PACKED, ZIP_ELSEWHERE_32);
    zip_put32(at + CENTRAL_SIZE, ZIP_ELSEWHERE_32);
    zip_put16(at + CENTRAL_NAME_LENGTH, (uint16_t)name);
    zip_put16(at + CENTRAL_EXTRA_LENGTH, CENTRAL_ZIP64);
    zip_put32(at + CENTRAL_ATTRIBUTES, OWNERS_FILE);
    zip_put32(at + CENTRAL_OFFSET, ZIP_ELSEWHERE_32);
    memcpy(at + ZIP_CENTRAL_BYTES, member->name, name);
    char *const numbers = put_extra(at + ZIP_CENTRAL_BYTES + name, ZIP_EXTRA_ZIP64, CENTRAL_ZIP64);
    zip_put64(numbers, member->size);
    zip_put64(numbers + 8, member->size);
    zip_put64(numbers + 16, member->offset);
    return numbers + 24;
}

/* zip64's end record, its locator, and the end record that says to look there. */
static char *write_end(char *at, size_t offset, size_t bytes, size_t count) {
    memset(at, 0, ZIP_END64_BYTES + ZIP_LOCATOR64_BYTES + ZIP_END_BYTES);
    zip_put32(at, ZIP_END64);
    zip_put64(at + END64_REST, ZIP_END64_BYTES - END64_VERSION);
    zip_put16(at + END64_VERSION, MADE_ON_UNIX | ZIP_VERSION_ZIP64);
    zip_put16(at + END64_NEEDED, ZIP_VERSION_ZIP64);
    zip_put64(at + END64_COUNT_HERE, count);
    zip_put64(at + END64_COUNT, count);
    zip_put64(at + END64_BYTES, bytes);
    zip_put64(at + END64_OFFSET, offset);
    char *const locator = at + ZIP_END64_BYTES;
    zip_put32(locator, ZIP_LOCATOR64);
    zip_put64(locator + LOCATOR64_OFFSET, offset + bytes);
    zip_put32(locator + LOCATOR64_DISKS, 1);
    char *const end = locator + ZIP_LOCATOR64_BYTES;
    zip_put32(end, ZIP_END);
    zip_put16(end + END_COUNT_HERE, ZIP_ELSEWHERE_16);
    zip_put16(end + END_COUNT, ZIP_ELSEWHERE_16);
    zip_put32(end + END_BYTES, ZIP_ELSEWHERE_32);
    zip_put32(end + END_OFFSET, ZIP_ELSEWHERE_32);
    return end + ZIP_END_BYTES;
}

size_t zip_directory_room(size_t count) {
    return count * (ZIP_CENTRAL_BYTES + ZIP_NAME_ROOM + CENTRAL_ZIP64) + ZIP_END64_BYTES +
           ZIP_LOCATOR64_BYTES + ZIP_END_BYTES;
}

size_t zip_write(char *archive, size_t offset, const struct zip_written *members, size_t count) {
    char *at = archive + offset;
    for (size_t i = 0; i < count; i++)
        at = write_central(at, &members[i], write_local(archive, &members[i]));
    at = write_end(at, offset, (size_t)(at - archive) - offset, count);
    return (size_t)(at - archive);
}
