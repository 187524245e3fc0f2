/* SPDX-License-Identifier: Apache-2.0 */
/* Answers past the library; see http_direct.h. One call of send(): an answer of this size fits into
   the buffer of any socket whose client has taken what came before. */
#include "server/http/http_direct.h"

#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/cors.h"
#include "server/http/http_tls_internal.h"

static void write_head(struct text *out, int status, const struct http_addressee *to,
                       size_t length) {
    char date[64] = "";
    struct tm parts;
    const time_t now = time(NULL);
    if (gmtime_r(&now, &parts) != NULL)
        strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &parts);
    text_format(out,
                "HTTP/1.1 %d %s\r\nDate: %s\r\nConnection: close\r\nContent-Type: %s\r\n"
                "Content-Length: %zu\r\nX-Request-Id: %s\r\n",
                status, MHD_get_reason_phrase_for((unsigned)status), date,
                problem_content_type(to->form), length, to->id);
    if (to->origin[0] != '\0')
        text_format(out,
                    "Access-Control-Allow-Origin: %s\r\nAccess-Control-Expose-Headers: %s\r\n"
                    "Vary: Origin\r\n",
                    to->origin, CORS_ANSWER_HEADERS);
    text_format(out, "\r\n");
}

bool http_direct(const struct http_peer *peer, const struct problem *problem,
                 const struct http_addressee *to) {
    struct text body = {0}, answer = {0};
    problem_write(problem, to->form, to->id, &body);
    write_head(&answer, problem_status(problem->code), to, body.length);
    text_add(&answer, body.data, body.length);
    const bool is_whole = !body.failed && !answer.failed;
    const bool sent = is_whole && http_tls_send(peer, answer.data, answer.length);
    text_close(&body);
    text_close(&answer);
    if (!is_whole)
        return http_direct_no_memory(peer, to->form);
    return sent && http_tls_end(peer);
}

bool http_direct_no_memory(const struct http_peer *peer, enum problem_form form) {
    const char *const body = problem_no_memory(form);
    char answer[512];
    const int length =
        snprintf(answer, sizeof answer,
                 "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"
                 "Content-Type: %s\r\nRetry-After: 1\r\nContent-Length: %zu\r\n\r\n%s",
                 problem_content_type(form), strlen(body), body);
    return http_tls_send(peer, answer, (size_t)length) && http_tls_end(peer);
}
