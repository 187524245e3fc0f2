/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers to text: writes the shortest decimals (number_shortest.h) as JSON numbers, three digits
 * at a time. Refuses nothing: every bit pattern has a text.
 */
#include "core/checked.h"
#include "server/numbers/number_format.h"
#include "server/numbers/number_shortest.h"
#include "server/numbers/number_tens.h"
#include "server/numbers/numbers.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are loaded low byte first");

/* Three digits as text, and how many zeros end them. */
struct triple {
    char text[3];
    uint8_t zeros;
};

#define TRIPLE(a, b, c) \
    { {'0' + a, '0' + b, '0' + c}, c != 0 ? 0 : b != 0 ? 1 : a != 0 ? 2 : 3 }
#define TEN(a, b)                                                                        \
    TRIPLE(a, b, 0), TRIPLE(a, b, 1), TRIPLE(a, b, 2), TRIPLE(a, b, 3), TRIPLE(a, b, 4), \
        TRIPLE(a, b, 5), TRIPLE(a, b, 6), TRIPLE(a, b, 7), TRIPLE(a, b, 8), TRIPLE(a, b, 9)
#define HUNDRED(a)                                                                          \
    TEN(a, 0), TEN(a, 1), TEN(a, 2), TEN(a, 3), TEN(a, 4), TEN(a, 5), TEN(a, 6), TEN(a, 7), \
        TEN(a, 8), TEN(a, 9)

static const struct triple triples[1000] = {HUNDRED(0), HUNDRED(1), HUNDRED(2), HUNDRED(3),
                                            HUNDRED(4), HUNDRED(5), HUNDRED(6), HUNDRED(7),
                                            HUNDRED(8), HUNDRED(9)};

/* Of value > 0. 1233 / 4096 is log10(2). */
static int count_digits(uint64_t value) {
    const int guess = (64 - __builtin_clzll(value)) * 1233 >> 12;
    return guess + (value >= number_tens[guess]);
}

/* Stores ten bytes, of which the first nine are the digits. Returns how many zeros end those. */
static inline unsigned store_nine(uint32_t nine, char *out) {
    const uint32_t high = nine / 1000000;
    const uint32_t rest = nine % 1000000;
    const uint32_t middle = rest / 1000;
    const uint32_t low = rest % 1000;
    memcpy(out, &triples[high], sizeof triples[0]);
    memcpy(out + 3, &triples[middle], sizeof triples[0]);
    memcpy(out + 6, &triples[low], sizeof triples[0]);
    if (low != 0)
        return triples[low].zeros;
    return 3u + triples[middle].zeros + (middle == 0 ? triples[high].zeros : 0u);
}

/* d.ddd * 10^exponent with 9 digits, or 18 where `wide`; the first is not zero. */
struct decimal {
    uint64_t digits;
    int64_t exponent;
};

static inline __attribute__((always_inline)) struct decimal fill(struct number_shortest shortest,
                                                                 bool wide) {
    const int room = wide ? 18 : 9;
    const uint64_t digits = shortest.digits;
    unsigned missing;
    if (wide && digits >= number_tens[15]) /* a normal float64 has 16 or 17 digits … */
        missing = 1u + (digits < number_tens[16]);
    else if (!wide && digits >= number_tens[6]) /* … and a normal float32 has 7 to 9 */
        missing = 0u + (digits < number_tens[7]) + (digits < number_tens[8]);
    else
        missing = (unsigned)(room - count_digits(digits));
    return (struct decimal){digits * number_tens[missing], shortest.exponent + room - 1 - missing};
}

/* Stores 9 or 18 digits and a byte after them. Returns how many zeros end those. */
static inline __attribute__((always_inline)) unsigned store_digits(uint64_t digits, bool wide,
                                                                   char *out) {
    if (!wide)
        return store_nine((uint32_t)digits, out);
    const unsigned first = store_nine((uint32_t)(digits / number_tens[9]), out);
    const unsigned second = store_nine((uint32_t)(digits % number_tens[9]), out + 9);
    return second == 9 ? 9 + first : second;
}

/* d.ddd (exponent 0) or 0.00ddd (-1 to -5), with no branch between the two: none could guess. */
static inline __attribute__((always_inline)) size_t write_fraction(struct decimal decimal,
                                                                   bool wide, char *out) {
    const size_t shift = (size_t)-decimal.exponent;
    memcpy(out, "0.000000", 8);
    const size_t zeros = store_digits(decimal.digits, wide, out + shift + 1);
    out[0] = shift == 0 ? out[shift + 1] : '0';
    out[1] = '.';
    const size_t length = shift + (wide ? 19 : 10) - zeros;
    return length - (length == 2); /* one digit alone needs no point */
}

/* ddd000 or dd.ddd */
static size_t write_large(struct decimal decimal, bool wide, char *out) {
    const size_t whole = (size_t)decimal.exponent + 1;
    const size_t count = (wide ? 18 : 9) - store_digits(decimal.digits, wide, out);
    if (count <= whole) {
        memset(out + count, '0', whole - count);
        return whole;
    }
    memmove(out + whole + 1, out + whole, count - whole);
    out[whole] = '.';
    return count + 1;
}

/* d.ddde-ddd */
static size_t write_scientific(struct decimal decimal, bool wide, char *out) {
    const bool negative = decimal.exponent < 0;
    const int exponent = (int)(negative ? -decimal.exponent : decimal.exponent);
    size_t length = write_fraction((struct decimal){decimal.digits, 0}, wide, out);
    out[length++] = 'e';
    if (negative)
        out[length++] = '-';
    if (exponent >= 100)
        out[length++] = (char)('0' + exponent / 100);
    if (exponent >= 10)
        out[length++] = (char)('0' + exponent / 10 % 10);
    out[length++] = (char)('0' + exponent % 10);
    return length;
}

static __attribute__((noinline)) size_t write_rare(struct decimal decimal, bool wide, char *out) {
    if (decimal.exponent > 0 && decimal.exponent < 17)
        return write_large(decimal, wide, out);
    return write_scientific(decimal, wide, out);
}

static inline __attribute__((always_inline)) size_t write_decimal(struct decimal decimal, bool wide,
                                                                  char *out) {
    if (decimal.exponent <= 0 && decimal.exponent >= -5)
        return write_fraction(decimal, wide, out);
    return write_rare(decimal, wide, out);
}

static size_t write_text(const char *text, char *out) {
    const size_t length = strlen(text);
    memcpy(out, text, length);
    return length;
}

/* Zero and what is not finite. */
static __attribute__((noinline)) size_t write_exception(uint64_t magnitude, bool negative,
                                                        uint64_t infinity, char *out) {
    if (magnitude == 0)
        return write_text(negative ? "-0.0" : "0", out);
    if (magnitude > infinity)
        return write_text("\"NaN\"", out);
    return write_text(negative ? "\"-Infinity\"" : "\"Infinity\"", out);
}

static size_t print_i64(uint64_t bits, char *out) {
    const bool negative = bits >> 63 != 0;
    const uint64_t magnitude = negative ? 0 - bits : bits;
    const int digits = magnitude == 0 ? 1 : count_digits(magnitude);
    char text[28];
    store_nine((uint32_t)(magnitude / number_tens[18]), text);
    store_nine((uint32_t)(magnitude / number_tens[9] % number_tens[9]), text + 9);
    store_nine((uint32_t)(magnitude % number_tens[9]), text + 18);
    out[0] = '-';
    memcpy(out + negative, text + 27 - digits, (size_t)digits);
    return (size_t)(negative + digits);
}

/* Size of an element in memory and of its longest text. */
static const struct {
    size_t size, text;
} sizes[] = {
    [NUMBER_F32] = {4, 18},  /* -10000000000000000 */
    [NUMBER_F64] = {8, 24},  /* -1.2345678901234567e-308 */
    [NUMBER_F16] = {2, 11},  /* "-Infinity" */
    [NUMBER_BF16] = {2, 18}, /* -10000000000000000 */
    [NUMBER_I64] = {8, 20},  /* -9223372036854775808 */
    [NUMBER_BOOL] = {1, 5},  /* false */
};

static inline __attribute__((always_inline)) uint64_t load(const char *values, size_t n,
                                                           enum number_type type) {
    uint64_t bits = 0;
    memcpy(&bits, values + n * sizes[type].size, sizes[type].size);
    return bits;
}

/* No digits: an exception. */
static inline __attribute__((always_inline)) struct number_shortest
shorten_bits(uint64_t bits, enum number_type type) {
    const struct number_format *format = &number_formats[type];
    const uint64_t magnitude = bits & ((UINT64_C(1) << format->sign_bit) - 1);
    if (magnitude - 1 >= format->infinity - 1)
        return (struct number_shortest){0, 0};
    const struct number_parts parts = number_take_apart(format, magnitude);
    const bool power_of_two = (magnitude & ((UINT64_C(1) << format->fraction_bits) - 1)) == 0;
    const bool closer = power_of_two && magnitude >> format->fraction_bits > 1;
    return number_shorten(parts.significand, parts.exponent, closer, type == NUMBER_F64);
}

static inline __attribute__((always_inline)) size_t
write_float(struct number_shortest shortest, uint64_t bits, enum number_type type, char *out) {
    const struct number_format *format = &number_formats[type];
    const size_t negative = (size_t)(bits >> format->sign_bit);
    if (shortest.digits == 0)
        return write_exception(bits & ~(UINT64_C(1) << format->sign_bit), negative != 0,
                               format->infinity, out);
    const bool wide = type == NUMBER_F64;
    out[0] = '-';
    return negative + write_decimal(fill(shortest, wide), wide, out + negative);
}

/*
 * Two passes over small blocks: the steps for one number depend on each other, and a processor
 * sees more independent ones at once when a pass is short.
 */
static inline __attribute__((always_inline)) size_t
print_floats(enum number_type type, const char *values, size_t count, char *out) {
    enum { BLOCK = 32 };
    struct number_shortest shortest[BLOCK];
    size_t length = 0;
    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t block = attn_min_size(BLOCK, count - first);
        for (size_t n = 0; n < block; n++)
            shortest[n] = shorten_bits(load(values, first + n, type), type);
        for (size_t n = 0; n < block; n++) {
            length += write_float(shortest[n], load(values, first + n, type), type, out + length);
            out[length++] = ',';
        }
    }
    return length;
}

static size_t print_i64s(const char *values, size_t count, char *out) {
    size_t length = 0;
    for (size_t n = 0; n < count; n++) {
        length += print_i64(load(values, n, NUMBER_I64), out + length);
        out[length++] = ',';
    }
    return length;
}

static size_t print_booleans(const char *values, size_t count, char *out) {
    size_t length = 0;
    for (size_t n = 0; n < count; n++)
        length += write_text(values[n] != 0 ? "true," : "false,", out + length);
    return length;
}

/* Each text is followed by a comma. */
static size_t print_all(enum number_type type, const char *values, size_t count, char *out) {
    switch (type) {
    case NUMBER_F32:
        return print_floats(NUMBER_F32, values, count, out);
    case NUMBER_F64:
        return print_floats(NUMBER_F64, values, count, out);
    case NUMBER_F16:
        return print_floats(NUMBER_F16, values, count, out);
    case NUMBER_BF16:
        return print_floats(NUMBER_BF16, values, count, out);
    case NUMBER_I64:
        return print_i64s(values, count, out);
    default:
        return print_booleans(values, count, out);
    }
}

size_t number_print_array(enum number_type type, const void *values, size_t count, char *out) {
    return count == 0 ? 0 : print_all(type, values, count, out) - 1;
}

bool number_array_text_room(enum number_type type, size_t count, size_t *room) {
    size_t text;
    return attn_mul_size(count, sizes[type].text + 1, &text) &&
           attn_add_size(text, NUMBER_TEXT_ROOM, room);
}

size_t number_print_f32(float value, char *out) {
    return number_print_array(NUMBER_F32, &value, 1, out);
}

size_t number_print_f64(double value, char *out) {
    return number_print_array(NUMBER_F64, &value, 1, out);
}

size_t number_print_f16(uint16_t bits, char *out) {
    return number_print_array(NUMBER_F16, &bits, 1, out);
}

size_t number_print_bf16(uint16_t bits, char *out) {
    return number_print_array(NUMBER_BF16, &bits, 1, out);
}
