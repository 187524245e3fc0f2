/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a safetensors header as a stranger's: nothing in it is believed before it is checked
 * against the body's length, and nothing is allocated on its word.
 */
#include "server/codecs/codec_safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "server/codecs/codec_request.h"
#include "server/send_binary.h"

enum { LENGTH_BYTES = 8 };

static enum attn_status malformed(const struct json_reader *reader, const char *name,
                                  const char *sentence) {
    return attn_fail(reader->error, ATTN_MALFORMED, name, "%s", sentence);
}

static enum attn_status read_header_length(const struct json_reader *reader, const void *body,
                                           size_t length, size_t *header) {
    uint64_t announced = 0;
    if (length < LENGTH_BYTES)
        return attn_fail(reader->error, ATTN_MALFORMED, "",
                         "A safetensors body has at least %d bytes, but %zu came. %s", LENGTH_BYTES,
                         length, SEND_BINARY);
    memcpy(&announced, body, sizeof announced);
    const size_t rest = length - LENGTH_BYTES;
    if (announced == 0 || announced > rest)
        return attn_fail(reader->error, ATTN_MALFORMED, "",
                         "The first eight bytes say that the safetensors header has a length of "
                         "%llu, but %zu byte%s follow%s them. %s",
                         (unsigned long long)announced, rest, attn_plural(rest),
                         rest == 1 ? "s" : "", SEND_BINARY);
    *header = (size_t)announced;
    return ATTN_OK;
}

/* A list of whole numbers in an entry; whatever is wrong with it, the file is malformed. */
static enum attn_status read_ints(const struct json_reader *reader, struct json_value entry,
                                  const char *name, const char *member, struct attn_int_list *out) {
    struct attn_error cause = {.status = ATTN_OK};
    const struct json_reader quiet = {reader->storage, &cause, reader->cancelled, reader->team};
    const struct json_value list = json_value_member(entry, member);
    if (list.node == NULL)
        return attn_fail(reader->error, ATTN_MALFORMED, name, "The entry lacks \"%s\".", member);
    const enum attn_status status = json_value_ints(&quiet, list, name, out);
    if (status == ATTN_OK)
        return ATTN_OK;
    if (status == ATTN_NO_MEMORY)
        return attn_fail(reader->error, status, name, "%s", cause.detail);
    return attn_fail(reader->error, ATTN_MALFORMED, name, "The entry's \"%s\": %.400s", member,
                     cause.detail);
}

static enum attn_status read_shape(const struct json_reader *reader, struct json_value value,
                                   struct safetensors_entry *entry) {
    struct attn_int_list axes;
    const enum attn_status status = read_ints(reader, value, entry->name, "shape", &axes);
    if (status != ATTN_OK)
        return status;
    if (axes.count > ATTN_MAX_RANK)
        return attn_fail_limit(reader->error, ATTN_BAD_SHAPE, entry->name, ATTN_MAX_RANK,
                               "The tensor has a rank of %zu; at most %d axes are understood.",
                               axes.count, ATTN_MAX_RANK);
    for (size_t i = 0; i < axes.count; i++) {
        if (axes.values[i] < 0)
            return malformed(reader, entry->name, "The entry's shape has a negative axis.");
        entry->shape[i] = (size_t)axes.values[i];
    }
    entry->rank = (int)axes.count;
    return ATTN_OK;
}

static enum attn_status read_dtype(const struct json_reader *reader, struct json_value value,
                                   struct safetensors_entry *entry) {
    char came[JSON_DESCRIPTION_ROOM];
    const struct json_value dtype = json_value_member(value, "dtype");
    const char *const name = json_string_value(dtype.node);
    if (dtype.node == NULL)
        return malformed(reader, entry->name, "The entry lacks \"dtype\".");
    if (name != NULL && attn_dtype_from_name(name, &entry->dtype) &&
        strcmp(attn_dtype_safetensors_name(entry->dtype), name) == 0)
        return ATTN_OK;
    return attn_fail(reader->error, ATTN_MALFORMED, entry->name,
                     "The entry's dtype should be F32, F64, F16, BF16, BOOL or an integer type "
                     "such as I32 or U8, but %s came.",
                     json_value_describe(dtype, came));
}

static enum attn_status read_offsets(const struct json_reader *reader, struct json_value value,
                                     size_t data_bytes, struct safetensors_entry *entry) {
    struct attn_int_list offsets;
    size_t bytes;
    char shape[96];
    const enum attn_status status = read_ints(reader, value, entry->name, "data_offsets", &offsets);
    if (status != ATTN_OK)
        return status;
    if (offsets.count != 2 || offsets.values[0] < 0 || offsets.values[1] < offsets.values[0])
        return malformed(reader, entry->name,
                         "The entry's data_offsets should be two rising byte offsets.");
    entry->begin = (size_t)offsets.values[0];
    entry->end = (size_t)offsets.values[1];
    if (entry->end > data_bytes)
        return attn_fail(reader->error, ATTN_MALFORMED, entry->name,
                         "The entry ends at byte %zu of the data, which has %zu. %s", entry->end,
                         data_bytes, SEND_BINARY);
    if (!attn_shape_bytes(entry->dtype, entry->rank, entry->shape, &bytes))
        return malformed(reader, entry->name, "The shape asks for more bytes than can be counted.");
    const size_t span = entry->end - entry->begin;
    if (bytes == span)
        return ATTN_OK;
    attn_shape_text(entry->rank, entry->shape, shape, sizeof shape);
    return attn_fail(reader->error, ATTN_MALFORMED, entry->name,
                     "The entry's data_offsets span %zu byte%s, but its shape %s of dtype %s needs "
                     "%zu.",
                     span, attn_plural(span), shape, attn_dtype_safetensors_name(entry->dtype),
                     bytes);
}

static enum attn_status read_entry(struct safetensors_file *file, const struct json_reader *reader,
                                   const char *name, struct json_value value) {
    struct safetensors_entry *const entry = &file->entries[file->count];
    *entry = (struct safetensors_entry){.name = name};
    if (json_value_kind(value) != JSON_KIND_OBJECT || json_object_size(value.node) != 3)
        return malformed(reader, name,
                         "An entry is an object of exactly dtype, shape and data_offsets.");
    enum attn_status status = read_dtype(reader, value, entry);
    if (status == ATTN_OK)
        status = read_shape(reader, value, entry);
    if (status == ATTN_OK)
        status = read_offsets(reader, value, file->data_bytes, entry);
    file->count += status == ATTN_OK;
    return status;
}

static enum attn_status take_metadata(struct safetensors_file *file,
                                      const struct json_reader *reader, struct json_value value) {
    if (json_value_kind(value) != JSON_KIND_OBJECT)
        return malformed(reader, "__metadata__", "The metadata should be an object of strings.");
    file->metadata = value;
    return ATTN_OK;
}

static enum attn_status read_entries(struct safetensors_file *file,
                                     const struct json_reader *reader) {
    const struct json_value root = json_document_root(&file->header);
    if (json_value_kind(root) != JSON_KIND_OBJECT)
        return malformed(reader, "", "The safetensors header should be a JSON object.");
    file->entries =
        storage_take_array(reader->storage, json_object_size(root.node) + 1, sizeof *file->entries);
    if (file->entries == NULL)
        return attn_fail(reader->error, ATTN_NO_MEMORY, "", "There is no memory now.");
    const char *name;
    json_t *node;
    enum attn_status status = ATTN_OK;
    json_object_foreach(root.node, name, node) {
        const struct json_value value = {&file->header, node};
        if (status != ATTN_OK)
            break;
        status = strcmp(name, "__metadata__") == 0 ? take_metadata(file, reader, value)
                                                   : read_entry(file, reader, name, value);
    }
    return status;
}

static int by_place(const void *left, const void *right) {
    const struct safetensors_entry *const a = left, *const b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

static enum attn_status check_places(struct safetensors_file *file,
                                     const struct json_reader *reader) {
    size_t end = 0;
    qsort(file->entries, file->count, sizeof *file->entries, by_place);
    for (size_t i = 0; i < file->count; i++) {
        const struct safetensors_entry *const entry = &file->entries[i];
        if (entry->begin != end)
            return attn_fail(reader->error, ATTN_MALFORMED, entry->name,
                             "The entry begins at byte %zu of the data, but the one before it ends "
                             "at %zu. Tensors lie one behind the other, without %s.",
                             entry->begin, end, entry->begin < end ? "overlap" : "holes");
        end = entry->end;
    }
    if (end != file->data_bytes)
        return attn_fail(reader->error, ATTN_MALFORMED, "",
                         "The body has %zu byte%s of data, but its last tensor ends at %zu. %s",
                         file->data_bytes, attn_plural(file->data_bytes), end, SEND_BINARY);
    return ATTN_OK;
}

enum attn_status safetensors_open(struct safetensors_file *file, const struct json_reader *reader,
                                  const struct codec_input *input) {
    size_t header = 0;
    *file = (struct safetensors_file){.input = input};
    enum attn_status status = read_header_length(reader, input->body, input->length, &header);
    if (status != ATTN_OK)
        return status;
    const char *const text = (const char *)input->body + LENGTH_BYTES;
    file->data = text + header;
    file->data_bytes = input->length - LENGTH_BYTES - header;
    status = codec_request_charge_json(input, reader, "", header);
    if (status == ATTN_OK)
        status = json_document_open(&file->header, "The safetensors header", text, header,
                                    reader->error);
    if (status != ATTN_OK)
        return status;
    status = read_entries(file, reader);
    if (status == ATTN_OK)
        status = check_places(file, reader);
    if (status != ATTN_OK)
        safetensors_close(file);
    return status;
}

void safetensors_close(struct safetensors_file *file) {
    json_document_close(&file->header);
}

enum attn_status safetensors_tensor(const void *opened, size_t entry,
                                    const struct json_reader *reader, struct attn_tensor *out) {
    const struct safetensors_file *const file = opened;
    const struct safetensors_entry *const found = &file->entries[entry];
    const void *data = file->data + found->begin;
    const size_t bytes = found->end - found->begin;
    if ((uintptr_t)data % attn_dtype_size(found->dtype) != 0) {
        void *copy;
        const enum attn_status status =
            codec_request_take(file->input, reader, found->name, bytes, &copy);
        if (status != ATTN_OK)
            return status;
        data = memcpy(copy, data, bytes);
    }
    *out = attn_tensor_view(data, found->dtype, found->rank, found->shape);
    return ATTN_OK;
}
