/* SPDX-License-Identifier: Apache-2.0 */
/* Which capture is asked about, and values of the query string; see capture_query.h. */
#include "server/captures/capture_query.h"

#include <stdio.h>
#include <string.h>

#include "server/buffer_pool.h"
#include "server/captures/captures.h"
#include "server/handlers.h"

static enum attn_status refuse_unknown(const char *name, const struct capture_argument *arguments,
                                       size_t count, struct attn_error *error) {
    char names[160] = "no options at all";
    size_t used = 0;
    for (size_t n = 0; n < count && used < sizeof names; n++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", n == 0 ? "" : ", ",
                                 arguments[n].name);
    return attn_fail(error, ATTN_UNKNOWN_FIELD, "", "There is no \"%.40s\" here; there are %s.",
                     name, names);
}

enum attn_status capture_query_read(const struct exchange *exchange,
                                    const struct capture_argument *arguments, size_t count,
                                    void *into, struct attn_error *error) {
    uint32_t seen = 0;
    for (size_t i = 0; i < exchange->query_count; i++) {
        const struct codec_query_option *given = &exchange->query[i];
        char pointer[48];
        size_t n = 0;
        while (n < count && strcmp(arguments[n].name, given->name) != 0)
            n++;
        if (n == count)
            return refuse_unknown(given->name, arguments, count, error);
        snprintf(pointer, sizeof pointer, "/%s", given->name);
        if (seen >> n & 1)
            return attn_fail(error, ATTN_OPTION_TWICE, pointer,
                             "%s is given more than once; give it once.", given->name);
        seen |= UINT32_C(1) << n;
        if (arguments[n].take(into, given->value, pointer, error) != ATTN_OK)
            return error->status;
    }
    return ATTN_OK;
}

/* Digits up to `end`; false when there are none, or too many. */
static bool read_digits(const char *text, size_t length, uint64_t *out) {
    uint64_t value = 0;
    if (length == 0 || length > 18 || strspn(text, "0123456789") < length)
        return false;
    for (size_t i = 0; i < length; i++)
        value = 10 * value + (uint64_t)(text[i] - '0');
    *out = value;
    return true;
}

enum attn_status capture_query_number(const char *value, const char *pointer, uint64_t most,
                                      uint64_t *out, struct attn_error *error) {
    uint64_t number;
    if (!read_digits(value, strlen(value), &number) || number > most)
        return attn_fail(error, ATTN_BAD_VALUE, pointer,
                         "%s is a whole number from 0 to %llu, got \"%.40s\".", pointer + 1,
                         (unsigned long long)most, value);
    *out = number;
    return ATTN_OK;
}

enum attn_status capture_query_range(const char *value, const char *pointer, int64_t range[2],
                                     struct attn_error *error) {
    const size_t first = strcspn(value, ":");
    uint64_t begin, end;
    if (value[first] != ':' || !read_digits(value, first, &begin) ||
        !read_digits(value + first + 1, strlen(value + first + 1), &end))
        return attn_fail(error, ATTN_BAD_VALUE, pointer,
                         "%s is first:end, two whole numbers such as 0:64, got \"%.40s\".",
                         pointer + 1, value);
    range[0] = (int64_t)begin;
    range[1] = (int64_t)end;
    return ATTN_OK;
}

enum attn_status capture_query_word(const char *value, const char *pointer,
                                    const char *const *words, size_t *index,
                                    struct attn_error *error) {
    char list[128] = "";
    size_t used = 0;
    for (size_t n = 0; words[n] != NULL; n++) {
        if (strcmp(words[n], value) == 0) {
            *index = n;
            return ATTN_OK;
        }
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", n == 0 ? "" : ", ",
                                     words[n]);
    }
    return attn_fail(error, ATTN_BAD_VALUE, pointer, "%s is one of %s; got \"%.40s\".", pointer + 1,
                     list, value);
}

void capture_refuse(struct exchange *exchange, const struct attn_error *error) {
    struct problem problem;
    problem_from_error(&problem, error);
    exchange_refuse(exchange, &problem);
}

enum attn_status capture_answer_take(struct call_work *work, struct text *text) {
    struct codec_answer *answer = &work->answer;
    answer->media_type = "application/json";
    answer->buffer = text->failed ? NULL : buffer_take(text->length);
    if (answer->buffer != NULL) {
        answer->capacity = answer->length = text->length;
        memcpy(answer->buffer, text->data, text->length);
    }
    text_close(text);
    return answer->buffer != NULL ? ATTN_OK
                                  : attn_fail(&work->error, ATTN_NO_MEMORY, "",
                                              "There is no memory for the answer now.");
}

struct capture *capture_of_path(struct exchange *exchange) {
    const struct route_capture id = route_captured(&exchange->captures, "id");
    struct capture *capture =
        captures_find(exchange->service->captures, exchange_account(exchange), id.text, id.length);
    if (capture == NULL)
        exchange_fail(exchange, PROBLEM_NOT_FOUND,
                      "There is no capture \"%.*s\": it was dropped, its time is over, or it made "
                      "room for newer ones. GET /v1/captures lists those there are.",
                      (int)(id.length < 64 ? id.length : 64), id.text);
    return capture;
}

void *capture_work_create(struct exchange *exchange, const struct call_kind *kind, size_t size,
                          struct capture **capture) {
    *capture = ops_check_ready(exchange) ? capture_of_path(exchange) : NULL;
    if (*capture == NULL)
        return NULL;
    void *const work = call_work_create(exchange, kind, size);
    if (work == NULL) {
        capture_unref(*capture);
        *capture = NULL;
    }
    return work;
}
