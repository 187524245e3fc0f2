/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `labels`: a text for each query and each key, {"q": [...], "k": [...]}, one list for all batch
 * items or a list for each. Whether there are as many as tokens is decided by codec_labels_check.
 */
#include <string.h>

#include "core/checked.h"
#include "server/options/options_table.h"

/* The list's elements; a document of its own when the words for numbers that are not finite had it
   taken for a list of numbers. */
struct texts {
    struct json_value list;
    size_t skipped; /* elements in front that are not the caller's */
    struct json_document document;
    bool opened;
};

/* Where labels go. */
struct label_writer {
    struct options *options;
    struct codec_labels *labels;
    struct codec_label *at; /* the next one */
};

/* Labels may be called NaN or Infinity. An empty text in front tells them from numbers. */
static enum attn_status open_numbers(const struct json_reader *reader, struct json_value value,
                                     struct texts *texts) {
    static const char front[] = "[\"\",";
    const struct json_cut *const cut = json_value_cut(value);
    const size_t length = sizeof front - 1 + cut->length - 1;
    char *const text = storage_take(reader->storage, length);
    if (text == NULL)
        return attn_fail(reader->error, ATTN_NO_MEMORY, "", "There is no memory now.");
    memcpy(text, front, sizeof front - 1);
    memcpy(text + sizeof front - 1, value.document->text + cut->offset + 1, cut->length - 1);
    const enum attn_status status =
        json_document_open(&texts->document, "A list of labels", text, length, reader->error);
    texts->opened = status == ATTN_OK;
    texts->skipped = 1;
    if (texts->opened)
        texts->list = json_document_root(&texts->document);
    return status;
}

static void texts_close(struct texts *texts) {
    if (texts->opened)
        json_document_close(&texts->document);
}

static enum attn_status texts_open(struct options *options, struct json_value value,
                                   const char *pointer, struct texts *texts) {
    char came[JSON_DESCRIPTION_ROOM];
    *texts = (struct texts){.list = value};
    if (json_value_kind(value) == JSON_KIND_NUMBERS)
        return open_numbers(&options->reader, value, texts);
    if (json_value_kind(value) == JSON_KIND_LIST)
        return ATTN_OK;
    return attn_fail(options->reader.error, ATTN_BAD_TYPE, pointer,
                     "Expected a list of texts, one for each token, or such a list for each batch "
                     "item, but %s came.",
                     json_value_describe(value, came));
}

static size_t texts_count(const struct texts *texts) {
    return json_array_size(texts->list.node) - texts->skipped;
}

static struct json_value texts_item(const struct texts *texts, size_t index) {
    return json_value_item(texts->list, index + texts->skipped);
}

static enum attn_status take_label(struct label_writer *writer, struct json_value value,
                                   const char *pointer) {
    const struct json_reader *const reader = &writer->options->reader;
    const enum json_kind kind = json_value_kind(value);
    char came[JSON_DESCRIPTION_ROOM];
    const char *text;
    size_t length;
    if (kind != JSON_KIND_TEXT && kind != JSON_KIND_LONG_TEXT)
        return attn_fail(reader->error, ATTN_BAD_TYPE, pointer,
                         "Expected a text as the label of a token, but %s came.",
                         json_value_describe(value, came));
    const enum attn_status status = json_value_text(reader, value, pointer, &text, &length);
    if (status == ATTN_OK)
        *writer->at++ = codec_label_of(text, length);
    return status;
}

static enum attn_status take_list(struct label_writer *writer, const struct texts *texts,
                                  const char *pointer) {
    char where[JSON_POINTER_ROOM];
    enum attn_status status = ATTN_OK;
    for (size_t i = 0; status == ATTN_OK && i < writer->labels->count; i++)
        status = take_label(writer, texts_item(texts, i), json_pointer_index(where, pointer, i));
    return status;
}

/* Room for `lists` lists of `count` labels. */
static enum attn_status reserve(struct label_writer *writer, size_t lists, size_t count) {
    size_t all;
    struct codec_label *labels = NULL;
    if (attn_mul_size(lists, count, &all))
        labels = storage_take_array(writer->options->reader.storage, all, sizeof *labels);
    if (labels == NULL)
        return attn_fail(writer->options->reader.error, ATTN_NO_MEMORY, "",
                         "There is no memory now.");
    *writer->labels = (struct codec_labels){labels, lists, count};
    writer->at = labels;
    return ATTN_OK;
}

static enum attn_status take_item(struct label_writer *writer, const struct texts *lists,
                                  size_t index, const char *pointer) {
    struct texts texts;
    enum attn_status status =
        texts_open(writer->options, texts_item(lists, index), pointer, &texts);
    if (status == ATTN_OK && index == 0)
        status = reserve(writer, texts_count(lists), texts_count(&texts));
    if (status == ATTN_OK && texts_count(&texts) != writer->labels->count)
        status = attn_fail(writer->options->reader.error, ATTN_BAD_SHAPE, pointer,
                           "The first list has %zu label%s, and this one %zu. All batch items have "
                           "equally many tokens; label padding too.",
                           writer->labels->count, attn_plural(writer->labels->count),
                           texts_count(&texts));
    if (status == ATTN_OK)
        status = take_list(writer, &texts, pointer);
    texts_close(&texts);
    return status;
}

static bool holds_lists(const struct texts *texts) {
    if (texts_count(texts) == 0)
        return false;
    const enum json_kind first = json_value_kind(texts_item(texts, 0));
    return first == JSON_KIND_LIST || first == JSON_KIND_NUMBERS;
}

static enum attn_status read_side(struct options *options, struct json_value value,
                                  const char *pointer, struct codec_labels *labels) {
    struct label_writer writer = {options, labels, NULL};
    struct texts texts;
    char where[JSON_POINTER_ROOM];
    *labels = (struct codec_labels){NULL, 0, 0};
    enum attn_status status = texts_open(options, value, pointer, &texts);
    if (status == ATTN_OK && holds_lists(&texts)) {
        for (size_t i = 0; status == ATTN_OK && i < texts_count(&texts); i++)
            status = take_item(&writer, &texts, i, json_pointer_index(where, pointer, i));
    } else if (status == ATTN_OK) {
        status = reserve(&writer, 1, texts_count(&texts));
        if (status == ATTN_OK)
            status = take_list(&writer, &texts, pointer);
    }
    texts_close(&texts);
    return status;
}

enum attn_status options_apply_labels(struct options *options, struct json_value value,
                                      const char *pointer) {
    char came[JSON_DESCRIPTION_ROOM], where[JSON_POINTER_ROOM], shown[40];
    struct codec_request *const request = options->request;
    if (json_value_kind(value) != JSON_KIND_OBJECT)
        return attn_fail(options->reader.error, ATTN_BAD_TYPE, pointer,
                         "Expected an object such as {\"q\": [\"the\", \"cat\"], \"k\": [\"the\", "
                         "\"cat\"]}, but %s came.",
                         json_value_describe(value, came));
    const char *name;
    json_t *node;
    enum attn_status status = ATTN_OK;
    json_object_foreach(value.node, name, node) {
        const bool is_q = strcmp(name, "q") == 0;
        const struct json_value side = {value.document, node};
        json_pointer_member(where, pointer, name);
        if (status != ATTN_OK)
            break;
        status =
            is_q || strcmp(name, "k") == 0
                ? read_side(options, side, where, is_q ? &request->q_labels : &request->k_labels)
                : attn_fail(options->reader.error, ATTN_UNKNOWN_FIELD, where,
                            "labels has no \"%s\". It has q and k, the texts of the queries "
                            "and of the keys.",
                            json_snippet(name, strlen(name), 0, shown, sizeof shown));
    }
    return status;
}
