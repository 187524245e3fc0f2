/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of an innermost JSON array, stored as one of the element types. One inline loop,
 * compiled once for each type. Refuses bad grammar, elements of another type and numbers out of
 * range.
 */
#include "server/number_row.h"
#include "server/number_decimal.h"
#include "server/number_format.h"

#include <float.h>

_Static_assert(FLT_EVAL_METHOD == 0, "the exact double path needs plain IEEE 754 arithmetic");

static inline bool starts_number(unsigned char c) {
    return c == '-' || number_is_digit(c);
}

/* Moves *p past `word`, or to the first byte that differs from it. */
static bool take_word(const char **p, const char *end, const char *word) {
    const char *at = *p;
    while (*word != 0 && number_peek(at, end) == (unsigned char)*word) {
        at++;
        word++;
    }
    *p = at;
    return *word == 0;
}

/* Takes "NaN", "Infinity" or "-Infinity"; integers and booleans have none. */
static bool take_non_finite(const char **p, const char *end, enum number_type type,
                            uint64_t *bits) {
    static const char *const names[] = {"\"NaN\"", "\"Infinity\"", "\"-Infinity\""};
    if (type > NUMBER_BF16)
        return false;
    const struct number_format *format = &number_formats[type];
    const uint64_t values[] = {format->infinity | UINT64_C(1) << (format->fraction_bits - 1),
                               format->infinity,
                               format->infinity | UINT64_C(1) << format->sign_bit};
    for (size_t i = 0; i < 3; i++) {
        const char *at = *p;
        if (take_word(&at, end, names[i])) {
            *bits = values[i];
            *p = at;
            return true;
        }
    }
    return false;
}

/*
 * An element that does not start like a number. A string's inside and an object's are not looked
 * at: what they are is enough to refuse them.
 */
static __attribute__((noinline)) enum number_result
scan_other(const char **p, const char *end, enum number_type type, uint64_t *bits) {
    static const char *const words[] = {"null", "true", "false"};
    const unsigned char first = number_peek(*p, end);
    if (first == '[')
        return NUMBER_RAGGED;
    if (first == '{')
        return NUMBER_WRONG_TYPE;
    if (first == '"')
        return take_non_finite(p, end, type, bits) ? NUMBER_OK : NUMBER_WRONG_TYPE;
    for (size_t i = 0; i < 3; i++) {
        if (first != (unsigned char)words[i][0])
            continue;
        const char *at = *p;
        if (!take_word(&at, end, words[i])) {
            *p = at;
            return NUMBER_MALFORMED;
        }
        if (i == 0 || type != NUMBER_BOOL)
            return NUMBER_WRONG_TYPE;
        *bits = i == 1;
        *p = at;
        return NUMBER_OK;
    }
    return NUMBER_MALFORMED;
}

/*
 * The nearest double where one correctly rounded operation gives it (W. D. Clinger, "How to read
 * floating point numbers accurately", PLDI 1990): mantissa and power of ten are both exact.
 */
static inline bool exact_double(const struct number_decimal *decimal, double *value) {
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (decimal->mantissa > UINT64_C(1) << 53 || decimal->exponent < -22 ||
        decimal->exponent > 22 || decimal->truncated)
        return false;
    const double mantissa = (double)(int64_t)decimal->mantissa;
    const double magnitude = decimal->exponent < 0 ? mantissa / power[-decimal->exponent]
                                                   : mantissa * power[decimal->exponent];
    *value = decimal->negative ? -magnitude : magnitude;
    return true;
}

static inline enum number_result convert_f32(const struct number_decimal *decimal, uint64_t *bits) {
    double wide;
    if (exact_double(decimal, &wide)) {
        memcpy(bits, &wide, sizeof wide);
        /* Rounding twice goes wrong only where the first result is halfway between floats. */
        if ((*bits & 0x1fffffff) != 0x10000000) {
            const float value = (float)wide;
            uint32_t narrow;
            memcpy(&narrow, &value, sizeof narrow);
            *bits = narrow;
            return NUMBER_OK;
        }
    }
    return number_round(decimal, NUMBER_F32, bits);
}

static inline enum number_result convert_f64(const struct number_decimal *decimal, uint64_t *bits) {
    double value;
    if (!exact_double(decimal, &value))
        return number_round(decimal, NUMBER_F64, bits);
    memcpy(bits, &value, sizeof value);
    return NUMBER_OK;
}

static inline enum number_result convert_i64(const struct number_decimal *decimal, uint64_t *bits) {
    if (!decimal->integer)
        return NUMBER_WRONG_TYPE;
    const uint64_t limit = (uint64_t)INT64_MAX + decimal->negative;
    if (decimal->exponent != 0 || decimal->truncated || decimal->mantissa > limit)
        return NUMBER_RANGE;
    *bits = decimal->negative ? 0 - decimal->mantissa : decimal->mantissa;
    return NUMBER_OK;
}

static inline enum number_result convert_bool(const struct number_decimal *decimal,
                                              uint64_t *bits) {
    if (!decimal->integer || decimal->negative || decimal->mantissa > 1 || decimal->exponent != 0)
        return NUMBER_WRONG_TYPE;
    *bits = decimal->mantissa;
    return NUMBER_OK;
}

static inline __attribute__((always_inline)) enum number_result
convert(const struct number_decimal *decimal, enum number_type type, uint64_t *bits) {
    switch (type) {
    case NUMBER_F32:
        return convert_f32(decimal, bits);
    case NUMBER_F64:
        return convert_f64(decimal, bits);
    case NUMBER_I64:
        return convert_i64(decimal, bits);
    case NUMBER_BOOL:
        return convert_bool(decimal, bits);
    default:
        return number_round(decimal, type, bits);
    }
}

static inline __attribute__((always_inline)) size_t size_of(enum number_type type) {
    switch (type) {
    case NUMBER_F32:
        return sizeof(uint32_t);
    case NUMBER_F64:
    case NUMBER_I64:
        return sizeof(uint64_t);
    case NUMBER_BOOL:
        return sizeof(uint8_t);
    default:
        return sizeof(uint16_t);
    }
}

/* The low bytes of bits into element n of out; a constant type makes it one store. */
static inline __attribute__((always_inline)) void store(char *out, size_t n, enum number_type type,
                                                        uint64_t bits) {
    const size_t size = size_of(type);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    bits <<= 64 - 8 * size;
#endif
    memcpy(out + n * size, &bits, size);
}

/* Reads one element at *p; on failure *p is at the fault. */
static inline __attribute__((always_inline)) enum number_result
parse_element(const char **p, const char *end, enum number_type type, uint64_t *bits) {
    if (!starts_number(number_peek(*p, end)))
        return scan_other(p, end, type, bits);
    const char *const start = *p;
    struct number_decimal decimal;
    if (!number_scan(p, end, &decimal))
        return NUMBER_MALFORMED;
    const enum number_result result = convert(&decimal, type, bits);
    if (result != NUMBER_OK)
        *p = start;
    return result;
}

/* The element there is no room for: too many, unless it has a fault of its own. */
static enum number_result judge_surplus(const char **p, const char *end, enum number_type type) {
    const char *at = *p;
    uint64_t bits;
    const enum number_result result = parse_element(&at, end, type, &bits);
    if (result == NUMBER_OK)
        return NUMBER_TOO_MANY;
    *p = at;
    return result;
}

static inline __attribute__((always_inline)) enum number_result
parse_row_as(struct number_walk *walk, const enum number_type type) {
    const char *const end = walk->end;
    const size_t room = walk->capacity - walk->stored;
    char *const out = walk->out + walk->stored * size_of(type);
    const char *p = walk->at;
    enum number_result result = NUMBER_TOO_MANY;
    size_t n = 0;
    while (n < room) {
        uint64_t bits;
        result = parse_element(&p, end, type, &bits);
        if (result != NUMBER_OK)
            break;
        store(out, n++, type, bits);
        p = number_skip_space(p, end);
        if (number_peek(p, end) != ',')
            break;
        p = number_skip_space(p + 1, end);
        result = NUMBER_TOO_MANY;
    }
    if (result == NUMBER_TOO_MANY)
        result = judge_surplus(&p, end, type);
    walk->at = p;
    walk->count[walk->depth - 1] = n;
    walk->stored += n;
    return result;
}

enum number_result number_parse_row(struct number_walk *walk) {
    switch (walk->type) {
    case NUMBER_F32:
        return parse_row_as(walk, NUMBER_F32);
    case NUMBER_F64:
        return parse_row_as(walk, NUMBER_F64);
    case NUMBER_F16:
        return parse_row_as(walk, NUMBER_F16);
    case NUMBER_BF16:
        return parse_row_as(walk, NUMBER_BF16);
    case NUMBER_I64:
        return parse_row_as(walk, NUMBER_I64);
    default:
        return parse_row_as(walk, NUMBER_BOOL);
    }
}

enum number_result number_judge_misplaced(struct number_walk *walk) {
    const enum number_result result = judge_surplus(&walk->at, walk->end, walk->type);
    return result == NUMBER_TOO_MANY ? NUMBER_RAGGED : result;
}
