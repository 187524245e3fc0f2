/* SPDX-License-Identifier: Apache-2.0 */
/* The table of codings, what headers say of them, and packing; see coding.h. */
#include "server/codings/coding.h"

#include <stdio.h>
#include <string.h>

#include "core/checked.h"
#include "server/codings/coding_rows.h"
#include "server/header_list.h"

enum { CODING_COUNT = 3 };

/* Bytes packed between two looks at the checkpoint: a few milliseconds. */
#define PIECE ((size_t)256 << 10)

static const struct coding *const CODINGS[CODING_COUNT] = {&CODING_GZIP, &CODING_DEFLATE,
                                                           &CODING_ZSTD};

const struct coding *coding_at(size_t index) {
    return index < CODING_COUNT ? CODINGS[index] : NULL;
}

size_t coding_index(const struct coding *coding) {
    size_t index = 0;
    while (CODINGS[index] != coding)
        index++;
    return index;
}

static bool is_named(const struct coding *coding, const struct header_item *item) {
    return header_item_is(item, coding->name) ||
           (coding->alias != NULL && header_item_is(item, coding->alias));
}

static const struct coding *find(const struct header_item *item) {
    for (size_t i = 0; i < CODING_COUNT; i++)
        if (is_named(CODINGS[i], item))
            return CODINGS[i];
    return NULL;
}

const struct coding *coding_find(const char *name, size_t length) {
    return find(&(struct header_item){.text = name, .length = length});
}

const struct coding *coding_recognise(const unsigned char *body, size_t length) {
    for (size_t i = 0; i < CODING_COUNT; i++)
        if (CODINGS[i]->begins != NULL && CODINGS[i]->begins(body, length))
            return CODINGS[i];
    return NULL;
}

enum coding_request coding_of_request(const char *content_encoding, const struct coding **coding) {
    size_t count = 0, codings = 0;
    struct header_item item;
    *coding = NULL;
    if (content_encoding != NULL && strchr(content_encoding, ';') != NULL)
        return CODING_UNKNOWN; /* it has no parameters (RFC 9110 section 8.4) */
    while (header_list_next(&content_encoding, &item)) {
        count++;
        if (header_item_is(&item, "identity"))
            continue;
        codings++;
        *coding = find(&item);
    }
    if (codings == 0)
        return CODING_PLAIN;
    if (count > 1)
        return CODING_SEVERAL;
    return *coding == NULL ? CODING_UNKNOWN : CODING_KNOWN;
}

bool coding_is_accepted(const char *accept_encoding, const struct coding *coding) {
    struct header_item item;
    bool is_star_good = false;
    while (header_list_next(&accept_encoding, &item)) {
        if (is_named(coding, &item))
            return item.quality > 0;
        if (header_item_is(&item, "*"))
            is_star_good = item.quality > 0;
    }
    return is_star_good;
}

const struct coding *coding_asked_alone(const char *accept_encoding) {
    struct header_item first, second;
    if (!header_list_next(&accept_encoding, &first) || first.quality <= 0 ||
        header_list_next(&accept_encoding, &second))
        return NULL;
    return find(&first);
}

const char *coding_names(bool for_oip, char *text, size_t size) {
    const char *names[CODING_COUNT] = {NULL};
    size_t count = 0, used = 0;
    for (size_t i = 0; i < CODING_COUNT; i++)
        if (!for_oip || CODINGS[i]->for_oip)
            names[count++] = CODINGS[i]->name;
    text[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s",
                                 i == 0           ? ""
                                 : i == count - 1 ? " or "
                                                  : ", ",
                                 names[i]);
    return text;
}

size_t coding_pack(const struct coding *coding, const void *data, size_t length, void *out,
                   size_t room, const struct attn_checkpoint *checkpoint) {
    void *const encoder = coding->encoder_open(length);
    struct coding_span span = {.in = data, .out = out, .out_left = room};
    enum coding_progress progress = CODING_GOES_ON;
    size_t left = length;
    while (encoder != NULL && progress == CODING_GOES_ON && !attn_checkpoint_stops(checkpoint)) {
        span.in_left = attn_min_size(left, PIECE);
        left -= span.in_left;
        progress = coding->encode(encoder, &span, left == 0);
        left += span.in_left;
        if (progress == CODING_GOES_ON && span.out_left == 0)
            break;
    }
    coding->encoder_close(encoder);
    return progress == CODING_ENDED ? room - span.out_left : 0;
}
