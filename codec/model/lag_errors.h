/* The errors of interpolation over a lag at sampled values: the part of the
 * search for a chunk's domain that depends on the type of values. */
#pragma once

#include "codec/model/domain.h"
#include "codec/model/value.h"

/* A NaN means an unknown error. */
TERP_INLINE uint8_t
lag_error_of(double error, double inverse_step)
{
    return error >= 0 ? terp_lag_error_of(error * inverse_step)
                      : TERP_LAG_ERROR_UNKNOWN;
}

/* The errors at the value at `at`. A neighbour that does not exist or is
 * special makes the error unknown. */
TERP_TYPED(T)
TERP_INLINE struct terp_lag_errors
lag_errors_of(const T *values, uint64_t nvalues, const TERP_WORD *fills,
              uint64_t at, uint64_t lag, double inverse_step)
{
    const bool has_b = at >= lag, has_c = lag < nvalues - at;
    const double v = value_or_nan(values, fills, true, at);
    const double b = value_or_nan(values, fills, has_b, at - lag);
    const double c = value_or_nan(values, fills, has_c, at + lag);
    const double a = value_or_nan(values, fills, at / 3 >= lag, at - 3 * lag);
    const double d = value_or_nan(
        values, fills, has_c && lag < (nvalues - at + 2) / 3, at + 3 * lag);
    struct terp_lag_errors errors;

    errors.linear = lag_error_of(fabs(v - (b + c) * 0.5), inverse_step);
    errors.cubic =
        lag_error_of(fabs(v - (9 * (b + c) - (a + d)) * 0.0625), inverse_step);
    errors.copy = lag_error_of(fabs(v - b), inverse_step);
    return errors;
}

TERP_TYPED(T)
TERP_INLINE void
lag_errors_of_samples(const T *values, uint64_t nvalues, const TERP_WORD *fills,
                      uint64_t lag, uint64_t set, double inverse_step,
                      struct terp_lag_errors *errors_ret)
{
    for (uint64_t i = 0; i < TERP_DOMAIN_NSAMPLES; i++)
        errors_ret[i] = lag_errors_of(values, nvalues, fills,
                                      terp_domain_sample_at(nvalues, set, i),
                                      lag, inverse_step);
}
