/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A key/value head as the fused kernel reads it: widened to float, K in panels of sixteen keys
 * [D][16] and V in panels of sixteen columns [keys][16], block by block. Where a head has several
 * tasks, a block is packed once, by the first that comes to it, and shared; the only task of a head
 * packs each block in the same memory, which stays in cache. Keys past the last are zeros, values
 * past the last are not read; elements of V that are not finite are zeros, which the block says it
 * has.
 */
#ifndef ATTN_CORE_KERNELS_FUSED_PACK_H
#define ATTN_CORE_KERNELS_FUSED_PACK_H

#include "core/kernels/fused_set_contract.h"
#include "core/kernels/kernel.h"

struct attn_fused_block {
    const float *k; /* panels of keys, D * 16 apart */
    const float *v; /* panels of columns, v_step apart */
    size_t v_step;
    /* Or, for products with rows in place: */
    const struct attn_direct_functions *k_direct, *v_direct; /* NULL: packed */
    struct attn_direct_rows k_rows, v_rows;
    bool k_paged, v_paged; /* those in the pages of a cache, which rows say nothing of */
    float largest;         /* magnitude in K, NaN passed over */
    bool cleaned;          /* some element of V was not finite and is 0 here */
};

/*
 * Bytes of one packed head that its tasks share, 0 where it has one task; of the block that this
 * one packs again and again, else 0; and of the scratch to pack a block. SIZE_MAX when they do not
 * fit.
 */
size_t attn_fused_packed_bytes(const struct attn_call *call, const struct attn_grid *grid);
size_t attn_fused_own_bytes(const struct attn_fused_set *set, const struct attn_call *call,
                            const struct attn_grid *grid);
size_t attn_fused_scratch_bytes(const struct attn_call *call);

/* Marks every block as not packed. */
void attn_fused_packed_open(const struct attn_call *call, const struct attn_grid *grid,
                            void *packed);

/*
 * Block `index` of the task's head, packed now if need be. When another thread is at it, packs one
 * of the blocks after it, below `end`, meanwhile, so that threads which begin together share the
 * work. A task that shares nothing packs into `own`.
 */
struct attn_fused_block attn_fused_take_block(const struct attn_task *task,
                                              const struct attn_fused_set *set, size_t index,
                                              size_t end, float *scratch, float *own);

#endif
