/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random mask expressions and what they show, element by element and from the written definitions
 * alone. It shares no code with the library: values are kept as plain int64 arrays beside the typed
 * tensors that the library gets.
 */
#ifndef TESTS_SUPPORT_MASK_MODEL_H
#define TESTS_SUPPORT_MASK_MODEL_H

#include "core/mask.h"
#include "tests/support/random.h"

enum { MODEL_NODES = 64, MODEL_LIST = 4 };

/* What one node of the program means. `values` is [shape], indexed with axes of size 1 repeated. */
struct model_leaf {
    int64_t *values;
    size_t shape[4];
    int64_t *kv; /* SEGMENTS: [kv_batch][Tk] */
    size_t kv_batch;
    bool *is_token; /* GLOBAL: [Tk] */
    int64_t kv_lengths[MODEL_LIST], q_lengths[MODEL_LIST], lengths[MODEL_LIST];
};

struct mask_model {
    struct random random;
    struct attn_mask_space space;
    int64_t q_offset[MODEL_LIST];
    struct attn_mask mask; /* what the library gets */
    struct attn_mask_node nodes[MODEL_NODES];
    struct model_leaf leaves[MODEL_NODES];
    void *owned[4 * MODEL_NODES];
    size_t owned_count;
};

/* Random sizes around the given Tk (Tq = Tk in half of the cases) and no mask yet. Offsets may be
 * negative. */
void model_open(struct mask_model *model, struct random random, size_t Tk);
void model_close(struct mask_model *model);

/* Leaves that a model can add: the kinds, and padding's other form. */
enum { MODEL_KEEP = ATTN_MASK_KIND_COUNT, MODEL_LEAF_COUNT };
/* Adds a random leaf: a mask kind that is no combinator, or MODEL_KEEP. */
void model_add_leaf(struct mask_model *model, int kind);
/* Adds a random expression of `parts` < MODEL_NODES leaves and combinators; `all` joins what they
 * leave side by side. Once per model. */
void model_add_expression(struct mask_model *model, size_t parts);

/* Whether query `row` sees `key` under head h of batch item b. */
bool model_sees(const struct mask_model *model, size_t b, size_t h, size_t row, size_t key);

#endif
