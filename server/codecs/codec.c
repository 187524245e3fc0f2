/* SPDX-License-Identifier: Apache-2.0 */
/* The codec table, and which row a request's and an answer's media type choose. */
#include "server/codecs/codec.h"

#include <string.h>
#include <strings.h>

#include "core/checked.h"
#include "server/buffer_pool.h"
#include "server/codecs/codec_json.h"
#include "server/codecs/codec_npz.h"
#include "server/codecs/codec_png.h"
#include "server/codecs/codec_request.h"
#include "server/codecs/codec_safetensors.h"
#include "server/header_list.h"
#include "server/storage.h"

enum { CODEC_COUNT = 5 };

static const struct codec *const CODECS[CODEC_COUNT] = {&CODEC_JSON, &CODEC_SAFETENSORS, &CODEC_NPZ,
                                                        &CODEC_NPY, &CODEC_PNG};

/* Types that say nothing about the bytes: what fetch and `curl -d` send unasked. */
static const char *const UNSPECIFIC[] = {"application/octet-stream", "text/plain",
                                         "application/x-www-form-urlencoded"};

const struct codec *codec_at(size_t index) {
    return index < CODEC_COUNT ? CODECS[index] : NULL;
}

const struct codec *codec_find(const char *name) {
    const struct codec *codec;
    for (size_t i = 0; (codec = codec_at(i)) != NULL; i++)
        if (strcmp(codec->name, name) == 0)
            return codec;
    return NULL;
}

enum attn_status codec_request_start(struct codec_request *request, struct attn_error *error) {
    *request =
        (struct codec_request){.storage = storage_create(),
                               .compare = {.rtol = CODEC_COMPARE_RTOL, .atol = CODEC_COMPARE_ATOL}};
    attn_request_init(&request->attention);
    attn_scaling_request_init(&request->scaling);
    request->outputs = request->lses = attn_tensor_none();
    if (request->storage == NULL)
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for the request now.");
    return ATTN_OK;
}

static enum attn_status charge(const struct codec_input *input, const struct json_reader *reader,
                               const char *name, size_t bytes) {
    const struct codec_budget *const budget = input->budget;
    const enum attn_status charged =
        budget == NULL ? ATTN_OK : budget->reserve(budget->closure, bytes, reader->error);
    if (charged == ATTN_CANCELLED)
        return json_reader_cancelled(reader);
    if (charged != ATTN_OK)
        snprintf(reader->error->pointer, sizeof reader->error->pointer, "%s", name);
    return charged;
}

enum attn_status codec_request_charge_json(const struct codec_input *input,
                                           const struct json_reader *reader, const char *name,
                                           size_t length) {
    const struct codec_budget *const budget = input->budget;
    size_t bytes;
    if (budget == NULL)
        return ATTN_OK;
    if (length > budget->most_json || !attn_mul_size(length, CODEC_JSON_WEIGHT, &bytes))
        return attn_fail_limit(reader->error, ATTN_BODY_TOO_LARGE, name, (double)budget->most_json,
                               "JSON may have %zu bytes; this text of it has %zu. Send long lists "
                               "as tensors beside it, or have the operator raise json_max_body.",
                               budget->most_json, length);
    return charge(input, reader, name, bytes);
}

enum attn_status codec_request_take(const struct codec_input *input,
                                    const struct json_reader *reader, const char *name,
                                    size_t bytes, void **out) {
    const enum attn_status charged = charge(input, reader, name, bytes);
    if (charged != ATTN_OK)
        return charged;
    *out = storage_take(reader->storage, bytes);
    if (*out == NULL)
        return attn_fail(reader->error, ATTN_NO_MEMORY, name,
                         "There is no memory for this tensor now.");
    return ATTN_OK;
}

void codec_request_close(struct codec_request *request) {
    storage_free(request->storage);
    request->storage = NULL;
}

enum attn_status codec_answer_take(struct codec_answer *answer, struct attn_result *result,
                                   struct attn_error *error) {
    answer->scratch = buffer_take(answer->scratch_bytes);
    answer->buffer = buffer_take(answer->capacity);
    if (answer->scratch == NULL || answer->buffer == NULL) {
        codec_answer_close(answer);
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for this answer now.");
    }
    char *at = answer->scratch;
    for (int i = 0; i < ATTN_RESULT_COUNT; i++) {
        struct attn_result_tensor *const tensor = &result->tensors[i];
        if (!tensor->wanted)
            continue;
        tensor->data = at;
        at += (tensor->bytes + CODEC_ALIGNMENT - 1) / CODEC_ALIGNMENT * CODEC_ALIGNMENT;
    }
    return ATTN_OK;
}

void codec_answer_close(struct codec_answer *answer) {
    buffer_give(answer->buffer, answer->capacity);
    buffer_give(answer->scratch, answer->scratch_bytes);
    *answer = (struct codec_answer){.media_type = NULL};
}

static bool is_unspecific(const struct header_item *type) {
    for (size_t i = 0; i < sizeof UNSPECIFIC / sizeof *UNSPECIFIC; i++)
        if (header_item_is(type, UNSPECIFIC[i]))
            return true;
    return false;
}

static bool begins_with(const void *body, size_t length, const char *magic, size_t size) {
    return length >= size && memcmp(body, magic, size) == 0;
}

/* By the first bytes. What is no known container is taken for JSON, whose decoder says best what is
 * wrong with it. */
static const struct codec *recognise(const void *body, size_t length) {
    uint64_t header;
    if (length > sizeof header) {
        memcpy(&header, body, sizeof header);
        if (header <= length - sizeof header && ((const char *)body)[sizeof header] == '{')
            return &CODEC_SAFETENSORS;
    }
    if (begins_with(body, length, "PK\3\4", 4))
        return &CODEC_NPZ;
    return begins_with(body, length, "\x93NUMPY", 6) ? &CODEC_NPY : &CODEC_JSON;
}

static bool begins_like_json(const char *body, size_t length) {
    size_t at = 0;
    while (at < length && strchr(" \t\r\n", body[at]) != NULL && body[at] != '\0')
        at++;
    return at < length && body[at] == '{';
}

const struct codec *codec_mistaken(const struct codec *taken, const void *body, size_t length) {
    const struct codec *const looks = recognise(body, length);
    const bool is_in_table = codec_find(taken->name) == taken;
    const bool is_sure = looks != &CODEC_JSON || begins_like_json(body, length);
    return is_in_table && is_sure && looks != taken && looks->decodes ? looks : NULL;
}

/* The codec that a type and the first bytes name, whether it reads requests or not. */
static const struct codec *codec_named(const char *content_type, const void *body, size_t length,
                                       bool *undecided) {
    struct header_item type;
    const bool has_type = header_list_next(&content_type, &type);
    const struct codec *codec;
    *undecided = false;
    for (size_t i = 0; has_type && (codec = codec_at(i)) != NULL; i++)
        if (header_item_is(&type, codec->media_type))
            return codec;
    if (has_type && !is_unspecific(&type))
        return NULL;
    *undecided = body == NULL;
    return body == NULL ? NULL : recognise(body, length);
}

const struct codec *codec_for_request(const char *content_type, const void *body, size_t length,
                                      bool *undecided) {
    const struct codec *const codec = codec_named(content_type, body, length, undecided);
    return codec != NULL && codec->decodes ? codec : NULL;
}

const char *codec_advice(const char *content_type, const void *body, size_t length) {
    bool undecided;
    const struct codec *const codec = codec_named(content_type, body, length, &undecided);
    static const char form[] = "multipart/";
    if (codec == NULL && content_type != NULL &&
        strncasecmp(content_type, form, sizeof form - 1) == 0)
        return "A form has parts, and this takes a file as it is: with curl, --data-binary @FILE "
               "and not -F.";
    return codec == NULL || codec->advice == NULL ? "" : codec->advice;
}

/* How closely a range of Accept fits a media type: 0 not at all, 3 exactly. */
static int closeness(const struct header_item *range, const char *media_type) {
    const size_t type = strcspn(media_type, "/") + 1;
    if (header_item_is(range, media_type))
        return 3;
    if (range->length == type + 1 && range->text[type] == '*' &&
        strncasecmp(range->text, media_type, type) == 0)
        return 2;
    return header_item_is(range, "*/*") ? 1 : 0;
}

/* What Accept gives a media type: the q-value of the closest range; 0 when none fits. */
static double acceptability(const char *accept, const char *media_type) {
    struct header_item range;
    int closest = 0;
    double best = 0;
    while (header_list_next(&accept, &range)) {
        const int close = closeness(&range, media_type);
        if (close > closest) {
            closest = close;
            best = range.quality;
        }
    }
    return best;
}

/* Whether Accept (NULL: none) leaves the choice open. */
static bool is_open(const char *accept) {
    struct header_item range;
    return !header_list_next(&accept, &range);
}

bool codec_is_acceptable(const char *accept, const struct codec *codec) {
    return is_open(accept) || acceptability(accept, codec->media_type) > 0;
}

const struct codec *codec_for_answer(const char *accept, const struct codec *request_codec,
                                     bool has_map) {
    if (is_open(accept))
        return request_codec;
    const struct codec *best = request_codec->encodes ? request_codec : NULL;
    double quality_of_best = best == NULL ? 0 : acceptability(accept, best->media_type);
    const struct codec *codec;
    for (size_t i = 0; (codec = codec_at(i)) != NULL; i++) {
        const bool can = codec->encodes && (has_map || !codec->draws);
        const double found = can ? acceptability(accept, codec->media_type) : 0;
        if (found > quality_of_best) {
            quality_of_best = found;
            best = codec;
        }
    }
    return quality_of_best > 0 ? best : NULL;
}
