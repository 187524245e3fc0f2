/* SPDX-License-Identifier: Apache-2.0 */
/* The buffer pool: alignment, reuse, its idle budget, threads; and storage, which lives on it. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/buffer_pool.h"
#include "server/storage.h"
#include "tests/support/random.h"
#include "tests/support/test_main.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

enum { MIB = 1 << 20 };

static const size_t SIZES[] = {0,     1,     64,  65535,   65536,       65537,
                               81920, 81921, MIB, MIB + 1, 5 * MIB / 4, 3 * MIB + 17};

START_TEST(buffers_hold_what_was_asked) {
    buffer_pool_open(64 * (size_t)MIB);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT(SIZES); i++) {
            char *const buffer = buffer_take(SIZES[i]);
            ck_assert_ptr_nonnull(buffer);
            ck_assert_uint_eq((uintptr_t)buffer % 64, 0);
            memset(buffer, 0xa5, SIZES[i]);
            buffer_give(buffer, SIZES[i]);
        }
    }
    buffer_give(NULL, 7);
    buffer_pool_close();
    ck_assert_uint_eq(buffer_pool_idle(), 0);
}
END_TEST

START_TEST(a_class_is_reused) {
    buffer_pool_open(64 * (size_t)MIB);
    char *const first = buffer_take(MIB);
    buffer_give(first, MIB);
    ck_assert_uint_eq(buffer_pool_idle(), MIB);
    char *const again = buffer_take(MIB - 100000);
    ck_assert_ptr_eq(again, first);
    char *const other = buffer_take(MIB / 2);
    ck_assert_ptr_ne(other, first);
    buffer_give(again, MIB - 100000);
    buffer_give(other, MIB / 2);
    ck_assert_uint_eq(buffer_pool_idle(), MIB + MIB / 2);
    buffer_pool_close();
}
END_TEST

/* No class is more than a quarter larger than what was asked. */
START_TEST(classes_are_close) {
    buffer_pool_open(SIZE_MAX);
    for (size_t bytes = 65537; bytes < 300 * (size_t)MIB; bytes += bytes / 7) {
        buffer_give(buffer_take(bytes), bytes);
        ck_assert_uint_ge(buffer_pool_idle(), bytes);
        ck_assert_uint_le(buffer_pool_idle(), bytes + bytes / 4 + 1);
        buffer_pool_close();
        buffer_pool_open(SIZE_MAX);
    }
    buffer_pool_close();
}
END_TEST

START_TEST(idle_buffers_have_a_budget) {
    char *buffers[4];
    buffer_pool_open(2 * (size_t)MIB);
    for (size_t i = 0; i < COUNT(buffers); i++)
        buffers[i] = buffer_take(MIB);
    for (size_t i = 0; i < COUNT(buffers); i++)
        buffer_give(buffers[i], MIB);
    ck_assert_uint_eq(buffer_pool_idle(), 2 * (size_t)MIB);
    buffer_pool_open(MIB);
    ck_assert_uint_eq(buffer_pool_idle(), MIB);
    buffer_pool_close();
    ck_assert_uint_eq(buffer_pool_idle(), 0);
}
END_TEST

/* Cached buffers make way for those in use, and none is cached while these have all there is. */
START_TEST(idle_buffers_make_way) {
    char *buffers[4];
    buffer_pool_open(64 * (size_t)MIB);
    buffer_pool_bound(4 * (size_t)MIB);
    for (size_t i = 0; i < COUNT(buffers); i++)
        buffers[i] = buffer_take(MIB);
    buffer_give(buffers[0], MIB);
    ck_assert_uint_eq(buffer_pool_idle(), MIB);
    buffers[0] = buffer_take(5 * MIB / 4); /* with the others more than the bound: that is theirs */
    ck_assert_uint_eq(buffer_pool_idle(), 0);
    buffer_give(buffers[0], 5 * MIB / 4);
    ck_assert_uint_eq(buffer_pool_idle(), 0);
    for (size_t i = 1; i < COUNT(buffers); i++)
        buffer_give(buffers[i], MIB);
    ck_assert_uint_eq(buffer_pool_idle(), 3 * (size_t)MIB);
    buffer_pool_bound(2 * (size_t)MIB);
    ck_assert_uint_eq(buffer_pool_idle(), 2 * (size_t)MIB);
    buffer_pool_bound(SIZE_MAX);
    buffer_pool_close();
}
END_TEST

/* What was wanted since the last look stays, and the rest goes. */
START_TEST(unwanted_buffers_go_back) {
    char *buffers[3];
    buffer_pool_open(64 * (size_t)MIB);
    for (size_t i = 0; i < COUNT(buffers); i++)
        buffers[i] = buffer_take(MIB);
    for (size_t i = 0; i < COUNT(buffers); i++)
        buffer_give(buffers[i], MIB);
    buffer_pool_age();
    ck_assert_uint_eq(buffer_pool_idle(), 3 * (size_t)MIB);
    buffer_give(buffer_take(MIB), MIB); /* one of them */
    buffer_pool_age();
    ck_assert_uint_eq(buffer_pool_idle(), MIB);
    buffer_pool_age();
    ck_assert_uint_eq(buffer_pool_idle(), 0);
    buffer_pool_close();
}
END_TEST

static size_t resident_pages(const char *buffer, size_t pages, size_t page) {
    unsigned char *const in = calloc(pages, 1);
    size_t count = 0;
    ck_assert_int_eq(mincore((void *)(uintptr_t)buffer, pages * page, in), 0);
    for (size_t i = 0; i < pages; i++)
        count += in[i] & 1;
    free(in);
    return count;
}

/* Of a buffer that is larger than what is asked for, only that much has memory when it is tight. */
START_TEST(tails_are_dropped_when_it_is_tight) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = 5 * MIB / 4;
    buffer_pool_open(64 * (size_t)MIB);
    buffer_pool_bound(4 * (size_t)MIB);
    char *buffer = buffer_take(size);
    memset(buffer, 1, size);
    buffer_give(buffer, size);
    buffer = buffer_take(MIB + 1);
    ck_assert_uint_eq(resident_pages(buffer, size / page, page), MIB / page + 1);
    ck_assert_int_eq(buffer[MIB], 1);
    buffer_give(buffer, MIB + 1);
    buffer_pool_bound(SIZE_MAX);
    buffer_pool_close();
}
END_TEST

START_TEST(impossible_sizes_are_refused) {
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX / 2, (size_t)1 << 62,
                                   ((size_t)1 << 62) + 1};
    for (size_t i = 0; i < COUNT(sizes); i++)
        ck_assert_ptr_null(buffer_take(sizes[i]));
}
END_TEST

/* Each thread marks its buffers; a buffer that two threads hold would show the other's mark. */
static void *take_and_give(void *argument) {
    const uint64_t mark = (uint64_t)(uintptr_t)argument;
    struct random random = random_seeded(mark);
    for (int round = 0; round < 2000; round++) {
        const size_t bytes = 60000 + random_below(&random, 200000);
        uint64_t *const buffer = buffer_take(bytes);
        buffer[0] = buffer[bytes / 8 - 1] = mark;
        sched_yield();
        if (buffer[0] != mark || buffer[bytes / 8 - 1] != mark)
            return argument;
        buffer_give(buffer, bytes);
    }
    return NULL;
}

START_TEST(threads_never_share_a_buffer) {
    pthread_t threads[4];
    buffer_pool_open(MIB);
    for (size_t i = 0; i < COUNT(threads); i++)
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, take_and_give, (void *)(uintptr_t)(i + 1)), 0);
    for (size_t i = 0; i < COUNT(threads); i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    ck_assert_uint_le(buffer_pool_idle(), MIB);
    buffer_pool_close();
}
END_TEST

START_TEST(storage_pieces_do_not_overlap) {
    enum { PIECES = 300 };
    struct storage *const storage = storage_create();
    struct random random = random_seeded(5);
    unsigned char *pieces[PIECES];
    size_t sizes[PIECES];
    for (int i = 0; i < PIECES; i++) {
        sizes[i] = random_below(&random, i % 10 == 0 ? 200000 : 600);
        pieces[i] = storage_take(storage, sizes[i]);
        ck_assert_ptr_nonnull(pieces[i]);
        ck_assert_uint_eq((uintptr_t)pieces[i] % 64, 0);
        memset(pieces[i], i % 251, sizes[i]);
    }
    for (int i = 0; i < PIECES; i++)
        for (size_t at = 0; at < sizes[i]; at++)
            ck_assert_uint_eq(pieces[i][at], (unsigned)i % 251);
    ck_assert_str_eq(storage_take_text(storage, "kernel name", 6), "kernel");
    ck_assert_ptr_null(storage_take(storage, SIZE_MAX - 3));
    ck_assert_ptr_null(storage_take_array(storage, SIZE_MAX / 2, 3));
    storage_free(storage);
    storage_free(NULL);
}
END_TEST

static Suite *buffer_pool_suite(void) {
    Suite *const suite = suite_create("buffer_pool");
    TCase *const tests = tcase_create("pool");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, buffers_hold_what_was_asked);
    tcase_add_test(tests, a_class_is_reused);
    tcase_add_test(tests, classes_are_close);
    tcase_add_test(tests, idle_buffers_have_a_budget);
    tcase_add_test(tests, idle_buffers_make_way);
    tcase_add_test(tests, unwanted_buffers_go_back);
    tcase_add_test(tests, tails_are_dropped_when_it_is_tight);
    tcase_add_test(tests, impossible_sizes_are_refused);
    tcase_add_test(tests, threads_never_share_a_buffer);
    tcase_add_test(tests, storage_pieces_do_not_overlap);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(buffer_pool_suite)
