/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a call ends, and the one way to report an error: a status, the place, and a sentence for
 * a person. The first error wins; functions that fail fill the error once and return its status.
 */
#ifndef ATTN_CORE_STATUS_H
#define ATTN_CORE_STATUS_H

#include <stdbool.h>
#include <stddef.h>

enum attn_status {
#define ATTN_STATUS(code, name, fault, sentence) ATTN_##code,
#include "core/status.def"
#undef ATTN_STATUS
    ATTN_STATUS_COUNT
};

/* Whose turn it is after a failure. */
enum attn_fault {
    ATTN_FAULT_NONE,
    ATTN_FAULT_MALFORMED, /* the caller's bytes cannot be read */
    ATTN_FAULT_INVALID,   /* the caller's request is well-formed but wrong */
    ATTN_FAULT_TOO_LARGE, /* the caller asks for more than is allowed */
    ATTN_FAULT_CONFLICT,  /* the caller's request does not fit what it refers to as that now is */
    ATTN_FAULT_QUOTA,     /* the caller has used up its share of the moment */
    ATTN_FAULT_OVERLOAD,  /* ours: no room at the moment */
    ATTN_FAULT_CANCELLED, /* the caller went away */
    ATTN_FAULT_DEADLINE   /* time ran out */
};

struct attn_error {
    enum attn_status status;
    char pointer[128]; /* where: a JSON pointer or tensor name, "" when there is no one place */
    char detail[512];  /* what was expected, what came, how to mend it */
    double limit;      /* the one that was exceeded, in its own unit; 0: none was */
    bool has_length;   /* for whoever believed in another: */
    size_t length;     /* tokens that a session has */
};

const char *attn_status_name(enum attn_status status);
const char *attn_status_sentence(enum attn_status status);
enum attn_fault attn_status_fault(enum attn_status status);

/*
 * Records an error and returns `status`. Keeps what is there when `error` already holds a
 * failure, so that the first error wins; then it returns that first status.
 */
enum attn_status attn_fail(struct attn_error *error, enum attn_status status, const char *pointer,
                           const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The same for what exceeds a limit, which the answer then names as a number. */
enum attn_status attn_fail_limit(struct attn_error *error, enum attn_status status,
                                 const char *pointer, double limit, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* What a noun takes behind a number: "1 byte", "2 bytes". */
static inline const char *attn_plural(size_t count) {
    return count == 1 ? "" : "s";
}

#endif
