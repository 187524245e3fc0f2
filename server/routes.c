/* SPDX-License-Identifier: Apache-2.0 */
/* The route table and how it is searched; see routes.h. */
#include "server/routes.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/checked.h"
#include "server/edit_distance.h"
#include "server/handlers.h"

#define NATIVE PROBLEM_DETAILS, false, false
#define SESSION_STEP PROBLEM_DETAILS, false, true
#define SESSION_FORK PROBLEM_DETAILS, true, true
#define OIP PROBLEM_OIP, false, false
#define OIP_CONTROL PROBLEM_OIP, true, true
/* clang-format off */
#define OIP_MODEL(path) \
    {path, HTTP_GET, ACCESS_INFER, OIP, NULL, oip_model_metadata}, \
    {path "/ready", HTTP_GET, ACCESS_INFER, OIP, NULL, oip_model_ready}, \
    {path "/config", HTTP_GET, ACCESS_INFER, OIP, NULL, oip_model_config}, \
    {path "/stats", HTTP_GET, ACCESS_INFER, OIP, NULL, oip_model_statistics}, \
    {path "/infer", HTTP_POST, ACCESS_INFER, OIP, oip_infer_check, oip_infer_handle}
/* clang-format on */

static const struct route routes[] = {
    {"/v1/attention", HTTP_POST, ACCESS_INFER, NATIVE, attention_check, attention_handle},
    {"/v1/merge", HTTP_POST, ACCESS_INFER, NATIVE, merge_check, merge_handle},
    {"/v1/experiments/scaling", HTTP_POST, ACCESS_INFER, NATIVE, scaling_check, scaling_handle},
    {"/v1/sessions", HTTP_POST, ACCESS_SESSIONS, NATIVE, sessions_create_check, sessions_create},
    {"/v1/sessions", HTTP_GET, ACCESS_SESSIONS, NATIVE, NULL, sessions_list},
    {"/v1/sessions/attention", HTTP_POST, ACCESS_SESSIONS, SESSION_STEP, sessions_steps_check,
     sessions_steps},
    {"/v1/sessions/{id}", HTTP_GET, ACCESS_SESSIONS, NATIVE, NULL, sessions_get},
    {"/v1/sessions/{id}", HTTP_DELETE, ACCESS_SESSIONS, NATIVE, NULL, sessions_delete},
    {"/v1/sessions/{id}/attention", HTTP_POST, ACCESS_SESSIONS, SESSION_STEP, sessions_step_check,
     sessions_step},
    {"/v1/sessions/{id}/truncate", HTTP_POST, ACCESS_SESSIONS, SESSION_STEP, sessions_named_check,
     sessions_truncate},
    {"/v1/sessions/{id}/fork", HTTP_POST, ACCESS_SESSIONS, SESSION_FORK, sessions_named_check,
     sessions_fork},
    {"/v1/sessions/{id}/kv", HTTP_GET, ACCESS_SESSIONS, NATIVE, NULL, sessions_snapshot},
    {"/v1/captures", HTTP_GET, ACCESS_CAPTURES, NATIVE, NULL, captures_list_handle},
    {"/v1/captures", HTTP_DELETE, ACCESS_CAPTURES, NATIVE, NULL, captures_drop_handle},
    {"/v1/captures/{id}", HTTP_GET, ACCESS_CAPTURES, NATIVE, NULL, capture_show_handle},
    {"/v1/captures/{id}", HTTP_DELETE, ACCESS_CAPTURES, NATIVE, NULL, capture_drop_handle},
    {"/v1/captures/{id}/map", HTTP_GET, ACCESS_CAPTURES, NATIVE, NULL, capture_map_handle},
    {"/v1/captures/{id}/cell", HTTP_GET, ACCESS_CAPTURES, NATIVE, NULL, capture_cell_handle},
    {"/v1/captures/{id}/stats", HTTP_GET, ACCESS_CAPTURES, NATIVE, NULL, capture_stats_handle},
    {"/v1/captures/{id}/compare", HTTP_POST, ACCESS_CAPTURES, NATIVE, capture_compare_check,
     capture_compare_handle},
    {"/v1/captures/{id}/remask", HTTP_POST, ACCESS_CAPTURES, NATIVE, capture_remask_check,
     capture_remask_handle},
    {"/v1/captures/{id}/pin", HTTP_PUT, ACCESS_CAPTURES, PROBLEM_DETAILS, true, false, NULL,
     capture_pin_handle},
    {"/v1/captures/{id}/pin", HTTP_DELETE, ACCESS_CAPTURES, NATIVE, NULL, capture_unpin_handle},
    {"/v1", HTTP_GET, ACCESS_KEY, NATIVE, NULL, ops_describe},
    {"/", HTTP_GET, ACCESS_PUBLIC, NATIVE, NULL, ops_document},
    {"/assets/{file}", HTTP_GET, ACCESS_PUBLIC, NATIVE, NULL, ops_document},
    {"/openapi.yaml", HTTP_GET, ACCESS_PUBLIC, NATIVE, NULL, ops_document},
    {"/docs", HTTP_GET, ACCESS_PUBLIC, NATIVE, NULL, ops_document},
    {"/healthz", HTTP_GET, ACCESS_PROBE, NATIVE, NULL, ops_health},
    {"/readyz", HTTP_GET, ACCESS_PROBE, NATIVE, NULL, ops_ready},
    {"/v1/latency", HTTP_GET, ACCESS_METRICS, NATIVE, NULL, ops_latency},
    {"/metrics", HTTP_GET, ACCESS_METRICS, NATIVE, NULL, ops_metrics},
    {"/v2", HTTP_GET, ACCESS_KEY, OIP, NULL, oip_server_metadata},
    {"/v2/", HTTP_GET, ACCESS_KEY, OIP, NULL, oip_server_metadata},
    {"/v2/health/live", HTTP_GET, ACCESS_PROBE, OIP, NULL, oip_live},
    {"/v2/health/ready", HTTP_GET, ACCESS_PROBE, OIP, NULL, oip_ready},
    {"/v2/models", HTTP_GET, ACCESS_INFER, OIP, NULL, oip_models},
    {"/v2/models/stats", HTTP_GET, ACCESS_INFER, OIP, NULL, oip_all_statistics},
    {"/v2/repository/index", HTTP_POST, ACCESS_INFER, OIP_CONTROL, oip_repository_check,
     oip_repository_index},
    {"/v2/repository/models/{model}/load", HTTP_POST, ACCESS_INFER, OIP_CONTROL,
     oip_repository_check, oip_repository_keep},
    {"/v2/repository/models/{model}/unload", HTTP_POST, ACCESS_INFER, OIP_CONTROL,
     oip_repository_check, oip_repository_keep},
    OIP_MODEL("/v2/models/{model}"),
    OIP_MODEL("/v2/models/{model}/versions/{version}"),
};
enum { ROUTE_COUNT = sizeof routes / sizeof *routes };

static const char *const method_names[HTTP_METHOD_COUNT] = {
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "other"};

enum http_method http_method_find(const char *name) {
    int method = 0;
    while (method < HTTP_OTHER && strcmp(name, method_names[method]) != 0)
        method++;
    return (enum http_method)method;
}

const char *http_method_name(enum http_method method) {
    return method_names[method];
}

const struct route *route_at(size_t index) {
    return index < ROUTE_COUNT ? &routes[index] : NULL;
}

size_t route_index(const struct route *route) {
    return (size_t)(route - routes);
}

size_t route_count(void) {
    return ROUTE_COUNT;
}

/* The segment that begins at `at`, up to the next slash or the end. */
static size_t segment_length(const char *at) {
    return strcspn(at, "/");
}

/* Whether a segment of a row's path stands for any; `length` is the whole of it. */
static bool is_capture(const char *segment, size_t length) {
    return length > 2 && segment[0] == '{' && segment[length - 1] == '}';
}

static void note_capture(struct route_captures *captures, const char *segment, size_t size,
                         const char *text, size_t length) {
    if (captures != NULL && captures->count < ROUTE_CAPTURES_MAX)
        captures->at[captures->count++] =
            (struct route_capture){segment + 1, text, size - 2, length};
}

/* Whether a path is one of a row's; `captures` may be NULL. */
static bool fits(const char *row, const char *path, struct route_captures *captures) {
    if (captures != NULL)
        captures->count = 0;
    for (;;) {
        const size_t size = segment_length(row), length = segment_length(path);
        if (is_capture(row, size) && length > 0)
            note_capture(captures, row, size, path, length);
        else if (size != length || memcmp(row, path, size) != 0)
            return false;
        row += size;
        path += length;
        if (*row == '\0' || *path == '\0')
            return *row == *path;
        row++;
        path++;
    }
}

const struct route *route_of_path(const char *path) {
    for (size_t i = 0; i < ROUTE_COUNT; i++)
        if (fits(routes[i].path, path, NULL))
            return &routes[i];
    return NULL;
}

const struct route *route_find(const char *path, enum http_method method,
                               struct route_captures *captures, bool *path_known) {
    const enum http_method wanted = method == HTTP_HEAD ? HTTP_GET : method;
    const struct route *first = route_of_path(path);
    *path_known = first != NULL;
    for (const struct route *row = first; row != NULL && row < routes + ROUTE_COUNT; row++)
        if (row->method == wanted && strcmp(row->path, first->path) == 0)
            return fits(row->path, path, captures) ? row : NULL;
    return NULL;
}

struct route_capture route_captured(const struct route_captures *captures, const char *name) {
    for (size_t i = 0; i < captures->count; i++) {
        const struct route_capture *capture = &captures->at[i];
        if (strlen(name) == capture->name_length &&
            memcmp(capture->name, name, capture->name_length) == 0)
            return *capture;
    }
    return (struct route_capture){NULL, NULL, 0, 0};
}

bool route_capture_is(struct route_capture capture, const char *text) {
    return capture.text != NULL && strlen(text) == capture.length &&
           memcmp(capture.text, text, capture.length) == 0;
}

bool route_is_whole_server(const char *path) {
    return strcmp(path, "*") == 0;
}

const char *route_allow(const char *path, char *text, size_t size) {
    const struct route *const first = route_is_whole_server(path) ? routes : route_of_path(path);
    unsigned listed = 0; /* a bit for each method */
    size_t used = 0;
    text[0] = '\0';
    for (const struct route *row = first; row != NULL && row < routes + ROUTE_COUNT; row++) {
        const unsigned bit = 1U << row->method;
        if ((listed & bit) != 0 || used >= size ||
            (!route_is_whole_server(path) && strcmp(row->path, first->path) != 0))
            continue;
        listed |= bit;
        used += (size_t)snprintf(text + used, size - used, "%s%s", used == 0 ? "" : ", ",
                                 method_names[row->method]);
    }
    return text;
}

enum problem_form route_errors(const char *path) {
    const size_t length = path[0] == '/' ? 1 + strcspn(path + 1, "/?") : 0;
    for (size_t i = 0; i < ROUTE_COUNT; i++)
        if (1 + segment_length(routes[i].path + 1) == length &&
            memcmp(routes[i].path, path, length) == 0)
            return routes[i].errors;
    return PROBLEM_DETAILS;
}

/* A row's path with what the path asked for has in place of captures. */
static void lend_captures(const char *row, const char *path, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    while (used < size) {
        const size_t row_size = segment_length(row), length = segment_length(path);
        const bool lent = is_capture(row, row_size) && length > 0;
        used += (size_t)snprintf(text + used, size - used, "%.*s", (int)(lent ? length : row_size),
                                 lent ? path : row);
        row += row_size;
        path += length + (path[length] == '/');
        if (*row++ == '\0' || used >= size)
            return;
        used += (size_t)snprintf(text + used, size - used, "/");
    }
}

const char *route_nearest(const char *path, char *text, size_t size) {
    /* Up to a third of the letters may differ: more would name what nobody meant. */
    size_t nearest = ROUTE_COUNT, best = 1 + attn_max_size(strlen(path) / 3, 2);
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        char known[EDIT_LONGEST + 1];
        lend_captures(routes[i].path, path, known, sizeof known);
        const size_t distance = edit_distance(path, known);
        if (distance < best) {
            best = distance;
            nearest = i;
        }
    }
    if (nearest == ROUTE_COUNT)
        return NULL;
    lend_captures(routes[nearest].path, path, text, size);
    return text;
}
