/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over a JSON text that copies everything but arrays of numbers and long strings. It
 * knows strings and brackets and nothing else of the grammar; the parser of the copy does.
 */
#include "server/json/json_skeleton.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "server/digits.h"
#include "server/numbers/numbers.h"

struct cutter {
    struct json_document *document;
    const char *text;
    size_t length;
    size_t at;
    char *out;
    size_t written, capacity;
    size_t cut_room;
    size_t parts;
    int depth;
    struct attn_error *error;
};

/* More of `what` than are read. */
static enum attn_status refuse_many(struct cutter *cutter, int limit, const char *what) {
    return attn_fail_limit(cutter->error, ATTN_MALFORMED, "", limit,
                           "%s has more than %d %s (at byte %zu).", cutter->document->name, limit,
                           what, cutter->at);
}

static enum attn_status refuse(struct cutter *cutter, const char *what) {
    return attn_fail(cutter->error, ATTN_MALFORMED, "", "%s %s (at byte %zu).",
                     cutter->document->name, what, cutter->at);
}

static enum attn_status copy(struct cutter *cutter, size_t count) {
    if (count > cutter->capacity - cutter->written)
        return attn_fail_limit(cutter->error, ATTN_MALFORMED, "", JSON_MAX_SKELETON,
                               "%s has more than %d bytes besides its numbers and long texts. "
                               "Send large tensors as arrays of numbers or base64.",
                               cutter->document->name, JSON_MAX_SKELETON);
    memcpy(cutter->out + cutter->written, cutter->text + cutter->at, count);
    cutter->written += count;
    cutter->at += count;
    return ATTN_OK;
}

static size_t skip_space(const struct cutter *cutter, size_t at) {
    while (at < cutter->length && memchr(" \t\r\n", cutter->text[at], 4) != NULL)
        at++;
    return at;
}

static bool starts_with(const struct cutter *cutter, size_t at, const char *word) {
    const size_t length = strlen(word);
    return length <= cutter->length - at && memcmp(cutter->text + at, word, length) == 0;
}

/* Whether the first element below any number of brackets is, or was meant as, a number. */
static bool holds_numbers(const struct cutter *cutter) {
    size_t at = cutter->at;
    int depth = cutter->depth;
    while (at < cutter->length && cutter->text[at] == '[' && depth++ <= JSON_MAX_DEPTH)
        at = skip_space(cutter, at + 1);
    if (at == cutter->length)
        return false;
    if (cutter->text[at] == '"')
        return starts_with(cutter, at, "\"NaN\"") || starts_with(cutter, at, "\"Infinity\"") ||
               starts_with(cutter, at, "\"-Infinity\"");
    return memchr("[]{},:", cutter->text[at], 6) == NULL;
}

static enum attn_status reserve_cut(struct cutter *cutter) {
    struct json_document *const document = cutter->document;
    if (document->cut_count == JSON_MAX_CUTS)
        return refuse_many(cutter, JSON_MAX_CUTS, "arrays of numbers and long texts");
    if (document->cut_count < cutter->cut_room)
        return ATTN_OK;
    const size_t room = cutter->cut_room == 0 ? 16 : cutter->cut_room * 2;
    struct json_cut *const cuts = realloc(document->cuts, room * sizeof *cuts);
    if (cuts == NULL)
        return attn_fail(cutter->error, ATTN_NO_MEMORY, "", "There is no memory for the request.");
    document->cuts = cuts;
    cutter->cut_room = room;
    return ATTN_OK;
}

/* Replaces text[at .. end) by the number of its cut. */
static enum attn_status cut(struct cutter *cutter, size_t end, size_t commas, bool is_text) {
    enum attn_status status = reserve_cut(cutter);
    if (status != ATTN_OK)
        return status;
    struct json_document *const document = cutter->document;
    char number[DIGITS_DECIMAL + 2] = "[";
    size_t size = 1 + digits_decimal(number + 1, document->cut_count);
    number[size++] = ']';
    struct json_cut *const new = &document->cuts[document->cut_count];
    *new = (struct json_cut){cutter->at, end - cutter->at, commas, is_text, 0};
    if (size > cutter->capacity - cutter->written)
        return copy(cutter, cutter->capacity + 1);
    memcpy(cutter->out + cutter->written, number, size);
    cutter->written += size;
    cutter->at = end;
    new->skeleton_end = cutter->written;
    document->cut_count++;
    return ATTN_OK;
}

/* The offset just past the string that starts at cutter->at; false when it does not end. */
static bool find_string_end(const struct cutter *cutter, size_t *end) {
    const char *at = cutter->text + cutter->at + 1;
    const char *const stop = cutter->text + cutter->length;
    for (;;) {
        const char *const quote = memchr(at, '"', (size_t)(stop - at));
        if (quote == NULL)
            return false;
        size_t escapes = 0;
        while (quote - escapes > at && *(quote - escapes - 1) == '\\')
            escapes++;
        at = quote + 1;
        if (escapes % 2 == 0) {
            *end = (size_t)(at - cutter->text);
            return true;
        }
    }
}

static enum attn_status take_string(struct cutter *cutter) {
    size_t end;
    if (!find_string_end(cutter, &end))
        return refuse(cutter, "has a text that does not end: the closing '\"' is missing");
    const size_t next = skip_space(cutter, end);
    const bool is_name = next < cutter->length && cutter->text[next] == ':';
    if (end - cutter->at < JSON_LONG_TEXT || is_name)
        return copy(cutter, end - cutter->at);
    return cut(cutter, end, 0, true);
}

/* Copies a byte that begins something which becomes a node. */
static enum attn_status copy_part(struct cutter *cutter) {
    if (cutter->parts++ == JSON_MAX_PARTS)
        return refuse_many(cutter, JSON_MAX_PARTS, "members and list elements besides its numbers");
    return copy(cutter, 1);
}

static enum attn_status open_level(struct cutter *cutter) {
    if (cutter->depth == JSON_MAX_DEPTH)
        return attn_fail_limit(cutter->error, ATTN_MALFORMED, "", JSON_MAX_DEPTH,
                               "%s is nested too deep: at most %d levels are read (at byte %zu).",
                               cutter->document->name, JSON_MAX_DEPTH, cutter->at);
    cutter->depth++;
    return copy_part(cutter);
}

static enum attn_status take_array(struct cutter *cutter) {
    size_t size, commas;
    if (!holds_numbers(cutter))
        return open_level(cutter);
    if (!number_array_skip(cutter->text + cutter->at, cutter->length - cutter->at, &size, &commas))
        return refuse(cutter, "has an array that does not end: a ']' is missing");
    return cut(cutter, cutter->at + size, commas, false);
}

/* Whether these digits are beyond the 64 bits, with a sign, of the parser's whole numbers. */
static bool is_too_long(const char *digits, size_t count, bool negative) {
    static const char *const most[] = {"9223372036854775807", "9223372036854775808"};
    const size_t length = strlen(most[negative]);
    return count > length || (count == length && memcmp(digits, most[negative], count) > 0);
}

/* Takes a number up to its point or exponent. One without them that is too long becomes a real by
   an exponent of 0. */
static enum attn_status take_whole(struct cutter *cutter) {
    const char *const digits = cutter->text + cutter->at;
    const size_t left = cutter->length - cutter->at;
    const bool negative = cutter->at > 0 && digits[-1] == '-';
    size_t count = 0;
    while (count < left && digits[count] >= '0' && digits[count] <= '9')
        count++;
    const bool ends = count == left || memchr(".eE", digits[count], 3) == NULL;
    enum attn_status status = copy(cutter, count);
    if (status != ATTN_OK || !ends || !is_too_long(digits, count, negative))
        return status;
    static const char exponent[] = {'e', '0'};
    if (sizeof exponent > cutter->capacity - cutter->written)
        return copy(cutter, cutter->capacity + 1);
    memcpy(cutter->out + cutter->written, exponent, sizeof exponent);
    cutter->written += sizeof exponent;
    return ATTN_OK;
}

/* Whether a number begins here, and not a part of one. */
static bool begins_number(const struct cutter *cutter) {
    const char *const text = cutter->text;
    const size_t at = cutter->at, sign = at > 0 && text[at - 1] == '-';
    return text[at] >= '0' && text[at] <= '9' &&
           (at <= sign || memchr(".eE+0123456789", text[at - 1 - sign], 14) == NULL);
}

static enum attn_status take(struct cutter *cutter) {
    if (cutter->document->wide && begins_number(cutter))
        return take_whole(cutter);
    switch (cutter->text[cutter->at]) {
    case '"':
        return take_string(cutter);
    case '[':
        return take_array(cutter);
    case '{':
        return open_level(cutter);
    case ',':
        return copy_part(cutter);
    case '}':
    case ']':
        cutter->depth--;
        return copy(cutter, 1);
    default:
        return copy(cutter, 1);
    }
}

enum attn_status json_skeleton_cut(struct json_document *document, char **skeleton, size_t *length,
                                   struct attn_error *error) {
    struct cutter cutter = {
        .document = document, .text = document->text, .length = document->length, .error = error};
    /* No replacement is more than twice as long as the shortest array it stands for. */
    cutter.capacity = attn_min_size(document->length, JSON_MAX_SKELETON / 2) * 2;
    cutter.out = malloc(cutter.capacity);
    *skeleton = NULL;
    if (cutter.out == NULL)
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for the request now.");
    enum attn_status status = ATTN_OK;
    while (status == ATTN_OK && cutter.at < cutter.length)
        status = take(&cutter);
    if (status != ATTN_OK) {
        free(cutter.out);
        cutter.out = NULL;
    }
    *skeleton = cutter.out;
    *length = cutter.written;
    return status;
}
