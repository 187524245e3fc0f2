/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors on the wire: RFC 9457 problem details, or the one member that clients of the Open
 * Inference Protocol read. The HTTP status of a call's error follows from its fault class and from
 * nothing else; the problem type is "/problems/" and the stable name.
 */
#ifndef SERVER_PROBLEM_H
#define SERVER_PROBLEM_H

#include "core/status.h"
#include "server/text.h"

/* Which of them; a column of the route table. */
enum problem_form {
    PROBLEM_DETAILS, /* {"type", "title", "status", "detail", "instance", ...} */
    PROBLEM_OIP,     /* {"error"}, with the place in front of the sentence */
    PROBLEM_FORMS
};

/* After the statuses of core, so that one number names either. */
enum problem_code {
    PROBLEM_BASE = ATTN_STATUS_COUNT - 1,
#define PROBLEM(code, name, status, sentence) PROBLEM_##code,
#include "server/problem.def"
#undef PROBLEM
    PROBLEM_COUNT
};

struct problem {
    int code;          /* an enum attn_status or an enum problem_code */
    char pointer[128]; /* "" when there is no one place */
    char detail[512];
    double limit; /* the one that was exceeded, in its own unit; 0: none was */
    bool has_length;
    size_t length;        /* tokens that a session has */
    const char *failures; /* the list of sessions that fail, in JSON; borrowed, or NULL */
};

/* HTTP status, stable name and sentence of a code of either kind. Static strings. */
int problem_status(int code);
const char *problem_name(int code);
const char *problem_sentence(int code);

void problem_set(struct problem *problem, int code, const char *pointer, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void problem_from_error(struct problem *problem, const struct attn_error *error);

/* "application/problem+json"; or "application/json", by which some clients know an error. */
const char *problem_content_type(enum problem_form form);
/* The document of out-of-memory, for when there is none to write one. A static string. */
const char *problem_no_memory(enum problem_form form);
/* The JSON document; `instance` is the request id. */
void problem_write(const struct problem *problem, enum problem_form form, const char *instance,
                   struct text *out);

#endif
