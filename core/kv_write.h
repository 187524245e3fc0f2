/* SPDX-License-Identifier: Apache-2.0 */
/* Rows into pages and out of them again. */
#ifndef ATTN_CORE_KV_WRITE_H
#define ATTN_CORE_KV_WRITE_H

#include "core/kv_internal.h"

/* Where rows go: number `row` and on of those that are kept, in a table's pages. */
struct attn_kv_target {
    const struct attn_kv_model *model;
    struct attn_kv_page *const *pages;
    size_t row, count;
    size_t position; /* of the first */
};

/* What writing `count` rows needs, for free(); NULL when there is no memory. */
void *attn_kv_write_open(const struct attn_kv_model *model, size_t count);

/* Converts, turns and puts them; false when stopped. */
bool attn_kv_write(const struct attn_kv_target *target, const struct attn_kv_rows *rows,
                   void *scratch, const struct attn_checkpoint *checkpoint);

#endif
