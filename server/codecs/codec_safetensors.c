/* SPDX-License-Identifier: Apache-2.0 */
/*
 * application/vnd.safetensors: the entries of the file are the tensors, and the options are one
 * JSON string in __metadata__["attention"].
 */
#include "server/codecs/codec_safetensors.h"

#include "server/codecs/codec_container.h"
#include "server/codecs/codec_request.h"

static const char *entry_name(const void *file, size_t entry) {
    return ((const struct safetensors_file *)file)->entries[entry].name;
}

static enum attn_status find_options(const struct safetensors_file *file,
                                     const struct json_reader *reader,
                                     struct codec_container *container) {
    if (file->metadata.node == NULL)
        return ATTN_OK;
    const struct json_value value = json_value_member(file->metadata, "attention");
    return value.node == NULL ? ATTN_OK
                              : json_value_text(reader, value, container->options_place,
                                                &container->options, &container->options_length);
}

static enum attn_status decode(const struct codec_input *input, struct codec_request *request,
                               struct attn_error *error) {
    struct safetensors_file file;
    const enum attn_status started = codec_request_start(request, error);
    if (started != ATTN_OK)
        return started;
    const struct json_reader reader = {request->storage, error, input->cancelled, input->team};
    enum attn_status status = safetensors_open(&file, &reader, input);
    if (status == ATTN_OK) {
        struct codec_container container = {
            .count = file.count,
            .name = entry_name,
            .tensor = safetensors_tensor,
            .file = &file,
            .options_title = "The attention text of __metadata__",
            .options_place = "__metadata__",
        };
        status = find_options(&file, &reader, &container);
        if (status == ATTN_OK)
            status = codec_container_read(&container, input, &reader, request);
        safetensors_close(&file);
    }
    if (status != ATTN_OK)
        codec_request_close(request);
    return status;
}

const struct codec CODEC_SAFETENSORS = {
    .name = "safetensors",
    .media_type = "application/vnd.safetensors",
    .decodes = true,
    .encodes = true,
    .decode = decode,
    .answer_bytes = safetensors_answer_bytes,
    .lay_out = safetensors_answer_lay_out,
    .finish = safetensors_answer_finish,
};
