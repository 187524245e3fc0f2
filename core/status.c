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

enum attn_status attn_fail(struct attn_error *error, enum attn_status status, const char *pointer,
                           const char *format, ...) {
    if (error->status != ATTN_OK)
        return error->status;
    error->status = status;
    snprintf(error->pointer, sizeof error->pointer, "%s", pointer);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->detail, sizeof error->detail, format, arguments);
    va_end(arguments);
    return status;
}
