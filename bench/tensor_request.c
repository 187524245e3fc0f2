/* SPDX-License-Identifier: Apache-2.0 */
/* See tensor_request.h. */
#include "bench/tensor_request.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *tensor_request(size_t H, size_t n, size_t D, size_t *length, float *tensors[3]) {
    const size_t bytes = H * n * D * sizeof(float);
    char header[512];
    int used = snprintf(header, sizeof header,
                        "{\"q\":{\"dtype\":\"F32\",\"shape\":[1,%zu,%zu,%zu],\"data_offsets\":[0,"
                        "%zu]},\"k\":{\"dtype\":\"F32\",\"shape\":[1,%zu,%zu,%zu],"
                        "\"data_offsets\":[%zu,%zu]},\"v\":{\"dtype\":\"F32\",\"shape\":[1,%zu,"
                        "%zu,%zu],\"data_offsets\":[%zu,%zu]}}",
                        H, n, D, bytes, H, n, D, bytes, 2 * bytes, H, n, D, 2 * bytes, 3 * bytes);
    while ((used + 8) % 64 != 0)
        header[used++] = ' ';
    const uint64_t header_length = (uint64_t)used;
    *length = 8 + (size_t)used + 3 * bytes;
    char *body = aligned_alloc(64, (*length + 63) / 64 * 64);
    memcpy(body, &header_length, 8);
    memcpy(body + 8, header, (size_t)used);
    for (size_t t = 0; t < 3; t++) {
        tensors[t] = (float *)(void *)(body + 8 + used + t * bytes);
        for (size_t e = 0; e < H * n * D; e++)
            tensors[t][e] = (float)rand() / (float)RAND_MAX * 2.0f - 1.0f;
    }
    return body;
}

static size_t write_rows(char *to, const float *values, size_t H, size_t n, size_t D) {
    char *at = to;
    for (size_t e = 0; e < H * n * D; e++) {
        const char *opening = e % (n * D) == 0 ? "[[" : e % D == 0 ? "[" : "";
        const char *closing = (e + 1) % (n * D) == 0 ? "]]" : (e + 1) % D == 0 ? "]" : "";
        at += sprintf(at, "%s%s%.7g%s", e == 0 ? "" : ",", opening, (double)values[e], closing);
    }
    return (size_t)(at - to);
}

char *tensor_request_json(size_t H, size_t n, size_t D, size_t *length) {
    static const char *const NAMES[] = {"{\"q\":[[", ",\"k\":[[", ",\"v\":[["};
    float *tensors[3];
    size_t binary;
    char *values = tensor_request(H, n, D, &binary, tensors);
    char *body = malloc(3 * H * n * D * 24 + 64);
    *length = 0;
    for (size_t t = 0; t < 3; t++) {
        *length += (size_t)sprintf(body + *length, "%s", NAMES[t]);
        *length += write_rows(body + *length, tensors[t], H, n, D);
        *length += (size_t)sprintf(body + *length, "]]");
    }
    *length += (size_t)sprintf(body + *length, "}");
    free(values);
    return body;
}
