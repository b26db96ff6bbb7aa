/* The section of remainders: what values of the lossless prediction have below
 * their integers. doc/format.md, "Remainders". */
#pragma once

#include "cpu/predict/predictor.h"

struct cpu_remainders_section {
    const uint8_t *at;
    uint64_t nbytes;
};

/* Writes the section of quantized values. TERP_ERR_MEMORY or TERP_OK; the
 * writer tells whether it fits. */
enum terp_status
terp_cpu_remainders_write(const struct cpu_prediction *lossless,
                          struct writer *writer);

/* Passes over the section. TERP_ERR_CORRUPT unless the stream has one. */
enum terp_status
terp_cpu_remainders_read(struct reader *reader,
                         struct cpu_remainders_section *section_ret);

/* Values of integers and remainders; those of special points are anything.
 * TERP_ERR_MEMORY; TERP_ERR_CORRUPT where the section is longer or shorter than
 * the integers ask for. */
enum terp_status
terp_cpu_remainders_place(const struct cpu_prediction *lossless,
                          const struct cpu_remainders_section *section,
                          void *values);
