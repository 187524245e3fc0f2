/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers that are lists may stand on several lines, which are one list in their order (RFC 9110,
 * section 5.3). The library hands out the first line alone.
 */
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/http/http_internal.h"

enum { LISTS = 4 };

struct list {
    const char *name;
    const char **text;   /* the exchange's, which has the first line as yet */
    size_t lines, bytes; /* in all, each line with the comma or NUL behind it */
    char *at;            /* where the next line goes; NULL: nowhere, for there is one at most */
};

static struct list *find(struct list *lists, const char *name) {
    for (size_t i = 0; i < LISTS; i++)
        if (strcasecmp(name, lists[i].name) == 0)
            return &lists[i];
    return NULL;
}

static enum MHD_Result count_line(void *context, enum MHD_ValueKind kind, const char *name,
                                  const char *value) {
    struct list *const list = find(context, name);
    (void)kind;
    if (list != NULL) {
        list->lines++;
        list->bytes += (value == NULL ? 0 : strlen(value)) + 1;
    }
    return MHD_YES;
}

static enum MHD_Result copy_line(void *context, enum MHD_ValueKind kind, const char *name,
                                 const char *value) {
    struct list *const list = find(context, name);
    (void)kind;
    if (list != NULL && list->at != NULL) {
        const size_t size = value == NULL ? 0 : strlen(value);
        if (size > 0)
            memcpy(list->at, value, size);
        list->at[size] = ',';
        list->at += size + 1;
    }
    return MHD_YES;
}

bool http_join_lists(struct MHD_Connection *connection, struct exchange *exchange) {
    struct list lists[LISTS] = {
        {.name = MHD_HTTP_HEADER_ACCEPT, .text = &exchange->accept},
        {.name = MHD_HTTP_HEADER_ACCEPT_ENCODING, .text = &exchange->accept_encoding},
        {.name = MHD_HTTP_HEADER_IF_NONE_MATCH, .text = &exchange->if_none_match},
        {.name = "tracestate", .text = &exchange->tracestate},
    };
    size_t bytes = 0;
    MHD_get_connection_values(connection, MHD_HEADER_KIND, count_line, lists);
    for (size_t i = 0; i < LISTS; i++)
        bytes += lists[i].lines > 1 ? lists[i].bytes : 0;
    if (bytes == 0)
        return true;
    char *at = exchange->lists = malloc(bytes);
    if (at == NULL) {
        exchange_fail(exchange, ATTN_NO_MEMORY, "There is no memory for the headers now.");
        return false;
    }
    for (size_t i = 0; i < LISTS; i++) {
        if (lists[i].lines <= 1)
            continue;
        lists[i].at = at;
        if (*lists[i].text != NULL) /* else nobody asks for it */
            *lists[i].text = at;
        at += lists[i].bytes;
    }
    MHD_get_connection_values(connection, MHD_HEADER_KIND, copy_line, lists);
    for (size_t i = 0; i < LISTS; i++)
        if (lists[i].at != NULL)
            lists[i].at[-1] = '\0';
    return true;
}
