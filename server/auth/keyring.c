/* SPDX-License-Identifier: Apache-2.0 */
/* The key file; see keyring.h. */
#include "server/auth/keyring.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/file_load.h"

#define DIGEST_PREFIX "sha256:"

enum { FILE_LARGEST = 4 << 20, KEYS_MOST = 10000, DIGEST_DIGITS = 2 * KEY_DIGEST_SIZE };

/* The limits that a line may set, a row each. */
static const struct limit {
    const char *name;
    size_t offset; /* in struct account_limits, a double */
    double unit, most;
} limits[] = {
    {"requests_per_second", offsetof(struct account_limits, requests_per_second), 1, 1e9},
    {"burst", offsetof(struct account_limits, burst), 1, 1e9},
    {"calls", offsetof(struct account_limits, calls), 1, 1e9},
    {"memory_mib", offsetof(struct account_limits, memory), 1 << 20, 1e9},
    {"gflops_per_second", offsetof(struct account_limits, flops_per_second), 1e9, 1e9},
    {"sessions", offsetof(struct account_limits, sessions), 1, 1e9},
    {"session_memory_mib", offsetof(struct account_limits, session_memory), 1 << 20, 1e9},
};
enum { LIMIT_COUNT = sizeof limits / sizeof *limits };

static const char *const scope_names[ACCESS_COUNT] = {
#define SCOPE(id, name, sentence) [ACCESS_##id] = name,
#include "server/auth/scopes.def"
#undef SCOPE
};

const char *keyring_scope_name(enum access access) {
    return scope_names[access];
}

const char *keyring_scope_names(char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (int access = ACCESS_FIRST_SCOPE; access < ACCESS_COUNT && used < size; access++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", used == 0 ? "" : ", ",
                                 scope_names[access]);
    return text;
}

bool keyring_is_name(const char *name) {
    static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                     "0123456789._-@";
    const size_t length = strlen(name);
    return length > 0 && length < KEY_NAME_SIZE && strspn(name, characters) == length;
}

bool keyring_digest(const char *text, uint8_t digest[KEY_DIGEST_SIZE]) {
    return gnutls_hash_fast(GNUTLS_DIG_SHA256, text, strlen(text), digest) == 0;
}

const struct key *keyring_find(const struct keyring *keyring, const char *text) {
    uint8_t digest[KEY_DIGEST_SIZE];
    const struct key *found = NULL;
    if (strnlen(text, KEY_LONGEST + 1) > KEY_LONGEST || !keyring_digest(text, digest))
        return NULL;
    for (size_t i = 0; i < keyring->count; i++) {
        const bool is_it = gnutls_memcmp(keyring->keys[i].digest, digest, KEY_DIGEST_SIZE) == 0;
        found = is_it ? &keyring->keys[i] : found;
    }
    return found;
}

/* ---- reading ---- */

struct reader {
    const char *path;
    const struct keyring *before;
    unsigned line;
    char *error;
    size_t error_size;
};

__attribute__((format(printf, 2, 3))) static bool complain(const struct reader *reader,
                                                           const char *format, ...) {
    int used = snprintf(reader->error, reader->error_size, "%s:%u: ", reader->path, reader->line);
    va_list arguments;
    va_start(arguments, format);
    if (used >= 0 && (size_t)used < reader->error_size)
        vsnprintf(reader->error + used, reader->error_size - (size_t)used, format, arguments);
    va_end(arguments);
    return false;
}

static int hex_digit(char digit) {
    static const char digits[] = "0123456789abcdef";
    const char *const at = digit == '\0' ? NULL : strchr(digits, digit);
    return at == NULL ? -1 : (int)(at - digits);
}

static bool read_digest(const struct reader *reader, const char *word, struct key *key) {
    const size_t prefix = sizeof DIGEST_PREFIX - 1;
    const char *const digits = word + prefix;
    bool is_digest = strncmp(word, DIGEST_PREFIX, prefix) == 0 && strlen(digits) == DIGEST_DIGITS;
    for (size_t i = 0; is_digest && i < KEY_DIGEST_SIZE; i++) {
        const int high = hex_digit(digits[2 * i]), low = hex_digit(digits[2 * i + 1]);
        is_digest = high >= 0 && low >= 0;
        key->digest[i] = is_digest ? (uint8_t)(high << 4 | low) : 0;
    }
    /* The word is not repeated: it may be the key itself. */
    return is_digest || complain(reader,
                                 "the second word of %s's line has to be " DIGEST_PREFIX
                                 "and %d hexadecimal digits in lower case; `attentiond "
                                 "--make-key %s` prints such a line",
                                 key->name, DIGEST_DIGITS, key->name);
}

static bool read_scopes(const struct reader *reader, char *word, struct key *key) {
    char *rest = word, names[128];
    for (const char *name; (name = strsep(&rest, ",")) != NULL;) {
        int access = ACCESS_FIRST_SCOPE;
        while (access < ACCESS_COUNT && strcmp(scope_names[access], name) != 0)
            access++;
        if (access == ACCESS_COUNT)
            return complain(reader, "\"%.32s\" is no scope; there are %s, with commas between them",
                            name, keyring_scope_names(names, sizeof names));
        key->scopes |= 1U << access;
    }
    return true;
}

static bool read_limit(const struct reader *reader, const char *word, struct key *key) {
    const size_t length = strcspn(word, "=");
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        if (strlen(limits[i].name) != length || memcmp(limits[i].name, word, length) != 0)
            continue;
        char *end = NULL;
        const double value = word[length] == '=' ? strtod(word + length + 1, &end) : -1;
        if (end == NULL || end == word + length + 1 || *end != '\0' || !(value > 0) ||
            value > limits[i].most)
            return complain(reader,
                            "%s takes a number above 0 and up to %g, as in %s=10; scopes are one "
                            "word, as in infer,sessions",
                            limits[i].name, limits[i].most, limits[i].name);
        *(double *)(void *)((char *)&key->limits + limits[i].offset) = value * limits[i].unit;
        return true;
    }
    return complain(reader,
                    "there is no limit \"%.40s\"; there are requests_per_second, burst, "
                    "calls, memory_mib, gflops_per_second, sessions and session_memory_mib, each "
                    "with =NUMBER; scopes are one word, as in infer,sessions",
                    word);
}

static const struct key *named(const struct keyring *keyring, size_t count, const char *name) {
    for (size_t i = 0; keyring != NULL && i < count; i++)
        if (strcmp(keyring->keys[i].name, name) == 0)
            return &keyring->keys[i];
    return NULL;
}

/* What the name may be, and whose account the key continues. */
static bool read_name(const struct reader *reader, const struct keyring *keyring, const char *word,
                      struct key *key) {
    if (!keyring_is_name(word))
        return complain(reader,
                        "a name has 1 to %d letters, digits, dots, dashes, underscores "
                        "and @",
                        KEY_NAME_SIZE - 1);
    if (named(keyring, keyring->count, word) != NULL)
        return complain(reader, "the name %s stands on another line already", word);
    snprintf(key->name, sizeof key->name, "%s", word);
    const struct key *const old =
        reader->before == NULL ? NULL : named(reader->before, reader->before->count, word);
    key->account = old == NULL ? account_create() : account_ref(old->account);
    return key->account != NULL || complain(reader, "there is no memory for the keys");
}

static bool read_line(const struct reader *reader, char *line, struct keyring *keyring) {
    static const char space[] = " \t\r";
    char *state = NULL;
    const char *const name = strtok_r(line, space, &state);
    if (name == NULL || name[0] == '#')
        return true;
    if (keyring->count == KEYS_MOST)
        return complain(reader, "there are more than %d keys", KEYS_MOST);
    struct key *const key = &keyring->keys[keyring->count];
    if (!read_name(reader, keyring, name, key))
        return false;
    keyring->count++; /* from here on it has an account, which is freed with it */
    const char *const digest = strtok_r(NULL, space, &state);
    char *const scopes = strtok_r(NULL, space, &state);
    if (digest == NULL && strncmp(name, KEY_PREFIX, sizeof KEY_PREFIX - 1) == 0)
        return complain(reader, "this looks like a key itself, which goes to its client; here "
                                "belongs the line with " DIGEST_PREFIX " that --make-key prints "
                                "after it");
    if (digest == NULL || scopes == NULL)
        return complain(reader, "a line needs a name, " DIGEST_PREFIX "DIGEST and scopes, as in "
                                "\"alice " DIGEST_PREFIX "0123... infer\"");
    if (!read_digest(reader, digest, key) || !read_scopes(reader, scopes, key))
        return false;
    for (const char *word; (word = strtok_r(NULL, space, &state)) != NULL;)
        if (!read_limit(reader, word, key))
            return false;
    return true;
}

/* The whole file with a NUL behind it; owned. NULL with the error said. */
static char *load(const struct reader *reader) {
    size_t length = 0;
    const char *cause = NULL;
    char *const text = file_load(reader->path, FILE_LARGEST, &length, &cause);
    if (text != NULL && strlen(text) != length)
        cause = "it is no text: it has a NUL";
    if (cause == NULL)
        return text;
    snprintf(reader->error, reader->error_size, "key_file %s: %s", reader->path, cause);
    free(text);
    return NULL;
}

static size_t count_lines(const char *text) {
    size_t lines = 1;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines < KEYS_MOST ? lines : KEYS_MOST;
}

/* Every line of `text`, which is cut up. */
static bool read_lines(struct reader *reader, char *text, struct keyring *keyring) {
    char *rest = text, *line;
    for (reader->line = 1; (line = strsep(&rest, "\n")) != NULL; reader->line++)
        if (!read_line(reader, line, keyring))
            return false;
    if (keyring->count > 0)
        return true;
    snprintf(reader->error, reader->error_size,
             "key_file %s: it has no key; `attentiond --make-key NAME` prints a line for it",
             reader->path);
    return false;
}

struct keyring *keyring_read(const char *path, const struct keyring *before, char *error,
                             size_t error_size) {
    struct reader reader = {path, before, 0, error, error_size};
    char *const text = load(&reader);
    if (text == NULL)
        return NULL;
    struct keyring *const keyring =
        calloc(1, sizeof *keyring + count_lines(text) * sizeof keyring->keys[0]);
    if (keyring == NULL)
        snprintf(error, error_size, "key_file %s: there is no memory for the keys", path);
    const bool is_fine = keyring != NULL && read_lines(&reader, text, keyring);
    free(text);
    if (is_fine)
        return keyring;
    keyring_free(keyring);
    return NULL;
}

void keyring_free(struct keyring *keyring) {
    if (keyring == NULL)
        return;
    for (size_t i = 0; i < keyring->count; i++)
        account_unref(keyring->keys[i].account);
    free(keyring);
}

void keyring_close_others(const struct keyring *keyring, const struct keyring *before) {
    for (size_t i = 0; before != NULL && i < before->count; i++)
        if (named(keyring, keyring->count, before->keys[i].name) == NULL)
            account_close(before->keys[i].account);
}
