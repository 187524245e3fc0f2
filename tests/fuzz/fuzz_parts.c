/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in front of a call: codings, numbers, key files, names in headers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/auth/keyring.h"
#include "server/buffer_pool.h"
#include "server/codings/unpacker.h"
#include "server/cors.h"
#include "server/hosts.h"
#include "server/numbers/numbers.h"
#include "server/routes.h"
#include "tests/fuzz/fuzz.h"

enum { MOST_BYTES = 16 << 20 };

/* A copy with a NUL behind it; owned. */
static char *text_of(const uint8_t *data, size_t size) {
    char *const text = malloc(size + 1);
    if (text == NULL)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* ---- codings ---- */

static enum attn_status reserve(void *owner, size_t bytes, struct attn_error *error) {
    size_t *const taken = owner;
    (void)error;
    *taken += bytes;
    return ATTN_OK;
}

static void release(void *owner, size_t bytes) {
    size_t *const taken = owner;
    if (bytes > *taken)
        abort();
    *taken -= bytes;
}

static void unpack(const char *name, const uint8_t *data, size_t size) {
    const struct coding *const coding = coding_find(name, strlen(name));
    const struct unpacker_limits limits = {MOST_BYTES, "max_body", 100};
    size_t taken = 0, length, capacity;
    const struct unpacker_account account = {reserve, release, &taken};
    struct attn_error error = {.status = ATTN_OK};
    struct unpacker unpacker;
    if (size == 0)
        return;
    unpacker_init(&unpacker, coding, data, size, &limits, &account);
    while (!unpacker.done && unpacker_run(&unpacker, 64 << 10, &error) == ATTN_OK)
        ;
    if (unpacker.done && error.status == ATTN_OK) {
        void *const body = unpacker_take(&unpacker, &length, &capacity);
        if (length > capacity || length > MOST_BYTES)
            abort();
        buffer_give(body, capacity);
        release(&taken, capacity);
    }
    unpacker_close(&unpacker);
    if (taken != 0)
        abort();
}

void fuzz_gzip(const uint8_t *data, size_t size) {
    unpack("gzip", data, size);
}

void fuzz_deflate(const uint8_t *data, size_t size) {
    unpack("deflate", data, size);
}

void fuzz_zstd(const uint8_t *data, size_t size) {
    unpack("zstd", data, size);
}

/* ---- names and keys ---- */

void fuzz_keys(const uint8_t *data, size_t size) {
    char path[64], error[KEYRING_ERROR_SIZE] = "";
    snprintf(path, sizeof path, "/tmp/attentiond-fuzz-%d", (int)getpid());
    FILE *const file = fopen(path, "w");
    if (file == NULL || fwrite(data, 1, size, file) != size)
        abort();
    fclose(file);
    struct keyring *const keyring = keyring_read(path, NULL, error, sizeof error);
    if ((keyring == NULL) != (error[0] != '\0'))
        abort();
    if (keyring != NULL && keyring_find(keyring, "nobody's") != NULL)
        abort();
    keyring_free(keyring);
    unlink(path);
}

/* Lines: a Host, an Origin, a list for the option hosts, one for cors_origins, a path. */
void fuzz_names(const uint8_t *data, size_t size) {
    enum { LINES = 5 };
    char *const text = text_of(data, size), *rest = text, error[512];
    const char *lines[LINES] = {"", "", "", "", ""};
    struct cors cors;
    struct route_captures captures;
    bool known;
    for (int i = 0; i < LINES && rest != NULL; i++)
        lines[i] = strsep(&rest, "\n");
    const char *const list = hosts_check(lines[2], error, sizeof error) ? lines[2] : "";
    (void)hosts_allow(list, lines[0]);
    (void)hosts_is_same(lines[1], lines[0]);
    if (cors_read(&cors, lines[3], true, error, sizeof error))
        (void)cors_allows(&cors, lines[1]);
    (void)route_find(lines[4], HTTP_GET, &captures, &known);
    (void)route_nearest(lines[4], error, 100);
    (void)route_allow(lines[4], error, 64);
    free(text);
}

/* ---- numbers ---- */

/* What is read as a number has strtod's bits, and printed it is read as itself again. */
static void check_number(const char *text, size_t size) {
    char printed[64];
    double value, again;
    if (number_parse_double(text, size, &value) != NUMBER_OK)
        return;
    const double expected = strtod(text, NULL);
    const size_t length = number_print_f64(value, printed);
    if (memcmp(&expected, &value, sizeof value) != 0 || length >= sizeof printed ||
        number_parse_double(printed, length, &again) != NUMBER_OK ||
        memcmp(&again, &value, sizeof value) != 0)
        abort();
}

void fuzz_numbers(const uint8_t *data, size_t size) {
    char *const text = text_of(data, size);
    size_t end = 0, commas = 0;
    check_number(text, size);
    if (number_array_skip(text, size, &end, &commas) && end > size)
        abort();
    free(text);
}
