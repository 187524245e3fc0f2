/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/png: the map of an attention call, a panel per batch item and head. It takes the map from
 * the call, pooled where it is too large to be looked at, and nothing else; it refuses lists and
 * numbers, which are no picture. Its results lie in scratch, pixels behind the file that is made of
 * them.
 */
#include "server/codecs/codec_png.h"

#include <stdio.h>

#include "core/checked.h"
#include "server/codecs/codec_png_draw.h"

static enum attn_status refuse_numbers(const struct attn_call *call, struct attn_error *error) {
    if (call->top_k > 0)
        return attn_fail(
            error, ATTN_BAD_VALUE, "/weights/top_k",
            "A picture shows a map, and top_k lists keys. Leave top_k out, or take the "
            "answer as application/json.");
    if (call->returns & (ATTN_RETURN_STATS | ATTN_RETURN_COL_SUMS))
        return attn_fail(error, ATTN_BAD_VALUE, "/return",
                         "A picture shows a map and holds no %s. Ask for them in a call of their "
                         "own, or take the answer as application/json.",
                         call->returns & ATTN_RETURN_STATS ? "stats" : "col_sums");
    return ATTN_OK;
}

/* Weights of 0 are hidden or not, which their scores tell. */
static void select_maps(struct attn_call *call) {
    const unsigned both = ATTN_RETURN_WEIGHTS | ATTN_RETURN_SCORES;
    if ((call->returns & both) == ATTN_RETURN_SCORES) {
        call->returns = ATTN_RETURN_SCORES;
        return;
    }
    const bool may_hide = call->mask.count > 0 || !attn_tensor_is_none(&call->bias);
    call->returns = call->stage == ATTN_STAGE_WEIGHTS && may_hide ? both : ATTN_RETURN_WEIGHTS;
}

static enum attn_status select_map(struct attn_call *call, struct attn_error *error) {
    size_t panels;
    if (refuse_numbers(call, error) != ATTN_OK)
        return error->status;
    select_maps(call);
    if (!attn_mul_size(call->B, attn_call_map_planes(call), &panels) || panels > PNG_PANELS_MOST)
        return attn_fail_limit(error, ATTN_RESULT_TOO_LARGE, "/weights/heads", PNG_PANELS_MOST,
                               "A picture has at most %d panels, and this call has %zu heads in "
                               "each of %zu batch items. Choose some with \"weights\": "
                               "{\"heads\": [0, 1]}, or say \"mean\" or \"max\".",
                               PNG_PANELS_MOST, attn_call_map_planes(call), call->B);
    const size_t side = png_longest_side(panels);
    if (call->pooled && (call->pool_rows > side || call->pool_cols > side))
        return attn_fail_limit(error, ATTN_RESULT_TOO_LARGE, "/weights/pool", (double)side,
                               "In a picture of %zu panel%s a pool has at most %zu rows and cols. "
                               "Ask for fewer, or leave pool out to have it chosen.",
                               panels, attn_plural(panels), side);
    return attn_call_fit_map(call, side, error);
}

/* Bytes of scratch, of the file's room, and of the pixels behind it. */
struct sizes {
    size_t scratch, file, pixels, buffer;
};

static bool reckon(const struct attn_call *call, const struct codec_request *request,
                   const struct attn_result *result, struct png_layout *layout,
                   struct sizes *sizes) {
    *sizes = (struct sizes){0};
    for (int i = 0; i < ATTN_RESULT_COUNT; i++) {
        size_t bytes;
        if (result->tensors[i].wanted &&
            (!attn_round_up_size(result->tensors[i].bytes, CODEC_ALIGNMENT, &bytes) ||
             !attn_add_size(sizes->scratch, bytes, &sizes->scratch)))
            return false;
    }
    png_layout_make(call, request, layout);
    return attn_mul_size(layout->width, layout->height, &sizes->pixels) &&
           png_file_room(layout->width, layout->height, &sizes->file) &&
           attn_add_size(sizes->file, sizes->pixels, &sizes->buffer);
}

static bool answer_bytes(const struct attn_call *call, const struct codec_request *request,
                         const struct attn_result *result, size_t *bytes) {
    struct png_layout layout;
    struct sizes sizes;
    return reckon(call, request, result, &layout, &sizes) &&
           attn_add_size(sizes.scratch, sizes.buffer, bytes);
}

static enum attn_status lay_out(const struct attn_call *call, const struct codec_request *request,
                                struct attn_result *result, struct codec_answer *answer,
                                struct attn_error *error) {
    struct png_layout layout;
    struct sizes sizes;
    *answer = (struct codec_answer){.media_type = CODEC_PNG.media_type};
    if (!reckon(call, request, result, &layout, &sizes))
        return attn_fail(error, ATTN_RESULT_TOO_LARGE, "",
                         "The picture would be larger than can be addressed.");
    answer->scratch_bytes = sizes.scratch;
    answer->capacity = sizes.buffer;
    return codec_answer_take(answer, result, error);
}

static enum attn_status finish(const struct codec_report *report,
                               const struct codec_request *request,
                               const struct attn_result *result, struct codec_answer *answer,
                               struct attn_error *error) {
    struct png_layout layout;
    struct sizes sizes;
    struct png_scale scale;
    struct png_captions captions = {.heading = ""};
    char description[3 * PNG_CAPTION_ROOM + 8];
    const struct png_map map = png_map_of(report->call, result);
    reckon(report->call, request, result, &layout, &sizes);
    const struct png_canvas canvas = {(unsigned char *)answer->buffer + sizes.file, layout.width,
                                      layout.height};
    png_scale_of(&map, report->call, &scale);
    png_captions_make(report->call, &map, &scale, &captions);
    const struct png_drawing drawing = {
        report->call, &layout, &map, &scale, &captions, &canvas, png_text_open(report->typeface)};
    png_draw(&drawing);
    png_text_close(drawing.text);
    snprintf(description, sizeof description, "%s; %s; %s", captions.heading, captions.axes,
             captions.scale);
    return png_file_write(&canvas, scale.ramp, description, answer->buffer, sizes.file,
                          &answer->length, error);
}

const struct codec CODEC_PNG = {
    .name = "png",
    .media_type = "image/png",
    .encodes = true,
    .draws = true,
    .select = select_map,
    .answer_bytes = answer_bytes,
    .lay_out = lay_out,
    .finish = finish,
};
