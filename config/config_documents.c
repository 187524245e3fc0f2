/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the project that are made from options.def, and how. `make generate` writes them, a
 * unit test compares them; at run time nothing here is used.
 */
#include "config/config.h"

#include <string.h>

const struct config_document config_documents[CONFIG_DOCUMENT_COUNT] = {
    {"config/attentiond.conf", NULL, config_print_example},
    {"docs/configuration.md", "docs/configuration.md.in", config_print_markdown},
    {"docs/attentiond.1", "docs/attentiond.1.in", config_print_man},
};

bool config_generate(const struct config_document *document, FILE *out) {
    char line[1024];
    if (document->template_path == NULL) {
        document->print(out);
        return true;
    }
    FILE *template = fopen(document->template_path, "re");
    if (template == NULL)
        return false;
    while (fgets(line, sizeof line, template) != NULL)
        if (strcmp(line, "@OPTIONS@\n") == 0)
            document->print(out);
        else
            fputs(line, out);
    const bool read = !ferror(template);
    fclose(template);
    return read;
}
