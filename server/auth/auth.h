/* SPDX-License-Identifier: Apache-2.0 */
/*
 * API keys while the service runs: which keyring is in force, and reading its file again. Any
 * thread may ask; a key that was found stays until it is let go, whatever is read meanwhile.
 */
#ifndef SERVER_AUTH_AUTH_H
#define SERVER_AUTH_AUTH_H

#include <stdio.h>

#include "server/auth/keyring.h"

struct auth;

/* A key that a request uses. Zero-initialised: none. */
struct auth_pass {
    const struct key *key;
    struct auth_ring *ring;
};

/* `path` "" means that there are no keys, and everyone may do everything. NULL with a sentence in
   `error` when the file is not as it should be. */
struct auth *auth_open(const char *path, char *error, size_t error_size);
/* No request may be in flight. */
void auth_free(struct auth *auth);

bool auth_has_keys(const struct auth *auth);
/* Finds the key with this text; false when there is none. auth_let_go() ends it. */
bool auth_find(struct auth *auth, const char *text, struct auth_pass *pass);
void auth_let_go(struct auth_pass *pass);

/* How many keys there are. */
size_t auth_count(struct auth *auth);
/* Whether the file, or what its name leads to, is another than the one last looked at. Only the
   thread that reloads asks. */
bool auth_file_changed(struct auth *auth);
/* Reads the file again; false with a sentence in `error`, and then the keys stay as they are. */
bool auth_reload(struct auth *auth, char *error, size_t error_size);

/* Prints a new key and the line of the key file that lets it in; false when there is no
   randomness, or the name is none: then `error` says so. */
bool auth_make_key(const char *name, FILE *out, char *error, size_t error_size);

#endif
