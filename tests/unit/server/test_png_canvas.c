/* SPDX-License-Identifier: Apache-2.0 */
/* Text of any bytes on a picture, and the file made of it, as libpng reads it back. */
#include "server/codecs/codec_png_canvas.h"

#include <check.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/guard_page.h"
#include "tests/support/random.h"
#include "tests/support/test_main.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define FONT "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"

enum { SIDE = 160 };

struct picture {
    unsigned char pixels[SIDE * SIDE];
    struct png_canvas canvas;
};

static void clear(struct picture *picture) {
    picture->canvas = (struct png_canvas){picture->pixels, SIDE, SIDE};
    memset(picture->pixels, PNG_PAPER, sizeof picture->pixels);
}

static struct png_text *open_text(struct typeface *typeface) {
    ck_assert_msg(typeface_load(typeface, FONT), "install fonts-dejavu-core (make setup)");
    struct png_text *const text = png_text_open(typeface);
    ck_assert_ptr_nonnull(text);
    return text;
}

/* In the middle of an empty picture. */
static void write_in(struct png_text *text, struct picture *picture, const char *letters,
                     size_t length, const struct png_style *style) {
    clear(picture);
    png_text_write(text, &picture->canvas, SIDE / 2, SIDE / 2, style, letters, length);
}

static void write_at(struct picture *picture, const char *letters, size_t length,
                     const struct png_style *style) {
    struct typeface typeface;
    struct png_text *const text = open_text(&typeface);
    write_in(text, picture, letters, length, style);
    png_text_close(text);
    typeface_free(&typeface);
}

static size_t inked(const struct picture *picture) {
    size_t count = 0;
    for (size_t i = 0; i < sizeof picture->pixels; i++)
        count += picture->pixels[i] != PNG_PAPER;
    return count;
}

static const struct png_style PLAIN = {11, PNG_RIGHTWARDS, PNG_START, SIDE / 2};

static const struct {
    const char *text, *same;
} ALIKE[] = {
    {"\xD8\x9C" /* marks of direction, which turn nothing round, ... */
     "a\xE2\x80\xAE\xE2\x81\xA6"
     "b",
     "ab"},
    {"a\xE2\x80\x8D\xEF\xBB\xBF" /* ... and what joins */
     "b",
     "ab"},
    {"\n", "\xE2\x86\xB5"},
    {"\x01", "\xEF\xBF\xBD"},
    {"\xFF", "\xEF\xBF\xBD"},
    {"\xC0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD"}, /* longer than need be */
    {"\xE0\x80\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* half of a pair */
    {"\xE2\x82", "\xEF\xBF\xBD\xEF\xBF\xBD"},                 /* cut */
    {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    {"\xE4\xB8\xAD", "\xF0\xA0\x80\x80"}, /* no glyph, and none: the font's box */
};

START_TEST(any_bytes_are_drawn) {
    struct picture one, other;
    write_at(&one, ALIKE[_i].text, strlen(ALIKE[_i].text), &PLAIN);
    write_at(&other, ALIKE[_i].same, strlen(ALIKE[_i].same), &PLAIN);
    ck_assert_uint_gt(inked(&one), 0);
    ck_assert_mem_eq(one.pixels, other.pixels, sizeof one.pixels);
}
END_TEST

START_TEST(random_bytes_do_no_harm) {
    struct guard_page guard = guard_page_create(64);
    struct picture picture;
    struct typeface typeface;
    struct png_text *const pen = open_text(&typeface);
    struct random state = random_seeded(7);
    for (int round = 0; round < 60; round++) {
        char bytes[63];
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (char)random_next(&state);
        const size_t length = (size_t)round;
        const char *const text = guard_page_copy(&guard, bytes, length);
        const struct png_style style = {11, round % 2 ? PNG_UPWARDS : PNG_RIGHTWARDS,
                                        (enum png_anchor)(round % 3), 40};
        write_in(pen, &picture, text, length, &style);
    }
    png_text_close(pen);
    typeface_free(&typeface);
    guard_page_free(&guard);
}
END_TEST

START_TEST(long_text_ends_with_an_ellipsis_in_its_room) {
    struct picture picture;
    write_at(&picture, "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm", 32,
             &(struct png_style){11, PNG_RIGHTWARDS, PNG_START, 50});
    for (size_t y = 0; y < SIDE; y++)
        for (size_t x = 0; x < SIDE; x++)
            ck_assert(picture.pixels[y * SIDE + x] == PNG_PAPER ||
                      (x >= SIDE / 2 && x <= SIDE / 2 + 51));
    const size_t whole = inked(&picture);
    write_at(&picture, "mmmm", 4, &(struct png_style){11, PNG_RIGHTWARDS, PNG_START, 50});
    ck_assert_uint_gt(whole, inked(&picture) - 40);
}
END_TEST

START_TEST(upwards_is_rightwards_turned) {
    struct picture right, up;
    struct png_style style = PLAIN;
    write_at(&right, "gap", 3, &style);
    style.direction = PNG_UPWARDS;
    write_at(&up, "gap", 3, &style);
    for (ptrdiff_t a = -20; a < 60; a++)
        for (ptrdiff_t b = -20; b < 20; b++)
            ck_assert_int_eq(right.pixels[(SIDE / 2 + b) * SIDE + SIDE / 2 + a],
                             up.pixels[(SIDE / 2 - a) * SIDE + SIDE / 2 + b]);
}
END_TEST

START_TEST(without_a_typeface_nothing_is_written) {
    struct typeface typeface;
    struct picture picture;
    clear(&picture);
    png_text_write(NULL, &picture.canvas, 9, 9, &PLAIN, "a", 1);
    ck_assert_uint_eq(inked(&picture), 0);
    ck_assert(!typeface_load(&typeface, "/nowhere.ttf"));
    ck_assert(!typeface_load(&typeface, "/"));
    ck_assert(!typeface_load(&typeface, "Makefile"));
    ck_assert_ptr_null(typeface.bytes);
    ck_assert_ptr_null(png_text_open(NULL));
    png_text_close(NULL);
}
END_TEST

static void check_file(const struct png_canvas *canvas, void *file, size_t length) {
    png_image image = {.version = PNG_IMAGE_VERSION};
    ck_assert(png_image_begin_read_from_memory(&image, file, length));
    ck_assert(image.width == canvas->width && image.height == canvas->height);
    image.format = PNG_FORMAT_RGB;
    unsigned char *const rgb = malloc(PNG_IMAGE_SIZE(image));
    ck_assert(png_image_finish_read(&image, NULL, rgb, 0, NULL));
    for (size_t i = 0; i < canvas->width * canvas->height; i++) {
        unsigned char colour[3];
        png_colour(PNG_SEQUENTIAL, canvas->pixels[i], colour);
        ck_assert_mem_eq(rgb + 3 * i, colour, 3);
    }
    free(rgb);
}

static const size_t SIZES[][2] = {{1, 1}, {1, 900}, {900, 1}, {257, 129}, {600, 700}};

START_TEST(a_file_of_noise_fits_its_room) {
    struct png_canvas canvas = {NULL, SIZES[_i][0], SIZES[_i][1]};
    struct attn_error error = {.status = ATTN_OK};
    struct random state = random_seeded(5);
    size_t room, length, again;
    ck_assert(png_file_room(canvas.width, canvas.height, &room));
    canvas.pixels = malloc(canvas.width * canvas.height);
    for (size_t i = 0; i < canvas.width * canvas.height; i++)
        canvas.pixels[i] = (unsigned char)(random_next(&state) % PNG_COLOURS);
    unsigned char *const file = malloc(room), *const second = malloc(room);
    ck_assert_int_eq(png_file_write(&canvas, PNG_SEQUENTIAL, "noise", file, room, &length, &error),
                     ATTN_OK);
    check_file(&canvas, file, length);
    ck_assert_int_eq(png_file_write(&canvas, PNG_SEQUENTIAL, "noise", second, room, &again, &error),
                     ATTN_OK);
    ck_assert_uint_eq(length, again);
    ck_assert_mem_eq(file, second, length);
    /* Too little room ends it, and nothing is written beyond. */
    for (size_t less = 0; less < 100; less += 33)
        ck_assert_int_eq(png_file_write(&canvas, PNG_SEQUENTIAL, "", second, less, &again, &error),
                         ATTN_NO_MEMORY);
    free(canvas.pixels);
    free(file);
    free(second);
    ck_assert(!png_file_room(SIZE_MAX, 2, &room) && !png_file_room(SIZE_MAX / 2, 2, &room));
}
END_TEST

static Suite *canvas_suite(void) {
    Suite *const suite = suite_create("png canvas");
    TCase *const tests = tcase_create("png canvas");
    tcase_add_loop_test(tests, any_bytes_are_drawn, 0, COUNT(ALIKE));
    tcase_add_test(tests, random_bytes_do_no_harm);
    tcase_add_test(tests, long_text_ends_with_an_ellipsis_in_its_room);
    tcase_add_test(tests, upwards_is_rightwards_turned);
    tcase_add_test(tests, without_a_typeface_nothing_is_written);
    tcase_add_loop_test(tests, a_file_of_noise_fits_its_room, 0, COUNT(SIZES));
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(canvas_suite)
