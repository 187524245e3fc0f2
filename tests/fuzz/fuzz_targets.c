/* SPDX-License-Identifier: Apache-2.0 */
/* The table of targets; see fuzz.h. */
#include <string.h>

#include "tests/fuzz/fuzz.h"

static const struct fuzz_target targets[] = {
    {"json", fuzz_json},         {"safetensors", fuzz_safetensors},
    {"npz", fuzz_npz},           {"oip-attention", fuzz_oip_attention},
    {"oip-onnx", fuzz_oip_onnx}, {"guess", fuzz_guess},
    {"gzip", fuzz_gzip},         {"deflate", fuzz_deflate},
    {"zstd", fuzz_zstd},         {"numbers", fuzz_numbers},
    {"keys", fuzz_keys},         {"names", fuzz_names},
    {"snapshot", fuzz_snapshot}, {"masks", fuzz_masks},
    {"plans", fuzz_plans},       {"wire", fuzz_wire},
};

const struct fuzz_target *fuzz_target_at(size_t index) {
    return index < sizeof targets / sizeof *targets ? &targets[index] : NULL;
}

const struct fuzz_target *fuzz_target_find(const char *name) {
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strcmp(targets[i].name, name) == 0)
            return &targets[i];
    return NULL;
}
