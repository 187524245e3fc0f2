/* SPDX-License-Identifier: Apache-2.0 */
/* The documents that are part of the program, as their files stood when it was built. */
#ifndef SERVER_DOCUMENTS_H
#define SERVER_DOCUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#define DOCUMENT(name, path, file, media_type, policy) DOCUMENT_##name,
enum document_id {
#include "server/documents.def"
    DOCUMENT_COUNT
};
#undef DOCUMENT

/* A document's bytes as they are, or packed; every form has a tag of its own. */
struct document_form {
    const char *bytes;
    size_t length;
    char etag[24]; /* with its quotes; of these bytes alone */
};

struct document {
    const char *path, *media_type;
    const char *policy; /* its Content-Security-Policy, or NULL */
    bool is_immutable;  /* its path has a hash of it: another content has another path */
    struct document_form plain, packed; /* packed in gzip */
};

void documents_open(struct document documents[DOCUMENT_COUNT]);
/* The document at a path; NULL: there is none. */
const struct document *documents_find(const struct document documents[DOCUMENT_COUNT],
                                      const char *path);

#endif
