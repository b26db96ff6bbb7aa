/* The section of remainders: the bits of values that the integers of the
 * lossless prediction do not hold. doc/format.md, "Remainders". */
#pragma once

#include "cpu/predict/predictor.h"

struct cpu_remainders_section {
    const uint8_t *at;
    uint64_t nbytes;
};

/* Writes the section from quantized values. TERP_ERR_MEMORY or TERP_OK; the
 * writer tells whether the section fits. */
enum terp_status
terp_cpu_remainders_write(const struct cpu_prediction *lossless,
                          struct writer *writer);

/* Skips the section. TERP_ERR_CORRUPT if it is not valid. */
enum terp_status
terp_cpu_remainders_read(struct reader *reader,
                         struct cpu_remainders_section *section_ret);

/* Makes values from integers and remainders; special points get any value.
 * TERP_ERR_MEMORY, or TERP_ERR_CORRUPT if the section is longer or shorter than
 * the integers require. */
enum terp_status
terp_cpu_remainders_place(const struct cpu_prediction *lossless,
                          const struct cpu_remainders_section *section,
                          void *values);
