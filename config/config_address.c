/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The type ADDRESS: host:port, where host is an IPv4 address, an IPv6 address in brackets or a host
 * name. It refuses what getaddrinfo() would take in a surprising way: a missing host, a missing
 * port, and four numbers that are no IPv4 address.
 */
#include "config/internal.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>

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
            return config_complain(phrase, "has a character that no host name has");
    return true;
}

bool config_parse_address(const struct config_option *option, const char *text, void *field,
                          struct config_phrase *phrase) {
    struct config_address parsed = {0};
    (void)option;
    if (text[0] == '\0')
        return config_complain(phrase, "is empty");
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
    memcpy(field, &parsed, sizeof parsed);
    return true;
}

void config_format_address(const struct config_option *option, const void *field, char *out,
                           size_t size) {
    const struct config_address *address = field;
    const bool ipv6 = strchr(address->host, ':') != NULL;
    (void)option;
    snprintf(out, size, ipv6 ? "[%s]:%u" : "%s:%u", address->host, (unsigned)address->port);
}

void config_describe_address(const struct config_option *option, char *out, size_t size) {
    (void)option;
    snprintf(out, size, "host:port or [IPv6]:port, port 0 to 65535");
}
