/* SPDX-License-Identifier: Apache-2.0 */
/* The hash of the style sheet in docs/api.html; made by tools/api_page: make generate. */
#ifndef SERVER_DOCS_STYLE_H
#define SERVER_DOCS_STYLE_H

#define DOCS_STYLE_HASH "sha256-I6QuafWDYtGMR5QTGcQdmaAEzH10ewyXYxHPIqsinyI="

#endif
