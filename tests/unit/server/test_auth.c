/* SPDX-License-Identifier: Apache-2.0 */
/* The key file, finding keys, and reading the file again while keys are in use. */
#include "server/auth/auth.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test_main.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))
/* SHA-256 of "abc" (FIPS 180-2) and of "". */
#define ABC "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define EMPTY "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static char path[64], error[KEYRING_ERROR_SIZE];

static void put(const char *text) {
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
}

static void setup(void) {
    snprintf(path, sizeof path, "/tmp/attentiond-keys-%d", (int)getpid());
    error[0] = '\0';
}

static void teardown(void) {
    unlink(path);
}

START_TEST(a_key_is_found_by_its_text) {
    struct auth_pass pass = {0};
    put("# people\n\n  alice\t" ABC " infer,metrics calls=3 memory_mib=2 \r\nbob " EMPTY
        " admin\n");
    struct auth *auth = auth_open(path, error, sizeof error);
    ck_assert_msg(auth != NULL, "%s", error);
    ck_assert(auth_has_keys(auth));
    ck_assert_uint_eq(auth_count(auth), 2);
    ck_assert(auth_find(auth, "abc", &pass));
    ck_assert_str_eq(pass.key->name, "alice");
    ck_assert_uint_eq(pass.key->scopes, 1U << ACCESS_INFER | 1U << ACCESS_METRICS);
    ck_assert_double_eq(pass.key->limits.calls, 3);
    ck_assert_double_eq(pass.key->limits.memory, 2 << 20);
    ck_assert_double_eq(pass.key->limits.requests_per_second, 0);
    auth_let_go(&pass);
    ck_assert(auth_find(auth, "", &pass));
    ck_assert_str_eq(pass.key->name, "bob");
    auth_let_go(&pass);
    ck_assert(!auth_find(auth, "abd", &pass));
    ck_assert(pass.key == NULL);
    char longest[KEY_LONGEST + 2];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    ck_assert(!auth_find(auth, longest, &pass));
    auth_free(auth);
}
END_TEST

START_TEST(without_a_file_there_are_no_keys) {
    struct auth_pass pass;
    struct auth *auth = auth_open("", error, sizeof error);
    ck_assert(!auth_has_keys(auth) && !auth_file_changed(auth) && auth_count(auth) == 0);
    ck_assert(!auth_find(auth, "abc", &pass));
    auth_free(auth);
}
END_TEST

static const struct wrong {
    const char *text, *says;
} wrong[] = {
    {"", "has no key"},
    {"# nobody\n", "has no key"},
    {"alice\n", ":1: a line needs"},
    {"attn_abc\n", ":1: this looks like a key itself"},
    {"alice " ABC "\n", ":1: a line needs"},
    {"\nalice abc infer\n", ":2: the second word of alice's line has to be sha256:"},
    {"alice " ABC "00 infer\n", "the second word"},
    {"alice SHA256:00 infer\n", "the second word"},
    {"alice sha256:BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD infer",
     "lower case"},
    {"alice " ABC " read\n", "\"read\" is no scope; there are infer, sessions, captures, metrics, "
                             "admin"},
    {"alice " ABC " infer,\n", "\"\" is no scope"},
    {"alice " ABC " infer limit=3\n", "no limit \"limit=3\""},
    {"alice " ABC " infer sessions\n", "sessions takes a number above 0 and up to 1e+09, as in "
                                       "sessions=10; scopes are one word, as in infer,sessions"},
    {"alice " ABC " infer admin\n", "scopes are one word, as in infer,sessions"},
    {"alice " ABC " infer calls\n", "calls takes a number"},
    {"alice " ABC " infer calls=\n", "calls takes a number"},
    {"alice " ABC " infer calls=0\n", "calls takes a number"},
    {"alice " ABC " infer calls=-1\n", "calls takes a number"},
    {"alice " ABC " infer calls=nan\n", "calls takes a number"},
    {"alice " ABC " infer calls=1e10\n", "calls takes a number"},
    {"alice " ABC " infer calls=3x\n", "calls takes a number"},
    {"al/ice " ABC " infer\n", "a name has"},
    {"alice " ABC " infer\nalice " EMPTY " infer\n", ":2: the name alice"},
};

START_TEST(a_wrong_file_is_refused) {
    put(wrong[_i].text);
    ck_assert(auth_open(path, error, sizeof error) == NULL);
    ck_assert_msg(strstr(error, wrong[_i].says) != NULL, "%s", error);
    ck_assert_msg(strstr(error, path) != NULL, "%s", error);
}
END_TEST

/* Somebody may put the key itself where its digest belongs. */
START_TEST(an_error_does_not_repeat_the_key) {
    put("alice attn_secret infer\n");
    ck_assert(auth_open(path, error, sizeof error) == NULL);
    ck_assert(strstr(error, "secret") == NULL);
}
END_TEST

START_TEST(no_file_and_no_text) {
    ck_assert(auth_open("/nowhere/keys", error, sizeof error) == NULL);
    ck_assert(strstr(error, "/nowhere/keys: No such file") != NULL);
    FILE *file = fopen(path, "w");
    fwrite("alice\0x", 1, 7, file);
    fclose(file);
    ck_assert(auth_open(path, error, sizeof error) == NULL);
    ck_assert(strstr(error, "no text") != NULL);
}
END_TEST

/* Reading it would wait for a writer, or never end. */
static void refuse_to_read(const char *name, const char *says) {
    ck_assert(auth_open(name, error, sizeof error) == NULL);
    ck_assert_msg(strstr(error, says) != NULL, "%s", error);
}

START_TEST(what_is_no_file_is_not_read) {
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    refuse_to_read(path, "no regular file");
    refuse_to_read("/dev/zero", "no regular file");
    refuse_to_read("/tmp", "no regular file");
}
END_TEST

/* Such as one whose size is said to be 0. */
START_TEST(a_file_of_which_more_comes_than_it_had) {
    refuse_to_read("/proc/self/status", "it grew while it was read");
}
END_TEST

START_TEST(a_file_that_is_too_large) {
    FILE *file = fopen(path, "w");
    for (int i = 0; i <= 4 << 20; i++)
        fputc('#', file);
    fclose(file);
    refuse_to_read(path, "too large");
    ck_assert_int_eq(truncate(path, 4 << 20), 0);
    refuse_to_read(path, "has no key");
}
END_TEST

START_TEST(a_key_in_use_outlives_its_file) {
    struct auth_pass pass, again;
    put("alice " ABC " infer\n");
    struct auth *auth = auth_open(path, error, sizeof error);
    ck_assert(!auth_file_changed(auth));
    ck_assert(auth_find(auth, "abc", &pass));
    ck_assert_int_eq(account_enter(pass.key->account, &pass.key->limits, 1).refusal, ACCOUNT_FINE);
    put("bob " EMPTY " infer\n");
    ck_assert(auth_file_changed(auth));
    ck_assert(auth_reload(auth, error, sizeof error));
    ck_assert(!auth_file_changed(auth));
    ck_assert(!auth_find(auth, "abc", &again));
    ck_assert_str_eq(pass.key->name, "alice");
    account_leave(pass.key->account);
    auth_let_go(&pass);
    auth_free(auth);
}
END_TEST

START_TEST(a_bad_file_changes_nothing) {
    struct auth_pass pass;
    put("alice " ABC " infer\n");
    struct auth *auth = auth_open(path, error, sizeof error);
    put("alice\n");
    ck_assert(!auth_reload(auth, error, sizeof error));
    ck_assert(!auth_file_changed(auth)); /* it is not read again and again */
    ck_assert(auth_find(auth, "abc", &pass));
    auth_let_go(&pass);
    unlink(path);
    ck_assert(auth_file_changed(auth));
    ck_assert(!auth_reload(auth, error, sizeof error));
    ck_assert(auth_find(auth, "abc", &pass));
    auth_let_go(&pass);
    auth_free(auth);
}
END_TEST

START_TEST(an_account_outlives_its_file) {
    struct auth_pass pass;
    put("alice " ABC " infer calls=1\n");
    struct auth *auth = auth_open(path, error, sizeof error);
    ck_assert(auth_find(auth, "abc", &pass));
    ck_assert_int_eq(account_enter(pass.key->account, &pass.key->limits, 1).refusal, ACCOUNT_FINE);
    put("bob " EMPTY " infer\nalice " ABC " infer,admin calls=1\n");
    ck_assert(auth_reload(auth, error, sizeof error));
    struct auth_pass again;
    ck_assert(auth_find(auth, "abc", &again));
    ck_assert(again.key != pass.key && again.key->account == pass.key->account);
    ck_assert_int_eq(account_enter(again.key->account, &again.key->limits, 1).refusal,
                     ACCOUNT_CALLS);
    account_leave(pass.key->account);
    auth_let_go(&pass);
    auth_let_go(&again);
    auth_free(auth);
}
END_TEST

START_TEST(a_made_key_is_let_in) {
    char *printed = NULL, key[80], line[256];
    size_t size;
    struct auth_pass pass;
    FILE *out = open_memstream(&printed, &size);
    ck_assert(auth_make_key("carol", out, error, sizeof error));
    fclose(out);
    ck_assert_int_eq(sscanf(printed, "%79s\n%255[^\n]", key, line), 2);
    ck_assert_uint_eq(strlen(key), strlen("attn_") + 43);
    put(line);
    struct auth *auth = auth_open(path, error, sizeof error);
    ck_assert_msg(auth != NULL, "%s", error);
    ck_assert(auth_find(auth, key, &pass));
    ck_assert_str_eq(pass.key->name, "carol");
    auth_let_go(&pass);
    auth_free(auth);
    free(printed);
    ck_assert(!auth_make_key("a b", stdout, error, sizeof error));
    ck_assert(strstr(error, "a name has") != NULL);
}
END_TEST

struct race {
    struct auth *auth;
    atomic_bool over;
};

static void *find_again_and_again(void *argument) {
    struct race *race = argument;
    struct auth_pass pass;
    while (!atomic_load(&race->over)) {
        ck_assert(auth_find(race->auth, "abc", &pass));
        ck_assert_int_eq(account_enter(pass.key->account, &pass.key->limits, 1).refusal,
                         ACCOUNT_FINE);
        account_leave(pass.key->account);
        auth_let_go(&pass);
    }
    return NULL;
}

START_TEST(finding_while_reading) {
    pthread_t thread;
    put("alice " ABC " infer\n");
    struct race race = {.auth = auth_open(path, error, sizeof error)};
    ck_assert_int_eq(pthread_create(&thread, NULL, find_again_and_again, &race), 0);
    for (int i = 0; i < 300; i++)
        ck_assert(auth_reload(race.auth, error, sizeof error));
    atomic_store(&race.over, true);
    pthread_join(thread, NULL);
    auth_free(race.auth);
}
END_TEST

static Suite *auth_suite(void) {
    Suite *suite = suite_create("auth");
    TCase *tests = tcase_create("auth");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_key_is_found_by_its_text);
    tcase_add_test(tests, without_a_file_there_are_no_keys);
    tcase_add_loop_test(tests, a_wrong_file_is_refused, 0, COUNT(wrong));
    tcase_add_test(tests, an_error_does_not_repeat_the_key);
    tcase_add_test(tests, no_file_and_no_text);
    tcase_add_test(tests, what_is_no_file_is_not_read);
    tcase_add_test(tests, a_file_that_is_too_large);
    tcase_add_test(tests, a_file_of_which_more_comes_than_it_had);
    tcase_add_test(tests, a_key_in_use_outlives_its_file);
    tcase_add_test(tests, a_bad_file_changes_nothing);
    tcase_add_test(tests, an_account_outlives_its_file);
    tcase_add_test(tests, a_made_key_is_let_in);
    tcase_add_test(tests, finding_while_reading);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(auth_suite)
