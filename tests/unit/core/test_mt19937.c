/* SPDX-License-Identifier: Apache-2.0 */
/* The generator against numpy.random.RandomState, whose numbers were printed with float.hex(). */
#include "core/mt19937.h"
#include "tests/support/request_builder.h"

struct sequence {
    uint32_t seed;
    uint32_t words[5]; /* bytes(), at WORDS_AT: both sides of a renewal of the state */
    double doubles[2]; /* random_sample(2) */
    double normals[6]; /* randn(2000), at NORMALS_AT */
};

static const size_t WORDS_AT[] = {0, 1, 623, 624, 699};
static const size_t NORMALS_AT[] = {0, 1, 2, 3, 1998, 1999};

static const struct sequence SEQUENCES[] = {
    {0,
     {2357136044u, 2546248239u, 3791854820u, 341544762u, 747805126u},
     {0x1.18fe1565f12a8p-1, 0x1.6e2d4cf608733p-1},
     {0x1.c398ef3e5cfa5p+0, 0x1.99c2cfacc8953p-2, 0x1.f51d25222c9abp-1, 0x1.1ed5969e3314ep+1,
      -0x1.2453a6c2bc8bcp+0, -0x1.4f9bc11311ec5p+0}},
    {1,
     {1791095845u, 4282876139u, 2006116153u, 1104314680u, 2514098677u},
     {0x1.ab07d0ffa3c06p-2, 0x1.70ce5f3baf051p-1},
     {0x1.9fd5190657c50p+0, -0x1.393822fb7d9adp-1, -0x1.0e6c872548fd2p-1, -0x1.12ae1255cb80cp+0,
      0x1.4b74c04da6e99p-1, 0x1.6307008b3b891p+0}},
    {3,
     {2365658986u, 303761048u, 1771377942u, 1855105112u, 3828635526u},
     {0x1.1a022ec486c1ap-1, 0x1.6a9259f5c1b9ap-1},
     {0x1.c9e38e3e13df2p+0, 0x1.befc703152c8ap-2, 0x1.8b40edd841de6p-4, -0x1.dd0ddb9948fd7p+0,
      -0x1.00d4ac689dd7ep+0, 0x1.b7f8f487d4b2ep-3}},
    {UINT32_MAX,
     {419326371u, 479346978u, 1027084080u, 3860652269u, 1315897766u},
     {0x1.8fe69a3924820p-4, 0x1.d323d824032b1p-1},
     {0x1.4bfc38c486d8ap-1, 0x1.56b192e507eeep-1, -0x1.149e836f192fdp+0, 0x1.23543dec5a0fcp-2,
      -0x1.450cc8591d45bp+0, 0x1.71f1e9b4b4f9ap+0}},
};

START_TEST(words) {
    const struct sequence *sequence = &SEQUENCES[_i];
    struct attn_mt19937 random;
    attn_mt19937_init(&random, sequence->seed);
    for (size_t n = 0, at = 0; n < COUNT_OF(WORDS_AT); n++) {
        uint32_t word = 0;
        for (; at <= WORDS_AT[n]; at++)
            word = attn_mt19937_word(&random);
        ck_assert_uint_eq(word, sequence->words[n]);
    }
}
END_TEST

START_TEST(doubles) {
    const struct sequence *sequence = &SEQUENCES[_i];
    struct attn_mt19937 random;
    attn_mt19937_init(&random, sequence->seed);
    for (size_t n = 0; n < 2; n++)
        ck_assert(attn_mt19937_double(&random) == sequence->doubles[n]);
}
END_TEST

START_TEST(normals) {
    const struct sequence *sequence = &SEQUENCES[_i];
    struct attn_mt19937 random;
    attn_mt19937_init(&random, sequence->seed);
    for (size_t n = 0, at = 0; n < COUNT_OF(NORMALS_AT); n++) {
        double normal = 0;
        for (; at <= NORMALS_AT[n]; at++)
            normal = attn_mt19937_normal(&random);
        ck_assert_msg(normal == sequence->normals[n], "seed %u, normal %zu: %a", sequence->seed,
                      NORMALS_AT[n], normal);
    }
}
END_TEST

static Suite *mt19937_suite(void) {
    Suite *suite = suite_create("mt19937");
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, words, 0, COUNT_OF(SEQUENCES));
    tcase_add_loop_test(all, doubles, 0, COUNT_OF(SEQUENCES));
    tcase_add_loop_test(all, normals, 0, COUNT_OF(SEQUENCES));
    suite_add_tcase(suite, all);
    return suite;
}

ATTN_TEST_MAIN(mt19937_suite)
