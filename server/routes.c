/* SPDX-License-Identifier: Apache-2.0 */
/* The route table and how it is searched; see routes.h. */
#include "server/routes.h"

#include <stdio.h>
#include <string.h>

#include "server/handlers.h"

static const struct route routes[] = {
    {"/v1/attention", HTTP_POST, attention_check, attention_handle},
    {"/v1/merge", HTTP_POST, merge_check, merge_handle},
    {"/v1/experiments/scaling", HTTP_POST, scaling_check, scaling_handle},
    {"/v1", HTTP_GET, NULL, ops_describe},
    {"/openapi.yaml", HTTP_GET, NULL, ops_contract},
    {"/healthz", HTTP_GET, NULL, ops_health},
    {"/readyz", HTTP_GET, NULL, ops_ready},
    {"/metrics", HTTP_GET, NULL, ops_metrics},
};
enum { ROUTE_COUNT = sizeof routes / sizeof *routes };

static const char *const method_names[HTTP_METHOD_COUNT] = {
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "other"};

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

const struct route *route_of_path(const char *path) {
    for (size_t i = 0; i < ROUTE_COUNT; i++)
        if (strcmp(routes[i].path, path) == 0)
            return &routes[i];
    return NULL;
}

const struct route *route_find(const char *path, enum http_method method, bool *path_known) {
    const enum http_method wanted = method == HTTP_HEAD ? HTTP_GET : method;
    *path_known = false;
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        if (strcmp(routes[i].path, path) != 0)
            continue;
        *path_known = true;
        if (routes[i].method == wanted)
            return &routes[i];
    }
    return NULL;
}

const char *route_allow(const char *path, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < ROUTE_COUNT && used < size; i++)
        if (strcmp(routes[i].path, path) == 0)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used == 0 ? "" : ", ",
                                     method_names[routes[i].method]);
    return text;
}

/* How many edits of one character lead from a to b, at most `limit`; both are cut at 32. */
static size_t edit_distance(const char *a, const char *b) {
    enum { LONGEST = 32 };
    size_t row[LONGEST + 1];
    const size_t columns = strnlen(b, LONGEST);
    for (size_t j = 0; j <= columns; j++)
        row[j] = j;
    for (size_t i = 0; i < LONGEST && a[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < columns; j++) {
            size_t best = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (diagonal + 1 < best)
                best = diagonal + 1;
            row[j + 1] = best;
        }
    }
    return row[columns];
}

const char *route_nearest(const char *path) {
    size_t nearest = 0, best = (size_t)-1;
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        const size_t distance = edit_distance(path, routes[i].path);
        if (distance < best) {
            best = distance;
            nearest = i;
        }
    }
    return routes[nearest].path;
}
