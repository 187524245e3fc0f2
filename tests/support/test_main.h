/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main() of a unit-test executable: runs one libcheck suite and exits 1 when a check failed.
 * Use as the last line of a file: ATTN_TEST_MAIN(mask_suite)
 */
#ifndef TESTS_SUPPORT_TEST_MAIN_H
#define TESTS_SUPPORT_TEST_MAIN_H

#include <check.h>
#include <stdlib.h>

#define ATTN_TEST_MAIN(suite_function)                      \
    int main(void) {                                        \
        SRunner *runner = srunner_create(suite_function()); \
        srunner_run_all(runner, CK_ENV);                    \
        const int failed = srunner_ntests_failed(runner);   \
        srunner_free(runner);                               \
        return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;   \
    }

#endif
