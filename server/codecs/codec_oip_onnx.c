/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model `onnx_attention`: the ONNX operator Attention, whose inputs and attributes become an
 * attention request. Keys and values of the past and the new ones are joined by one copy, which is
 * present_key and present_value and is read in place; a mask shorter than the keys is continued as
 * hidden, as the operator has it.
 */
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/convert.h"
#include "server/codecs/codec_oip_notes.h"
#include "server/codecs/codec_request.h"
#include "server/options/options_table.h"

static const char *const PAST[2] = {"past_key", "past_value"};
static const char *const NEW[2] = {"K", "V"};

/* What the steps below work on. */
struct onnx_call {
    const struct oip_file *file;
    const struct json_reader *reader;
    struct codec_request *request;
    struct oip_notes *notes;
};

static struct attn_request *attention_of(const struct onnx_call *call) {
    return &call->request->attention;
}

static enum attn_status find(struct options *options, const char *name, struct attn_tensor *out) {
    bool found;
    return options->tensors.find(options->tensors.closure, name, JSON_TENSOR_MASK, out, &found);
}

/* Without a mode the map is what mode 0 gives. */
enum attn_status oip_onnx_give(const struct oip_file *file, struct options *options) {
    (void)file;
    options->request->attention.map.stage = ATTN_STAGE_SCALED;
    return ATTN_OK;
}

enum attn_status oip_onnx_settle(const struct oip_file *file, struct options *options,
                                 const bool *used) {
    static const char lengths[] = "nonpad_kv_seqlen";
    struct oip_onnx *const onnx = &oip_notes_of(options->request)->onnx;
    struct json_value value;
    (void)used;
    enum attn_status status = find(options, "attn_mask", &onnx->mask);
    for (int i = 0; status == ATTN_OK && i < 2; i++)
        status = find(options, PAST[i], &onnx->past[i]);
    if (status != ATTN_OK || oip_file_find(file, lengths) == file->input_count)
        return status;
    status = options_open_text(options, lengths, "\"nonpad_kv_seqlen\"", &value);
    return status == ATTN_OK ? options_ints(options, value, "/nonpad_kv_seqlen", &onnx->lengths)
                             : status;
}

/* [B,H,T,D] as strides over a tensor of rank 4, or over [B,T,H*D]. */
static struct attn_tensor with_heads(const struct attn_tensor *tensor, size_t heads) {
    if (tensor->rank == 4)
        return *tensor;
    const size_t width = tensor->shape[2];
    const size_t shape[4] = {tensor->shape[0], heads, tensor->shape[1], width / heads};
    struct attn_tensor split = attn_tensor_view(tensor->data, tensor->dtype, 4, shape);
    split.stride[0] = tensor->stride[0];
    split.stride[1] = (ptrdiff_t)shape[3];
    split.stride[2] = (ptrdiff_t)width;
    return split;
}

/* The same elements as [B,T,H,D]. */
static struct attn_tensor tokens_first(struct attn_tensor tensor) {
    const size_t heads = tensor.shape[1];
    const ptrdiff_t stride = tensor.stride[1];
    tensor.shape[1] = tensor.shape[2];
    tensor.stride[1] = tensor.stride[2];
    tensor.shape[2] = heads;
    tensor.stride[2] = stride;
    return tensor;
}

static enum attn_status check_rank(const struct onnx_call *call, const struct attn_tensor *tensor,
                                   const char *name) {
    const int rank = attention_of(call)->q.rank;
    char shape[96];
    if (tensor->rank == rank && (rank == 3 || rank == 4))
        return ATTN_OK;
    return attn_fail(call->reader->error, ATTN_BAD_SHAPE, name,
                     "Q, K and V should all be [B,T,H*D], or all [B,H,T,D], but %s is %s.", name,
                     attn_shape_text(tensor->rank, tensor->shape, shape, sizeof shape));
}

static enum attn_status check_heads(const struct onnx_call *call, const struct attn_tensor *tensor,
                                    const char *name, const char *attribute, int64_t heads) {
    if (tensor->rank == 3 && heads > 0 && tensor->shape[2] % (size_t)heads == 0)
        return ATTN_OK;
    if (tensor->rank == 4 && heads == 0)
        return ATTN_OK;
    if (tensor->rank == 4)
        return attn_fail(call->reader->error, ATTN_BAD_VALUE, attribute,
                         "%s splits inputs [B,T,H*D]; these have rank 4, where the heads are an "
                         "axis already. Leave it out.",
                         attribute);
    if (heads == 0)
        return attn_fail(call->reader->error, ATTN_MISSING_FIELD, attribute,
                         "Inputs of rank 3 need %s beside them.", attribute);
    return attn_fail(call->reader->error, ATTN_BAD_SHAPE, name,
                     "The last axis of %s is %zu wide, which %lld heads do not divide.", name,
                     tensor->shape[2], (long long)heads);
}

static enum attn_status check_operands(const struct onnx_call *call) {
    const struct attn_request *const request = attention_of(call);
    const struct oip_onnx *const onnx = &call->notes->onnx;
    if (check_rank(call, &request->q, "Q") != ATTN_OK ||
        check_rank(call, &request->k, "K") != ATTN_OK ||
        check_rank(call, &request->v, "V") != ATTN_OK ||
        check_heads(call, &request->q, "Q", "q_num_heads", onnx->q_num_heads) != ATTN_OK ||
        check_heads(call, &request->k, "K", "kv_num_heads", onnx->kv_num_heads) != ATTN_OK)
        return call->reader->error->status;
    return check_heads(call, &request->v, "V", "kv_num_heads", onnx->kv_num_heads);
}

static enum attn_status check_past(const struct onnx_call *call, int which,
                                   const struct attn_tensor *new) {
    const struct oip_onnx *const onnx = &call->notes->onnx;
    const struct attn_tensor *const past = &onnx->past[which];
    char was[96], is[96];
    if (attn_tensor_is_none(past))
        return attn_fail(call->reader->error, ATTN_MISSING_FIELD, PAST[which],
                         "past_key and past_value belong together; %s is missing.", PAST[which]);
    if (onnx->lengths.values != NULL)
        return attn_fail(call->reader->error, ATTN_BAD_VALUE, "nonpad_kv_seqlen",
                         "nonpad_kv_seqlen is for a cache that K and V hold already; leave out "
                         "past_key and past_value beside it.");
    if (past->dtype == new->dtype && past->rank == 4 && past->shape[0] == new->shape[0] &&
        past->shape[1] == new->shape[1] && past->shape[3] == new->shape[3])
        return ATTN_OK;
    return attn_fail(call->reader->error, ATTN_BAD_SHAPE, PAST[which],
                     "%s should be %s of %s but for its length, and it is %s of %s.", PAST[which],
                     attn_shape_text(4, new->shape, is, sizeof is), oip_datatype_name(new->dtype),
                     attn_shape_text(past->rank, past->shape, was, sizeof was),
                     oip_datatype_name(past->dtype));
}

/* The rows of one head: those of the past, and behind them the new ones. */
static void join_head(const struct attn_tensor *past, const struct attn_tensor *new, size_t b,
                      size_t h, char *to) {
    const size_t size = attn_dtype_size(new->dtype), row = new->shape[3] * size;
    if (!attn_tensor_is_none(past)) {
        const size_t bytes = past->shape[2] * row;
        memcpy(to, (const char *)past->data + (b * past->shape[1] + h) * bytes, bytes);
        to += bytes;
    }
    for (size_t t = 0; t < new->shape[2]; t++)
        memcpy(to + t * row,
               (const char *)new->data + attn_tensor_offset(new, b, h, t, 0) * (ptrdiff_t)size,
               row);
}

/* Joins keys or values to those before them, as [B,H,T,D] without gaps. */
static enum attn_status join(const struct onnx_call *call, int which, struct attn_tensor *new) {
    const struct attn_tensor *const past = &call->notes->onnx.past[which];
    size_t shape[4] = {new->shape[0], new->shape[1], new->shape[2], new->shape[3]}, bytes;
    void *memory;
    if (!attn_tensor_is_none(past) && !attn_add_size(shape[2], past->shape[2], &shape[2]))
        shape[2] = SIZE_MAX;
    if (!attn_shape_bytes(new->dtype, 4, shape, &bytes))
        return attn_fail(call->reader->error, ATTN_BAD_SHAPE, PAST[which],
                         "Past and new rows are more than can be counted.");
    const enum attn_status status =
        codec_request_take(call->file->input, call->reader, NEW[which], bytes, &memory);
    if (status != ATTN_OK)
        return status;
    const size_t head = bytes == 0 ? 0 : bytes / (shape[0] * shape[1]);
    for (size_t b = 0; bytes > 0 && b < shape[0]; b++)
        for (size_t h = 0; h < shape[1]; h++)
            join_head(past, new, b, h, (char *)memory + (b * shape[1] + h) * head);
    *new = attn_tensor_view(memory, new->dtype, 4, shape);
    return ATTN_OK;
}

static struct oip_output *output_of(struct oip_notes *notes, int source) {
    for (size_t i = 0; i < notes->output_count; i++)
        if (notes->outputs[i].row->source == source)
            return &notes->outputs[i];
    return NULL;
}

/* Keys or values as [B,H,T,D], with the past where there is one; and what is present. */
static enum attn_status take_rows(const struct onnx_call *call, int which,
                                  struct attn_tensor *operand) {
    struct oip_notes *const notes = call->notes;
    struct oip_output *const present = output_of(notes, OIP_PRESENT_KEY + which);
    const bool has_past =
        !attn_tensor_is_none(&notes->onnx.past[0]) || !attn_tensor_is_none(&notes->onnx.past[1]);
    const bool is_split = operand->rank == 3;
    struct attn_tensor rows = with_heads(operand, (size_t)notes->onnx.kv_num_heads);
    if (present != NULL && !notes->listed)
        present->wanted = has_past;
    const bool wanted = present != NULL && present->wanted;
    enum attn_status status = has_past ? check_past(call, which, &rows) : ATTN_OK;
    if (status == ATTN_OK && (has_past || (wanted && is_split)))
        status = join(call, which, &rows);
    if (wanted)
        notes->present[which] = rows;
    *operand = is_split ? tokens_first(rows) : rows;
    return status;
}

static enum attn_status no_memory(const struct onnx_call *call) {
    return attn_fail(call->reader->error, ATTN_NO_MEMORY, "", "There is no memory now.");
}

/* A mask of all keys: what it does not reach is hidden. */
static enum attn_status continue_mask(const struct onnx_call *call, size_t keys,
                                      struct attn_tensor *mask) {
    const size_t size = attn_dtype_size(mask->dtype), reached = mask->shape[mask->rank - 1];
    const bool is_bool = mask->dtype == ATTN_BOOL;
    size_t shape[ATTN_MAX_RANK], bytes;
    void *memory;
    memcpy(shape, mask->shape, sizeof shape);
    shape[mask->rank - 1] = keys;
    if (!attn_shape_bytes(mask->dtype, mask->rank, shape, &bytes))
        return attn_fail(call->reader->error, ATTN_BAD_SHAPE, "attn_mask",
                         "The mask over all keys would be larger than can be counted.");
    const enum attn_status status =
        codec_request_take(call->file->input, call->reader, "attn_mask", bytes, &memory);
    if (status != ATTN_OK)
        return status;
    /* Keys without elements may be more than bytes can be counted for, in a mask without rows. */
    for (size_t row = 0; bytes > 0 && row < bytes / size / keys; row++) {
        char *const to = (char *)memory + row * keys * size;
        memcpy(to, (const char *)mask->data + row * reached * size, reached * size);
        if (is_bool)
            memset(to + reached, 0, keys - reached);
        else
            attn_fill(mask->dtype, to + reached * size, keys - reached, -INFINITY);
    }
    *mask = attn_tensor_view(memory, mask->dtype, mask->rank, shape);
    return ATTN_OK;
}

/* The mask over all keys, of rank 4 where it had rank 1. */
static enum attn_status take_mask(const struct onnx_call *call, size_t keys) {
    struct attn_tensor *const mask = &call->notes->onnx.mask;
    enum attn_status status = ATTN_OK;
    if (attn_tensor_is_none(mask))
        return ATTN_OK;
    if (attn_dtype_class(mask->dtype) == ATTN_CLASS_INT || mask->rank < 1)
        return attn_fail(call->reader->error, ATTN_BAD_DTYPE, "attn_mask",
                         "attn_mask should be BOOL, or floating-point numbers that are added, with "
                         "an axis of keys at least.");
    if (mask->shape[mask->rank - 1] < keys)
        status = continue_mask(call, keys, mask);
    if (status == ATTN_OK && mask->rank == 1)
        *mask =
            attn_tensor_view(mask->data, mask->dtype, 4, (const size_t[]){1, 1, 1, mask->shape[0]});
    return status;
}

static struct attn_mask_node *add_node(struct attn_mask *mask, enum attn_mask_kind kind,
                                       const char *pointer) {
    struct attn_mask_node *const node = &mask->nodes[mask->count++];
    *node = (struct attn_mask_node){
        .kind = kind, .tensor = attn_tensor_none(), .kv = attn_tensor_none()};
    memcpy(node->pointer, pointer, strlen(pointer) + 1);
    return node;
}

/* What has to hold of a position for it to be seen. */
static enum attn_status make_mask(const struct onnx_call *call) {
    enum { NODES = 5 };
    const struct oip_onnx *const onnx = &call->notes->onnx;
    struct attn_mask mask = {storage_take_array(call->reader->storage, NODES, sizeof *mask.nodes),
                             0};
    if (mask.nodes == NULL)
        return no_memory(call);
    if (onnx->is_causal != 0)
        add_node(&mask, ATTN_MASK_CAUSAL, "/is_causal");
    if (onnx->left >= 0 || onnx->right >= 0) {
        struct attn_mask_node *const node = add_node(&mask, ATTN_MASK_WINDOW, "/left_window_size");
        node->left = onnx->left;
        node->right = onnx->right;
    }
    if (onnx->lengths.values != NULL)
        add_node(&mask, ATTN_MASK_PADDING, "/nonpad_kv_seqlen")->kv_lengths = onnx->lengths;
    if (onnx->mask.dtype == ATTN_BOOL && !attn_tensor_is_none(&onnx->mask))
        add_node(&mask, ATTN_MASK_ALLOW, "/attn_mask")->tensor = onnx->mask;
    else
        attention_of(call)->bias = onnx->mask;
    if (mask.count > 1) {
        const size_t operands = mask.count;
        add_node(&mask, ATTN_MASK_ALL, "/mask")->operands = operands;
    }
    attention_of(call)->mask = mask;
    return ATTN_OK;
}

/* Query 0 stands behind the past; or so that the last query stands at the last key that counts; or
   at key 0. */
static enum attn_status place_queries(const struct onnx_call *call, size_t queries) {
    const struct oip_onnx *const onnx = &call->notes->onnx;
    const bool by_length = onnx->lengths.values != NULL;
    const size_t count = by_length ? attn_max_size(onnx->lengths.count, 1) : 1;
    int64_t *const offsets = storage_take_array(call->reader->storage, count, sizeof *offsets);
    if (offsets == NULL)
        return no_memory(call);
    offsets[0] = attn_tensor_is_none(&onnx->past[0]) ? 0 : (int64_t)onnx->past[0].shape[2];
    for (size_t b = 0; by_length && b < onnx->lengths.count; b++)
        offsets[b] = attn_sub_saturating(onnx->lengths.values[b], (int64_t)queries);
    attention_of(call)->q_offset = (struct attn_int_list){offsets, count};
    return ATTN_OK;
}

/* What is computed, in which precision, and in which type it comes back. */
static void choose_results(const struct onnx_call *call) {
    struct attn_request *const request = attention_of(call);
    struct oip_notes *const notes = call->notes;
    for (size_t i = 0; i < notes->output_count; i++) {
        struct oip_output *const output = &notes->outputs[i];
        if (!notes->listed && output->row->source == ATTN_RESULT_OUTPUT)
            output->wanted = true;
        if (output->wanted)
            request->returns |= output->row->returns;
    }
    notes->map_as_q = true;
    notes->q_dtype = request->q.dtype;
    if (!notes->onnx.in_double || request->q.dtype == ATTN_FLOAT64)
        return;
    request->precision = ATTN_PRECISION_FLOAT64;
    request->output_dtype_given = true;
    request->output_dtype = request->q.dtype;
}

enum attn_status oip_onnx_complete(const struct oip_file *file, const struct json_reader *reader,
                                   struct codec_request *request) {
    const struct onnx_call call = {file, reader, request, oip_notes_of(request)};
    struct attn_request *const attention = &request->attention;
    enum attn_status status = check_operands(&call);
    if (status != ATTN_OK)
        return status;
    const bool is_split = attention->q.rank == 3;
    const struct attn_tensor q = with_heads(&attention->q, (size_t)call.notes->onnx.q_num_heads);
    attention->q = is_split ? tokens_first(q) : q;
    attention->layout = is_split ? ATTN_LAYOUT_BTHD : ATTN_LAYOUT_BHTD;
    call.notes->folds_heads = is_split;
    status = take_rows(&call, 0, &attention->k);
    if (status == ATTN_OK)
        status = take_rows(&call, 1, &attention->v);
    if (status == ATTN_OK)
        status = take_mask(&call, attention->k.shape[is_split ? 1 : 2]);
    if (status == ATTN_OK)
        status = place_queries(&call, q.shape[2]);
    if (status == ATTN_OK)
        status = make_mask(&call);
    if (status == ATTN_OK)
        choose_results(&call);
    return status;
}
