/* A chunk under a bound relative to each value: its logarithms, or rounded
 * values, and back. */
#pragma once

#include "codec/model/pointwise.h"
#include "cpu/pool/pool.h"
#include "cpu/predict/stages.h"

/* Loops over values of one type. */
struct cpu_pointwise_stages {
    void (*magnitudes)(const void *values, uint64_t nvalues,
                       const struct cpu_fills *fills,
                       struct terp_magnitudes *magnitudes_ret);

    /* What is coded instead of values, by terp_pointwise_form: NaN for those
     * that are special or tiny. */
    void (*code[TERP_NPOINTWISE_FORMS])(const void *values, uint64_t nvalues,
                                        const struct cpu_fills *fills,
                                        const struct terp_pointwise *how,
                                        void *coded);

    /* The same with a floor, where logarithms are; NaN for those that are
     * special. */
    void (*code_floored[TERP_NPOINTWISE_FORMS])(
        const void *values, uint64_t nvalues, const struct cpu_fills *fills,
        const struct terp_pointwise *how, void *coded);

    /* The magnitudes of what was coded, which may stand in the same place if
     * it is of the same type; NULL where values were. */
    void (*decode[TERP_NPOINTWISE_FORMS])(const void *coded, uint64_t nvalues,
                                          int center, void *values);
    void (*decode_floored[TERP_NPOINTWISE_FORMS])(
        const void *coded, uint64_t nvalues,
        const struct terp_pointwise_head *head, void *values);

    /* Bit i of `signs`, 64 a word: value i is negative. A special or tiny one
     * takes the sign of the value before it. */
    void (*signs)(const void *values, uint64_t nvalues,
                  const struct cpu_fills *fills, uint64_t *signs);
    /* `signs` NULL: all are negative. */
    void (*negate)(const uint64_t *signs, uint64_t nvalues, void *values);
};

extern const struct cpu_pointwise_stages terp_cpu_pointwise_f32,
    terp_cpu_pointwise_f64;

/* A chunk's values, and what they are to these loops. */
struct cpu_pointwise {
    struct cpu_pool *pool;
    enum terp_type type;
    uint64_t nvalues;
    const struct cpu_fills *fills; /* encode */
};

void
terp_cpu_pointwise_measure(const struct cpu_pointwise *chunk,
                           const void *values,
                           struct terp_magnitudes *magnitudes_ret);

/* `stats_ret` is of what is coded, where special ones are NaN. */
void
terp_cpu_pointwise_code(const struct cpu_pointwise *chunk, const void *values,
                        const struct terp_pointwise *how, void *coded,
                        struct cpu_stats *stats_ret);

/* What `limit`, which is a high or a low one, is for what is coded: infinite
 * where that has no limit. Without a floor it is a magnitude. */
struct terp_limit
terp_cpu_pointwise_limit(enum terp_type type, const struct terp_pointwise *how,
                         const struct terp_pointwise_head *head, double limit,
                         bool is_low);

/* `signs` is for TERP_SIGNS_MIXED. With a mask special values may be left as
 * they are. */
void
terp_cpu_pointwise_decode(const struct cpu_pointwise *chunk,
                          const struct terp_pointwise_head *head,
                          const uint64_t *mask, const uint64_t *signs,
                          const void *coded, void *values);

/* The bits of their signs, div_up(nvalues, 64) words. */
void
terp_cpu_pointwise_signs(const struct cpu_pointwise *chunk, const void *values,
                         uint64_t *signs);
