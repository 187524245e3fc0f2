/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is given any bytes at all: a row per target. Each ends in a crash, or a sanitizer's report,
 * when it finds a fault, and else returns.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

struct fuzz_target {
    const char *name;
    void (*run)(const uint8_t *data, size_t size);
};

/* NULL past the end. */
const struct fuzz_target *fuzz_target_at(size_t index);
/* NULL when there is none of that name. */
const struct fuzz_target *fuzz_target_find(const char *name);

/* The targets, by what they belong to. */
void fuzz_json(const uint8_t *data, size_t size);
void fuzz_safetensors(const uint8_t *data, size_t size);
void fuzz_npz(const uint8_t *data, size_t size);
void fuzz_oip_attention(const uint8_t *data, size_t size);
void fuzz_oip_onnx(const uint8_t *data, size_t size);
void fuzz_guess(const uint8_t *data, size_t size);
void fuzz_gzip(const uint8_t *data, size_t size);
void fuzz_deflate(const uint8_t *data, size_t size);
void fuzz_zstd(const uint8_t *data, size_t size);
void fuzz_numbers(const uint8_t *data, size_t size);
void fuzz_keys(const uint8_t *data, size_t size);
void fuzz_snapshot(const uint8_t *data, size_t size);
void fuzz_names(const uint8_t *data, size_t size);
void fuzz_masks(const uint8_t *data, size_t size);
void fuzz_plans(const uint8_t *data, size_t size);
void fuzz_wire(const uint8_t *data, size_t size);

struct attn_call;
struct attn_plan;
struct attn_result;

/* Memory of so many bytes, aligned as the core wants it; the caller frees it. */
void *fuzz_take(size_t bytes);
/* Every task of a planned call, whose result has its memory. */
void fuzz_compute(const struct attn_call *call, const struct attn_plan *plan,
                  struct attn_result *result);

#endif
