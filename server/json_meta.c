/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer says about its call. */
#include "server/json_meta.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

static void write_shape(struct json_text *text, const struct attn_call *call) {
    const struct {
        const char *name;
        size_t value;
    } axes[] = {
        {"{\"B\":", call->B},   {",\"Hq\":", call->Hq}, {",\"Hkv\":", call->Hkv},
        {",\"Tq\":", call->Tq}, {",\"Tk\":", call->Tk}, {",\"D\":", call->D},
        {",\"Dv\":", call->Dv},
    };
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        json_text_literal(text, axes[i].name);
        json_text_size(text, axes[i].value);
    }
    json_text_literal(text, "}");
}

static void write_notes(struct json_text *text, const char *note) {
    json_text_literal(text, ",\"notes\":[");
    if (note != NULL)
        json_text_string(text, note);
    json_text_literal(text, "]");
}

static void write_timings(struct json_text *text, const struct codec_report *report) {
    json_text_literal(text, ",\"timings_ms\":{\"decode\":");
    json_text_milliseconds(text, report->decode_ms);
    json_text_literal(text, ",\"queue\":");
    json_text_milliseconds(text, report->queue_ms);
    json_text_literal(text, ",\"compute\":");
    json_text_milliseconds(text, report->compute_ms);
    json_text_literal(text, "},\"flops\":");
    json_text_number(text, report->flops);
}

void json_meta_write(struct json_text *text, const struct codec_report *report,
                     const struct attn_result *result) {
    const struct attn_call *const call = report->call;
    char mask[JSON_TEXT_MAX];
    json_text_literal(text, "{\"id\":");
    json_text_string(text, report->id == NULL ? "" : report->id);
    json_text_literal(text, ",\"shape\":");
    write_shape(text, call);
    json_text_literal(text, ",\"scale\":");
    json_text_number(text, call->scale);
    json_text_literal(text, ",\"mask\":");
    json_text_string(text, attn_mask_text(&call->mask, mask, sizeof mask));
    json_text_literal(text, ",\"kernel\":");
    json_text_string(text, report->kernel);
    json_text_literal(text, ",\"precision\":");
    json_text_string(text, call->precision == ATTN_PRECISION_FLOAT64 ? "float64" : "float32");
    json_text_literal(text, ",\"non_finite\":");
    json_text_literal(text, atomic_load(&result->non_finite) ? "true" : "false");
    json_text_literal(text, ",\"empty_rows\":");
    json_text_size(text, (size_t)atomic_load(&result->empty_rows));
    write_notes(text, call->note);
    write_timings(text, report);
    json_text_literal(text, "}");
}
