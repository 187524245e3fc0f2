/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of config/ share: loading from lists written in place, and files in a directory
 * of the test's own, which fixture_close removes.
 */
#ifndef TESTS_UNIT_CONFIG_CONFIG_FIXTURE_H
#define TESTS_UNIT_CONFIG_CONFIG_FIXTURE_H

#include "config/config.h"

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ARGS(...) ((char *const[]){(char[]){"attentiond"}, __VA_ARGS__})
#define LIST(...) ((char *const[]){__VA_ARGS__})
#define NO_ARGS ARGS(NULL)
#define NO_ENVIRONMENT LIST(NULL)

static struct fixture {
    char directory[64];
    char path[160]; /* of the file written last */
    struct attn_config config;
    struct config_error error;
} fixture;

static inline void fixture_init(void) {
    memset(&fixture, 0, sizeof fixture);
    snprintf(fixture.directory, sizeof fixture.directory, P_tmpdir "/attentiond-config-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(fixture.directory));
}

static inline int fixture_remove(const char *path, const struct stat *status, int flag,
                                 struct FTW *walk) {
    (void)status, (void)flag, (void)walk;
    return remove(path);
}

static inline void fixture_close(void) {
    nftw(fixture.directory, fixture_remove, 8, FTW_DEPTH | FTW_PHYS);
}

/* Writes `size` bytes to a file below the directory, making the folders on its way. */
static inline const char *fixture_write(const char *name, const char *bytes, size_t size) {
    snprintf(fixture.path, sizeof fixture.path, "%s/%s", fixture.directory, name);
    for (char *slash = strchr(fixture.path + strlen(fixture.directory) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(fixture.path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(fixture.path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
    return fixture.path;
}

static inline const char *fixture_text(const char *name, const char *text) {
    return fixture_write(name, text, strlen(text));
}

static inline enum config_action fixture_load(char *const argv[], char *const envp[]) {
    int argc = 0;
    while (argv[argc] != NULL)
        argc++;
    fixture.error.text[0] = '\0';
    return config_load(&fixture.config, argc, argv, envp, &fixture.error);
}

#define assert_accepted(argv, envp)                                                              \
    do {                                                                                         \
        const enum config_action action_ = fixture_load(argv, envp);                             \
        ck_assert_msg(action_ == CONFIG_RUN, "action %d: %s", (int)action_, fixture.error.text); \
    } while (0)

#define assert_rejected(argv, envp, sentence)                        \
    do {                                                             \
        ck_assert_int_eq(fixture_load(argv, envp), CONFIG_REJECTED); \
        ck_assert_str_eq(fixture.error.text, sentence);              \
    } while (0)

#endif
