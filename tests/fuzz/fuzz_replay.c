/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives files to targets, for builds that have no fuzzer:
 *
 *   fuzz_replay TARGET FILE...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/attention.h"
#include "tests/fuzz/fuzz.h"

/* The file in memory of exactly its size, so that a sanitizer sees what reads beyond it; owned. */
static uint8_t *load(const char *path, size_t *size) {
    enum { LARGEST = 16 << 20 };
    static uint8_t room[LARGEST];
    FILE *const file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    *size = fread(room, 1, LARGEST, file);
    fclose(file);
    uint8_t *const data = malloc(*size > 0 ? *size : 1);
    if (data != NULL)
        memcpy(data, room, *size);
    return data;
}

static int replay(const struct fuzz_target *target, const char *path) {
    size_t size;
    uint8_t *const data = load(path, &size);
    if (data == NULL) {
        fprintf(stderr, "fuzz_replay: cannot read %s\n", path);
        return EXIT_FAILURE;
    }
    target->run(data, size);
    free(data);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
    const struct fuzz_target *const target = argc < 2 ? NULL : fuzz_target_find(argv[1]);
    int status = EXIT_SUCCESS;
    if (target == NULL) {
        fprintf(stderr, "usage: fuzz_replay TARGET FILE...\n");
        return 2;
    }
    attn_start();
    for (int i = 2; i < argc && status == EXIT_SUCCESS; i++)
        status = replay(target, argv[i]);
    return status;
}
