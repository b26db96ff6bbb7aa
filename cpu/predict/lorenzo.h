/* The Lorenzo predictor with dual quantization (Tian et al., "cuSZ",
 * PACT 2020): values become integers first, then differences of integers,
 * which are exact. Differences do not see special points: along a dimension
 * each is to the last point before it that is not special. Where no point is,
 * means may take the place of differences along the slowest dimension. */
#ifndef TERP_CPU_PREDICT_LORENZO_H
#define TERP_CPU_PREDICT_LORENZO_H

#include "codec/api/terp_status.h"
#include "cpu/pool/pool.h"
#include "cpu/predict/stages.h"

struct cpu_lorenzo {
    const struct cpu_stages *stages;
    const struct terp_layout *layout;
    struct cpu_pool *team;
    struct cpu_quantizer quantizer;
    /* Along which differences are taken, bit 0 the fastest; quantizing adds
     * TERP_LORENZO_MEANS where it takes these. */
    unsigned dims;
};

/* Values to `levels` (integers of the values' width) and symbols. Values
 * that the integers do not reproduce join the special ones in `mask`; the
 * number of these is added to *nspecials. Escaped differences stay in
 * `levels`. */
void
terp_cpu_lorenzo_quantize(struct cpu_lorenzo *lorenzo, const void *values,
                          uint64_t *mask, uint64_t *nspecials, void *levels,
                          uint16_t *symbols);

/* Symbols, and escaped differences in `levels`, to values; those of special
 * points do not count. `mask` is NULL when there are none. */
void
terp_cpu_lorenzo_reconstruct(const struct cpu_lorenzo *lorenzo,
                             const uint64_t *mask, const uint16_t *symbols,
                             void *levels, void *values);

#endif
