/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS by GnuTLS through libmicrohttpd: the certificate in force, and what is said past the library.
 * The files are read again while the service runs; handshakes that have begun go on with what they
 * began with, so a certificate that was replaced is kept until the end.
 */
#ifndef SERVER_HTTP_HTTP_TLS_H
#define SERVER_HTTP_HTTP_TLS_H

#include <stdbool.h>
#include <stddef.h>

struct http_tls;

/* Paths of PEM files, borrowed. */
struct http_tls_files {
    const char
        *certificate; /* the chain, the service's own certificate first; "": there is no TLS */
    const char *key;
    const char *client_ca; /* whose certificates clients need; "": they need none */
};

/* NULL with a sentence in `error` when a file is not as it should be. */
struct http_tls *http_tls_open(const struct http_tls_files *files, char *error, size_t error_size);
/* No daemon may use it any more. */
void http_tls_free(struct http_tls *tls);

/* Whether the certificate's files are others than those last looked at. Only the thread that
   reloads asks. */
bool http_tls_changed(struct http_tls *tls);
/* Reads certificate and key again; false with a sentence in `error`, and then all stays as it is.
   The clients' authority stays as it was at the start. */
bool http_tls_reload(struct http_tls *tls, char *error, size_t error_size);
/* When the first certificate of the chain in force expires, in seconds since 1970. */
double http_tls_expires(const struct http_tls *tls);

#endif
