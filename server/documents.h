/* SPDX-License-Identifier: Apache-2.0 */
/* The documents that are part of the program, as their files stood when it was built. */
#ifndef SERVER_DOCUMENTS_H
#define SERVER_DOCUMENTS_H

#include <stddef.h>

enum document_id { DOCUMENT_CONTRACT, DOCUMENT_PAGE, DOCUMENT_COUNT };

struct document {
    const char *media_type, *text;
    size_t length;
    const char *policy; /* its Content-Security-Policy, or NULL */
    char etag[24];      /* with its quotes; of the text alone */
};

void documents_open(struct document documents[DOCUMENT_COUNT]);

#endif
