/* SPDX-License-Identifier: Apache-2.0 */
/* Request and trace ids; see request_id.h. */
#include "server/request_id.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "server/clock.h"

static const char token_characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "0123456789-_.:/+=";
static const char hex_digits[] = "0123456789abcdef";

static void generate(char id[REQUEST_ID_SIZE]) {
    uint64_t bits[2];
    if (getrandom(bits, sizeof bits, GRND_NONBLOCK) != (ssize_t)sizeof bits) {
        /* Early in a machine's boot: unique is enough, an id is no secret. */
        bits[0] = (uint64_t)clock_now();
        bits[1] = (uint64_t)(uintptr_t)bits ^ (uint64_t)time(NULL) << 32;
    }
    snprintf(id, REQUEST_ID_SIZE, "%016llx%016llx", (unsigned long long)bits[0],
             (unsigned long long)bits[1]);
}

void request_id_choose(const char *given, char id[REQUEST_ID_SIZE]) {
    const size_t length = given == NULL ? 0 : strnlen(given, REQUEST_ID_SIZE);
    if (length == 0 || length >= REQUEST_ID_SIZE || strspn(given, token_characters) != length)
        generate(id);
    else
        memcpy(id, given, length + 1);
}

bool trace_id_read(const char *traceparent, char id[TRACE_ID_SIZE]) {
    enum { VERSION = 2, TRACE = 32, PARENT = 16, FLAGS = 2, WHOLE = 55 };
    id[0] = '\0';
    if (traceparent == NULL || strnlen(traceparent, WHOLE) < WHOLE)
        return false;
    const char *trace = traceparent + VERSION + 1;
    const char *parent = trace + TRACE + 1;
    const char *flags = parent + PARENT + 1;
    const bool well_formed = strspn(traceparent, hex_digits) == VERSION &&
                             traceparent[VERSION] == '-' && strspn(trace, hex_digits) == TRACE &&
                             trace[TRACE] == '-' && strspn(parent, hex_digits) == PARENT &&
                             parent[PARENT] == '-' && strspn(flags, hex_digits) == FLAGS &&
                             (flags[FLAGS] == '\0' || flags[FLAGS] == '-');
    const bool is_zero = strspn(trace, "0") == TRACE || strspn(parent, "0") == PARENT;
    const bool is_invalid = strncmp(traceparent, "ff", VERSION) == 0;
    const bool is_first_version = strncmp(traceparent, "00", VERSION) == 0;
    if (!well_formed || is_zero || is_invalid || (is_first_version && flags[FLAGS] != '\0'))
        return false;
    memcpy(id, trace, TRACE);
    id[TRACE] = '\0';
    return true;
}
