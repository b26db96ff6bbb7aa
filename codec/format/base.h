/* Byte order, little-endian words, checked arithmetic. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The CUDA compiler reads codec/format, codec/model and the code below them,
 * too; a device may run the functions that bear this mark. */
#ifdef __CUDACC__
#define TERP_HOST_DEVICE __host__ __device__
#else
#define TERP_HOST_DEVICE
#endif

/* C++ gives the declarations between these two the linkage of C. */
#ifdef __cplusplus
#define _Static_assert static_assert
#define TERP_C_BEGIN extern "C" {
#define TERP_C_END }
#else
#define TERP_C_BEGIN
#define TERP_C_END
#endif

/* Every file of the engines includes this header. Fast-math options break
 * bounds, and make a build write other streams than other builds. */
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || \
    defined(__RECIPROCAL_MATH__) || (__FINITE_MATH_ONLY__ + 0)
#error "terp needs the arithmetic of IEEE 754: no -ffast-math or parts of it"
#endif

/* Streams are little-endian on any host. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define TERP_HOST_IS_BIG_ENDIAN 0
#elif __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define TERP_HOST_IS_BIG_ENDIAN 1
#else
#error "terp knows little-endian and big-endian hosts"
#endif

/* Loads a little-endian word of `nbytes` (at most 8). */
static inline TERP_HOST_DEVICE uint64_t
load_le(const uint8_t *src, int nbytes)
{
    uint64_t word = 0;
    for (int i = 0; i < nbytes; i++)
        word |= (uint64_t)src[i] << (8 * i);
    return word;
}

static inline TERP_HOST_DEVICE void
store_le(uint8_t *dst, uint64_t word, int nbytes)
{
    for (int i = 0; i < nbytes; i++)
        dst[i] = (uint8_t)(word >> (8 * i));
}

/* Loads a little-endian word of eight bytes. */
static inline uint64_t
load_le64(const void *src)
{
    uint64_t word;
    memcpy(&word, src, sizeof word);
    return TERP_HOST_IS_BIG_ENDIAN ? __builtin_bswap64(word) : word;
}

/* Loads the bits of a value of 1, 2, 4 or 8 bytes in the host's byte order. */
static inline __attribute__((always_inline)) uint64_t
load_value(const void *src, int nbytes)
{
    uint8_t word8;
    uint16_t word16;
    uint32_t word32;
    uint64_t word64;

    switch (nbytes) {
    case 1:
        memcpy(&word8, src, 1);
        return word8;
    case 2:
        memcpy(&word16, src, 2);
        return word16;
    case 4:
        memcpy(&word32, src, 4);
        return word32;
    default:
        memcpy(&word64, src, 8);
        return word64;
    }
}

static inline __attribute__((always_inline)) void
store_value(void *dst, uint64_t bits, int nbytes)
{
    const uint8_t word8 = (uint8_t)bits;
    const uint16_t word16 = (uint16_t)bits;
    const uint32_t word32 = (uint32_t)bits;

    switch (nbytes) {
    case 1:
        memcpy(dst, &word8, 1);
        break;
    case 2:
        memcpy(dst, &word16, 2);
        break;
    case 4:
        memcpy(dst, &word32, 4);
        break;
    default:
        memcpy(dst, &bits, 8);
    }
}

/* Reverses the byte order of values of 2, 4 or 8 bytes. memcpy allows any type
 * and any alignment. */
static inline void
terp_swap_values(void *values, uint64_t nvalues, int value_nbytes)
{
    uint8_t *bytes = (uint8_t *)values;
    uint16_t word16;
    uint32_t word32;
    uint64_t word64;

    for (uint64_t i = 0; value_nbytes == 2 && i < nvalues; i++) {
        memcpy(&word16, bytes + 2 * i, 2);
        word16 = __builtin_bswap16(word16);
        memcpy(bytes + 2 * i, &word16, 2);
    }
    for (uint64_t i = 0; value_nbytes == 4 && i < nvalues; i++) {
        memcpy(&word32, bytes + 4 * i, 4);
        word32 = __builtin_bswap32(word32);
        memcpy(bytes + 4 * i, &word32, 4);
    }
    for (uint64_t i = 0; value_nbytes == 8 && i < nvalues; i++) {
        memcpy(&word64, bytes + 8 * i, 8);
        word64 = __builtin_bswap64(word64);
        memcpy(bytes + 8 * i, &word64, 8);
    }
}

/* Maps integers to unsigned numbers: 0, -1, 1, -2 ... become 0, 1, 2, 3 ... */
static inline TERP_HOST_DEVICE uint64_t
zigzag(int64_t value)
{
    return (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0);
}

static inline TERP_HOST_DEVICE int64_t
unzigzag(uint64_t number)
{
    return (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
}

static inline TERP_HOST_DEVICE uint64_t
double_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline TERP_HOST_DEVICE double
double_of_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Whether a value is finite and positive. The test looks at bits, because the
 * caller's floating-point environment may treat subnormal numbers as zero. */
static inline TERP_HOST_DEVICE bool
is_bound(double value)
{
    return double_bits(value) - 1 < UINT64_C(0x7FEFFFFFFFFFFFFF);
}

/* Whether a bound is 0, which means lossless. */
static inline TERP_HOST_DEVICE bool
is_zero_bound(double value)
{
    return double_bits(value) << 1 == 0;
}

/* Multiplies. Returns false and leaves *product_ret unchanged when the product
 * exceeds 63 bits. */
static inline TERP_HOST_DEVICE bool
mul_fits(uint64_t a, uint64_t b, uint64_t *product_ret)
{
    if (a != 0 && b > (uint64_t)INT64_MAX / a)
        return false;
    *product_ret = a * b;
    return true;
}

static inline TERP_HOST_DEVICE uint64_t
div_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static inline TERP_HOST_DEVICE uint64_t
min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
