/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of a real sentence with libcurl, safetensors both ways: the map of head 1.
 *   cc -std=c17 examples/c/post.c -o build/post $(pkg-config --cflags --libs libcurl)
 *   build/post [address of the daemon, if not in ATTENTION_URL] */
#define _POSIX_C_SOURCE 200809L
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define START "; start it with `make run`, or set ATTENTION_URL"

/* The answer, which the caller frees, or NULL, and then what to do is said. */
static char *post(const char *url, const char *path) {
    char *answer = NULL;
    size_t length = 0;
    long status = 0;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return fprintf(stderr, "no map: no %s; run in the root of the project\n", path), NULL;
    FILE *stream = open_memstream(&answer, &length);
    CURL *curl = curl_easy_init();
    struct curl_slist *type = curl_slist_append(NULL, "Content-Type: application/vnd.safetensors");
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_READDATA, file);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, type);
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, getenv("ATTENTION_KEY"));
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, stream);
    const CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(type), curl_easy_cleanup(curl), fclose(stream), fclose(file);
    if (code == CURLE_OK && status == 200)
        return answer;
    const char *at = strstr(answer, "\"detail\":\""); /* of a refusal: how to mend it */
    fprintf(stderr, code ? "no map: nothing answers at %s" : "no map: ", url);
    for (at = at ? at + 10 : code ? START : "this is not attentiond"; *at && *at != '"'; at++)
        fputc(*at == '\\' && at[1] ? *++at : *at, stderr);
    return fputc('\n', stderr), free(answer), NULL;
}

int main(int argc, char **argv) {
    char url[512];
    size_t rows = 0, columns = 0, begin = 0, header = 0; /* that of 64 bits, as a file has it */
    const char *named = argc > 1 ? argv[1] : getenv("ATTENTION_URL");
    snprintf(url, sizeof url, "%s/v1/attention", named ? named : "http://127.0.0.1:8080");
    char *answer = post(url, "examples/data/sentence.safetensors");
    if (answer == NULL)
        return 1;
    memcpy(&header, answer, sizeof header); /* its length stands first, then the header's JSON */
    const char *entry = strstr(answer + sizeof header, "\"weights\":");
    sscanf(entry, "%*[^[][%*u,%zu,%zu],%*[^[][%zu", &rows, &columns, &begin);
    const char *map = answer + sizeof header + header + begin + rows * columns * sizeof(float);
    for (size_t n = 0; n < rows * columns; n++) {
        float weight;
        memcpy(&weight, map + n * sizeof weight, sizeof weight);
        printf("%.6f%c", (double)weight, (n + 1) % columns ? ' ' : '\n');
    }
    return free(answer), 0;
}
