/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers that are lists: elements between commas, each with parameters behind semicolons, of which
 * only q means something here (RFC 9110, sections 5.6.1 and 12.4.2).
 */
#ifndef SERVER_HEADER_LIST_H
#define SERVER_HEADER_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* One element: text[0 .. length) without parameters and blanks around it; borrowed. */
struct header_item {
    const char *text;
    size_t length;
    double quality; /* 0 to 1; 1 when there is no q, 0 when it is no number */
};

/* The next element that is not empty, and *at moves behind it; false when there is none. `*at` may
   be NULL for a header that is absent. */
bool header_list_next(const char **at, struct header_item *item);
/* Whether a list of entity tags (NULL: none), or "*", has this one; tags are compared weakly, as
   RFC 9110 has it for If-None-Match. */
bool header_list_has_tag(const char *list, const char *etag);
/* Whether the element is this word, in whatever case. */
bool header_item_is(const struct header_item *item, const char *word);

#endif
