/* SPDX-License-Identifier: Apache-2.0 */
/* The assembler puts the files into the program; the Makefile makes this depend on them. */
#include "server/documents.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "server/docs_style.h"

#define INCLUDE(name, file)                                                                      \
    ".global " name "_begin\n.global " name "_end\n" name "_begin:\n.incbin \"" file "\"\n" name \
    "_end:\n.byte 0\n"

__asm__(".section .rodata\n" INCLUDE("contract", "openapi.yaml")
            INCLUDE("page", "docs/api.html") ".section .note.GNU-stack,\"\",@progbits\n"
                                             ".text\n");

extern const char contract_begin[], contract_end[], page_begin[], page_end[];

/* Nothing but its own style sheet, and links: there is no script, and nothing else is loaded. */
#define PAGE_POLICY                                                                              \
    "default-src 'none'; style-src '" DOCS_STYLE_HASH "'; base-uri 'none'; form-action 'none'; " \
    "frame-ancestors 'none'"

/* FNV-1a: two texts that differ by chance, not on purpose, have to have different tags. */
static void write_etag(struct document *document) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < document->length; i++)
        hash = (hash ^ (unsigned char)document->text[i]) * UINT64_C(0x100000001b3);
    snprintf(document->etag, sizeof document->etag, "\"%016" PRIx64 "\"", hash);
}

void documents_open(struct document documents[DOCUMENT_COUNT]) {
    documents[DOCUMENT_CONTRACT] = (struct document){
        .media_type = "application/yaml",
        .text = contract_begin,
        .length = (size_t)(contract_end - contract_begin),
    };
    documents[DOCUMENT_PAGE] = (struct document){
        .media_type = "text/html; charset=utf-8",
        .text = page_begin,
        .length = (size_t)(page_end - page_begin),
        .policy = PAGE_POLICY,
    };
    for (size_t i = 0; i < DOCUMENT_COUNT; i++)
        write_etag(&documents[i]);
}
