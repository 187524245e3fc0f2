/* SPDX-License-Identifier: Apache-2.0 */
/* The codec table, and which row a request's and an answer's media type choose. */
#include "server/codecs/codec.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/buffer_pool.h"
#include "server/codecs/codec_json.h"
#include "server/codecs/codec_request.h"
#include "server/codecs/codec_safetensors.h"
#include "server/storage.h"

enum { CODEC_COUNT = 2 };

static const struct codec *const CODECS[CODEC_COUNT] = {&CODEC_JSON, &CODEC_SAFETENSORS};

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
    *request = (struct codec_request){.storage = storage_create()};
    attn_request_init(&request->attention);
    attn_scaling_request_init(&request->scaling);
    request->outputs = request->lses = attn_tensor_none();
    if (request->storage == NULL)
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for the request now.");
    return ATTN_OK;
}

void codec_request_close(struct codec_request *request) {
    storage_free(request->storage);
    request->storage = NULL;
}

void codec_answer_close(struct codec_answer *answer) {
    buffer_give(answer->buffer, answer->capacity);
    buffer_give(answer->scratch, answer->scratch_bytes);
    *answer = (struct codec_answer){.media_type = NULL};
}

/* A media range of a header: text[0 .. length) without parameters and blanks around it. */
struct range {
    const char *text;
    size_t length;
};

static struct range trim(const char *text, size_t length) {
    while (length > 0 && (*text == ' ' || *text == '\t')) {
        text++;
        length--;
    }
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        length--;
    return (struct range){text, length};
}

static bool is_type(struct range range, const char *type) {
    return strlen(type) == range.length && strncasecmp(range.text, type, range.length) == 0;
}

static bool is_unspecific(struct range range) {
    for (size_t i = 0; i < sizeof UNSPECIFIC / sizeof *UNSPECIFIC; i++)
        if (is_type(range, UNSPECIFIC[i]))
            return true;
    return range.length == 0;
}

static bool begins_with(const void *body, size_t length, const char *magic, size_t size) {
    return length >= size && memcmp(body, magic, size) == 0;
}

/* By the first bytes. What is neither a known container nor one to come is taken for JSON, whose
 * decoder says best what is wrong with it. */
static const struct codec *recognise(const void *body, size_t length) {
    uint64_t header;
    if (length > sizeof header) {
        memcpy(&header, body, sizeof header);
        if (header <= length - sizeof header && ((const char *)body)[sizeof header] == '{')
            return codec_find("safetensors");
    }
    if (begins_with(body, length, "PK\3\4", 4) || begins_with(body, length, "\x93NUMPY", 6))
        return NULL;
    return codec_find("json");
}

const struct codec *codec_for_request(const char *content_type, const void *body, size_t length,
                                      bool *undecided) {
    const char *const text = content_type == NULL ? "" : content_type;
    const struct range range = trim(text, strcspn(text, ";"));
    const struct codec *codec;
    *undecided = false;
    for (size_t i = 0; (codec = codec_at(i)) != NULL; i++)
        if (codec->decodes && is_type(range, codec->media_type))
            return codec;
    if (!is_unspecific(range))
        return NULL;
    *undecided = body == NULL;
    return body == NULL ? NULL : recognise(body, length);
}

/* How closely a range of Accept fits a media type: 0 not at all, 3 exactly. */
static int closeness(struct range range, const char *media_type) {
    const size_t type = strcspn(media_type, "/") + 1;
    if (is_type(range, media_type))
        return 3;
    if (range.length == type + 1 && range.text[type] == '*' &&
        strncasecmp(range.text, media_type, type) == 0)
        return 2;
    return is_type(range, "*/*") ? 1 : 0;
}

/* The q-value among a range's parameters, 0 to 1; 1 when there is none, 0 when it is no number. */
static double quality(const char *parameters, size_t length) {
    const char *const end = parameters + length;
    while (parameters < end) {
        const size_t size = strcspn(parameters, ";,");
        const struct range parameter = trim(parameters, size);
        if (parameter.length >= 2 && strncasecmp(parameter.text, "q=", 2) == 0) {
            char digits[8] = {0};
            memcpy(digits, parameter.text + 2,
                   parameter.length - 2 < 7 ? parameter.length - 2 : (size_t)7);
            const double value = isdigit((unsigned char)digits[0]) ? strtod(digits, NULL) : 0;
            return value > 1 ? 1 : value;
        }
        parameters += size + 1;
    }
    return 1;
}

/* What Accept gives a media type: the q-value of the closest range; 0 when none fits. */
static double acceptability(const char *accept, const char *media_type) {
    int closest = 0;
    double best = 0;
    while (*accept != 0) {
        const size_t length = strcspn(accept, ",");
        const size_t type = strcspn(accept, ";,");
        const int close = closeness(trim(accept, type), media_type);
        if (close > closest) {
            closest = close;
            best = type < length ? quality(accept + type + 1, length - type - 1) : 1;
        }
        accept += length + (accept[length] == ',');
    }
    return best;
}

bool codec_is_acceptable(const char *accept, const struct codec *codec) {
    return accept == NULL || trim(accept, strlen(accept)).length == 0 ||
           acceptability(accept, codec->media_type) > 0;
}

const struct codec *codec_for_answer(const char *accept, const struct codec *request_codec) {
    if (accept == NULL || trim(accept, strlen(accept)).length == 0)
        return request_codec;
    const struct codec *best = request_codec->encodes ? request_codec : NULL;
    double quality_of_best = best == NULL ? 0 : acceptability(accept, best->media_type);
    const struct codec *codec;
    for (size_t i = 0; (codec = codec_at(i)) != NULL; i++) {
        const double found = codec->encodes ? acceptability(accept, codec->media_type) : 0;
        if (found > quality_of_best) {
            quality_of_best = found;
            best = codec;
        }
    }
    return quality_of_best > 0 ? best : NULL;
}
