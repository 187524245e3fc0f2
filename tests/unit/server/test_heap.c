/* SPDX-License-Identifier: Apache-2.0 */
/* What was freed in pieces goes back to the system, but only after two quiet looks in a row, and
   whatever had been looked at while it was in use. */
#include <stdlib.h>
#include <string.h>

#include "server/heap.h"
#include "tests/support/test_main.h"

/* A sanitizer's allocator keeps what was freed. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { GIVES_BACK = 0 };
#else
enum { GIVES_BACK = 1 };
#endif

enum { PIECES = 1024, BYTES = 32 << 10, MIB = 1 << 20 };

/* 32 MiB; returns what lies behind it, so that no piece is at the end of the heap. */
static void *take(void *pieces[PIECES]) {
    for (size_t i = 0; i < PIECES; i++) {
        pieces[i] = malloc(BYTES);
        memset(pieces[i], 1, BYTES);
    }
    char *const last = malloc(BYTES);
    *(volatile char *)last = 1; /* or the compiler does without it */
    return last;
}

static void free_all(void *pieces[PIECES]) {
    for (size_t i = 0; i < PIECES; i++)
        free(pieces[i]);
}

static void *fragment(void) {
    void *pieces[PIECES];
    void *const last = take(pieces);
    free_all(pieces);
    return last;
}

START_TEST(freed_memory_goes_back) {
    struct heap heap = {0};
    heap_age(&heap, true);
    heap_age(&heap, true);
    const size_t before = heap_resident();
    void *const last = fragment();
    ck_assert_uint_ge(heap_resident(), before + 30 * (size_t)MIB);
    heap_age(&heap, false);
    heap_age(&heap, true);
    ck_assert_uint_ge(heap_resident(), before + 30 * (size_t)MIB);
    heap_age(&heap, true);
    ck_assert_uint_le(heap_resident(), before + 4 * (size_t)MIB);
    free(last);
}
END_TEST

/* Clients that stay connected are quiet too. */
START_TEST(what_outlives_a_trim_goes_back_as_well) {
    struct heap heap = {0};
    void *pieces[PIECES];
    heap_age(&heap, true);
    heap_age(&heap, true);
    const size_t before = heap_resident();
    void *const last = take(pieces);
    for (int i = 0; i < 3; i++)
        heap_age(&heap, true);
    ck_assert_uint_ge(heap_resident(), before + 30 * (size_t)MIB);
    free_all(pieces);
    heap_age(&heap, true);
    ck_assert_uint_le(heap_resident(), before + 4 * (size_t)MIB);
    free(last);
}
END_TEST

START_TEST(virtual_memory_is_more) {
    ck_assert_uint_gt(heap_resident(), 0);
    ck_assert_uint_gt(heap_virtual(), heap_resident());
}
END_TEST

static Suite *heap_suite(void) {
    Suite *const suite = suite_create("heap");
    TCase *const tests = tcase_create("heap");
    if (GIVES_BACK) {
        tcase_add_test(tests, freed_memory_goes_back);
        tcase_add_test(tests, what_outlives_a_trim_goes_back_as_well);
    }
    tcase_add_test(tests, virtual_memory_is_more);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(heap_suite)
