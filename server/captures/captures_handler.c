/* SPDX-License-Identifier: Apache-2.0 */
/* The list of captures, one of them, and their end: what needs no arithmetic. */
#include <stdio.h>
#include <stdlib.h>

#include "server/captures/capture_query.h"
#include "server/captures/capture_text.h"
#include "server/handlers.h"
#include "server/header_list.h"

#define JSON_TYPE "application/json"

static enum attn_status take_since(void *into, const char *value, const char *pointer,
                                   struct attn_error *error) {
    return capture_query_number(value, pointer, UINT64_C(1) << 53, into, error);
}

static const struct capture_argument LIST_ARGUMENTS[] = {{"since", take_since}};

/* Another process and another key have another beginning, so that their numbers are not taken for
   these. */
static bool is_unchanged(struct exchange *exchange, const char *tag, uint64_t sequence) {
    snprintf(exchange->etag, sizeof exchange->etag, "\"%s%08llx\"", tag,
             (unsigned long long)sequence & 0xffffffff);
    exchange->answer.etag = exchange->etag;
    return header_list_has_tag(exchange->if_none_match, exchange->etag);
}

/* What comes in between is in the list, and is told of again. */
void captures_list_handle(struct exchange *exchange) {
    struct captures *captures = exchange->service->captures;
    struct text *out = &exchange->text;
    struct attn_error error = {0};
    uint64_t since = 0;
    if (capture_query_read(exchange, LIST_ARGUMENTS, 1, &since, &error) != ATTN_OK) {
        capture_refuse(exchange, &error);
        return;
    }
    const struct account *account = exchange_account(exchange);
    char tag[CAPTURES_TAG_SIZE];
    const uint64_t sequence = captures_sequence(captures, account, tag);
    if (is_unchanged(exchange, tag, sequence)) {
        exchange_answer(exchange, 304, NULL, NULL, 0);
        return;
    }
    size_t count;
    struct capture **list = captures_list(captures, account, since > sequence ? 0 : since, &count);
    out->failed = list == NULL && count > 0;
    text_format(out, "{\"captures\":[");
    for (size_t n = 0; list != NULL && n < count; n++) {
        if (n > 0)
            text_add(out, ",", 1);
        capture_text_write(out, list[n], false);
        capture_unref(list[n]);
    }
    free(list);
    text_format(out, "],\"sequence\":%llu,\"enabled\":%s}\n", (unsigned long long)sequence,
                captures_options(captures)->on ? "true" : "false");
    exchange_answer_text(exchange, JSON_TYPE);
}

static bool has_no_query(struct exchange *exchange) {
    struct attn_error error = {0};
    if (capture_query_read(exchange, NULL, 0, NULL, &error) == ATTN_OK)
        return true;
    capture_refuse(exchange, &error);
    return false;
}

/* NULL when the exchange was refused. */
static struct capture *alone_of_path(struct exchange *exchange) {
    return has_no_query(exchange) ? capture_of_path(exchange) : NULL;
}

void capture_show_handle(struct exchange *exchange) {
    struct capture *capture = alone_of_path(exchange);
    if (capture == NULL)
        return;
    capture_text_write(&exchange->text, capture, true);
    capture_unref(capture);
    text_add(&exchange->text, "\n", 1);
    exchange_answer_text(exchange, JSON_TYPE);
}

static void answer_changed(struct exchange *exchange) {
    exchange->has_changed = true;
    exchange_answer(exchange, 204, NULL, NULL, 0);
}

static void pin(struct exchange *exchange, bool pinned) {
    struct capture *capture = alone_of_path(exchange);
    if (capture == NULL)
        return;
    const bool done = captures_pin(capture, pinned);
    const size_t bytes = capture->bytes;
    capture_unref(capture);
    if (done)
        answer_changed(exchange);
    else
        exchange_fail(exchange, PROBLEM_CAPTURES_PINNED,
                      "A key may pin half of what others leave unpinned of capture_bytes, and with "
                      "the %zu bytes of this capture it would be more. Unpin or drop others.",
                      bytes);
}

void capture_pin_handle(struct exchange *exchange) {
    pin(exchange, true);
}

void capture_unpin_handle(struct exchange *exchange) {
    pin(exchange, false);
}

void capture_drop_handle(struct exchange *exchange) {
    struct capture *capture = alone_of_path(exchange);
    if (capture == NULL)
        return;
    captures_drop(capture);
    capture_unref(capture);
    answer_changed(exchange);
}

void captures_drop_handle(struct exchange *exchange) {
    if (!has_no_query(exchange))
        return;
    captures_drop_all(exchange->service->captures, exchange_account(exchange));
    answer_changed(exchange);
}
