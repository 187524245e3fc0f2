/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer says about its call. */
#include "server/codecs/json_meta.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

struct axis {
    const char *name;
    size_t size;
};

static void write_axes(struct json_text *text, const struct axis *axes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        json_text_literal(text, axes[i].name);
        json_text_size(text, axes[i].size);
    }
    json_text_literal(text, "}");
}

static const char *precision_name(enum attn_precision precision) {
    return precision == ATTN_PRECISION_FLOAT64 ? "float64" : "float32";
}

static void write_call(struct json_text *text, const struct codec_report *report) {
    const struct attn_call *const call = report->call;
    const struct axis axes[] = {
        {"{\"B\":", call->B},   {",\"Hq\":", call->Hq}, {",\"Hkv\":", call->Hkv},
        {",\"Tq\":", call->Tq}, {",\"Tk\":", call->Tk}, {",\"D\":", call->D},
        {",\"Dv\":", call->Dv},
    };
    char mask[JSON_TEXT_MAX];
    write_axes(text, axes, sizeof axes / sizeof *axes);
    json_text_literal(text, ",\"scale\":");
    json_text_number(text, call->scale);
    json_text_literal(text, ",\"mask\":");
    json_text_string(text, attn_mask_text(&call->mask, mask, sizeof mask));
    json_text_literal(text, ",\"kernel\":");
    json_text_string(text, report->kernel);
    json_text_literal(text, ",\"precision\":");
    json_text_string(text, precision_name(call->precision));
}

static void write_merge(struct json_text *text, const struct attn_merge *merge) {
    const struct axis axes[] = {
        {"{\"P\":", merge->P}, {",\"B\":", merge->B},   {",\"H\":", merge->H},
        {",\"T\":", merge->T}, {",\"Dv\":", merge->Dv},
    };
    write_axes(text, axes, sizeof axes / sizeof *axes);
    json_text_literal(text, ",\"precision\":");
    json_text_string(text, precision_name(merge->precision));
}

static void write_step(struct json_text *text, const struct codec_step *step) {
    const struct axis axes[] = {{",\"session\":{\"layer\":", step->layer},
                                {",\"position\":", step->position},
                                {",\"length\":", step->length}};
    write_axes(text, axes, sizeof axes / sizeof *axes);
}

static void write_notes(struct json_text *text, const char *note) {
    json_text_literal(text, ",\"notes\":[");
    if (note != NULL)
        json_text_string(text, note);
    json_text_literal(text, "]");
}

static void write_capture(struct json_text *text, const struct codec_report *report) {
    if (report->capture_id == NULL && report->capture_refusal == NULL)
        return;
    json_text_literal(text, ",\"capture\":");
    if (report->capture_id == NULL) {
        json_text_string(text, report->capture_refusal);
        return;
    }
    json_text_literal(text, "{\"id\":");
    json_text_string(text, report->capture_id);
    json_text_literal(text, ",\"url\":\"/v1/captures/");
    json_text_literal(text, report->capture_id);
    json_text_literal(text, "\"}");
}

void json_meta_timings(struct json_text *text, const struct codec_report *report) {
    json_text_literal(text, ",\"timings_ms\":{\"decode\":");
    json_text_milliseconds(text, report->decode_ms);
    json_text_literal(text, ",\"queue\":");
    json_text_milliseconds(text, report->queue_ms);
    json_text_literal(text, ",\"compute\":");
    json_text_milliseconds(text, report->compute_ms);
    json_text_literal(text, "}");
}

void json_meta_write(struct json_text *text, const struct codec_report *report,
                     const struct attn_result *result) {
    json_text_literal(text, "{\"id\":");
    json_text_string(text, report->id == NULL ? "" : report->id);
    json_text_literal(text, ",\"shape\":");
    if (report->merge != NULL)
        write_merge(text, report->merge);
    else
        write_call(text, report);
    if (report->step != NULL)
        write_step(text, report->step);
    json_text_literal(text, ",\"non_finite\":");
    json_text_literal(text, atomic_load(&result->non_finite) ? "true" : "false");
    json_text_literal(text, ",\"empty_rows\":");
    json_text_size(text, (size_t)atomic_load(&result->empty_rows));
    write_notes(text, report->merge != NULL ? NULL : report->call->note);
    write_capture(text, report);
    json_meta_timings(text, report);
    json_text_literal(text, ",\"flops\":");
    json_text_number(text, report->flops);
    json_text_literal(text, "}");
}
