/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of pages; see kv_internal.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/kv_internal.h"

static struct attn_kv_table *create(size_t room) {
    size_t bytes;
    if (!attn_mul_size(room, sizeof(struct attn_kv_page *), &bytes) ||
        !attn_add_size(bytes, sizeof(struct attn_kv_table), &bytes))
        return NULL;
    struct attn_kv_table *table = malloc(bytes);
    if (table == NULL)
        return NULL;
    atomic_init(&table->holders, 1);
    table->count = 0;
    table->room = room;
    return table;
}

void attn_kv_table_drop(struct attn_kv_table *table) {
    if (table == NULL || atomic_fetch_sub_explicit(&table->holders, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t n = 0; n < table->count; n++)
        attn_kv_page_drop(table->pages[n]);
    free(table);
}

bool attn_kv_table_own(struct attn_kv_table **table, size_t keep, size_t room) {
    struct attn_kv_table *old = *table;
    assert(old != NULL || keep == 0);
    if (old == NULL || attn_kv_table_is_shared(old) || old->room < room) {
        /* And half as much again, so that a layer that grows row by row is not copied each time. */
        struct attn_kv_table *own = create(attn_max_size(room + room / 2, 8));
        if (own == NULL)
            return false;
        for (; own->count < keep; own->count++) {
            own->pages[own->count] = old->pages[own->count];
            attn_kv_page_hold(own->pages[own->count]);
        }
        attn_kv_table_drop(old);
        *table = own;
        return true;
    }
    while (old->count > keep)
        attn_kv_page_drop(old->pages[--old->count]);
    return true;
}
