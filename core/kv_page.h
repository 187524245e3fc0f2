/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page of a key/value cache: ATTN_KV_PAGE tokens of one layer, all its key/value heads. Of each
 * head first its keys, in panels of sixteen keys [D][16], then its values, as rows [Dv]. Lanes of a
 * panel past the last key are zeros; rows of values past the last are anything.
 */
#ifndef ATTN_CORE_KV_PAGE_H
#define ATTN_CORE_KV_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    ATTN_KV_PANEL = 16,
    ATTN_KV_PAGE = 256,
    /* Tokens that a layer's first pages have together where it evicts: blocks of keys that kernels
       take at once, and so any part of one, begin and end beside the gap and never hold it. */
    ATTN_KV_GAP_ALIGN = 256,
};

struct attn_kv_page {
    char *data; /* aligned to 64 bytes */
    atomic_size_t holders;
    /* The pool's: */
    struct attn_kv_extent *extent;
    struct attn_kv_page *next; /* of its free ones */
    bool used;                 /* not all zeros, as it came from the system */
};

#endif
