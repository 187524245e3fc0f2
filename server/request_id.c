/* SPDX-License-Identifier: Apache-2.0 */
/* Request ids; see request_id.h. */
#include "server/request_id.h"

#include <string.h>
#include <sys/random.h>

#include "server/clock.h"
#include "server/digits.h"

static const char token_characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "0123456789-_.:/+=";

void request_id_bits(uint64_t *bits, size_t count) {
    const size_t bytes = count * sizeof *bits;
    if (getrandom(bits, bytes, GRND_NONBLOCK) == (ssize_t)bytes)
        return;
    /* Early in a machine's boot: unique is enough, an id is no secret. */
    for (size_t i = 0; i < count; i++)
        bits[i] = (uint64_t)clock_now() ^ (uint64_t)(uintptr_t)(bits + i) << 16 ^
                  (uint64_t)time(NULL) << 32;
}

static void generate(char id[REQUEST_ID_SIZE]) {
    uint64_t bits[2];
    request_id_bits(bits, sizeof bits / sizeof *bits);
    digits_hex(id, bits[0]);
    digits_hex(id + DIGITS_HEX, bits[1]);
    id[2 * DIGITS_HEX] = '\0';
}

void request_id_choose(const char *given, char id[REQUEST_ID_SIZE]) {
    const size_t length = given == NULL ? 0 : strnlen(given, REQUEST_ID_SIZE);
    if (length == 0 || length >= REQUEST_ID_SIZE || strspn(given, token_characters) != length)
        generate(id);
    else
        memcpy(id, given, length + 1);
}
