/* SPDX-License-Identifier: Apache-2.0 */
/* The callbacks that libmicrohttpd calls; handed to it by http_server.c. */
#ifndef SERVER_HTTP_HTTP_HANDLER_H
#define SERVER_HTTP_HTTP_HANDLER_H

/* Only for http_*.c files. */
#include <microhttpd.h>

/* All have a struct http_thread as their first argument. */
enum MHD_Result http_handle(void *context, struct MHD_Connection *connection, const char *url,
                            const char *method, const char *version, const char *data, size_t *size,
                            void **request);
void http_completed(void *context, struct MHD_Connection *connection, void **request,
                    enum MHD_RequestTerminationCode code);
void http_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                     enum MHD_ConnectionNotificationCode code);
void *http_first_line(void *context, const char *uri, struct MHD_Connection *connection);

#endif
