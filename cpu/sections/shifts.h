/* The section of shifts: groups of the lossless prediction's differences, with
 * what of these is below their codes. doc/format.md, "Shifts". */
#pragma once

#include "cpu/predict/predictor.h"

/* Where a stream has its groups. */
struct cpu_shifts_section {
    const uint8_t *shifts; /* NULL: all are 0 */
    const uint8_t *zeros;  /* the same */
    const uint8_t *at;
};

/* Chooses the shift of each group of differences, makes their symbols, and
 * writes the section. What escapes stays beside its symbol. TERP_ERR_MEMORY or
 * TERP_OK; the writer tells whether it fits. */
enum terp_status
terp_cpu_shifts_write(struct cpu_prediction *lossless, struct writer *writer);

/* Passes over the section of so many values that are not special.
 * TERP_ERR_CORRUPT unless the stream has one. */
enum terp_status
terp_cpu_shifts_read(struct reader *reader, int value_nbytes, uint64_t nvalues,
                     struct cpu_shifts_section *section_ret);

/* Codes and what is below them to where differences will be; those of special
 * points and escapes are anything. TERP_ERR_MEMORY, or TERP_OK. */
enum terp_status
terp_cpu_shifts_place(const struct cpu_prediction *lossless,
                      const struct cpu_shifts_section *section);
