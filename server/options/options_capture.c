/* SPDX-License-Identifier: Apache-2.0 */
/* `capture`: what a call that is to be kept is called, and the grids that its tokens lie on. */
#include <string.h>

#include "server/options/options_table.h"

enum { TEXT_MOST = 200, LAYER_MOST = 1000000000 };

static struct codec_capture *capture_of(struct options *options) {
    return &options->request->capture;
}

static enum attn_status take_text(struct options *options, struct json_value value,
                                  const char *pointer, const char **out) {
    const struct json_reader *const reader = &options->reader;
    const enum json_kind kind = json_value_kind(value);
    char came[JSON_DESCRIPTION_ROOM];
    const char *text = NULL;
    size_t length = 0;
    if (kind != JSON_KIND_TEXT && kind != JSON_KIND_LONG_TEXT)
        return attn_fail(reader->error, ATTN_BAD_TYPE, pointer,
                         "Expected a text of at most %d bytes, but %s came.", TEXT_MOST,
                         json_value_describe(value, came));
    if (json_value_text(reader, value, pointer, &text, &length) != ATTN_OK)
        return reader->error->status;
    if (length > TEXT_MOST)
        return attn_fail(reader->error, ATTN_BAD_VALUE, pointer,
                         "A text of at most %d bytes is kept, and this one has %zu. Shorten it.",
                         TEXT_MOST, length);
    *out = storage_take_text(reader->storage, text, length);
    if (*out == NULL)
        return attn_fail(reader->error, ATTN_NO_MEMORY, "", "There is no memory now.");
    return ATTN_OK;
}

enum attn_status options_apply_capture_name(struct options *options, struct json_value value,
                                            const char *pointer) {
    return take_text(options, value, pointer, &capture_of(options)->name);
}

static enum attn_status take_run(struct options *options, struct json_value value,
                                 const char *pointer) {
    return take_text(options, value, pointer, &capture_of(options)->run);
}

static enum attn_status take_layer(struct options *options, struct json_value value,
                                   const char *pointer) {
    return json_value_int(&options->reader, value, pointer, 0, LAYER_MOST,
                          &capture_of(options)->layer);
}

/* Whether there are so many tokens is decided when the call is known. */
static enum attn_status take_grid(struct options *options, struct json_value value,
                                  const char *pointer, size_t grid[2]) {
    struct attn_int_list sides = {NULL, 0};
    const enum attn_status status = json_value_ints(&options->reader, value, pointer, &sides);
    if (status != ATTN_OK)
        return status;
    if (sides.count != 2 || sides.values[0] < 1 || sides.values[1] < 1 ||
        sides.values[0] > LAYER_MOST || sides.values[1] > LAYER_MOST)
        return attn_fail(options->reader.error, ATTN_BAD_VALUE, pointer,
                         "A grid is [rows, columns], two whole numbers from 1 to %d.", LAYER_MOST);
    grid[0] = (size_t)sides.values[0];
    grid[1] = (size_t)sides.values[1];
    return ATTN_OK;
}

static enum attn_status take_q_grid(struct options *options, struct json_value value,
                                    const char *pointer) {
    return take_grid(options, value, pointer, capture_of(options)->q_grid);
}

static enum attn_status take_k_grid(struct options *options, struct json_value value,
                                    const char *pointer) {
    return take_grid(options, value, pointer, capture_of(options)->k_grid);
}

static const struct option MEMBERS[] = {
    {"name", OPTION_BODY_ONLY, options_apply_capture_name},
    {"run", OPTION_BODY_ONLY, take_run},
    {"layer", OPTION_BODY_ONLY, take_layer},
    {"q_grid", OPTION_BODY_ONLY, take_q_grid},
    {"k_grid", OPTION_BODY_ONLY, take_k_grid},
};
enum { MEMBER_COUNT = sizeof MEMBERS / sizeof *MEMBERS };

static enum attn_status take_member(struct options *options, const char *name,
                                    struct json_value value, const char *pointer) {
    char where[JSON_POINTER_ROOM], shown[40];
    json_pointer_member(where, pointer, name);
    for (size_t i = 0; i < MEMBER_COUNT; i++)
        if (strcmp(MEMBERS[i].name, name) == 0)
            return MEMBERS[i].apply(options, value, where);
    return attn_fail(options->reader.error, ATTN_UNKNOWN_FIELD, where,
                     "capture has no \"%s\". It has name, run, layer, q_grid and k_grid.",
                     json_snippet(name, strlen(name), 0, shown, sizeof shown));
}

enum attn_status options_apply_capture(struct options *options, struct json_value value,
                                       const char *pointer) {
    char came[JSON_DESCRIPTION_ROOM];
    if (json_value_kind(value) != JSON_KIND_OBJECT)
        return attn_fail(options->reader.error, ATTN_BAD_TYPE, pointer,
                         "Expected an object such as {\"name\": \"layer 3\"}, but %s came.",
                         json_value_describe(value, came));
    *capture_of(options) = (struct codec_capture){.given = true, .layer = -1};
    const char *name;
    json_t *node;
    enum attn_status status = ATTN_OK;
    json_object_foreach(value.node, name, node) {
        if (status == ATTN_OK)
            status = take_member(options, name, (struct json_value){value.document, node}, pointer);
    }
    if (status == ATTN_OK && capture_of(options)->name == NULL)
        status = attn_fail(options->reader.error, ATTN_MISSING_FIELD, pointer,
                           "capture needs a name, a text by which it is found again.");
    return status;
}
