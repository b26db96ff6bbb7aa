/* Converts values to the numbers that are coded under a pointwise bound
 * (logarithms, or rounded values), and converts the numbers to values. */
#pragma once

#include "codec/model/pointwise.h"
#include "cpu/pool/pool.h"
#include "cpu/predict/stages.h"

/* Loops over values of one type. */
struct cpu_pointwise_stages {
    void (*magnitudes)(const void *values, uint64_t nvalues,
                       const struct cpu_fills *fills,
                       struct terp_magnitudes *magnitudes_ret);

    /* Makes the coded values, by terp_pointwise_form. Special and tiny values
     * become NaN. */
    void (*code[TERP_NPOINTWISE_FORMS])(const void *values, uint64_t nvalues,
                                        const struct cpu_fills *fills,
                                        const struct terp_pointwise *how,
                                        void *coded);

    /* Makes the logarithms for a bound with a floor. Special values become
     * NaN. */
    void (*code_floored[TERP_NPOINTWISE_FORMS])(
        const void *values, uint64_t nvalues, const struct cpu_fills *fills,
        const struct terp_pointwise *how, void *coded);

    /* Makes magnitudes from coded values. They may overwrite coded values of
     * the same type. NULL for forms that code the values themselves. */
    void (*decode[TERP_NPOINTWISE_FORMS])(const void *coded, uint64_t nvalues,
                                          int center, void *values);
    void (*decode_floored[TERP_NPOINTWISE_FORMS])(
        const void *coded, uint64_t nvalues,
        const struct terp_pointwise_head *head, void *values);

    /* Sets bit i of `signs` (64 a word) if value i is negative. A special or
     * tiny value repeats the sign of the value before it. */
    void (*signs)(const void *values, uint64_t nvalues,
                  const struct cpu_fills *fills, uint64_t *signs);
    /* `signs` NULL: all values are negative. */
    void (*negate)(const uint64_t *signs, uint64_t nvalues, void *values);
};

extern const struct cpu_pointwise_stages terp_cpu_pointwise_f32,
    terp_cpu_pointwise_f64;

/* A chunk's values, for these loops. */
struct cpu_pointwise {
    struct cpu_pool *pool;
    enum terp_type type;
    uint64_t nvalues;
    const struct cpu_fills *fills; /* encoding only */
};

void
terp_cpu_pointwise_measure(const struct cpu_pointwise *chunk,
                           const void *values,
                           struct terp_magnitudes *magnitudes_ret);

/* Makes the coded values. `stats_ret` describes them; special values are
 * NaN. */
void
terp_cpu_pointwise_code(const struct cpu_pointwise *chunk, const void *values,
                        const struct terp_pointwise *how, void *coded,
                        struct cpu_stats *stats_ret);

/* The limit of coded values that `limit`, a high or a low one, becomes;
 * infinite if coded values need no limit. Without a floor, `limit` is a
 * magnitude. */
struct terp_limit
terp_cpu_pointwise_limit(enum terp_type type, const struct terp_pointwise *how,
                         const struct terp_pointwise_head *head, double limit,
                         bool is_low);

/* Makes values from coded values. `signs` is needed for TERP_SIGNS_MIXED. With
 * a mask, special values may be left unset. */
void
terp_cpu_pointwise_decode(const struct cpu_pointwise *chunk,
                          const struct terp_pointwise_head *head,
                          const uint64_t *mask, const uint64_t *signs,
                          const void *coded, void *values);

/* Finds the signs of values, div_up(nvalues, 64) words. */
void
terp_cpu_pointwise_signs(const struct cpu_pointwise *chunk, const void *values,
                         uint64_t *signs);
