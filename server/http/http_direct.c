/* SPDX-License-Identifier: Apache-2.0 */
/* Answers past the library; see http_direct.h. One call of send(): an answer of this size fits into
   the buffer of any socket whose client has taken what came before. */
#include "server/http/http_direct.h"

#include <microhttpd.h>
#include <sys/socket.h>
#include <time.h>

#include "server/cors.h"

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

bool http_direct(int fd, const struct problem *problem, const struct http_addressee *to) {
    struct text body = {0}, answer = {0};
    problem_write(problem, to->form, to->id, &body);
    write_head(&answer, problem_status(problem->code), to, body.length);
    text_add(&answer, body.data, body.length);
    const bool sent =
        !body.failed && !answer.failed &&
        send(fd, answer.data, answer.length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)answer.length;
    text_close(&body);
    text_close(&answer);
    return sent && shutdown(fd, SHUT_WR) == 0;
}
