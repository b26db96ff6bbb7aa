/* Weighs a sample under a tight bound. A lossless stream gains from two things
 * that a stream under a bound does not use: differences of values may end in
 * zeros, and values may be left out that fill long runs. */
#include "codec/model/tight.h"

#include <float.h>

#include "codec/model/range.h"

#define N TERP_GRID_NSAMPLES

/* A value of at least one sample in this many is common. */
#define COMMON_ONE_IN 8

/* Differences end in zeros if at least this many are known, and all but one in
 * MISFIT_ONE_IN are whole multiples of a unit. */
#define MIN_NDIFFERENCES 32
#define MISFIT_ONE_IN 4

/* Where a value is common, the step is smaller than 2^MAX_NBITS units in the
 * last place of the largest value. */
#define MAX_NBITS 4

/* No unit: less than the exponent of any double. */
#define NO_UNIT (-2000)

/* The exponent of the lowest bit of a double that is set; the double is
 * normal. */
static int
lowest_exponent(double x)
{
    const uint64_t bits = double_bits(x);
    const uint64_t digits = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1)
                                                                     << 52;

    return (int)(bits >> 52 & 0x7FF) - 1023 - 52 + __builtin_ctzll(digits);
}

static int
exponent_of(double x)
{
    return (int)(double_bits(x) >> 52 & 0x7FF) - 1023;
}

/* Finds the most frequent key. Returns how often it occurs, and whether at
 * least as many keys in COMMON_ONE_IN are below it, and above it. */
static int
find_common(const uint64_t *keys, uint64_t *key_ret, bool *is_inner_ret)
{
    uint64_t sorted[N], buffer[N];
    int most = 0;

    memcpy(sorted, keys, sizeof sorted);
    terp_ranks_sort(N, 8, sorted, buffer, NULL, NULL);
    for (int first = 0, end; first < N; first = end) {
        for (end = first + 1; end < N && sorted[end] == sorted[first]; end++)
            continue;
        if (end - first <= most)
            continue;
        most = end - first;
        *key_ret = sorted[first];
        *is_inner_ret =
            first >= N / COMMON_ONE_IN && N - end >= N / COMMON_ONE_IN;
    }
    return most;
}

/* Differences between neighbouring samples may be multiples of a power of two.
 * Returns its exponent, or NO_UNIT. Samples that are infinite, NaN or the
 * common value do not count. */
static int
find_unit(const double *values, const bool *counts)
{
    int exponents[N], n = 0;

    for (int i = 1; i < N; i++) {
        const double a = values[i - 1], b = values[i], d = b - a;
        if (!counts[i - 1] || !counts[i] || d == 0)
            continue;
        /* The last bits of a rounded difference tell nothing. */
        const bool is_exact = a + d == b && b - d == a && d >= -DBL_MAX &&
                              d <= DBL_MAX && exponent_of(d) > -1023;
        const int exponent = is_exact ? lowest_exponent(d) : NO_UNIT;
        int at = n++;
        for (; at > 0 && exponents[at - 1] > exponent; at--)
            exponents[at] = exponents[at - 1];
        exponents[at] = exponent;
    }
    return n < MIN_NDIFFERENCES ? NO_UNIT : exponents[n / MISFIT_ONE_IN];
}

bool
terp_tight_may_be_lossless(enum terp_type type, double bound,
                           const uint64_t *keys)
{
    const int nbytes = terp_value_nbytes(type);
    const double step = 2 * bound;
    double values[N], largest = 0;
    bool counts[N], is_inner = false;
    uint64_t common = 0;
    const bool has_common =
        find_common(keys, &common, &is_inner) >= N / COMMON_ONE_IN;

    if (!is_bound(step))
        return false;
    for (int i = 0; i < N; i++) {
        const double x =
            terp_rank_float(nbytes, terp_rank_float_bits(nbytes, keys[i]));
        const double magnitude = x < 0 ? -x : x;
        values[i] = x;
        counts[i] = magnitude <= DBL_MAX && !(has_common && keys[i] == common);
        if (counts[i] && magnitude > largest)
            largest = magnitude;
    }
    if (largest == 0)
        return false;
    const int step_exponent = exponent_of(step);
    const int of_last = exponent_of(largest) - terp_mantissa_nbits(nbytes);
    return (has_common && is_inner && step_exponent < of_last + MAX_NBITS) ||
           step_exponent < find_unit(values, counts);
}
