/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Framing guards. What two parsers in a row could read differently is refused before its body is
 * touched, since the second request it may hide must never be executed.
 */
#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/codecs/codec_oip.h"
#include "server/http/http_internal.h"

/* What stands once; of two, another parser might take the other. */
enum { LENGTH, KEY, TYPE, JSON_LENGTH, SINGLES };
static const char *const SINGLE[SINGLES] = {
    [LENGTH] = MHD_HTTP_HEADER_CONTENT_LENGTH,
    [KEY] = MHD_HTTP_HEADER_AUTHORIZATION,
    [TYPE] = MHD_HTTP_HEADER_CONTENT_TYPE,
    [JSON_LENGTH] = OIP_LENGTH_HEADER,
};

struct sight {
    unsigned single[SINGLES], codings, hosts, packings;
    const char *length, *coding, *expect;
    const char *bad_name; /* a header name that is no token or pretends to be another */
    bool has_cr;          /* within a value, where others may end the line */
};

/* RFC 9110, section 5.6.2. */
static bool is_token(const char *text) {
    static const char characters[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                     "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const size_t length = strlen(text);
    return length > 0 && strspn(text, characters) == length;
}

/* "Content-Length37": a folded line that was joined to the name. */
static bool pretends(const char *name, const char *framing) {
    const size_t length = strlen(framing);
    return strncasecmp(name, framing, length) == 0 && name[length] != '\0';
}

static void count_single(struct sight *sight, const char *name) {
    for (size_t i = 0; i < SINGLES; i++)
        sight->single[i] += strcasecmp(name, SINGLE[i]) == 0;
}

static enum MHD_Result see(void *context, enum MHD_ValueKind kind, const char *name,
                           const char *value) {
    struct sight *sight = context;
    (void)kind;
    value = value == NULL ? "" : value;
    sight->has_cr |= strchr(value, '\r') != NULL;
    count_single(sight, name);
    if (!is_token(name) || pretends(name, "content-length") ||
        pretends(name, "transfer-encoding")) {
        sight->bad_name = name;
    } else if (strcasecmp(name, SINGLE[LENGTH]) == 0) {
        sight->length = value;
    } else if (strcasecmp(name, "transfer-encoding") == 0) {
        sight->codings++;
        sight->coding = value;
    } else if (strcasecmp(name, "content-encoding") == 0) {
        sight->packings++;
    } else if (strcasecmp(name, "host") == 0) {
        sight->hosts++;
    } else if (strcasecmp(name, "expect") == 0) {
        sight->expect = value;
    }
    return MHD_YES;
}

static bool read_length(const char *text, uint64_t *length) {
    char *end;
    errno = 0;
    *length = strtoull(text, &end, 10);
    return text[0] != '\0' && strspn(text, "0123456789") == strlen(text) && errno == 0;
}

static bool framing(struct problem *problem, const char *detail) {
    problem_set(problem, PROBLEM_BAD_FRAMING, NULL, "%s", detail);
    return false;
}

/* The headers one by one. */
static bool guard_headers(const struct sight *sight, bool is_1_1, struct problem *problem) {
    if (sight->bad_name != NULL)
        return framing(problem, "A header name has characters that no token has, or is a folded "
                                "framing header. Send each header on one line, without space "
                                "before its colon.");
    if (sight->has_cr)
        return framing(problem, "A header has a carriage return within its value. End each line "
                                "with a carriage return and a line feed.");
    if (sight->hosts > 1 || (sight->hosts == 0 && is_1_1))
        return framing(problem, "HTTP/1.1 needs exactly one Host header.");
    for (size_t i = 0; i < SINGLES; i++) {
        if (sight->single[i] <= 1)
            continue;
        problem_set(problem, PROBLEM_BAD_FRAMING, NULL,
                    "There is more than one %s header; send one.", SINGLE[i]);
        return false;
    }
    if (sight->codings > 1 || (sight->codings == 1 && sight->single[LENGTH] == 1))
        return framing(problem, "Content-Length and Transfer-Encoding exclude each other, and each "
                                "may be given once; send one of them.");
    if (sight->codings == 1 && !is_1_1)
        return framing(problem, "HTTP/1.0 has no Transfer-Encoding; send a Content-Length.");
    if (sight->packings > 1) {
        problem_set(problem, PROBLEM_MEDIA_TYPE, NULL,
                    "There is more than one Content-Encoding header; send one, of one coding.");
        return false;
    }
    if (sight->codings == 1 && strcasecmp(sight->coding, "chunked") != 0) {
        problem_set(problem, PROBLEM_TRANSFER_CODING, NULL,
                    "The one Transfer-Encoding there is here is chunked.");
        return false;
    }
    return true;
}

/* What the framing means for this method. */
static bool guard_body(const struct sight *sight, struct exchange *exchange,
                       struct problem *problem) {
    const enum http_method method = exchange->method;
    const bool takes_body = method == HTTP_POST || method == HTTP_PUT || method == HTTP_PATCH;
    const bool has_none = method == HTTP_GET || method == HTTP_HEAD || method == HTTP_OPTIONS;
    if (sight->single[LENGTH] == 1 && !read_length(sight->length, &exchange->content_length))
        return framing(problem, "Content-Length is not a whole number of bytes.");
    exchange->has_length = sight->single[LENGTH] == 1;
    exchange->has_body = exchange->content_length > 0 || sight->codings == 1;
    exchange->stray_body = exchange->has_body && has_none;
    exchange->lacks_length = takes_body && !exchange->has_length && sight->codings == 0;
    return true;
}

/* A target in absolute form, as for a proxy, is taken for its path (RFC 9112, 3.2.2). One that
 * names another host than the header does would be read differently by others. */
static bool guard_target(struct exchange *exchange, struct problem *problem) {
    static const char *const SCHEMES[] = {"http://", "https://"};
    for (size_t i = 0; i < sizeof SCHEMES / sizeof *SCHEMES; i++) {
        const size_t scheme = strlen(SCHEMES[i]);
        if (strncasecmp(exchange->path, SCHEMES[i], scheme) != 0)
            continue;
        const char *const authority = exchange->path + scheme;
        const size_t length = strcspn(authority, "/");
        if (exchange->host == NULL || strlen(exchange->host) != length ||
            strncasecmp(exchange->host, authority, length) != 0)
            return framing(problem, "The target names another host than the Host header; send the "
                                    "path alone.");
        exchange->path = authority[length] == '/' ? authority + length : "/";
    }
    return true;
}

bool http_guard(const struct http_head *head, struct problem *problem) {
    struct sight sight = {0};
    MHD_get_connection_values(head->connection, MHD_HEADER_KIND, see, &sight);
    if (!http_guard_bytes(head, problem) ||
        !guard_headers(&sight, strcmp(head->version, MHD_HTTP_VERSION_1_1) == 0, problem) ||
        !guard_body(&sight, head->exchange, problem) || !guard_target(head->exchange, problem))
        return false;
    if (head->exchange->method == HTTP_OTHER) {
        problem_set(problem, PROBLEM_METHOD_UNKNOWN, NULL,
                    "The service knows the methods GET, HEAD, POST, PUT, DELETE and OPTIONS.");
        return false;
    }
    head->exchange->expects_continue =
        sight.expect != NULL && strcasecmp(sight.expect, "100-continue") == 0;
    if (sight.expect != NULL && !head->exchange->expects_continue) {
        problem_set(problem, PROBLEM_EXPECTATION, NULL,
                    "The one expectation that can be met is 100-continue.");
        return false;
    }
    return true;
}
