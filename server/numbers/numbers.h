/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers as JSON text, both ways: nested arrays of numbers into plain memory with one rounding
 * from decimal to the target type, and plain memory into the shortest text that reads back to the
 * same bits. No heap, no locale, no byte read outside the text given.
 *
 * Parsing refuses everything JSON's grammar (RFC 8259) does not allow (+1, 01, .5, 5., NaN), and
 * arrays that are not rectangular. Non-finite values are the strings "NaN", "Infinity" and
 * "-Infinity", spelled exactly so and without escapes, in both directions.
 */
#ifndef SERVER_NUMBERS_NUMBERS_H
#define SERVER_NUMBERS_NUMBERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/numbers/number_team.h"

enum { NUMBER_MAX_RANK = 8 };

enum number_type {
    NUMBER_F32,
    NUMBER_F64,
    NUMBER_F16,  /* IEEE 754 binary16 in a uint16_t */
    NUMBER_BF16, /* the upper half of a binary32 in a uint16_t */
    NUMBER_I64,  /* whole numbers written without point and exponent */
    NUMBER_BOOL, /* true, false, 1 or 0 into a uint8_t of 1 or 0 */
    NUMBER_TYPE_COUNT
};

enum number_result {
    NUMBER_OK,
    NUMBER_MALFORMED,  /* not JSON: answer 400 */
    NUMBER_TOO_LARGE,  /* a finite number beyond float64, hence beyond every type: 400 */
    NUMBER_RANGE,      /* fits float64 but not the type asked for: 422 */
    NUMBER_WRONG_TYPE, /* JSON of another type than the one asked for (null, object …): 422 */
    NUMBER_RAGGED,     /* an array whose length or depth differs from its siblings': 422 */
    NUMBER_TOO_DEEP,   /* more than NUMBER_MAX_RANK arrays inside each other: 422 */
    NUMBER_TOO_MANY,   /* more elements than the caller has room for */
    NUMBER_CANCELLED   /* the caller has no more use for them */
};

/* shape[0 .. rank) in elements, outermost axis first. */
struct number_array_shape {
    int rank;
    size_t shape[NUMBER_MAX_RANK];
};

/*
 * Where parsing stopped: the byte's offset in the text, and the zero-based indices of the element
 * (or array) at fault, outermost first; depth 0 means the whole value.
 */
struct number_fault {
    size_t offset;
    int depth;
    size_t index[NUMBER_MAX_RANK];
};

/* Room for the longest path number_fault_pointer() writes: eight times "/" and 20 digits, NUL. */
enum { NUMBER_POINTER_ROOM = NUMBER_MAX_RANK * 21 + 1 };

/* Writes the fault's path as a JSON pointer below the array, "/0/12/3", NUL-terminated. */
void number_fault_pointer(const struct number_fault *fault, char out[NUMBER_POINTER_ROOM]);

/*
 * Finds the end of the JSON array that starts at text[0] == '[': *end is the offset just past its
 * matching ']', and *comma_count + 1 is an upper bound of the numbers inside, exact for an array
 * without empty axes and other strings than the non-finite ones. Brackets inside strings do not
 * count. Checks nothing else: number_array_parse() does. Returns false when text[0] is no '[' or
 * the array does not end within length; the outputs are then untouched.
 */
bool number_array_skip(const char *text, size_t length, size_t *end, size_t *comma_count);

/*
 * Parses text, which must be one array of rank 1 to NUMBER_MAX_RANK (white space around it is
 * allowed), into out in C order; capacity is in elements. An empty axis ends the shape: "[[],[]]"
 * is [2,0]. Rounding is to nearest, ties to even, once from the decimal digits, subnormals and
 * negative zero included; a number of any length is read exactly and in linear time.
 * On anything but NUMBER_OK, *fault says where and the contents of out and *shape are unspecified.
 * Of several faults in one text the first is reported, except that an array that does not end is
 * NUMBER_MALFORMED only once its text is used up.
 */
enum number_result number_array_parse(enum number_type type, const char *text, size_t length,
                                      void *out, size_t capacity, struct number_array_shape *shape,
                                      struct number_fault *fault);

/* As number_array_parse(), but ends as NUMBER_CANCELLED soon after *cancelled, looked at every
 * few megabytes of text, became true. NULL: never. */
enum number_result number_array_parse_until(const atomic_bool *cancelled, enum number_type type,
                                            const char *text, size_t length, void *out,
                                            size_t capacity, struct number_array_shape *shape,
                                            struct number_fault *fault);

/* As number_array_parse_until(), to the last bit and fault, but a long text is shared out to
 * `team`; NULL: there is none. Sharing costs some 20 KiB of stack. */
enum number_result number_array_parse_shared(const struct number_team *team,
                                             const atomic_bool *cancelled, enum number_type type,
                                             const char *text, size_t length, void *out,
                                             size_t capacity, struct number_array_shape *shape,
                                             struct number_fault *fault);

static inline enum number_result number_array_parse_f32(const char *text, size_t length, float *out,
                                                        size_t capacity,
                                                        struct number_array_shape *shape,
                                                        struct number_fault *fault) {
    return number_array_parse(NUMBER_F32, text, length, out, capacity, shape, fault);
}

static inline enum number_result number_array_parse_f64(const char *text, size_t length,
                                                        double *out, size_t capacity,
                                                        struct number_array_shape *shape,
                                                        struct number_fault *fault) {
    return number_array_parse(NUMBER_F64, text, length, out, capacity, shape, fault);
}

static inline enum number_result number_array_parse_f16(const char *text, size_t length,
                                                        uint16_t *out, size_t capacity,
                                                        struct number_array_shape *shape,
                                                        struct number_fault *fault) {
    return number_array_parse(NUMBER_F16, text, length, out, capacity, shape, fault);
}

static inline enum number_result number_array_parse_bf16(const char *text, size_t length,
                                                         uint16_t *out, size_t capacity,
                                                         struct number_array_shape *shape,
                                                         struct number_fault *fault) {
    return number_array_parse(NUMBER_BF16, text, length, out, capacity, shape, fault);
}

static inline enum number_result number_array_parse_i64(const char *text, size_t length,
                                                        int64_t *out, size_t capacity,
                                                        struct number_array_shape *shape,
                                                        struct number_fault *fault) {
    return number_array_parse(NUMBER_I64, text, length, out, capacity, shape, fault);
}

static inline enum number_result number_array_parse_bool(const char *text, size_t length,
                                                         uint8_t *out, size_t capacity,
                                                         struct number_array_shape *shape,
                                                         struct number_fault *fault) {
    return number_array_parse(NUMBER_BOOL, text, length, out, capacity, shape, fault);
}

/*
 * Parses text, which must be exactly one JSON number, as float64. Returns NUMBER_OK,
 * NUMBER_MALFORMED or NUMBER_TOO_LARGE; *value is untouched unless NUMBER_OK.
 */
enum number_result number_parse_double(const char *text, size_t length, double *value);

/*
 * Printing: the shortest decimal that reads back to the same bits of the value's own type, and
 * among those the nearest to it. Positional from 1e-5 up to 1e17 (0.00001, 1, 0.5, 123456790),
 * else with an exponent (1e-7, 3.4e+38 is 3.4e38). Zero is 0, negative zero -0.0.
 * No text is longer than NUMBER_TEXT_MAX, but out needs NUMBER_TEXT_ROOM bytes because whole
 * words are stored. Returns the length; writes no NUL.
 */
enum { NUMBER_TEXT_MAX = 24, NUMBER_TEXT_ROOM = 40 };

size_t number_print_f32(float value, char *out);
size_t number_print_f64(double value, char *out);
size_t number_print_f16(uint16_t bits, char *out);
size_t number_print_bf16(uint16_t bits, char *out);

/*
 * Writes count values of the type from values, in order, separated by ',' and nothing else (so
 * count 0 writes nothing), and returns the number of bytes. Booleans print as true and false.
 * out needs the bytes number_array_text_room() says.
 */
size_t number_print_array(enum number_type type, const void *values, size_t count, char *out);

/* The room number_print_array() needs at most; false when that does not fit a size_t. */
bool number_array_text_room(enum number_type type, size_t count, size_t *room);

#endif
