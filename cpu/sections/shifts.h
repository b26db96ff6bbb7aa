/* The section of shifts: groups of the lossless prediction's differences, and
 * the bits of these below their codes. doc/format.md, "Shifts". */
#pragma once

#include "cpu/predict/predictor.h"

/* Where a stream holds its groups. */
struct cpu_shifts_section {
    const uint8_t *shifts; /* NULL: all are 0 */
    const uint8_t *zeros;  /* the same */
    const uint8_t *at;
};

/* Chooses the shift of each group of differences, makes their symbols, and
 * writes the section. A difference that escapes stays at its symbol's index.
 * TERP_ERR_MEMORY or TERP_OK; the writer tells whether the section fits. */
enum terp_status
terp_cpu_shifts_write(struct cpu_prediction *lossless, struct writer *writer);

/* Skips the section of `nvalues` values that are not special. TERP_ERR_CORRUPT
 * if it is not valid. */
enum terp_status
terp_cpu_shifts_read(struct reader *reader, int value_nbytes, uint64_t nvalues,
                     struct cpu_shifts_section *section_ret);

/* Joins codes with the bits below them, and writes them to `work`, where the
 * predictor reads differences. Special points and escapes get any value.
 * TERP_ERR_MEMORY, or TERP_OK. */
enum terp_status
terp_cpu_shifts_place(const struct cpu_prediction *lossless,
                      const struct cpu_shifts_section *section);
