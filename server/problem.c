/* SPDX-License-Identifier: Apache-2.0 */
/* Problem details; see problem.h. */
#include "server/problem.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct kind {
    int status;
    const char *name, *sentence;
};

static const struct kind kinds[] = {
#define PROBLEM(code, name, status, sentence) {status, name, sentence},
#include "server/problem.def"
#undef PROBLEM
};

static const int fault_status[] = {
    [ATTN_FAULT_NONE] = 200,     [ATTN_FAULT_MALFORMED] = 400, [ATTN_FAULT_INVALID] = 422,
    [ATTN_FAULT_CONFLICT] = 409, [ATTN_FAULT_TOO_LARGE] = 413, [ATTN_FAULT_QUOTA] = 429,
    [ATTN_FAULT_OVERLOAD] = 503, [ATTN_FAULT_CANCELLED] = 499, /* only in logs and metrics: nobody
                                                                  is there to read it */
    [ATTN_FAULT_DEADLINE] = 504,
};

/* NULL for a status of core. */
static const struct kind *own_kind(int code) {
    return code > PROBLEM_BASE ? &kinds[code - PROBLEM_BASE - 1] : NULL;
}

int problem_status(int code) {
    const struct kind *kind = own_kind(code);
    return kind != NULL ? kind->status : fault_status[attn_status_fault((enum attn_status)code)];
}

const char *problem_name(int code) {
    const struct kind *kind = own_kind(code);
    return kind != NULL ? kind->name : attn_status_name((enum attn_status)code);
}

const char *problem_sentence(int code) {
    const struct kind *kind = own_kind(code);
    return kind != NULL ? kind->sentence : attn_status_sentence((enum attn_status)code);
}

void problem_set(struct problem *problem, int code, const char *pointer, const char *format, ...) {
    problem->code = code;
    problem->limit = 0;
    problem->has_length = false;
    problem->failures = NULL;
    snprintf(problem->pointer, sizeof problem->pointer, "%s", pointer == NULL ? "" : pointer);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem->detail, sizeof problem->detail, format, arguments);
    va_end(arguments);
}

void problem_from_error(struct problem *problem, const struct attn_error *error) {
    problem->code = (int)error->status;
    problem->limit = error->limit;
    problem->has_length = error->has_length;
    problem->length = error->length;
    problem->failures = NULL;
    memcpy(problem->pointer, error->pointer, sizeof problem->pointer);
    memcpy(problem->detail, error->detail, sizeof problem->detail);
    if (problem->detail[0] == '\0')
        snprintf(problem->detail, sizeof problem->detail, "%s", problem_sentence(problem->code));
}

const char *problem_content_type(enum problem_form form) {
    return form == PROBLEM_OIP ? "application/json" : "application/problem+json";
}

const char *problem_no_memory(enum problem_form form) {
    return form == PROBLEM_OIP ? "{\"error\":\"The service has no memory for this call now.\"}\n"
                               : "{\"type\":\"/problems/out-of-memory\",\"status\":503}\n";
}

static void write_details(const struct problem *problem, const char *instance, struct text *out) {
    text_format(out, "{\"type\":\"/problems/%s\",\"title\":", problem_name(problem->code));
    text_json(out, problem_sentence(problem->code));
    text_format(out, ",\"status\":%d,\"detail\":", problem_status(problem->code));
    text_json(out, problem->detail);
    text_format(out, ",\"instance\":");
    text_json(out, instance);
    if (problem->pointer[0] != '\0') {
        text_format(out, ",\"pointer\":");
        text_json(out, problem->pointer);
    }
    if (problem->limit > 0)
        text_format(out, ",\"limit\":%.17g", problem->limit);
    if (problem->has_length)
        text_format(out, ",\"length\":%zu", problem->length);
    if (problem->failures != NULL) {
        text_format(out, ",\"sessions\":");
        text_add(out, problem->failures, strlen(problem->failures));
    }
    text_format(out, "}\n");
}

static bool is_of_name(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* Whether the sentence has the name as a word of its own. */
static bool mentions(const char *sentence, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = sentence; (at = strstr(at, name)) != NULL; at++)
        if ((at == sentence || !is_of_name(at[-1])) && !is_of_name(at[length]))
            return true;
    return false;
}

/* One sentence is all that there is: the place stands before it, unless the sentence names it. */
static void write_sentence(const struct problem *problem, struct text *out) {
    char sentence[sizeof problem->pointer + sizeof problem->detail + 2];
    const bool placed = problem->pointer[0] != '\0' && !mentions(problem->detail, problem->pointer);
    snprintf(sentence, sizeof sentence, "%s%s%s", placed ? problem->pointer : "",
             placed ? ": " : "", problem->detail);
    text_format(out, "{\"error\":");
    text_json(out, sentence);
    text_format(out, "}\n");
}

void problem_write(const struct problem *problem, enum problem_form form, const char *instance,
                   struct text *out) {
    if (form == PROBLEM_OIP)
        write_sentence(problem, out);
    else
        write_details(problem, instance, out);
}
