/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A JSON document whose numbers stay text. Every array that holds numbers (or true, false, null,
 * or the words for non-finite numbers) and every long string is cut out of a copy of the document
 * and replaced by `[n]`, n being the number of the cut; only what is left becomes nodes. Since
 * every array of numbers is cut, no caller can write a `[n]` that means a cut.
 *
 * Refused as malformed: what RFC 8259 does not allow, a name twice in one object, nesting deeper
 * than JSON_MAX_DEPTH, more than JSON_MAX_CUTS cuts, and more than JSON_MAX_PARTS parts or
 * JSON_MAX_SKELETON bytes besides them. The inside of a cut is checked by whoever reads it.
 */
#ifndef SERVER_JSON_JSON_DOCUMENT_H
#define SERVER_JSON_JSON_DOCUMENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"
#include "server/storage.h"

enum {
    JSON_MAX_DEPTH = 32,
    JSON_MAX_CUTS = 4096,
    JSON_MAX_PARTS = 32768, /* members, list elements, objects and lists: they become nodes */
    JSON_MAX_SKELETON = 1 << 20
};
/* Strings this long are cut. */
enum { JSON_LONG_TEXT = 512 };

struct json_cut {
    size_t offset, length; /* in the text, brackets or quotes included */
    size_t commas;         /* of an array: an upper bound of its numbers is commas + 1 */
    bool is_text;          /* a long string, else an array */
    size_t skeleton_end;   /* end of its replacement in the copy */
};

struct json_document {
    const char *name; /* "The body", to begin a sentence with; borrowed */
    const char *text; /* borrowed */
    size_t length;
    bool wide; /* whole numbers may have more than 64 bits */
    json_t *root;
    struct storage *nodes; /* owned: the memory of root */
    struct json_cut *cuts;
    size_t cut_count;
};

/* A node and the document that its cuts are found in; borrowed from the document. */
struct json_value {
    const struct json_document *document;
    json_t *node; /* NULL: no such value */
};

enum json_kind {
    JSON_KIND_NULL,
    JSON_KIND_BOOL,
    JSON_KIND_NUMBER,
    JSON_KIND_TEXT,
    JSON_KIND_LONG_TEXT, /* a cut string */
    JSON_KIND_LIST,      /* an array that was not cut: of objects, strings, or empty */
    JSON_KIND_NUMBERS,   /* a cut array */
    JSON_KIND_OBJECT
};

/*
 * Reads `length` bytes at `text`, which the document borrows, like `name`. Errors: MALFORMED,
 * NUMBER_RANGE, NO_MEMORY, with a byte offset in the text; then there is nothing to close.
 */
enum attn_status json_document_open(struct json_document *document, const char *name,
                                    const char *text, size_t length, struct attn_error *error);
/* The same, but a whole number that 64 bits with a sign do not hold is read as a real. */
enum attn_status json_document_open_wide(struct json_document *document, const char *name,
                                         const char *text, size_t length, struct attn_error *error);
void json_document_close(struct json_document *document);

static inline struct json_value json_document_root(const struct json_document *document) {
    return (struct json_value){document, document->root};
}

enum json_kind json_value_kind(struct json_value value);
/* The cut that a NUMBERS or LONG_TEXT value stands for. */
const struct json_cut *json_value_cut(struct json_value value);
/* A member of an object; node NULL when there is none. */
struct json_value json_value_member(struct json_value object, const char *name);
/* An element of a LIST. */
struct json_value json_value_item(struct json_value list, size_t index);

/* At most size-1 printable bytes of text from an offset, for messages. Returns out. */
const char *json_snippet(const char *text, size_t length, size_t offset, char *out, size_t size);

#endif
