/* SPDX-License-Identifier: Apache-2.0 */
/* Which codings headers and first bytes name, and packing into bounded room. */
#include "server/codings/coding.h"

#include <string.h>
#include <zstd.h>

#include "tests/support/random.h"
#include "tests/support/test_main.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const char *name_of(const struct coding *coding) {
    return coding == NULL ? "none" : coding->name;
}

static const struct {
    const char *header;
    enum coding_request said;
    const char *coding;
} REQUESTS[] = {
    {NULL, CODING_PLAIN, "none"},         {"", CODING_PLAIN, "none"},
    {"identity", CODING_PLAIN, "none"},   {"Identity, IDENTITY", CODING_PLAIN, "none"},
    {"gzip", CODING_KNOWN, "gzip"},       {" GZIP ", CODING_KNOWN, "gzip"},
    {"x-gzip", CODING_KNOWN, "gzip"},     {"X-GZip", CODING_KNOWN, "gzip"},
    {"deflate", CODING_KNOWN, "deflate"}, {"zstd", CODING_KNOWN, "zstd"},
    {"br", CODING_UNKNOWN, NULL},         {"gzipp", CODING_UNKNOWN, NULL},
    {"gzip, gzip", CODING_SEVERAL, NULL}, {"identity, gzip", CODING_SEVERAL, NULL},
    {"gzip, br", CODING_SEVERAL, NULL},   {";q=1", CODING_UNKNOWN, NULL},
    {"gzip;q=1", CODING_UNKNOWN, NULL},
};

START_TEST(content_encoding) {
    const struct coding *coding;
    ck_assert_int_eq(coding_of_request(REQUESTS[_i].header, &coding), REQUESTS[_i].said);
    if (REQUESTS[_i].coding != NULL)
        ck_assert_str_eq(name_of(coding), REQUESTS[_i].coding);
}
END_TEST

static const struct {
    const char *header, *coding;
    bool accepted;
    const char *alone;
} ACCEPTS[] = {
    {NULL, "gzip", false, "none"},
    {"", "gzip", false, "none"},
    {"identity", "gzip", false, "none"},
    {"gzip", "gzip", true, "gzip"},
    {"gzip", "zstd", false, "gzip"},
    {"deflate", "deflate", true, "deflate"},
    {"x-gzip;q=0.1", "gzip", true, "gzip"},
    {"gzip, deflate", "deflate", true, "none"}, /* what HTTP libraries send unasked */
    {"gzip, deflate, br", "gzip", true, "none"},
    {"gzip;q=0", "gzip", false, "none"},
    {"gzip;q=0.0, *", "gzip", false, "none"},
    {"*;q=0, gzip;q=0.5", "gzip", true, "none"},
    {"*", "zstd", true, "none"},
    {"*;q=0", "zstd", false, "none"},
    {"br", "gzip", false, "none"},
};

START_TEST(accept_encoding) {
    const struct coding *coding = coding_find(ACCEPTS[_i].coding, strlen(ACCEPTS[_i].coding));
    ck_assert_int_eq(coding_is_accepted(ACCEPTS[_i].header, coding), ACCEPTS[_i].accepted);
    ck_assert_str_eq(name_of(coding_asked_alone(ACCEPTS[_i].header)), ACCEPTS[_i].alone);
}
END_TEST

START_TEST(names) {
    char text[64];
    ck_assert_str_eq(coding_names(false, text, sizeof text), "gzip, deflate or zstd");
    ck_assert_str_eq(coding_names(true, text, sizeof text), "gzip or deflate");
    for (size_t i = 0; coding_at(i) != NULL; i++)
        ck_assert_uint_eq(coding_index(coding_at(i)), i);
    ck_assert_ptr_null(coding_find("identity", 8));
}
END_TEST

START_TEST(first_bytes) {
    static const unsigned char gzip[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3},
                               other[] = {0x1f, 0x8b, 9, 0, 0, 0, 0, 0, 0, 3},
                               reserved[] = {0x1f, 0x8b, 8, 0x20, 0, 0, 0, 0, 0, 3},
                               zstd[] = {0x28, 0xb5, 0x2f, 0xfd}, skip[] = {0x5a, 0x2a, 0x4d, 0x18};
    ck_assert_str_eq(name_of(coding_recognise(gzip, sizeof gzip)), "gzip");
    ck_assert_str_eq(name_of(coding_recognise(gzip, sizeof gzip - 1)), "none");
    ck_assert_str_eq(name_of(coding_recognise(other, sizeof other)), "none");
    ck_assert_str_eq(name_of(coding_recognise(reserved, sizeof reserved)), "none");
    ck_assert_str_eq(name_of(coding_recognise(zstd, sizeof zstd)), "zstd");
    ck_assert_str_eq(name_of(coding_recognise(zstd, 3)), "none");
    ck_assert_str_eq(name_of(coding_recognise(skip, sizeof skip)), "zstd");
    ck_assert_str_eq(name_of(coding_recognise((const unsigned char *)"{\"q\":1}   ", 10)), "none");
}
END_TEST

enum { LENGTH = 3 << 20 };

/* A text of letters that packs to half and less. */
static unsigned char *letters(size_t length) {
    unsigned char *text = malloc(length);
    struct random random = random_seeded(7);
    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i < length; i++)
        text[i] = (unsigned char)('a' + random_below(&random, 8));
    return text;
}

START_TEST(what_is_packed_is_smaller) {
    const struct coding *coding = coding_at((size_t)_i);
    unsigned char *text = letters(LENGTH), *packed = malloc(LENGTH);
    const size_t length = coding_pack(coding, text, LENGTH, packed, LENGTH, NULL);
    ck_assert_uint_gt(length, 0);
    ck_assert_uint_lt(length, LENGTH / 2);
    /* Room for exactly that suffices; for one byte less nothing comes of it. */
    ck_assert_uint_eq(coding_pack(coding, text, LENGTH, packed, length, NULL), length);
    ck_assert_uint_eq(coding_pack(coding, text, LENGTH, packed, length - 1, NULL), 0);
    ck_assert_uint_eq(coding_pack(coding, text, 0, packed, 0, NULL), 0);
    free(packed);
    free(text);
}
END_TEST

START_TEST(packing_stops_when_it_is_told_to) {
    const struct coding *coding = coding_at((size_t)_i);
    const atomic_bool cancelled = true;
    const struct attn_checkpoint checkpoint = {.cancelled = &cancelled};
    unsigned char *text = letters(LENGTH), *packed = malloc(LENGTH);
    ck_assert_uint_eq(coding_pack(coding, text, LENGTH, packed, LENGTH, &checkpoint), 0);
    free(packed);
    free(text);
}
END_TEST

/* What is charged for zstd's state covers what it has; zlib's manual gives its sizes. */
START_TEST(state_is_not_larger_than_is_charged) {
    const struct coding *zstd = coding_find("zstd", 4);
    unsigned char *text = letters(LENGTH), *packed = malloc(LENGTH);
    void *encoder = zstd->encoder_open(LENGTH);
    struct coding_span span = {text, LENGTH, packed, LENGTH};
    ck_assert_int_eq(zstd->encode(encoder, &span, true), CODING_ENDED);
    ck_assert_uint_le(ZSTD_sizeof_CCtx(encoder), zstd->encoder_bytes);
    zstd->encoder_close(encoder);

    /* The largest window that is taken: 8 MiB. Its frame names no length of its own. */
    ZSTD_CCtx *wide = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(wide, ZSTD_c_windowLog, 23);
    ZSTD_inBuffer in = {text, LENGTH, 0};
    ZSTD_outBuffer out = {packed, LENGTH, 0};
    ZSTD_compressStream2(wide, &out, &in, ZSTD_e_flush);
    const char *fault;
    void *decoder = zstd->decoder_open(packed, out.pos);
    span = (struct coding_span){packed, out.pos, text, LENGTH};
    ck_assert_int_eq(zstd->decode(decoder, &span, &fault), CODING_GOES_ON);
    ck_assert_uint_gt(ZSTD_sizeof_DCtx(decoder), (size_t)8 << 20);
    ck_assert_uint_le(ZSTD_sizeof_DCtx(decoder), zstd->decoder_bytes);
    zstd->decoder_close(decoder);
    ZSTD_freeCCtx(wide);
    free(packed);
    free(text);
}
END_TEST

static Suite *coding_suite(void) {
    Suite *suite = suite_create("coding");
    TCase *tests = tcase_create("coding");
    tcase_add_loop_test(tests, content_encoding, 0, COUNT(REQUESTS));
    tcase_add_loop_test(tests, accept_encoding, 0, COUNT(ACCEPTS));
    tcase_add_test(tests, names);
    tcase_add_test(tests, first_bytes);
    tcase_add_loop_test(tests, what_is_packed_is_smaller, 0, 3);
    tcase_add_loop_test(tests, packing_stops_when_it_is_told_to, 0, 3);
    tcase_add_test(tests, state_is_not_larger_than_is_charged);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(coding_suite)
