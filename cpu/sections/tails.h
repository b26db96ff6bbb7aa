/* The section of tails: the bits of lorenzo's differences below their codes.
 * doc/format.md, "Tails". */
#pragma once

#include "cpu/predict/predictor.h"

/* Where a stream holds its tails. */
struct cpu_tails_section {
    const uint8_t *widths; /* a byte per group */
    const uint8_t *at;
};

/* Writes the tails of quantized differences. TERP_ERR_MEMORY or TERP_OK; the
 * writer tells whether they fit. */
enum terp_status
terp_cpu_tails_write(const struct cpu_prediction *lorenzo,
                     struct writer *writer);

/* Skips the section. TERP_ERR_CORRUPT if it is not valid. */
enum terp_status
terp_cpu_tails_read(struct reader *reader, int tail_nbits, uint64_t nvalues,
                    struct cpu_tails_section *section_ret);

/* Writes tails to `work`, where the predictor reads them. TERP_ERR_MEMORY, or
 * TERP_OK. */
enum terp_status
terp_cpu_tails_place(const struct cpu_prediction *lorenzo,
                     const struct cpu_tails_section *section);
