/* SPDX-License-Identifier: Apache-2.0 */
/* OTLP in JSON; see trace_json.h. Whatever finds no memory is left out: jansson passes NULL on as
 * a failure, and a span that has no ids is not made. Text that is no UTF-8 is left out so, too. */
#include "server/tracing/trace_json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* From OTLP's definition of a span and its status. */
enum { KIND_INTERNAL = 1, KIND_SERVER = 2, STATUS_ERROR = 2, HOST_SIZE = 256 };

static void add_value(json_t *attributes, const char *key, const char *type, json_t *value) {
    json_array_append_new(attributes,
                          json_pack("{s:s, s:{s:o}}", "key", key, "value", type, value));
}

static void add_text(json_t *attributes, const char *key, const char *text) {
    json_t *const value = text == NULL || text[0] == '\0' ? NULL : json_string(text);
    if (value != NULL)
        add_value(attributes, key, "stringValue", value);
}

/* Its 64-bit numbers are strings, as everywhere in the JSON form of protocol buffers. */
static json_t *number(uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    return json_string(text);
}

static void add_number(json_t *attributes, const char *key, uint64_t value) {
    add_value(attributes, key, "intValue", number(value));
}

struct span {
    const char *name, *id, *parent;
    int kind;
    int64_t began, ended;
};

static json_t *span_json(const struct trace_record *record, const struct span *span) {
    json_t *const json =
        json_pack("{s:s, s:s, s:s, s:i, s:o, s:o}", "traceId", record->context.trace_id, "spanId",
                  span->id, "name", span->name, "kind", span->kind, "startTimeUnixNano",
                  number((uint64_t)(span->began + record->since_1970)), "endTimeUnixNano",
                  number((uint64_t)(span->ended + record->since_1970)));
    if (span->parent[0] != '\0')
        json_object_set_new(json, "parentSpanId", json_string(span->parent));
    if (record->state[0] != '\0')
        json_object_set_new(json, "traceState", json_string(record->state));
    return json;
}

/* Names are those of OpenTelemetry's conventions for HTTP, where they have one. */
static json_t *attributes_json(const struct trace_record *record) {
    json_t *const list = json_array();
    char status[24];
    snprintf(status, sizeof status, "%d", record->status);
    add_text(list, "http.request.method", record->method == NULL ? "_OTHER" : record->method);
    add_text(list, "http.route", record->route);
    add_text(list, "url.path", record->path);
    add_number(list, "http.response.status_code", (uint64_t)record->status);
    add_number(list, "http.request.body.size", record->body_bytes);
    add_number(list, "http.response.body.size", record->answer_bytes);
    add_text(list, "error.type", record->status >= 500 ? status : NULL);
    add_text(list, "attentiond.request_id", record->id);
    add_text(list, "attentiond.kernel", record->kernel);
    add_text(list, "attentiond.shape", record->shape);
    add_text(list, "attentiond.problem", record->problem);
    return list;
}

static void add_server_span(json_t *spans, const struct trace_record *record) {
    char name[160];
    const char *const method = record->method == NULL ? "HTTP" : record->method;
    snprintf(name, sizeof name, "%s%s%s", method, record->route == NULL ? "" : " ",
             record->route == NULL ? "" : record->route);
    const struct span span = {name,        record->context.span_id, record->context.parent_id,
                              KIND_SERVER, record->began,           record->ended};
    json_t *const json = span_json(record, &span);
    json_object_set_new(json, "attributes", attributes_json(record));
    if (record->status >= 500)
        json_object_set_new(json, "status", json_pack("{s:i}", "code", STATUS_ERROR));
    json_array_append_new(spans, json);
}

static void add_stages(json_t *spans, const struct trace_record *record) {
    uint64_t bits[TRACE_PARTS_MOST];
    request_id_bits(bits, record->parts.count);
    for (size_t i = 0; i < record->parts.count; i++) {
        const struct trace_part *const part = &record->parts.at[i];
        char id[TRACE_SPAN_SIZE];
        snprintf(id, sizeof id, "%016llx", (unsigned long long)(bits[i] == 0 ? 1 : bits[i]));
        const struct span span = {metrics_stage_name(part->stage),
                                  id,
                                  record->context.span_id,
                                  KIND_INTERNAL,
                                  part->began,
                                  part->ended};
        json_array_append_new(spans, span_json(record, &span));
    }
}

/* Who speaks. */
static json_t *resource_json(void) {
    char host[HOST_SIZE] = "";
    json_t *const list = json_array();
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    add_text(list, "service.name", "attentiond");
    add_text(list, "service.version", ATTN_VERSION);
    add_text(list, "host.name", host);
    return json_pack("{s:o}", "attributes", list);
}

/* json_dumps() does not see that it had no memory for a name, and leaves it out: the text is
   measured first, and then there is all of it or none. */
static char *text_of(const json_t *whole) {
    const size_t size = json_dumpb(whole, NULL, 0, JSON_COMPACT);
    char *const text = size == 0 ? NULL : malloc(size + 1);
    if (text == NULL)
        return NULL;
    if (json_dumpb(whole, text, size, JSON_COMPACT) != size) {
        free(text);
        return NULL;
    }
    text[size] = '\0';
    return text;
}

char *trace_json_write(const struct trace_record *records, size_t count, uint64_t *spans) {
    json_t *const list = json_array();
    for (size_t i = 0; i < count; i++) {
        add_server_span(list, &records[i]);
        add_stages(list, &records[i]);
    }
    *spans = json_array_size(list);
    json_t *const whole = json_pack("{s:[{s:o, s:[{s:{s:s, s:s}, s:o}]}]}", "resourceSpans",
                                    "resource", resource_json(), "scopeSpans", "scope", "name",
                                    "attentiond", "version", ATTN_VERSION, "spans", list);
    char *const text = text_of(whole);
    json_decref(whole);
    return text;
}
