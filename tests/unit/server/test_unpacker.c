/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking: every form of a stream, and every way of one to be broken. */
#include "tests/support/test_main.h"
#include "tests/unit/server/unpacker_fixture.h"

static void check_text(const char *coding, struct bytes packed, struct bytes text, size_t piece) {
    struct run run = generous();
    ck_assert_msg(run_on(&run, coding, packed, piece) == ATTN_OK, "%s: %s", coding,
                  run.error.detail);
    ck_assert_uint_eq(run.text.length, text.length);
    ck_assert_mem_eq(run.text.at, text.at, text.length);
    buffer_give(run.text.at, run.capacity);
}

START_TEST(what_was_packed_comes_out) {
    static const size_t lengths[] = {0, 1, 100, 4095, 4096, 4097, 100000, 3000000};
    const struct form *form = &FORMS[_i];
    for (size_t i = 0; i < COUNT(lengths); i++)
        for (int kind = 0; kind < 2; kind++) {
            struct bytes text = kind == 0 ? text_of(lengths[i]) : zeros(lengths[i]);
            struct bytes packed = form->pack(text);
            check_text(form->coding, packed, text, SIZE_MAX);
            check_text(form->coding, packed, text, 1000);
            free(packed.at);
            free(text.at);
        }
}
END_TEST

START_TEST(streams_that_follow_each_other) {
    const struct form *form = &FORMS[_i];
    struct bytes a = text_of(70000), b = text_of(5), whole = joined(a, b);
    struct bytes first = form->pack(a), second = form->pack(b), both = joined(first, second);
    struct run run = generous();
    if (form->may_follow) {
        check_text(form->coding, both, whole, SIZE_MAX);
    } else {
        ck_assert_int_eq(run_on(&run, form->coding, both, SIZE_MAX), ATTN_MALFORMED);
        ck_assert_ptr_nonnull(strstr(run.error.detail, "Behind the end"));
    }
    free(both.at);
    free(second.at);
    free(first.at);
    free(whole.at);
    free(b.at);
    free(a.at);
}
END_TEST

START_TEST(what_follows_and_is_no_stream) {
    const struct form *form = &FORMS[_i];
    struct bytes text = text_of(1000), packed = form->pack(text);
    struct bytes tail = {(unsigned char *)"\0", 1}, both = joined(packed, tail);
    struct run run = generous();
    ck_assert_int_eq(run_on(&run, form->coding, both, SIZE_MAX), ATTN_MALFORMED);
    ck_assert_ptr_nonnull(strstr(run.error.detail, "Behind the end"));
    free(both.at);
    free(packed.at);
    free(text.at);
}
END_TEST

/* At every byte, in three lengths: nothing but the whole is taken, and nothing is kept. */
START_TEST(what_ends_early) {
    static const size_t lengths[] = {0, 60, 5000};
    const struct form *form = &FORMS[_i];
    for (size_t i = 0; i < COUNT(lengths); i++) {
        struct bytes text = text_of(lengths[i]), packed = form->pack(text);
        for (size_t end = 1; end < packed.length; end++) {
            struct run run = generous();
            ck_assert_int_eq(run_on(&run, form->coding, (struct bytes){packed.at, end}, SIZE_MAX),
                             ATTN_MALFORMED);
            ck_assert_msg(strstr(run.error.detail, "end in the middle") != NULL, "%zu: %s", end,
                          run.error.detail);
        }
        free(packed.at);
        free(text.at);
    }
}
END_TEST

/* Random changes of random places: whatever comes, it ends, within its memory, and a stream with a
   checksum never gives another text. */
START_TEST(what_was_damaged) {
    const struct form *form = &FORMS[_i];
    struct random random = random_seeded((uint64_t)_i);
    struct bytes text = text_of(20000), packed = form->pack(text), bad = room(packed.length);
    for (int round = 0; round < 2000; round++) {
        struct run run = generous();
        run.purse.limit = 32 * MIB;
        memcpy(bad.at, packed.at, packed.length);
        for (uint64_t changes = 1 + random_below(&random, 4); changes > 0; changes--)
            bad.at[random_below(&random, packed.length)] ^=
                (unsigned char)(1u << random_below(&random, 8));
        bad.length = packed.length - random_below(&random, 2) * random_below(&random, 100);
        if (run_on(&run, form->coding, bad, 5000) != ATTN_OK)
            continue;
        if (form->is_checked) { /* a change in the header only, as of the file's time */
            ck_assert_uint_eq(run.text.length, text.length);
            ck_assert_mem_eq(run.text.at, text.at, text.length);
        }
        buffer_give(run.text.at, run.capacity);
    }
    free(bad.at);
    free(packed.at);
    free(text.at);
}
END_TEST

/* ---- what is not meant ---- */

START_TEST(dictionaries_are_refused) {
    static const char words[] = "0123456789 0123456789 0123456789";
    struct bytes text = text_of(1000), packed = room(2000);
    z_stream z = {.next_in = text.at, .avail_in = (uInt)text.length};
    ck_assert_int_eq(deflateInit(&z, 6), Z_OK);
    ck_assert_int_eq(deflateSetDictionary(&z, (const Bytef *)words, sizeof words), Z_OK);
    z.next_out = packed.at;
    z.avail_out = (uInt)packed.length;
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    struct run run = generous();
    ck_assert_int_eq(run_on(&run, "deflate", (struct bytes){packed.at, z.total_out}, SIZE_MAX),
                     ATTN_MALFORMED);
    ck_assert_ptr_nonnull(strstr(run.error.detail, "it needs a dictionary"));
    deflateEnd(&z);

    /* A frame that names dictionary 7: flags, window, dictionary, one empty last block. */
    static const unsigned char frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0x01,
                                          0x00, 0x07, 0x01, 0x00, 0x00};
    run = generous();
    ck_assert_int_eq(run_on(&run, "zstd",
                            (struct bytes){(unsigned char *)(uintptr_t)frame, sizeof frame},
                            SIZE_MAX),
                     ATTN_MALFORMED);
    ck_assert_ptr_nonnull(strstr(run.error.detail, "it needs a dictionary"));
    free(packed.at);
    free(text.at);
}
END_TEST

START_TEST(wide_windows_are_refused) {
    struct bytes text = text_of(1000), packed = room(2000);
    ZSTD_CCtx *context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, 24);
    ZSTD_inBuffer in = {text.at, text.length, 0};
    ZSTD_outBuffer out = {packed.at, packed.length, 0};
    ck_assert_uint_eq(ZSTD_compressStream2(context, &out, &in, ZSTD_e_flush), 0);
    ck_assert_uint_eq(ZSTD_compressStream2(context, &out, &in, ZSTD_e_end), 0);
    struct run run = generous();
    ck_assert_int_eq(run_on(&run, "zstd", (struct bytes){packed.at, out.pos}, SIZE_MAX),
                     ATTN_MALFORMED);
    ck_assert_ptr_nonnull(strstr(run.error.detail, "8 MiB"));
    ZSTD_freeCCtx(context);
    free(packed.at);
    free(text.at);
}
END_TEST

/* Frames that are to be skipped, and empty members, give nothing and do no harm. */
START_TEST(streams_of_nothing) {
    static const unsigned char skipped[] = {0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'};
    struct bytes text = text_of(1000), none = zeros(0);
    struct bytes skip = {(unsigned char *)(uintptr_t)skipped, sizeof skipped};
    struct bytes frame = zstd_of(text), with_skip = joined(skip, frame);
    struct bytes member = gzip_of(text), empty = gzip_of(none), members = joined(empty, member);
    check_text("zstd", with_skip, text, SIZE_MAX);
    check_text("gzip", members, text, SIZE_MAX);
    free(members.at);
    free(empty.at);
    free(member.at);
    free(with_skip.at);
    free(frame.at);
    free(none.at);
    free(text.at);
}
END_TEST

static Suite *unpacker_suite(void) {
    Suite *suite = suite_create("unpacker");
    TCase *tests = tcase_create("unpacker");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, what_was_packed_comes_out, 0, COUNT(FORMS));
    tcase_add_loop_test(tests, streams_that_follow_each_other, 0, COUNT(FORMS));
    tcase_add_loop_test(tests, what_follows_and_is_no_stream, 0, COUNT(FORMS));
    tcase_add_loop_test(tests, what_ends_early, 0, COUNT(FORMS));
    tcase_add_loop_test(tests, what_was_damaged, 0, COUNT(FORMS));
    tcase_add_test(tests, dictionaries_are_refused);
    tcase_add_test(tests, wide_windows_are_refused);
    tcase_add_test(tests, streams_of_nothing);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(unpacker_suite)
