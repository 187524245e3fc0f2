/* SPDX-License-Identifier: Apache-2.0 */
/* TLS as the http_*.c files use it. */
#ifndef SERVER_HTTP_HTTP_TLS_INTERNAL_H
#define SERVER_HTTP_HTTP_TLS_INTERNAL_H

#include <gnutls/abstract.h>

#include "server/http/http_tls.h"

struct http_peer;

/* TLS 1.2 and 1.3 alone. */
#define HTTP_TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* The library's callback for the certificate in force; it gives no context. */
int http_tls_retrieve(gnutls_session_t session, const gnutls_datum_t *authorities, int count,
                      const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                      gnutls_pcert_st **chain, unsigned *length, gnutls_privkey_t *key);
/* PEM text of the authority that clients' certificates come from, or NULL: they need none. */
const char *http_tls_client_ca(const struct http_tls *tls);
/* Whether the client of this session has shown a certificate of that authority. */
bool http_tls_knows_client(gnutls_session_t session);

/* From here on what GnuTLS computes with does not end the process when there is no memory. */
void http_tls_reserve(void);

/* Sends all of it at once past the library; false when that is not possible. A session must not end
   meanwhile: only for its I/O thread, and for others while its request sleeps. */
bool http_tls_send(const struct http_peer *peer, const void *data, size_t length);
/* Ends this side of the connection. */
bool http_tls_end(const struct http_peer *peer);

#endif
