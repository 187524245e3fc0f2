/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the files that are made from config/options.def; to be run in the project's root. It stops
 * at the first file that cannot be read or written and exits 1.
 */
#include "config/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool write_document(const struct config_document *document) {
    FILE *out = fopen(document->path, "we");
    if (out == NULL)
        return false;
    const bool generated = config_generate(document, out);
    const bool closed = fclose(out) == 0;
    return generated && closed;
}

int main(void) {
    for (size_t i = 0; i < CONFIG_DOCUMENT_COUNT; i++) {
        if (!write_document(&config_documents[i])) {
            fprintf(stderr, "config_docs: %s: %s\n", config_documents[i].path, strerror(errno));
            return EXIT_FAILURE;
        }
        printf("wrote %s\n", config_documents[i].path);
    }
    return EXIT_SUCCESS;
}
