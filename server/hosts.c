/* SPDX-License-Identifier: Apache-2.0 */
/* Names in Host headers; see hosts.h. */
#include "server/hosts.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

#define BLANKS " \t"

enum { NAME_LONGEST = 253 };

/* A name inside a text. */
struct span {
    const char *at;
    size_t length;
};

static bool span_is(struct span span, const char *text) {
    return strlen(text) == span.length && strncasecmp(span.at, text, span.length) == 0;
}

static bool ends_with(struct span span, const char *end) {
    const size_t length = strlen(end);
    return span.length > length && strncasecmp(span.at + span.length - length, end, length) == 0;
}

static bool is_ipv4(struct span span) {
    char text[INET_ADDRSTRLEN];
    struct in_addr address;
    if (span.length >= sizeof text)
        return false;
    snprintf(text, sizeof text, "%.*s", (int)span.length, span.at);
    return inet_pton(AF_INET, text, &address) == 1;
}

static bool is_ipv6(struct span span) {
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (span.length < 2 || span.length - 2 >= sizeof text || span.at[0] != '[' ||
        span.at[span.length - 1] != ']')
        return false;
    snprintf(text, sizeof text, "%.*s", (int)span.length - 2, span.at + 1);
    return inet_pton(AF_INET6, text, &address) == 1;
}

/* The library leaves the blanks behind a header's value. */
static bool is_end(const char *text) {
    return text[strspn(text, BLANKS)] == '\0';
}

static bool is_port(const char *text) {
    const size_t digits = strspn(text, "0123456789");
    return digits <= 5 && is_end(text + digits);
}

/* The host without port and without the root's dot; length 0 where it is none. */
static struct span name_of(const char *host) {
    const size_t bracket = host[0] == '[' ? strcspn(host, "]") + 1 : 0;
    const size_t length =
        bracket > strlen(host) ? 0 : bracket + strcspn(host + bracket, ":" BLANKS);
    if (host[length] == ':' ? !is_port(host + length + 1) : !is_end(host + length))
        return (struct span){host, 0};
    const bool has_root = length > 1 && host[length - 1] == '.';
    return (struct span){host, length - has_root};
}

static bool is_name(struct span span) {
    return span.length > 0 && span.length <= NAME_LONGEST &&
           strspn(span.at, NAME_CHARACTERS) >= span.length;
}

/* The entry that begins at *list, which is moved behind it; false when there is none. */
static bool next_entry(const char **list, struct span *entry) {
    if (**list == '\0')
        return false;
    *entry = (struct span){*list, strcspn(*list, ",")};
    *list += entry->length;
    *list += **list == ',';
    return true;
}

static bool is_listed(const char *list, struct span name) {
    for (struct span entry; next_entry(&list, &entry);) {
        if (entry.length == name.length && strncasecmp(entry.at, name.at, name.length) == 0)
            return true;
        const size_t below = entry.length - 1; /* "*.name": what ends in ".name" */
        if (entry.at[0] == '*' && name.length > below &&
            strncasecmp(entry.at + 1, name.at + name.length - below, below) == 0)
            return true;
    }
    return false;
}

bool hosts_allow(const char *list, const char *host) {
    const struct span name = name_of(host == NULL ? "" : host);
    if (is_ipv4(name) || is_ipv6(name))
        return true;
    if (!is_name(name))
        return false;
    const bool is_one_label = memchr(name.at, '.', name.length) == NULL;
    return is_one_label || span_is(name, "localhost") || ends_with(name, ".localhost") ||
           ends_with(name, ".svc") || ends_with(name, ".svc.cluster.local") ||
           is_listed(list, name);
}

bool hosts_is_same(const char *origin, const char *host) {
    const char *const scheme_end = strstr(origin, "://");
    return scheme_end != NULL && host != NULL && strcasecmp(scheme_end + 3, host) == 0;
}

bool hosts_check(const char *list, char *error, size_t size) {
    const char *rest = list;
    for (struct span entry; next_entry(&rest, &entry);) {
        const size_t wild = entry.length > 2 && strncmp(entry.at, "*.", 2) == 0 ? 2 : 0;
        if (!is_name((struct span){entry.at + wild, entry.length - wild}) ||
            entry.at[wild] == '.') {
            snprintf(error, size,
                     "hosts: \"%.*s\" is no name; give a comma list such as "
                     "attention.example.com,*.internal.example, without ports.",
                     (int)entry.length, entry.at);
            return false;
        }
    }
    return true;
}
