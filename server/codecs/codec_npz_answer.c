/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The npz answer: a stored member per tensor, whose data kernels have written into their places,
 * then the texts `stats` and `meta`, then the directory. Behind what is sent lie the statistics'
 * own numbers and their plain text. Refused: bfloat16, for which numpy has no name.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/checked.h"
#include "server/buffer_pool.h"
#include "server/codecs/codec_json.h"
#include "server/codecs/codec_npz.h"
#include "server/codecs/json_meta.h"
#include "server/codecs/npy_header.h"
#include "server/codecs/zip_write.h"

enum { MEMBERS_MAX = ATTN_RESULT_COUNT + 1 };

/* Where things lie in an answer's buffer. */
struct layout {
    struct zip_written members[MEMBERS_MAX]; /* those of the tensors */
    int results[MEMBERS_MAX];                /* which result each of them holds */
    size_t count;
    size_t texts;                    /* where the members with texts begin */
    size_t plain, plain_room, stats; /* statistics: their text and their numbers */
    size_t capacity;
};

/* Adds a member of `bytes` bytes behind its .npy header at *at, which moves behind it. */
static bool add_member(struct zip_written *member, const char *name, size_t bytes, size_t *at) {
    snprintf(member->name, sizeof member->name, "%s.npy", name);
    member->offset = *at;
    member->header = zip_local_bytes(*at, member->name);
    return attn_add_size(NPY_BYTES, bytes, &member->size) &&
           attn_add_size(*at, member->header, at) && attn_add_size(*at, member->size, at);
}

/* Room for a text of `characters`, each of which takes four bytes. */
static bool add_text_room(size_t characters, size_t *at) {
    struct zip_written member = {.offset = 0};
    size_t bytes;
    return attn_mul_size(characters, sizeof(uint32_t), &bytes) &&
           add_member(&member, "stats", bytes, at) && attn_add_size(*at, ZIP_ALIGNMENT, at);
}

static bool reckon(const struct attn_result *result, struct layout *layout) {
    size_t at = 0;
    *layout = (struct layout){.count = 0};
    for (int i = 0; i < ATTN_RESULT_COUNT; i++) {
        const struct attn_result_tensor *const tensor = &result->tensors[i];
        if (!tensor->wanted || i == ATTN_RESULT_STATS)
            continue;
        layout->results[layout->count] = i;
        if (!add_member(&layout->members[layout->count++],
                        attn_result_tensor_name((enum attn_result_name)i), tensor->bytes, &at))
            return false;
    }
    const struct attn_result_tensor *const stats = &result->tensors[ATTN_RESULT_STATS];
    layout->texts = at;
    if (!json_stats_room(result, &layout->plain_room) || !add_text_room(layout->plain_room, &at) ||
        !add_text_room(JSON_META_ROOM, &at) ||
        !attn_add_size(at, zip_directory_room(MEMBERS_MAX), &layout->plain) ||
        !attn_add_size(layout->plain, layout->plain_room, &at) ||
        !attn_round_up_size(at, sizeof(double), &layout->stats))
        return false;
    return attn_add_size(layout->stats, stats->wanted ? stats->bytes : 0, &layout->capacity);
}

bool npz_answer_bytes(const struct attn_call *call, const struct codec_request *request,
                      const struct attn_result *result, size_t *bytes) {
    struct layout layout;
    (void)call;
    (void)request;
    const bool fits = reckon(result, &layout);
    *bytes = layout.capacity;
    return fits;
}

enum attn_status npz_check_dtypes(const struct attn_result *result, struct attn_error *error) {
    for (int i = 0; i < ATTN_RESULT_COUNT; i++)
        if (result->tensors[i].wanted && result->tensors[i].dtype == ATTN_BFLOAT16)
            return attn_fail(error, ATTN_BAD_DTYPE, "/output_dtype",
                             "The %s would be bfloat16, for which numpy's files have no name. Take "
                             "it as application/vnd.safetensors, or give an output_dtype of "
                             "float32.",
                             attn_result_tensor_name((enum attn_result_name)i));
    return ATTN_OK;
}

enum attn_status npz_answer_lay_out(const struct attn_call *call,
                                    const struct codec_request *request, struct attn_result *result,
                                    struct codec_answer *answer, struct attn_error *error) {
    struct layout layout;
    (void)call;
    (void)request;
    *answer = (struct codec_answer){.media_type = CODEC_NPZ.media_type};
    if (npz_check_dtypes(result, error) != ATTN_OK)
        return error->status;
    if (!reckon(result, &layout))
        return attn_fail(error, ATTN_RESULT_TOO_LARGE, "",
                         "The answer would be larger than can be addressed.");
    answer->capacity = layout.capacity;
    answer->buffer = buffer_take(layout.capacity);
    if (answer->buffer == NULL) {
        codec_answer_close(answer);
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for this answer now.");
    }
    char *const start = answer->buffer;
    for (size_t i = 0; i < layout.count; i++) {
        const struct zip_written *const member = &layout.members[i];
        result->tensors[layout.results[i]].data =
            start + member->offset + member->header + NPY_BYTES;
    }
    if (result->tensors[ATTN_RESULT_STATS].wanted)
        result->tensors[ATTN_RESULT_STATS].data = start + layout.stats;
    return ATTN_OK;
}

/* Adds a member with this text, of ASCII as all that is written here, at *at. */
static void write_text(char *archive, struct layout *layout, const char *name,
                       const struct json_text *text, size_t *at) {
    struct zip_written *const member = &layout->members[layout->count++];
    const bool fits = add_member(member, name, text->length * sizeof(uint32_t), at);
    assert(fits);
    (void)fits;
    char *const header = archive + member->offset + member->header;
    npy_header_write_text(header, text->length);
    for (size_t i = 0; i < text->length; i++) {
        const uint32_t c = (unsigned char)text->start[i];
        assert(c < 0x80);
        memcpy(header + NPY_BYTES + i * sizeof c, &c, sizeof c);
    }
}

enum attn_status npz_answer_finish(const struct codec_report *report,
                                   const struct codec_request *request,
                                   const struct attn_result *result, struct codec_answer *answer,
                                   struct attn_error *error) {
    char *const archive = answer->buffer;
    struct layout layout;
    char room[JSON_META_ROOM];
    struct json_text meta = {.start = room, .capacity = sizeof room};
    (void)request;
    (void)error;
    const bool fits = reckon(result, &layout);
    assert(fits);
    (void)fits;
    for (size_t i = 0; i < layout.count; i++) {
        const struct zip_written *const member = &layout.members[i];
        const struct attn_result_tensor *const tensor = &result->tensors[layout.results[i]];
        npy_header_write(archive + member->offset + member->header, tensor->dtype, tensor->rank,
                         tensor->shape);
    }
    size_t at = layout.texts;
    if (result->tensors[ATTN_RESULT_STATS].wanted) {
        struct json_text stats = {.start = archive + layout.plain, .capacity = layout.plain_room};
        json_stats_write(&stats, result);
        write_text(archive, &layout, "stats", &stats, &at);
    }
    json_meta_write(&meta, report, result);
    write_text(archive, &layout, "meta", &meta, &at);
    answer->length = zip_write(archive, at, layout.members, layout.count);
    assert(answer->length <= layout.plain);
    return ATTN_OK;
}
