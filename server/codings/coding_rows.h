/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the table in coding.c, each defined beside the library it needs. */
#ifndef SERVER_CODINGS_CODING_ROWS_H
#define SERVER_CODINGS_CODING_ROWS_H

#include "server/codings/coding.h"

extern const struct coding CODING_GZIP, CODING_DEFLATE, CODING_ZSTD;

#endif
