/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The float types' conversions, in integer arithmetic so that neither the rounding mode nor
 * flushing of denormals can change a bit. The dense loops are written without branches for the
 * vectoriser: widening halves stands on the way of every request that sends them.
 * Formats: IEEE 754-2019, binary16/32/64; bfloat16 is the upper half of a binary32.
 */
#include "core/convert.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

struct format {
    int mantissa; /* stored bits */
    int bias;
};

static const struct format BINARY16 = {10, 15};
static const struct format BINARY32 = {23, 127};
static const struct format BINARY64 = {52, 1023};
static const struct format BFLOAT16 = {7, 127};

static inline float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline uint64_t bits_of_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/*
 * The exponent moves up by 112. Exponent 31 (infinity, NaN) has to become 255 and moves twice. A
 * denormal m/2^24 is had as (2^-14 + m/2^24) - 2^-14, exact and without a denormal float.
 */
static inline float half_to_float(uint16_t half) {
    const uint32_t move = UINT32_C(112) << 23;
    const uint32_t smallest_normal = UINT32_C(113) << 23;
    const uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13;
    const uint32_t normal = magnitude + move;
    const uint32_t special = normal + move;
    const uint32_t denormal =
        bits_of_float(float_of(magnitude + smallest_normal) - float_of(smallest_normal));
    /* Masks, because gcc turns a choice around a subtraction back into a branch. */
    const uint32_t is_denormal = 0 - (uint32_t)(magnitude < UINT32_C(1) << 23);
    const uint32_t is_special = 0 - (uint32_t)(magnitude >= UINT32_C(31) << 23);
    const uint32_t bits =
        (denormal & is_denormal) | (special & is_special) | (normal & ~(is_denormal | is_special));
    return float_of(bits | (uint32_t)(half & 0x8000) << 16);
}

static inline float bfloat_to_float(uint16_t bits) {
    return float_of((uint32_t)bits << 16);
}

/*
 * Rounds a magnitude (sign removed) to a narrower format, ties to even. Below the target's
 * smallest normal number the implicit bit becomes explicit and more bits are shifted out; the
 * formats are such that a denormal source always vanishes there.
 */
static inline uint16_t narrow(uint64_t magnitude, struct format from, struct format to) {
    const uint64_t one = UINT64_C(1) << from.mantissa;
    const uint64_t from_infinity = (uint64_t)(2 * from.bias + 1) << from.mantissa;
    const uint64_t to_infinity = (uint64_t)(2 * to.bias + 1) << to.mantissa;
    const int dropped = from.mantissa - to.mantissa;
    const int smallest_normal = from.bias - to.bias + 1;
    const int exponent = (int)(magnitude >> from.mantissa);
    if (magnitude > from_infinity) {
        const uint64_t payload = (magnitude & (one - 1)) >> dropped;
        return (uint16_t)(to_infinity | UINT64_C(1) << (to.mantissa - 1) | payload);
    }
    uint64_t kept = magnitude - ((uint64_t)(from.bias - to.bias) << from.mantissa);
    int shift = dropped;
    if (exponent < smallest_normal) {
        kept = (magnitude & (one - 1)) | one;
        shift += smallest_normal - exponent;
        if (shift > from.mantissa + 1)
            return 0;
    }
    const uint64_t half_up = (UINT64_C(1) << (shift - 1)) - 1;
    const uint64_t rounded = (kept + half_up + (kept >> shift & 1)) >> shift;
    return (uint16_t)(rounded < to_infinity ? rounded : to_infinity);
}

static inline uint16_t half_from_float(float value) {
    const uint32_t bits = bits_of_float(value);
    return (uint16_t)(narrow(bits & INT32_MAX, BINARY32, BINARY16) | (bits >> 16 & 0x8000));
}

static inline uint16_t half_from_double(double value) {
    const uint64_t bits = bits_of_double(value);
    return (uint16_t)(narrow(bits & INT64_MAX, BINARY64, BINARY16) | (bits >> 48 & 0x8000));
}

/* Both have the exponents of binary32, so rounding is one addition, denormals included. */
static inline uint16_t bfloat_from_float(float value) {
    const uint32_t bits = bits_of_float(value);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const uint32_t quiet_nan = bits >> 16 | 0x40;
    const bool is_nan = (bits & INT32_MAX) > UINT32_C(0x7f800000);
    return (uint16_t)(is_nan ? quiet_nan : rounded);
}

static inline uint16_t bfloat_from_double(double value) {
    const uint64_t bits = bits_of_double(value);
    return (uint16_t)(narrow(bits & INT64_MAX, BINARY64, BFLOAT16) | (bits >> 48 & 0x8000));
}

double attn_overflow_threshold(enum attn_dtype dtype) {
    switch (dtype) {
    case ATTN_FLOAT16:
        return 65520.0;
    case ATTN_BFLOAT16:
        return 0x1.ffp127;
    case ATTN_FLOAT32:
        return 0x1.ffffffp127;
    default:
        return INFINITY;
    }
}

float attn_half_to_float(uint16_t bits) {
    return half_to_float(bits);
}

uint16_t attn_half_from_float(float value) {
    return half_from_float(value);
}

uint16_t attn_half_from_double(double value) {
    return half_from_double(value);
}

float attn_bfloat_to_float(uint16_t bits) {
    return bfloat_to_float(bits);
}

uint16_t attn_bfloat_from_float(float value) {
    return bfloat_from_float(value);
}

uint16_t attn_bfloat_from_double(double value) {
    return bfloat_from_double(value);
}

/*
 * One pair of loops per pair of types: TO dense or FROM dense at stride 1, which vectorises, and
 * the same with strides on either side.
 */
#define RUN(name, from_type, to_type, expression)                                            \
    static void name(const void *from, ptrdiff_t from_stride, void *to, ptrdiff_t to_stride, \
                     size_t n) {                                                             \
        const from_type *restrict source = from;                                             \
        to_type *restrict target = to;                                                       \
        if (from_stride == 1 && to_stride == 1) {                                            \
            for (size_t i = 0; i < n; i++) {                                                 \
                const from_type x = source[i];                                               \
                target[i] = (expression);                                                    \
            }                                                                                \
            return;                                                                          \
        }                                                                                    \
        for (ptrdiff_t i = 0; i < (ptrdiff_t)n; i++) {                                       \
            const from_type x = source[i * from_stride];                                     \
            target[i * to_stride] = (expression);                                            \
        }                                                                                    \
    }

RUN(float_float, float, float, x)
RUN(double_float, double, float, (float)x)
RUN(half_float, uint16_t, float, half_to_float(x))
RUN(bfloat_float, uint16_t, float, bfloat_to_float(x))
RUN(float_double, float, double, (double)x)
RUN(double_double, double, double, x)
RUN(half_double, uint16_t, double, (double)half_to_float(x))
RUN(bfloat_double, uint16_t, double, (double)bfloat_to_float(x))
RUN(float_half, float, uint16_t, half_from_float(x))
RUN(float_bfloat, float, uint16_t, bfloat_from_float(x))
RUN(double_half, double, uint16_t, half_from_double(x))
RUN(double_bfloat, double, uint16_t, bfloat_from_double(x))

typedef void run_function(const void *from, ptrdiff_t from_stride, void *to, ptrdiff_t to_stride,
                          size_t n);

struct conversions {
    run_function *load_float, *load_double, *store_float, *store_double;
};

static const struct conversions CONVERSIONS[ATTN_DTYPE_COUNT] = {
    [ATTN_FLOAT32] = {float_float, float_double, float_float, double_float},
    [ATTN_FLOAT64] = {double_float, double_double, float_double, double_double},
    [ATTN_FLOAT16] = {half_float, half_double, float_half, double_half},
    [ATTN_BFLOAT16] = {bfloat_float, bfloat_double, float_bfloat, double_bfloat},
};

void attn_load_float(enum attn_dtype dtype, const void *src, ptrdiff_t stride, size_t n,
                     float *dst) {
    assert(attn_dtype_class(dtype) == ATTN_CLASS_FLOAT);
    CONVERSIONS[dtype].load_float(src, stride, dst, 1, n);
}

void attn_load_double(enum attn_dtype dtype, const void *src, ptrdiff_t stride, size_t n,
                      double *dst) {
    assert(attn_dtype_class(dtype) == ATTN_CLASS_FLOAT);
    CONVERSIONS[dtype].load_double(src, stride, dst, 1, n);
}

void attn_store_float(enum attn_dtype dtype, void *dst, ptrdiff_t stride, size_t n,
                      const float *src) {
    assert(attn_dtype_class(dtype) == ATTN_CLASS_FLOAT);
    CONVERSIONS[dtype].store_float(src, 1, dst, stride, n);
}

void attn_store_double(enum attn_dtype dtype, void *dst, ptrdiff_t stride, size_t n,
                       const double *src) {
    assert(attn_dtype_class(dtype) == ATTN_CLASS_FLOAT);
    CONVERSIONS[dtype].store_double(src, 1, dst, stride, n);
}

void attn_fill(enum attn_dtype dtype, void *dst, size_t n, double value) {
    assert(attn_dtype_class(dtype) == ATTN_CLASS_FLOAT);
    CONVERSIONS[dtype].store_double(&value, 0, dst, 1, n);
}
