/* SPDX-License-Identifier: Apache-2.0 */
/*
 * application/x-npz as numpy.savez and savez_compressed write it: members are the tensors, in C or
 * Fortran order and either order of bytes, and the member `options` is one text of JSON. A stored
 * array is used where it lies when it is aligned and little-endian; any other is unpacked or
 * copied, which is charged before it is done. Every member that is used is checked against its
 * checksum.
 */
#include "server/codecs/codec_npz.h"

#include <string.h>

#include "core/checked.h"
#include "server/codecs/codec_container.h"
#include "server/codecs/codec_request.h"
#include "server/codecs/npy_header.h"
#include "server/codecs/zip_stream.h"

static const char OPTIONS[] = "options";

struct npz_file {
    struct zip_file zip;
    const struct codec_input *input;
    size_t *unpacked; /* bytes until now */
};

static const char *member_name(const void *opened, size_t entry) {
    return ((const struct npz_file *)opened)->zip.members[entry].name;
}

/* An array's header and the bytes behind it; `stream` then stands at the first of them. */
static enum attn_status read_header(struct zip_stream *stream, struct npy_header *header,
                                    size_t *bytes) {
    const char *const name = stream->member->name;
    struct attn_error *const error = stream->reader->error;
    char prefix[NPY_PREFIX_BYTES], text[NPY_MAX_TEXT + NPY_PREFIX_BYTES];
    size_t length = 0, before = 0, elements = 0;
    enum attn_status status = zip_stream_read(stream, prefix, sizeof prefix);
    if (status == ATTN_OK)
        status = npy_prefix_read(prefix, name, error, &length, &before);
    if (status != ATTN_OK)
        return status;
    /* Version 1 has two bytes of its text in the prefix. */
    const size_t had = attn_min_size(sizeof prefix - before, length);
    memcpy(text, prefix + before, had);
    status = zip_stream_read(stream, text + had, length - had);
    if (status == ATTN_OK)
        status = npy_header_read(text, length, name, error, header);
    if (status != ATTN_OK)
        return status;
    if (!attn_shape_elements(header->rank, header->shape, &elements) ||
        !attn_mul_size(elements, header->item, bytes) || *bytes > PTRDIFF_MAX)
        return attn_fail(error, ATTN_MALFORMED, name,
                         "The shape asks for more bytes than can be counted.");
    const size_t left = stream->member->size - stream->at;
    if (left == *bytes)
        return ATTN_OK;
    return attn_fail(error, ATTN_MALFORMED, name,
                     "The array's shape and dtype need %zu byte%s, but the member has %zu.", *bytes,
                     attn_plural(*bytes), left);
}

/* Memory for an array that cannot stay where it is. */
static enum attn_status take_copy(const struct npz_file *file, const struct zip_stream *stream,
                                  size_t bytes, void **out) {
    const struct codec_budget *const budget = file->input->budget;
    const char *const name = stream->member->name;
    if (stream->member->deflated && budget != NULL) {
        if (bytes > budget->most - attn_min_size(*file->unpacked, budget->most))
            return attn_fail_limit(stream->reader->error, ATTN_BODY_TOO_LARGE, name,
                                   (double)budget->most,
                                   "The archive's arrays have more than %zu bytes unpacked, which "
                                   "is the most that a body may have. Send less per call, or have "
                                   "the operator raise max_body.",
                                   budget->most);
        *file->unpacked += bytes;
    }
    return codec_request_take(file->input, stream->reader, name, bytes, out);
}

static void swap(char *bytes, size_t count, size_t item) {
    for (char *at = bytes; at < bytes + count; at += item)
        for (size_t i = 0; i < item / 2; i++) {
            const char byte = at[i];
            at[i] = at[item - 1 - i];
            at[item - 1 - i] = byte;
        }
}

static enum attn_status read_copy(const struct npz_file *file, struct zip_stream *stream,
                                  size_t bytes, void **out) {
    const enum attn_status status = take_copy(file, stream, bytes, out);
    return status == ATTN_OK ? zip_stream_read(stream, *out, bytes) : status;
}

static bool stays(const struct zip_stream *stream, const struct npy_header *header) {
    const char *const place = zip_stream_place(stream);
    return place != NULL && (uintptr_t)place % header->item == 0 && !header->big_endian;
}

static enum attn_status read_array(const struct npz_file *file, struct zip_stream *stream,
                                   struct attn_tensor *out) {
    struct npy_header header;
    size_t bytes = 0;
    enum attn_status status = read_header(stream, &header, &bytes);
    if (status != ATTN_OK)
        return status;
    if (header.kind != NPY_NUMBERS)
        return attn_fail(
            stream->reader->error, ATTN_BAD_DTYPE, stream->member->name,
            "The array holds text, but a tensor holds numbers. Only \"options\" is a text.");
    const char *place = NULL;
    void *copy = NULL;
    if (stays(stream, &header)) {
        status = zip_stream_view(stream, &place, bytes);
    } else {
        status = read_copy(file, stream, bytes, &copy);
        if (status == ATTN_OK && header.big_endian)
            swap(copy, bytes, header.item);
        place = copy;
    }
    if (status == ATTN_OK)
        status = zip_stream_end(stream);
    if (status != ATTN_OK)
        return status;
    *out = npy_header_view(&header, place);
    return ATTN_OK;
}

static enum attn_status read_tensor(const void *opened, size_t entry,
                                    const struct json_reader *reader, struct attn_tensor *out) {
    const struct npz_file *const file = opened;
    struct zip_stream stream;
    if (zip_stream_open(&stream, &file->zip.members[entry], reader) != ATTN_OK)
        return ATTN_NO_MEMORY;
    const enum attn_status status = read_array(file, &stream, out);
    zip_stream_close(&stream);
    return status;
}

/* Writes a character as UTF-8; the bytes it took, 0 for what is no character. */
static size_t put_utf8(uint32_t c, char *out) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    const size_t count = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = count; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(0xf00 >> count | c);
    return count;
}

/* Four bytes per character become UTF-8 where they lie; false when one is no character. */
static bool narrow(char *text, size_t *length) {
    size_t written = 0;
    for (size_t at = 0; at < *length; at += sizeof(uint32_t)) {
        uint32_t c;
        memcpy(&c, text + at, sizeof c);
        const size_t count = put_utf8(c, text + written);
        if (count == 0)
            return false;
        written += count;
    }
    *length = written;
    return true;
}

/* A dict for the options comes as a pickle: what it is says less than what it should be. */
static enum attn_status refuse_options(struct attn_error *error, const char *name) {
    *error = (struct attn_error){0};
    return attn_fail(error, ATTN_BAD_TYPE, name,
                     "The options are one text of JSON: write options=json.dumps({...}) in "
                     "numpy.savez. A dict would be saved as a pickle, which is never read.");
}

/* The text of a member that is one: without the NUL characters that numpy pads it with. */
static enum attn_status read_text(const struct npz_file *file, struct zip_stream *stream,
                                  const char **text, size_t *length) {
    struct attn_error *const error = stream->reader->error;
    const char *const name = stream->member->name;
    struct npy_header header;
    void *copy = NULL;
    enum attn_status status = read_header(stream, &header, length);
    if (status == ATTN_BAD_DTYPE)
        return refuse_options(error, name);
    if (status != ATTN_OK)
        return status;
    if (header.kind == NPY_NUMBERS || *length != header.item)
        return refuse_options(error, name);
    status = read_copy(file, stream, *length, &copy);
    if (status == ATTN_OK)
        status = zip_stream_end(stream);
    if (status != ATTN_OK)
        return status;
    if (header.kind == NPY_UNICODE && header.big_endian)
        swap(copy, *length, sizeof(uint32_t));
    if (header.kind == NPY_UNICODE && !narrow(copy, length))
        return attn_fail(error, ATTN_MALFORMED, name,
                         "The text has a number that is no character of Unicode.");
    while (*length > 0 && ((const char *)copy)[*length - 1] == 0)
        --*length;
    *text = copy;
    return ATTN_OK;
}

/* Reads the member with the options, if there is one, and takes it out of the others. */
static enum attn_status take_options(struct npz_file *file, const struct json_reader *reader,
                                     struct codec_container *container) {
    struct zip_file *const zip = &file->zip;
    size_t at = 0;
    while (at < zip->count && strcmp(zip->members[at].name, OPTIONS) != 0)
        at++;
    if (at == zip->count)
        return ATTN_OK;
    struct zip_stream stream;
    if (zip_stream_open(&stream, &zip->members[at], reader) != ATTN_OK)
        return ATTN_NO_MEMORY;
    const enum attn_status status =
        read_text(file, &stream, &container->options, &container->options_length);
    zip_stream_close(&stream);
    zip->count--;
    memmove(&zip->members[at], &zip->members[at + 1], (zip->count - at) * sizeof *zip->members);
    return status;
}

static enum attn_status read_archive(const struct codec_input *input,
                                     const struct json_reader *reader,
                                     struct codec_request *request) {
    size_t unpacked = 0;
    struct npz_file file = {.input = input, .unpacked = &unpacked};
    struct codec_container container = {
        .name = member_name,
        .tensor = read_tensor,
        .file = &file,
        .options_title = "The text of \"options\"",
        .options_place = OPTIONS,
    };
    enum attn_status status = zip_open(&file.zip, reader, input->body, input->length, ".npy");
    if (status == ATTN_OK)
        status = take_options(&file, reader, &container);
    container.count = file.zip.count;
    return status == ATTN_OK ? codec_container_read(&container, input, reader, request) : status;
}

static enum attn_status decode(const struct codec_input *input, struct codec_request *request,
                               struct attn_error *error) {
    const enum attn_status started = codec_request_start(request, error);
    if (started != ATTN_OK)
        return started;
    const struct json_reader reader = {request->storage, error, input->cancelled, input->team};
    const enum attn_status status = read_archive(input, &reader, request);
    if (status != ATTN_OK)
        codec_request_close(request);
    return status;
}

const struct codec CODEC_NPZ = {
    .name = "npz",
    .media_type = "application/x-npz",
    .decodes = true,
    .encodes = true,
    .decode = decode,
    .answer_bytes = npz_answer_bytes,
    .lay_out = npz_answer_lay_out,
    .finish = npz_answer_finish,
};
