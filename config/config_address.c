/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The type ADDRESSES: a comma list of host:port, where host is an IPv4 address, an IPv6 address in
 * brackets or a host name, and of unix:/path. It refuses what getaddrinfo() would take in a
 * surprising way: a missing host, a missing port, and four numbers that are no IPv4 address; and a
 * path that is relative, for that depends on where the daemon was started.
 */
#include "config/internal.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <string.h>
#include <sys/un.h>

#define PATH_PREFIX "unix:"

static bool parse_port(const char *text, uint16_t *out, struct config_phrase *phrase) {
    unsigned long port = 0;
    const size_t length = strlen(text);
    if (length == 0)
        return config_complain(phrase, "has no port");
    for (size_t i = 0; i < length && port <= UINT16_MAX; i++) {
        if (!isdigit((unsigned char)text[i]))
            return config_complain(phrase, "has a port that is not a number");
        port = port * 10 + (unsigned long)(text[i] - '0');
    }
    if (port > UINT16_MAX)
        return config_complain(phrase, "has a port above 65535");
    *out = (uint16_t)port;
    return true;
}

static bool check_ipv6(const char *host, struct config_phrase *phrase) {
    struct in6_addr address;
    if (inet_pton(AF_INET6, host, &address) != 1)
        return config_complain(phrase, "has no IPv6 address in its brackets");
    return true;
}

static bool check_name_or_ipv4(const char *host, struct config_phrase *phrase) {
    struct in_addr address;
    if (host[0] == '\0')
        return config_complain(phrase,
                               "has no host: 0.0.0.0 is every IPv4 address, [::] every IPv6 one");
    if (strchr(host, ':') != NULL)
        return config_complain(phrase, "has more than one colon: an IPv6 address stands in "
                                       "brackets, as in [::1]:8080");
    if (host[strspn(host, "0123456789.")] == '\0' && inet_pton(AF_INET, host, &address) != 1)
        return config_complain(phrase, "has a host that is not an IPv4 address");
    for (const char *c = host; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && *c != '.' && *c != '-' && *c != '_')
            return config_complain(phrase, "has \"%c\" in its host, which no host name has",
                                   isprint((unsigned char)*c) ? *c : '?');
    return true;
}

static bool parse_path(const char *path, struct config_address *parsed,
                       struct config_phrase *phrase) {
    const size_t longest = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;
    const size_t length = strlen(path);
    if (path[0] != '/')
        return config_complain(phrase, "has a path that does not begin with /");
    if (length > longest)
        return config_complain(phrase, "has a path of %zu bytes, and a socket's has at most %zu",
                               length, longest);
    memcpy(parsed->host, path, length + 1);
    parsed->is_path = true;
    return true;
}

static bool parse_address(const char *text, struct config_address *out,
                          struct config_phrase *phrase) {
    struct config_address parsed = {0};
    if (text[0] == '\0')
        return config_complain(phrase, "is empty");
    if (strncmp(text, PATH_PREFIX, sizeof PATH_PREFIX - 1) == 0) {
        if (!parse_path(text + sizeof PATH_PREFIX - 1, &parsed, phrase))
            return false;
        *out = parsed;
        return true;
    }
    const char *colon = strrchr(text, ':');
    const char *bracket = strrchr(text, ']');
    if (colon == NULL || (bracket != NULL && colon < bracket))
        return config_complain(phrase, "has no port");
    const bool ipv6 = text[0] == '[' && bracket != NULL && bracket + 1 == colon;
    const char *start = ipv6 ? text + 1 : text;
    const size_t length = (size_t)((ipv6 ? bracket : colon) - start);
    if (length >= sizeof parsed.host)
        return config_complain(phrase, "has a host longer than %zu characters",
                               sizeof parsed.host - 1);
    memcpy(parsed.host, start, length);
    if (!(ipv6 ? check_ipv6 : check_name_or_ipv4)(parsed.host, phrase) ||
        !parse_port(colon + 1, &parsed.port, phrase))
        return false;
    *out = parsed;
    return true;
}

bool config_parse_addresses(const struct config_option *option, const char *text, void *field,
                            struct config_phrase *phrase) {
    struct config_addresses parsed = {0};
    char one[CONFIG_HOST_SIZE + 16];
    const bool is_none = text[0] == '\0' && option->def[0] == '\0';
    for (const char *rest = text; !is_none; rest++) {
        rest += strspn(rest, " ");
        const size_t length = strcspn(rest, ",");
        if (parsed.count == CONFIG_ADDRESSES_MAX)
            return config_complain(phrase, "has more than %d addresses", CONFIG_ADDRESSES_MAX);
        if (length >= sizeof one)
            return config_complain(phrase, "has a host longer than %d characters",
                                   CONFIG_HOST_SIZE - 1);
        memcpy(one, rest, length);
        one[length] = '\0';
        if (length == 0 && text[0] != '\0')
            return config_complain(phrase, "has a comma without an address beside it");
        if (!parse_address(one, &parsed.items[parsed.count++], phrase))
            return false;
        rest += length;
        if (*rest == '\0')
            break;
    }
    memcpy(field, &parsed, sizeof parsed);
    return true;
}

static int format_address(const struct config_address *address, char *out, size_t size) {
    if (address->is_path)
        return snprintf(out, size, PATH_PREFIX "%s", address->host);
    const bool ipv6 = strchr(address->host, ':') != NULL;
    return snprintf(out, size, ipv6 ? "[%s]:%u" : "%s:%u", address->host, (unsigned)address->port);
}

void config_format_addresses(const struct config_option *option, const void *field, char *out,
                             size_t size) {
    const struct config_addresses *addresses = field;
    size_t used = 0;
    (void)option;
    out[0] = '\0';
    for (size_t i = 0; i < addresses->count; i++) {
        assert(used + 1 < size);
        if (i > 0)
            out[used++] = ',';
        used += (size_t)format_address(&addresses->items[i], out + used, size - used);
    }
}

void config_describe_addresses(const struct config_option *option, char *out, size_t size) {
    snprintf(out, size,
             "%shost:port, [IPv6]:port (port 0 to 65535) and unix:/path, up to %d of them",
             option->def[0] == '\0' ? "nothing, or " : "", CONFIG_ADDRESSES_MAX);
}
