/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a map, one function each; see capture_map.h. */
#include "server/captures/capture_map.h"

#include <string.h>

#include "core/checked.h"
#include "server/captures/capture_query.h"

enum { SIDE_DEFAULT = 512, SIDE_MOST = 4096 };

static enum attn_status take_batch(void *into, const char *value, const char *pointer,
                                   struct attn_error *error) {
    return capture_query_number(value, pointer, UINT32_MAX, &((struct map_wanted *)into)->batch,
                                error);
}

static enum attn_status take_head(void *into, const char *value, const char *pointer,
                                  struct attn_error *error) {
    struct map_wanted *wanted = into;
    uint64_t head;
    if (strcmp(value, "mean") == 0 || strcmp(value, "max") == 0) {
        wanted->head = value[1] == 'e' ? CAPTURE_HEADS_MEAN : CAPTURE_HEADS_MAX;
        return ATTN_OK;
    }
    if (capture_query_number(value, pointer, UINT32_MAX, &head, error) != ATTN_OK)
        return attn_fail(error, ATTN_BAD_VALUE, pointer,
                         "head is the number of a query head, mean or max; got \"%.40s\".", value);
    wanted->head = (int64_t)head;
    return ATTN_OK;
}

static enum attn_status take_stage(void *into, const char *value, const char *pointer,
                                   struct attn_error *error) {
    static const char *const words[] = {"raw", "scaled", "capped", "masked", "weights", NULL};
    size_t index = ATTN_STAGE_WEIGHTS;
    const enum attn_status status = capture_query_word(value, pointer, words, &index, error);
    ((struct map_wanted *)into)->stage = (enum attn_stage)index;
    return status;
}

static enum attn_status take_rows(void *into, const char *value, const char *pointer,
                                  struct attn_error *error) {
    return capture_query_range(value, pointer, ((struct map_wanted *)into)->rows, error);
}

static enum attn_status take_cols(void *into, const char *value, const char *pointer,
                                  struct attn_error *error) {
    return capture_query_range(value, pointer, ((struct map_wanted *)into)->cols, error);
}

static enum attn_status take_side(const char *value, const char *pointer, uint64_t *out,
                                  struct attn_error *error) {
    const enum attn_status status = capture_query_number(value, pointer, SIDE_MOST, out, error);
    if (status == ATTN_OK && *out == 0)
        return attn_fail(error, ATTN_BAD_VALUE, pointer, "%s is from 1 to %d, not 0.", pointer + 1,
                         SIDE_MOST);
    return status;
}

static enum attn_status take_width(void *into, const char *value, const char *pointer,
                                   struct attn_error *error) {
    return take_side(value, pointer, &((struct map_wanted *)into)->width, error);
}

static enum attn_status take_height(void *into, const char *value, const char *pointer,
                                    struct attn_error *error) {
    return take_side(value, pointer, &((struct map_wanted *)into)->height, error);
}

static enum attn_status take_op(void *into, const char *value, const char *pointer,
                                struct attn_error *error) {
    static const char *const words[] = {"max", "mass", NULL};
    return capture_query_word(value, pointer, words, &((struct map_wanted *)into)->op, error);
}

static enum attn_status take_format(void *into, const char *value, const char *pointer,
                                    struct attn_error *error) {
    static const char *const words[] = {"f16", "json", "png", "npy", NULL};
    return capture_query_word(value, pointer, words, &((struct map_wanted *)into)->format, error);
}

static enum attn_status take_preview(void *into, const char *value, const char *pointer,
                                     struct attn_error *error) {
    static const char *const words[] = {"0", "1", NULL};
    return capture_query_word(value, pointer, words, &((struct map_wanted *)into)->preview, error);
}

static enum attn_status take_timeout(void *into, const char *value, const char *pointer,
                                     struct attn_error *error) {
    return capture_query_number(value, pointer, 1000000000,
                                &((struct map_wanted *)into)->timeout_ms, error);
}

static const struct capture_argument ARGUMENTS[] = {
    {"batch", take_batch},        {"head", take_head},
    {"stage", take_stage},        {"rows", take_rows},
    {"cols", take_cols},          {"width", take_width},
    {"height", take_height},      {"op", take_op},
    {"format", take_format},      {"preview", take_preview},
    {"timeout_ms", take_timeout},
};

/* An axis' bins: no more than it has tokens. */
static enum attn_status choose_axis(int64_t range[2], size_t tokens, uint64_t cells,
                                    const char *pointer, struct tile_axis *axis,
                                    struct attn_error *error) {
    if (range[1] < 0)
        range[1] = (int64_t)tokens;
    if (range[0] > range[1] || (uint64_t)range[1] > tokens || range[0] == range[1])
        return attn_fail(error, ATTN_BAD_VALUE, pointer,
                         "%s must be first:end with 0 <= first < end <= %zu, got %lld:%lld.",
                         pointer + 1, tokens, (long long)range[0], (long long)range[1]);
    axis->first = (size_t)range[0];
    axis->end = (size_t)range[1];
    axis->cells = attn_min_size(axis->end - axis->first, (size_t)cells);
    return ATTN_OK;
}

enum attn_status map_wanted_read(const struct exchange *exchange, const struct capture *capture,
                                 struct map_wanted *wanted, struct attn_error *error) {
    *wanted = (struct map_wanted){.width = SIDE_DEFAULT,
                                  .height = SIDE_DEFAULT,
                                  .stage = ATTN_STAGE_WEIGHTS,
                                  .rows = {0, -1},
                                  .cols = {0, -1}};
    const struct attn_call *kept = &capture->kept->call;
    if (capture_query_read(exchange, ARGUMENTS, sizeof ARGUMENTS / sizeof *ARGUMENTS, wanted,
                           error) != ATTN_OK ||
        choose_axis(wanted->rows, kept->Tq, wanted->height, "/rows", &wanted->row_axis, error) !=
            ATTN_OK ||
        choose_axis(wanted->cols, kept->Tk, wanted->width, "/cols", &wanted->col_axis, error) !=
            ATTN_OK)
        return error->status;
    if (wanted->batch >= kept->B)
        return attn_fail(error, ATTN_BAD_VALUE, "/batch",
                         "batch must be below the capture's B = %zu, got %llu.", kept->B,
                         (unsigned long long)wanted->batch);
    if (wanted->head >= (int64_t)kept->Hq)
        return attn_fail(error, ATTN_BAD_VALUE, "/head",
                         "head must be below the capture's Hq = %zu, got %lld.", kept->Hq,
                         (long long)wanted->head);
    return ATTN_OK;
}
