/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of a real sentence with libcurl, safetensors both ways: the map of head 1.
 *   cc -std=c17 examples/c/post.c -o build/post $(pkg-config --cflags --libs libcurl)
 *   build/post [address of the daemon, if not in ATTENTION_URL] */
#define _POSIX_C_SOURCE 200809L
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Posts the file; the answer, which the caller frees, or NULL, and then what happened is said. */
static char *post(const char *url, FILE *file, size_t *length) {
    char problem[CURL_ERROR_SIZE] = "", *answer = NULL;
    long status = 0;
    FILE *stream = open_memstream(&answer, length);
    CURL *curl = curl_easy_init();
    struct curl_slist *type = curl_slist_append(NULL, "Content-Type: application/vnd.safetensors");
    fseek(file, 0, SEEK_END);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, ftell(file));
    curl_easy_setopt(curl, CURLOPT_READDATA, file);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, type);
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, getenv("ATTENTION_KEY"));
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, stream);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, problem);
    rewind(file);
    const CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(type);
    curl_easy_cleanup(curl);
    fclose(stream);
    if (code == CURLE_OK && status == 200)
        return answer;
    fprintf(stderr, "no map: %s\n", code == CURLE_OK ? answer : problem);
    return free(answer), NULL;
}

int main(int argc, char **argv) {
    char url[512];
    size_t length = 0, rows = 0, columns = 0, begin = 0;
    unsigned long long header = 0;
    FILE *file = fopen("examples/data/sentence.safetensors", "rb");
    const char *named = argc > 1 ? argv[1] : getenv("ATTENTION_URL");
    snprintf(url, sizeof url, "%s/v1/attention", named ? named : "http://127.0.0.1:8080");
    char *answer = file ? post(url, file, &length) : NULL;
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
    return free(answer), fclose(file);
}
