/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of an innermost JSON array, stored as one of the element types. One inline loop,
 * compiled once for each type. Refuses bad grammar, elements of another type and numbers out of
 * range.
 */
#include "server/numbers/number_row.h"
#include "server/numbers/number_decimal.h"
#include "server/numbers/number_digits.h"
#include "server/numbers/number_round.h"

#include <string.h>

/* Elements of a row between two looks at whether the walk was cancelled: a millisecond or two. */
enum { ROW_CHUNK = 1 << 18 };

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

static enum number_result convert_i64(const struct number_decimal *decimal, uint64_t *bits) {
    if (!decimal->integer)
        return NUMBER_WRONG_TYPE;
    const uint64_t limit = (uint64_t)INT64_MAX + decimal->negative;
    if (decimal->exponent != 0 || decimal->mantissa > limit) /* or digits were left out */
        return NUMBER_RANGE;
    *bits = decimal->negative ? 0 - decimal->mantissa : decimal->mantissa;
    return NUMBER_OK;
}

static enum number_result convert_bool(const struct number_decimal *decimal, uint64_t *bits) {
    if (!decimal->integer || decimal->negative || decimal->mantissa > 1)
        return NUMBER_WRONG_TYPE;
    *bits = decimal->mantissa;
    return NUMBER_OK;
}

static enum number_result convert(const struct number_decimal *decimal, enum number_type type,
                                  uint64_t *bits) {
    switch (type) {
    case NUMBER_I64:
        return convert_i64(decimal, bits);
    case NUMBER_BOOL:
        return convert_bool(decimal, bits);
    default:
        return number_round(decimal, type, bits);
    }
}

/* What an element parsed to, and the byte after it or at its fault. */
struct element {
    const char *at;
    uint64_t bits;
    enum number_result result;
};

/*
 * A number of at most 8 digits before the point and 23 after it. Scanning one, even with a short
 * exponent, touches less than PLAIN_REACH bytes from its begin on and NUMBER_DIGITS_BEFORE ahead of
 * it, which spares a check of the end at every byte.
 */
enum { PLAIN_REACH = 64 };
struct plain {
    uint64_t mantissa; /* of all digits, modulo 2^64 */
    int fraction;      /* how many of them are after the point */
    bool negative, integer;
};

static inline bool is_well_inside(const struct number_walk *walk, const char *p) {
    return p - walk->text >= NUMBER_DIGITS_BEFORE && walk->end - p >= PLAIN_REACH;
}

/* Returns where the digits at p end, or NULL when they are not plain (which may be a fault). */
static inline const char *scan_mantissa(const char *p, struct plain *plain) {
    plain->negative = *p == '-';
    p += plain->negative;
    const char *const first = p;
    plain->mantissa = (unsigned char)(*p++ - '0');
    plain->fraction = 0;
    if (plain->mantissa > 9)
        return NULL;
    if (*p != '.') {
        const uint64_t digits = number_load8(p), marks = number_mark8(digits);
        if (marks == 0 || (plain->mantissa == 0 && (marks & 0x80) == 0))
            return NULL;
        p += number_append8(&plain->mantissa, digits, marks);
    }
    plain->integer = *p != '.';
    if (plain->integer)
        return p;
    const char *const fraction = p + 1;
    p = number_append_all(&plain->mantissa, fraction);
    /* One comparison: a fraction without digits is longer than any. */
    if (p == NULL ||
        (size_t)(p - fraction) - 1 >= (size_t)(first + NUMBER_MANTISSA_DIGITS + 1 - fraction))
        return NULL;
    plain->fraction = (int)(p - fraction);
    return p;
}

static inline const char *scan_plain(const char *p, struct plain *plain) {
    p = scan_mantissa(p, plain);
    return p != NULL && (*p == ',' || *p == ']' || *p == ' ' || *p == '\n') ? p : NULL;
}

/* A plain mantissa and an exponent of at most three digits; false for what needs the whole way. */
static bool parse_scientific(const char *p, enum number_type type, struct element *element) {
    struct plain plain;
    p = scan_mantissa(p, &plain);
    if (type > NUMBER_BF16 || p == NULL || (*p | 0x20) != 'e')
        return false;
    p++;
    const bool negative = *p == '-';
    p += negative || *p == '+';
    const char *const first = p;
    int exponent = 0;
    for (; p - first < 4 && number_is_digit((unsigned char)*p); p++)
        exponent = exponent * 10 + (*p - '0');
    if (p == first || p - first == 4)
        return false;
    const struct number_format *const format = &number_formats[type];
    exponent = (negative ? -exponent : exponent) - plain.fraction;
    if (!number_round_fast(format, plain.mantissa, exponent, &element->bits))
        return false;
    element->bits |= (uint64_t)plain.negative << format->sign_bit;
    element->at = p;
    return true;
}

/* Parses any element. */
static __attribute__((noinline)) struct element parse_element(const struct number_walk *walk,
                                                              const char *p) {
    const char *const end = walk->end;
    const enum number_type type = walk->type;
    struct element element = {p, 0, NUMBER_OK};
    if (!starts_number(number_peek(p, end))) {
        element.result = scan_other(&element.at, end, type, &element.bits);
        return element;
    }
    if (is_well_inside(walk, p) && parse_scientific(p, type, &element))
        return element;
    struct number_decimal decimal;
    const char *const after = number_scan(p, end, &decimal);
    element.result = decimal.valid ? convert(&decimal, type, &element.bits) : NUMBER_MALFORMED;
    if (element.result == NUMBER_OK || element.result == NUMBER_MALFORMED)
        element.at = after;
    return element;
}

/*
 * The nearest double where one correctly rounded operation gives it (W. D. Clinger, "How to read
 * floating point numbers accurately", PLDI 1990): mantissa and power of ten are both exact.
 */
static inline bool divide_exactly(const struct plain *plain, double *value) {
    static const double power[] = {
        1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8, 1e9,
        1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18}; /* of 19 digits one is before the
                                                                  point */
    *value = (double)(int64_t)plain->mantissa / power[plain->fraction];
    return plain->mantissa <= UINT64_C(1) << 53;
}

static inline bool round_to_f32(const struct plain *plain, uint64_t *bits) {
    double wide;
    if (!divide_exactly(plain, &wide))
        return false;
    memcpy(bits, &wide, sizeof wide);
    /* Rounding a second time goes wrong only from a point halfway between two floats. */
    if ((*bits & 0x1fffffff) == 0x10000000)
        return false;
    const float value = (float)wide;
    uint32_t narrow;
    memcpy(&narrow, &value, sizeof narrow);
    *bits = narrow;
    return true;
}

/* False for what parse_element() must see to. */
static inline __attribute__((always_inline)) bool
convert_plain(const struct plain *plain, const enum number_type type, uint64_t *bits) {
    if (type == NUMBER_I64) {
        *bits = plain->negative ? 0 - plain->mantissa : plain->mantissa;
        return plain->integer;
    }
    if (type == NUMBER_BOOL) {
        *bits = plain->mantissa;
        return plain->integer && !plain->negative && plain->mantissa <= 1;
    }
    const struct number_format *const format = &number_formats[type];
    if (!(type == NUMBER_F32 && round_to_f32(plain, bits)) &&
        !number_round_fast(format, plain->mantissa, -plain->fraction, bits))
        return false;
    *bits |= (uint64_t)plain->negative << format->sign_bit;
    return true;
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

/* The element there is no room for: too many, unless it has a fault of its own. */
static enum number_result judge_surplus(struct number_walk *walk) {
    const struct element element = parse_element(walk, walk->at);
    if (element.result == NUMBER_OK)
        return NUMBER_TOO_MANY;
    walk->at = element.at;
    return element.result;
}

/* Whether an element follows without white space, which is how programs write them. */
static inline bool is_compact(const char *after, const char *end) {
    return end - after > 1 && after[0] == ',' && (unsigned char)after[1] > ' ';
}

/* At most ROW_CHUNK elements from walk->at on; TOO_MANY when another follows those. */
static inline __attribute__((always_inline)) enum number_result
parse_row_as(struct number_walk *walk, const enum number_type type) {
    const char *const end = walk->end;
    const size_t left = walk->capacity - walk->stored;
    char *const first = walk->out + walk->stored * size_of(type);
    char *const last = first + (left < ROW_CHUNK ? left : ROW_CHUNK) * size_of(type);
    char *out = first;
    const char *p = walk->at;
    enum number_result result = NUMBER_TOO_MANY;
    while (out < last) {
        struct plain plain;
        uint64_t bits;
        const char *after = is_well_inside(walk, p) ? scan_plain(p, &plain) : NULL;
        if (after == NULL || !convert_plain(&plain, type, &bits)) {
            const struct element element = parse_element(walk, p);
            after = element.at;
            bits = element.bits;
            if (element.result != NUMBER_OK) {
                result = element.result;
                p = after;
                break;
            }
        }
        memcpy(out, &bits, size_of(type));
        out += size_of(type);
        if (is_compact(after, end)) {
            p = after + 1;
            continue;
        }
        p = number_skip_space(after, end);
        if (number_peek(p, end) != ',') {
            result = NUMBER_OK;
            break;
        }
        p = number_skip_space(p + 1, end);
    }
    const size_t n = (size_t)(out - first) / size_of(type);
    walk->at = p;
    walk->count[walk->depth - 1] += n;
    walk->stored += n;
    return result;
}

static enum number_result parse_chunk(struct number_walk *walk) {
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

enum number_result number_parse_row(struct number_walk *walk) {
    enum number_result result;
    do {
        if (walk->cancelled != NULL && atomic_load_explicit(walk->cancelled, memory_order_relaxed))
            return NUMBER_CANCELLED;
        result = parse_chunk(walk);
    } while (result == NUMBER_TOO_MANY && walk->stored < walk->capacity);
    return result == NUMBER_TOO_MANY ? judge_surplus(walk) : result;
}

enum number_result number_judge_misplaced(struct number_walk *walk) {
    const enum number_result result = judge_surplus(walk);
    return result == NUMBER_TOO_MANY ? NUMBER_RAGGED : result;
}
