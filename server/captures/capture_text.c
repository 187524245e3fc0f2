/* SPDX-License-Identifier: Apache-2.0 */
/* A capture in JSON, member by member; see capture_text.h. */
#include "server/captures/capture_text.h"

#include <string.h>

#include "server/json/json_text.h"
#include "server/numbers/numbers.h"

void capture_text_number(struct text *out, double value) {
    char room[NUMBER_TEXT_ROOM + 16];
    struct json_text text = {.start = room, .capacity = sizeof room};
    json_text_number(&text, value);
    text_add(out, room, text.length);
}

void capture_text_numbers(struct text *out, const double *values, size_t count) {
    text_add(out, "[", 1);
    for (size_t n = 0; n < count; n++) {
        if (n > 0)
            text_add(out, ",", 1);
        capture_text_number(out, values[n]);
    }
    text_add(out, "]", 1);
}

static void write_grid(struct text *out, const char *name, const size_t grid[2]) {
    if (grid[0] == 0)
        text_format(out, ",\"%s\":null", name);
    else
        text_format(out, ",\"%s\":[%zu,%zu]", name, grid[0], grid[1]);
}

static void write_about(struct text *out, const struct capture *capture) {
    const struct codec_capture *about = &capture->about;
    text_format(out, "{\"id\":\"%s\",\"name\":", capture->id);
    text_json(out, about->name);
    text_format(out, ",\"run\":");
    if (about->run == NULL)
        text_format(out, "null");
    else
        text_json(out, about->run);
    if (about->layer < 0)
        text_format(out, ",\"layer\":null");
    else
        text_format(out, ",\"layer\":%lld", (long long)about->layer);
    write_grid(out, "q_grid", about->q_grid);
    write_grid(out, "k_grid", about->k_grid);
}

static void write_call(struct text *out, const struct capture *capture) {
    const struct attn_kept *kept = capture->kept;
    const struct attn_call *call = &kept->call;
    char mask[512];
    text_format(out,
                ",\"batch\":%zu,\"heads\":%zu,\"kv_heads\":%zu,\"queries\":%zu,\"keys\":%zu,"
                "\"head_dim\":%zu,\"dtype\":\"%s\",\"approximate\":%s",
                call->B, call->Hq, call->Hkv, call->Tq, call->Tk, call->D,
                attn_dtype_name(kept->given_dtype),
                kept->given_dtype != call->q.dtype ? "true" : "false");
    text_format(out, ",\"mask\":");
    text_json(out, attn_mask_text(&call->mask, mask, sizeof mask));
    text_format(out, ",\"scale\":");
    capture_text_number(out, call->scale);
    text_format(out, ",\"softcap\":");
    if (call->softcap > 0)
        capture_text_number(out, call->softcap);
    else
        text_format(out, "null");
    text_format(out, ",\"stages\":[\"raw\",\"scaled\",%s\"masked\",\"weights\"]",
                call->softcap > 0 ? "\"capped\"," : "");
}

static void write_labels(struct text *out, const struct codec_label *labels, size_t count) {
    text_add(out, "[", 1);
    for (size_t n = 0; n < count; n++) {
        char copy[sizeof labels->text + 1] = "";
        memcpy(copy, labels[n].text, labels[n].length);
        if (n > 0)
            text_add(out, ",", 1);
        text_json(out, copy);
    }
    text_add(out, "]", 1);
}

/* One list is all batch items'. */
static void write_tokens(struct text *out, const char *name, const struct codec_labels *labels) {
    text_format(out, ",\"%s\":%s", name, labels->lists == 0 ? "null" : "");
    if (labels->lists == 1)
        write_labels(out, labels->labels, labels->count);
    if (labels->lists <= 1)
        return;
    for (size_t list = 0; list < labels->lists; list++) {
        text_add(out, list == 0 ? "[" : ",", 1);
        write_labels(out, labels->labels + list * labels->count, labels->count);
    }
    text_add(out, "]", 1);
}

static void write_list(struct text *out, const char *name, const double *values, size_t count) {
    text_format(out, ",\"%s\":", name);
    if (values == NULL)
        text_format(out, "null");
    else
        capture_text_numbers(out, values, count);
}

static void write_offsets(struct text *out, const struct attn_call *call) {
    text_format(out, ",\"q_offset\":[");
    for (size_t n = 0; n < call->space.q_offset_count; n++)
        text_format(out, "%s%lld", n == 0 ? "" : ",", (long long)call->space.q_offset[n]);
    text_add(out, "]", 1);
}

static void write_options(struct text *out, const struct attn_call *call) {
    text_format(out, ",\"options\":{\"scale\":");
    capture_text_number(out, call->scale);
    text_format(out, ",\"score\":\"%s\",\"precision\":\"%s\",\"kernel\":\"%s\"",
                call->score == ATTN_SCORE_ADDITIVE ? "additive" : "scaled_dot",
                call->precision == ATTN_PRECISION_FLOAT64 ? "float64" : "float32", call->kernel);
    write_offsets(out, call);
    write_list(out, "alibi", call->alibi, call->Hq);
    write_list(out, "sink", call->sink, call->Hq);
    text_format(out, ",\"bias\":%s,\"rope\":%s}",
                attn_tensor_is_none(&call->bias) ? "false" : "true",
                call->rope.dims > 0 ? "true" : "false");
}

void capture_text_write(struct text *out, struct capture *capture, bool whole) {
    const bool has_tokens = capture->q_labels.lists > 0 || capture->k_labels.lists > 0;
    write_about(out, capture);
    write_call(out, capture);
    text_format(out, ",\"created\":");
    capture_text_number(out, capture->created);
    text_format(out, ",\"bytes\":%zu,\"pinned\":%s,\"has_tokens\":%s", capture->bytes,
                capture_is_pinned(capture) ? "true" : "false", has_tokens ? "true" : "false");
    if (whole) {
        write_tokens(out, "q_tokens", &capture->q_labels);
        write_tokens(out, "k_tokens", &capture->k_labels);
        write_options(out, &capture->kept->call);
    }
    text_add(out, "}", 1);
}
