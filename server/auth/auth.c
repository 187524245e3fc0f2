/* SPDX-License-Identifier: Apache-2.0 */
/* The keyring in force; see auth.h. */
#include "server/auth/auth.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/codecs/base64.h"
#include "server/file_load.h"

/* A keyring and how many use it: the service while it is in force, and each request. */
struct auth_ring {
    atomic_int references;
    struct keyring *keyring;
};

struct auth {
    const char *path; /* borrowed; "": there are no keys */
    pthread_mutex_t lock;
    struct auth_ring *ring; /* NULL without keys */
    struct stat seen;       /* of the file, when it was last read */
};

/* NULL with *error written; where there is no keyring to take, that was done by whoever read it. */
static struct auth_ring *ring_create(struct keyring *taken, char *error, size_t error_size) {
    if (taken == NULL)
        return NULL;
    struct auth_ring *ring = calloc(1, sizeof *ring);
    if (ring == NULL) {
        snprintf(error, error_size, "there is no memory for the keys");
        keyring_free(taken);
        return NULL;
    }
    ring->keyring = taken;
    atomic_init(&ring->references, 1);
    return ring;
}

static void ring_unref(struct auth_ring *ring) {
    if (ring == NULL || atomic_fetch_sub_explicit(&ring->references, 1, memory_order_acq_rel) != 1)
        return;
    keyring_free(ring->keyring);
    free(ring);
}

/* The ring in force, with a reference. */
static struct auth_ring *ring_of(struct auth *auth) {
    pthread_mutex_lock(&auth->lock);
    struct auth_ring *ring = auth->ring;
    if (ring != NULL)
        atomic_fetch_add_explicit(&ring->references, 1, memory_order_relaxed);
    pthread_mutex_unlock(&auth->lock);
    return ring;
}

struct auth *auth_open(const char *path, char *error, size_t error_size) {
    struct auth *auth = calloc(1, sizeof *auth);
    if (auth == NULL) {
        snprintf(error, error_size, "there is no memory for the keys");
        return NULL;
    }
    auth->path = path;
    pthread_mutex_init(&auth->lock, NULL);
    if (path[0] == '\0' || auth_reload(auth, error, error_size))
        return auth;
    auth_free(auth);
    return NULL;
}

void auth_free(struct auth *auth) {
    if (auth == NULL)
        return;
    ring_unref(auth->ring);
    pthread_mutex_destroy(&auth->lock);
    free(auth);
}

bool auth_has_keys(const struct auth *auth) {
    return auth->path[0] != '\0';
}

bool auth_find(struct auth *auth, const char *text, struct auth_pass *pass) {
    pass->ring = ring_of(auth);
    pass->key = pass->ring == NULL ? NULL : keyring_find(pass->ring->keyring, text);
    if (pass->key == NULL)
        auth_let_go(pass);
    return pass->key != NULL;
}

void auth_let_go(struct auth_pass *pass) {
    ring_unref(pass->ring);
    *pass = (struct auth_pass){NULL, NULL};
}

size_t auth_count(struct auth *auth) {
    struct auth_ring *ring = ring_of(auth);
    const size_t count = ring == NULL ? 0 : ring->keyring->count;
    ring_unref(ring);
    return count;
}

bool auth_file_changed(struct auth *auth) {
    return auth_has_keys(auth) && file_differs(auth->path, &auth->seen);
}

bool auth_reload(struct auth *auth, char *error, size_t error_size) {
    struct auth_ring *old = ring_of(auth);
    auth->seen =
        file_look(auth->path); /* before it is read: a change meanwhile is found next time */
    errno = 0;
    struct auth_ring *ring =
        ring_create(keyring_read(auth->path, old == NULL ? NULL : old->keyring, error, error_size),
                    error, error_size);
    ring_unref(old);
    if (ring == NULL) {
        if (file_may_work_later(errno))
            auth->seen = (struct stat){0}; /* it is looked at again */
        return false;
    }
    pthread_mutex_lock(&auth->lock);
    old = auth->ring;
    auth->ring = ring;
    pthread_mutex_unlock(&auth->lock);
    keyring_close_others(ring->keyring, old == NULL ? NULL : old->keyring);
    ring_unref(old);
    return true;
}

/* 43 characters of base64url, without padding, and a NUL. */
static void write_text(const uint8_t bytes[KEY_DIGEST_SIZE], char *text) {
    const size_t length = base64_encode(bytes, KEY_DIGEST_SIZE, text) - 1;
    text[length] = '\0';
    for (char *at = text; *at != '\0'; at++)
        *at = (char)(*at == '+' ? '-' : *at == '/' ? '_' : *at);
}

bool auth_make_key(const char *name, FILE *out, char *error, size_t error_size) {
    uint8_t random[KEY_DIGEST_SIZE], digest[KEY_DIGEST_SIZE];
    char text[64] = KEY_PREFIX;
    if (!keyring_is_name(name)) {
        snprintf(error, error_size,
                 "--make-key: a name has 1 to %d letters, digits, dots, dashes, underscores and @.",
                 KEY_NAME_SIZE - 1);
        return false;
    }
    if (gnutls_rnd(GNUTLS_RND_KEY, random, sizeof random) != 0) {
        snprintf(error, error_size, "--make-key: the system gives no random bytes.");
        return false;
    }
    write_text(random, text + strlen(text));
    if (!keyring_digest(text, digest)) {
        snprintf(error, error_size, "--make-key: there is no SHA-256.");
        return false;
    }
    fprintf(out, "%s\n%s sha256:", text, name);
    for (size_t i = 0; i < KEY_DIGEST_SIZE; i++)
        fprintf(out, "%02x", digest[i]);
    fprintf(out, " infer\n");
    return true;
}
