/* SPDX-License-Identifier: Apache-2.0 */
/* Who sent a request, in words, for each family of addresses. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "server/http/http_internal.h"
#include "tests/support/test_main.h"

static const char *text_of(const void *address) {
    static char text[64];
    http_address_text(address, text, sizeof text);
    return text;
}

START_TEST(addresses_are_words) {
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(80)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = "/run/x"};
    const struct sockaddr other = {.sa_family = AF_UNSPEC};
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_str_eq(text_of(&four), "127.0.0.1");
    ck_assert_str_eq(text_of(&six), "::1");
    ck_assert_str_eq(text_of(&local), "unix");
    ck_assert_str_eq(text_of(&other), "");
}
END_TEST

static Suite *http_head_suite(void) {
    Suite *suite = suite_create("http_head");
    TCase *head = tcase_create("head");
    tcase_add_test(head, addresses_are_words);
    suite_add_tcase(suite, head);
    return suite;
}

ATTN_TEST_MAIN(http_head_suite)
