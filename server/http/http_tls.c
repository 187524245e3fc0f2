/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates and direct words; see http_tls.h. */
#include "server/http/http_tls.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "server/file_load.h"
#include "server/http/http_internal.h"
#include "server/http/http_tls_internal.h"

enum { CHAIN_MOST = 16, KEY_ID_SIZE = 64, PEM_LARGEST = 1 << 20 };

/* A certificate and what it is spoken with. */
struct identity {
    gnutls_pcert_st chain[CHAIN_MOST];
    unsigned length;
    gnutls_privkey_t key;
    double expires;          /* when the first of the chain does, in seconds since 1970 */
    struct identity *before; /* which this one has replaced; owned */
};

struct http_tls {
    struct http_tls_files files;
    struct stat seen[2]; /* of certificate and key, when they were last read */
    gnutls_datum_t client_ca;
    _Atomic(struct identity *) identity;
};

/* The library's callback is given no context: there is one service in a process. */
static _Atomic(struct http_tls *) in_force;

/* ---- files ---- */

static bool complain(char *error, size_t error_size, const char *option, const char *path,
                     const char *cause) {
    snprintf(error, error_size, "%s %s: %s", option, path, cause);
    return false;
}

static void identity_free(struct identity *identity) {
    while (identity != NULL) {
        struct identity *const before = identity->before;
        for (unsigned i = 0; i < identity->length; i++)
            gnutls_pcert_deinit(&identity->chain[i]);
        gnutls_privkey_deinit(identity->key);
        free(identity);
        identity = before;
    }
}

/* text->data: owned, with a NUL behind it. */
static bool load_text(gnutls_datum_t *text, const char *option, const char *path, char *error,
                      size_t error_size) {
    size_t length = 0;
    const char *cause = NULL;
    text->data = (unsigned char *)file_load(path, PEM_LARGEST, &length, &cause);
    text->size = (unsigned)length;
    return text->data != NULL || complain(error, error_size, option, path, cause);
}

static bool load_key(struct identity *identity, const char *path, char *error, size_t error_size) {
    gnutls_datum_t text;
    if (!load_text(&text, "tls_key", path, error, error_size))
        return false;
    const int answer =
        gnutls_privkey_import_x509_raw(identity->key, &text, GNUTLS_X509_FMT_PEM, NULL, 0);
    gnutls_memset(text.data, 0, text.size);
    free(text.data);
    return answer == 0 || complain(error, error_size, "tls_key", path, gnutls_strerror(answer));
}

/* NULL when certificate and key belong together, by the id of the public key. */
static const char *why_no_pair(const struct identity *identity) {
    unsigned char certified[KEY_ID_SIZE], own[KEY_ID_SIZE];
    size_t certified_size = sizeof certified, own_size = sizeof own;
    gnutls_pubkey_t public_key;
    int answer = gnutls_pubkey_init(&public_key);
    if (answer != 0)
        return gnutls_strerror(answer);
    answer = gnutls_pubkey_import_privkey(public_key, identity->key, 0, 0);
    if (answer == 0)
        answer = gnutls_pubkey_get_key_id(public_key, GNUTLS_KEYID_USE_SHA256, own, &own_size);
    if (answer == 0)
        answer = gnutls_pubkey_get_key_id(identity->chain[0].pubkey, GNUTLS_KEYID_USE_SHA256,
                                          certified, &certified_size);
    gnutls_pubkey_deinit(public_key);
    if (answer != 0)
        return gnutls_strerror(answer);
    return own_size == certified_size && memcmp(own, certified, own_size) == 0
               ? NULL
               : "it does not belong to the certificate";
}

static bool load_chain(struct identity *identity, const char *path, char *error,
                       size_t error_size) {
    gnutls_datum_t text;
    if (!load_text(&text, "tls_certificate", path, error, error_size))
        return false;
    identity->length = CHAIN_MOST;
    const int answer = gnutls_pcert_list_import_x509_raw(identity->chain, &identity->length, &text,
                                                         GNUTLS_X509_FMT_PEM, 0);
    free(text.data);
    if (answer == 0 && identity->length > 0)
        return true;
    identity->length = 0;
    return complain(error, error_size, "tls_certificate", path,
                    answer == 0 ? "there is no certificate in it" : gnutls_strerror(answer));
}

/* A chain is good until the first of its certificates is not. */
static bool read_expiry(struct identity *identity, const char *path, char *error,
                        size_t error_size) {
    for (unsigned i = 0; i < identity->length; i++) {
        gnutls_x509_crt_t certificate;
        int answer = gnutls_x509_crt_init(&certificate);
        if (answer != 0)
            return complain(error, error_size, "tls_certificate", path, gnutls_strerror(answer));
        answer = gnutls_x509_crt_import(certificate, &identity->chain[i].cert, GNUTLS_X509_FMT_DER);
        const double end =
            answer == 0 ? (double)gnutls_x509_crt_get_expiration_time(certificate) : 0;
        gnutls_x509_crt_deinit(certificate);
        if (answer != 0)
            return complain(error, error_size, "tls_certificate", path, gnutls_strerror(answer));
        if (i == 0 || end < identity->expires)
            identity->expires = end;
    }
    return true;
}

static struct identity *identity_load(const struct http_tls_files *files, char *error,
                                      size_t error_size) {
    struct identity *identity = calloc(1, sizeof *identity);
    if (identity == NULL || gnutls_privkey_init(&identity->key) != 0) {
        free(identity);
        snprintf(error, error_size, "tls_certificate: there is no memory for it");
        return NULL;
    }
    bool is_fine = load_chain(identity, files->certificate, error, error_size) &&
                   read_expiry(identity, files->certificate, error, error_size) &&
                   load_key(identity, files->key, error, error_size);
    const char *const fault = is_fine ? why_no_pair(identity) : NULL;
    if (fault != NULL)
        is_fine = complain(error, error_size, "tls_key", files->key, fault);
    if (is_fine)
        return identity;
    identity_free(identity);
    return NULL;
}

bool http_tls_changed(struct http_tls *tls) {
    return file_differs(tls->files.certificate, &tls->seen[0]) ||
           file_differs(tls->files.key, &tls->seen[1]);
}

/* The same certificates have the same key: it belongs to the first of them. */
static bool is_same(const struct identity *identity, const struct identity *other) {
    bool same = other != NULL && identity->length == other->length;
    for (unsigned i = 0; same && i < identity->length; i++) {
        const gnutls_datum_t *const one = &identity->chain[i].cert;
        const gnutls_datum_t *const two = &other->chain[i].cert;
        same = one->size == two->size && memcmp(one->data, two->data, one->size) == 0;
    }
    return same;
}

/* Nothing that was in force is freed, so only what differs may take its place. */
bool http_tls_reload(struct http_tls *tls, char *error, size_t error_size) {
    tls->seen[0] = file_look(tls->files.certificate);
    tls->seen[1] = file_look(tls->files.key);
    errno = 0;
    struct identity *identity = identity_load(&tls->files, error, error_size);
    if (identity == NULL) {
        if (file_may_work_later(errno))
            tls->seen[0] = (struct stat){0}; /* it is looked at again */
        return false;
    }
    struct identity *const before = atomic_load(&tls->identity);
    if (is_same(identity, before)) {
        identity_free(identity);
        return true;
    }
    identity->before = before;
    atomic_store(&tls->identity, identity);
    return true;
}

double http_tls_expires(const struct http_tls *tls) {
    return atomic_load(&tls->identity)->expires;
}

static bool load_client_ca(struct http_tls *tls, char *error, size_t error_size) {
    const char *const path = tls->files.client_ca;
    gnutls_x509_crt_t certificates[CHAIN_MOST] = {NULL};
    unsigned count = CHAIN_MOST;
    if (path[0] == '\0')
        return true;
    if (!load_text(&tls->client_ca, "tls_client_ca", path, error, error_size))
        return false;
    const int answer =
        gnutls_x509_crt_list_import(certificates, &count, &tls->client_ca, GNUTLS_X509_FMT_PEM, 0);
    for (int i = 0; i < answer; i++)
        gnutls_x509_crt_deinit(certificates[i]);
    return answer > 0 ||
           complain(error, error_size, "tls_client_ca", path,
                    answer == 0 ? "there is no certificate in it" : gnutls_strerror(answer));
}

struct http_tls *http_tls_open(const struct http_tls_files *files, char *error, size_t error_size) {
    struct http_tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL || MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES) {
        snprintf(error, error_size, "tls_certificate: %s",
                 tls == NULL ? "there is no memory for it" : "this libmicrohttpd has no TLS");
        free(tls);
        return NULL;
    }
    http_tls_reserve();
    tls->files = *files;
    if (http_tls_reload(tls, error, error_size) && load_client_ca(tls, error, error_size)) {
        atomic_store(&in_force, tls);
        return tls;
    }
    http_tls_free(tls);
    return NULL;
}

void http_tls_free(struct http_tls *tls) {
    if (tls == NULL)
        return;
    atomic_store(&in_force, NULL);
    identity_free(atomic_load(&tls->identity));
    free(tls->client_ca.data);
    free(tls);
}

/* ---- sessions ---- */

int http_tls_retrieve(gnutls_session_t session, const gnutls_datum_t *authorities, int count,
                      const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                      gnutls_pcert_st **chain, unsigned *length, gnutls_privkey_t *key) {
    struct http_tls *const tls = atomic_load(&in_force);
    (void)session;
    (void)authorities;
    (void)count;
    (void)algorithms;
    (void)algorithm_count;
    if (tls == NULL)
        return -1;
    struct identity *const identity = atomic_load(&tls->identity);
    *chain = identity->chain;
    *length = identity->length;
    *key = identity->key;
    return 0;
}

const char *http_tls_client_ca(const struct http_tls *tls) {
    return (const char *)tls->client_ca.data;
}

bool http_tls_knows_client(gnutls_session_t session) {
    unsigned faults = 0;
    return gnutls_certificate_verify_peers2(session, &faults) == 0 && faults == 0;
}

/* One thread may send while another receives. */
bool http_tls_send(const struct http_peer *peer, const void *data, size_t length) {
    const ssize_t sent = peer->session == NULL
                             ? send(peer->fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL)
                             : gnutls_record_send(peer->session, data, length);
    return sent == (ssize_t)length;
}

bool http_tls_end(const struct http_peer *peer) {
    if (peer->session != NULL)
        (void)gnutls_bye(peer->session, GNUTLS_SHUT_WR);
    return shutdown(peer->fd, SHUT_WR) == 0;
}
