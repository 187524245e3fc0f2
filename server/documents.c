/* SPDX-License-Identifier: Apache-2.0 */
/* The assembler puts the files into the program, each as it is and packed; the Makefile packs them
   and makes this depend on them. */
#include "server/documents.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "server/docs_style.h"

#define INCLUDE(name, file)                                                                      \
    ".global " name "_begin\n.global " name "_end\n" name "_begin:\n.incbin \"" file "\"\n" name \
    "_end:\n.byte 0\n"

#define DOCUMENT(name, path, file, media_type, policy) \
    INCLUDE("plain_" #name, file) INCLUDE("packed_" #name, "packed/" file ".gz")
/* clang-format off */
__asm__(".section .rodata\n"
#include "server/documents.def"
        ".section .note.GNU-stack,\"\",@progbits\n"
        ".text\n");
/* clang-format on */
#undef DOCUMENT

#define DOCUMENT(name, path, file, media_type, policy)              \
    extern const char plain_##name##_begin[], plain_##name##_end[]; \
    extern const char packed_##name##_begin[], packed_##name##_end[];
#include "server/documents.def"
#undef DOCUMENT

#define NO_FRAMES "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/* Nothing but its own style sheet, and links: there is no script, and nothing else is loaded. */
#define API_POLICY "default-src 'none'; style-src '" DOCS_STYLE_HASH "'; " NO_FRAMES

/* What the dashboard loads comes from here, and no text ever becomes script or markup. */
#define PAGE_POLICY                                                                         \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; " \
    "connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'; " NO_FRAMES

/* FNV-1a: two texts that differ by chance, not on purpose, have to have different tags. */
static struct document_form form_of(const char *begin, const char *end) {
    struct document_form form = {.bytes = begin, .length = (size_t)(end - begin)};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *at = begin; at < end; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    snprintf(form.etag, sizeof form.etag, "\"%016" PRIx64 "\"", hash);
    return form;
}

void documents_open(struct document documents[DOCUMENT_COUNT]) {
#define DOCUMENT(name, place, file, type, rules)                                      \
    documents[DOCUMENT_##name] =                                                      \
        (struct document){.path = place,                                              \
                          .media_type = type,                                         \
                          .policy = rules,                                            \
                          .is_immutable = strncmp(place, "/assets/", 8) == 0,         \
                          .plain = form_of(plain_##name##_begin, plain_##name##_end), \
                          .packed = form_of(packed_##name##_begin, packed_##name##_end)};
#include "server/documents.def"
#undef DOCUMENT
}

const struct document *documents_find(const struct document documents[DOCUMENT_COUNT],
                                      const char *path) {
    for (size_t i = 0; i < DOCUMENT_COUNT; i++)
        if (strcmp(documents[i].path, path) == 0)
            return &documents[i];
    return NULL;
}
