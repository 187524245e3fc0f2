/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binary to the shortest decimal that reads back to the same bits, by the method of R. Giulietti,
 * "The Schubfach way to render doubles" (2020): of the decimals of the coarsest power-of-ten grid
 * that has one inside the value's rounding interval, the one nearest the value. One routine serves
 * every format, since it only sees significand, exponent and interval. Refuses nothing.
 */
#include "core/checked.h"
#include "server/number_format.h"
#include "server/number_powers.h"
#include "server/numbers.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "digits are stored low byte first");

/* digits * 10^exponent, at most 17 digits. */
struct shortest {
    uint64_t digits;
    int exponent;
};

/*
 * power * factor / 2^128 "rounded to odd": rounded down, and the last bit set when the product is
 * not whole. One in the second word is the error of a power rounded up, not a remainder.
 */
static uint64_t multiply_to_odd(struct number_power power, uint64_t factor) {
    const number_uint128 low = (number_uint128)power.low * factor;
    const number_uint128 high = (number_uint128)power.high * factor + (uint64_t)(low >> 64);
    return (uint64_t)(high >> 64) | ((uint64_t)high > 1);
}

static struct number_power power_rounded_up(int q) {
    struct number_power power = number_powers[q - NUMBER_POWER_FIRST];
    power.low += !number_power_is_exact(q);
    power.high += power.low == 0 && !number_power_is_exact(q);
    return power;
}

/*
 * Of the value c * 2^q, c > 0, whose lower neighbour is at half the distance of the upper one when
 * `closer`. An even c owns the ends of its rounding interval, for ties read back to even.
 */
static struct shortest shorten(uint64_t c, int q, bool closer) {
    /* floor(log10(2^q)), or of 3/4 * 2^q, the interval's width when the lower half is narrower. */
    const int k = (q * 1262611 - (closer ? 524031 : 0)) >> 22;
    const int shift = q + number_power_exponent(-k) + 1;
    const struct number_power power = power_rounded_up(-k);
    /* Four times the value and the interval's ends, in units of 10^k. */
    const uint64_t value = multiply_to_odd(power, 4 * c << shift);
    const uint64_t low = multiply_to_odd(power, (4 * c - 2 + closer) << shift) + (c & 1);
    const uint64_t high = multiply_to_odd(power, (4 * c + 2) << shift) - (c & 1);
    const uint64_t unit = value / 4;
    if (unit >= 10) {
        const uint64_t ten = unit / 10;
        const bool down = low <= 40 * ten;
        const bool up = 40 * ten + 40 <= high;
        if (down != up)
            return (struct shortest){ten + up, k + 1};
    }
    const bool down = low <= 4 * unit;
    const bool up = 4 * unit + 4 <= high;
    if (down != up)
        return (struct shortest){unit + up, k};
    const uint64_t middle = 4 * unit + 2;
    return (struct shortest){unit + (value > middle || (value == middle && (unit & 1) != 0)), k};
}

/* The low 8 decimal digits of value < 10^8, the first in the lowest byte, without '0' added. */
static uint64_t split_digits(uint32_t value) {
    const uint64_t fours = value / 10000 | (uint64_t)(value % 10000) << 32;
    const uint64_t hundreds = (fours * 10486 >> 20) & UINT64_C(0x0000007f0000007f);
    const uint64_t pairs = hundreds | (fours - 100 * hundreds) << 16;
    const uint64_t tens = (pairs * 103 >> 10) & UINT64_C(0x000f000f000f000f);
    return tens | (pairs - 10 * tens) << 8;
}

static void store_word(char *out, uint64_t word) {
    memcpy(out, &word, sizeof word);
}

static const uint64_t powers[] = {UINT64_C(1),
                                  UINT64_C(10),
                                  UINT64_C(100),
                                  UINT64_C(1000),
                                  UINT64_C(10000),
                                  UINT64_C(100000),
                                  UINT64_C(1000000),
                                  UINT64_C(10000000),
                                  UINT64_C(100000000),
                                  UINT64_C(1000000000),
                                  UINT64_C(10000000000),
                                  UINT64_C(100000000000),
                                  UINT64_C(1000000000000),
                                  UINT64_C(10000000000000),
                                  UINT64_C(100000000000000),
                                  UINT64_C(1000000000000000),
                                  UINT64_C(10000000000000000),
                                  UINT64_C(100000000000000000),
                                  UINT64_C(1000000000000000000),
                                  UINT64_C(10000000000000000000)};

/* Of value > 0. 1233 / 4096 is log10(2). */
static int count_digits(uint64_t value) {
    const int guess = (64 - __builtin_clzll(value)) * 1233 >> 12;
    return guess + (value >= powers[guess]);
}

/* Seventeen digits, the first one apart and then two words of eight; zeros fill the end. */
struct layout {
    uint64_t words[2]; /* as text */
    char first;
    int count;    /* of digits up to the last that is not zero */
    int exponent; /* of the first digit */
};

/* The digits of a word up to the last one that is not zero. */
static int significant(uint64_t digits) {
    return 8 - (digits == 0 ? 8 : __builtin_clzll(digits) >> 3);
}

static struct layout lay_out(struct shortest shortest) {
    const uint64_t zeros = UINT64_C(0x3030303030303030);
    const int digits = count_digits(shortest.digits);
    struct layout layout = {{zeros, zeros}, '0', 1, shortest.exponent + digits - 1};
    if (digits <= 9) {
        const uint32_t nine = (uint32_t)(shortest.digits * powers[9 - digits]);
        const uint64_t word = split_digits(nine % 100000000);
        layout.first = (char)('0' + nine / 100000000);
        layout.words[0] = zeros + word;
        layout.count = 1 + significant(word);
        return layout;
    }
    const uint64_t all = shortest.digits * powers[17 - digits];
    const uint64_t head = all / 100000000;
    const uint64_t second = split_digits((uint32_t)(all % 100000000));
    const uint64_t word = split_digits((uint32_t)(head % 100000000));
    layout.first = (char)('0' + head / 100000000);
    layout.words[0] = zeros + word;
    layout.words[1] = zeros + second;
    layout.count = second != 0 ? 9 + significant(second) : 1 + significant(word);
    return layout;
}

static void store_digits(char *out, const struct layout *layout) {
    out[0] = layout->first;
    store_word(out + 1, layout->words[0]);
    store_word(out + 9, layout->words[1]);
}

/* d.ddd, or d alone. */
static size_t write_units(const struct layout *layout, char *out) {
    out[0] = layout->first;
    out[1] = '.';
    store_word(out + 2, layout->words[0]);
    store_word(out + 10, layout->words[1]);
    return (size_t)layout->count + (layout->count > 1);
}

/* 0.000ddd */
static size_t write_fraction(const struct layout *layout, char *out) {
    memcpy(out, "0.000000", 8);
    store_digits(out + 1 - layout->exponent, layout);
    return (size_t)(1 - layout->exponent + layout->count);
}

/* ddd000 or dd.ddd */
static size_t write_large(const struct layout *layout, char *out) {
    const int whole = layout->exponent + 1;
    store_digits(out, layout);
    if (layout->count <= whole)
        return (size_t)whole;
    memmove(out + whole + 1, out + whole, (size_t)(layout->count - whole));
    out[whole] = '.';
    return (size_t)layout->count + 1;
}

/* d.ddde-ddd */
static size_t write_scientific(const struct layout *layout, char *out) {
    size_t length = write_units(layout, out);
    out[length++] = 'e';
    if (layout->exponent < 0)
        out[length++] = '-';
    const unsigned exponent =
        (unsigned)(layout->exponent < 0 ? -layout->exponent : layout->exponent);
    if (exponent >= 100)
        out[length++] = (char)('0' + exponent / 100);
    if (exponent >= 10)
        out[length++] = (char)('0' + exponent / 10 % 10);
    out[length++] = (char)('0' + exponent % 10);
    return length;
}

static size_t write_decimal(const struct layout *layout, char *out) {
    if (layout->exponent < -5 || layout->exponent >= 17)
        return write_scientific(layout, out);
    if (layout->exponent < 0)
        return write_fraction(layout, out);
    return layout->exponent == 0 ? write_units(layout, out) : write_large(layout, out);
}

static size_t write_special(const char *text, char *out) {
    const size_t length = strlen(text);
    memcpy(out, text, length);
    return length;
}

static inline __attribute__((always_inline)) size_t print_float(uint64_t bits,
                                                                enum number_type type, char *out) {
    const struct number_format *format = &number_formats[type];
    const uint64_t magnitude = bits & ((UINT64_C(1) << format->sign_bit) - 1);
    const bool negative = magnitude != bits;
    if (magnitude == 0)
        return write_special(negative ? "-0.0" : "0", out);
    if (magnitude > format->infinity)
        return write_special("\"NaN\"", out);
    if (magnitude == format->infinity)
        return write_special(negative ? "\"-Infinity\"" : "\"Infinity\"", out);
    const struct number_parts parts = number_take_apart(format, magnitude);
    const bool power_of_two = (magnitude & ((UINT64_C(1) << format->fraction_bits) - 1)) == 0;
    const bool closer = power_of_two && magnitude >> format->fraction_bits > 1;
    const struct layout layout = lay_out(shorten(parts.significand, parts.exponent, closer));
    out[0] = '-';
    return negative + write_decimal(&layout, out + negative);
}

static size_t print_i64(uint64_t bits, char *out) {
    const bool negative = bits >> 63 != 0;
    const uint64_t magnitude = negative ? 0 - bits : bits;
    const uint64_t zeros = UINT64_C(0x3030303030303030);
    char text[24];
    store_word(text, zeros + split_digits((uint32_t)(magnitude / powers[16])));
    store_word(text + 8, zeros + split_digits((uint32_t)(magnitude / powers[8] % powers[8])));
    store_word(text + 16, zeros + split_digits((uint32_t)(magnitude % powers[8])));
    const size_t digits = magnitude == 0 ? 1 : (size_t)count_digits(magnitude);
    out[0] = '-';
    memcpy(out + negative, text + sizeof text - digits, digits);
    return negative + digits;
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

static inline __attribute__((always_inline)) size_t print(uint64_t bits, enum number_type type,
                                                          char *out) {
    switch (type) {
    case NUMBER_I64:
        return print_i64(bits, out);
    case NUMBER_BOOL:
        return write_special(bits != 0 ? "true" : "false", out);
    default:
        return print_float(bits, type, out);
    }
}

static inline __attribute__((always_inline)) size_t
print_as(enum number_type type, const char *values, size_t count, char *out) {
    size_t length = 0;
    for (size_t n = 0; n < count; n++) {
        if (n > 0)
            out[length++] = ',';
        length += print(load(values, n, type), type, out + length);
    }
    return length;
}

size_t number_print_array(enum number_type type, const void *values, size_t count, char *out) {
    switch (type) {
    case NUMBER_F32:
        return print_as(NUMBER_F32, values, count, out);
    case NUMBER_F64:
        return print_as(NUMBER_F64, values, count, out);
    case NUMBER_F16:
        return print_as(NUMBER_F16, values, count, out);
    case NUMBER_BF16:
        return print_as(NUMBER_BF16, values, count, out);
    case NUMBER_I64:
        return print_as(NUMBER_I64, values, count, out);
    default:
        return print_as(NUMBER_BOOL, values, count, out);
    }
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
