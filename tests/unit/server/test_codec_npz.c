/* SPDX-License-Identifier: Apache-2.0 */
/* The npz codec: arrays of every form that numpy writes, in place where they can be; and budgets.
 */
#include "tests/support/test_main.h"
#include "tests/unit/server/npz_fixture.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static struct archive archive;

static void check_understood(const struct exchange_under_test *exchange) {
    ck_assert_msg(exchange->status == ATTN_OK, "%s: %s", exchange->error.pointer,
                  exchange->error.detail);
}

static bool is_within(const void *place, const void *body, size_t length) {
    return (const char *)place >= (const char *)body &&
           (const char *)place < (const char *)body + length;
}

START_TEST(every_packing_is_read) {
    const bool stored = _i == PACK_STORED || _i == PACK_ZIP64 || _i == PACK_BEHIND;
    for (int zip64 = 0; zip64 < 2; zip64++) {
        archive_operands(&archive, _i);
        archive_finish(&archive, zip64 == 1);
        struct exchange_under_test exchange = decode_archive(&archive);
        check_understood(&exchange);
        const struct attn_tensor *const k = &exchange.request.attention.k;
        ck_assert_int_eq(k->rank, 2);
        ck_assert_uint_eq(k->shape[0], 2);
        ck_assert_mem_eq(k->data, NPZ_K, sizeof NPZ_K);
        ck_assert_mem_eq(exchange.request.attention.v.data, NPZ_V, sizeof NPZ_V);
        ck_assert(is_within(k->data, archive.bytes, archive.length) == stored);
        ck_assert_int_eq(exchange.request.encoding, CODEC_NESTED);
        codec_request_close(&exchange.request);
    }
}
END_TEST

START_TEST(misaligned_arrays_are_copied) {
    static _Alignas(64) char shifted[ARCHIVE_ROOM + 1];
    archive_operands(&archive, PACK_STORED);
    archive_finish(&archive, false);
    memcpy(shifted + 1, archive.bytes, archive.length);
    struct exchange_under_test exchange = decode_bytes("npz", shifted + 1, archive.length, NULL, 0);
    check_understood(&exchange);
    const struct attn_tensor *const k = &exchange.request.attention.k;
    ck_assert(!is_within(k->data, shifted, sizeof shifted));
    ck_assert_uint_eq((uintptr_t)k->data % 64, 0);
    ck_assert_mem_eq(k->data, NPZ_K, sizeof NPZ_K);
    codec_request_close(&exchange.request);
}
END_TEST

/* k as numpy saves it in column order, and with the other order of bytes. */
START_TEST(orders_of_axes_and_bytes) {
    static const float columns[] = {1, 3, 2, 4};
    char swapped[sizeof NPZ_K];
    for (size_t i = 0; i < sizeof swapped; i++)
        swapped[i] = ((const char *)NPZ_K)[i / 4 * 4 + 3 - i % 4];
    memset(&archive, 0, sizeof archive);
    archive_array(&archive, "q", DICT("<f4", "1, 2"), NPZ_Q, sizeof NPZ_Q, PACK_STORED);
    archive_array(&archive, "k", "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}",
                  columns, sizeof columns, PACK_STORED);
    archive_array(&archive, "v.npy", DICT(">f4", "2L, 2L"), swapped, sizeof swapped,
                  _i == 0 ? PACK_STORED : PACK_DEFLATED);
    archive_finish(&archive, false);
    struct exchange_under_test exchange = decode_archive(&archive);
    check_understood(&exchange);
    const struct attn_tensor *const k = &exchange.request.attention.k;
    ck_assert(is_within(k->data, archive.bytes, archive.length));
    ck_assert_int_eq(k->stride[0], 1);
    ck_assert_int_eq(k->stride[1], 2);
    for (size_t i = 0; i < 4; i++)
        ck_assert(float_at(k, i / 2 * (size_t)k->stride[0] + i % 2 * (size_t)k->stride[1]) ==
                  NPZ_K[i]);
    ck_assert_mem_eq(exchange.request.attention.v.data, NPZ_K, sizeof NPZ_K);
    codec_request_close(&exchange.request);
}
END_TEST

static const struct {
    const char *dict;
    enum attn_dtype dtype;
    size_t bytes;
} DTYPES[] = {
    {DICT("<f8", "2"), ATTN_FLOAT64, 16}, {DICT("<f2", "2"), ATTN_FLOAT16, 4},
    {DICT("|b1", "2"), ATTN_BOOL, 2},     {DICT("|u1", "2"), ATTN_UINT8, 2},
    {DICT("|i1", "2"), ATTN_INT8, 2},     {DICT("<u2", "2"), ATTN_UINT16, 4},
    {DICT("=i2", "2"), ATTN_INT16, 4},    {DICT(">u4", "2"), ATTN_UINT32, 8},
    {DICT("<i4", "2"), ATTN_INT32, 8},    {DICT(">u8", "2"), ATTN_UINT64, 16},
    {DICT("<i8", "2"), ATTN_INT64, 16},
};

/* As the tensor of a mask or the bias, by their names; "one" is 1 in the order that is said. */
START_TEST(every_dtype_is_read) {
    static const char allow[] = "{\"mask\":{\"type\":\"allow\",\"tensor\":\"t\"}}";
    static const char bias[] = "{\"bias\":\"t\"}";
    const bool is_real = attn_dtype_class(DTYPES[_i].dtype) == ATTN_CLASS_FLOAT;
    const char *const options = is_real ? bias : allow;
    const size_t item = DTYPES[_i].bytes / 2;
    const bool big = strchr(DTYPES[_i].dict, '>') != NULL;
    char ones[16] = {0}, dict[80];
    ones[big ? item - 1 : 0] = ones[big ? 2 * item - 1 : item] = 1;
    archive_operands(&archive, PACK_STORED);
    archive_array(&archive, "t.npy", DTYPES[_i].dict, ones, DTYPES[_i].bytes, PACK_STORED);
    snprintf(dict, sizeof dict, DICT("|S%zu", ""), strlen(options));
    archive_array(&archive, "options.npy", dict, options, strlen(options), PACK_STORED);
    archive_finish(&archive, false);
    struct exchange_under_test exchange = decode_archive(&archive);
    check_understood(&exchange);
    const struct attn_request *const a = &exchange.request.attention;
    const struct attn_tensor *const found = is_real ? &a->bias : &a->mask.nodes[0].tensor;
    ck_assert_int_eq(found->dtype, DTYPES[_i].dtype);
    ck_assert(is_real || (attn_tensor_int_at(found, 0) == 1 && attn_tensor_int_at(found, 1) == 1));
    codec_request_close(&exchange.request);
}
END_TEST

START_TEST(later_versions_are_read) {
    static const char dict[] = DICT("<f4", "1, 2") "         \n";
    char array[256] = "\x93NUMPY\2\0";
    array[6] = (char)_i;
    array[8] = sizeof dict - 1;
    memcpy(array + 12, dict, sizeof dict - 1);
    memcpy(array + 12 + sizeof dict - 1, NPZ_Q, sizeof NPZ_Q);
    memset(&archive, 0, sizeof archive);
    archive_add(&archive, "q.npy", array, 12 + sizeof dict - 1 + sizeof NPZ_Q, PACK_STORED, 1);
    archive_array(&archive, "k.npy", DICT("<f4", "2, 2"), NPZ_K, sizeof NPZ_K, PACK_STORED);
    archive_array(&archive, "v.npy", DICT("<f4", "2, 1"), NPZ_V, sizeof NPZ_V, PACK_STORED);
    archive_finish(&archive, false);
    struct exchange_under_test exchange = decode_archive(&archive);
    check_understood(&exchange);
    ck_assert_mem_eq(exchange.request.attention.q.data, NPZ_Q, sizeof NPZ_Q);
    codec_request_close(&exchange.request);
}
END_TEST

/* An archive with options of this header and these bytes. */
static struct exchange_under_test decode_options(const char *dict, const void *bytes,
                                                 size_t count) {
    archive_operands(&archive, PACK_DEFLATED);
    archive_array(&archive, "options.npy", dict, bytes, count, PACK_DEFLATED);
    archive_finish(&archive, true);
    return decode_archive(&archive);
}

/* numpy's text: four bytes per character, here in either order, and NUL characters behind it. */
START_TEST(options_are_text_of_unicode) {
    enum { CHARACTERS = 40 };
    static const char options[] = "{\"scale\":0.25}";
    char wide[4 * CHARACTERS] = {0};
    for (size_t i = 0; i < sizeof options - 1; i++)
        wide[4 * i + (_i == 0 ? 0 : 3)] = options[i];
    struct exchange_under_test exchange =
        decode_options(_i == 0 ? DICT("<U40", "") : DICT(">U40", ""), wide, sizeof wide);
    check_understood(&exchange);
    ck_assert(exchange.request.attention.scale == 0.25);
    codec_request_close(&exchange.request);
}
END_TEST

/* A kernel of two, three and four bytes per character comes through, to be unknown to the core. */
START_TEST(characters_become_utf8) {
    static const uint32_t options[] = {'{', '"', 'k',  'e',    'r',    'n',      'e', 'l', '"',
                                       ':', '"', 0xe9, 0x221a, 0x1d56, 0x10ffff, '"', '}'};
    struct exchange_under_test exchange = decode_options(DICT("<U17", ""), options, sizeof options);
    check_understood(&exchange);
    ck_assert_str_eq(exchange.request.attention.kernel,
                     "\xc3\xa9\xe2\x88\x9a\xe1\xb5\x96\xf4\x8f\xbf\xbf");
    codec_request_close(&exchange.request);
}
END_TEST

static const struct {
    const char *dict, *bytes;
    size_t count;
    struct refusal refusal;
} OPTIONS[] = {
    {DICT("|S0", ""), "", 0, {"", ATTN_MALFORMED, "", "The text of \"options\" is empty"}},
    {DICT("|S3", ""), "[1]", 3, {"", ATTN_BAD_TYPE, "options", "JSON object"}},
    {DICT("|S3", "2"), "{} {} ", 6, {"", ATTN_BAD_TYPE, "options", "one text"}},
    {DICT("<f4", ""), "\0\0\0\0", 4, {"", ATTN_BAD_TYPE, "options", "one text"}},
    {DICT("<U1", ""), "\0\xd8\0\0", 4, {"", ATTN_MALFORMED, "options", "no character"}},
    {DICT("<U1", ""), "\0\0\x11\0", 4, {"", ATTN_MALFORMED, "options", "no character"}},
    {DICT("|S12", ""), "{\"skale\": 1}", 12, {"", ATTN_UNKNOWN_FIELD, "skale", "scale"}},
};

START_TEST(refuses_options) {
    const struct exchange_under_test exchange =
        decode_options(OPTIONS[_i].dict, OPTIONS[_i].bytes, OPTIONS[_i].count);
    check_refused(&exchange, &OPTIONS[_i].refusal);
}
END_TEST

START_TEST(refuses_members_of_no_use) {
    static const struct refusal unused = {"", ATTN_UNKNOWN_FIELD, "w", "tensor"};
    static const struct refusal missing = {"", ATTN_MISSING_FIELD, "q", "q"};
    static const struct refusal twice = {"", ATTN_MALFORMED, "q", "twice"};
    archive_operands(&archive, PACK_STORED);
    archive_array(&archive, "w.npy", DICT("<f4", "1, 2"), NPZ_Q, sizeof NPZ_Q, PACK_STORED);
    archive_finish(&archive, false);
    struct exchange_under_test exchange = decode_archive(&archive);
    check_refused(&exchange, &unused);
    archive_operands(&archive, PACK_STORED);
    archive_array(&archive, "q", DICT("<f4", "1, 2"), NPZ_Q, sizeof NPZ_Q, PACK_STORED);
    archive_finish(&archive, false);
    exchange = decode_archive(&archive);
    check_refused(&exchange, &twice);
    memset(&archive, 0, sizeof archive);
    archive_finish(&archive, false);
    exchange = decode_archive(&archive);
    check_refused(&exchange, &missing);
}
END_TEST

enum { WHOLE_BYTES = 1000 };

struct ledger {
    size_t charged, room;
};

static enum attn_status reserve(void *closure, size_t bytes, struct attn_error *error) {
    struct ledger *const ledger = closure;
    if (bytes > WHOLE_BYTES - ledger->charged)
        return attn_fail_limit(error, ATTN_BODY_TOO_LARGE, "", WHOLE_BYTES,
                               "That is more than there is for all calls.");
    if (bytes > ledger->room)
        return attn_fail(error, ATTN_OVERLOADED, "", "There is no room for this tensor now.");
    ledger->room -= bytes;
    ledger->charged += bytes;
    return ATTN_OK;
}

static struct exchange_under_test decode_within(struct ledger *ledger, size_t most) {
    struct exchange_under_test exchange = {.status = ATTN_OK};
    const struct codec_budget budget = {most, WHOLE_BYTES / CODEC_JSON_WEIGHT, reserve, ledger};
    const struct codec_input input = {.body = archive.bytes,
                                      .length = archive.length,
                                      .schema = &ATTENTION_SCHEMA,
                                      .budget = &budget};
    exchange.status = codec_find("npz")->decode(&input, &exchange.request, &exchange.error);
    return exchange;
}

enum { OPERAND_BYTES = sizeof NPZ_Q + sizeof NPZ_K + sizeof NPZ_V };

/* What stays in place costs nothing; all else is charged, and only within the limit. */
START_TEST(unpacked_arrays_are_charged) {
    static const struct refusal too_large = {"", ATTN_BODY_TOO_LARGE, "v", "unpacked"};
    static const struct refusal no_room = {"", ATTN_OVERLOADED, "k", "no room"};
    static const struct refusal never = {"", ATTN_BODY_TOO_LARGE, "q", "for all calls"};
    struct ledger ledger = {0, WHOLE_BYTES};
    archive_operands(&archive, PACK_STORED);
    archive_finish(&archive, false);
    struct exchange_under_test exchange = decode_within(&ledger, 0);
    check_understood(&exchange);
    codec_request_close(&exchange.request);
    ck_assert_uint_eq(ledger.charged, 0);
    archive_operands(&archive, PACK_DEFLATED);
    archive_finish(&archive, false);
    exchange = decode_within(&ledger, OPERAND_BYTES);
    check_understood(&exchange);
    codec_request_close(&exchange.request);
    ck_assert_uint_eq(ledger.charged, OPERAND_BYTES);
    exchange = decode_within(&ledger, OPERAND_BYTES - 1);
    check_refused(&exchange, &too_large);
    ck_assert(exchange.error.limit == OPERAND_BYTES - 1);
    ledger.room = sizeof NPZ_Q;
    exchange = decode_within(&ledger, OPERAND_BYTES);
    check_refused(&exchange, &no_room);
    ledger.charged = WHOLE_BYTES;
    exchange = decode_within(&ledger, OPERAND_BYTES);
    check_refused(&exchange, &never);
    ck_assert(exchange.error.limit == WHOLE_BYTES);
}
END_TEST

START_TEST(a_cancelled_archive_is_not_read) {
    static const int packs[] = {PACK_STORED, PACK_DEFLATED};
    for (size_t i = 0; i < COUNT(packs); i++) {
        const atomic_bool cancelled = true;
        struct exchange_under_test exchange = {.status = ATTN_OK};
        archive_operands(&archive, packs[i]);
        archive_finish(&archive, false);
        const struct codec_input input = {.body = archive.bytes,
                                          .length = archive.length,
                                          .schema = &ATTENTION_SCHEMA,
                                          .cancelled = &cancelled};
        exchange.status = codec_find("npz")->decode(&input, &exchange.request, &exchange.error);
        ck_assert_int_eq(exchange.status, ATTN_CANCELLED);
        ck_assert_ptr_null(exchange.request.storage);
    }
}
END_TEST

static Suite *codec_npz_suite(void) {
    Suite *const suite = suite_create("codec_npz");
    TCase *const tests = tcase_create("npz");
    tcase_add_loop_test(tests, every_packing_is_read, PACK_STORED, PACK_BEHIND + 1);
    tcase_add_test(tests, misaligned_arrays_are_copied);
    tcase_add_loop_test(tests, orders_of_axes_and_bytes, 0, 2);
    tcase_add_loop_test(tests, every_dtype_is_read, 0, COUNT(DTYPES));
    tcase_add_loop_test(tests, later_versions_are_read, 2, 4);
    tcase_add_loop_test(tests, options_are_text_of_unicode, 0, 2);
    tcase_add_test(tests, characters_become_utf8);
    tcase_add_loop_test(tests, refuses_options, 0, COUNT(OPTIONS));
    tcase_add_test(tests, refuses_members_of_no_use);
    tcase_add_test(tests, unpacked_arrays_are_charged);
    tcase_add_test(tests, a_cancelled_archive_is_not_read);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(codec_npz_suite)
