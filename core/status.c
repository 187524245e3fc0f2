/* SPDX-License-Identifier: Apache-2.0 */
/* The status table and error recording. */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>

struct status_row {
    const char *name;
    const char *sentence;
    enum attn_fault fault;
};

static const struct status_row STATUS_ROWS[ATTN_STATUS_COUNT] = {
#define ATTN_STATUS(code, name, fault, sentence) \
    [ATTN_##code] = {name, sentence, ATTN_FAULT_##fault},
#include "core/status.def"
#undef ATTN_STATUS
};

const char *attn_status_name(enum attn_status status) {
    return STATUS_ROWS[status].name;
}

const char *attn_status_sentence(enum attn_status status) {
    return STATUS_ROWS[status].sentence;
}

enum attn_fault attn_status_fault(enum attn_status status) {
    return STATUS_ROWS[status].fault;
}

static enum attn_status fail(struct attn_error *error, enum attn_status status, const char *pointer,
                             double limit, const char *format, va_list arguments) {
    if (error->status != ATTN_OK)
        return error->status;
    error->status = status;
    error->limit = limit;
    snprintf(error->pointer, sizeof error->pointer, "%s", pointer);
    vsnprintf(error->detail, sizeof error->detail, format, arguments);
    return status;
}

enum attn_status attn_fail(struct attn_error *error, enum attn_status status, const char *pointer,
                           const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const enum attn_status first = fail(error, status, pointer, 0, format, arguments);
    va_end(arguments);
    return first;
}

enum attn_status attn_fail_limit(struct attn_error *error, enum attn_status status,
                                 const char *pointer, double limit, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const enum attn_status first = fail(error, status, pointer, limit, format, arguments);
    va_end(arguments);
    return first;
}
