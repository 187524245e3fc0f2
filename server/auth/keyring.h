/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys that are let in, as the key file has them: a line per key,
 *
 *   NAME sha256:DIGEST SCOPES [LIMIT=NUMBER ...]
 *
 * The file holds digests only. A keyring never changes; a new one takes over the accounts of keys
 * that keep their names, so that reading the file again forgives nobody's debt.
 */
#ifndef SERVER_AUTH_KEYRING_H
#define SERVER_AUTH_KEYRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/auth/access.h"
#include "server/auth/account.h"

/* With which the keys that --make-key makes begin. */
#define KEY_PREFIX "attn_"

enum { KEY_NAME_SIZE = 64, KEY_DIGEST_SIZE = 32, KEY_LONGEST = 512, KEYRING_ERROR_SIZE = 512 };

struct key {
    char name[KEY_NAME_SIZE];
    uint8_t digest[KEY_DIGEST_SIZE]; /* SHA-256 of the key's text */
    unsigned scopes;                 /* bit 1 << access */
    struct account_limits limits;
    struct account *account; /* owned reference */
};

struct keyring {
    size_t count; /* >= 1 */
    struct key keys[];
};

/* Reads a key file. `before` (may be NULL, *borrowed*) lends accounts. NULL with a sentence in
   `error`, which names the line, when the file is not as it should be. */
struct keyring *keyring_read(const char *path, const struct keyring *before, char *error,
                             size_t error_size);
void keyring_free(struct keyring *keyring);
/* Closes the accounts of keys that are in `before` (may be NULL) and not in `keyring`. */
void keyring_close_others(const struct keyring *keyring, const struct keyring *before);

/* The key whose text this is, or NULL. It takes the same time whichever one it is. */
const struct key *keyring_find(const struct keyring *keyring, const char *text);

/* "infer, sessions" and so on: the names of all scopes. Returns text. */
const char *keyring_scope_names(char *text, size_t size);
const char *keyring_scope_name(enum access access);

/* Whether a key can be called that. */
bool keyring_is_name(const char *name);
/* SHA-256 of a key's text; false when there is none. */
bool keyring_digest(const char *text, uint8_t digest[KEY_DIGEST_SIZE]);

#endif
