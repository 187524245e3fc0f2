/* SPDX-License-Identifier: Apache-2.0 */
/* The model `attention`: the service's own call, with inputs that are options in themselves. */
#include <stdio.h>
#include <string.h>

#include "server/codecs/codec_oip_notes.h"
#include "server/options/options_mask.h"
#include "server/options/options_table.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Inputs that are the option of their name, and its value as JSON. */
static const struct {
    const char *name, *text;
} OPTIONS[] = {
    {"q_offset", "\"q_offset\""},
    {"alibi", "\"alibi\""},
    {"sink", "\"sink\""},
};

/*
 * Inputs that are a part of the mask, which joins the others and the option of that name. The first
 * row counts whose inputs are all there, unless an option has named them already.
 */
static const struct leaf {
    const char *name, *beside, *text;
} LEAVES[] = {
    {"allow", NULL, "{\"type\":\"allow\",\"tensor\":\"allow\"}"},
    {"hide", NULL, "{\"type\":\"hide\",\"tensor\":\"hide\"}"},
    {"keep", NULL, "{\"type\":\"padding\",\"keep\":\"keep\"}"},
    {"kv_lengths", "q_lengths",
     "{\"type\":\"padding\",\"kv_lengths\":\"kv_lengths\",\"q_lengths\":\"q_lengths\"}"},
    {"kv_lengths", NULL, "{\"type\":\"padding\",\"kv_lengths\":\"kv_lengths\"}"},
    {"q_lengths", NULL, "{\"type\":\"padding\",\"q_lengths\":\"q_lengths\"}"},
    {"q_segments", "kv_segments",
     "{\"type\":\"segments\",\"q\":\"q_segments\",\"kv\":\"kv_segments\"}"},
    {"q_segments", NULL, "{\"type\":\"segments\",\"q\":\"q_segments\"}"},
};

static bool has_input(const struct oip_file *file, const char *name) {
    return oip_file_find(file, name) < file->input_count;
}

enum attn_status oip_attention_give(const struct oip_file *file, struct options *options) {
    const size_t returns = schema_option(options->schema, "return");
    const size_t encoding = schema_option(options->schema, "encoding");
    enum attn_status status = ATTN_OK;
    if (file->output_count > 0 && options->given[returns].node != NULL)
        return attn_fail(options->reader.error, ATTN_OPTION_TWICE, "/parameters/return",
                         "outputs says what comes back; leave out the parameter return.");
    if (options->given[encoding].node != NULL)
        return attn_fail(options->reader.error, ATTN_UNKNOWN_FIELD, "/parameters/encoding",
                         "Outputs come as flat lists, or as bytes where binary_data or "
                         "binary_data_output is true; leave out encoding.");
    for (size_t i = 0; status == ATTN_OK && i < COUNT(OPTIONS); i++) {
        const size_t option = schema_option(options->schema, OPTIONS[i].name);
        struct json_value value;
        bool known;
        if (options->given[option].node != NULL || !has_input(file, OPTIONS[i].name))
            continue;
        status = options_open_text(options, OPTIONS[i].name, OPTIONS[i].text, &value);
        if (status == ATTN_OK)
            status = options_give(options, OPTIONS[i].name, value, &known);
    }
    return status;
}

/* An input that is there and that no option has named. */
static bool is_free(const struct oip_file *file, const bool *used, const char *name) {
    const size_t input = oip_file_find(file, name);
    return input < file->input_count && !used[input];
}

static enum attn_status read_leaf(struct options *options, const struct leaf *leaf,
                                  struct attn_mask_node *node) {
    struct json_value value;
    *node = (struct attn_mask_node){.tensor = attn_tensor_none(), .kv = attn_tensor_none()};
    snprintf(node->pointer, sizeof node->pointer, "/%s", leaf->name);
    const enum attn_status status = options_open_text(options, leaf->name, leaf->text, &value);
    return status == ATTN_OK ? options_mask_leaf(options, value, node->pointer, node) : status;
}

/* The option's mask and the leaves that inputs are, all of which have to hold. */
enum attn_status oip_attention_settle(const struct oip_file *file, struct options *options,
                                      const bool *used) {
    struct attn_mask *const mask = &options->request->attention.mask;
    size_t operands = mask->count > 0, count = mask->count;
    struct attn_mask_node *const nodes =
        storage_take_array(options->reader.storage, mask->count + COUNT(LEAVES) + 1, sizeof *nodes);
    if (nodes == NULL)
        return attn_fail(options->reader.error, ATTN_NO_MEMORY, "", "There is no memory now.");
    if (count > 0)
        memcpy(nodes, mask->nodes, count * sizeof *nodes);
    for (size_t i = 0; i < COUNT(LEAVES); i++) {
        const struct leaf *const leaf = &LEAVES[i];
        if (!is_free(file, used, leaf->name) ||
            (leaf->beside != NULL && !is_free(file, used, leaf->beside)))
            continue;
        const enum attn_status status = read_leaf(options, leaf, &nodes[count]);
        if (status != ATTN_OK)
            return status;
        count++;
        operands++;
    }
    if (count == mask->count)
        return ATTN_OK;
    if (operands > 1)
        nodes[count++] = (struct attn_mask_node){.kind = ATTN_MASK_ALL,
                                                 .operands = operands,
                                                 .tensor = attn_tensor_none(),
                                                 .kv = attn_tensor_none(),
                                                 .pointer = "/mask"};
    if (count > ATTN_MASK_MAX_NODES)
        return attn_fail_limit(options->reader.error, ATTN_BAD_MASK, "/mask", ATTN_MASK_MAX_NODES,
                               "The mask has more than %d parts, those that are inputs included. A "
                               "mask this irregular is an allow tensor.",
                               ATTN_MASK_MAX_NODES);
    *mask = (struct attn_mask){nodes, count};
    return ATTN_OK;
}

/* Maps come as their largest elements or as they are. */
static enum attn_status check_map(const struct codec_request *request,
                                  const struct oip_output_row *row, struct attn_error *error) {
    const bool top_k = request->attention.map.top_k_given;
    const bool is_map = row->source == ATTN_RESULT_WEIGHTS || row->source == ATTN_RESULT_SCORES;
    if (row->needs_an_option && !top_k)
        return attn_fail(error, ATTN_BAD_VALUE, "/outputs",
                         "%s needs the parameter weights with a top_k, such as {\"top_k\":8}.",
                         row->name);
    if (is_map && top_k)
        return attn_fail(error, ATTN_BAD_VALUE, "/outputs",
                         "With top_k the map comes as top_k_%s and top_k_indices; ask for those "
                         "instead of %s.",
                         row->name, row->name);
    return ATTN_OK;
}

/* An output that is listed is asked for; without a list the options say what is. */
enum attn_status oip_attention_complete(const struct oip_file *file,
                                        const struct json_reader *reader,
                                        struct codec_request *request) {
    struct oip_notes *const notes = oip_notes_of(request);
    const unsigned maps = ATTN_RETURN_WEIGHTS | ATTN_RETURN_SCORES;
    unsigned returns = 0;
    bool has_indices = false;
    (void)file;
    for (size_t i = 0; i < notes->output_count; i++) {
        struct oip_output *const output = &notes->outputs[i];
        if (!notes->listed) {
            output->wanted = true; /* if it is made */
            continue;
        }
        if (output->wanted && check_map(request, output->row, reader->error) != ATTN_OK)
            return reader->error->status;
        if (output->wanted)
            returns |= output->row->returns;
        has_indices |= output->wanted && output->row->source == ATTN_RESULT_TOP_K_INDICES;
    }
    if (has_indices && (returns & maps) == 0)
        returns |= ATTN_RETURN_WEIGHTS;
    if (notes->listed)
        request->attention.returns = returns;
    return ATTN_OK;
}
