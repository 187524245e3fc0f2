/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard of the bytes between a head's texts, on heads laid out here as the library may leave
 * them. Which of them it really leaves depends on its version; tests/e2e/test_framing.py asks it.
 */
#include <microhttpd.h>
#include <string.h>

#include "server/http/http_internal.h"
#include "tests/support/test_main.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
enum { HEADERS = 3, ROOM = 128 };

/* '|' stands for a zero. Names and values are looked for one behind the other; an empty name lies
   where the text before it ends, and a value that is not found lies elsewhere. */
struct layout {
    const char *text;
    const char *headers[HEADERS][2];
    bool is_whole;
};

static char memory[ROOM];
static size_t used;
static const struct layout *given;
static bool has_size;

static const char *find(const char *from, const char *text) {
    const size_t rest = (size_t)(memory + used - from);
    const char *const found = memmem(from, rest, text, strlen(text));
    return found == NULL ? text : found;
}

/* Stands in for the library's. */
const union MHD_ConnectionInfo *MHD_get_connection_info(struct MHD_Connection *connection,
                                                        enum MHD_ConnectionInfoType type, ...) {
    static union MHD_ConnectionInfo info;
    (void)connection;
    ck_assert_int_eq(type, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    info.header_size = used;
    return has_size ? &info : NULL;
}

/* Stands in for the library's, and ends where it is told to. */
int MHD_get_connection_values(struct MHD_Connection *connection, enum MHD_ValueKind kind,
                              MHD_KeyValueIterator see, void *context) {
    const char *at = strchr(find(memory, "HTTP/"), '\0');
    (void)connection;
    int count = 0;
    while (count < HEADERS && given->headers[count][0] != NULL) {
        const char *const name = find(at, given->headers[count][0]);
        const char *const value = find(name + strlen(name), given->headers[count][1]);
        if (see(context, kind, name, value) != MHD_YES)
            break;
        at = strchr(value, '\0');
        count++;
    }
    return count;
}

static bool guard(const struct layout *layout) {
    given = layout;
    used = strlen(layout->text);
    ck_assert_uint_lt(used, ROOM);
    for (size_t i = 0; i < used; i++)
        memory[i] = layout->text[i] == '|' ? '\0' : layout->text[i];
    memory[used] = 'x'; /* what comes behind the head */
    struct exchange exchange = {.method_name = memory};
    struct problem problem = {0};
    const char *const target = memory + strlen(memory) + 1;
    const struct http_head head = {.target_end = target + strlen(target),
                                   .version = find(memory, "HTTP/"),
                                   .exchange = &exchange};
    const bool is_whole = http_guard_bytes(&head, &problem);
    if (!is_whole)
        ck_assert_str_eq(problem_name(problem.code), problem_name(PROBLEM_BAD_FRAMING));
    return is_whole;
}

#define LINE "GET|/v1|HTTP/1.1"

static const struct layout LAYOUTS[] = {
    {LINE "||Host|here||X| \ty||||", {{"Host", "here"}, {"X", "y"}}, true},
    {LINE "|Host|here||", {{"Host", "here"}}, true}, /* its lines end in LF */
    {LINE "||||", {{NULL, NULL}}, true},
    {"GET|/v|1|HTTP/1.1||||", {{NULL, NULL}}, false},
    {"GET|/v|1|HTTP/1.1||Host|here||||", {{"Host", "here"}}, false},
    {LINE "||X|a|b||||", {{"X", "a"}}, false},
    {LINE "||X|a|b||", {{"X", "a"}}, false},
    {LINE "||X|a|b||Y|c||||", {{"X", "a"}, {"Y", "c"}}, false},
    {LINE "||:b||X|a||||", {{"X", "a"}}, false},
    {LINE "||b||||", {{"", "b"}}, false},
    {LINE "||X|;a||||", {{"X", "a"}}, false},
    {LINE "||X|a||||", {{"X", "of another line"}}, false},
    {LINE "|", {{NULL, NULL}}, false},
    {LINE "||X|a|||||", {{"X", "a"}}, false},
};

START_TEST(every_byte_belongs_to_a_text) {
    has_size = true;
#if MHD_VERSION < 0x01000000
    ck_assert_int_eq(guard(&LAYOUTS[_i]), LAYOUTS[_i].is_whole);
#else
    ck_assert(guard(&LAYOUTS[_i])); /* the library judges by itself */
#endif
}
END_TEST

#if MHD_VERSION < 0x01000000
START_TEST(a_head_of_unknown_size_is_refused) {
    has_size = false;
    ck_assert(!guard(&LAYOUTS[0]));
}
END_TEST
#endif

static Suite *http_bytes_suite(void) {
    Suite *const suite = suite_create("http_bytes");
    TCase *const tests = tcase_create("bytes");
    tcase_add_loop_test(tests, every_byte_belongs_to_a_text, 0, (int)COUNT(LAYOUTS));
#if MHD_VERSION < 0x01000000
    tcase_add_test(tests, a_head_of_unknown_size_is_refused);
#endif
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(http_bytes_suite)
