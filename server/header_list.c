/* SPDX-License-Identifier: Apache-2.0 */
/* Elements and q-values of list headers; see header_list.h. It refuses nothing. */
#include "server/header_list.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void trim(const char **text, size_t *length) {
    while (*length > 0 && (**text == ' ' || **text == '\t')) {
        (*text)++;
        (*length)--;
    }
    while (*length > 0 && ((*text)[*length - 1] == ' ' || (*text)[*length - 1] == '\t'))
        (*length)--;
}

/* The quoted text that begins here (RFC 9110, section 5.6.4); all of the rest when nothing ends it:
   looking for other ways to read that would cost the square of its length. */
static size_t quoted(const char *text) {
    size_t at = 1;
    while (text[at] != '\0' && text[at] != '"')
        at += text[at] == '\\' && text[at + 1] != '\0' ? 2 : 1;
    return at + (text[at] == '"');
}

/* Up to one of `ends` that no quotes are around. */
static size_t span(const char *text, const char *ends) {
    size_t at = 0;
    while (text[at] != '\0' && strchr(ends, text[at]) == NULL)
        at += text[at] == '"' ? quoted(text + at) : 1;
    return at;
}

static double read_quality(const char *digits, size_t length) {
    char text[8] = {0};
    memcpy(text, digits, length < sizeof text - 1 ? length : sizeof text - 1);
    const double value = isdigit((unsigned char)text[0]) ? strtod(text, NULL) : 0;
    return value > 1 ? 1 : value;
}

/* The q among the parameters in text[0 .. length), each behind a semicolon. */
static double quality(const char *text, size_t length) {
    const char *const end = text + length;
    while (text < end) {
        const char *parameter = text + 1;
        size_t size = span(parameter, ";,");
        text = parameter + size;
        trim(&parameter, &size);
        if (size >= 2 && strncasecmp(parameter, "q=", 2) == 0)
            return read_quality(parameter + 2, size - 2);
    }
    return 1;
}

bool header_list_next(const char **at, struct header_item *item) {
    while (*at != NULL && **at != '\0') {
        const char *const element = *at;
        const size_t whole = span(element, ",");
        *at = element + whole + (element[whole] == ',');
        item->text = element;
        item->length = span(element, ";,");
        item->quality = quality(element + item->length, whole - item->length);
        trim(&item->text, &item->length);
        if (item->length > 0)
            return true;
    }
    return false;
}

bool header_item_is(const struct header_item *item, const char *word) {
    return strlen(word) == item->length && strncasecmp(item->text, word, item->length) == 0;
}

bool header_list_has_tag(const char *list, const char *etag) {
    const size_t length = strlen(etag);
    for (const char *at = list; at != NULL && *at != '\0'; at += strcspn(at, ",")) {
        at += strspn(at, ", \t");
        if (*at == '*')
            return true;
        at += strncmp(at, "W/", 2) == 0 ? 2 : 0;
        const char *const end = *at == '"' ? strchr(at + 1, '"') : NULL; /* it has no escapes */
        if (end == NULL)
            continue;
        if ((size_t)(end + 1 - at) == length && strncmp(at, etag, length) == 0)
            return true;
        at = end + 1;
    }
    return false;
}
