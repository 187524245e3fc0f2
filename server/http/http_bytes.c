/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guard of what the library keeps to itself. libmicrohttpd 0.9.75 hands names and values over as
 * texts that end at a NUL, goes on where a line was folded, and takes a line without a name for the
 * end of the head, so that the headers behind it become a body. All of a head lies in one piece,
 * with zeros in the place of colons and line ends: a head with a byte in it that belongs to none of
 * the texts is refused. Version 1.0 keeps heads otherwise, and refuses these itself.
 *
 * What this cannot see is a NUL, or a lone colon, in front of a line end without a CR: it looks
 * like a whole one.
 */
#include <microhttpd.h>
#include <stdint.h>
#include <string.h>

#include "server/http/http_internal.h"

#if MHD_VERSION < 0x01000000

/* The line ends behind the last header, and that of the empty line. */
enum { LINE_END = 2, HEAD_END = 2 * LINE_END };

struct walk {
    const char *at, *end; /* what was not looked at yet */
    bool is_whole;
};

/* Huge where `to` lies before `from`, or elsewhere, or is NULL. */
static size_t distance(const char *from, const char *to) {
    return (uintptr_t)to - (uintptr_t)from;
}

/* From `at` to `to` there are as many zeros, and nothing else. */
static bool skips(const struct walk *walk, const char *to, size_t least, size_t most) {
    static const char zeros[HEAD_END] = {0};
    const size_t count = distance(walk->at, to);
    return count >= least && count <= most && memcmp(walk->at, zeros, count) == 0;
}

static enum MHD_Result step(void *context, enum MHD_ValueKind kind, const char *name,
                            const char *value) {
    struct walk *const walk = context;
    (void)kind;
    walk->is_whole = walk->is_whole && skips(walk, name, 1, LINE_END);
    if (!walk->is_whole)
        return MHD_NO;
    const char *const colon = name + strlen(name);
    const size_t blanks = distance(colon + 1, value);
    walk->is_whole = blanks < distance(colon, walk->end) && strspn(colon + 1, " \t") == blanks;
    if (walk->is_whole)
        walk->at = value + strlen(value);
    return walk->is_whole ? MHD_YES : MHD_NO;
}

bool http_guard_bytes(const struct http_head *head, struct problem *problem) {
    const union MHD_ConnectionInfo *const size =
        MHD_get_connection_info(head->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const char *const start = head->exchange->method_name;
    struct walk walk = {.at = head->version + strlen(head->version),
                        .end = size == NULL ? NULL : start + size->header_size,
                        .is_whole = head->target_end + 1 == head->version};
    MHD_get_connection_values(head->connection, MHD_HEADER_KIND, step, &walk);
    if (walk.is_whole && skips(&walk, walk.end, 2, HEAD_END))
        return true;
    problem_set(problem, PROBLEM_BAD_FRAMING, NULL,
                "The head has a NUL character, a header without a name, or one that goes on on a "
                "second line. Send each header on one line, as NAME: VALUE.");
    return false;
}

#else

bool http_guard_bytes(const struct http_head *head, struct problem *problem) {
    (void)head;
    (void)problem;
    return true;
}

#endif
