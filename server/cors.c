/* SPDX-License-Identifier: Apache-2.0 */
/* Origins; see cors.h. */
#include "server/cors.h"

#include <stdio.h>
#include <string.h>

/* Behind the scheme's "://", or NULL: only pages of http and https ask. */
static const char *behind_scheme(const char *origin) {
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strncmp(origin, schemes[i], strlen(schemes[i])) == 0)
            return origin + strlen(schemes[i]);
    return NULL;
}

/* Whether these bytes end the host of an origin: nothing, or a port. */
static bool is_port_or_end(const char *text, size_t length) {
    if (length == 0)
        return true;
    return text[0] == ':' && length >= 2 && length <= 6 &&
           strspn(text + 1, "0123456789") >= length - 1;
}

static bool is_loopback(const char *origin) {
    static const char *const hosts[] = {"localhost", "127.0.0.1", "[::1]"};
    const char *const rest = behind_scheme(origin);
    for (size_t i = 0; rest != NULL && i < sizeof hosts / sizeof *hosts; i++) {
        const size_t length = strlen(hosts[i]);
        if (strncmp(rest, hosts[i], length) == 0 &&
            is_port_or_end(rest + length, strlen(rest + length)))
            return true;
    }
    return false;
}

/* One entry of a list is an origin as browsers send it: lower case, and nothing behind the port. */
static bool is_origin(const char *text, size_t length) {
    static const char characters[] = "abcdefghijklmnopqrstuvwxyz0123456789.-_[]:";
    const char *const host = behind_scheme(text);
    if (host == NULL || length >= CORS_ORIGIN_SIZE || host >= text + length)
        return false;
    const size_t rest = length - (size_t)(host - text);
    const size_t name = host[0] == '[' ? strcspn(host, "],") + 1 : strcspn(host, ":,");
    return name > 1 && name <= rest && strspn(host, characters) >= rest &&
           is_port_or_end(host + name, rest - name);
}

static bool check_list(const char *text, char *error, size_t size) {
    for (const char *rest = text;; rest++) {
        const size_t length = strcspn(rest, ",");
        if (!is_origin(rest, length)) {
            snprintf(error, size,
                     "cors_origins: \"%.*s\" is no origin; give auto, none, * or a comma list such "
                     "as https://app.example,http://10.0.0.7:3000 without paths.",
                     (int)length, rest);
            return false;
        }
        rest += length;
        if (*rest == '\0')
            return true;
    }
}

bool cors_read(struct cors *cors, const char *text, bool on_loopback, char *error, size_t size) {
    *cors = (struct cors){.kind = CORS_NONE, .list = text};
    if (strcmp(text, "none") == 0)
        return true;
    if (strcmp(text, "auto") == 0) {
        cors->kind = on_loopback ? CORS_LOOPBACK : CORS_NONE;
        return true;
    }
    cors->kind = strcmp(text, "*") == 0 ? CORS_ANY : CORS_LIST;
    return cors->kind == CORS_ANY || check_list(text, error, size);
}

static bool is_listed(const char *list, const char *origin) {
    const size_t length = strlen(origin);
    for (const char *at = list;; at++) {
        const size_t one = strcspn(at, ",");
        if (one == length && memcmp(at, origin, length) == 0)
            return true;
        at += one;
        if (*at == '\0')
            return false;
    }
}

bool cors_allows(const struct cors *cors, const char *origin) {
    if (origin == NULL || origin[0] == '\0' || strlen(origin) >= CORS_ORIGIN_SIZE)
        return false;
    switch (cors->kind) {
    case CORS_LOOPBACK:
        return is_loopback(origin);
    case CORS_LIST:
        return is_listed(cors->list, origin);
    case CORS_ANY:
        return true;
    case CORS_NONE:
        break;
    }
    return false;
}
