/* Cases of exhaustive and cuda_exhaustive: bounds of every mode, all float32
 * patterns in two orders, and float64 values of every exponent. Also the check
 * of a value against its bound in exact arithmetic. */
#pragma once

#include <assert.h>

#include "h5tests/support/values.h"

/* All chunks of float32 together hold every pattern once. */
#define CHUNK_NVALUES (UINT64_C(1) << 20)
#define NCHUNKS (UINT64_C(1) << 12)
static_assert(CHUNK_NVALUES * NCHUNKS == UINT64_C(1) << 32,
              "each pattern once");

/* Chunks of float64 hold so many values of each of the 2048 exponents. */
#define MANTISSAS_PER_CHUNK 128
#define WIDE_NVALUES (UINT64_C(2048) * MANTISSAS_PER_CHUNK)

static const struct exhaustive_case {
    const char *mode;
    enum terp_bound_mode bound_mode;
    double bound, floor;
} exhaustive_cases[] = {
    {"absolute", TERP_BOUND_ABSOLUTE, 1e-30, 0},
    {"absolute", TERP_BOUND_ABSOLUTE, 1e-3, 0},
    {"absolute", TERP_BOUND_ABSOLUTE, 1, 0},
    {"absolute", TERP_BOUND_ABSOLUTE, 1e10, 0},
    {"absolute", TERP_BOUND_ABSOLUTE, 1e37, 0},
    {"relative", TERP_BOUND_RELATIVE, 1e-1, 0},
    {"relative", TERP_BOUND_RELATIVE, 1e-3, 0},
    {"relative", TERP_BOUND_RELATIVE, 1e-5, 0},
    {"relative", TERP_BOUND_RELATIVE, 1e-7, 0},
    {"relative", TERP_BOUND_RELATIVE, 1e-12, 0},
    {"pointwise", TERP_BOUND_POINTWISE, 0.5, 0},
    {"pointwise", TERP_BOUND_POINTWISE, 1e-2, 0},
    {"pointwise", TERP_BOUND_POINTWISE, 1e-3, 0},
    {"pointwise", TERP_BOUND_POINTWISE, 1e-5, 0},
    {"pointwise", TERP_BOUND_POINTWISE, 1e-7, 0},
    {"floor", TERP_BOUND_POINTWISE, 0.5, 1e-30},
    {"floor", TERP_BOUND_POINTWISE, 1e-2, 1},
    {"floor", TERP_BOUND_POINTWISE, 1e-3, 1e-3},
    {"floor", TERP_BOUND_POINTWISE, 1e-4, 1e-37},
    {"floor", TERP_BOUND_POINTWISE, 1e-5, 1e10},
    {"lossless", TERP_BOUND_ABSOLUTE, 0, 0},
};
#define EXHAUSTIVE_NCASES \
    ((int)(sizeof exhaustive_cases / sizeof exhaustive_cases[0]))

/* Runs: consecutive float32 patterns. Combs: each chunk has float32 of all
 * magnitudes and both signs. Wide: combs of float64 with random mantissas. */
enum exhaustive_layout {
    RUNS,
    COMBS,
    WIDE,
    NLAYOUTS
};
static const char *const exhaustive_layout_names[NLAYOUTS] = {
    "float32, runs", "float32, combs", "float64, combs"};

/* The bits of value i of chunk c. `random` must depend on both. */
static inline TERP_HOST_DEVICE uint64_t
exhaustive_pattern(enum exhaustive_layout layout, uint64_t c, uint64_t i,
                   uint64_t random)
{
    if (layout == RUNS)
        return c * CHUNK_NVALUES + i;
    if (layout == COMBS)
        return i * NCHUNKS + c;
    return i / MANTISSAS_PER_CHUNK << 52 | (random & 1) << 63 |
           (random >> 12 & ((UINT64_C(1) << 52) - 1));
}

/* The absolute bound of a chunk whose finite values are from `min` to `max`; 0
 * for a pointwise bound without a floor. */
static inline TERP_HOST_DEVICE double
exhaustive_bound(const struct exhaustive_case *how, double min, double max)
{
    if (how->bound_mode == TERP_BOUND_ABSOLUTE)
        return how->bound;
    if (how->bound_mode == TERP_BOUND_POINTWISE)
        return how->floor;
    const double bound = min / 2 < max / 2 && max / 2 - min / 2 > 0x1p1021
                             ? (max / 2 - min / 2) * how->bound * 2
                             : (max - min) * how->bound;
    return min > max ? 0 : bound < 0x1p1023 ? bound : 0x1p1023;
}

static inline TERP_HOST_DEVICE bool
exhaustive_is_kept(const struct exhaustive_case *how, enum terp_type type,
                   uint64_t bits, uint64_t got_bits, double bound)
{
    const double value = value_of_bits(type, bits);
    const double got = value_of_bits(type, got_bits);

    if (bits == got_bits)
        return true;
    if (!bits_are_finite(type, bits) || !bits_are_finite(type, got_bits) ||
        how->bound == 0)
        return false;
    if (how->bound_mode == TERP_BOUND_POINTWISE &&
        is_within_pointwise(value, got, how->bound))
        return true;
    return bound > 0 && is_within(value, got, bound);
}
