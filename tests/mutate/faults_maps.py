# SPDX-License-Identifier: Apache-2.0
"""Faults in maps; rows as in faults_arithmetic.py."""
FULL = "core/map_full.c"
SELECTION = "core/call_map.c"
INTERNAL = "core/map_internal.h"

FAULTS = [
    ("hidden tiles of a map of scores are 0", FULL,
     "reducer->stage == ATTN_STAGE_WEIGHTS ? 0.0 : -INFINITY;", "0.0;", "right for weights"),
    ("every map is of the group's first head", INTERNAL,
     "at->task->hkv * at->group + g,", "at->task->hkv * at->group,", "right without groups"),
    ("a part of a map begins at its tile", FULL, "r * piece->stride + (first - piece->key), first,",
     "r * piece->stride, first,", "right for parts from key 0 on"),
    ("a part of a map has all rows' places", FULL, "plane * call->map_rows + (t - call->map_row)",
     "plane * call->map_rows + t % call->map_rows", "right for parts from row 0 on"),
    ("a head that is asked for twice comes once", FULL, """\
            attn_store_float(dtype, to, 1, last - first, (const float *)s + from);
""", """\
            attn_store_float(dtype, to, 1, last - first, (const float *)s + from);
        break;
""", "a head has one place"),
    ("a map's rows may end one early", SELECTION, "(uint64_t)range[1] > size",
     "(uint64_t)range[1] >= size", "half-open"),
]
