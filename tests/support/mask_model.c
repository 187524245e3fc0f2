/* SPDX-License-Identifier: Apache-2.0 */
/* Random mask expressions and their meaning; see the header. */
#include "tests/support/mask_model.h"

#include <stdlib.h>
#include <string.h>

static size_t below(struct mask_model *model, size_t bound) {
    return (size_t)random_below(&model->random, bound);
}

static int64_t between(struct mask_model *model, int64_t low, int64_t high) {
    return low + (int64_t)below(model, (size_t)(high - low + 1));
}

static void *own(struct mask_model *model, size_t bytes) {
    void *memory = malloc(bytes == 0 ? 1 : bytes);
    if (memory == NULL)
        abort();
    return model->owned[model->owned_count++] = memory;
}

void model_open(struct mask_model *model, struct random random, size_t Tk) {
    memset(model, 0, sizeof *model);
    model->random = random;
    model->mask.nodes = model->nodes;
    model->space = (struct attn_mask_space){.B = 1 + below(model, 3),
                                            .Hq = 1 + below(model, 3),
                                            .Tq = below(model, 2) == 0 ? Tk : 1 + below(model, 45),
                                            .Tk = Tk,
                                            .q_offset = model->q_offset};
    model->space.q_offset_count = below(model, 2) == 0 ? 1 : model->space.B;
    for (size_t i = 0; i < model->space.q_offset_count; i++)
        model->q_offset[i] = between(model, -5, (int64_t)Tk);
}

void model_close(struct mask_model *model) {
    for (size_t i = 0; i < model->owned_count; i++)
        free(model->owned[i]);
}

static const enum attn_dtype MASK_DTYPES[] = {
    ATTN_BOOL,  ATTN_UINT8,  ATTN_INT8,  ATTN_UINT16, ATTN_INT16,
    ATTN_INT32, ATTN_UINT32, ATTN_INT64, ATTN_UINT64,
};

/* The values as a dense tensor of a random dtype; little-endian, so the low bytes come first. */
static struct attn_tensor typed(struct mask_model *model, const int64_t *values, int rank,
                                const size_t *shape, enum attn_dtype dtype) {
    static const size_t sizes[] = {
#define ATTN_DTYPE(code, name, safetensors, bytes, class) bytes,
#include "core/dtype.def"
#undef ATTN_DTYPE
    };
    struct attn_tensor tensor = {.dtype = dtype, .rank = rank};
    size_t n = 1;
    for (int axis = rank - 1; axis >= 0; axis--) {
        tensor.shape[axis] = shape[axis];
        tensor.stride[axis] = (ptrdiff_t)n;
        n *= shape[axis];
    }
    char *bytes = own(model, n * sizes[dtype]);
    for (size_t i = 0; i < n; i++)
        memcpy(bytes + i * sizes[dtype], &values[i], sizes[dtype]);
    tensor.data = bytes;
    return tensor;
}

static enum attn_dtype any_dtype(struct mask_model *model) {
    return MASK_DTYPES[below(model, sizeof MASK_DTYPES / sizeof *MASK_DTYPES)];
}

/* n random zeros and ones: mostly one of them, mixed, or all the same. */
static int64_t *bits(struct mask_model *model, size_t n) {
    static const unsigned PERCENT[] = {0, 3, 50, 97, 100};
    const unsigned percent = PERCENT[below(model, 5)];
    int64_t *values = own(model, n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        values[i] = below(model, 100) < percent;
    return values;
}

/* n ids: documents one after the other, or in no order. */
static int64_t *ids(struct mask_model *model, size_t n) {
    const bool packed = below(model, 2) == 0;
    int64_t *values = own(model, n * sizeof *values);
    int64_t id = 0;
    for (size_t i = 0; i < n; i++) {
        id = packed ? id + (below(model, 9) == 0) : between(model, 0, 3);
        values[i] = id & 127;
    }
    return values;
}

static struct attn_int_list list(struct mask_model *model, int64_t *values, size_t limit) {
    const size_t count = below(model, 2) == 0 ? 1 : model->space.B;
    for (size_t i = 0; i < count; i++)
        values[i] = between(model, 0, (int64_t)limit);
    return (struct attn_int_list){values, count};
}

static void make_keep(struct mask_model *model, struct attn_mask_node *node,
                      struct model_leaf *leaf) {
    const bool batched = below(model, 3) > 0;
    const size_t shape[] = {batched ? model->space.B : 1, 1, 1, model->space.Tk};
    memcpy(leaf->shape, shape, sizeof shape);
    leaf->values = bits(model, shape[0] * shape[3]);
    for (size_t i = 0; i < shape[0] * shape[3]; i++)
        leaf->values[i] *= 1 + (int64_t)below(model, 100);
    node->kind = ATTN_MASK_PADDING;
    node->tensor = typed(model, leaf->values, batched ? 2 : 1,
                         batched ? (size_t[]){shape[0], shape[3]} : &shape[3], any_dtype(model));
}

static void make_segments(struct mask_model *model, struct attn_mask_node *node,
                          struct model_leaf *leaf) {
    const struct attn_mask_space *space = &model->space;
    const bool batched = below(model, 2) == 0;
    const bool own_kv = space->Tq != space->Tk || below(model, 2) == 0;
    const size_t batch = batched ? space->B : 1;
    const size_t shape[] = {batch, 1, 1, space->Tq};
    memcpy(leaf->shape, shape, sizeof shape);
    leaf->values = ids(model, batch * space->Tq);
    leaf->kv = own_kv ? ids(model, batch * space->Tk) : leaf->values;
    leaf->kv_batch = batch;
    node->tensor = typed(model, leaf->values, batched ? 2 : 1,
                         batched ? (size_t[]){batch, space->Tq} : &shape[3], any_dtype(model));
    if (own_kv)
        node->kv = typed(model, leaf->kv, batched ? 2 : 1,
                         batched ? (size_t[]){batch, space->Tk} : &space->Tk, any_dtype(model));
}

/* Of rank 3 or 4 some axes are 1; of rank 2 [B,Tk] would be refused, so the rows are whole. */
static void make_allow(struct mask_model *model, struct attn_mask_node *node,
                       struct model_leaf *leaf) {
    const struct attn_mask_space *space = &model->space;
    const int rank = 1 + (int)below(model, 4);
    size_t shape[] = {space->B, space->Hq, space->Tq, space->Tk}, n = 1;
    for (int axis = 0; axis < 4; axis++) {
        if (axis < 4 - rank || (rank != 2 && below(model, 3) == 0))
            shape[axis] = 1;
        n *= shape[axis];
    }
    memcpy(leaf->shape, shape, sizeof shape);
    leaf->values = bits(model, n);
    node->tensor = typed(model, leaf->values, rank, shape + 4 - rank, any_dtype(model));
}

/* Few tokens, many, or all of them; often some that lie side by side. */
static void make_global(struct mask_model *model, struct attn_mask_node *node,
                        struct model_leaf *leaf) {
    static const unsigned PERCENT[] = {0, 3, 3, 50, 97, 100};
    const size_t Tk = model->space.Tk;
    const unsigned percent = PERCENT[below(model, 6)];
    const bool clustered = below(model, 2) == 0;
    int64_t *tokens = own(model, Tk * sizeof *tokens);
    leaf->is_token = own(model, Tk * sizeof *leaf->is_token);
    for (size_t j = 0; j < Tk; j++) {
        leaf->is_token[j] = below(model, 100) < percent;
        if (clustered && j > 0 && below(model, 3) > 0)
            leaf->is_token[j] = leaf->is_token[j - 1];
        if (leaf->is_token[j])
            tokens[node->tokens.count++] = (int64_t)j;
    }
    node->tokens.values = tokens;
}

/* At least `least`: small, about as large as the keys are many, or beyond all of them. */
static int64_t any_size(struct mask_model *model, int64_t least) {
    switch (below(model, 7)) {
    case 0:
        return INT64_MAX;
    case 1:
    case 2:
        return between(model, least, (int64_t)model->space.Tk + 70);
    default:
        return between(model, least, 9);
    }
}

void model_add_leaf(struct mask_model *model, int kind) {
    const struct attn_mask_space *space = &model->space;
    struct attn_mask_node *node = &model->nodes[model->mask.count];
    struct model_leaf *leaf = &model->leaves[model->mask.count++];
    node->kind = kind == MODEL_KEEP ? ATTN_MASK_PADDING : (enum attn_mask_kind)kind;
    node->tensor.rank = node->kv.rank = -1;
    switch (kind) {
    case ATTN_MASK_WINDOW:
        node->left = between(model, -1, (int64_t)space->Tk);
        node->right = between(model, -1, below(model, 2) ? 3 : (int64_t)space->Tk);
        break;
    case ATTN_MASK_PADDING:
        node->kv_lengths = list(model, leaf->kv_lengths, space->Tk);
        if (below(model, 2) == 0)
            node->q_lengths = list(model, leaf->q_lengths, space->Tq);
        break;
    case ATTN_MASK_PREFIX:
        node->lengths = list(model, leaf->lengths, space->Tk);
        break;
    case ATTN_MASK_SEGMENTS:
        make_segments(model, node, leaf);
        break;
    case ATTN_MASK_GLOBAL:
        make_global(model, node, leaf);
        break;
    case ATTN_MASK_DILATED:
        node->width = any_size(model, 0);
        node->stride = any_size(model, 1);
        break;
    case ATTN_MASK_BLOCK_CAUSAL:
        node->block = any_size(model, 1);
        break;
    case ATTN_MASK_ALLOW:
    case ATTN_MASK_HIDE:
        make_allow(model, node, leaf);
        break;
    case MODEL_KEEP:
        make_keep(model, node, leaf);
        break;
    default:
        break;
    }
}

static size_t add_combinator(struct mask_model *model, size_t height) {
    static const enum attn_mask_kind KINDS[] = {ATTN_MASK_NOT, ATTN_MASK_ALL, ATTN_MASK_ANY};
    struct attn_mask_node *node = &model->nodes[model->mask.count++];
    node->kind = KINDS[height == 0 ? 1 + below(model, 2) : below(model, 3)];
    const size_t most = height < 3 ? height : 3;
    node->operands = node->kind == ATTN_MASK_NOT ? 1 : below(model, most + 1);
    node->tensor.rank = node->kv.rank = -1;
    return height - node->operands + 1;
}

void model_add_expression(struct mask_model *model, size_t parts) {
    static const int LEAVES[] = {
        ATTN_MASK_CAUSAL,   ATTN_MASK_WINDOW, ATTN_MASK_PADDING, ATTN_MASK_PREFIX,
        ATTN_MASK_SEGMENTS, ATTN_MASK_GLOBAL, ATTN_MASK_DILATED, ATTN_MASK_BLOCK_CAUSAL,
        ATTN_MASK_ALLOW,    ATTN_MASK_HIDE,   MODEL_KEEP,
    };
    size_t height = 0;
    while (parts-- > 0) {
        if (below(model, 2) == 0) {
            height = add_combinator(model, height);
        } else {
            model_add_leaf(model, LEAVES[below(model, sizeof LEAVES / sizeof *LEAVES)]);
            height++;
        }
    }
    if (height == 1)
        return;
    struct attn_mask_node *root = &model->nodes[model->mask.count++];
    root->kind = ATTN_MASK_ALL;
    root->operands = height;
    root->tensor.rank = root->kv.rank = -1;
}

static int64_t of_batch(const int64_t *values, size_t count, size_t b) {
    return count == 1 ? values[0] : values[b];
}

static int64_t element(const struct model_leaf *leaf, const size_t at[4]) {
    size_t index = 0;
    for (int axis = 0; axis < 4; axis++)
        index = index * leaf->shape[axis] + (leaf->shape[axis] == 1 ? 0 : at[axis]);
    return leaf->values[index];
}

/* The block that position i lies in, counted down from -1 before the first key. */
static int64_t block_of(int64_t i, int64_t block) {
    return i >= 0 ? i / block : -1 - (-1 - i) / block;
}

static bool leaf_sees(const struct mask_model *model, size_t n, const size_t at[4]) {
    const struct attn_mask_node *node = &model->nodes[n];
    const struct model_leaf *leaf = &model->leaves[n];
    const size_t b = at[0];
    const int64_t row = (int64_t)at[2], j = (int64_t)at[3];
    const int64_t i = row + of_batch(model->q_offset, model->space.q_offset_count, b);
    switch (node->kind) {
    case ATTN_MASK_CAUSAL:
        return j <= i;
    case ATTN_MASK_WINDOW:
        return (node->left < 0 || i - j <= node->left) && (node->right < 0 || j - i <= node->right);
    case ATTN_MASK_PREFIX:
        return j < of_batch(leaf->lengths, node->lengths.count, b);
    case ATTN_MASK_SEGMENTS:
        return element(leaf, (size_t[]){b, 0, 0, at[2]}) ==
               leaf->kv[(leaf->kv_batch == 1 ? 0 : b) * model->space.Tk + at[3]];
    case ATTN_MASK_GLOBAL:
        return leaf->is_token[j] || (i >= 0 && i < (int64_t)model->space.Tk && leaf->is_token[i]);
    case ATTN_MASK_DILATED:
        return llabs(i - j) <= node->width && llabs(i - j) % node->stride == 0;
    case ATTN_MASK_BLOCK_CAUSAL:
        return block_of(j, node->block) <= block_of(i, node->block);
    case ATTN_MASK_HIDE:
        return element(leaf, at) == 0;
    case ATTN_MASK_ALLOW:
        return element(leaf, at) != 0;
    default:
        if (leaf->values != NULL)
            return element(leaf, at) != 0;
        return j < of_batch(leaf->kv_lengths, node->kv_lengths.count, b) &&
               (node->q_lengths.count == 0 ||
                row < of_batch(leaf->q_lengths, node->q_lengths.count, b));
    }
}

bool model_sees(const struct mask_model *model, size_t b, size_t h, size_t row, size_t key) {
    bool stack[MODEL_NODES + 1] = {true};
    size_t height = 0;
    for (size_t n = 0; n < model->mask.count; n++) {
        const struct attn_mask_node *node = &model->nodes[n];
        if (node->kind == ATTN_MASK_NOT) {
            stack[height - 1] = !stack[height - 1];
        } else if (node->kind == ATTN_MASK_ALL || node->kind == ATTN_MASK_ANY) {
            bool all = true, any = false;
            for (size_t k = 0; k < node->operands; k++) {
                height--;
                all = all && stack[height];
                any = any || stack[height];
            }
            stack[height++] = node->kind == ATTN_MASK_ALL ? all : any;
        } else {
            stack[height++] = leaf_sees(model, n, (size_t[]){b, h, row, key});
        }
    }
    return stack[0];
}
