/* SPDX-License-Identifier: Apache-2.0 */
/* What a map's query string asks for. */
#ifndef SERVER_CAPTURES_CAPTURE_MAP_H
#define SERVER_CAPTURES_CAPTURE_MAP_H

#include "server/captures/capture_tile.h"
#include "server/exchange.h"

enum map_format { FORMAT_F16, FORMAT_JSON, FORMAT_PNG, FORMAT_NPY };
enum map_op { OP_MAX, OP_MASS };

struct map_wanted {
    uint64_t batch, width, height, timeout_ms;
    int64_t head;
    enum attn_stage stage;
    int64_t rows[2], cols[2]; /* end -1: not given */
    size_t op, format, preview;
    struct tile_axis row_axis, col_axis; /* of the tile */
};

/* Reads it, and holds it against the capture. Errors as capture_query_read, and BAD_VALUE. */
enum attn_status map_wanted_read(const struct exchange *exchange, const struct capture *capture,
                                 struct map_wanted *wanted, struct attn_error *error);

#endif
