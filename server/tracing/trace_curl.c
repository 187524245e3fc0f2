/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl, found when the program runs; see trace_curl.h. */
#include "server/tracing/trace_curl.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECT_MS = 2000, REASON_SIZE = 256 };

struct functions {
    CURLcode (*global_init)(long flags);
    void (*global_cleanup)(void);
    CURL *(*easy_init)(void);
    void (*easy_cleanup)(CURL *easy);
    CURLcode (*easy_setopt)(CURL *easy, CURLoption option, ...);
    CURLcode (*easy_getinfo)(CURL *easy, CURLINFO info, ...);
    CURLcode (*easy_perform)(CURL *easy);
    const char *(*easy_strerror)(CURLcode code);
    struct curl_slist *(*slist_append)(struct curl_slist *list, const char *text);
    void (*slist_free_all)(struct curl_slist *list);
};

struct trace_curl {
    struct functions call;
    CURL *easy;
    struct curl_slist *headers;
};

/* What the loader says was wrong, behind what it said before. */
static void add_reason(char *reason, size_t size) {
    const char *const text = dlerror();
    const size_t used = strlen(reason);
    snprintf(reason + used, size - used, "%s%s", used == 0 ? "" : "; ",
             text == NULL ? "unknown" : text);
}

/* The library's soname has been the same since 2006. It stays loaded. */
static void *load(char *reason, size_t size) {
    static const char *const names[] = {"libcurl-gnutls.so.4", "libcurl.so.4"};
    void *library = NULL;
    for (size_t i = 0; library == NULL && i < sizeof names / sizeof *names; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL)
            add_reason(reason, size);
    }
    return library;
}

/* False with `reason` saying why. */
static bool find_functions(struct functions *call, char *reason, size_t size) {
#define FUNCTION(name) \
    { "curl_" #name, offsetof(struct functions, name) }
    static const struct {
        const char *name;
        size_t at;
    } rows[] = {FUNCTION(global_init),   FUNCTION(global_cleanup), FUNCTION(easy_init),
                FUNCTION(easy_cleanup),  FUNCTION(easy_setopt),    FUNCTION(easy_getinfo),
                FUNCTION(easy_perform),  FUNCTION(easy_strerror),  FUNCTION(slist_append),
                FUNCTION(slist_free_all)};
#undef FUNCTION
    reason[0] = '\0';
    void *const library = load(reason, size);
    for (size_t i = 0; library != NULL && i < sizeof rows / sizeof *rows; i++) {
        void *const found = dlsym(library, rows[i].name);
        if (found == NULL) {
            add_reason(reason, size);
            return false;
        }
        memcpy((char *)call + rows[i].at, &found, sizeof found);
    }
    return library != NULL;
}

bool trace_curl_exists(char *reason, size_t size) {
    struct functions call;
    return find_functions(&call, reason, size);
}

static size_t pass_over(const char *data, size_t size, size_t count, void *context) {
    (void)data;
    (void)context;
    return size * count;
}

/* What is the same for every request. Neither proxies of the environment nor redirections are
   followed: spans go where the configuration says. */
static bool set_up(struct trace_curl *curl, const char *url) {
    const struct functions *const call = &curl->call;
    CURL *const easy = curl->easy;
    return call->easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
           call->easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
           call->easy_setopt(easy, CURLOPT_USERAGENT, "attentiond/" ATTN_VERSION) == CURLE_OK &&
           call->easy_setopt(easy, CURLOPT_HTTPHEADER, curl->headers) == CURLE_OK &&
           call->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           call->easy_setopt(easy, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
           call->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS) == CURLE_OK &&
           call->easy_setopt(easy, CURLOPT_WRITEFUNCTION, pass_over) == CURLE_OK;
}

static bool add_header(struct trace_curl *curl, const char *line) {
    struct curl_slist *const longer = curl->call.slist_append(curl->headers, line);
    if (longer != NULL)
        curl->headers = longer;
    return longer != NULL;
}

struct trace_curl *trace_curl_open(const char *url) {
    char reason[REASON_SIZE];
    struct trace_curl *const curl = calloc(1, sizeof *curl);
    if (curl == NULL || !find_functions(&curl->call, reason, sizeof reason) ||
        curl->call.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(curl);
        return NULL;
    }
    curl->easy = curl->call.easy_init();
    if (curl->easy != NULL && add_header(curl, "Content-Type: application/json") &&
        add_header(curl, "Expect:") && set_up(curl, url))
        return curl;
    trace_curl_close(curl);
    return NULL;
}

void trace_curl_close(struct trace_curl *curl) {
    if (curl == NULL)
        return;
    if (curl->easy != NULL)
        curl->call.easy_cleanup(curl->easy);
    curl->call.slist_free_all(curl->headers);
    curl->call.global_cleanup();
    free(curl);
}

struct watch {
    bool (*is_over)(void *context);
    void *context;
};

static int look(void *context, curl_off_t download, curl_off_t downloaded, curl_off_t upload,
                curl_off_t uploaded) {
    const struct watch *const watch = context;
    (void)download;
    (void)downloaded;
    (void)upload;
    (void)uploaded;
    return watch->is_over(watch->context) ? 1 : 0;
}

/* OTLP names the statuses after which a sender tries again. */
static enum trace_outcome outcome_of(long status) {
    if (status >= 200 && status < 300)
        return TRACE_SENT;
    return status == 429 || status == 502 || status == 503 || status == 504 ? TRACE_BUSY
                                                                            : TRACE_REFUSED;
}

enum trace_outcome trace_curl_post(struct trace_curl *curl, const char *json, long ms,
                                   bool (*is_over)(void *context), void *context, char *reason,
                                   size_t size) {
    const struct functions *const call = &curl->call;
    struct watch watch = {is_over, context};
    long status = 0;
    call->easy_setopt(curl->easy, CURLOPT_TIMEOUT_MS, ms);
    call->easy_setopt(curl->easy, CURLOPT_XFERINFOFUNCTION, look);
    call->easy_setopt(curl->easy, CURLOPT_XFERINFODATA, &watch);
    call->easy_setopt(curl->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(json));
    call->easy_setopt(curl->easy, CURLOPT_POSTFIELDS, json);
    const CURLcode code = call->easy_perform(curl->easy);
    if (code != CURLE_OK) {
        snprintf(reason, size, "%s", call->easy_strerror(code));
        return code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ? TRACE_BUSY
                                                                                   : TRACE_REFUSED;
    }
    call->easy_getinfo(curl->easy, CURLINFO_RESPONSE_CODE, &status);
    snprintf(reason, size, "it answered %ld", status);
    return outcome_of(status);
}
