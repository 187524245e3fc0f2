/* SPDX-License-Identifier: Apache-2.0 */
/* The traceparent header, read and written; see trace_context.h. */
#include "server/tracing/trace_context.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "server/request_id.h"

static const char hex_digits[] = "0123456789abcdef";

/* The parts of the header, each followed by a dash but the last: of version 00 it is the end, and
   others may go on behind a dash. */
enum { VERSION = 2, TRACE = 32, PARENT = 16, FLAGS = 2, WHOLE = 55 };
enum {
    TRACE_AT = VERSION + 1,
    PARENT_AT = TRACE_AT + TRACE + 1,
    FLAGS_AT = PARENT_AT + PARENT + 1
};

static bool is_well_formed(const char *text) {
    static const struct {
        size_t at, length;
    } parts[] = {{0, VERSION}, {TRACE_AT, TRACE}, {PARENT_AT, PARENT}, {FLAGS_AT, FLAGS}};
    if (text == NULL || strnlen(text, WHOLE) < WHOLE)
        return false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const size_t end = parts[i].at + parts[i].length;
        if (strspn(text + parts[i].at, hex_digits) != parts[i].length ||
            (text[end] != '-' && end != WHOLE))
            return false;
    }
    return text[WHOLE] == '\0' || text[WHOLE] == '-';
}

static bool is_valid(const char *text) {
    return is_well_formed(text) && strncmp(text, "ff", VERSION) != 0 &&
           (text[WHOLE] == '\0' || strncmp(text, "00", VERSION) != 0) &&
           strspn(text + TRACE_AT, "0") != TRACE && strspn(text + PARENT_AT, "0") != PARENT;
}

/* The lowest bit of the last digit; the others mean nothing yet. */
static bool read_sampled(const char *text) {
    const char digit = text[WHOLE - 1];
    return (strchr(hex_digits, digit) - hex_digits) % 2 == 1;
}

static unsigned long long not_zero(uint64_t bits) {
    return bits == 0 ? 1 : bits;
}

void trace_context_begin(struct trace_context *context, const char *traceparent, bool is_wanted) {
    uint64_t bits[3];
    *context = (struct trace_context){.is_sampled = false};
    if (traceparent == NULL && !is_wanted)
        return;
    request_id_bits(bits, sizeof bits / sizeof *bits);
    snprintf(context->span_id, sizeof context->span_id, "%016llx", not_zero(bits[0]));
    if (!is_valid(traceparent)) {
        snprintf(context->trace_id, sizeof context->trace_id, "%016llx%016llx",
                 (unsigned long long)bits[1], not_zero(bits[2]));
        return;
    }
    memcpy(context->trace_id, traceparent + TRACE_AT, TRACE);
    memcpy(context->parent_id, traceparent + PARENT_AT, PARENT);
    context->is_sampled = read_sampled(traceparent);
}

const char *trace_context_write(const struct trace_context *context, char text[TRACE_PARENT_SIZE]) {
    text[0] = '\0';
    if (context->trace_id[0] != '\0')
        snprintf(text, TRACE_PARENT_SIZE, "00-%s-%s-0%d", context->trace_id, context->span_id,
                 context->is_sampled ? 1 : 0);
    return text;
}
