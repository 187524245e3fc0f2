/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of an archive, and each member's extent; see zip_file.h. */
#include "server/codecs/zip_file.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "server/codecs/codec.h"
#include "server/codecs/zip_format.h"
#include "server/send_binary.h"

struct archive {
    const char *body;
    size_t length;
    const struct json_reader *reader;
    const char *suffix;           /* that names go without */
    uint64_t count, begin, bytes; /* the directory: its entries, its first byte, its length */
};

/* What the directory says of a member. */
struct entry {
    const char *name; /* where it stands, not terminated */
    size_t name_length;
    uint16_t flags, method;
    uint32_t crc;
    uint64_t packed, size, offset;
};

static enum attn_status malformed(const struct archive *archive, const char *name,
                                  const char *sentence) {
    return attn_fail(archive->reader->error, ATTN_MALFORMED, name, "%s", sentence);
}

/* Whether `count` bytes from `offset` lie within the first `length`. */
static bool fits(uint64_t offset, uint64_t count, uint64_t length) {
    return offset <= length && count <= length - offset;
}

/* The end record: the last place where one with a comment up to the end of the body can stand. */
static const char *find_end(const struct archive *archive) {
    const size_t most = ZIP_END_BYTES + (size_t)UINT16_MAX;
    if (archive->length < ZIP_END_BYTES)
        return NULL;
    const size_t first = archive->length - attn_min_size(archive->length, most);
    for (size_t at = archive->length - ZIP_END_BYTES + 1; at-- > first;) {
        const char *const end = archive->body + at;
        if (zip_get32(end) == ZIP_END &&
            zip_get16(end + END_COMMENT_LENGTH) == archive->length - at - ZIP_END_BYTES)
            return end;
    }
    return NULL;
}

static enum attn_status refuse_parts(const struct archive *archive) {
    return malformed(archive, "", "The archive is one of several parts. Send it as one file.");
}

/* zip64's end record, which stands before its locator and that before the end record. */
static enum attn_status read_end64(struct archive *archive, size_t locator, size_t *directory_end) {
    const char *const found = archive->body + locator;
    const uint64_t offset = zip_get64(found + LOCATOR64_OFFSET);
    if (zip_get32(found + LOCATOR64_DISKS) > 1)
        return refuse_parts(archive);
    if (!fits(offset, ZIP_END64_BYTES, locator) || zip_get32(archive->body + offset) != ZIP_END64 ||
        zip_get64(archive->body + offset + END64_REST) != locator - offset - END64_VERSION)
        return malformed(archive, "", "The archive's zip64 end record is not where it should be.");
    const char *const end = archive->body + offset;
    if (zip_get32(end + END64_DISK) != 0 || zip_get32(end + END64_DIRECTORY_DISK) != 0 ||
        zip_get64(end + END64_COUNT_HERE) != zip_get64(end + END64_COUNT))
        return refuse_parts(archive);
    archive->count = zip_get64(end + END64_COUNT);
    archive->bytes = zip_get64(end + END64_BYTES);
    archive->begin = zip_get64(end + END64_OFFSET);
    *directory_end = (size_t)offset;
    return ATTN_OK;
}

/* Where the directory lies: directly before the end records. */
static enum attn_status find_directory(struct archive *archive) {
    const char *const end = find_end(archive);
    if (end == NULL)
        return attn_fail(archive->reader->error, ATTN_MALFORMED, "",
                         "The zip archive lacks its end, where its directory is. %s", SEND_BINARY);
    size_t directory_end = (size_t)(end - archive->body);
    archive->count = zip_get16(end + END_COUNT);
    archive->bytes = zip_get32(end + END_BYTES);
    archive->begin = zip_get32(end + END_OFFSET);
    enum attn_status status = ATTN_OK;
    if (directory_end >= ZIP_LOCATOR64_BYTES &&
        zip_get32(end - ZIP_LOCATOR64_BYTES) == ZIP_LOCATOR64)
        status = read_end64(archive, directory_end - ZIP_LOCATOR64_BYTES, &directory_end);
    else if (zip_get16(end + END_DISK) != 0 || zip_get16(end + END_DIRECTORY_DISK) != 0 ||
             zip_get16(end + END_COUNT_HERE) != archive->count)
        status = refuse_parts(archive);
    if (status != ATTN_OK)
        return status;
    if (!fits(archive->begin, archive->bytes, directory_end) ||
        archive->begin + archive->bytes != directory_end)
        return attn_fail(archive->reader->error, ATTN_MALFORMED, "",
                         "The archive says that its directory has %llu bytes from byte %llu on, "
                         "but it ends at byte %zu. %s",
                         (unsigned long long)archive->bytes, (unsigned long long)archive->begin,
                         directory_end, SEND_BINARY);
    if (archive->count > ZIP_MAX_MEMBERS)
        return attn_fail_limit(archive->reader->error, ATTN_MALFORMED, "", ZIP_MAX_MEMBERS,
                               "The archive has %llu members; at most %d are read.",
                               (unsigned long long)archive->count, ZIP_MAX_MEMBERS);
    return ATTN_OK;
}

/* The zip64 extra field among `length` bytes of extra fields; NULL when there is none, or when they
 * are cut short. */
static const char *find_zip64(const char *extra, size_t length, size_t *bytes) {
    while (length >= ZIP_EXTRA_BYTES) {
        const size_t rest = zip_get16(extra + 2);
        if (rest > length - ZIP_EXTRA_BYTES)
            return NULL;
        if (zip_get16(extra) == ZIP_EXTRA_ZIP64) {
            *bytes = rest;
            return extra + ZIP_EXTRA_BYTES;
        }
        extra += ZIP_EXTRA_BYTES + rest;
        length -= ZIP_EXTRA_BYTES + rest;
    }
    return NULL;
}

/* Replaces those of `values` that stand elsewhere by the numbers of the zip64 extra field, which
 * holds them in this order and no others. */
static bool take_zip64(const char *extra, size_t length, uint64_t *const *values, size_t count) {
    size_t bytes = 0;
    const char *at = find_zip64(extra, length, &bytes);
    for (size_t i = 0; i < count; i++) {
        if (*values[i] != ZIP_ELSEWHERE_32)
            continue;
        if (at == NULL || bytes < sizeof(uint64_t))
            return false;
        *values[i] = zip_get64(at);
        at += sizeof(uint64_t);
        bytes -= sizeof(uint64_t);
    }
    return true;
}

/* The directory's entry at *at, which moves behind it. */
static enum attn_status read_entry(const struct archive *archive, size_t *at, struct entry *entry) {
    static const char broken[] = "The archive's directory is broken.";
    const char *const found = archive->body + *at;
    const size_t left = (size_t)(archive->begin + archive->bytes) - *at;
    if (left < ZIP_CENTRAL_BYTES || zip_get32(found) != ZIP_CENTRAL)
        return malformed(archive, "", broken);
    const size_t name = zip_get16(found + CENTRAL_NAME_LENGTH);
    const size_t extra = zip_get16(found + CENTRAL_EXTRA_LENGTH);
    const size_t whole =
        ZIP_CENTRAL_BYTES + name + extra + zip_get16(found + CENTRAL_COMMENT_LENGTH);
    if (whole > left)
        return malformed(archive, "", broken);
    *entry = (struct entry){
        .name = found + ZIP_CENTRAL_BYTES,
        .name_length = name,
        .flags = zip_get16(found + CENTRAL_FLAGS),
        .method = zip_get16(found + CENTRAL_METHOD),
        .crc = zip_get32(found + CENTRAL_CRC),
        .packed = zip_get32(found + CENTRAL_PACKED),
        .size = zip_get32(found + CENTRAL_SIZE),
        .offset = zip_get32(found + CENTRAL_OFFSET),
    };
    uint64_t *const values[] = {&entry->size, &entry->packed, &entry->offset};
    if (!take_zip64(entry->name + name, extra, values, 3))
        return malformed(archive, "", broken);
    *at += whole;
    return ATTN_OK;
}

static enum attn_status take_name(const struct archive *archive, const struct entry *entry,
                                  struct zip_member *member) {
    if (entry->name_length > ZIP_MAX_NAME)
        return attn_fail_limit(archive->reader->error, ATTN_MALFORMED, "", ZIP_MAX_NAME,
                               "A member's name has %zu bytes; at most %d are read.",
                               entry->name_length, ZIP_MAX_NAME);
    if (entry->name_length == 0 || memchr(entry->name, 0, entry->name_length) != NULL)
        return malformed(archive, "", "A member's name is empty or has a NUL character.");
    const size_t suffix = strlen(archive->suffix);
    size_t length = entry->name_length;
    if (length > suffix && memcmp(entry->name + length - suffix, archive->suffix, suffix) == 0)
        length -= suffix;
    member->name = storage_take_text(archive->reader->storage, entry->name, length);
    return member->name == NULL
               ? attn_fail(archive->reader->error, ATTN_NO_MEMORY, "", "There is no memory now.")
               : ATTN_OK;
}

static enum attn_status check_packing(const struct archive *archive, const struct entry *entry,
                                      const char *name) {
    if ((entry->flags & ZIP_FLAGS_ENCRYPTED) != 0)
        return malformed(archive, name, "The member is encrypted. Send it as it is.");
    if (entry->method != ZIP_STORED && entry->method != ZIP_DEFLATED)
        return attn_fail(archive->reader->error, ATTN_MALFORMED, name,
                         "The member is packed by method %u; stored (0) and deflated (8) are read, "
                         "as numpy.savez and savez_compressed write them.",
                         (unsigned)entry->method);
    if (entry->method == ZIP_STORED && entry->packed != entry->size)
        return malformed(archive, name, "The member is stored as it is, but its two sizes differ.");
    if (entry->size / ZIP_MOST_INFLATED > entry->packed)
        return malformed(archive, name,
                         "The member claims more bytes than its deflated data can hold.");
    return ATTN_OK;
}

/* Whether the local header says the same as the directory. */
static bool agrees(const struct entry *entry, const char *local, const char *extra,
                   size_t extra_length) {
    uint64_t packed = zip_get32(local + LOCAL_PACKED), size = zip_get32(local + LOCAL_SIZE);
    uint64_t *const values[] = {&size, &packed};
    const uint16_t flags = zip_get16(local + LOCAL_FLAGS);
    if (zip_get16(local + LOCAL_METHOD) != entry->method || flags != entry->flags)
        return false;
    if ((flags & ZIP_FLAG_BEHIND) != 0)
        return true;
    return take_zip64(extra, extra_length, values, 2) && packed == entry->packed &&
           size == entry->size && zip_get32(local + LOCAL_CRC) == entry->crc;
}

/* The member's local header and data, which lie before the directory. */
static enum attn_status find_data(const struct archive *archive, const struct entry *entry,
                                  struct zip_member *member) {
    static const char beyond[] = "The member reaches beyond the archive's data.";
    if (!fits(entry->offset, ZIP_LOCAL_BYTES, archive->begin))
        return malformed(archive, member->name, beyond);
    const char *const local = archive->body + entry->offset;
    if (zip_get32(local) != ZIP_LOCAL)
        return malformed(archive, member->name,
                         "The member's header is not where the directory says.");
    const size_t name = zip_get16(local + LOCAL_NAME_LENGTH);
    const size_t extra = zip_get16(local + LOCAL_EXTRA_LENGTH);
    const uint64_t data = entry->offset + ZIP_LOCAL_BYTES + name + extra;
    if (!fits(data, entry->packed, archive->begin))
        return malformed(archive, member->name, beyond);
    if (name != entry->name_length || memcmp(local + ZIP_LOCAL_BYTES, entry->name, name) != 0 ||
        !agrees(entry, local, local + ZIP_LOCAL_BYTES + name, extra))
        return malformed(archive, member->name,
                         "The member's header says otherwise than the archive's directory.");
    member->begin = (size_t)entry->offset;
    member->end = (size_t)(data + entry->packed);
    member->data = archive->body + data;
    return ATTN_OK;
}

static enum attn_status take_member(const struct archive *archive, const struct entry *entry,
                                    struct zip_member *member) {
    *member = (struct zip_member){
        .packed = (size_t)entry->packed,
        .size = (size_t)entry->size,
        .crc = entry->crc,
        .deflated = entry->method == ZIP_DEFLATED,
    };
    enum attn_status status = take_name(archive, entry, member);
    if (status == ATTN_OK)
        status = check_packing(archive, entry, member->name);
    if (status == ATTN_OK)
        status = find_data(archive, entry, member);
    return status;
}

static int by_name(const void *left, const void *right) {
    const struct zip_member *const a = left, *const b = right;
    return strcmp(a->name, b->name);
}

static int by_place(const void *left, const void *right) {
    const struct zip_member *const a = left, *const b = right;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

static enum attn_status check_members(const struct archive *archive, struct zip_file *file) {
    struct zip_member *const members = file->members;
    qsort(members, file->count, sizeof *members, by_name);
    for (size_t i = 1; i < file->count; i++)
        if (strcmp(members[i].name, members[i - 1].name) == 0)
            return malformed(archive, members[i].name, "The archive has this member twice.");
    qsort(members, file->count, sizeof *members, by_place);
    for (size_t i = 1; i < file->count; i++)
        if (members[i].begin < members[i - 1].end)
            return malformed(archive, members[i].name,
                             "The member overlaps the one before it in the archive.");
    return ATTN_OK;
}

enum attn_status zip_open(struct zip_file *file, const struct json_reader *reader, const char *body,
                          size_t length, const char *suffix) {
    struct archive archive = {.body = body, .length = length, .reader = reader, .suffix = suffix};
    enum attn_status status = find_directory(&archive);
    if (status != ATTN_OK)
        return status;
    *file = (struct zip_file){.members = storage_take_array(reader->storage, (size_t)archive.count,
                                                            sizeof *file->members)};
    if (file->members == NULL)
        return attn_fail(reader->error, ATTN_NO_MEMORY, "", "There is no memory now.");
    size_t at = (size_t)archive.begin;
    while (status == ATTN_OK && file->count < archive.count) {
        struct entry entry;
        status = read_entry(&archive, &at, &entry);
        if (status == ATTN_OK)
            status = take_member(&archive, &entry, &file->members[file->count++]);
    }
    if (status == ATTN_OK && at != archive.begin + archive.bytes)
        status = malformed(&archive, "", "The archive's directory has more than its members.");
    return status == ATTN_OK ? check_members(&archive, file) : status;
}
