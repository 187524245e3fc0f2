/* SPDX-License-Identifier: Apache-2.0 */
/* Archives and arrays that are not what they say: each is refused, in words, and none is trusted.
 */
#include "tests/support/random.h"
#include "tests/support/test_main.h"
#include "tests/unit/server/npz_fixture.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static struct archive archive;

static const struct {
    struct refusal refusal; /* its body is the dict of q, whose data are eight bytes */
} HEADERS[] = {
    {{"", ATTN_MALFORMED, "q", "cannot be read"}},
    {{"{}", ATTN_MALFORMED, "q", "cannot be read"}},
    {{DICT("<f4", "1, 2") " {}", ATTN_MALFORMED, "q", "cannot be read"}},
    {{"{'descr': '<f4', 'shape': (1, 2), }", ATTN_MALFORMED, "q", "cannot be read"}},
    {{"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)}", ATTN_MALFORMED,
      "q", "cannot be read"}},
    {{"{'descr': '<f4', 'fortran_order': 0, 'shape': (1, 2)}", ATTN_MALFORMED, "q",
      "cannot be read"}},
    {{"{'descr': '<f4', 'fortran_order': False, 'shape': [1, 2]}", ATTN_MALFORMED, "q",
      "cannot be read"}},
    {{"{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}", ATTN_MALFORMED, "q",
      "cannot be read"}},
    {{"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2", ATTN_MALFORMED, "q",
      "cannot be read"}},
    {{"{'descr': '<f4", ATTN_MALFORMED, "q", "cannot be read"}},
    {{"{'descr': '<f4'", ATTN_MALFORMED, "q", "cannot be read"}},
    {{"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)}", ATTN_MALFORMED,
      "q", "cannot be read"}},
    {{"{'fortran_order': False, 'fortran_order': True, 'descr': '<f4', 'shape': (1, 2)}",
      ATTN_MALFORMED, "q", "cannot be read"}},
    {{"{'shape': (1, 2), 'shape': (2, 1), 'descr': '<f4', 'fortran_order': False}", ATTN_MALFORMED,
      "q", "cannot be read"}},
    {{"{'fortran_order': False, 'shape': (1, 2)}", ATTN_MALFORMED, "q", "cannot be read"}},
    {{"{'descr': '<f4', 'shape': (1, 2)}", ATTN_MALFORMED, "q", "cannot be read"}},
    {{"{'descr': '<f4', 'fortran_order': False}", ATTN_MALFORMED, "q", "cannot be read"}},
    {{"{'descr': '<f4' 'fortran_order': False, 'shape': (1, 2)}", ATTN_MALFORMED, "q",
      "cannot be read"}},
    {{"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)} x", ATTN_MALFORMED, "q",
      "cannot be read"}},
    {{DICT("<f4", "184467440737095516150"), ATTN_MALFORMED, "q", "cannot be read"}},
    {{"{'descr': f4, 'fortran_order': False, 'shape': (1, 2)}", ATTN_MALFORMED, "q",
      "cannot be read"}},
    {{DICT("<f4", "-1, 2"), ATTN_MALFORMED, "q", "cannot be read"}},
    {{DICT("<f4", "18446744073709551616"), ATTN_MALFORMED, "q", "cannot be read"}},
    {{DICT("<f4", "9223372036854775807, 3, 0"), ATTN_MALFORMED, "q",
      "more bytes than can be counted"}},
    {{DICT("<f4", "4194305, 211106198978564"), ATTN_MALFORMED, "q",
      "more bytes than can be counted"}},
    {{DICT("<f4", "9223372036854775807"), ATTN_MALFORMED, "q", "more bytes than can be counted"}},
    {{DICT("<f4", "2305843009213693952"), ATTN_MALFORMED, "q", "more bytes than can be counted"}},
    {{DICT("<f4", "1, 1, 1, 1, 1, 2"), ATTN_BAD_SHAPE, "q", "more than 5 axes"}},
    {{DICT("<f4", "1, 3"), ATTN_MALFORMED, "q", "need 12 bytes, but the member has 8"}},
    {{DICT("<f4", "1, 1"), ATTN_MALFORMED, "q", "need 4 bytes, but the member has 8"}},
    {{DICT("f4", "1, 2"), ATTN_MALFORMED, "q", "cannot be read"}},
    {{DICT("<", "1, 2"), ATTN_MALFORMED, "q", "cannot be read"}},
    {{DICT("<f", "1, 2"), ATTN_BAD_DTYPE, "q", "'<f'"}},
    {{DICT("<f4x", "1, 2"), ATTN_BAD_DTYPE, "q", "'<f4x'"}},
    {{DICT("<f3", "1, 2"), ATTN_BAD_DTYPE, "q", "'<f3'"}},
    {{DICT("<f16", "1, 2"), ATTN_BAD_DTYPE, "q", "'<f16'"}},
    {{DICT("<M8[ns]", "1"), ATTN_BAD_DTYPE, "q", "'<M8[ns]'"}},
    {{DICT("<c8", "1"), ATTN_BAD_DTYPE, "q", "complex"}},
    {{DICT("|O", "1"), ATTN_BAD_DTYPE, "q", "a pickle is never read"}},
    {{DICT("<V2", "2, 2"), ATTN_BAD_DTYPE, "q", "application/vnd.safetensors"}},
    {{DICT("|V2", "2, 2"), ATTN_BAD_DTYPE, "q", "bfloat16"}},
    {{"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,)}", ATTN_BAD_DTYPE, "q",
      "named fields"}},
    {{DICT("<U2", "1"), ATTN_BAD_DTYPE, "q", "The array holds text"}},
    {{DICT("<U4611686018427387904", "1"), ATTN_MALFORMED, "q", "cannot be read"}},
};

START_TEST(refuses_headers) {
    memset(&archive, 0, sizeof archive);
    archive_array(&archive, "q.npy", HEADERS[_i].refusal.body, NPZ_Q, sizeof NPZ_Q, PACK_STORED);
    archive_array(&archive, "k.npy", DICT("<f4", "2, 2"), NPZ_K, sizeof NPZ_K, PACK_STORED);
    archive_array(&archive, "v.npy", DICT("<f4", "2, 1"), NPZ_V, sizeof NPZ_V, PACK_STORED);
    archive_finish(&archive, false);
    const struct exchange_under_test exchange = decode_archive(&archive);
    check_refused(&exchange, &HEADERS[_i].refusal);
}
END_TEST

/* Members that are no array: what begins them, and the sentence. */
static const struct {
    const char *bytes;
    size_t count;
    const char *part;
} BEGINNINGS[] = {
    {"", 0, "ends within its array"},
    {"\x93NUMPY\1\0\4\0{}", 12, "ends within its array"},
    {"\x93NUMPY\1\0\0\0\0\0", 12, "cannot be read"},
    {"\x80\4\x95 a pickle of ours", 20, "\\x93NUMPY"},
    {"\x93NUMPY\0\0 no such version", 24, "version 0.0"},
    {"\x93NUMPY\4\0 no such version", 24, "version 4.0"},
    {"\x93NUMPY\1\1 no such version", 24, "version 1.1"},
    {"\x93NUMPY\2\0\xff\xff\xff\xff too long", 21, "at most 4096"},
};

START_TEST(refuses_what_is_no_array) {
    const struct refusal expected = {"", ATTN_MALFORMED, "q", BEGINNINGS[_i].part};
    for (int pack = PACK_STORED; pack <= PACK_DEFLATED; pack++) {
        memset(&archive, 0, sizeof archive);
        archive_add(&archive, "q.npy", BEGINNINGS[_i].bytes, BEGINNINGS[_i].count, pack, 1);
        archive_array(&archive, "k.npy", DICT("<f4", "2, 2"), NPZ_K, sizeof NPZ_K, PACK_STORED);
        archive_array(&archive, "v.npy", DICT("<f4", "2, 1"), NPZ_V, sizeof NPZ_V, PACK_STORED);
        archive_finish(&archive, false);
        const struct exchange_under_test exchange = decode_archive(&archive);
        check_refused(&exchange, &expected);
    }
}
END_TEST

/* Where a change is made: in the local header or the directory's entry of q, in the end record, in
   zip64's end record or in its locator. */
enum place { LOCAL, ENTRY, END, END64, LOCATOR };

static const struct {
    enum place place;
    size_t at, bytes;
    uint64_t value;
    struct refusal refusal;
} CHANGES[] = {
    {END, 0, 4, 0, {"", ATTN_MALFORMED, "", "lacks its end"}},
    {END, 20, 2, 1, {"", ATTN_MALFORMED, "", "lacks its end"}},
    {LOCATOR, 0, 4, 0, {"", ATTN_MALFORMED, "", "from byte 4294967295"}},
    {LOCATOR, 16, 4, 2, {"", ATTN_MALFORMED, "", "several parts"}},
    {LOCATOR, 8, 8, UINT64_MAX, {"", ATTN_MALFORMED, "", "zip64 end record"}},
    {LOCATOR, 8, 8, 1, {"", ATTN_MALFORMED, "", "zip64 end record"}},
    {END64, 0, 4, 1, {"", ATTN_MALFORMED, "", "zip64 end record"}},
    {END64, 4, 8, 45, {"", ATTN_MALFORMED, "", "zip64 end record"}},
    {END64, 16, 4, 1, {"", ATTN_MALFORMED, "", "several parts"}},
    {END64, 24, 8, 2, {"", ATTN_MALFORMED, "", "several parts"}},
    {END64, 40, 8, UINT64_MAX, {"", ATTN_MALFORMED, "", "directory has 18446744073709551615"}},
    {END64, 48, 8, UINT64_C(1) << 40, {"", ATTN_MALFORMED, "", "from byte 1099511627776"}},
    {END64, 48, 8, UINT64_MAX - 8, {"", ATTN_MALFORMED, "", "from byte"}},
    {END64, 48, 8, 1, {"", ATTN_MALFORMED, "", "from byte 1 on"}},
    {ENTRY, 0, 4, 0, {"", ATTN_MALFORMED, "", "directory is broken"}},
    {ENTRY, 28, 2, 60000, {"", ATTN_MALFORMED, "", "directory is broken"}},
    {ENTRY, 28, 2, 300, {"", ATTN_MALFORMED, "", "directory is broken"}},
    {ENTRY, 28, 2, 0, {"", ATTN_MALFORMED, "", ""}},
    {ENTRY, 46, 1, 0, {"", ATTN_MALFORMED, "", "NUL"}},
    {ENTRY, 8, 2, 1, {"", ATTN_MALFORMED, "q", "encrypted"}},
    {ENTRY, 8, 2, 1 << 6, {"", ATTN_MALFORMED, "q", "encrypted"}},
    {ENTRY, 8, 2, 1 << 13, {"", ATTN_MALFORMED, "q", "encrypted"}},
    {ENTRY, 10, 2, 12, {"", ATTN_MALFORMED, "q", "method 12"}},
    {ENTRY, 24, 4, 1, {"", ATTN_MALFORMED, "q", "two sizes differ"}},
    {ENTRY, 20, 4, UINT32_MAX, {"", ATTN_MALFORMED, "", "directory is broken"}},
    {ENTRY, 42, 4, UINT32_MAX, {"", ATTN_MALFORMED, "", "directory is broken"}},
    {ENTRY, 42, 4, UINT32_MAX - 1, {"", ATTN_MALFORMED, "q", "beyond"}},
    {ENTRY, 42, 4, 1, {"", ATTN_MALFORMED, "q", "is not where"}},
    {ENTRY, 16, 4, 1, {"", ATTN_MALFORMED, "q", "otherwise than the archive's directory"}},
    {LOCAL, 0, 4, 0, {"", ATTN_MALFORMED, "q", "is not where"}},
    {LOCAL, 6, 2, 8, {"", ATTN_MALFORMED, "q", "otherwise"}},
    {LOCAL, 8, 2, 8, {"", ATTN_MALFORMED, "q", "otherwise"}},
    {LOCAL, 14, 4, 0, {"", ATTN_MALFORMED, "q", "otherwise"}},
    {LOCAL, 18, 4, 1, {"", ATTN_MALFORMED, "q", "otherwise"}},
    {LOCAL, 22, 4, UINT32_MAX, {"", ATTN_MALFORMED, "q", "otherwise"}},
    {LOCAL, 26, 2, 4, {"", ATTN_MALFORMED, "q", "otherwise"}},
    {LOCAL, 28, 2, 65535, {"", ATTN_MALFORMED, "q", "beyond"}},
    {LOCAL, 30, 1, 'r', {"", ATTN_MALFORMED, "q", "otherwise"}},
};

static void change(enum place place, size_t at, size_t bytes, uint64_t value) {
    const size_t places[] = {[LOCAL] = archive.members[0].offset,
                             [ENTRY] = archive.directory,
                             [END] = archive.end + 76,
                             [END64] = archive.end,
                             [LOCATOR] = archive.end + 56};
    for (size_t i = 0; i < bytes; i++)
        archive.bytes[places[place] + at + i] = (char)(value >> 8 * i & 0xff);
}

START_TEST(refuses_changed_records) {
    archive_operands(&archive, PACK_STORED);
    archive_finish(&archive, true);
    change(CHANGES[_i].place, CHANGES[_i].at, CHANGES[_i].bytes, CHANGES[_i].value);
    const struct exchange_under_test exchange = decode_archive(&archive);
    check_refused(&exchange, &CHANGES[_i].refusal);
}
END_TEST

START_TEST(refuses_a_name_too_long) {
    static const struct refusal name = {"", ATTN_MALFORMED, "", "A member's name has 256 bytes"};
    archive_operands(&archive, PACK_STORED);
    for (int n = 0; n < 6; n++)
        archive_add(&archive, "a-member-of-a-name-that-is-not-short", "", 0, PACK_STORED, 1);
    archive_finish(&archive, true);
    change(ENTRY, 28, 2, 256);
    change(ENTRY, 30, 2, 0);
    const struct exchange_under_test exchange = decode_archive(&archive);
    check_refused(&exchange, &name);
}
END_TEST

START_TEST(refuses_a_directory_that_goes_on) {
    static const struct refusal more = {"", ATTN_MALFORMED, "", "more than its members"};
    archive_operands(&archive, PACK_STORED);
    archive_finish(&archive, true);
    change(END64, 24, 8, archive.count - 1);
    change(END64, 32, 8, archive.count - 1);
    const struct exchange_under_test exchange = decode_archive(&archive);
    check_refused(&exchange, &more);
}
END_TEST

/* Sizes of a deflated member that are not its data's: header and directory agree in the lie. */
static const struct {
    const char *shape;    /* of q, which has two numbers */
    int64_t packed, size; /* how much is added */
    const char *part;
} LIES[] = {
    {"1, 2", 0, 4, "need 8 bytes, but the member has 12"},
    {"1, 3", 0, 4, "end too soon"},
    {"1, 2", 0, -4, "need 8 bytes, but the member has 4"},
    {"1, 1", 0, -4, "go on behind the size"},
    {"1, 2", 0, 1 << 20, "more bytes than its deflated data can hold"},
    {"1, 2", -1, 0, "end too soon"},
    {"1, 2", -20, 0, "end too soon"},
    {"1, 2", 1, 0, "left behind its deflated data"},
};

START_TEST(refuses_lies_about_sizes) {
    enum { HOLE = 4 };
    const struct refusal expected = {"", ATTN_MALFORMED, "q", LIES[_i].part};
    char dict[80];
    snprintf(dict, sizeof dict, DICT("<f4", "%s"), LIES[_i].shape);
    memset(&archive, 0, sizeof archive);
    archive_array(&archive, "q.npy", dict, NPZ_Q, sizeof NPZ_Q, PACK_DEFLATED);
    archive.length += HOLE;
    archive_array(&archive, "k.npy", DICT("<f4", "2, 2"), NPZ_K, sizeof NPZ_K, PACK_STORED);
    archive_array(&archive, "v.npy", DICT("<f4", "2, 1"), NPZ_V, sizeof NPZ_V, PACK_STORED);
    archive_finish(&archive, true);
    const uint64_t packed = archive.members[0].packed + (uint64_t)LIES[_i].packed;
    const uint64_t size = archive.members[0].size + (uint64_t)LIES[_i].size;
    change(LOCAL, 18, 4, packed);
    change(LOCAL, 22, 4, size);
    change(ENTRY, 20, 4, packed);
    change(ENTRY, 24, 4, size);
    const struct exchange_under_test exchange = decode_archive(&archive);
    check_refused(&exchange, &expected);
}
END_TEST

START_TEST(refuses_changed_data) {
    static const struct refusal stored = {"", ATTN_MALFORMED, "v", "checksum"};
    static const struct refusal packed = {"", ATTN_MALFORMED, "v", ""};
    archive_operands(&archive, PACK_STORED);
    archive_finish(&archive, false);
    archive.bytes[archive.directory - 1] ^= 1;
    struct exchange_under_test exchange = decode_archive(&archive);
    check_refused(&exchange, &stored);
    archive_operands(&archive, PACK_DEFLATED);
    archive_finish(&archive, false);
    archive.bytes[archive.directory - 2] ^= 1;
    exchange = decode_archive(&archive);
    check_refused(&exchange, &packed);
}
END_TEST

/* Two members of the same bytes: the classic way to make a small archive large. */
START_TEST(refuses_overlaps) {
    static const struct refusal overlap = {"", ATTN_MALFORMED, "k", "overlaps"};
    memset(&archive, 0, sizeof archive);
    archive_array(&archive, "q.npy", DICT("<f4", "1, 2"), NPZ_Q, sizeof NPZ_Q, PACK_STORED);
    /* A whole local header and array within the data of another member. */
    const size_t inner = archive.length;
    archive_array(&archive, "k.npy", DICT("<f4", "2, 2"), NPZ_K, sizeof NPZ_K, PACK_STORED);
    static char within[1024];
    const size_t count = archive.length - inner;
    memcpy(within, archive.bytes + inner, count);
    archive.length = inner;
    archive.count = 1;
    archive_add(&archive, "v.npy", within, count, PACK_STORED, 1);
    struct archive_member *const k = &archive.members[archive.count++];
    *k = (struct archive_member){.name = "k.npy", .pack = PACK_STORED};
    k->offset = archive.length - count;
    k->size = k->packed = 128 + sizeof NPZ_K;
    k->crc = (uint32_t)crc32(0, (const Bytef *)within + count - k->size, (uInt)k->size);
    archive_finish(&archive, false);
    const struct exchange_under_test exchange = decode_archive(&archive);
    check_refused(&exchange, &overlap);
}
END_TEST

START_TEST(refuses_too_many_members) {
    enum { MEMBERS = 2049, ENTRY_BYTES = 46 + 4 };
    static char body[22 + MEMBERS * ENTRY_BYTES];
    static const struct refusal many = {"", ATTN_MALFORMED, "", "2049 members"};
    struct archive end = {.length = 0};
    archive_finish(&end, false);
    char *const record = body + sizeof body - 22;
    memcpy(body, "PK\3\4", 4);
    memcpy(record, end.bytes, 22);
    record[8] = record[10] = MEMBERS & 0xff;
    record[9] = record[11] = MEMBERS >> 8;
    const uint32_t bytes = MEMBERS * ENTRY_BYTES;
    memcpy(record + 12, &bytes, sizeof bytes);
    const struct exchange_under_test exchange = decode_bytes("npz", body, sizeof body, NULL, 0);
    check_refused(&exchange, &many);
}
END_TEST

static void make_whole(void) {
    static const char options[] = "{\"mask\":{\"type\":\"hide\",\"tensor\":\"m\"}}";
    archive_operands(&archive, PACK_DEFLATED);
    archive_array(&archive, "m.npy", DICT("|b1", "2"), "\0\1", 2, PACK_STORED);
    archive_array(&archive, "options.npy", DICT("|S37", ""), options, sizeof options - 1,
                  PACK_ZIP64);
    archive_finish(&archive, true);
}

START_TEST(every_truncation_is_refused) {
    make_whole();
    struct guard_page guard = guard_page_create(ARCHIVE_ROOM);
    for (size_t length = 0; length < archive.length; length++) {
        const struct exchange_under_test exchange =
            decode_bytes("npz", guard_page_copy(&guard, archive.bytes, length), length, NULL, 0);
        ck_assert_int_eq(exchange.status, ATTN_MALFORMED);
    }
    guard_page_free(&guard);
}
END_TEST

/* Bytes flipped anywhere: whatever is understood has the checksums that it claims. */
START_TEST(mutations_are_survived) {
    static char changed[ARCHIVE_ROOM];
    make_whole();
    struct guard_page guard = guard_page_create(ARCHIVE_ROOM);
    struct random random = random_seeded(3);
    int understood = 0;
    for (int round = 0; round < 20000; round++) {
        memcpy(changed, archive.bytes, archive.length);
        /* Half of the rounds in the directory, where the numbers are. */
        const size_t from = round % 2 == 0 ? 0 : archive.directory;
        for (uint64_t edits = 1 + random_below(&random, 3); edits > 0; edits--)
            changed[from + random_below(&random, archive.length - from)] ^=
                (char)(1 << random_below(&random, 8));
        const char *const body = guard_page_copy(&guard, changed, archive.length);
        struct exchange_under_test exchange = decode_bytes("npz", body, archive.length, NULL, 0);
        understood += exchange.status == ATTN_OK;
        if (exchange.status == ATTN_OK) {
            ck_assert_mem_eq(exchange.request.attention.k.data, NPZ_K, sizeof NPZ_K);
            codec_request_close(&exchange.request);
        }
    }
    ck_assert_int_gt(understood, 0);
    guard_page_free(&guard);
}
END_TEST

static Suite *npz_hostile_suite(void) {
    Suite *const suite = suite_create("npz_hostile");
    TCase *const tests = tcase_create("hostile");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, refuses_headers, 0, COUNT(HEADERS));
    tcase_add_loop_test(tests, refuses_what_is_no_array, 0, COUNT(BEGINNINGS));
    tcase_add_test(tests, refuses_a_directory_that_goes_on);
    tcase_add_test(tests, refuses_a_name_too_long);
    tcase_add_loop_test(tests, refuses_changed_records, 0, COUNT(CHANGES));
    tcase_add_loop_test(tests, refuses_lies_about_sizes, 0, COUNT(LIES));
    tcase_add_test(tests, refuses_changed_data);
    tcase_add_test(tests, refuses_overlaps);
    tcase_add_test(tests, refuses_too_many_members);
    tcase_add_test(tests, every_truncation_is_refused);
    tcase_add_test(tests, mutations_are_survived);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(npz_hostile_suite)
